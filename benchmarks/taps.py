"""What taps cost when nobody records: with them in the code against with them patched out, on the CPU, two threads.

    python -m benchmarks.taps [--rounds N] [--at-most N] [--json] [--quick]

A forward pass of gpt2 (1 x 256) and a training step of a small GPT (192 wide, 6 layers, 8 x 128 tokens), eager and
compiled (`fullgraph=True`: a graph break would be an error). Rounds are added until the 95% interval of the ratio is
narrower than 1%; its upper end should be 1.01 at most. Both sides run the same model object in the same process.
"""

import argparse
import json
import sys
import timeit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters

import clearhead
from clearhead.trace import recording, tap

from . import table
from .rounds import FEWEST, Contestant, Ratio, interleave_until

THREADS = 2
WITH, WITHOUT = "taps in", "taps out"
NARROW = 0.01  # of twice that width, an interval around exactly 1 would end above the limit every second time
WIDEST = 0.02
LIMIT = 1.01

Run = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """`taps` is how many a run passes, `share` what these calls add up to, as a part of the time: calls x one call."""

    work: str
    rounds: int
    ms: float
    ratio: Ratio
    taps: int
    share: float

    @property
    def verdict(self) -> str:
        if self.ratio.width >= WIDEST:
            return f"undecided after {self.rounds} rounds"
        return "yes" if self.ratio.high <= LIMIT else "NO"


@contextmanager
def patched(new_tap: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """Every module of the package that holds `tap` holds this one, and `recording` says no, until the end."""
    package = [module for name, module in sys.modules.items() if name.split(".")[0] == "clearhead"]
    replacements = [("tap", tap, new_tap), ("recording", recording, never)]
    changes = [(module, *one) for module in package for one in replacements if vars(module).get(one[0]) is one[1]]
    for module, name, _, new in changes:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module, name, old, _ in changes:
            setattr(module, name, old)


def never() -> bool:
    return False


def unchanged(_: str, value: Tensor) -> Tensor:
    return value


def without_taps() -> AbstractContextManager[None]:
    return patched(unchanged)


def taps_of(run: Run) -> int:
    """How many taps one run passes."""
    names = []

    def count(name: str, value: Tensor) -> Tensor:
        names.append(name)
        return value

    with patched(count):
        run()
    return len(names)


def forward_work(compiled: bool) -> Run:
    model = clearhead.create("gpt2", device="cpu", seed=0)
    ids = torch.randint(50257, (1, 256))
    call = torch.compile(model, fullgraph=True, dynamic=False) if compiled else model

    def run() -> None:
        with torch.inference_mode():
            call(ids)

    return run


def training_work(compiled: bool) -> Run:
    """No dropout: the less there is to compute, the more a tap would weigh."""
    size: dict[str, Any] = {"vocab": 1024, "context": 128, "width": 192, "layers": 6, "heads": 6}
    dropout: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    model = clearhead.create("gpt2", device="cpu", seed=0, **size, **dropout).train()
    ids, targets = torch.randint(1024, (2, 8, 128))
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def loss() -> Tensor:
        return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())

    call = torch.compile(loss, fullgraph=True, dynamic=False) if compiled else loss

    def run() -> None:
        call().backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


WORKS = {"gpt2 forward, 1 x 256": forward_work, "training step, d 192, 6 layers": training_work}


def measure(name: str, make: Callable[[bool], Run], compiled: bool, rounds: int, at_most: int) -> Result:
    run = make(False)
    taps = taps_of(run)
    if compiled:
        run = compiled_both_ways(make)
    contestants = {WITH: Contestant(run), WITHOUT: Contestant(run, without_taps)}
    graphs = counters["stats"]["unique_graphs"]
    timed = interleave_until(contestants, WITH, WITHOUT, narrower_than=NARROW, rounds=rounds, at_most=at_most)
    if counters["stats"]["unique_graphs"] != graphs:
        raise SystemExit(f"{name}: something was compiled while the clock ran")
    share = 0.0 if compiled else taps * seconds_of_one_tap() / timed.median(WITH)  # a compiled graph holds no tap
    return Result(name, timed.count, timed.median(WITH) * 1e3, timed.ratio(WITH, WITHOUT), taps, share)


def compiled_both_ways(make: Callable[[bool], Run]) -> Run:
    """Compile with the taps in, then with them out: Dynamo guards on `tap`, so each side finds its own graph later."""
    torch._dynamo.reset()
    counters.clear()
    run = make(True)
    run()
    with without_taps():
        run()
    graphs = counters["stats"]["unique_graphs"]
    if graphs != 2:
        raise SystemExit(f"expected one graph with taps and one without, not {graphs} in all")
    return run


def seconds_of_one_tap() -> float:
    value = torch.zeros(1)
    return min(timeit.repeat(lambda: tap("site", value), number=100_000, repeat=5)) / 100_000


def line(result: Result) -> list[str]:
    share = f"{result.share:.4%}" if result.share else "none left"
    return [
        result.work,
        f"{result.ms:.1f}",
        str(result.rounds),
        str(result.ratio),
        result.verdict,
        str(result.taps),
        share,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.taps", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=FEWEST, help=f"rounds between two looks (default {FEWEST})")
    parser.add_argument(
        "--at-most", type=int, default=1000, help="rounds after which it stops all the same (default 1000)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="3 rounds: does it run? no claim")
    options = parser.parse_args()
    rounds, at_most = (3, 3) if options.quick else (options.rounds, options.at_most)
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    results = []
    for compiled in (False, True):
        for work, make in WORKS.items():
            name = f"{work}, {'compiled' if compiled else 'eager'}"
            results.append(measure(name, make, compiled, rounds, at_most))
            print(f"{name}: {results[-1].ratio} after {results[-1].rounds} rounds", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([{**asdict(result), "verdict": result.verdict} for result in results], indent=1))
        return
    header = ["taps in / taps out", "ms", "rounds", "ratio [95%]", f"at most {LIMIT}", "taps", "share of their calls"]
    print(table(header, [line(result) for result in results]))
    print("compiled with fullgraph=True: no graph break")


if __name__ == "__main__":
    main()
