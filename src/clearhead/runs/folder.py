"""Our folder and its relatives: `save` writes config.json and model.safetensors, `load` reads them and foreign ones."""

import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..convert import described, open_weights, read_json, read_state, recognise, write_safetensors, write_state
from ..convert.formats import OWN, TIMM, hugging_face_format
from ..convert.rules import Dialect
from ..convert.tensors import Weights
from ..errors import ClearheadError, near
from ..models import FAMILIES, Config, Family, Model, Origin, find, names
from ..models.registry import as_device, as_dtype, on_meta
from .adapt import adapted
from .hub import downloaded

log = logging.getLogger("clearhead")


def load(
    path: str | os.PathLike[str],
    *,
    arch: str | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "float32",
    **changes: Any,
) -> Model:
    """A model with its weights, in eval mode, from our folder, a Hugging Face or timm folder, or a weights file.

    path     a folder with config.json; a bare weights file with `arch`; `hf:owner/name` fetches from the hub
    dtype    what the weights become; "auto" keeps the file's own
    changes  fields of the config that are to differ, such as num_classes or image of a ViT: what is made new is said
    """
    place = Path(downloaded(str(path)) if str(path).startswith("hf:") else path)
    if not place.exists():
        known = " (that is a model's name: `create` makes it with random weights)" if str(path) in names() else ""
        raise ClearheadError(f"there is no folder, file or model '{path}'{known or near(str(path), names())}")
    weights = open_weights(place)
    family, config, dialect = _architecture(place, weights, arch)
    skeleton = on_meta(family, config)
    state, notes = read_state(weights, dialect, skeleton)
    model = on_meta(family, config.with_changes(**changes))
    state, more = adapted(state, config, model)
    for note in (*notes, *more):
        log.warning("%s: %s", path, note)
    kind = next(iter(state.values())).dtype if dtype == "auto" else as_dtype(dtype)
    model.load_state_dict({name: tensor.to(kind) for name, tensor in state.items()}, assign=True)
    model.reset_buffers()
    model.origin = Origin(place.name, folder=str(place), notes=(*notes, *more))
    return model.to(as_device(device), kind).eval()


def _architecture(place: Path, weights: Weights, arch: str | None) -> tuple[Family, Any, Dialect]:
    """Family, config and tensor names: from config.json where there is one, else from the name the caller gives."""
    config_file = (place if place.is_dir() else place.parent) / "config.json"
    if arch is None:
        if not config_file.exists():
            raise ClearheadError(f"{place} has no config.json beside it: name its architecture, as in arch='vit-b16'")
        name, format, config = recognise(read_json(config_file))
        return FAMILIES[name], config, format.dialect(config)
    family, config = find(arch)
    return family, config, _dialect_of_bare_file(family, config, weights)


def _dialect_of_bare_file(family: Family, config: Config, weights: Weights) -> Dialect:
    """Whose names a bare file uses: the dialect that knows most of them."""
    model = on_meta(family, config)
    theirs, _ = hugging_face_format(model)
    formats = [OWN[family.name], *([theirs] if theirs else []), *([TIMM] if TIMM.family == family.name else [])]
    dialects = [format.dialect(config) for format in formats]
    return max(dialects, key=lambda dialect: sum(name in weights for rule in dialect.rules for name in rule.theirs))


def save(model: Model, folder: str | os.PathLike[str], **parts: Any) -> Path:
    """Write config.json and model.safetensors, and `parts` that save themselves (tokenizer, preprocessor).

    GPT-2, GPT and ViT are written in Hugging Face's form where it can say them; transformers then loads the folder.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    values, dialect = described(model)
    write_safetensors(place / "model.safetensors", write_state(model, dialect), {"format": "pt"})
    aside = place / "config.json.part"
    aside.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    aside.replace(place / "config.json")
    for part in parts.values():
        part.save(place)
    model.origin = replace(model.origin, folder=str(place))
    return place
