"""Weights without a config.json: a model's name says what they are, and the file says the rest."""

import math
from collections.abc import Mapping
from typing import Any

from ..convert import hugging_face_format
from ..convert.format import Format
from ..convert.formats import OWN, TIMM
from ..convert.google import GOOGLE
from ..convert.rules import Dialect, names_in
from ..convert.tensors import Weights
from ..errors import ClearheadError
from ..models import Config, Family, find
from ..models.vit import Size, ViTConfig
from .adapt import ADAPTABLE, POSITIONS
from .skeleton import check_depth, skeleton


def named(arch: str, weights: Weights, changes: Mapping[str, Any]) -> tuple[Family, Any, Dialect]:
    """Family, config and tensor names of a file. What of `changes` can't be adapted to describes the file."""
    family, config = find(arch)
    said = {name: value for name, value in changes.items() if name not in ADAPTABLE}
    if isinstance(config, ViTConfig):
        said |= _image_to_start_with(config, changes)
    config = config.with_changes(**said)
    check_depth(config, weights)
    format = _whose_names(family, config, weights)
    config = format.settled(config, weights)
    if isinstance(config, ViTConfig) and format is not GOOGLE:  # which settles all of it
        config = _as_in_file(config, weights, format.dialect(config), changes.get("image"))
    return family, config, format.dialect(config)


def _whose_names(family: Family, config: Config, weights: Weights) -> Format:
    """The format that knows most of the names in the file."""
    theirs, _ = hugging_face_format(skeleton(family, config))
    formats: list[Format] = [*([theirs] if theirs else []), *([TIMM, GOOGLE] if family.name == TIMM.family else [])]
    formats.append(OWN[family.name])
    known = {format: _known_names(weights, format.dialect(config)) for format in formats}
    best = max(formats, key=lambda format: known[format])
    if not known[best]:
        raise ClearheadError(f"{weights.path} has no tensor that a {family.name} model would have: name another arch")
    return best


def _known_names(weights: Weights, dialect: Dialect) -> int:
    found, _ = names_in(weights, dialect)
    return len(dialect.names & found.keys())


def _image_to_start_with(config: ViTConfig, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Where positions are learned the file will say the image's size; until then one patch is enough of it."""
    if changes.get("positions", config.positions) == "learned":
        return {"image": changes.get("patch", config.patch)}
    return {"image": changes.get("image", config.image)}


def _as_in_file(config: ViTConfig, weights: Weights, dialect: Dialect, image: Size | None) -> ViTConfig:
    """As many classes as the head has rows, as many patches as there are positions: in a square, else as `image`."""
    shapes = _shapes_of_matrices(weights, dialect)
    if "output.weight" in shapes:
        config = config.with_changes(num_classes=shapes["output.weight"][0])
    if POSITIONS in shapes:
        patches = shapes[POSITIONS][-2] - (config.pooling == "cls")
        side = math.isqrt(max(patches, 0))
        if side and side * side == patches:
            (high, wide), (down, along) = config.patch, config.step  # pyright: ignore[reportGeneralTypeIssues]
            image = high + (side - 1) * down, wide + (side - 1) * along
        config = config.with_changes(image=image or config.image)
        if math.prod(config.grid) != patches:
            raise ClearheadError(
                f"{weights.path} has positions for {patches} patches, which is no square: give image=(height, width)"
            )
    return config


def _shapes_of_matrices(weights: Weights, dialect: Dialect) -> dict[str, tuple[int, ...]]:
    """By our names, in their shapes. What should be a matrix and is none is left to the check of all shapes."""
    found, _ = names_in(weights, dialect)
    shapes = {rule.ours: weights.shape(found[rule.theirs[0]]) for rule in dialect.rules if rule.theirs[0] in found}
    return {name: shape for name, shape in shapes.items() if len(shape) > 1}
