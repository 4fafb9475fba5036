"""Named sets of pictures by class, from the folder that CLEARHEAD_DATA names: small ones in memory, photographs not.

    cifar10, cifar100              see cifar
    mnist                          mnist.npz, or the four idx files (.gz or not; torchvision's MNIST/raw too)
    digits                         comes with scikit-learn and needs no folder
    pets, flowers102, imagenet     see photo_sets

Pictures in memory are bytes (N,C,H,W), 0 to 255.
"""

import hashlib
import logging
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import ClearheadError, shown
from .cifar import cifar10, cifar100
from .image_archives import Folder, pictures, place, present, read_idx, read_npz
from .kinds import Dataset, Pictures
from .photo_sets import flowers102, imagenet, pets

__all__ = ["cifar10", "cifar100", "digits", "flowers102", "imagenet", "mnist", "pets"]

MNIST_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}

log = logging.getLogger("clearhead")


def mnist(folder: Folder = None) -> Dataset[Pictures]:
    """MNIST (LeCun, Cortes, Burges): 60,000 + 10,000 digits of 28 x 28, grey. Other pixels than theirs are noted."""
    names = list(MNIST_MD5)
    idx = [f"{below}{names[0]}{packed}" for below in ("", "raw/", "MNIST/raw/") for packed in ("", ".gz")]
    file = place("mnist", ["mnist.npz", *idx], folder, f"mnist/{names[0]}.gz")
    if file.suffix == ".npz":
        arrays = read_npz(file, ("x_train", "y_train", "x_test", "y_test"))
    else:
        arrays = [read_idx(_packed_or_not(file.parent / name)) for name in names]
    notes = [note for name, array in zip(names, arrays, strict=True) for note in _unpublished(name, array, file)]
    parts = {}
    for part, pixels, labels in (("train", *arrays[:2]), ("test", *arrays[2:])):
        if pixels.ndim != 3 or pixels.dtype != np.uint8:
            raise ClearheadError(f"{shown(file)}: the {part} pictures are not bytes by number, height and width")
        parts[part] = pictures(pixels[:, None], labels, 10, f"{file.parent} ({part})")
    return Dataset("mnist", "pictures", parts, tuple("0123456789"), notes=tuple(notes))


def _packed_or_not(file: Path) -> Path:
    packed = file.with_name(file.name + ".gz")
    return packed if packed.is_file() and not file.is_file() else present(file)


def _unpublished(name: str, array: np.ndarray, file: Path) -> list[str]:
    """A note, told to the log too, where the idx file that would hold this array is not the published one."""
    heading = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    if hashlib.md5(heading + array.tobytes(), usedforsecurity=False).hexdigest() == MNIST_MD5[name]:
        return []
    note = f"{shown(file.parent)}: {name} is not as published: its MD5 differs"
    log.warning("%s", note)
    return [note]


def digits(folder: Folder = None, split: Literal["stratified", "writers"] = "stratified") -> Dataset[Pictures]:
    """scikit-learn's 1,797 digits of 8 x 8 (Alpaydin and Kaynak 1998), their 17 grey levels stretched to 0 to 255.

    The test part is a fifth, 360 pictures: drawn by class (random_state 0), or with `split="writers"` the file's last
    fifth as it lies, whose writers are not in the rest. A tenth of the rest, by class, is the part "valid". `folder` is
    there because every named set takes one; nothing is read from it.
    """
    if split not in ("stratified", "writers"):
        raise ClearheadError(f"digits can be split 'stratified' or by 'writers', not {split!r}")
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise ClearheadError("digits needs scikit-learn, which is not installed: pip install scikit-learn") from None
    images, labels = load_digits(return_X_y=True)
    pixels = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    rows = np.arange(len(labels))
    if split == "writers":
        rest, test = np.split(rows, [len(rows) * 4 // 5])
    else:
        rest, test = train_test_split(rows, test_size=0.2, random_state=0, stratify=labels)
    train, valid = train_test_split(rest, test_size=0.1, random_state=0, stratify=labels[rest])
    parts = {
        part: pictures(pixels[chosen], labels[chosen], 10, "digits")
        for part, chosen in (("train", train), ("valid", valid), ("test", test))
    }
    return Dataset("digits", "pictures", parts, tuple("0123456789"))
