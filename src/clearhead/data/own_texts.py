"""The user's own running text, and his own two texts that are parallel line by line; UTF-8. Tables: `own_tables`.

A text file without text, or a pair of lines with an empty side, is left out, counted and named in the notes; two
files of different numbers of lines are refused. Where no validation text is given, `text_splits` holds a share out.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from .kinds import Dataset, Parallel, Running
from .text_files import left_out, read_document, require
from .text_parallel import aligned
from .text_splits import SHARE, with_validation

File = str | os.PathLike[str]


def own_text(
    train: File | Sequence[File],
    valid: File | Sequence[File] | None = None,
    test: File | Sequence[File] | None = None,
    *,
    share: float = SHARE,
    seed: int = 0,
) -> Dataset[Running]:
    """Running text: a document a file. Each argument is a file, several files, or a folder with `.txt` files in it."""
    given = {part: files for part, files in (("train", train), ("valid", valid), ("test", test)) if files is not None}
    listed = {part: _listed(files) for part, files in given.items()}
    read = {part: _documents(files) for part, files in listed.items()}
    sizes = ", ".join(f"{part} of {len(files)}" for part, files in listed.items())
    notes = sum((said for _, said in read.values()), (f"recognised: running text, files: {sizes}",))
    parts = {part: documents for part, (documents, _) in read.items()}
    name = Path(listed["train"][0]).stem if isinstance(train, str | os.PathLike) else "texts"
    return with_validation(Dataset(name, "running", parts, notes=notes), share, seed)


def _listed(files: File | Sequence[File]) -> list[Path]:
    """The files themselves, in place of a folder those in it, in the order of their names."""
    paths = [Path(files)] if isinstance(files, str | os.PathLike) else [Path(file) for file in files]
    require(paths, "no text file is given")
    inside = [sorted(path.rglob("*.txt")) if path.is_dir() else [path] for path in paths]
    for path, found in zip(paths, inside, strict=True):
        require(found, f"{path} has no .txt file in it")
    return [file for found in inside for file in found]


def _documents(files: Sequence[Path]) -> tuple[Running, tuple[str, ...]]:
    texts = {file: read_document(file) for file in files}
    bad = [f"{file.name}: empty" for file, text in texts.items() if not text.strip()]
    kept = [text for text in texts.values() if text.strip()]
    require(kept, f"{files[0]} holds no text")
    return Running(kept), left_out(files[0].parent, bad, len(kept), "files")


def own_parallel(
    source: File,
    target: File,
    valid: tuple[File, File] | None = None,
    test: tuple[File, File] | None = None,
    *,
    share: float = SHARE,
    seed: int = 0,
) -> Dataset[Parallel]:
    """Two texts, line i of one translating line i of the other; names such as `train.ne` tell the languages."""
    given = {"train": (source, target), "valid": valid, "test": test}
    read = {part: aligned(*map(Path, files)) for part, files in given.items() if files is not None}
    languages = _language(Path(source), "source"), _language(Path(target), "target")
    notes = sum((said for _, said in read.values()), (f"recognised: parallel text from {' to '.join(languages)}",))
    parts = {part: rows for part, (rows, _) in read.items()}
    dataset = Dataset(Path(source).stem, "parallel", parts, languages=languages, notes=notes)
    return with_validation(dataset, share, seed)


def _language(file: Path, otherwise: str) -> str:
    """The language that a file's name ends in: `train.ne`, `train.ne.gz`, `train.ne.txt`."""
    names = [suffix[1:].lower() for suffix in reversed(file.suffixes)]
    return next(
        (name for name in names if name.isalpha() and len(name) in (2, 3) and name not in ("gz", "txt")), otherwise
    )
