"""Mangled files: each loads as its own library would, or is refused in one line; none hangs or asks for much memory.

The cases run in a process of their own whose address space is limited: `python test_fuzz.py FOLDER` prints the report.
"""

import contextlib
import io
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

from clearhead import errors
from clearhead.convert.tensors import open_weights
from clearhead.errors import ClearheadError
from clearhead.files import read_json

SRC = Path(errors.__file__).parents[1]
SECONDS = 5.0
HEADROOM = 64 * 2**20  # of address space: what an allocation by a lie in a header can't stay below
BYTES_PER_BYTE, BASE = 16, 2**19  # Python's and numpy's memory, as a multiple of the file's size
CASES = {"safetensors": 200, "npz": 150, "torch": 120, "older torch": 80, "index": 100, "config": 100}
NASTY: list[Any] = [
    *(0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, 1.5, -0.0, 1e308),
    *("", "x", "F32", "F16", "I64", "BF16", "../x.safetensors", "/etc/passwd", "a\nb", "\ud800", "é" * 300),
    *(None, True, False, [], {}, [[]], {"a": {}}, [2**40, 2**40], [0, 2**62, 4], [1] * 100, [0, 8], [8, 0], [-8, 0]),
]


class Hang(BaseException):
    """Raised by the clock. Not an Exception, so that no reader can mistake it for a fault of the file."""


@dataclass
class Outcome:
    """How the cases of one kind of file went."""

    refused: int = 0
    loaded: int = 0
    faults: list[str] = field(default_factory=list)


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(11)
    matrix = torch.randn(24, 16, generator=generator)
    return {
        "wte.weight": matrix,
        "h.0.bias": torch.randn(16, generator=generator).half(),
        "h.0.c_attn.weight": matrix[:8].t().contiguous(),
        "position_ids": torch.arange(12),
        "scalar": torch.tensor(0.5),
        "empty": torch.empty(0, 3),
    }


# Mangling -----------------------------------------------------------------------------------------------------------


def mangle_bytes(raw: bytes, chance: random.Random, until: int | None = None) -> bytes:
    """One to three random injuries, at places before `until`."""
    data = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(min(len(data), until or len(data)) or 1)
        size = chance.choice([1, 1, 1, 2, 4, 8, 16])
        injury = chance.randrange(7)
        if injury == 0 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif injury == 1:
            data[at : at + size] = chance.randbytes(size)
        elif injury == 2:
            data[at : at + size] = bytes([chance.choice([0, 0x20, 0x30, 0x7F, 0xFF])]) * size
        elif injury == 3:
            data[at : at + 8] = chance.choice([0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1]).to_bytes(8, "little")
        elif injury == 4:
            del data[at : at + size]
        elif injury == 5:
            data[at:at] = data[at : at + size]
        else:
            del data[chance.randrange(len(data) + 1) :]
    return bytes(data)


def mangle_json(value: Any, chance: random.Random) -> Any:
    """A copy of a JSON value in which one thing, at any depth, was dropped, renamed or replaced by something nasty."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        act = chance.random()
        if act < 0.1:
            return {name: item for name, item in value.items() if name != key}
        if act < 0.2:
            return {(str(chance.choice(NASTY)) if name == key else name): item for name, item in value.items()}
        return value | {key: mangle_json(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        return [mangle_json(item, chance) if at == place else item for at, item in enumerate(value)]
    return chance.choice(NASTY)


def mangle_safetensors(raw: bytes, chance: random.Random) -> bytes:
    length = int.from_bytes(raw[:8], "little")
    if chance.random() < 0.4:
        return mangle_bytes(raw, chance, until=8 + length if chance.random() < 0.9 else None)
    header = json.dumps(mangle_json(json.loads(raw[8 : 8 + length]), chance)).encode()
    return len(header).to_bytes(8, "little") + header + raw[8 + length :]


def mangle_npz(raw: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.4:
        return mangle_bytes(raw, chance)
    with zipfile.ZipFile(io.BytesIO(raw)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    name = chance.choice(list(members))
    head, body = members[name][:128], members[name][128:]
    act = chance.random()
    if act < 0.2:
        members[name] = head + chance.randbytes(len(body))
    elif act < 0.6:
        members[name] = mangle_bytes(head, chance) + body
    else:
        shape = str(chance.choice(NASTY)).encode("utf-8", "replace")
        members[name] = members[name].replace(b"'shape': (", b"'shape': (" + shape + b", ")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as new:
        for name, content in members.items():
            new.writestr(name, content)
    return buffer.getvalue()


def mangle_torch(raw: bytes, chance: random.Random) -> bytes:
    """The pickle is hit half the time: it is a small part of the file."""
    begin = raw.find(b"\x80\x02")
    stop = raw.find(b"PK\x03\x04", begin) if raw.startswith(b"PK") else begin + 1200
    if chance.random() < 0.5:
        return raw[:begin] + mangle_bytes(raw[begin:stop], chance) + raw[stop:]
    return mangle_bytes(raw, chance)


def mangle_text(raw: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.4:
        return mangle_bytes(raw, chance)
    return json.dumps(mangle_json(json.loads(raw), chance)).encode()


# Reading: ours, and the reference library's --------------------------------------------------------------------------


def read_ours(path: Path) -> dict[str, torch.Tensor]:
    weights = open_weights(path)
    described = {name: (weights.shape(name), weights.dtype(name)) for name in weights}
    read = {name: weights[name] for name in weights}
    assert described == {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in read.items()}
    return read


def read_npz_of_numpy(path: Path) -> dict[str, torch.Tensor]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: torch.from_numpy(archive[name].copy()) for name in archive.files}


def read_torch(path: Path) -> dict[str, torch.Tensor]:
    with path.open("rb") as file:
        return torch.load(path, weights_only=True, mmap=file.read(4) == b"PK\x03\x04")


def comparable(read: dict[str, Any], numbers: bool = True) -> object:
    """Something that == can judge, also where there are NaNs; without the tensors' numbers if so wished."""

    def one(value: Any) -> object:
        if not isinstance(value, torch.Tensor):
            return repr(value)
        return value.dtype, tuple(value.shape), raw_bytes(value) if numbers else b""

    return {name: one(value) for name, value in read.items()}


def raw_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@dataclass
class Kind:
    """How a kind of file is made, mangled and read."""

    file: str
    mangle: Callable[[bytes, random.Random], bytes]
    theirs: Callable[[Path], dict[str, Any]]
    ours: Callable[[Path], dict[str, Any]] = read_ours


KINDS = {
    "safetensors": Kind("model.safetensors", mangle_safetensors, safetensors.torch.load_file),
    "npz": Kind("weights.npz", mangle_npz, read_npz_of_numpy),
    "torch": Kind("weights.bin", mangle_torch, read_torch),
    "older torch": Kind("older.bin", mangle_torch, read_torch),
    "index": Kind(
        "sharded/model.safetensors.index.json", mangle_text, lambda _: tensors(), lambda path: read_ours(path.parent)
    ),
    "config": Kind("config.json", mangle_text, lambda path: json.loads(path.read_bytes()), read_json),
}


def write_originals(folder: Path) -> None:
    values = tensors()
    safetensors.torch.save_file(values, folder / "model.safetensors", metadata={"format": "pt"})
    np.savez(folder / "weights.npz", **{name: value.numpy() for name, value in values.items()})
    torch.save(values, folder / "weights.bin")
    write_older_torch(folder / "older.bin", values)
    (folder / "sharded").mkdir()
    places = {}
    for shard, names in (("model-1.safetensors", list(values)[:3]), ("model-2.safetensors", list(values)[3:])):
        safetensors.torch.save_file({name: values[name] for name in names}, folder / "sharded" / shard)
        places |= dict.fromkeys(names, shard)
    index = {"metadata": {"total_size": 10}, "weight_map": places}
    (folder / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"model_type": "gpt2", "n_embd": 48, "task": {"text": {"max_length": 50}}, "eps": 1e-5, "sizes": [1, 2]}
    (folder / "config.json").write_text(json.dumps(config))


def write_older_torch(path: Path, values: dict[str, torch.Tensor]) -> None:
    """What torch.save wrote before it used zip. (Its writer names storages by address: no two files are alike.)"""
    types = {torch.float32: torch.FloatStorage, torch.float16: torch.HalfStorage, torch.int64: torch.LongStorage}

    class Pickler(pickle.Pickler):
        count = 0

        def persistent_id(self, obj: Any) -> tuple | None:
            if not isinstance(obj, torch.storage.TypedStorage):
                return None
            self.count += 1
            return "storage", types[obj.dtype], f"storage {self.count}", "cpu", len(obj), None

    with path.open("wb") as file:
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(value, file, protocol=2)
        Pickler(file, protocol=2).dump(values)
        pickle.dump([f"storage {number + 1}" for number in range(len(values))], file, protocol=2)
        for value in values.values():
            file.write(value.numel().to_bytes(8, "little") + raw_bytes(value))


# Judging ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def clock(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def judge(read: Callable[[], Any], allowed: int, seconds: float = SECONDS) -> tuple[dict[str, Any] | None, str]:
    """What `read` gave (None when it was refused) and what was wrong with how it went ('' when nothing was)."""
    tracemalloc.start()
    result, fault = None, ""
    try:
        with clock(seconds):
            result = read()
    except ClearheadError as error:
        if not str(error).isprintable() or len(str(error)) > 1500:
            fault = f"not one line: {str(error)[:200]!r}"
    except Hang:
        fault = f"took longer than {seconds} s"
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, fault or (f"asked for {peak:,} bytes, {allowed:,} are allowed" if peak > allowed else "")


def differs(kind: Kind, path: Path, ours: dict[str, Any], original: dict[str, Any]) -> str:
    """Why what was loaded is wrong: it differs from what the file's own library reads.

    Where that library refuses (it minds a stray byte of a zip's directory, say), the names, types and shapes must at
    least be those of the file before it was mangled.
    """
    try:
        theirs = kind.theirs(path)
    except Exception:
        same = comparable(ours, numbers=False) == comparable(original, numbers=False)
        return "" if same else "loads as something else, and its own library refuses it"
    return "" if comparable(ours) == comparable(theirs) else "differs from what its own library reads"


def run_all(folder: Path) -> dict[str, Outcome]:
    write_originals(folder)
    originals = {name: kind.ours(folder / kind.file) for name, kind in KINDS.items()}
    for name, kind in KINDS.items():
        assert differs(kind, folder / kind.file, originals[name], {}) == ""
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return {name: run_kind(name, folder, originals[name]) for name in KINDS}


def run_kind(name: str, folder: Path, original: dict[str, Any]) -> Outcome:
    kind, chance, outcome = KINDS[name], random.Random(f"clearhead {name}"), Outcome()
    path = folder / kind.file
    whole = path.read_bytes()
    for number in range(CASES[name]):
        path.unlink()  # what was read from the last one is still mapped: cutting that file short would kill the process
        path.write_bytes(kind.mangle(whole, chance))
        size = sum(file.stat().st_size for file in path.parent.iterdir() if file.is_file())
        ours, fault = judge(lambda: kind.ours(path), BASE + BYTES_PER_BYTE * size)
        if ours is None:
            outcome.refused += 1
        else:
            outcome.loaded += 1
            fault = fault or differs(kind, path, ours, original)
        if fault:
            outcome.faults.append(f"case {number}: {fault}")
    path.write_bytes(whole)
    return outcome


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict[str, dict[str, Any]]:
    environment = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(tmp_path_factory.mktemp("fuzz"))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, f"the reader crashed: {run.stderr[-2000:]}"
    return json.loads(run.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is read from /proc and limited as Linux does")
@pytest.mark.parametrize("name", KINDS)
def test_a_mangled_file_loads_as_its_library_would_or_is_refused_in_one_line(report, name):
    outcome = report[name]
    assert outcome["faults"] == []
    assert outcome["refused"] + outcome["loaded"] == CASES[name]
    assert outcome["refused"] > CASES[name] // 4 and outcome["loaded"] > 0, "the cases are too mild or too wild"


def test_at_least_five_hundred_cases_are_tried():
    assert sum(CASES.values()) >= 500


def test_the_judge_notices_tracebacks_hangs_long_messages_and_large_allocations():
    def refuse_in_two_lines():
        raise ClearheadError("two\nlines")

    assert judge(refuse_in_two_lines, 10**9)[1].startswith("not one line")
    assert judge(lambda: {}["missing"], 10**9)[1].startswith("KeyError")
    assert judge(lambda: time.sleep(5), 10**9, seconds=0.05)[1].startswith("took longer")
    assert judge(lambda: {"a": np.zeros(10**6)}, 10**6)[1].startswith("asked for 8")
    assert judge(lambda: {"a": 1}, 10**6) == ({"a": 1}, "")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({name: vars(outcome) for name, outcome in run_all(Path(sys.argv[1])).items()}))
