"""Sets that need no download: `letters` (a sorting game) and `python` (the interpreter's own standard library).

Both are the same at every reading: what is held out is drawn by the letters of a word or the name of a file.
"""

import itertools
import os
import platform
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path

from .kinds import Dataset, Parallel, Running
from .text_files import Folder, left_out, lot, require

ALPHABET, WORD_LENGTH = "ABC", 6

# Not the library itself, or tables so alike (encodings) that the held-out ones would be known beforehand.
LEFT_OUT_FOLDERS = {
    *("test", "tests", "idle_test", "idlelib", "turtledemo", "pydoc_data", "encodings", "__pycache__"),
    *("site-packages", "dist-packages", "_bundled"),
}
WRITTEN_FOR_A_MACHINE = ("config-", "_sysconfigdata", "sitecustomize", "usercustomize")


def letters() -> Dataset[Parallel]:
    """All 729 words of six letters A, B and C, each with its letters sorted: three quarters train, one quarter test."""
    words = sorted(map("".join, itertools.product(ALPHABET, repeat=WORD_LENGTH)), key=lot)
    held_out = len(words) // 4
    parts = {
        part: Parallel(chosen, ["".join(sorted(word)) for word in chosen])
        for part, chosen in (("train", words[held_out:]), ("test", words[:held_out]))
    }
    notes = ("no valid part: a quarter of the words is test, all others train",)
    return Dataset("letters", "parallel", parts, languages=("any", "sorted"), notes=notes)


def python(folder: Folder = None) -> Dataset[Running]:
    """The sources of the standard library that runs this, a document a file: 90% of the files train, 5% valid, 5% test.

    Left out by rule: tests, IDLE, the turtle demos, documentation and character tables, installed packages, links, and
    files written for one machine. A file that can't be decoded is left out and named. `folder` reads another library.
    """
    root = Path(folder or sysconfig.get_path("stdlib"))
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    bad: list[str] = []
    for file in _sources(root):
        name = file.relative_to(root).as_posix()
        drawn = lot(name)
        try:
            with tokenize.open(file) as source:
                text = source.read()
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            bad.append(f"{name}: {type(error).__name__}")
            continue
        if text.strip():
            parts["test" if drawn < 0.05 else "valid" if drawn < 0.1 else "train"].append(text)
    require(parts["train"], f"{root} holds no Python sources")
    told = f"the standard library of Python {platform.python_version()}, split by file"
    notes = (told, *left_out("python", bad, sum(map(len, parts.values())), "files"))
    return Dataset("python", "running", {part: Running(texts) for part, texts in parts.items()}, notes=notes)


def _sources(root: Path) -> Iterator[Path]:
    """The files of the library in the order of their names, folder by folder."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in LEFT_OUT_FOLDERS and not name.startswith(WRITTEN_FOR_A_MACHINE)
        )
        for name in sorted(files):
            file = Path(place) / name
            if name.endswith(".py") and not name.startswith(WRITTEN_FOR_A_MACHINE) and not file.is_symlink():
                yield file
