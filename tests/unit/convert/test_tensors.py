"""Reading folders and safetensors files that other people wrote, and writing our own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from clearhead import errors
from clearhead.convert.safetensors_header import DTYPES
from clearhead.convert.tensors import open_weights, write_safetensors
from clearhead.errors import ClearheadError
from clearhead.files import MAX_JSON_BYTES, read_json

SRC = Path(errors.__file__).parents[1]


def some_tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {
        "embed.weight": torch.randn(11, 6, generator=generator),
        "h.0.bias": torch.randn(6, generator=generator).to(torch.bfloat16),
        "h.0.mask": torch.tensor([[True, False], [False, True]]),
        "half": torch.randn(2, 3, generator=generator).half(),
        "position_ids": torch.arange(5),
        "scalar": torch.tensor(2.5),
        "nothing": torch.empty(0, 4),
    }


def raw_safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + data


def described(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def refused(path: Path) -> str:
    """The one line with which opening `path` is refused."""
    with pytest.raises(ClearheadError) as caught:
        open_weights(path)
    message = str(caught.value)
    assert message.isprintable() and str(path.name) in message
    return message


def refused_bytes(folder: Path, content: bytes) -> str:
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return refused(path)


def write_sharded(folder: Path, suffix: str = ".safetensors") -> dict[str, torch.Tensor]:
    """Two shards and their index as transformers lays them out."""
    tensors = some_tensors()
    stem, places = ("model" if suffix == ".safetensors" else "pytorch_model"), {}
    for number, names in enumerate((list(tensors)[:3], list(tensors)[3:]), start=1):
        shard = f"{stem}-0000{number}-of-00002{suffix}"
        part = {name: tensors[name] for name in names}
        if suffix == ".safetensors":
            safetensors.torch.save_file(part, folder / shard)
        else:
            torch.save(part, folder / shard)
        places.update(dict.fromkeys(names, shard))
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / f"{stem}{suffix}.index.json").write_text(json.dumps(index))
    return tensors


def point_index(folder: Path, name: str, shard: object) -> Path:
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"][name] = shard
    index.write_text(json.dumps(content))
    return index


def assert_same(weights, tensors: dict[str, torch.Tensor]) -> None:
    assert set(weights) == set(tensors)
    for name, tensor in tensors.items():
        assert weights.shape(name) == tuple(tensor.shape) and weights.dtype(name) is tensor.dtype
        assert weights[name].dtype is tensor.dtype and torch.equal(weights[name], tensor), name


def test_a_safetensors_file_of_the_reference_library_reads_back_bit_for_bit(tmp_path):
    tensors = some_tensors()
    safetensors.torch.save_file(tensors, tmp_path / "any-name.safetensors", metadata={"format": "pt"})
    weights = open_weights(tmp_path / "any-name.safetensors")
    assert_same(weights, tensors)
    assert sorted(weights.names) == sorted(tensors) and len(weights) == len(tensors)
    assert weights.nbytes == sum(tensor.nbytes for tensor in tensors.values())
    assert weights.source("scalar") == tmp_path / "any-name.safetensors" == weights.path
    assert weights.notes == [] and "scalar" in weights and "other" not in weights


def test_a_tensor_is_a_view_of_the_file_and_writing_to_it_leaves_the_file_alone(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"a": torch.zeros(64, 64)}, path)
    before = path.read_bytes()
    weights = open_weights(tmp_path)
    assert weights["a"].data_ptr() == weights["a"].data_ptr()
    weights["a"].fill_(1.0)
    assert path.read_bytes() == before
    assert not open_weights(tmp_path)["a"].any()


def test_saving_one_tensor_of_a_large_file_does_not_drag_the_others_along(tmp_path):
    safetensors.torch.save_file({"large": torch.zeros(10_000), "small": torch.ones(3)}, tmp_path / "model.safetensors")
    assert open_weights(tmp_path)["small"].untyped_storage().nbytes() == 12


def test_data_that_starts_at_an_odd_byte_is_read_and_aligned(tmp_path):
    values = torch.arange(5000.0)
    header = json.dumps({"a": described(shape=[5000], offsets=[0, 20_000])}).encode()
    header += b" " * ((1 - 8 - len(header)) % 4)
    (tmp_path / "model.safetensors").write_bytes(raw_safetensors(header, values.numpy().tobytes()))
    read = open_weights(tmp_path)["a"]
    assert torch.equal(read, values) and read.data_ptr() % 4 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_a_tensor_that_had_to_be_copied_is_not_in_memory_twice(tmp_path):
    def resident_file_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGESIZE")

    size = 32 * 2**20
    header = json.dumps({"a": described(shape=[size // 4], offsets=[0, size])}).encode()
    header += b" " * ((1 - 8 - len(header)) % 4)
    (tmp_path / "model.safetensors").write_bytes(raw_safetensors(header, bytes(size)))
    before = resident_file_pages()
    weights = open_weights(tmp_path)
    assert not weights["a"].any() and resident_file_pages() - before < size // 2


def test_names_shapes_and_types_are_known_without_reading_any_tensor(tmp_path, monkeypatch):
    safetensors.torch.save_file(some_tensors(), tmp_path / "model.safetensors")
    monkeypatch.setattr("clearhead.convert.mapped.MappedFile.tensor", lambda *_: pytest.fail("tensor data was read"))
    weights = open_weights(tmp_path)
    assert weights.shape("embed.weight") == (11, 6) and weights.dtype("half") is torch.float16
    assert "embed.weight" in weights and weights.nbytes > 0


@pytest.mark.parametrize("suffix", [".safetensors", ".bin"])
def test_a_sharded_folder_reads_as_one_and_says_where_each_tensor_lies(tmp_path, suffix):
    tensors = write_sharded(tmp_path, suffix)
    weights = open_weights(tmp_path)
    assert_same(weights, tensors)
    assert weights.source("scalar").name.endswith(f"-00002-of-00002{suffix}") and weights.notes == []


def test_a_folder_with_several_kinds_prefers_safetensors_and_says_so(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    safetensors.torch.save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    weights = open_weights(tmp_path)
    assert weights["a"].item() == 1
    assert "pytorch_model.bin" in weights.notes[0]


def test_a_hub_cache_snapshot_of_links_to_blobs_loads(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    tensors = write_sharded(blobs)
    for file in list(blobs.iterdir()):
        blob = file.rename(blobs / f"hash-of-{len(file.name)}-{file.name[6:11]}")
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
    assert_same(open_weights(snapshot), tensors)


def test_a_folder_without_weights_says_what_was_looked_for(tmp_path):
    message = refused(tmp_path)
    for name in (
        "model.safetensors",
        "model.safetensors.index.json",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
    ):
        assert name in message


def test_what_is_missing_or_of_no_known_kind_is_refused(tmp_path):
    assert "is missing" in refused(tmp_path / "nowhere.safetensors")
    (tmp_path / "weights.h5").write_bytes(b"x")
    assert ".safetensors" in refused(tmp_path / "weights.h5")
    (tmp_path / "gone.safetensors").symlink_to("nowhere")
    assert "broken link" in refused(tmp_path / "gone.safetensors")
    (tmp_path / "empty.safetensors").touch()
    assert "is empty" in refused(tmp_path / "empty.safetensors")


def test_a_pipe_in_place_of_a_file_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    assert "not a regular file" in refused(tmp_path / "model.safetensors")


def test_a_truncated_file_is_refused_in_one_line_at_every_length(tmp_path):
    safetensors.torch.save_file(some_tensors(), tmp_path / "whole.safetensors")
    whole = (tmp_path / "whole.safetensors").read_bytes()
    for length in (1, 7, 8, 9, 60, len(whole) // 2, len(whole) - 1):
        refused_bytes(tmp_path, whole[:length])


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 10**12, 1000])
def test_a_header_longer_than_the_file_is_refused(tmp_path, length):
    assert "truncated" in refused_bytes(tmp_path, raw_safetensors({}, length=length))


def test_an_absurdly_long_header_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write((MAX_JSON_BYTES + 1).to_bytes(8, "little"))
        file.truncate(8 + MAX_JSON_BYTES + 1)
    assert "is refused" in refused(path)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"hello",
        b"[]",
        b"{",
        b'{"a": }',
        b"\xff\xfe{}",
        b'{"a": ' + b"[" * 100_000,
        b'{"a": 1' + b"0" * 5000 + b"}",
    ],
)
def test_a_header_that_is_not_a_json_object_is_refused(tmp_path, header):
    refused_bytes(tmp_path, raw_safetensors(header))


def test_a_name_given_twice_is_refused(tmp_path):
    entry = json.dumps(described())
    header = f'{{"a": {entry}, "a": {entry}}}'.encode()
    assert "'a' appears twice" in refused_bytes(tmp_path, raw_safetensors(header, bytes(8)))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (described(dtype="F33"), "unknown dtype 'F33'"),
        (described(dtype=["F32"]), "unknown dtype"),
        (described(dtype=None), "unknown dtype"),
        (described(shape=[-2]), "whole numbers"),
        (described(shape=[2.0]), "whole numbers"),
        (described(shape=[True, 2]), "whole numbers"),
        (described(shape="2"), "whole numbers"),
        (described(shape=[10**30]), "whole numbers"),
        (described(shape=[2**40, 2**40]), "impossible shape"),
        (described(shape=[0, 2**62, 2**62], offsets=[0, 0]), "impossible shape"),
        (described(shape=[1] * 100), "impossible shape"),
        (described(shape=[10**9]), "needs 4,000,000,000"),
        (described(shape=[3]), "needs 12"),
        (described(dtype="F16"), "needs 4"),
        (described(offsets=[0, 10**15]), "truncated"),
        (described(offsets=[-8, 0]), "offsets"),
        (described(offsets=[8, 0]), "offsets"),
        (described(offsets=[0, 4, 8]), "offsets"),
        (described(offsets=None), "offsets"),
        ({"dtype": "F32", "shape": [2]}, "data_offsets"),
        (None, "data_offsets"),
        ([1], "data_offsets"),
    ],
)
def test_a_tensor_described_wrongly_is_refused_by_name(tmp_path, entry, reason):
    message = refused_bytes(tmp_path, raw_safetensors({"layer.0": entry}, bytes(8)))
    assert reason in message and "'layer.0'" in message


def test_tensors_that_overlap_or_leave_a_gap_are_refused(tmp_path):
    overlap = {"a": described(offsets=[0, 8]), "b": described(offsets=[4, 12])}
    assert "'b' overlaps" in refused_bytes(tmp_path, raw_safetensors(overlap, bytes(12)))
    gap = {"a": described(offsets=[0, 8]), "b": described(offsets=[12, 20])}
    assert "'b' leaves a gap" in refused_bytes(tmp_path, raw_safetensors(gap, bytes(20)))
    assert "belong to no tensor" in refused_bytes(tmp_path, raw_safetensors({"a": described()}, bytes(9)))


@pytest.mark.parametrize("metadata", [1, ["a"], {"a": 1}, None])
def test_metadata_that_is_not_text_is_refused(tmp_path, metadata):
    assert "__metadata__" in refused_bytes(tmp_path, raw_safetensors({"__metadata__": metadata}))


def test_a_name_that_would_break_a_message_into_lines_is_refused_in_one(tmp_path):
    for name in ("a\nb", "\x1b[31m", "x" * 100_000):
        assert "no name for a tensor" in refused_bytes(tmp_path, raw_safetensors({name: described()}, bytes(8)))
    surrogate = json.dumps({"\ud800": described()}).encode()
    refused_bytes(tmp_path, raw_safetensors(surrogate, bytes(8)))


def test_a_missing_shard_is_named(tmp_path):
    write_sharded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ClearheadError, match=r"'model-00002-of-00002.safetensors', which is missing"):
        open_weights(tmp_path)


@pytest.mark.parametrize(
    "shard",
    [
        "../secret.safetensors",
        "inside/../../secret.safetensors",
        "/etc/secret.safetensors",
        "C:secret.safetensors",
        "C:\\secret.safetensors",
        "..\\secret.safetensors",
        "\\\\host\\share\\secret.safetensors",
        "a\0b.safetensors",
        "a\nb.safetensors",
    ],
)
def test_an_index_that_points_outside_the_folder_opens_nothing(tmp_path, shard):
    folder = tmp_path / "folder"
    folder.mkdir()
    write_sharded(folder)
    safetensors.torch.save_file({"scalar": torch.zeros(())}, tmp_path / "secret.safetensors")
    index = point_index(folder, "scalar", shard)
    message = refused_index(index)
    assert "outside the folder" in message and "'scalar'" in message


def refused_index(index: Path) -> str:
    with pytest.raises(ClearheadError) as caught:
        open_weights(index.parent)
    assert str(caught.value).isprintable() and index.name in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shard", [7, None, ["a"], "", ".", "config.json", "pytorch_model.bin"])
def test_an_index_entry_that_names_no_safetensors_file_is_refused(tmp_path, shard):
    write_sharded(tmp_path)
    assert "not the name of a .safetensors file" in refused_index(point_index(tmp_path, "scalar", shard))


@pytest.mark.parametrize("content", ["{}", '{"weight_map": {}}', '{"weight_map": [1]}', "[1, 2]", '"text"', "{"])
def test_an_index_without_a_weight_map_is_refused(tmp_path, content):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    refused_index(index)


def test_an_index_that_names_a_tensor_its_shard_lacks_is_refused(tmp_path):
    write_sharded(tmp_path)
    message = refused_index(point_index(tmp_path, "ghost", "model-00001-of-00002.safetensors"))
    assert "'ghost'" in message and "lacks it" in message


def test_a_tensor_that_the_index_lacks_is_read_and_said(tmp_path):
    tensors = write_sharded(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    del content["weight_map"]["scalar"]
    index.write_text(json.dumps(content))
    weights = open_weights(tmp_path)
    assert_same(weights, tensors)
    assert "'scalar'" in weights.notes[0] and weights.source("scalar").name == "model-00002-of-00002.safetensors"


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    write_sharded(tmp_path)
    second = tmp_path / "model-00002-of-00002.safetensors"
    safetensors.torch.save_file({**safetensors.torch.load_file(second), "embed.weight": torch.ones(1)}, second)
    assert "another shard" in refused_index(tmp_path / "model.safetensors.index.json")


def test_json_is_read_or_refused_in_one_line(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"a": [1, {"b": "ä"}]}', encoding="utf-8")
    assert read_json(path) == {"a": [1, {"b": "ä"}]}
    for content in (
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 2}}',
        b"[" * 10**6,
        b"1" * 10**5,
    ):
        path.write_bytes(content)
        with pytest.raises(ClearheadError, match="config.json") as caught:
            read_json(path)
        assert str(caught.value).isprintable()


def test_a_json_file_that_is_too_large_or_not_there_is_refused(tmp_path):
    with pytest.raises(ClearheadError, match="missing"):
        read_json(tmp_path / "config.json")
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(MAX_JSON_BYTES + 1)
    with pytest.raises(ClearheadError, match="refused"):
        read_json(tmp_path / "config.json")


def every_dtype() -> dict[str, torch.Tensor]:
    values = torch.tensor([0, 1, 2, 3])
    return {f"ä {code}": values.to(dtype) for code, dtype in DTYPES.items()} | some_tensors()


def test_a_written_file_is_byte_for_byte_what_the_reference_library_writes(tmp_path):
    safetensors.torch.save_file(every_dtype(), tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    write_safetensors(tmp_path / "ours.safetensors", every_dtype(), {"format": "pt"})
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()
    assert_same(open_weights(tmp_path / "ours.safetensors"), every_dtype())


def test_shared_transposed_and_differentiable_tensors_are_written_whole(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {"a": base, "again": base, "rows": base[1:], "transposed": base.t(), "p": torch.nn.Parameter(base)}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    assert_same(safetensors_file := open_weights(tmp_path), tensors)
    for name, tensor in safetensors.torch.load_file(safetensors_file.path).items():
        assert torch.equal(tensor, tensors[name])


def test_what_was_read_can_be_written_over_the_file_it_came_from(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(some_tensors(), path)
    write_safetensors(path, open_weights(path))
    assert_same(open_weights(path), some_tensors())


def test_weights_that_are_open_keep_their_numbers_when_the_file_is_written_anew(tmp_path):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a": torch.zeros(5000)})
    before = open_weights(path)
    write_safetensors(path, {"a": torch.ones(7)})
    assert torch.equal(before["a"], torch.zeros(5000)) and torch.equal(open_weights(path)["a"], torch.ones(7))


@pytest.mark.parametrize(
    "tensors", [{"__metadata__": torch.ones(1)}, {"a": torch.ones(1, device="meta")}, {"a": torch.ones(2).to_sparse()}]
)
def test_a_tensor_that_safetensors_cannot_hold_is_refused_before_anything_is_written(tmp_path, tensors):
    with pytest.raises(ClearheadError):
        write_safetensors(tmp_path / "model.safetensors", tensors)
    assert list(tmp_path.iterdir()) == []


def test_metadata_of_other_kinds_and_folders_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(ClearheadError, match="text"):
        write_safetensors(tmp_path / "model.safetensors", some_tensors(), {"step": 3})  # pyright: ignore[reportArgumentType]
    (tmp_path / "file").touch()
    for place in (tmp_path / "nowhere" / "a.safetensors", tmp_path / "file" / "a.safetensors"):
        with pytest.raises(ClearheadError, match="could not be written"):
            write_safetensors(place, some_tensors())


FULL_DISK = """
import resource, sys, torch
from clearhead.convert.safetensors_header import DTYPES
from clearhead.convert.tensors import write_safetensors
from clearhead.errors import ClearheadError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_safetensors(sys.argv[1], {"a": torch.ones(10_000), "b": torch.ones(100_000)}, {"format": "pt"})
except ClearheadError as error:
    print(error)
"""


def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, some_tensors())
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(SRC)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("\n") == 1 and "could not be written" in run.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
    assert_same(open_weights(path), some_tensors())


def test_an_interruption_while_writing_leaves_no_half_file(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_safetensors(tmp_path / "model.safetensors", some_tensors())
    assert list(tmp_path.iterdir()) == []
