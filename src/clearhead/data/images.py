"""Pictures to pixels: resize, crop, rescale, normalise, through Pillow, as the models' own preprocessors do it.

`preprocessor_config.json` is read and written in Hugging Face's form, timm's `pretrained_cfg` is read. The result
equals that of transformers' ViTImageProcessorPil and of timm's evaluation transform bit for bit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ..errors import ClearheadError, near
from ..files import naming, read_json, read_optional_json, write_json
from .pictures import Picture, open_picture

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # a filter's place is Pillow's number for it
LARGEST_EDGE = 8192
LARGEST_AREA = 2**27  # pixels of a resized picture, below Pillow's own limit for opening one

# What preprocessor_config.json can say. What is ignored changes no pixel of an RGB picture.
_KINDS = ("ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil", "ViTFeatureExtractor")
_STEPS = {"do_resize": True, "do_center_crop": False, "do_rescale": True, "do_normalize": True, "do_pad": False}
_KNOWN = {
    *("size", "default_to_square", "resample", "crop_size", "rescale_factor", "image_mean", "image_std", "clearhead"),
    *("image_processor_type", "feature_extractor_type", *_STEPS),
}
_IGNORED = {
    *("processor_class", "do_convert_rgb", "return_tensors", "device", "disable_grouping", "data_format"),
    *("input_data_format", "image_seq_length", "pad_size", "_valid_processor_keys"),
}


@dataclass(frozen=True)
class Preprocessor:
    """How a model wants its pictures. The defaults are those of transformers' ViT."""

    resize: int | tuple[int, int] | None = (224, 224)
    """The shortest edge, proportions kept; or (height, width), proportions given up; or None for no resizing."""
    resample: str = "bilinear"
    crop: tuple[int, int] | None = None
    """(height, width) of the middle that is kept; where the picture is smaller, black is added."""
    crop_rounding: Literal["down", "even"] = "down"
    """Where an odd margin is cut: transformers rounds its half down, torchvision and timm to the even number."""
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    def __post_init__(self) -> None:
        resize = (self.resize, self.resize) if isinstance(self.resize, int) else self.resize
        for name, edges in (("resize", resize), ("crop", self.crop)):
            if edges is not None and not (len(edges) == 2 and all(map(_is_edge, edges))):
                raise ClearheadError(f"{name} {edges} is not height and width between 1 and {LARGEST_EDGE} pixels")
        if self.resample not in FILTERS:
            raise ClearheadError(f"no filter {self.resample!r} for resampling: known are {', '.join(FILTERS)}")
        if self.crop_rounding not in ("down", "even"):
            raise ClearheadError(f"crop_rounding must be 'down' or 'even', not {self.crop_rounding!r}")
        for name, values in (("mean", self.mean), ("std", self.std), ("scale", (self.scale,) * 3)):
            if len(values) != 3 or not all(map(_is_number, values)):
                raise ClearheadError(f"{name} {values} is not a number of ordinary size for each of 3 channels")
        if min(map(abs, self.std)) < 1e-6:
            raise ClearheadError(f"std {self.std} has a zero in it, by which the pixels can't be divided")

    @property
    def shape(self) -> tuple[int, int] | None:
        """(height, width) of every result, or None where it depends on the picture."""
        return self.crop or (self.resize if isinstance(self.resize, tuple) else None)

    def __call__(self, picture: Picture) -> torch.Tensor:
        """One picture as float32 (3, H, W)."""
        image = open_picture(picture)
        if self.resize is not None:
            image = image.resize(self._resized(*image.size), FILTERS.index(self.resample))
        if self.crop is not None:
            image = image.crop(self._box(self.crop, *image.size))
        # In float64 first and rounded once: so the result is transformers' to the last bit.
        pixels = (np.asarray(image).astype(np.float64) * self.scale).astype(np.float32)
        pixels = (pixels - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    def batch(self, pictures: Sequence[Picture]) -> torch.Tensor:
        """Several pictures as float32 (B, 3, H, W)."""
        tensors = [self(picture) for picture in pictures]
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) != 1:
            raise ClearheadError(f"a batch needs pictures of one shape, not {sorted(shapes) or 'none'}: set a crop")
        return torch.stack(tensors)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write `preprocessor_config.json`. Hugging Face has no word for `crop_rounding`: it goes under our own key."""
        size = {"shortest_edge": self.resize} if isinstance(self.resize, int) else _height_width(self.resize)
        config = {
            "image_processor_type": _KINDS[0],
            "do_resize": self.resize is not None,
            "size": size,
            "resample": FILTERS.index(self.resample),
            "do_center_crop": self.crop is not None,
            "crop_size": _height_width(self.crop),
            "do_rescale": True,
            "rescale_factor": self.scale,
            "do_normalize": True,
            "image_mean": self.mean,
            "image_std": self.std,
            "clearhead": {"crop_rounding": self.crop_rounding} if self.crop_rounding != "down" else None,
        }
        config = {key: value for key, value in config.items() if value is not None}
        write_json(Path(folder) / "preprocessor_config.json", config)

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """The (width, height) that a picture of this width and height is resized to."""
        if not isinstance(self.resize, int):
            assert self.resize is not None
            return self.resize[1], self.resize[0]
        longest = int(self.resize * max(width, height) / min(width, height))
        if self.resize * longest > LARGEST_AREA:
            raise ClearheadError(f"a picture of {width} x {height} is too narrow: its longer edge would be {longest}")
        return (self.resize, longest) if width <= height else (longest, self.resize)

    def _box(self, crop: tuple[int, int], width: int, height: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the middle; they may lie outside the picture."""
        rounded = math.floor if self.crop_rounding == "down" else round
        top, left = rounded((height - crop[0]) / 2), rounded((width - crop[1]) / 2)
        return left, top, left + crop[1], top + crop[0]


def read_preprocessor(path: str | PathLike[str]) -> Preprocessor:
    """The preprocessor of a model's folder (Hugging Face's or timm's), or of a `preprocessor_config.json` file."""
    path = Path(path)
    file = path / "preprocessor_config.json" if path.is_dir() else path
    if file.exists() or not path.is_dir():
        content = read_json(file)
        with naming(file):
            return _from_hugging_face(content)
    timm_config = read_optional_json(path / "config.json").get("pretrained_cfg")
    if not isinstance(timm_config, dict):
        raise ClearheadError(f"{path} has no preprocessor_config.json, nor a config.json of timm's with pretrained_cfg")
    with naming(path / "config.json"):
        return from_timm_config(timm_config)


def from_timm_config(config: Mapping[str, Any]) -> Preprocessor:
    """What timm's evaluation transform does for a model with this `pretrained_cfg`, timm's defaults included."""
    config = {key: value for key, value in config.items() if value is not None}
    size = config.get("input_size", (3, 224, 224))
    if not isinstance(size, list | tuple) or len(size) != 3 or size[0] != 3:
        raise ClearheadError(f"input_size must be 3 channels, height and width, not {size!r}")
    cropped = Preprocessor(
        resample=config.get("interpolation", "bicubic"),
        crop=tuple(size[1:]),
        crop_rounding="even",
        mean=_channels(config.get("mean", (0.485, 0.456, 0.406))),
        std=_channels(config.get("std", (0.229, 0.224, 0.225))),
    )
    fraction, mode = config.get("crop_pct", 0.875), config.get("crop_mode", "center")
    if not _is_number(fraction) or not 0.01 <= fraction <= 1:
        raise ClearheadError(f"crop_pct must be a number from 0.01 to 1, not {fraction!r}")
    if mode not in ("center", "squash") or (mode == "center" and size[1] != size[2]):
        raise ClearheadError(f"crop_mode {mode!r} of {size} is not built: only 'squash', and 'center' of a square")
    height, width = (math.floor(edge / fraction) for edge in size[1:])
    return replace(cropped, resize=height if mode == "center" else (height, width))


def _from_hugging_face(config: Mapping[str, Any]) -> Preprocessor:
    """Every field that changes pixels is honoured or refused by name; a step set to `null` is off."""
    for key in sorted(config.keys() - _KNOWN - _IGNORED):
        raise ClearheadError(f"{key} = {config[key]!r} is not understood and may change pixels{near(key, _KNOWN)}")
    kind = config.get("image_processor_type") or config.get("feature_extractor_type") or _KINDS[0]
    if kind not in _KINDS:
        raise ClearheadError(f"image_processor_type {kind!r} is not one that is read here: {', '.join(_KINDS)}")
    does = {step: config.get(step, default) for step, default in _STEPS.items()}
    for step, value in does.items():
        if value is not None and not isinstance(value, bool):
            raise ClearheadError(f"{step} must be true or false, not {value!r}")
    if does["do_pad"]:
        raise ClearheadError("do_pad is set, and padding pictures is not built")
    extra = config.get("clearhead", {})
    if not isinstance(extra, dict) or extra.keys() - {"crop_rounding"}:
        raise ClearheadError(f"clearhead = {extra!r} is not understood: a newer version may have written it")
    return Preprocessor(
        resize=_size(config.get("size", 224), config.get("default_to_square", True)) if does["do_resize"] else None,
        resample=_filter(config.get("resample", 2)) if does["do_resize"] else "bilinear",
        crop=_edges(config.get("crop_size"), "crop_size") if does["do_center_crop"] else None,
        scale=config.get("rescale_factor", 1 / 255) if does["do_rescale"] else 1.0,
        mean=_channels(config.get("image_mean", 0.5) if does["do_normalize"] else 0.0),
        std=_channels(config.get("image_std", 0.5) if does["do_normalize"] else 1.0),
        **extra,
    )


def _filter(number: Any) -> str:
    if type(number) is not int or not 0 <= number < len(FILTERS):
        raise ClearheadError(f"resample must be Pillow's number of a filter, 0 to {len(FILTERS) - 1}, not {number!r}")
    return FILTERS[number]


def _size(value: Any, square: bool) -> int | tuple[int, int]:
    if isinstance(value, int) and not square:
        return value
    if isinstance(value, dict) and value.keys() == {"shortest_edge"}:
        return _edges(value["shortest_edge"], "size")[0]
    return _edges(value, "size")


def _edges(value: Any, key: str) -> tuple[int, int]:
    """(height, width) from any of the ways in which files write it."""
    if isinstance(value, dict) and value.keys() == {"height", "width"}:
        return value["height"], value["width"]
    if isinstance(value, list) and len(value) == 2:
        return value[0], value[1]
    if isinstance(value, int):
        return value, value
    raise ClearheadError(f"{key} {value!r} is not understood: give height and width, or a shortest_edge")


def _channels(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * 3


def _is_edge(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST_EDGE


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e6


def _height_width(edges: tuple[int, int] | None) -> dict[str, int] | None:
    return None if edges is None else {"height": edges[0], "width": edges[1]}
