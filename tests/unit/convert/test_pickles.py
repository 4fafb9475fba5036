"""Files of torch.save: read as torch reads them, and never run."""

import collections
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch

from clearhead.convert.tensors import open_weights
from clearhead.errors import ClearheadError


class Runs:
    """An object whose pickle runs a command when a trusting reader opens it."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def state_dict() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(6, 5, generator=generator)
    return collections.OrderedDict(
        matrix=matrix,
        transposed=matrix.t(),
        rows=matrix[2:4],
        corner=matrix[1:3, 1:4],
        tied=matrix,
        parameter=torch.nn.Parameter(torch.randn(3, generator=generator)),
        scalar=torch.tensor(4.5),
        nothing=torch.empty(0, 3),
        position_ids=torch.arange(7).expand(1, -1),
        half=torch.ones(3).half(),
        bf16=torch.ones(3).bfloat16(),
        double=torch.ones(3).double(),
        mask=torch.tensor([True, False]),
        byte=torch.ones(3, dtype=torch.uint8),
        short=torch.ones(3, dtype=torch.int16),
    )


def refused(path: Path) -> str:
    with pytest.raises(ClearheadError) as caught:
        open_weights(path)
    assert str(caught.value).isprintable() and path.name in str(caught.value)
    return str(caught.value)


def saved(folder: Path, value: object, **options) -> Path:
    torch.save(value, folder / "weights.pt", **options)
    return folder / "weights.pt"


LAYOUTS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "older"])


@LAYOUTS
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_tensor_equals_what_torch_load_gives(tmp_path, zipped, protocol):
    path = saved(tmp_path, state_dict(), _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    weights, theirs = open_weights(path), state_dict()
    if protocol == 2:  # the only one that torch's own safe reader knows
        theirs = torch.load(path, weights_only=True)
    assert weights.names == list(theirs) and weights.notes == []
    for name, tensor in theirs.items():
        ours = weights[name]
        assert ours.dtype is weights.dtype(name) is tensor.dtype and tuple(ours.shape) == weights.shape(name)
        assert torch.equal(ours, tensor) and ours.is_contiguous(), name


@LAYOUTS
def test_a_module_s_state_dict_with_its_version_attributes_is_read(tmp_path, zipped):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    weights = open_weights(saved(tmp_path, module.state_dict(), _use_new_zipfile_serialization=zipped))
    module.load_state_dict(weights)
    assert weights.names == list(module.state_dict())


@pytest.mark.parametrize("wrapper", ["state_dict", "model"])
def test_weights_one_level_down_are_unwrapped_and_that_is_said(tmp_path, wrapper):
    module = torch.nn.Linear(3, 2)
    optimiser = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    path = saved(tmp_path, {"epoch": 3, wrapper: module.state_dict(), "optimizer": optimiser.state_dict(), "lr": 0.1})
    weights = open_weights(path)
    assert weights.names == ["weight", "bias"]
    assert len(weights.notes) == 1 and wrapper in weights.notes[0] and "'optimizer'" in weights.notes[0]


@LAYOUTS
@pytest.mark.parametrize("function", [os.system, eval, exec], ids=lambda function: function.__name__)
def test_a_pickle_with_code_in_it_is_refused_and_nothing_runs(tmp_path, zipped, function):
    marker = tmp_path / "it-ran"
    command = f"touch {marker}" if function is os.system else f"open({str(marker)!r}, 'w')"
    path = saved(tmp_path, {"a": torch.ones(2), "b": Runs(function, command)}, _use_new_zipfile_serialization=zipped)
    message = refused(path)
    assert "no code was run" in message and function.__name__ in message
    assert not marker.exists()
    pickle_of_it = pickle.dumps(Runs(function, command))
    pickle.loads(pickle_of_it)
    assert marker.exists(), "the pickle is harmless: this test proves nothing"


def test_a_bare_pickle_with_code_in_it_is_refused_and_nothing_runs(tmp_path):
    marker = tmp_path / "it-ran"
    for protocol in range(6):
        (tmp_path / "weights.bin").write_bytes(pickle.dumps(Runs(os.system, f"touch {marker}"), protocol=protocol))
        refused(tmp_path / "weights.bin")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([torch.ones(1)], "holds a list"),
        (torch.ones(1), "holds a tensor"),
        ({"a": torch.ones(1), "step": 3}, "'step' is a int, not a tensor"),
        ({"a": {"b": torch.ones(1)}}, "'a' is a dict, not a tensor"),
        ({"a": None}, "'a' is a NoneType"),
        ({1: torch.ones(1)}, "'1' is not a tensor's name"),
        ({"a": torch.ones(4).to_sparse()}, "no code was run"),
        (torch.nn.Linear(1, 1), "no code was run"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_a_flat_dict_of_tensors_is_refused(tmp_path, value, reason):
    assert reason in refused(saved(tmp_path, value))


@LAYOUTS
def test_a_truncated_file_is_refused_at_every_length(tmp_path, zipped):
    whole = saved(tmp_path, state_dict(), _use_new_zipfile_serialization=zipped).read_bytes()
    path = tmp_path / "cut.bin"
    for length in (1, 4, 30, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path)


def rebuilt(folder: Path, change, compression: int = zipfile.ZIP_STORED) -> Path:
    """A saved tensor of four numbers whose pickle went through `change`."""
    source = saved(folder, {"a": torch.arange(4.0)})
    path = folder / "changed.pt"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", compression) as new:
        for member in old.infolist():
            content = old.read(member)
            new.writestr(member.filename, change(content) if member.filename.endswith("data.pkl") else content)
    return path


def test_an_archive_that_was_packed_again_reads_the_same(tmp_path):
    assert torch.equal(open_weights(rebuilt(tmp_path, lambda raw: raw))["a"], torch.arange(4.0))


def test_a_storage_that_is_shorter_than_its_tensor_is_refused_though_the_file_goes_on(tmp_path):
    path = tmp_path / "short.pt"
    with zipfile.ZipFile(saved(tmp_path, {"a": torch.arange(4.0)})) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            new.writestr(member.filename, content[:12] if member.filename.endswith("data/0") else content)
    assert "storage '0' has 12 bytes, not 16" in refused(path)


def test_a_member_that_is_said_to_end_beyond_the_file_is_refused(tmp_path):
    path = rebuilt(tmp_path, lambda raw: raw)
    raw = bytearray(path.read_bytes())
    entry = raw.rindex(b"weights/data/0") - 46  # the archive's directory tells both sizes 20 bytes into an entry
    raw[entry + 20 : entry + 28] = (100_000).to_bytes(4, "little") * 2
    path.write_bytes(raw)
    assert "'weights/data/0' ends beyond the file" in refused(path)


def test_a_directory_that_places_a_member_before_the_file_is_refused(tmp_path):
    path, shift = rebuilt(tmp_path, lambda raw: raw), 60
    raw = bytearray(path.read_bytes())
    for at in [at for at in range(len(raw)) if raw.startswith(b"PK\x01\x02", at)]:  # the directory's entries
        offset = int.from_bytes(raw[at + 42 : at + 46], "little") + shift
        target = raw.startswith(b"weights/data/0", at + 46)
        raw[at + 42 : at + 46] = (0 if target else offset).to_bytes(4, "little")
    end = raw.rindex(b"PK\x05\x06")
    raw[end + 16 : end + 20] = (int.from_bytes(raw[end + 16 : end + 20], "little") + shift).to_bytes(4, "little")
    raw[end + 20 :] = shift.to_bytes(2, "little") + b"PK\x03\x04" + bytes(shift - 4)
    path.write_bytes(raw)
    assert "'weights/data/0' is not stored" in refused(path)


def test_an_older_file_whose_counts_disagree_is_refused(tmp_path):
    path = saved(tmp_path, {"a": torch.arange(4.0)}, _use_new_zipfile_serialization=False)
    whole, count = path.read_bytes(), (4).to_bytes(8, "little")
    assert whole.count(count) == 1
    path.write_bytes(whole.replace(count, (3).to_bytes(8, "little")))
    assert "damaged or truncated" in refused(path)


def test_a_compressed_archive_is_refused_and_not_unpacked(tmp_path):
    assert "not stored" in refused(rebuilt(tmp_path, lambda raw: raw, zipfile.ZIP_DEFLATED))


def test_a_tensor_larger_than_its_storage_is_refused(tmp_path):
    four = b"K\x04\x85"  # the shape (4,)
    for shape in (
        b"K\x05\x85",
        b"J\xff\xff\xff\x7f\x85",
        b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85",
        b"J\xff\xff\xff\xff\x85",
    ):

        def reshape(raw: bytes, shape: bytes = shape) -> bytes:
            assert raw.count(four) == 1
            return raw.replace(four, shape)

        refused(rebuilt(tmp_path, reshape))


def test_an_expanded_tensor_is_refused_instead_of_blown_up(tmp_path):
    message = refused(saved(tmp_path, {"a": torch.ones(1).expand(10**9)}))
    assert "'a'" in message and "reaches beyond the 1 numbers stored" in message


def test_a_zip_that_torch_did_not_write_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "weights.bin", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert "not one that torch.save wrote" in refused(tmp_path / "weights.bin")


@pytest.mark.parametrize(
    "raw",
    [
        b"(" * 10_000 + b".",  # depth
        b"]" * 5_000_000 + b".",  # sheer number
        b"\x80\x02})\x85" + b"q\x00h\x00\x86" * 200 + b"K\x01s.",  # a key whose hash takes 2^200 steps
        b"\x80\x02r\xff\xff\xff\xff.",  # a memo of four thousand million places
        b"\x80\x02X\xff\xff\xff\xffa.",  # a string longer than the file
        b".",
        b"\x80\x02}.",
        b"\x80\x02RRR.",
        b"\x80\x02}}b0.",
    ],
)
def test_a_pickle_made_to_exhaust_the_reader_is_refused_at_once(tmp_path, raw):
    (tmp_path / "weights.bin").write_bytes(raw)
    refused(tmp_path / "weights.bin")
    with zipfile.ZipFile(tmp_path / "zipped.bin", "w") as archive:
        archive.writestr("archive/data.pkl", raw)
    if raw != b"\x80\x02}.":  # an empty dict is an empty file of weights
        refused(tmp_path / "zipped.bin")


def test_reading_does_not_go_through_python_s_own_unpickler(tmp_path, monkeypatch):
    path = saved(tmp_path, state_dict())
    for place in ("pickle.load", "pickle.loads", "torch.load"):
        monkeypatch.setattr(place, lambda *_, **__: pytest.fail("a trusting reader was used"))
    assert torch.equal(open_weights(path)["matrix"], state_dict()["matrix"])
