"""Writing text on the CPU, two threads, beside transformers and CTranslate2 on the same weights.

    python -m benchmarks.decode [--rounds N] [--row TEXT] [--json]

`speed` is transformers' fp32 time over the contestant's in the same round: above 1 it is faster. `limit` is the least
time a step could take, its weights read once at the measured memory bandwidth; `reached` is that over the measured
step. CTranslate2 is measured where it is installed (`pip install ctranslate2`), and left out aloud where it is not; it
runs in a process of its own, since two libraries' threads in one process make each other wait asleep.
The last table shows a step at several lengths with room reserved for 1,024 tokens.
"""

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import nn

import clearhead
from clearhead.decode import Beams, Limits, beam_search, collect, generate
from clearhead.layers import bytes_of, quantise

from . import peers, table
from .rounds import Contestant, Ratio, interleave

THREADS = 2
PROMPT, NEW = 16, 64
SENTENCES, LENGTH, BEAMS, VOCAB = 8, 32, 4, 37000
PEER = "transformers fp32"
BARS = {"gpt2": {"fp32": 1.0, "int8": 1.8}, "translation": {"fp32": 1.2, "int8": 2.0}}
STEPS = 16


@dataclass(frozen=True)
class Result:
    row: str
    contestant: str
    seconds: float
    step_ms: float
    limit_ms: float | None
    speed: Ratio | None


def gpt_row(batch: int, folder: Path) -> tuple[str, dict[str, Callable[[], Any]], dict[str, int]]:
    """gpt2, 64 new tokens behind a prompt of 16: greedy, no end token, so all do the same number of steps."""
    torch.manual_seed(0)
    theirs = sharpened(peers.transformers_gpt2(use_cache=True))
    ours, small = handed_over(theirs, folder)
    prompts = torch.randint(50257, (batch, PROMPT))
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}

    def peer() -> Any:
        mask = torch.ones_like(prompts)
        return theirs.generate(input_ids=prompts, attention_mask=mask, eos_token_id=None, **options)  # pyright: ignore

    def run(model: Any) -> list[list[int]]:
        return [row.tokens for row in collect(batch, generate(model, prompts.tolist(), Limits(NEW)))]

    check_same(run(ours), peer()[:, PROMPT:].tolist(), f"gpt2, batch {batch}")
    sizes = {"clearhead fp32": bytes_of(ours), "clearhead int8": bytes_of(small), PEER: bytes_of(ours)}
    runs = {"clearhead fp32": lambda: run(ours), "clearhead int8": lambda: run(small), PEER: peer}
    return f"gpt2, {NEW} new tokens, batch {batch}", runs, sizes


def translation_row(folder: Path) -> tuple[str, dict[str, Callable[[], Any]], dict[str, int]]:
    """A Marian of transformer-base's size: 8 sentences of 32 tokens, 4 beams, 32 tokens each."""
    torch.manual_seed(0)
    theirs = sharpened(peers.transformers_marian(VOCAB))
    ours, small = handed_over(theirs, folder)
    sources, never = torch.randint(1, VOCAB - 1, (SENTENCES, LENGTH)), frozenset({VOCAB - 1})
    options = {"num_beams": BEAMS, "max_new_tokens": LENGTH, "min_new_tokens": LENGTH, "do_sample": False}

    def peer() -> Any:
        return theirs.generate(  # pyright: ignore
            input_ids=sources,
            attention_mask=torch.ones_like(sources),
            eos_token_id=None,
            forced_eos_token_id=None,
            bad_words_ids=[[VOCAB - 1]],
            **options,
        )

    def run(model: Any) -> list[list[int]]:
        found = beam_search(model, sources.tolist(), Beams(BEAMS, 1.0, False, LENGTH), never=never)
        return [list(search.finished[0].tokens) for search in found]

    check_same(run(ours), peer()[:, 1:].tolist(), "translation")
    sizes = {"clearhead fp32": bytes_of(ours), "clearhead int8": bytes_of(small), PEER: bytes_of(ours)}
    runs: dict[str, Callable[[], Any]] = {
        "clearhead fp32": lambda: run(ours),
        "clearhead int8": lambda: run(small),
        PEER: peer,
    }
    return "translation, 8 x 32, 4 beams", runs | ctranslate_runs(theirs, sources, folder), sizes


def ctranslate_runs(theirs: nn.Module, sources: torch.Tensor, folder: Path) -> dict[str, Callable[[], Any]]:
    if importlib.util.find_spec("ctranslate2") is None:
        print("CTranslate2 is not installed and was left out")
        return {}
    words = [[f"t{token}" for token in row] for row in sources.tolist()]
    exact = {"beam_size": BEAMS, "max_decoding_length": LENGTH, "min_decoding_length": LENGTH, "max_batch_size": 0}
    process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    return {
        f"CTranslate2 {kind}": lambda kind=kind, place=place: process.submit(
            peers.ctranslate2_translate, kind, place, words, exact, THREADS
        ).result()
        for kind, place in peers.ctranslate2_marian(theirs, VOCAB, folder).items()
    }


def sharpened(model: nn.Module) -> nn.Module:
    """Wider random weights: the next token is no coin toss, so that equal work can be checked."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "position" not in name:
                weight.mul_(3.0)
    return model


def handed_over(theirs: nn.Module, folder: Path) -> tuple[clearhead.models.Model, nn.Module]:
    theirs.save_pretrained(folder)  # pyright: ignore[reportCallIssue]
    return clearhead.load(folder, device="cpu"), quantise(clearhead.load(folder, device="cpu"))


def check_same(ours: list[list[int]], theirs: list[list[int]], row: str) -> None:
    """The same weights give the same tokens; a few rows may part where two were equally good."""
    same = sum(mine == other[: len(mine)] for mine, other in zip(ours, theirs, strict=True))
    if same < 0.75 * len(ours):
        raise SystemExit(f"{row}: {same} of {len(ours)} rows are the same: the contestants don't do the same work")
    print(f"{row}: {same} of {len(ours)} rows are the same token for token")


def bandwidth() -> float:
    """Bytes a second that both threads read from memory together."""
    block = torch.ones(1 << 28)
    best = 0.0
    for _ in range(5):
        begun = time.perf_counter()
        block.sum()
        best = max(best, block.nbytes / (time.perf_counter() - begun))
    return best


def measure(
    name: str, runs: dict[str, Callable[[], Any]], sizes: dict[str, int], rounds: int, steps: int, speed: float
) -> list[Result]:
    with torch.inference_mode():
        timed = interleave({who: Contestant(run) for who, run in runs.items()}, rounds, warm=1)
    return [
        Result(
            name,
            who,
            timed.median(who),
            timed.median(who) / steps * 1e3,
            sizes[who] / speed * 1e3 if who in sizes else None,
            None if who == PEER else timed.ratio(PEER, who),
        )
        for who in runs
    ]


def step_times(folder: Path) -> list[list[str]]:
    """gpt2, batch 1, 1,024 tokens reserved: a step looks at what is there, not at what is reserved."""
    model: Any = clearhead.load(folder, device="cpu")
    rows = []
    with torch.inference_mode():
        for length in (128, 256, 512, 1024):
            state = model.start(torch.randint(50257, (1, length - STEPS)), room=1024)
            token, times = torch.tensor([1]), []
            for _ in range(STEPS):
                begun = time.perf_counter()
                model.step(token, state)
                times.append(time.perf_counter() - begun)
            rows.append([f"{length} tokens", f"{statistics.median(times) * 1e3:.1f}"])
    return rows


def verdict(result: Result) -> str | None:
    """One sentence on one of ours, against what it must reach."""
    who, _, precision = result.contestant.partition(" ")
    if who != "clearhead" or result.speed is None:
        return None
    bar = BARS[result.row.partition(",")[0]][precision]
    spoken = "reaches" if result.speed.median >= bar else "MISSES"
    return f"{result.row}, {precision}: {spoken} {bar}x transformers fp32 ({result.speed})"


def line(result: Result) -> list[str]:
    reached = "" if result.limit_ms is None else f"{result.limit_ms / result.step_ms:.0%}"
    limit = "" if result.limit_ms is None else f"{result.limit_ms:.1f}"
    speed = "" if result.speed is None else str(result.speed)
    return [
        f"{result.row}: {result.contestant}",
        f"{result.seconds:.2f}",
        f"{result.step_ms:.1f}",
        limit,
        reached,
        speed,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--row", default="", help="only rows whose name holds this text")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    speed = bandwidth()
    print(f"memory bandwidth, both threads reading: {speed / 1e9:.1f} GB/s")
    results: list[Result] = []
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(3)]
        makers = {
            f"gpt2, {NEW} new tokens, batch 1": (lambda: gpt_row(1, folders[0]), NEW),
            f"gpt2, {NEW} new tokens, batch 8": (lambda: gpt_row(8, folders[1]), NEW),
            "translation, 8 x 32, 4 beams": (lambda: translation_row(folders[2]), LENGTH),
        }
        for name, (make, steps) in makers.items():
            if options.row in name:
                results += measure(*make(), options.rounds, steps, speed)
        steps_at = step_times(folders[0]) if options.row in f"gpt2, {NEW} new tokens, batch 1" else []
    if options.json:
        print(json.dumps([asdict(result) for result in results]))
        return
    print(
        table(
            ["decoding, CPU, two threads", "s", "ms a step", "limit", "reached", "speed [95%]"],
            list(map(line, results)),
        )
    )
    print("\n".join(filter(None, map(verdict, results))))
    if steps_at:
        print(table(["gpt2, 1,024 tokens reserved", "ms a step"], steps_at))


if __name__ == "__main__":
    main()
