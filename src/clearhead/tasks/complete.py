"""`complete`: code goes on at a position of a file, to the end of the line or of the block."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ..errors import ClearheadError
from .generate import Continuation, Interrupted, Manner, sampling_of, written
from .writer import Writer, writer


@dataclass(frozen=True)
class Completion:
    """What could stand at the position, one for each sample, and how many tokens of the text before it were read.

    cut  how many tokens at the beginning of the text were left out, since the context can't hold them
    """

    samples: tuple[Continuation, ...]
    read: int
    cut: int


def complete(
    model: nn.Module,
    text: str,
    line: int,
    column: int,
    *,
    block: bool = False,
    samples: int = 1,
    length: int = 64,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    logprobs: int = 0,
) -> Completion:
    """What the model writes at `line` and `column`, both counted from 1 as editors do; column 1 is before the line.

    Everything before the position is the prompt. Where the context can't hold it together with what is to be written,
    its beginning is left out, and the result says how much; a half of the context stays for it in any case.

    block   write until a line that is blank or less indented than the block, not only to the end of the line
    length  the most tokens that are written
    The other arguments are those of `generate`. Ctrl-C raises `Interrupted` with the completion as it is.
    """
    writes = writer(model)
    if not writes.continues:
        raise ClearheadError(f"completing needs a model that goes on with a text (gpt): a {writes.model.family} can't")
    before = text_before(text, line, column)
    manner = Manner(
        sampling_of(temperature, top_k, top_p, min_p, repetition_penalty, samples=samples),
        length=length,
        samples=samples,
        seed=seed,
        logprobs=logprobs,
        stop=() if block else ("\n",),
        cut=block_end(before.rpartition("\n")[2]) if block else lambda text: None,
    )
    prompt = _prompt(writes, before, f"{line}:{column}")
    kept = prompt[-_kept(writes.context, length, len(prompt)) :]
    try:
        return Completion(tuple(written(writes, [kept], manner)), len(kept), len(prompt) - len(kept))
    except Interrupted as stop:
        raise Interrupted(Completion(tuple(stop.results), len(kept), len(prompt) - len(kept))) from None


def text_before(text: str, line: int, column: int) -> str:
    """Up to a position. A line has as many columns as characters, and one more behind the last."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if not 1 <= line <= len(lines):
        raise ClearheadError(f"there is no line {line}: the text has {len(lines)}")
    here = lines[line - 1]
    if not 1 <= column <= len(here) + 1:
        raise ClearheadError(f"there is no column {column} in line {line}: it has 1 to {len(here) + 1}")
    return "\n".join([*lines[: line - 1], here[: column - 1]])


def block_end(begun: str) -> Callable[[str], int | None]:
    """Says where a block ends in what is written behind `begun`, the part of its line that is there already.

    The block is as deep as the first whole line below, if that is deeper than the line that is being written, else as
    deep as this line. It ends before a line that is blank or less deep.
    """

    def found(text: str) -> int | None:
        first, *below = text.split("\n")
        depth, place = _depth(begun + first), len(first)
        for number, line in enumerate(below):
            whole = number < len(below) - 1
            if not line.strip():
                return place if whole else None  # what stands behind the last newline may still get its text
            if number == 0:
                depth = max(depth, _depth(line))
            if _depth(line) < depth:
                return place
            place += 1 + len(line)
        return None

    return found


def _depth(line: str) -> int:
    """Columns before the first letter; a tab goes on to the next eighth one."""
    line = line.expandtabs(8)
    return len(line) - len(line.lstrip())


def _prompt(writes: Writer, before: str, where: str) -> list[int]:
    if not before:
        raise ClearheadError(f"there is no text before {where} to go on from")
    return writes.ids(before)


def _kept(context: int | None, length: int, count: int) -> int:
    """How many of the last tokens are read."""
    if context is None:
        return count
    return min(count, max(context + 1 - length, context // 2, 1))
