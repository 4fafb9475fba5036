"""Named sets of running text: tiny Shakespeare, WikiText-2, TinyStories, children's books of Project Gutenberg."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from .kinds import Dataset, Running
from .text_files import Folder, data_root, find, left_out, locate, places, read_document, require

END_OF_STORY = "<|endoftext|>"
# The held-out books share no tale with another: two translations of Grimm, for one, stay together in train.
HELD_OUT = {"valid": ("289", "4018"), "test": ("16", "7128")}
_ARTICLE = re.compile(r"(?<=\n) *\n = (?!=)[^\n]*(?<!=) = \n *\n")


def tinyshakespeare(folder: Folder = None) -> Dataset[Running]:
    """40,000 lines of Shakespeare, 65 different letters. There is no official split: the last tenth is valid."""
    text = read_document(find("tinyshakespeare", ["input.txt", "tinyshakespeare.txt"], folder))
    cut = int(len(text) * 0.9)
    require(0 < cut < len(text), "tiny Shakespeare's file is too short to be split")
    notes = ("no official split: the first nine tenths of the letters are train, the rest valid; there is no test",)
    parts = {"train": Running([text[:cut]]), "valid": Running([text[cut:]])}
    return Dataset("tinyshakespeare", "running", parts, notes=notes)


def wikitext2(folder: Folder = None) -> Dataset[Running]:
    """600 articles to train on, 60 to choose by, 60 to test; a document is an article, together they are the file."""
    parts = {}
    for part in ("train", "valid", "test"):
        names = [f"{part}.txt.gz", f"wiki.{part}.tokens", f"{part}.txt"]
        parts[part] = Running(_articles(read_document(find("wikitext2", names, folder))))
    return Dataset("wikitext2", "running", parts)


def _articles(text: str) -> list[str]:
    """Cut before each title: ` = Title = ` between empty lines. Sections have more signs, sentences no empty lines."""
    padded = "\n" + text
    starts = [match.start() - 1 for match in _ARTICLE.finditer(padded)]
    borders = [0, *(start for start in starts if start > 0), len(text)]
    return [text[start:end] for start, end in pairwise(borders) if text[start:end].strip()]


def tinystories(folder: Folder = None) -> Dataset[Running]:
    """Stories by a language model in a small child's words: the whole of version 2, or the heads of both versions.

    In the heads the last story of version 2 is cut short and left out; those of version 1 are parted by empty lines
    as paragraphs are, so each of its files is one document.
    """
    whole = locate("tinystories", ["TinyStoriesV2-GPT4-train.txt"], folder)
    if whole is not None:
        valid = find("tinystories", ["TinyStoriesV2-GPT4-valid.txt"], folder)
        parts = {"train": Running(_stories(whole, cut=False)), "valid": Running(_stories(valid, cut=False))}
        return Dataset("tinystories", "running", parts, notes=("no test part: the set has none",))
    head = find("tinystories", ["v2gpt4_train_head10000lines.txt"], folder)
    older = [find("tinystories", [f"v1_{part}_head.txt"], folder) for part in ("train", "valid")]
    train, valid = (read_document(file) for file in older)
    parts = {"train": Running([*_stories(head, cut=True), train]), "valid": Running([valid])}
    notes = (
        "a sample: the heads of version 2's train and version 1's train, and of version 1's valid; no test part",
        f"{head}: the last story is cut short and left out",
    )
    return Dataset("tinystories", "running", parts, notes=notes)


def _stories(file: Path, cut: bool) -> list[str]:
    stories = read_document(file).split(END_OF_STORY)
    stories = [story.strip() for story in (stories[:-1] if cut else stories)]
    stories = [story for story in stories if story]
    require(stories, f"{file} holds no whole story: they are parted by {END_OF_STORY}")
    return stories


def gutenberg(folder: Folder = None) -> Dataset[Running]:
    """Children's books, one document each, from `books/NUMBER.txt`: two of them valid, two test, all others train.

    A book without text is left out and named; so is a held-out one that is missing.
    """
    root = data_root("gutenberg", "gutenberg_children/books", folder)
    files = next((found for place in places("gutenberg", root) if (found := _books(place / "books"))), [])
    if not files:
        find("gutenberg", ["books/11.txt"], folder)
    texts = {file.stem: read_document(file).strip() for file in files}
    bad = [f"{number}.txt: empty" for number, text in texts.items() if not text]
    place = {number: part for part, numbers in HELD_OUT.items() for number in numbers}
    parts = {
        part: Running([text for number, text in texts.items() if text and place.get(number, "train") == part])
        for part in ("train", "valid", "test")
    }
    missing = [f"book {number} of {part} is missing" for number, part in place.items() if number not in texts]
    told = "no official split: books {} are valid, {} test".format(*(" and ".join(HELD_OUT[p]) for p in HELD_OUT))
    notes = (told, *missing, *left_out("gutenberg", bad, len(texts) - len(bad), "books"))
    return Dataset("gutenberg", "running", parts, notes=notes)


def _books(folder: Path) -> Sequence[Path]:
    """The books in the order of their numbers."""
    files = [file for file in folder.glob("*.txt") if file.stem.isdecimal()]
    return sorted(files, key=lambda file: int(file.stem))
