"""Pictures to look at: those of the named sets, two photographs, and what was sent. All bounded, none trusted."""

import hashlib
import io
import struct
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..data import open_picture
from ..data.kinds import Dataset, Pictures
from ..data.pictures import FORMATS
from ..data.sets import list_sets, open_set
from ..errors import ClearheadError, near, shown
from .refusals import Unknown
from .schema import PictureKept, PictureOffered, PictureSet

LARGEST_AREA = 50 * 10**6  # pixels of a picture that was sent, looked at before it is unpacked
LARGEST_EDGE = 512  # of what is shown to choose from
KEPT_BYTES = 100 * 10**6  # of what was sent
KEPT_SETS = 2
MOST_OFFERED = 200
UPLOAD = "upload"
PHOTOGRAPHS = "photographs"
SAMPLES = ("flower.jpg", "china.jpg")  # they come with scikit-learn

BROKEN = (OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, struct.error)


class Album:
    """data: the folder of the named sets; the one that CLEARHEAD_DATA names unless given."""

    def __init__(self, data: Path | None = None) -> None:
        self.data = data
        self._lock = threading.RLock()
        self._sets: OrderedDict[str, Dataset[Any]] = OrderedDict()
        self._sent: OrderedDict[str, tuple[bytes, str | None]] = OrderedDict()

    def keep(self, raw: bytes, name: str | None) -> PictureKept:
        """A picture that was sent, whole and in bounds. The same bytes have the same name."""
        image = unpacked(raw)
        id = hashlib.sha256(raw).hexdigest()[:20]
        with self._lock:
            self._sent[id] = raw, None if name is None else shown(name, 80)
            self._sent.move_to_end(id)
            while sum(len(bytes) for bytes, _ in self._sent.values()) > KEPT_BYTES:
                self._sent.popitem(last=False)
        called = "a picture" if name is None else shown(name, 80)
        return PictureKept(picture=f"{UPLOAD}/{id}", name=called, width=image.width, height=image.height)

    def called(self, picture: str) -> str | None:
        """What the file of a picture that was sent is called, if that was said."""
        with self._lock:
            return self._sent.get(picture.removeprefix(f"{UPLOAD}/"), (b"", None))[1]

    def image(self, picture: str) -> Any:
        """A picture by its name, as an RGB Pillow image."""
        parts = picture.split("/")
        if parts[0] == UPLOAD and len(parts) == 2:
            with self._lock:
                sent = self._sent.get(parts[1])
            if sent is None:
                raise Unknown("this picture was forgotten to make room, or never sent: send it again")
            return unpacked(sent[0])
        if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdecimal() and len(parts[2]) < 10):
            raise Unknown(f"there is no picture '{shown(picture, 80)}': one is called digits/test/17, or upload/...")
        return self._of_set(parts[0], parts[1], int(parts[2]))

    def png(self, picture: str) -> bytes:
        """To choose from: large ones are made smaller."""
        image = self.image(picture)
        image.thumbnail((LARGEST_EDGE, LARGEST_EDGE))
        return as_png(image)

    def sets(self) -> list[PictureSet]:
        """The sets that are there."""
        there = [named for named in list_sets(self.data) if named.kind == "pictures" and named.present]
        named = [PictureSet(name=one.name, about=one.about) for one in there]
        return [*named, PictureSet(name=PHOTOGRAPHS, about="two photographs that come with scikit-learn")]

    def offered(self, name: str, part: str, count: int, offset: int) -> list[PictureOffered]:
        if not 1 <= count <= MOST_OFFERED or offset < 0:
            raise ClearheadError(f"1 to {MOST_OFFERED} pictures are shown at a time, from number 0 on")
        if name == PHOTOGRAPHS:
            labels = [Path(sample).stem for sample in SAMPLES]
        else:
            dataset = self._open(name)
            labels = [dataset.classes[label] for label in self._part(dataset, part).labels.tolist()]
        chosen = list(enumerate(labels))[offset : offset + count]
        return [PictureOffered(picture=f"{name}/{part}/{number}", label=label) for number, label in chosen]

    def _of_set(self, name: str, part: str, number: int) -> Any:
        if name == PHOTOGRAPHS:
            return open_picture(_photograph(number))
        chosen = self._part(self._open(name), part)
        if number >= len(chosen):
            raise Unknown(f"{name}/{part} has {len(chosen):,} pictures: there is no number {number}")
        pixels = chosen.pixels[number]
        return open_picture(_as_array(pixels) if isinstance(pixels, Tensor) else pixels)

    def _open(self, name: str) -> Dataset[Any]:
        known = [one.name for one in self.sets()]
        if name not in known:
            raise Unknown(f"there is no set of pictures '{shown(name, 40)}' here{near(name, known)}")
        with self._lock:
            if name not in self._sets:
                self._sets[name] = open_set(name, self.data)
            self._sets.move_to_end(name)
            while len(self._sets) > KEPT_SETS:
                self._sets.popitem(last=False)
            return self._sets[name]

    def _part(self, dataset: Dataset[Any], part: str) -> Pictures:
        if part not in dataset.parts:
            raise Unknown(f"{dataset.name} has no part '{shown(part, 40)}': it has {', '.join(dataset.parts)}")
        return dataset.parts[part]


def unpacked(raw: bytes) -> Any:
    """Bytes as an upright RGB image: as `open_picture` reads a file, with bounds before anything is unpacked."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(raw), formats=FORMATS) as image:
            if image.width * image.height > LARGEST_AREA:
                size = f"{image.width} x {image.height} pixels"
                raise ClearheadError(f"the picture has {size}, more than {LARGEST_AREA:,}: make it smaller first")
            return open_picture(ImageOps.exif_transpose(image))
    except ClearheadError:
        raise
    except Image.DecompressionBombError:
        raise ClearheadError("the picture has more pixels than Pillow agrees to unpack: make it smaller") from None
    except Image.UnidentifiedImageError:
        raise ClearheadError(f"this is broken, or no picture of a kind read here ({', '.join(FORMATS)})") from None
    except BROKEN as error:
        raise ClearheadError(f"the picture can't be read: {shown(error, 120) or type(error).__name__}") from None


def as_png(image: Any) -> bytes:
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def _as_array(pixels: Tensor) -> np.ndarray:
    """(C,H,W) bytes as Pillow has them."""
    return (pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)).contiguous().numpy()


def _photograph(number: int) -> Path:
    try:
        import sklearn.datasets
    except ImportError:
        raise ClearheadError("the photographs come with scikit-learn: pip install scikit-learn") from None
    if number >= len(SAMPLES):
        raise Unknown(f"there are {len(SAMPLES)} photographs: there is no number {number}")
    return Path(sklearn.datasets.__file__).parent / "images" / SAMPLES[number]
