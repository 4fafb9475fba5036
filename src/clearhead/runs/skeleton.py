"""A model without memory, for a config that nobody has checked against anything yet."""

from ..convert.tensors import Weights
from ..errors import ClearheadError
from ..models import Config, Family, Model
from ..models.registry import on_meta


def check_depth(config: Config, weights: Weights) -> None:
    """A made-up depth must not be built, not even without memory: every layer has at least one tensor in the file."""
    for name, value in config.to_dict().items():
        if name.endswith("layers") and value is not None and value > len(weights):
            raise ClearheadError(f"{weights.path} holds {len(weights)} tensors, too few for {name} = {value:,}")


def skeleton(family: Family, config: Config) -> Model:
    try:
        return on_meta(family, config)
    except RuntimeError:  # torch counts a tensor's bytes in 64 bits
        raise ClearheadError("the config asks for tensors larger than any memory: look at its sizes") from None
