"""`clearhead data`: which data sets there are, whether their files are whole, and texts made into tokens."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..data import Tokenizer, read_tokenizer
from ..data.learn_tokenizer import KINDS, learn_tokenizer
from ..data.sets import Check, NamedSet, check_set, list_sets
from ..data.text_files import FOLDER_VARIABLE, facts, places, read_document
from ..data.token_file import write_tokens
from ..errors import ClearheadError
from .lines import bar, say, text_of

Told = Callable[[int, int], None]

app = typer.Typer(
    help="Data sets by name, their checksums, and texts made into tokens.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
DATA = Annotated[
    Path | None, typer.Option("--data", help="The folder of data sets; unless given, CLEARHEAD_DATA names it.")
]


@app.command("list")
def list_command(
    data: DATA = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects, one for each set.")] = False,
) -> None:
    """List every named data set: its kind, whether it is there, which files are missing and what to fetch.

    Example: `clearhead data list --data my/data`
    """
    folder = _folder(data)
    rows = [(named, *_files(named, folder)) for named in list_sets(folder)]
    if as_json:
        said = [asdict(named) | {"files": there, "missing": missing} for named, there, missing in rows]
        print(json.dumps(said, indent=2, ensure_ascii=False))
        return
    table = Table("name", "kind", "here", "what it is, or what to fetch", box=None, pad_edge=False)
    for named, there, missing in rows:
        table.add_row(named.name, named.kind, _here(named, there, missing), escape(_about(named, missing)))
    Console(highlight=False).print(table)


@app.command("check")
def check_command(
    names: Annotated[list[str] | None, typer.Argument(help="Names of sets; without any, all that are here.")] = None,
    data: DATA = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects, one for each set.")] = False,
) -> None:
    """Compare the files of data sets with their known sizes and SHA-256. The exit code is 1 where one differs.

    Example: `clearhead data check cifar10 sst2`
    """
    folder = _folder(data)
    chosen = names or [named.name for named in list_sets(folder) if named.present and not named.embedded]
    if not chosen:
        raise ClearheadError("no data set is here: name the folder with --data or CLEARHEAD_DATA")
    found: list[Check] = []
    for name in dict.fromkeys(chosen):
        with _bytes_bar(name) as told:
            found.append(check_set(name, folder, told))
        if not as_json:
            for line in _outcome(found[-1]):
                print(line, flush=True)
    if as_json:
        said = [asdict(check) | {"folder": str(check.folder or ""), "whole": check.whole} for check in found]
        print(json.dumps(said, indent=2, ensure_ascii=False))
    if any(check.missing or check.wrong for check in found):
        raise typer.Exit(1)


@app.command("tokenize")
def tokenize_command(
    texts: Annotated[
        list[Path] | None, typer.Argument(help="Text files (.gz too), or folders with .txt files; `-` is stdin.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help=f"Train a tokenizer: {', '.join(KINDS)}.")] = None,
    vocab: Annotated[int | None, typer.Option(help="The most tokens of the new vocabulary.")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case texts (bpe, wordpiece).")] = False,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="Use the tokenizer of this folder instead of a new one.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="With --kind the folder of the tokenizer, with --tokenizer the file of tokens."
        ),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", help="With --kind: write the texts as a file of tokens too.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with the counts.")] = False,
) -> None:
    """Train a tokenizer on texts, or write texts as a file of tokens with a tokenizer that there is.

    A file of tokens holds each text's tokens, the end-of-text token (where there is one) behind each text.

    Example: `clearhead data tokenize corpus.txt --kind bpe --vocab 8192 -o my-tokenizer`

    Example: `clearhead data tokenize corpus.txt --tokenizer my-tokenizer -o corpus.tokens`
    """
    if (kind is None) == (tokenizer is None):
        raise ClearheadError("give either --kind to train a tokenizer, or --tokenizer to use one")
    if out is None:
        raise ClearheadError("say where the result goes with -o")
    if tokenizer is not None and (vocab is not None or lowercase or tokens is not None):
        raise ClearheadError(
            "--vocab, --lowercase and --tokens go with --kind: with --tokenizer, -o is the tokens' file"
        )
    folder, file = (out, tokens) if kind is not None else (None, out)
    _check_free(folder, file, force)
    documents = _documents(texts or [Path("-")])
    tok = learn_tokenizer(documents, kind, vocab, lowercase=lowercase) if kind else read_tokenizer(str(tokenizer))
    if folder is not None:
        tok.save(folder)
    about = _counts(documents, tok, file) | {"tokenizer": str(folder or tokenizer), "tokens_file": str(file or "")}
    if as_json:
        print(json.dumps({key: value for key, value in about.items() if value != ""}, ensure_ascii=False))
        return
    for line in _told(about):
        print(line)


def _folder(data: Path | None) -> Path | None:
    if data is not None and not data.is_dir():
        raise ClearheadError(f"there is no folder {data}")
    return data


def _files(named: NamedSet, folder: Path | None) -> tuple[list[str], list[str]]:
    """The files that are there and those that are missing, of the layout of which most are there."""
    if named.embedded or not named.present:
        return [], []
    root = folder or Path(os.environ[FOLDER_VARIABLE])
    place = next(place for place in places(named.name, root) if place.name == named.where)
    layouts = facts(named.name)["layouts"]
    there = [[file for file in layout if (place / file).is_file()] for layout in layouts]
    most = max(range(len(layouts)), key=lambda number: len(there[number]), default=None)
    if most is None or not there[most]:
        return [], []
    return there[most], [file for file in layouts[most] if file not in there[most]]


def _here(named: NamedSet, there: list[str], missing: list[str]) -> str:
    if named.embedded:
        return "built in"
    if not named.present:
        return "missing"
    return f"{len(there)} of {len(there) + len(missing)} files" if missing else "yes"


def _about(named: NamedSet, missing: list[str]) -> str:
    if named.present and not missing:
        return named.about
    files = f"{', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''} of " if missing else ""
    return f"fetch {files}{named.fetch} into {named.where}/"


@contextmanager
def _bytes_bar(name: str) -> Iterator[Told]:
    """A bar on stderr where somebody can see it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _outcome(check: Check) -> Iterator[str]:
    if check.note:
        yield f"{check.name}: {check.note}"
        return
    state = "whole" if check.whole else f"{len(check.wrong)} wrong, {len(check.missing)} missing"
    yield f"{check.name}: {state} ({len(check.good)} files have their checksum)"
    yield from (f"  {problem}" for problem in check.wrong)
    yield from (f"  {file}: missing" for file in check.missing)


def _check_free(folder: Path | None, file: Path | None, force: bool) -> None:
    """Before the work, not after it."""
    for path in (folder and folder / "tokenizer.json", file):
        if path is not None and path.is_dir():
            raise ClearheadError(f"{path} is a folder: name a file")
        if path is not None and path.exists() and not force:
            raise ClearheadError(f"{path} exists: give another place, or --force to replace it")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ClearheadError(f"{folder} is a file: name a folder")


def _documents(texts: Sequence[Path]) -> list[str]:
    """A document a file; one without text is left out, and that is said."""
    if [str(path) for path in texts] == ["-"] and sys.stdin.isatty():
        raise ClearheadError("no text was given: name files, or pipe one in")
    found = []
    for path in texts:
        files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        if not files:
            raise ClearheadError(f"{path} has no .txt file in it")
        read = {file: text_of(file) if str(file) == "-" else read_document(file) for file in files}
        found += [text for text in read.values() if text.strip()]
        for file in (file for file, text in read.items() if not text.strip()):
            say(f"{file} is empty and was left out")
    if not found:
        raise ClearheadError(f"{', '.join(map(str, texts))}: there is no text in it")
    return found


def _counts(documents: Sequence[str], tok: Tokenizer, file: Path | None) -> dict[str, Any]:
    """What the tokenizer makes of the texts; with a file they are written too."""
    unknown = tok.special.get("unk")
    if file is not None:
        with bar(len(documents), long=2) as progress:
            numbers = write_tokens(file, _counted(documents, progress), tok, end=tok.special.get("eos")).numbers
        count, lost = len(numbers), int((numbers == unknown).sum()) if unknown is not None else 0
    else:
        rows = [tok.ids(document, special=False) for document in documents]
        count, lost = sum(map(len, rows)), sum(row.count(unknown) for row in rows) if unknown is not None else 0
    words, size = sum(len(text.split()) for text in documents), sum(len(text.encode()) for text in documents)
    return {
        "documents": len(documents),
        "bytes": size,
        "words": words,
        "vocabulary": tok.size,
        "tokens": count,
        "unknown": lost,
        "tokens_per_word": count / max(words, 1),
        "bytes_per_token": size / max(count, 1),
    }


def _counted(documents: Sequence[str], progress: Callable[[int], None]) -> Iterator[str]:
    for document in documents:
        yield document
        progress(1)


def _told(about: dict[str, Any]) -> Iterator[str]:
    yield f"{about['documents']:,} documents, {about['bytes']:,} bytes, {about['words']:,} words"
    unknown = f", {about['unknown']:,} of them unknown" if about["unknown"] else ""
    yield f"{about['tokens']:,} tokens of a vocabulary of {about['vocabulary']:,}{unknown}"
    yield f"{about['tokens_per_word']:.2f} tokens a word, {about['bytes_per_token']:.2f} bytes a token"
    yield f"tokenizer: {about['tokenizer']}"
    if about["tokens_file"]:
        yield f"tokens: {about['tokens_file']}"
