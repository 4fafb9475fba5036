"""A format: how one other library says a family's architecture and names its tensors."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ..models import Config
from .rules import Dialect
from .tensors import Weights


class Format:
    """`model_type` and `architecture` are what config.json says; `family` is ours."""

    model_type: ClassVar[str]
    family: ClassVar[str]
    architecture: ClassVar[str]

    def read_config(self, values: dict[str, Any]) -> Any:
        """Our config out of their config.json, or an error that names the field which stops it."""
        raise NotImplementedError

    def settled(self, config: Any, weights: Weights) -> Any:
        """The config as the file itself settles it, where config.json leaves something to it."""
        return config

    def unsayable(self, config: Any) -> str | None:
        """The first field of ours that their form can't say, if there is one."""
        raise NotImplementedError

    def write_config(self, config: Any) -> dict[str, Any]:
        """Their config.json's fields; only for a config with nothing unsayable."""
        raise NotImplementedError

    def dialect(self, config: Any) -> Dialect:
        """How their files name the tensors of a model of this config."""
        raise NotImplementedError

    @staticmethod
    def first_different(config: Config, plain: Mapping[str, Any]) -> str | None:
        return next((name for name, value in plain.items() if getattr(config, name) != value), None)
