"""Forward passes on the CPU, two threads, fp32, eager, beside transformers and timm with fused attention.

    python -m benchmarks.forward [--rounds N] [--row TEXT] [--json] [--quick]

`speed` is the peer's time over ours in the same round: above 1 ours is faster. `peak` is by how much the resident
memory rises above the loaded weights during three passes in a fresh process. Ours should be at least as fast as the
faster peer (within 3%) and need no more memory than any.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import clearhead

from . import peers, table
from .rounds import FEWEST, Contestant, Ratio, interleave

THREADS = 2
OURS = "clearhead"
TOLERANCE = 0.03


@dataclass(frozen=True)
class Row:
    """One piece of work and who does it."""

    name: str
    make_input: Callable[[], tuple[Tensor, ...]]
    models: dict[str, Callable[[], nn.Module]]


@dataclass(frozen=True)
class Result:
    """One contestant in one row; `speed` is None for ourselves, `peak_mib` where it can't be measured."""

    row: str
    model: str
    rounds: int
    ms: float
    speed: Ratio | None
    peak_mib: float | None


def ours(name: str) -> Callable[[], nn.Module]:
    return partial(clearhead.create, name, device="cpu", seed=0)


def images(batch: int) -> tuple[Tensor, ...]:
    return (torch.randn(batch, 3, 224, 224),)


def ids(vocab: int, *shapes: tuple[int, int]) -> tuple[Tensor, ...]:
    return tuple(torch.randint(vocab, shape) for shape in shapes)


VITS = {OURS: ours("vit-b16"), "transformers": peers.transformers_vit, "timm": peers.timm_vit}
ROWS = [
    Row("vit-b16, batch 1", partial(images, 1), VITS),
    Row("vit-b16, batch 8", partial(images, 8), VITS),
    Row("gpt2, 1 x 256", partial(ids, 50257, (1, 256)), {OURS: ours("gpt2"), "transformers": peers.transformers_gpt2}),
    Row(
        "bert-base, 8 x 128",
        partial(ids, 30522, (8, 128)),
        {OURS: ours("bert-base"), "transformers": peers.transformers_bert},
    ),
    Row(
        "t5-small, 4 x (64 + 32)",
        partial(ids, 32128, (4, 64), (4, 32)),
        {OURS: ours("t5-small"), "transformers": peers.transformers_t5},
    ),
]


def measure(row: Row, rounds: int) -> list[Result]:
    """All contestants of a row: times first, in one process, then memory, each in its own."""
    inputs = row.make_input()
    models = {name: make() for name, make in row.models.items()}
    with torch.inference_mode():
        check_same_work(row, models, inputs)
        contestants = {name: Contestant(lambda model=model: model(*inputs)) for name, model in models.items()}
        timed = interleave(contestants, rounds)
    return [
        Result(
            row.name,
            name,
            timed.count,
            timed.median(name) * 1e3,
            None if name == OURS else timed.ratio(name, OURS),
            peak_in_fresh_process(make, row.make_input),
        )
        for name, make in row.models.items()
    ]


def check_same_work(row: Row, models: dict[str, nn.Module], inputs: tuple[Tensor, ...]) -> None:
    shapes = {name: tuple(first(model(*inputs)).shape) for name, model in models.items()}
    if len(set(shapes.values())) > 1:
        raise SystemExit(f"{row.name}: the contestants don't compute the same thing: {shapes}")


def first(output: Any) -> Tensor:
    """Logits where there is a head, hidden states where there is none."""
    return output if isinstance(output, Tensor) else output[0]


def peak_in_fresh_process(make: Callable[[], nn.Module], make_input: Callable[[], Any]) -> float | None:
    """MiB, or None where the system can't reset a process's peak (Linux can)."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    with freed_blocks_returned(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(peak_rise, make, make_input).result()


@contextmanager
def freed_blocks_returned() -> Iterator[None]:
    """Children give large blocks back on freeing them: leftovers of building a model would hide what a pass needs."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    try:
        yield
    finally:
        del os.environ["MALLOC_MMAP_THRESHOLD_"]


def peak_rise(make: Callable[[], nn.Module], make_input: Callable[[], Any]) -> float:
    torch.set_num_threads(THREADS)
    model, inputs = make(), make_input()
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_so_far()
    with torch.inference_mode():
        for _ in range(3):
            model(*inputs)
    return peak_so_far() - before


def peak_so_far() -> float:
    """The most memory this process held since its peak was reset, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def line(result: Result) -> list[str]:
    return [
        f"{result.row}: {result.model}",
        f"{result.ms:.1f}",
        "" if result.speed is None else str(result.speed),
        "not measured" if result.peak_mib is None else f"{result.peak_mib:.1f}",
    ]


def verdict(results: list[Result]) -> str:
    """One sentence on one row: against the faster peer, and against the peer that needs least memory."""
    ours, *others = results
    faster = min(others, key=lambda result: result.ms)
    assert faster.speed is not None
    fast = "as fast as" if faster.speed.median >= 1 - TOLERANCE else "SLOWER THAN"
    spoken = f"{ours.row}: {fast} {faster.model} ({faster.speed})"
    peaks = [result.peak_mib for result in others if result.peak_mib is not None]
    if ours.peak_mib is None or not peaks:
        return spoken
    memory = "no higher" if ours.peak_mib <= min(peaks) else "HIGHER"
    return f"{spoken}, memory {memory} ({ours.peak_mib:.1f} MiB, least peer {min(peaks):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forward", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, help=f"a claim needs {FEWEST} or more (default 30)")
    parser.add_argument("--row", default="", help="only rows whose name holds this")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="3 rounds: does it run? no claim")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    measured = []
    for row in (row for row in ROWS if options.row in row.name):
        measured.append(measure(row, 3 if options.quick else options.rounds))
        print(verdict(measured[-1]), file=sys.stderr, flush=True)
    every = [result for results in measured for result in results]
    if options.json:
        print(json.dumps([asdict(result) for result in every], indent=1))
        return
    header = ["forward pass, CPU, two threads, fp32", "ms", "speed [95%]", "peak MiB"]
    print(table(header, [line(result) for result in every]))


if __name__ == "__main__":
    main()
