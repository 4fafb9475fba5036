"""Arrays of .npz files: read as numpy reads them, checked before any memory is asked for."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.convert.tensors import open_weights
from clearhead.errors import ClearheadError


def refused(path: Path) -> str:
    with pytest.raises(ClearheadError) as caught:
        weights = open_weights(path)
        for name in weights:
            weights[name]
    assert str(caught.value).isprintable() and path.name in str(caught.value)
    return str(caught.value)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def npy_claiming(header: str, data: bytes = b"") -> bytes:
    raw = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data


def packed(folder: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / "weights.npz", "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return folder / "weights.npz"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_equal_what_numpy_reads(tmp_path, save):
    random = np.random.default_rng(5)
    arrays = {
        "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel": random.normal(size=(6, 2, 3)),
        "embedding/kernel": random.normal(size=(4, 4, 3, 6)).astype(np.float32),
        "half": random.normal(size=7).astype(np.float16),
        "columns": np.asfortranarray(random.normal(size=(3, 4, 5)).astype(np.float32)),
        "big_endian": random.normal(size=(2, 3)).astype(">f4"),
        "step": np.array(7),
        "mask": np.array([True, False]),
        "nothing": np.empty((0, 3), np.float32),
        "small": np.arange(5, dtype=np.int16),
    }
    save(tmp_path / "weights.npz", **arrays)
    weights = open_weights(tmp_path / "weights.npz")
    assert weights.names == list(arrays) and weights.notes == []
    with np.load(tmp_path / "weights.npz") as theirs:
        for name in arrays:
            ours = weights[name]
            assert (
                ours.is_contiguous() and weights.shape(name) == theirs[name].shape and ours.dtype is weights.dtype(name)
            )
            assert np.array_equal(ours.numpy(), theirs[name]) and ours.numpy().dtype == theirs[name].dtype.newbyteorder(
                "="
            )


def test_raw_two_byte_values_are_read_as_bfloat16_and_that_is_said(tmp_path):
    values = torch.tensor([0.0, 1.0, -2.5, 3e38]).to(torch.bfloat16)
    np.savez(tmp_path / "weights.npz", a=values.view(torch.int16).numpy().view("V2"))
    weights = open_weights(tmp_path / "weights.npz")
    assert torch.equal(weights["a"], values)
    assert len(weights.notes) == 1 and "bfloat16" in weights.notes[0]


def test_bfloat16_arrays_of_ml_dtypes_are_read(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes gives numpy its bfloat16")
    np.savez(tmp_path / "weights.npz", a=np.arange(5).astype(ml_dtypes.bfloat16))
    assert torch.equal(open_weights(tmp_path / "weights.npz")["a"], torch.arange(5).to(torch.bfloat16))


def test_nothing_but_headers_is_read_until_an_array_is_asked_for(tmp_path, monkeypatch):
    np.savez(tmp_path / "weights.npz", a=np.ones((3, 2), np.float32))
    monkeypatch.setattr(np, "empty", lambda *_, **__: pytest.fail("memory was asked for"))
    weights = open_weights(tmp_path / "weights.npz")
    assert weights.shape("a") == (3, 2) and weights.dtype("a") is torch.float32 and weights.nbytes == 24


def test_pickled_objects_are_refused_and_nothing_runs(tmp_path):
    class Runs:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'it-ran'}",)

    np.savez(tmp_path / "weights.npz", a=np.array([Runs()], dtype=object))
    message = refused(tmp_path / "weights.npz")
    assert "'a'" in message and "no code was run" in message
    assert not (tmp_path / "it-ran").exists()


@pytest.mark.parametrize(
    "array", [np.array(["text"]), np.array([b"bytes"]), np.ones(2, "c16"), np.zeros(2, "u8"), np.zeros(2, "V1")]
)
def test_arrays_that_are_not_numbers_we_know_are_refused(tmp_path, array):
    np.savez(tmp_path / "weights.npz", a=array)
    assert "'a' has the dtype" in refused(tmp_path / "weights.npz")


def test_a_shape_that_its_member_cannot_hold_is_refused(tmp_path):
    for shape in (
        "(1000000000,)",
        "(3,)",
        "(1,)",
        "(4611686018427387904, 4)",
        "(-2,)",
        "(True,)",
        "(2.0,)",
        "2",
        "(1,)*9",
    ):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
        message = refused(packed(tmp_path, {"a.npy": npy_claiming(header, bytes(8))}))
        assert "'a'" in message


@pytest.mark.parametrize(
    "member",
    [
        b"",
        b"hello",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x09\x00" + bytes(100),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        npy_claiming("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + " " * 2000, bytes(4)),
        npy_claiming("not a dict"),
        npy_claiming("{'descr': '<f4'}"),
        npy_claiming("-" * 1000 + "1"),
        npy_claiming("(" * 1000),
        npy_claiming("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy_claiming("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", bytes(4)),
        npy_claiming("{'descr': '<f4', 'fortran_order': 3, 'shape': (1,), }", bytes(4)),
    ],
)
def test_a_member_that_is_no_plain_array_is_refused(tmp_path, member):
    assert "'a'" in refused(packed(tmp_path, {"a.npy": member}))


def test_a_zip_bomb_is_refused_by_what_it_declares(tmp_path):
    bomb = npy(np.zeros(40_000_000, np.float32))
    path = packed(tmp_path, {"a.npy": bomb}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    assert "would unpack to 160,000,128 bytes" in refused(path)


def test_a_member_that_declares_less_or_more_than_it_holds_is_refused(tmp_path):
    array = npy(np.arange(1000, dtype=np.float32))
    path = packed(tmp_path, {"a.npy": array}, zipfile.ZIP_DEFLATED)
    whole, size = path.read_bytes(), len(array).to_bytes(4, "little")
    for claimed in (len(array) - 400, len(array) + 400, 2**31):
        path.write_bytes(whole.replace(size, claimed.to_bytes(4, "little")))
        refused(path)


def test_a_member_that_is_larger_than_the_whole_file_is_refused_before_memory_is_asked_for(tmp_path, monkeypatch):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5000,), }"
    short, full = npy_claiming(header, bytes(4000)), len(npy_claiming(header, bytes(20_000)))
    path = packed(tmp_path, {"a.npy": short})
    path.write_bytes(path.read_bytes().replace(len(short).to_bytes(4, "little"), full.to_bytes(4, "little")))
    monkeypatch.setattr(np, "empty", lambda *_, **__: pytest.fail("memory was asked for"))
    assert "the file can't hold" in refused(path)


def test_a_damaged_number_is_found_by_the_checksum(tmp_path):
    path = packed(tmp_path, {"a.npy": npy(np.ones(100, np.float32))})
    raw = bytearray(path.read_bytes())
    raw[300] ^= 1
    path.write_bytes(raw)
    assert "CRC" in refused(path)


def test_names_with_paths_are_only_names_and_nothing_is_extracted(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = packed(folder, {"../../escaped.npy": npy(np.ones(2)), "/absolute.npy": npy(np.ones(2))})
    weights = open_weights(path)
    assert weights.names == ["../../escaped", "/absolute"] and weights["../../escaped"].tolist() == [1, 1]
    assert [file.name for file in tmp_path.rglob("*")] == ["folder", "weights.npz"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "weights.npz", "w") as archive:
        archive.writestr("a.npy", npy(np.ones(2)))
        archive.writestr("a.npy", npy(np.zeros(2)))
    assert "two arrays named 'a'" in refused(tmp_path / "weights.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_that_numpy_does_not_write_are_refused(tmp_path, compression):
    assert "numpy does not write" in refused(packed(tmp_path, {"a.npy": npy(np.ones(2))}, compression))


def test_a_truncated_archive_is_refused(tmp_path):
    path = packed(tmp_path, {"a.npy": npy(np.ones(100))})
    whole = path.read_bytes()
    for length in (1, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path)
