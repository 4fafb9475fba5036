"""Training and inference on one GPU beside the best peers, bf16, in one run on the same card.

    python -m benchmarks.gpu [--rows vit-train,gpt-write-1] [--graph] [--json [FILE]]
    python -m benchmarks.gpu --quick      # every row at toy size on the CPU: does the script work?

All contestants of a row are compiled first and then take turns, a synchronised step each; `sustained` is the mean of
about two seconds of steps without a pause, when the card is at its power limit. The ratio is against the fastest peer
of the row: above 1 is faster. Training: fp32 weights under autocast, fused AdamW, no dropout, the loss inside the
compiled function. Ours is compiled with `fullgraph=True`, so a graph break would be an error; `graphs` counts what
Dynamo made of each. nanoGPT's forward pass returns its logits, as published. Writing: bf16 weights, a run is a whole
text or translation (gpu_writing.py); `log p` is how likely what was written is to transformers' model in fp32, the
mean logarithm of a token's probability. Peak memory is each contestant's own, what its tensors need at the same time:
weights, gradients, optimiser, activations, caches and inputs. `of limit` is the least time that the card's fastest
product or copy would take, over the time taken.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from clearhead.errors import ClearheadError

from . import gpu_rows, gpu_writing, table
from .gpu_rows import FULL, QUICK, Entry, Row, Scale, Step, Work, dtype_of
from .rounds import Contestant, Ratio, Rounds, interleave

ROWS: dict[str, Row] = {**gpu_rows.ROWS, **gpu_writing.ROWS}

# What a missing library, a compiler's error or too little memory raises: one contestant's failure, not the script's.
FAILURES = (ImportError, RuntimeError, ValueError, TypeError, AttributeError, LookupError, AssertionError, OSError)


@dataclass(frozen=True)
class Ready:
    """A contestant that is built, compiled and warm."""

    name: str
    ours: bool
    run: Step
    peak_gib: float
    first_steps_s: float
    graphs: int


@dataclass(frozen=True)
class Result:
    """One contestant in one row, or the one-line reason why there is none."""

    row: str
    name: str
    reason: str | None = None
    unit: str = ""
    ms: float = 0.0
    sustained_ms: float = 0.0
    per_second: float = 0.0
    peak_gib: float = 0.0
    of_limit: float = 0.0
    ratio: Ratio | None = None
    sustained_ratio: float | None = None
    first_steps_s: float = 0.0
    graphs: int = 0
    same_texts: float | None = None
    likelihood: float | None = None


def compiled(entry: Entry, model: nn.Module, scale: Scale) -> Work:
    if entry.compiles == "itself":
        return entry.work(model, scale)
    how: dict[str, Any] = {"backend": scale.backend, "fullgraph": entry.ours, "dynamic": False}
    if entry.compiles == "model":
        fast = torch.compile(model, **how)
        return lambda *inputs: entry.work(fast, *inputs)

    def work(*inputs: Tensor) -> Tensor:
        return entry.work(model, *inputs)

    return work if entry.compiles == "nothing" else torch.compile(with_own_code(work), **how)


def with_own_code(function: Any) -> Work:
    """A copy with its own code object, where Dynamo keeps graphs: no contestant searches through another's."""
    code = function.__code__.replace()
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def prepare(row: Row, entry: Entry, scale: Scale) -> Ready:
    """Build, compile, take a few steps, and note what memory a step needs beyond what others hold."""
    held, graphs = allocated(scale), counters["stats"]["unique_graphs"]
    model = entry.make(scale).to(scale.device)
    run = row.step(compiled(entry, model, scale), model, row.inputs(scale, dtype_of(model)), scale)
    start = time.perf_counter()
    for _ in range(3):
        run()
    scale.synchronise()
    seconds = time.perf_counter() - start
    peak = peak_of(run, scale) - held
    if not run().isfinite().all():
        raise ValueError("its loss or its logits are not finite")
    return Ready(entry.name, entry.ours, run, peak / 2**30, seconds, counters["stats"]["unique_graphs"] - graphs)


def allocated(scale: Scale) -> int:
    gc.collect()
    return asked_for("current") if scale.on_gpu else 0


def asked_for(when: str) -> int:
    """Bytes that tensors need. What the allocator counts is more, by up to a MiB for each: that is chance."""
    return torch.cuda.memory_stats().get(f"requested_bytes.all.{when}", 0)  # nothing is counted before the first tensor


def peak_of(run: Step, scale: Scale) -> int:
    if not scale.on_gpu:
        return 0
    torch.cuda.reset_peak_memory_stats()
    run()
    scale.synchronise()
    return asked_for("peak")


def captured(ready: Ready) -> Ready:
    """The same step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            ready.run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = ready.run()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replace(ready, name=f"{ready.name}, CUDA graph", run=replay)


def ceilings(scale: Scale) -> dict[str, float]:
    """The card at its best: a large bf16 product in TFLOP/s, a copy in TB/s with read and written bytes counted."""
    n = scale.product
    a, b = (torch.randn(n, n, device=scale.device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(scale.copy_bytes // 4, device=scale.device)
    target = torch.empty_like(source)
    works = {"product": Contestant(lambda: a @ b), "copy": Contestant(lambda: target.copy_(source))}
    timed = interleave(works, scale.rounds, warm=5, synchronise=scale.synchronise)
    return {
        "product_tflops": 2 * n**3 / timed.median("product") / 1e12,
        "copy_tb_s": 2 * source.nbytes / timed.median("copy") / 1e12,
    }


def measure(name: str, scale: Scale, graph: bool, best: Mapping[str, float]) -> list[Result]:
    """One row: whoever fails to get ready is reported with the reason, and the others go on."""
    row = ROWS[name]
    ready, failed = dict[str, Ready](), list[Result]()

    def attempt(label: str, make: Callable[[], Ready]) -> bool:
        try:
            ready[label] = make()
        except FAILURES as error:
            failed.append(failure(name, label, error))
            return False
        say(f"{name}: {label} is ready, its first steps took {ready[label].first_steps_s:.1f} s")
        return True

    for entry in row.entries:
        made = attempt(entry.name, lambda entry=entry: prepare(row, entry, scale))
        if made and graph and entry.ours and entry.compiles != "itself":
            attempt(f"{entry.name}, CUDA graph", lambda entry=entry: captured(ready[entry.name]))
    if not ready:
        return failed
    contestants = {label: Contestant(one.run) for label, one in ready.items()}
    timed = interleave(contestants, min(scale.rounds, row.rounds), synchronise=scale.synchronise)
    steady = {label: sustained(one.run, timed.median(label), scale) for label, one in ready.items()}
    found = [figures(name, one, timed, steady, ready, best, scale) for one in ready.values()]
    return (found if row.judge is None else compared(found, ready, row, scale)) + failed


def compared(found: list[Result], ready: Mapping[str, Ready], row: Row, scale: Scale) -> list[Result]:
    """How many texts are those of the first contestant, token for token, and how likely they are to a judge.

    Near ties part in bf16, and then a text goes its own way: what tells a right one from a wrong one is the judge.
    """
    assert row.judge is not None
    texts = {label: one.run().to(scale.device) for label, one in ready.items()}
    first, (given,) = next(iter(texts.values())), row.inputs(scale, scale.dtype)

    def judged(one: Result) -> Result:
        own = texts[one.name]
        same = (own == first).all(1).float().mean().item()
        return replace(one, same_texts=same, likelihood=row.judge and row.judge(scale, given, own))

    return [judged(one) for one in found]


def failure(row: str, label: str, error: BaseException) -> Result:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:200]
    say(f"{row}: {label} FAILED: {reason}")
    return Result(row, label, reason)


def say(line: str) -> None:
    """On the way: stdout is for the figures."""
    print(line, file=sys.stderr, flush=True)


def sustained(run: Step, seconds: float, scale: Scale) -> float:
    """Seconds a step when nothing waits in between."""
    steps = max(3, round(scale.sustained / seconds))
    scale.synchronise()
    start = time.perf_counter()
    for _ in range(steps):
        run()
    scale.synchronise()
    return (time.perf_counter() - start) / steps


def figures(
    name: str,
    one: Ready,
    timed: Rounds,
    steady: dict[str, float],
    ready: Mapping[str, Ready],
    best: Mapping[str, float],
    scale: Scale,
) -> Result:
    row, seconds = ROWS[name], timed.median(one.name)
    items, peers = row.items(scale), [label for label, other in ready.items() if not other.ours]
    least = max(items * row.flops / (best["product_tflops"] * 1e12), row.reads / (best["copy_tb_s"] * 1e12))
    return Result(
        name,
        one.name,
        unit=row.unit,
        ms=seconds * 1e3,
        sustained_ms=steady[one.name] * 1e3,
        per_second=items / seconds,
        peak_gib=one.peak_gib,
        of_limit=least / seconds,
        ratio=timed.ratio(min(peers, key=timed.median), one.name) if peers else None,
        sustained_ratio=min(steady[peer] for peer in peers) / steady[one.name] if peers else None,
        first_steps_s=one.first_steps_s,
        graphs=one.graphs,
    )


def forget() -> None:
    """What was compiled and recorded, and the memory for it: torch's limits count all of a process."""
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


COLUMNS = [
    "ms",
    "sustained ms",
    "a second",
    "peak GiB",
    "of limit",
    "ratio [95%]",
    "sustained",
    "graphs",
    "same text",
    "log p",
]


def line(result: Result) -> list[str]:
    label = f"{result.row}: {result.name}"
    if result.reason is not None:
        return [label, "failed", *[""] * (len(COLUMNS) - 1)]
    return [
        label,
        f"{result.ms:.2f}",
        f"{result.sustained_ms:.2f}",
        f"{result.per_second:,.0f} {result.unit}",
        f"{result.peak_gib:.3f}",
        f"{result.of_limit:.1%}",
        "" if result.ratio is None else str(result.ratio),
        "" if result.sustained_ratio is None else f"{result.sustained_ratio:.3f}",
        str(result.graphs),
        "" if result.same_texts is None else f"{result.same_texts:.0%}",
        "" if result.likelihood is None else f"{result.likelihood:.4f}",
    ]


def machine(scale: Scale) -> dict[str, str]:
    name = torch.cuda.get_device_name() if scale.on_gpu else "toy size on the CPU: the figures mean nothing"
    return {"device": name, "torch": torch.__version__, "python": sys.version.split()[0]}


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", default=",".join(ROWS), help=f"rows to measure, of {', '.join(ROWS)} (default: all)")
    parser.add_argument("--graph", action="store_true", help="measure ours as one CUDA graph a step too")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write the figures there, row by row; alone: print them"
    )
    parser.add_argument("--quick", action="store_true", help="toy sizes on the CPU, to see that the script works")
    options = parser.parse_args(words)
    options.rows = options.rows.split(",")
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        raise ClearheadError(f"there is no row '{unknown[0]}': choose from {', '.join(ROWS)}")
    if options.quick and options.graph:
        raise ClearheadError("--graph needs a CUDA device: leave out --quick")
    if not options.quick and not torch.cuda.is_available():
        raise ClearheadError("there is no CUDA device here: --quick tries a row at toy size on the CPU")
    return options


def main(words: Sequence[str] | None = None) -> int:
    options = parse(words)
    scale = QUICK if options.quick else FULL
    if options.quick:
        torch.set_num_threads(1)  # at these sizes threads only wait for each other
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    about, best = machine(scale), ceilings(scale)
    say(", ".join(about.values()))
    results: list[Result] = []
    for row in options.rows:
        try:
            results += measure(row, scale, options.graph, best)
        except FAILURES as error:
            results.append(failure(row, "the whole row", error))
        forget()
        if options.json not in (None, "-"):
            Path(options.json).write_text(told(about, best, results))
    if options.json == "-":
        print(told(about, best, results))
    else:
        tell(results, best)
    return 1 if any(result.reason for result in results) else 0


def told(about: Mapping[str, str], best: Mapping[str, float], results: Sequence[Result]) -> str:
    return json.dumps({**about, **best, "results": [asdict(result) for result in results]}, indent=1)


def tell(results: list[Result], best: dict[str, float]) -> None:
    print(table(["row: contestant", *COLUMNS], [line(result) for result in results]))
    print(f"ceilings: bf16 product {best['product_tflops']:,.1f} TFLOP/s, copy {best['copy_tb_s']:.2f} TB/s")
    print("whoever of ours is listed with figures was compiled with fullgraph=True: no graph break")
    for result in results:
        if result.reason is not None:
            print(f"failed: {result.row}: {result.name}: {result.reason}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClearheadError as mistake:
        sys.exit(str(mistake))
