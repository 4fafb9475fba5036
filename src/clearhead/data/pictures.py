"""Opening pictures: whatever comes in, an RGB image comes out, or one line that says why not.

- A file is turned upright by its EXIF orientation. A Pillow image or an array is taken as it lies. (So transformers;
  timm never looks at the orientation.)
- Everything becomes RGB by Pillow's own conversion: transparency is dropped and the colours beneath it show, a palette
  is looked up, of an animation the first frame counts. Values beyond 8 bits (16-bit grey) are clipped at 255, as
  transformers and timm clip them, and a warning says so.
"""

import struct
import warnings
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..errors import ClearheadError

if TYPE_CHECKING:
    from PIL.Image import Image

Picture: TypeAlias = "str | PathLike[str] | Image | np.ndarray"

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # not all of Pillow's: its EPS reader runs a program

# What Pillow's readers raise on files that are cut off or made up.
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, struct.error)


def open_picture(picture: Picture) -> "Image":
    """A file, a Pillow image or a uint8 array (H, W) or (H, W, 3), as an RGB Pillow image."""
    Image, ImageOps = _pillow()
    image = Image.fromarray(_checked(picture)) if isinstance(picture, np.ndarray) else picture
    name = fspath(image) if isinstance(image, str | PathLike) else getattr(image, "filename", "") or "the picture"
    try:
        if not isinstance(image, str | PathLike):
            return _to_rgb(image, name)
        with Image.open(image, formats=FORMATS) as opened:
            return _to_rgb(ImageOps.exif_transpose(opened), name)
    except Image.DecompressionBombError:
        raise ClearheadError(f"{name} has more pixels than Pillow agrees to unpack: make it smaller first") from None
    except Image.UnidentifiedImageError:
        raise ClearheadError(f"{name} is broken, or no picture of a kind read here ({', '.join(FORMATS)})") from None
    except ClearheadError:
        raise
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
        raise ClearheadError(f"{name} can't be read as a picture: {reason}") from None


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ClearheadError("pictures need Pillow, which is not installed: pip install Pillow") from None
    return Image, ImageOps


def _checked(pixels: np.ndarray) -> np.ndarray:
    shaped = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)
    if pixels.dtype != np.uint8 or not shaped or 0 in pixels.shape:
        got = f"{pixels.dtype} {pixels.shape}"
        raise ClearheadError(f"an array of pixels must be uint8 (height, width) or (height, width, 3), not {got}")
    return pixels


def _to_rgb(image: "Image", name: str) -> "Image":
    if 0 in image.size:
        raise ClearheadError(f"{name} is empty: {image.width} x {image.height} pixels")
    if image.mode[0] in "IF":  # more than 8 bits: I;16, I and F
        low, high = np.asarray(image).min(), np.asarray(image).max()
        if low < 0 or high > 255:
            warnings.warn(f"{name} has values from {low} to {high}: clipped to 0 to 255", stacklevel=4)
    return image.convert("RGB")
