"""`clearhead complete`: code at a position of a file."""

import json
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ClearheadError
from ..tasks import Completion, Interrupted, complete, writer
from ..tasks.complete import text_before
from .generate import headings, logprob_lines, result_json
from .lines import harmless, in_int8, say, say_random, say_speed, text_of, trained_or_random
from .options import Device, Int8, Logprobs, MinP, Random, SampleSeed, Temperature, TopK, TopP


def command(
    model: Annotated[str, typer.Argument(help="A folder with a trained gpt; a name with --random.")],
    file: Annotated[Path, typer.Argument(help="The file to go on in; `-` is stdin.")],
    at: Annotated[str, typer.Option(metavar="LINE:COL", help="Where, both from 1; column 1 is before the line.")],
    block: Annotated[
        bool, typer.Option("--block", help="Until a blank or less indented line, not to the line's end alone.")
    ] = False,
    samples: Annotated[int, typer.Option("-n", "--samples", help="Completions that are drawn.")] = 1,
    length: Annotated[int, typer.Option("-l", "--length", help="The most tokens of a completion.")] = 64,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    logprobs: Logprobs = 0,
    seed: SampleSeed = 0,
    random: Random = False,
    int8: Int8 = False,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with completions and figures.")] = False,
) -> None:
    """Print what could stand at a position of a file, to the end of its line or, with --block, of its block.

    Everything before the position is read; where the model can't hold it all its beginning is left out, which is said.

    Example: `clearhead complete path/to/code-gpt main.py --at 12:5`
    """
    line, column = _position(at)
    text = text_of(file)
    before = text_before(text, line, column)
    built = trained_or_random(model, device, random, seed)
    writes = writer(built)
    say_random(built)
    if int8 and before:
        built = in_int8(built, [writes.ids(before)])
    begun = time.perf_counter()
    interrupted = False
    try:
        found = complete(
            built,
            text,
            line,
            column,
            block=block,
            samples=samples,
            length=length,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            seed=seed,
            logprobs=logprobs,
        )
    except Interrupted as stop:
        found, interrupted = stop.results, True
    seconds, count = time.perf_counter() - begun, sum(len(sample.tokens) for sample in found.samples)
    if as_json:
        about = {"model": str(built.origin), "random": built.origin.random, "int8": int8, "at": [line, column]}
        figures = {"read": found.read, "cut": found.cut, "tokens": count, "seconds": seconds}
        said = {"samples": [result_json(sample) for sample in found.samples]}
        print(json.dumps(about | said | figures | {"tokens_per_second": count / seconds}, ensure_ascii=False))
    else:
        _print(found, bool(logprobs))
    say_speed(count, seconds)
    if interrupted:
        raise typer.Exit(130)


def _position(at: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", at)
    if match is None:
        raise ClearheadError(f"--at takes LINE:COL, both counted from 1, such as 12:5, not {at!r}")
    return int(match[1]), int(match[2])


def _print(found: Completion, logprobs: bool) -> None:
    if found.cut:
        say(
            f"the first {found.cut:,} tokens of the file were left out: the model reads {found.read:,} before it writes"
        )
    for heading, sample in zip(headings(1, len(found.samples)), found.samples, strict=True):
        print(heading + (harmless(sample.text) if sys.stdout.isatty() else sample.text), flush=True)
        if logprobs:
            print("\n".join(logprob_lines(sample)), flush=True)
