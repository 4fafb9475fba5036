"""Which format a config.json is in, and which one a model is written in."""

from dataclasses import fields
from typing import Any

from ..errors import ClearheadError, near, shown
from ..models import FAMILIES, Config, Model
from .bert import BERTFormat
from .fields import check_kind
from .format import Format
from .gpt import GPT1Format, GPT2Format
from .marian import MarianFormat
from .rules import Dialect, same
from .t5 import T5Format
from .timm import TimmViT
from .vit import HuggingFaceViT

FORMAT_VERSION = 1
HUGGING_FACE: tuple[Format, ...] = (
    GPT2Format(),
    GPT1Format(),
    BERTFormat(),
    MarianFormat(),
    T5Format(),
    HuggingFaceViT(),
)
TIMM = TimmViT()


class OwnFormat(Format):
    """Our own names, for what no other library's form can say. transformers refuses such a folder, as it should."""

    def __init__(self, family: str) -> None:
        self.name = family
        self.type = f"clearhead-{family}"

    def read_config(self, values: dict[str, Any]) -> Config:
        own = values.get("clearhead")
        if not isinstance(own, dict) or not isinstance(own.get("config"), dict):
            raise ClearheadError(f"config.json: model_type {self.type} needs the key 'clearhead' with a 'config' in it")
        kind, values = FAMILIES[self.name].config, own["config"]
        for field in fields(kind):
            check_kind(field.name, values.get(field.name, field.default), field.default)
        try:
            return kind.from_dict(values)
        except TypeError as problem:  # such as an object where a size belongs
            raise ClearheadError(f"config.json: the key 'clearhead' describes no model: {shown(problem)}") from None

    def dialect(self, config: Config) -> Dialect:
        from ..models.registry import on_meta

        return Dialect([same(name, name) for name, _ in on_meta(FAMILIES[self.name], config).named_parameters()])


OWN = {name: OwnFormat(name) for name in FAMILIES}


def recognise(values: dict[str, Any]) -> tuple[str, Format, Any]:
    """config.json -> (our family, its format, our config)."""
    check_version(values)
    kind = values.get("model_type")
    if kind is None and "architecture" in values:
        return TIMM.family, TIMM, TIMM.read_config(values)
    for format in HUGGING_FACE:
        if format.model_type == kind:
            return format.family, format, format.read_config(values)
    for name, own in OWN.items():
        if own.type == kind:
            return name, own, own.read_config(values)
    known = [format.model_type for format in HUGGING_FACE] + [own.type for own in OWN.values()]
    raise ClearheadError(
        f"config.json: model_type {shown(repr(kind), 80)} is not one that clearhead reads ({', '.join(known)})"
        f"{near(str(kind), known)}"
    )


def check_version(values: dict[str, Any]) -> None:
    own = values.get("clearhead")
    version = own.get("format_version") if isinstance(own, dict) else FORMAT_VERSION
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ClearheadError(
            f"config.json: format version {shown(repr(version), 80)} is unknown to this clearhead, which reads up to "
            f"{FORMAT_VERSION}: update it"
        )


def hugging_face_format(model: Model) -> tuple[Format | None, str | None]:
    """The Hugging Face form that says all of this model, or the field of its config that none of them can say."""
    stops: str | None = None
    for format in HUGGING_FACE:
        if format.family == model.family:
            field = format.unsayable(model.config)
            if field is None:
                return format, None
            stops = stops or field
    return None, stops


def described(model: Model) -> tuple[dict[str, Any], Dialect]:
    """The config.json and the tensor names a model is saved with: Hugging Face's where they can say it, else ours."""
    format, _ = hugging_face_format(model)
    if format is not None:
        values = {
            "architectures": [format.architecture],
            "model_type": format.model_type,
            **format.write_config(model.config),
        }
        return values | {"clearhead": {"format_version": FORMAT_VERSION}}, format.dialect(model.config)
    own = OWN[model.family]
    return {
        "model_type": own.type,
        "clearhead": {"format_version": FORMAT_VERSION, "config": model.config.to_dict()},
    }, own.dialect(model.config)
