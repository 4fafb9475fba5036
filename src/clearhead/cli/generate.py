"""`clearhead generate`: a prompt goes on, or is answered, and is shown while it is written."""

import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ClearheadError
from ..models import Model
from ..tasks import Continuation, Interrupted, Lesson, Writer, generate, teach, writer
from ..tasks.generate import sampling_of
from .lines import bar, columns, harmless, in_int8, read_lines, say, say_random, say_speed, text_of, trained_or_random
from .options import Device, Int8, Logprobs, MinP, Random, SampleSeed, Temperature, TopK, TopP

LONG = 32  # texts from which on a bar is shown


def command(
    model: Annotated[str, typer.Argument(help="A folder with a trained gpt, t5 or transformer; a name with --random.")],
    file: Annotated[Path | None, typer.Argument(help="A file with the prompt; `-` or nothing is stdin.")] = None,
    prompt: Annotated[list[str] | None, typer.Option("-p", "--prompt", help="The prompt. May be repeated.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of the file or stdin is a prompt.")] = False,
    samples: Annotated[int, typer.Option("-n", "--samples", help="Texts drawn for each prompt.")] = 1,
    length: Annotated[int, typer.Option("-l", "--length", help="The most tokens of a text.")] = 64,
    stop: Annotated[
        list[str] | None, typer.Option(help="Stop before this string; \\n is a new line. May be repeated.")
    ] = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: tokens that are there become less likely.")] = 1.0,
    choices: Annotated[
        list[str] | None, typer.Option(help="A text that may be written; no other may. May be repeated.")
    ] = None,
    window: Annotated[bool, typer.Option("--window", help="Go on past the context with its last tokens.")] = False,
    logprobs: Logprobs = 0,
    teach_target: Annotated[
        str | None, typer.Option("--teach", help="Compare with this true text: teacher forcing beside testing.")
    ] = None,
    seed: SampleSeed = 0,
    batch: Annotated[int, typer.Option(help="Texts that are written together.")] = 16,
    random: Random = False,
    int8: Int8 = False,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with texts, tokens and figures.")] = False,
) -> None:
    """Write on from a prompt, token by token; a model that reads a source (t5, transformer) answers it instead.

    Ctrl-C ends it with what was written. Tokens per second are on stderr.

    Example: `clearhead generate path/to/gpt2 -p "The cat" --samples 3 --top-p 0.9`

    Example: `echo "Is it true?" | clearhead generate path/to/t5 --choices yes --choices no --logprobs 2`
    """
    prompts = _prompts(prompt or [], file, lines)
    if teach_target is not None and len(prompts) > 1:
        raise ClearheadError(f"--teach compares one prompt with its target: {len(prompts)} were given")
    drawn = sampling_of(temperature, top_k, top_p, min_p, repetition_penalty, samples=samples)
    built = trained_or_random(model, device, random, seed)
    writes = writer(built)
    say_random(built)
    if int8:
        built = in_int8(built, [writes.ids(text) for text in prompts])
    about = {"model": str(built.origin), "random": built.origin.random, "int8": int8}
    if teach_target is not None:
        show_lesson(teach(built, prompts[0], teach_target), about, as_json)
        return
    asked: dict[str, Any] = {
        "samples": samples,
        "length": length,
        **asdict(drawn),
        "seed": seed,
        "stop": [_unescaped(text) for text in stop or []],
        "window": window,
        "choices": choices,
    }
    screen = None if as_json else Screen(headings(len(prompts), samples, prompts if writes.continues else None))
    begun = time.perf_counter()
    results, interrupted = _run(built, prompts, screen, asked | {"logprobs": logprobs, "batch": batch})
    seconds, count = time.perf_counter() - begun, sum(len(result.tokens) for result in results)
    if as_json:
        figures = {"tokens": count, "seconds": seconds, "tokens_per_second": count / seconds}
        said = [{"prompt": prompts[result.prompt]} | result_json(result) for result in results]
        print(json.dumps(about | asked | {"results": said} | figures, ensure_ascii=False))
    elif logprobs:
        for result in results:
            print("\n" + "\n".join(logprob_lines(result)))
    _say_if_full(writes, results)
    say_speed(count, seconds)
    if interrupted:
        raise typer.Exit(130)


def _say_if_full(writes: Writer, results: list[Continuation]) -> None:
    if any(result.reason == "context" for result in results):
        way_on = ": --window goes on past it" if writes.continues else ""
        say(f"the context of {writes.context} tokens is full{way_on}")


def _prompts(texts: list[str], file: Path | None, lines: bool) -> list[str]:
    """The texts given in place, or those of a file: the whole of it, or each of its lines."""
    if texts:
        if file is not None or lines:
            raise ClearheadError("--prompt is the prompt itself: leave out the file and --lines")
        return texts
    if file is None and sys.stdin.isatty():
        raise ClearheadError("no prompt was given: give --prompt, name a file, or pipe text in")
    if lines:
        return [line for line in read_lines([file or Path("-")], []) if line.strip()]
    return [text_of(file or Path("-")).removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n")]


def _run(
    model: Model, prompts: list[str], screen: "Screen | None", options: dict[str, Any]
) -> tuple[list[Continuation], bool]:
    """The results, and whether Ctrl-C came before they were complete."""
    rows = len(prompts) * max(1, options["samples"])
    with bar(rows, LONG, printing=screen is not None) as progress:

        def ended(row: int) -> None:
            progress(1)
            if screen is not None:
                screen.end(row)

        shown = screen.add if screen is not None else lambda row, text: None
        try:
            return generate(model, prompts, **options, on_text=shown, on_end=ended), False
        except Interrupted as stop:
            if screen is not None:
                screen.close()
            return stop.results, True


class Screen:
    """Texts on stdout while they come, one behind the other: the first unfinished one live, those behind it wait."""

    def __init__(self, headings: list[str]) -> None:
        self._headings, self._pending = headings, [""] * len(headings)
        self._row, self._headed = 0, False
        self._ended: set[int] = set()

    def add(self, row: int, text: str) -> None:
        self._pending[row] += text
        if row == self._row:
            self._show()

    def end(self, row: int) -> None:
        self._ended.add(row)
        while self._row in self._ended:
            self._show()
            self._next()
        if self._row < len(self._pending) and self._pending[self._row]:
            self._show()

    def close(self) -> None:
        """After an interruption: what there is of every text."""
        while self._row < len(self._pending):
            if self._headed or self._pending[self._row]:
                self._show()
            self._next()

    def _show(self) -> None:
        """Noted as shown before it is: an interruption comes while it is being written, and `close` follows."""
        text = ("" if self._headed else self._headings[self._row]) + self._pending[self._row]
        self._headed, self._pending[self._row] = True, ""
        self._write(text)

    def _next(self) -> None:
        headed = self._headed
        self._row, self._headed = self._row + 1, False
        self._write("\n" if headed else "")

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
            sys.stdout.flush()


def headings(prompts: int, samples: int, echoed: list[str] | None = None) -> list[str]:
    """What stands before each text: which one it is, where there are several, and the prompt that it goes on with."""
    found = []
    for prompt in range(prompts):
        for sample in range(samples):
            parts = [f"prompt {prompt + 1}"] * (prompts > 1) + [f"sample {sample + 1}"] * (samples > 1)
            found.append((f"--- {', '.join(parts)}\n" if parts else "") + (echoed[prompt] if echoed else ""))
    return found


def result_json(result: Continuation) -> dict[str, Any]:
    best = [[{"piece": piece, "logprob": logprob} for piece, logprob in choices] for choices in result.best]
    return {
        "sample": result.sample,
        "text": result.text,
        "reason": result.reason,
        "tokens": result.tokens,
        "pieces": result.pieces,
        "logprobs": result.logprobs,
        "logprob": result.logprob,
        "seconds": result.seconds,
    } | ({"best": best} if best else {})


def logprob_lines(result: Continuation) -> list[str]:
    """A line a token: its log probability, its chance, and what the model held most likely."""
    rows = [["token", "logprob", "chance", "first choices"]]
    for piece, logprob, best in zip(result.pieces, result.logprobs, result.best, strict=True):
        first = "  ".join(f"{shown_piece(choice)} {math.exp(score):.3f}" for choice, score in best)
        rows.append([shown_piece(piece), f"{logprob:.3f}", f"{math.exp(logprob):.3f}", first])
    return columns(rows)


def shown_piece(piece: str) -> str:
    """A token in a table: spaces and new lines can be seen."""
    return repr(piece) if piece != piece.strip() or not piece.isprintable() else piece


def show_lesson(lesson: Lesson, about: dict[str, Any], as_json: bool) -> None:
    """Teacher forcing and testing as a table, a line for each token of the target."""
    modes = lesson.modes
    if as_json:
        print(json.dumps(about | _lesson_json(lesson), ensure_ascii=False))
        return
    rows = [["target", "chance", "teacher forcing: guess", "chance", "testing: own word", "chance"]]
    for place, (true, forced) in enumerate(zip(lesson.target, modes.forced, strict=True)):
        row = [shown_piece(true), f"{forced.true_probability:.3f}"]
        row += [shown_piece(lesson.forced[place]), f"{forced.probability:.3f}"]
        own = place < len(modes.free)
        rows.append(
            row + ([shown_piece(lesson.free[place]), f"{modes.free[place].probability:.3f}"] if own else ["", ""])
        )
    print("\n".join(columns(rows)))
    right = sum(guess.token == true for guess, true in zip(modes.forced, modes.target, strict=True))
    print(f"\nteacher forcing: shown the true words before, {right} of {len(modes.target)} guesses are right")
    place = modes.first_difference
    apart = "its own words are the target's" if place is None else f"leaves the target at token {place + 1}"
    print(f"testing: fed its own words, {apart}")


def _lesson_json(lesson: Lesson) -> dict[str, Any]:
    modes = lesson.modes
    forced = [
        {"piece": piece, "chance": guess.probability, "target_chance": guess.true_probability}
        for piece, guess in zip(lesson.forced, modes.forced, strict=True)
    ]
    free = [{"piece": piece, "chance": guess.probability} for piece, guess in zip(lesson.free, modes.free, strict=True)]
    return {"target": lesson.target, "forced": forced, "free": free, "first_difference": modes.first_difference}


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")
