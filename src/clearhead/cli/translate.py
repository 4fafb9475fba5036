"""`clearhead translate`: lines in, lines out, in their order."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..decode import Search
from ..errors import ClearheadError
from ..files import write_text
from ..tasks import Alignment, Translation, Writer, teach, translate
from ..tasks.translate import source_rows, translator
from .generate import show_lesson, shown_piece
from .lines import bar, columns, in_int8, read_lines, say_random, say_speed, trained_or_random

LONG = 32  # lines from which on a bar is shown
EARLY = {"false": False, "true": True, "never": "never"}


def command(
    model: Annotated[str, typer.Argument(help="A folder with a trained translator (transformer, marian, t5).")],
    files: Annotated[list[Path] | None, typer.Argument(help="Text files; `-` or nothing is stdin.")] = None,
    text: Annotated[list[str] | None, typer.Option("-t", "--text", help="A line itself. May be repeated.")] = None,
    beams: Annotated[int | None, typer.Option("-b", "--beams", help="Sentences followed at once. [default: 4]")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The best token always: one beam.")] = False,
    best: Annotated[int, typer.Option("-n", "--best", help="Translations of each line, with their scores.")] = 1,
    length_penalty: Annotated[
        float, typer.Option(help="Above 0 long sentences are favoured, below 0 short ones.")
    ] = 1.0,
    early_stopping: Annotated[
        str, typer.Option(help="true: stop at as many finished sentences as beams; false; never.")
    ] = "false",
    length: Annotated[
        int | None, typer.Option("-l", "--length", help="The most tokens. [default: about 2 x source + 10]")
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Put before every line, such as 'translate English to German: ' for T5.")
    ] = "",
    align: Annotated[
        bool, typer.Option("--align", help="Show from which source token each token came (cross-attention).")
    ] = False,
    tree: Annotated[Path | None, typer.Option(help="Write every hypothesis of the search to FILE.json.")] = None,
    teach_target: Annotated[
        str | None, typer.Option("--teach", help="Compare with this true translation: teacher forcing beside testing.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --random weights.")] = 0,
    batch: Annotated[int, typer.Option(help="Lines that run together.")] = 16,
    random: Annotated[bool, typer.Option("--random", help="MODEL is a name: use random weights.")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="Weights in 8 bits; the loss of quality is shown.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line: source, translations, scores, alignments.")
    ] = False,
) -> None:
    """Translate lines by beam search: one line out for each line in, in their order; blank lines stay blank.

    With --best N each line gives N of them, as `line<TAB>score<TAB>text`. Ctrl-C ends it; lines that are done are out.

    Example: `clearhead translate path/to/marian < english.txt > german.txt`

    Example: `clearhead translate path/to/t5 -t "Good morning." --prefix "translate English to German: " --align`
    """
    count = _beams(beams, greedy)
    if early_stopping not in EARLY:
        raise ClearheadError(f"--early-stopping is true, false or never, not {early_stopping!r}")
    if tree is not None and (tree.suffix != ".json" or not tree.parent.is_dir()):
        raise ClearheadError(f"--tree takes a file named *.json in a folder that exists, not {tree}")
    lines = read_lines(files or [], text or [])
    if teach_target is not None and len(lines) > 1:
        raise ClearheadError(f"--teach compares one line with its translation: {len(lines)} were given")
    built = trained_or_random(model, device, random, seed)
    writes = translator(built)
    say_random(built)
    if int8:
        built = in_int8(built, [row for row in source_rows(writes, lines, prefix) if row])
    about = {"model": str(built.origin), "random": built.origin.random, "int8": int8}
    if teach_target is not None:
        show_lesson(teach(built, prefix + lines[0], teach_target), about, as_json)
        return
    out = _Out(lines, best, about if as_json else None)
    searches: dict[int, Search] = {}
    begun, interrupted = time.perf_counter(), False
    try:
        with bar(len(lines), LONG, printing=True) as progress:
            translate(
                built,
                lines,
                beams=count,
                length_penalty=length_penalty,
                early_stopping=EARLY[early_stopping],
                best=best,
                length=length,
                batch=batch,
                prefix=prefix,
                align=align or as_json,
                on_line=out.add,
                on_search=searches.__setitem__ if tree is not None else None,
                progress=progress,
            )
    except KeyboardInterrupt:
        interrupted = True
    if tree is not None:
        _write_tree(tree, about | {"beams": count, "length_penalty": length_penalty}, lines, searches, writes)
    say_speed(out.tokens, time.perf_counter() - begun)
    if interrupted:
        raise typer.Exit(130)


def _beams(beams: int | None, greedy: bool) -> int:
    if greedy and beams not in (None, 1):
        raise ClearheadError(f"--greedy follows one sentence: leave out --beams {beams}")
    return 1 if greedy else 4 if beams is None else beams


class _Out:
    """Prints lines as they are done, and counts their tokens."""

    def __init__(self, lines: list[str], best: int, about: dict[str, Any] | None) -> None:
        self.lines, self.best, self.about, self.tokens = lines, best, about, 0

    def add(self, number: int, translations: list[Translation]) -> None:
        self.tokens += sum(len(translation.tokens) for translation in translations)
        if self.about is not None:
            said = [_json(translation) for translation in translations]
            found = {"line": number + 1, "source": self.lines[number], "translations": said}
            print(json.dumps(self.about | found, ensure_ascii=False), flush=True)
            return
        for translation in translations:
            text = " ".join(translation.text.splitlines())
            print(f"{number + 1}\t{translation.score:.4f}\t{text}" if self.best > 1 else text, flush=True)
            if translation.alignment is not None:
                print("\n".join(f"    {line}" for line in _alignment_lines(translation.alignment)), flush=True)


def _alignment_lines(alignment: Alignment) -> list[str]:
    """A line a target token: the source token that it looked at most, and how much."""
    rows = [
        [shown_piece(piece), "<-", shown_piece(alignment.source[place]), f"{alignment.weights[number, place]:.2f}"]
        for number, (piece, place) in enumerate(zip(alignment.target, alignment.strongest, strict=True))
    ]
    return columns(rows)


def _json(translation: Translation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "text": translation.text,
        "score": translation.score,
        "logprob": translation.logprob,
        "tokens": translation.tokens,
    }
    if translation.alignment is not None:
        alignment = translation.alignment
        found["alignment"] = {
            "source": alignment.source,
            "target": alignment.target,
            "weights": alignment.weights.tolist(),
            "strongest": alignment.strongest,
        }
    return found


def _write_tree(
    path: Path, about: dict[str, Any], lines: list[str], searches: dict[int, Search], writes: Writer
) -> None:
    """Every hypothesis with its parent's place in the list, its score and its fate, and which of them are answers."""
    found = [
        {
            "line": number + 1,
            "source": lines[number],
            "nodes": [
                asdict(node) | {"piece": piece}
                for node, piece in zip(search.tree, writes.pieces([node.token for node in search.tree]), strict=True)
            ],
            "finished": [hypothesis.node for hypothesis in search.finished],
        }
        for number, search in sorted(searches.items())
    ]
    write_text(path, json.dumps(about | {"lines": found}, ensure_ascii=False) + "\n")
