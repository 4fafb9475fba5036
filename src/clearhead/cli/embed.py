"""`clearhead embed`: a vector for every line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..errors import ClearheadError
from ..layers import bytes_of
from ..models import Model
from ..tasks import embed
from ..tasks.precision import shrunk
from .lines import bar, light_copy, read_lines, say, trained

SUFFIXES = (".npy", ".jsonl")
SAMPLED = 64  # lines on which the loss of 8 bits is measured


def command(
    model: Annotated[str, typer.Argument(help="The folder of a trained BERT or MiniLM.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files, a line a text; `-` or nothing is stdin.")
    ] = None,
    text: Annotated[list[str] | None, typer.Option("-t", "--text", help="A text itself. May be repeated.")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write to FILE.npy (lines x width) or FILE.jsonl, not to stdout.")
    ] = None,
    pooling: Annotated[str, typer.Option(help="mean: over a line's tokens; cls: the first token's vector.")] = "mean",
    normalise: Annotated[bool, typer.Option(help="Make every vector of length 1.")] = True,
    batch: Annotated[int, typer.Option(help="Lines that run together.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    int8: Annotated[bool, typer.Option("--int8", help="Weights in 8 bits; what that costs is said.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: model, lines, width, and the vectors without -o.")
    ] = False,
) -> None:
    """Turn lines into vectors, one for each line, in their order.

    Without -o they are printed as JSON lines, `{"text": ..., "vector": [...]}`.

    Example: `clearhead embed path/to/minilm sentences.txt -o sentences.npy`
    """
    if out is not None:
        _check_out(out)
    lines = read_lines(files or [], text or [])
    encoder = trained(model, device)
    if int8:
        encoder = _in_int8(encoder, lines[:SAMPLED], pooling)
    with bar(len(lines)) as progress:
        vectors = embed(encoder, lines, pooling, normalise, batch, progress).numpy()
    about = {"model": str(encoder.origin), "lines": len(lines), "width": vectors.shape[1], "pooling": pooling}
    if out is not None:
        _write(out, lines, vectors)
        print(json.dumps(about | {"out": str(out)}) if as_json else f"{len(lines)} x {vectors.shape[1]} in {out}")
    elif as_json:
        print(json.dumps(about | {"vectors": vectors.tolist()}))
    else:
        for line in _json_lines(lines, vectors):
            print(line)


def _in_int8(encoder: Model, lines: list[str], pooling: str) -> Model:
    """The encoder with weights in 8 bits; how far its vectors turn on the first lines is said."""
    light = light_copy(encoder)
    before, after = (embed(model, lines, pooling) for model in (encoder, light))
    least = float((before * after).sum(-1).min())
    size = shrunk(bytes_of(encoder), bytes_of(light))
    say(f"{size}; on {len(lines)} lines the least cosine with the full vectors is {least:.5f}")
    return light


def _check_out(path: Path) -> None:
    """Before the work, not after it."""
    if path.suffix not in SUFFIXES:
        raise ClearheadError(f"-o takes a file named {' or '.join('*' + suffix for suffix in SUFFIXES)}, not {path}")
    if not path.parent.is_dir():
        raise ClearheadError(f"{path} can't be written: there is no folder {path.parent}")


def _json_lines(lines: list[str], vectors: np.ndarray) -> Iterator[str]:
    for text, vector in zip(lines, vectors.tolist(), strict=True):
        yield json.dumps({"text": text, "vector": vector}, ensure_ascii=False)


def _write(path: Path, lines: list[str], vectors: np.ndarray) -> None:
    """Aside first, then renamed: the old file or the whole new one is there."""
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("wb") as file:
            if path.suffix == ".npy":
                np.save(file, vectors)
            else:
                file.writelines(f"{line}\n".encode() for line in _json_lines(lines, vectors))
        aside.replace(path)
    except OSError as problem:
        aside.unlink(missing_ok=True)
        raise ClearheadError(f"{path} can't be written: {problem.strerror}") from None
