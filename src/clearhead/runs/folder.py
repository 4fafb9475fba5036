"""Our folder and its relatives: `save` writes config.json and model.safetensors, `load` reads them and foreign ones."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import torch

from ..convert import described, open_weights, read_json, read_state, recognise, write_safetensors, write_state
from ..convert.rules import Dialect
from ..convert.tensors import Weights
from ..errors import ClearheadError, near
from ..models import FAMILIES, Family, Model, Origin, names
from ..models.registry import as_device, as_dtype, refuse_if_too_large
from .adapt import adapted
from .bare_file import named
from .labels import KEPT, beside, config_values
from .places import located
from .skeleton import check_depth, skeleton

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
    changes  num_classes or image of a ViT, where they are to differ from the file's: what is made new is said;
             with `arch`, other fields say how the file's architecture differs from the name's
    """
    place = located(path)
    if not os.path.exists(place):
        known = " (that is a model's name: `create` makes it with random weights)" if str(path) in names() else ""
        raise ClearheadError(f"there is no folder, file or model '{path}'{known or near(str(path), names())}")
    goes_to, becomes = as_device(device), None if dtype == "auto" else as_dtype(dtype)
    weights = open_weights(place)
    family, config, dialect = config_of(place, weights) if arch is None else named(arch, weights, changes)
    state, notes = read_state(weights, dialect, skeleton(family, config))
    model = skeleton(family, config.with_changes(**changes))
    state, more = adapted(state, config, model, changes)
    classes, wrong = beside(place, config, model.config) if arch is None else (None, [])
    more += wrong
    for note in (*notes, *more):
        log.warning("%s: %s", path, note)
    becomes = becomes or next(iter(state.values())).dtype
    refuse_if_too_large(str(path), model.to(becomes))
    model.load_state_dict({name: tensor.to(becomes) for name, tensor in state.items()}, assign=True)
    model.reset_buffers()
    model.origin = Origin(place.name, folder=str(place), notes=(*notes, *more))
    setattr(model, KEPT, classes)
    return model.to(goes_to, becomes).eval()


def config_of(place: Path, weights: Weights) -> tuple[Family, Any, Dialect]:
    """Family, config and tensor names by the config.json beside the weights."""
    file = (place if place.is_dir() else place.parent) / "config.json"
    if not file.exists():
        raise ClearheadError(f"{place} has no config.json beside it: name its architecture, as in arch='vit-b16'")
    name, format, config = recognise(read_json(file))
    check_depth(config, weights)
    config = format.settled(config, weights)
    return FAMILIES[name], config, format.dialect(config)


def save(model: Model, folder: str | os.PathLike[str], **parts: Any) -> Path:
    """Write config.json and model.safetensors, and `parts` that save themselves (tokenizer, preprocessor).

    What Hugging Face's form can say is written in it, and transformers loads the folder; the rest is in our own form.
    """
    place = Path(folder)
    values, dialect = described(model)
    aside = place / "config.json.part"
    try:
        place.mkdir(parents=True, exist_ok=True)
        write_safetensors(place / "model.safetensors", write_state(model, dialect), {"format": "pt"})
        aside.write_text(json.dumps(values | config_values(model), indent=2) + "\n", encoding="utf-8")
        aside.replace(place / "config.json")
    except OSError as problem:
        raise ClearheadError(f"{place} could not be written: {problem.strerror}") from None
    for part in parts.values():
        part.save(place)
    return place
