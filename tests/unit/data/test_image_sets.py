"""Named sets of pictures: the real ones where they are at hand, tiny ones in every official layout, damaged files."""

import gzip
import hashlib
import io
import logging
import os
import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from clearhead.data import image_archives
from clearhead.data.array_pickle import parse_array_pickle
from clearhead.data.image_sets import cifar10, cifar100, digits, flowers102, imagenet, mnist, pets
from clearhead.data.kinds import Pictures
from clearhead.data.picture_batches import channel_statistics
from clearhead.data.picture_splits import stratified, with_validation
from clearhead.errors import ClearheadError
from tests.minilm import data_set

READERS = {f.__name__: f for f in (cifar10, cifar100, mnist, pets, flowers102, imagenet)}
TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
HUNDRED = [f"fine {n}" for n in range(100)]


def refused(call, *arguments: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def random_pixels(count: int, seed: int, channels: int = 3, edge: int = 32) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, channels, edge, edge), dtype=np.uint8)


def same(part: Pictures, pixels: np.ndarray, labels: list[int]) -> bool:
    assert isinstance(part.pixels, torch.Tensor)
    return np.array_equal(part.pixels.numpy(), pixels) and part.labels.tolist() == labels


def write(file: Path, content: bytes | str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


# --- the real files ---------------------------------------------------------------------------------------------------


def test_the_real_cifar10_is_the_published_one():
    dataset = cifar10(data_set("cifar10"))
    train, test = dataset.parts["train"], dataset.parts["test"]
    assert (len(train), len(test), list(dataset.classes), dataset.notes) == (50_000, 10_000, TEN, ())
    assert train.labels.bincount().tolist() == [5000] * 10 and test.labels.bincount().tolist() == [1000] * 10
    rows = torch.cat([train.labels[:10_000, None].byte(), train.pixels[:10_000].flatten(1)], 1)
    assert hashlib.sha256(rows.numpy().tobytes()).hexdigest().startswith("cee91656")  # data_batch_1.bin
    mean, std = channel_statistics(train)
    assert mean == pytest.approx((0.49139968, 0.48215841, 0.44653091), abs=1e-7)
    assert std == pytest.approx((0.24703223, 0.24348513, 0.26158784), abs=1e-7)


def test_the_real_cifar100_is_the_published_one():
    dataset = cifar100(data_set("cifar100"))
    train = dataset.parts["train"]
    assert str(dataset) == "cifar100: pictures, 100 classes (train 50,000, test 10,000)"
    assert train.labels.bincount().tolist() == [500] * 100 and dataset.classes[:2] == ("apple", "aquarium_fish")
    assert channel_statistics(train)[0] == pytest.approx((0.50707516, 0.48654887, 0.44091784), abs=1e-7)


def test_the_real_mnist_has_the_published_sums():
    dataset = mnist(data_set("mnist"))
    assert dataset.notes == () and str(dataset) == "mnist: pictures, 10 classes (train 60,000, test 10,000)"
    assert dataset.parts["train"].labels[:5].tolist() == [5, 0, 4, 1, 9]


def test_the_real_pets_are_squares_of_64():
    dataset = pets(data_set("pets64"))
    assert str(dataset) == "pets: pictures, 37 classes (train 3,680, test 3,669)"
    assert dataset.parts["test"].pixels.shape == (3669, 3, 64, 64)
    assert dataset.parts["train"].labels.bincount().min() == 93


# --- CIFAR ------------------------------------------------------------------------------------------------------------


def strip(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    rows = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)).reshape(-1, 32, 3)
    Image.fromarray(rows).save(buffer, "WEBP", lossless=True)
    return buffer.getvalue()


def write_packed(file: Path, pictures: list[bytes], labels: list[int]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    offset = np.cumsum([0, *map(len, pictures)])
    np.savez(file, blob=np.frombuffer(b"".join(pictures), np.uint8), offset=offset, label=np.array(labels, np.uint8))


def packed_cifar10(root: Path) -> Path:
    for seed, name in enumerate(("train_a", "train_b", "test")):
        pixels = random_pixels(4, seed)
        write_packed(root / f"cifar10/{name}.npz", [strip(pixels[:3]), strip(pixels[3:])], [seed, 1, 2, 9])
    write(root / "cifar10/classes.txt", "\n".join(TEN) + "\n")
    return root


def python_two_pickle(data: np.ndarray, labels: list[int], key: bytes = b"labels") -> bytes:
    """The instructions that Python 2 and numpy 1 wrote into the official files: byte strings, and numpy's old name."""

    def text(raw: bytes) -> bytes:
        return b"U" + bytes([len(raw)]) + raw if len(raw) < 256 else b"T" + struct.pack("<i", len(raw)) + raw

    def whole(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    kind = b"cnumpy\ndtype\n" + text(b"u1") + b"K\0K\1\x87R(K\3" + text(b"|") + b"NNN" + whole(-1) * 2 + b"K\0tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\1cnumpy\nndarray\n" + b"K\0\x85" + text(b"b") + b"\x87R"
    array += b"(K\1" + whole(data.shape[0]) + whole(data.shape[1]) + b"\x86" + kind + b"\x89" + text(data.tobytes())
    array += b"tb"
    items = text(b"data") + array + text(key) + b"]q\2(" + b"".join(map(whole, labels)) + b"e"
    return b"\x80\2}q\0(" + items + text(b"batch_label") + text(b"batch 1 of 5") + b"u."


def python_three_pickle(data: np.ndarray, labels: list[int], key: bytes = b"labels", protocol: int = 2) -> bytes:
    return pickle.dumps({key: labels, b"data": data, b"filenames": [b"a.png"] * 3}, protocol=protocol)


def official_cifar10(folder: Path, written=python_two_pickle) -> dict[str, np.ndarray]:
    names = [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]
    pixels = {name: random_pixels(3, seed) for seed, name in enumerate(names)}
    for seed, name in enumerate(names):
        write(folder / name, written(pixels[name].reshape(3, -1), [seed, 0, 9]))
    write(folder / "batches.meta", pickle.dumps({"label_names": TEN, "num_vis": 3072}, protocol=2))
    return pixels


def test_packed_strips_come_out_as_they_went_in(tmp_path):
    dataset = cifar10(packed_cifar10(tmp_path))
    train = np.concatenate([random_pixels(4, 0), random_pixels(4, 1)])
    assert same(dataset.parts["train"], train, [0, 1, 2, 9, 1, 1, 2, 9])
    assert same(dataset.parts["test"], random_pixels(4, 2), [2, 1, 2, 9])
    assert list(dataset.classes) == TEN and dataset.kind == "pictures"


@pytest.mark.parametrize("where", ["cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10"])
@pytest.mark.parametrize(
    "written",
    [python_two_pickle, python_three_pickle, lambda data, labels: python_three_pickle(data, labels, protocol=4)],
    ids=["python 2", "python 3", "protocol 4"],
)
def test_cifar10_is_read_from_the_authors_pickles(tmp_path, where, written, caplog):
    pixels = official_cifar10(tmp_path / where, written)
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        dataset = cifar10(tmp_path)
    train = np.concatenate([pixels[f"data_batch_{n}"] for n in range(1, 6)])
    assert same(dataset.parts["train"], train, [label for n in range(5) for label in (n, 0, 9)])
    assert same(dataset.parts["test"], pixels["test_batch"], [5, 0, 9]) and list(dataset.classes) == TEN
    assert len(dataset.notes) == 7 and "data_batch_1 is not the published file: its MD5 differs" in caplog.text


def test_the_pictures_that_were_read_can_be_written_to(tmp_path):
    official_cifar10(tmp_path / "cifar10")
    with np.errstate(all="raise"):
        cifar10(tmp_path).parts["test"].pixels.zero_()  # type: ignore[union-attr]


def test_cifar100_is_read_with_its_fine_labels(tmp_path):
    folder, pixels = tmp_path / "cifar-100-python", random_pixels(4, 0)
    for name in ("train", "test"):
        content = {b"data": pixels.reshape(4, -1), b"fine_labels": [0, 99, 5, 6], b"coarse_labels": [0, 1, 2, 3]}
        write(folder / name, pickle.dumps(content, protocol=2))
    write(folder / "meta", pickle.dumps({b"fine_label_names": HUNDRED, b"coarse_label_names": ["x"]}, protocol=2))
    dataset = cifar100(tmp_path)
    assert same(dataset.parts["train"], pixels, [0, 99, 5, 6]) and list(dataset.classes) == HUNDRED


def test_the_binary_versions_are_read_too(tmp_path):
    pixels = random_pixels(3, 0)
    for name in [f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]:
        rows = np.concatenate([np.array([[3], [0], [9]], np.uint8), pixels.reshape(3, -1)], 1)
        write(tmp_path / "cifar-10-batches-bin" / name, rows.tobytes())
    write(tmp_path / "cifar-10-batches-bin/batches.meta.txt", "\n".join(TEN) + "\n\n")
    assert same(cifar10(tmp_path).parts["test"], pixels, [3, 0, 9])
    for name in ("train.bin", "test.bin"):
        rows = np.concatenate([np.array([[1, 30], [2, 0], [3, 99]], np.uint8), pixels.reshape(3, -1)], 1)
        write(tmp_path / "cifar100" / name, rows.tobytes())
    write(tmp_path / "cifar100/fine_label_names.txt", "\n".join(HUNDRED))
    assert same(cifar100(tmp_path).parts["train"], pixels, [30, 0, 99])
    write(tmp_path / "cifar100/test.bin", rows.tobytes()[:-1])
    assert "test.bin has 9,221 bytes, no whole number of pictures: it is damaged" in refused(cifar100, tmp_path)


class Code:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_code_in_a_pickle_is_refused_and_not_run(tmp_path, protocol, monkeypatch):
    official_cifar10(tmp_path / "cifar10")
    write(tmp_path / "cifar10/data_batch_3", pickle.dumps({b"data": Code()}, protocol=protocol))
    monkeypatch.setattr("posix.system", lambda command: pytest.fail("the pickle's code was run"))
    message = refused(cifar10, tmp_path)
    assert "data_batch_3" in message and "no code was run" in message


def test_a_pickle_of_plain_things_is_read_and_nothing_else_in_it():
    content = {
        "a": b"x",
        b"b": [1, True, None, "y"],
        "c": np.arange(6, dtype=">i4").reshape(2, 3),
        4: {"d": (1, 2, 3, 4)},
    }
    read = parse_array_pickle(pickle.dumps(content, protocol=4), "it")
    assert read["a"] == b"x" and read["b"] == [1, True, None, "y"] and read["4"] == {"d": (1, 2, 3, 4)}
    assert np.array_equal(read["c"], content["c"])
    fortran = parse_array_pickle(pickle.dumps({"f": np.asfortranarray(content["c"])}, protocol=2), "it")
    assert np.array_equal(fortran["f"], content["c"])


GOOD = python_two_pickle(np.zeros((1, 4), np.uint8), [1])
BAD_PICKLES = {
    "empty": (b"", "is no pickle of plain arrays, or is damaged"),
    "truncated": (GOOD[:-20], "is no pickle of plain arrays, or is damaged"),
    "text": (b"hello", "is no pickle of plain arrays, or is damaged"),
    "a list": (pickle.dumps([1], protocol=2), "holds a list, not a dict"),
    "a float": (pickle.dumps({"a": 1.5}, protocol=2), "it uses BINFLOAT, which arrays don't need; no code was run"),
    "a set": (pickle.dumps({"a": {1}}, protocol=4), "it uses EMPTY_SET"),
    "objects": (pickle.dumps({"a": np.array([[1], None], object)}, protocol=2), "holds an array of 'O8'"),
    "an import": (b"\x80\2cposix\nsystem\n.", "asks to run 'posix.system', which plain arrays never need"),
    "a name from the stack": (b"\x80\4\x8c\2os\x8c\6system\x93.", "asks to run 'os.system'"),
    "numbers as a name": (b"\x80\4K\1K\2\x93.", "asks to run 'int.int'"),
    "a call of nothing": (b"\x80\2K\1)R.", "calls something that is no array's description; no code was run"),
    "an array of something else": (
        b"\x80\2cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\0\x85U\1b\x87R.",
        "an array that is no plain ndarray",
    ),
    "state for a list": (b"\x80\2]K\1b.", "sets the state of a list"),
    "too few bytes": (GOOD.replace(b"J\4\0\0\0", b"J\5\0\0\0"), "an array of shape [1, 5] can't be made of 4 bytes"),
    "a negative shape": (GOOD.replace(b"J\4\0\0\0", b"J\xff\xff\xff\xff"), "describes an array wrongly"),
    "an odd byte order": (GOOD.replace(b"U\1|", b"U\1="), "describes an array wrongly"),
    "a tuple as a key": (b"\x80\2}K\1\x85K\1s.", "uses a tuple as a key"),
    "items of a list": (b"\x80\2]K\1K\1s.", "sets items of something that is no dict"),
    "append to a dict": (b"\x80\2}K\1a.", "appends to something that is no list"),
    "a foreign codec": (b"\x80\2c_codecs\nencode\nX\1\0\0\0aX\5\0\0\0utf-7\x86R.", "is no latin-1 text"),
    "a deep nest": (b"\x80\2" + b"(" * 200 + b".", "nested more deeply than arrays need"),
    "a long stack": (b"\x80\2" + b"K\1" * 10_001 + b".", "nested more deeply than arrays need"),
}


@pytest.mark.parametrize(("raw", "message"), BAD_PICKLES.values(), ids=BAD_PICKLES)
def test_any_other_pickle_is_refused_in_one_line(raw, message):
    assert message in refused(parse_array_pickle, raw, "it")


@pytest.mark.parametrize("length", range(0, len(GOOD), 7))
def test_a_pickle_cut_anywhere_is_refused_in_one_line(length):
    refused(parse_array_pickle, GOOD[:length], "it")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({b"data": np.zeros((3, 3071), np.uint8), b"labels": [1, 2, 3]}, "holds no 'data' of 3,072 bytes a picture"),
        ({b"data": np.zeros((3, 3072), np.int16), b"labels": [1, 2, 3]}, "holds no 'data' of 3,072 bytes a picture"),
        ({b"labels": [1, 2, 3]}, "holds no 'data' of 3,072 bytes a picture"),
        ({b"data": np.zeros((3, 3072), np.uint8)}, "holds no list of labels 'labels'"),
        ({b"data": np.zeros((3, 3072), np.uint8), b"labels": [1, 2, "x"]}, "holds no list of labels 'labels'"),
        ({b"data": np.zeros((3, 3072), np.uint8), b"labels": [1, 2]}, "15 pictures with 14 labels don't fit together"),
        ({b"data": np.zeros((3, 3072), np.uint8), b"labels": [1, 2, 10]}, "labels from 0 to 10 where there are 10"),
    ],
)
def test_a_batch_that_is_not_cifars_is_refused(tmp_path, content, message):
    official_cifar10(tmp_path / "cifar10")
    write(tmp_path / "cifar10/data_batch_2", pickle.dumps(content, protocol=2))
    assert message in refused(cifar10, tmp_path)


def test_class_names_that_are_missing_or_too_many_are_told(tmp_path):
    official_cifar10(tmp_path / "cifar10")
    write(tmp_path / "cifar10/batches.meta", pickle.dumps({"label_names": 3}, protocol=2))
    assert "batches.meta holds no list of names 'label_names'" in refused(cifar10, tmp_path)
    write(tmp_path / "cifar10/batches.meta", pickle.dumps({"label_names": HUNDRED}, protocol=2))
    assert "cifar10 names 100 classes; cifar10 has 10" in refused(cifar10, tmp_path)
    (tmp_path / "cifar10/batches.meta").unlink()
    assert "batches.meta is missing, though files beside it are there" in refused(cifar10, tmp_path)


def test_a_class_without_a_name_is_told(tmp_path):
    write(packed_cifar10(tmp_path) / "cifar10/classes.txt", "one\n\nthree\n")
    assert "classes.txt should name one class a line, and has an empty one" in refused(cifar10, tmp_path)


def test_a_half_of_the_packed_training_part_is_not_taken_for_the_whole(tmp_path):
    (packed_cifar10(tmp_path) / "cifar10/train_b.npz").unlink()
    assert "train_b.npz is missing, though files beside it are there" in refused(cifar10, tmp_path)


def test_damaged_packed_files_are_refused_in_one_line(tmp_path, monkeypatch):
    file = packed_cifar10(tmp_path) / "cifar10/train_a.npz"
    whole, good = file.read_bytes(), strip(random_pixels(1, 0))
    for raw in (b"", b"hello", whole[:-30], whole[:200] + b"\xff" * 8 + whole[208:]):
        write(file, raw)
        assert "train_a.npz is damaged, or not the file it should be" in refused(cifar10, tmp_path)
    np.savez(file, blob=np.zeros(4, np.uint8))
    assert "offset" in refused(cifar10, tmp_path)
    np.savez(file, blob=np.array([Code()], object), offset=np.zeros(2), label=np.zeros(1))
    assert "damaged" in refused(cifar10, tmp_path)
    with file.open("wb") as stream:
        np.save(stream, np.zeros(3))
    assert "is a single array, not a .npz archive" in refused(cifar10, tmp_path)
    write_packed(file, [good, b"junk"], [1, 2])
    assert "train_a.npz holds a picture that can't be decoded" in refused(cifar10, tmp_path)
    buffer = io.BytesIO()
    Image.new("RGB", (31, 32)).save(buffer, "WEBP", lossless=True)
    write_packed(file, [buffer.getvalue()], [1])
    assert "holds a strip of 31 x 32, not 32 wide" in refused(cifar10, tmp_path)
    np.savez(file, blob=np.zeros(9, np.uint8), offset=np.array([0, 5, 4, 9]), label=np.zeros(3, np.uint8))
    assert "its borders don't fit its pictures" in refused(cifar10, tmp_path)
    write(file, whole)
    monkeypatch.setattr(image_archives, "MAX_UNPACKED", 100)
    assert "would unpack to more than 100 bytes, and is refused" in refused(cifar10, tmp_path)


# --- MNIST ------------------------------------------------------------------------------------------------------------

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def tiny_mnist() -> dict[str, np.ndarray]:
    train, test = (random_pixels(count, count, 1, 28)[:, 0] for count in (5, 3))
    return dict(zip(IDX, (train, np.arange(5, dtype=np.uint8), test, np.arange(3, dtype=np.uint8)), strict=True))


@pytest.mark.parametrize("where", ["mnist", "mnist/MNIST/raw", "MNIST/raw", "."])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_is_read_from_its_idx_files(tmp_path, where, packed):
    arrays = tiny_mnist()
    for name, array in arrays.items():
        raw = idx(array)
        write(tmp_path / where / (f"{name}.gz" if packed else name), gzip.compress(raw) if packed else raw)
    dataset = mnist(tmp_path)
    assert same(dataset.parts["train"], arrays[IDX[0]][:, None], [0, 1, 2, 3, 4])
    assert same(dataset.parts["test"], arrays[IDX[2]][:, None], [0, 1, 2])
    assert len(dataset.notes) == 4 and "train-images-idx3-ubyte is not as published" in dataset.notes[0]


def test_mnist_is_read_from_an_npz(tmp_path):
    (tmp_path / "mnist").mkdir()
    arrays = dict(zip(("x_train", "y_train", "x_test", "y_test"), tiny_mnist().values(), strict=True))
    np.savez(tmp_path / "mnist/mnist.npz", **arrays)
    assert same(mnist(tmp_path).parts["train"], arrays["x_train"][:, None], [0, 1, 2, 3, 4])
    np.savez(tmp_path / "mnist/mnist.npz", **arrays | {"x_test": arrays["x_test"].astype(np.int32)})
    assert "the test pictures are not bytes by number, height and width" in refused(mnist, tmp_path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is no idx file of bytes"),
        (b"\0\0\x0d\3" + b"\0" * 12, "is no idx file of bytes"),
        (b"\0\0\x08\7" + b"\0" * 28, "is no idx file of bytes"),
        (b"\0\0\x08\3\0\0", "can't be"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 2**31, 2**31, 4), "bytes, which can't be right"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 5, 28, 28) + b"\0" * 9, "announces 3,920 bytes and holds 9: it is damaged"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 1, 2, 2) + b"\0" * 9, "announces 4 bytes and holds more: it is damaged"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_a_damaged_idx_file_is_refused_in_one_line(tmp_path, raw, message, packed):
    for name, array in tiny_mnist().items():
        write(tmp_path / "mnist" / name, idx(array))
    name = IDX[2]
    (tmp_path / "mnist" / name).unlink()
    write(tmp_path / "mnist" / (f"{name}.gz" if packed else name), gzip.compress(raw) if packed else raw)
    text = refused(mnist, tmp_path)
    assert message in text and name in text


def test_a_gzip_that_is_none_or_ends_early_is_refused(tmp_path):
    for name, array in tiny_mnist().items():
        write(tmp_path / "mnist" / f"{name}.gz", gzip.compress(idx(array)))
    file = tmp_path / "mnist" / f"{IDX[0]}.gz"
    for raw in (b"plain text", file.read_bytes()[:-200]):
        write(file, raw)
        assert f"{IDX[0]}.gz can't be read" in refused(mnist, tmp_path)


# --- Pets, flowers, ImageNet ------------------------------------------------------------------------------------------


def jpeg(file: Path, size: tuple[int, int] = (12, 9)) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (200, 30, 60)).save(file, "JPEG")


def test_pets_are_read_from_the_authors_lists_and_stay_files(tmp_path, caplog):
    root = tmp_path / "pets"
    write(root / "annotations/trainval.txt", "#Image CLASS-ID\nAbyssinian_1 1 1 1\nshiba_inu_7 3 2 2\nlost_2 2 1 2\n")
    write(root / "annotations/test.txt", "Abyssinian_2 1 1 1\n")
    for name in ("Abyssinian_1", "Abyssinian_2", "shiba_inu_7"):
        jpeg(root / f"images/{name}.jpg")
    dataset = pets(tmp_path)
    assert dataset.classes == ("Abyssinian", "lost", "shiba_inu")
    assert dataset.parts["train"].pixels == [root / "images/Abyssinian_1.jpg", root / "images/shiba_inu_7.jpg"]
    assert dataset.parts["train"].labels.tolist() == [0, 2] and dataset.parts["test"].labels.tolist() == [0]
    assert "1 of 4 pictures left out: lost_2.jpg: it is missing from images" in caplog.text
    assert dataset.notes[0] in caplog.text


@pytest.mark.parametrize("row", ["../../etc/passwd 1 1 1", "a_1 x 1 1", "a_1 0 1 1", "a_1 1 1", "a_1 99999 1 1"])
def test_a_row_of_pets_that_is_wrong_or_leads_out_of_the_folder_is_refused(tmp_path, row):
    write(tmp_path / "pets/annotations/trainval.txt", f"b_1 1 1 1\n{row}\n")
    write(tmp_path / "pets/annotations/test.txt", "b_1 1 1 1\n")
    assert "trainval.txt line 2 is not a name, a class, a species and a breed" in refused(pets, tmp_path)


def test_pets_without_pictures_are_refused(tmp_path):
    write(tmp_path / "pets/annotations/trainval.txt", "a_1 1 1 1\n")
    write(tmp_path / "pets/annotations/test.txt", "# nothing\n")
    assert "test.txt names no picture" in refused(pets, tmp_path)
    write(tmp_path / "pets/annotations/test.txt", "a_2 1 1 1\n")
    assert "holds none of the pictures of pets's part 'train'" in refused(pets, tmp_path)


def test_packed_pets_are_cut_to_their_middle(tmp_path):
    pixels, raws = random_pixels(2, 0, 3, 12), []
    for one in pixels:
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(one[:, :8].transpose(1, 2, 0))).save(buffer, "WEBP", lossless=True)
        raws.append(buffer.getvalue())
    for name in ("trainval", "test"):
        write_packed(tmp_path / f"pets64/{name}.npz", raws, [0, 1])
    write(tmp_path / "pets64/classes.txt", "cat\ndog\n")
    assert same(pets(tmp_path).parts["train"], pixels[:, :, :8, 2:10], [0, 1])
    write_packed(tmp_path / "pets64/test.npz", [*raws, strip(random_pixels(1, 0))], [0, 1, 1])
    assert "holds pictures whose short sides differ" in refused(pets, tmp_path)


def flowers(root: Path, count: int = 6) -> Path:
    for number in range(1, count + 1):
        jpeg(root / f"flowers102/jpg/image_{number:05d}.jpg")
    savemat(root / "flowers102/imagelabels.mat", {"labels": np.array([[1, 2, 3, 1, 2, 3]], np.uint8)})
    ids = {"trnid": np.array([[2, 1]], np.uint16), "valid": np.array([[3]], np.uint16), "tstid": np.array([[4, 5, 6]])}
    savemat(root / "flowers102/setid.mat", ids)
    return root


def test_flowers_are_read_from_the_authors_matlab_files(tmp_path):
    dataset = flowers102(flowers(tmp_path))
    folder = tmp_path / "flowers102/jpg"
    assert dataset.parts["train"].pixels == [folder / "image_00002.jpg", folder / "image_00001.jpg"]
    assert [part.labels.tolist() for part in dataset.parts.values()] == [[1, 0], [2], [0, 1, 2]]
    assert list(dataset.parts) == ["train", "valid", "test"] and dataset.classes == ("1", "2", "3")


def test_flowers_with_damaged_or_strange_files_are_refused(tmp_path):
    file = flowers(tmp_path) / "flowers102/setid.mat"
    savemat(file, {"trnid": [99], "valid": [1], "tstid": [2]})
    assert "setid.mat asks for picture 99, and 6 have a label" in refused(flowers102, tmp_path)
    savemat(file, {"trnid": [0], "valid": [1], "tstid": [2]})
    assert "holds no list of whole numbers 'trnid'" in refused(flowers102, tmp_path)
    savemat(file, {"valid": [1]})
    assert "holds no list of whole numbers 'trnid'" in refused(flowers102, tmp_path)
    for raw in (b"", b"not a matlab file" * 20):
        write(file, raw)
        assert "setid.mat is damaged, or no MATLAB file" in refused(flowers102, tmp_path)


def test_flowers_without_scipy_say_so(tmp_path, monkeypatch):
    flowers(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    assert refused(flowers102, tmp_path).endswith("needs scipy, which is not installed: pip install scipy")


def imagenet_training(root: Path) -> Path:
    for name in ("n02", "n01"):
        for number in range(2):
            jpeg(root / f"imagenet/train/{name}/{name}_{number}.JPEG")
    return root / "imagenet"


def test_imagenet_is_read_from_folders_by_class(tmp_path):
    root = imagenet_training(tmp_path)
    jpeg(root / "val/n02/ILSVRC2012_val_00000001.JPEG")
    dataset = imagenet(tmp_path)
    assert dataset.classes == ("n01", "n02") and dataset.parts["train"].labels.tolist() == [0, 0, 1, 1]
    assert dataset.parts["train"].pixels[0] == root / "train/n01/n01_0.JPEG"
    assert dataset.parts["test"].labels.tolist() == [1]


def test_imagenets_flat_validation_pictures_find_their_classes_in_the_development_kit(tmp_path):
    root = imagenet_training(tmp_path)
    for number in (1, 2, 3):
        jpeg(root / f"val/ILSVRC2012_val_{number:08d}.JPEG")
    assert "has no folder for each class: sort its pictures so, or unpack the development kit" in refused(
        imagenet, tmp_path
    )
    kit = root / "ILSVRC2012_devkit_t12/data"
    truth = write(kit / "ILSVRC2012_validation_ground_truth.txt", "2\n1\n2\n")
    synsets = np.array([(1, "n02"), (2, "n01")], [("ILSVRC2012_ID", "i4"), ("WNID", "O")])
    savemat(kit / "meta.mat", {"synsets": synsets})
    dataset = imagenet(tmp_path)
    rows = dict(zip(dataset.parts["test"].pixels, dataset.parts["test"].labels.tolist(), strict=True))
    assert {path.name[-6]: label for path, label in rows.items()} == {"1": 0, "2": 1, "3": 0}
    write(truth, "2\n7\n2\n")
    assert "ground_truth.txt line 2 is no class of meta.mat: 7" in refused(imagenet, tmp_path)
    write(truth, "2\n1\n2\n1\n")
    assert "val_00000004.JPEG is missing" in refused(imagenet, tmp_path)
    savemat(kit / "meta.mat", {"other": 1})
    assert "meta.mat holds no table of classes" in refused(imagenet, tmp_path)


def test_imagenet_classes_without_training_pictures_are_refused(tmp_path):
    root = imagenet_training(tmp_path)
    jpeg(root / "val/n03/a.JPEG")
    assert "has no pictures of 'n03'" in refused(imagenet, tmp_path)
    for file in (root / "train").glob("*/*"):
        file.unlink()
    (root / "val/n03/a.JPEG").unlink()
    assert "has no pictures of any class" in refused(imagenet, tmp_path)


# --- digits, and what all have in common ------------------------------------------------------------------------------


def test_digits_need_no_folder_and_keep_every_level():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    dataset = digits()
    assert str(dataset) == "digits: pictures, 10 classes (train 1,293, valid 144, test 360)"
    _, test, _, truth = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    part = dataset.parts["test"]
    assert part.pixels.dtype == torch.uint8 and part.pixels.shape == (360, 1, 8, 8)
    assert np.array_equal(np.rint(part.pixels.numpy().reshape(360, 64) * (16 / 255)), test)
    assert np.array_equal(part.labels, truth) and part.labels.bincount().min() >= 34


@pytest.mark.parametrize("split", ["stratified", "writers"])
def test_no_digit_is_in_two_parts(split):
    parts = digits(split=split).parts.values()
    pixels = torch.cat([part.pixels.flatten(1) for part in parts])
    assert len(pixels) == len(pixels.unique(dim=0)) == 1797  # no two of the file's pictures are alike


def test_digits_by_writers_are_tested_on_the_end_of_the_file():
    from sklearn.datasets import load_digits

    part = digits(split="writers").parts["test"]
    assert part.labels.tolist() == load_digits().target[-360:].tolist()
    assert "'stratified' or by 'writers', not 'random'" in refused(lambda: digits(split="random"))


def test_digits_without_scikit_learn_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert refused(digits) == "digits needs scikit-learn, which is not installed: pip install scikit-learn"


@pytest.mark.parametrize("name", READERS)
def test_missing_data_says_what_to_fetch_and_where_to_put_it(name, tmp_path):
    message = refused(READERS[name], tmp_path)
    assert message.startswith(f"{tmp_path / name}/") and " is missing: fetch " in message and message.endswith("there")


@pytest.mark.parametrize("name", READERS)
def test_without_a_folder_the_variable_is_named(name, monkeypatch):
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    assert f"set CLEARHEAD_DATA to one that holds {name}/" in refused(READERS[name])


def test_the_folder_is_found_through_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_DATA", os.fspath(packed_cifar10(tmp_path)))
    assert len(cifar10().parts["train"]) == 8


def test_strips_without_pillow_say_so(tmp_path, monkeypatch):
    packed_cifar10(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert refused(cifar10, tmp_path) == "pictures need Pillow, which is not installed: pip install Pillow"


def test_a_validation_part_is_held_back_by_class_and_the_same_every_time(tmp_path):
    dataset = digits()
    assert with_validation(dataset) is dataset
    official_cifar10(tmp_path / "cifar10")
    cut = with_validation(cifar10(tmp_path), 0.3)
    assert list(cut.parts) == ["train", "valid", "test"] and len(cut.parts["train"]) + len(cut.parts["valid"]) == 15
    labels = torch.tensor([0] * 10 + [1] * 3 + [2])
    stay, held = stratified(labels, 0.2, seed=3)
    assert labels[held].tolist() == [0, 0, 1] and sorted([*stay.tolist(), *held.tolist()]) == list(range(14))
    assert torch.equal(held, stratified(labels, 0.2, seed=3)[1])
    assert any(not torch.equal(held, stratified(labels, 0.2, seed=seed)[1]) for seed in range(4, 9))
    assert "must lie between 0 and 1, not 1.5" in refused(stratified, labels, 1.5)
