"""Pictures to pixels: resize, crop, rescale, normalise, as the models' own preprocessors do it, through Pillow.

Which pixels a picture has:
- A file is turned upright by its EXIF orientation. A Pillow image or an array is taken as it lies. (So transformers;
  timm never looks at the orientation.)
- Everything becomes RGB by Pillow's own conversion: transparency is dropped and the colours beneath it show, a palette
  is looked up, of an animation the first frame counts. Values beyond 8 bits (16-bit grey) are clipped at 255, as both
  peers clip them, and a warning says so.
"""

import math
import struct
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from clearhead.data.files import read_json, read_optional_json, write_json
from clearhead.errors import ClearheadError, near

if TYPE_CHECKING:
    from PIL.Image import Image

Picture: TypeAlias = "str | PathLike[str] | Image | np.ndarray"

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # a filter's place is Pillow's number for it
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # not all of Pillow's: its EPS reader runs a program
LARGEST_EDGE = 8192
LARGEST_AREA = 2**27  # pixels of a resized picture, less than Pillow's own limit for opening one

# What can be said in preprocessor_config.json and does not change the pixels of an RGB picture.
_IGNORED = {
    *("image_processor_type", "feature_extractor_type", "processor_class", "do_convert_rgb", "return_tensors"),
    *("device", "disable_grouping", "input_data_format", "_valid_processor_keys", "image_seq_length"),
}
_KNOWN = {
    *("do_resize", "size", "default_to_square", "resample", "do_center_crop", "crop_size", "do_rescale"),
    *("rescale_factor", "do_normalize", "image_mean", "image_std", "do_pad", "data_format", "clearhead"),
}


@dataclass(frozen=True)
class Preprocessor:
    """How a model wants its pictures. The defaults are those of transformers' ViT."""

    resize: int | tuple[int, int] | None = (224, 224)
    """The shortest edge, the shape kept; or (height, width), the shape squashed; or None for no resizing."""
    resample: str = "bilinear"
    crop: tuple[int, int] | None = None
    """(height, width) of the middle that is kept; where the picture is smaller, black is added."""
    crop_rounding: Literal["down", "even"] = "down"
    """Where an odd margin is cut: transformers rounds its half down, torchvision and timm to the even number."""
    scale: float = 1 / 255
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def __post_init__(self) -> None:
        edges = (self.resize,) if isinstance(self.resize, int) else self.resize or ()
        for edge in (*edges, *(self.crop or ())):
            if type(edge) is not int or not 1 <= edge <= LARGEST_EDGE:
                raise ClearheadError(f"a picture's edge must be between 1 and {LARGEST_EDGE} pixels, not {edge!r}")
        if self.resample not in FILTERS:
            raise ClearheadError(f"no filter {self.resample!r}: known are {', '.join(FILTERS)}{near(self.resample, FILTERS)}")
        if not all(math.isfinite(value) for value in (self.scale, *self.mean, *self.std)) or 0 in self.std:
            raise ClearheadError(f"mean {self.mean}, std {self.std} and scale {self.scale} must be finite, std not 0")

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
            image = image.crop(self._box(*image.size))
        # In float64 first and rounded once, so that the result is transformers' to the last bit.
        pixels = (np.asarray(image).astype(np.float64) * self.scale).astype(np.float32)
        pixels = (pixels - np.float32(self.mean)) / np.float32(self.std)
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    def batch(self, pictures: Sequence[Picture]) -> torch.Tensor:
        """Several pictures as float32 (B, 3, H, W)."""
        tensors = [self(picture) for picture in pictures]
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) != 1:
            raise ClearheadError(f"a batch needs pictures of one shape, these have {sorted(shapes) or 'none'}: set a crop")
        return torch.stack(tensors)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write `preprocessor_config.json` in Hugging Face's form. It has no word for `crop_rounding`: ours goes beside."""
        resize = {"shortest_edge": self.resize} if isinstance(self.resize, int) else _named(self.resize)
        config = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": resize is not None,
            "size": resize,
            "resample": FILTERS.index(self.resample),
            "do_center_crop": self.crop is not None,
            "crop_size": _named(self.crop),
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
        """The (width, height) that a picture is resized to."""
        if isinstance(self.resize, tuple):
            return self.resize[1], self.resize[0]
        assert self.resize is not None
        longest = int(self.resize * max(width, height) / min(width, height))
        if self.resize * longest > LARGEST_AREA:
            raise ClearheadError(f"a picture of {width} x {height} is too narrow: its longer edge would become {longest}")
        return (self.resize, longest) if width <= height else (longest, self.resize)

    def _box(self, width: int, height: int) -> tuple[int, int, int, int]:
        """Left, top, right, bottom of the middle; edges outside the picture are allowed."""
        assert self.crop is not None
        rounded = math.floor if self.crop_rounding == "down" else round
        top, left = rounded((height - self.crop[0]) / 2), rounded((width - self.crop[1]) / 2)
        return left, top, left + self.crop[1], top + self.crop[0]


def open_picture(picture: Picture) -> "Image":
    """A file, a Pillow image or a uint8 array (H, W) or (H, W, 3), as an RGB Pillow image. The rules are at the top."""
    if isinstance(picture, np.ndarray):
        return _from_array(picture)
    PIL_Image, PIL_ImageOps = _pillow()
    is_file = not isinstance(picture, PIL_Image.Image)
    name = fspath(picture) if is_file else getattr(picture, "filename", "") or "the picture"
    try:
        if not is_file:
            return _to_rgb(picture, name)
        with PIL_Image.open(picture, formats=FORMATS) as image:
            image.load()
            return _to_rgb(PIL_ImageOps.exif_transpose(image), name)
    except PIL_Image.DecompressionBombError:
        raise ClearheadError(f"{name} has more pixels than Pillow agrees to unpack: make it smaller first") from None
    except PIL_Image.UnidentifiedImageError:
        raise ClearheadError(f"{name} is not a picture of a kind that is read here: {', '.join(FORMATS)}") from None
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise ClearheadError(f"{name} can't be read as a picture: {reason or type(error).__name__}") from None


def read_preprocessor(path: str | PathLike[str]) -> Preprocessor:
    """The preprocessor of a model's folder (Hugging Face's or timm's), or of a `preprocessor_config.json` file."""
    path = Path(path)
    file = path / "preprocessor_config.json" if path.is_dir() else path
    if file.exists() or not path.is_dir():
        content = read_json(file)
        with _naming(file):
            return _from_hugging_face(content)
    timm_config = read_optional_json(path / "config.json").get("pretrained_cfg")
    if not isinstance(timm_config, dict):
        raise ClearheadError(f"{path} has no preprocessor_config.json, and no config.json of timm's with a pretrained_cfg")
    with _naming(path / "config.json"):
        return from_timm_config(timm_config)


def from_timm_config(config: Mapping[str, Any]) -> Preprocessor:
    """What timm's evaluation transform does for a model with this `pretrained_cfg`; what is not said has timm's default."""
    config = {key: value for key, value in config.items() if value is not None}
    channels, *size = _numbers(config, "input_size", 3, default=(3, 224, 224))
    fraction = config.get("crop_pct", 0.875)
    mode = config.get("crop_mode", "center")
    if channels != 3:
        raise ClearheadError(f"input_size has {channels} channels, pictures are prepared with 3")
    if not isinstance(fraction, int | float) or not 0 < fraction <= 1:
        raise ClearheadError(f"crop_pct must be above 0 and at most 1, not {fraction!r}")
    if mode not in ("center", "squash") or (mode == "center" and size[0] != size[1]):
        raise ClearheadError(f"crop_mode {mode!r} with input_size {size} is not built: only squash, and center of a square")
    resized = tuple(_edge(edge, "input_size", fraction) for edge in size)
    return Preprocessor(
        resize=(resized[0], resized[1]) if mode == "squash" else resized[0],
        resample=config.get("interpolation", "bicubic"),
        crop=(_edge(size[0], "input_size"), _edge(size[1], "input_size")),
        crop_rounding="even",
        mean=_numbers(config, "mean", 3, default=(0.485, 0.456, 0.406)),
        std=_numbers(config, "std", 3, default=(0.229, 0.224, 0.225)),
    )
