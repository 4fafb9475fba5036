"""The models that can be opened: run folders given or found, and a few small architectures with random weights.

A model's id is looked up in the list, never used as a path. Checkpoints are loaded when they are asked for, the ones
used last are kept, and one whose files have changed since is loaded again.
"""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import ClearheadError, near, shown
from ..models import Model, Origin, create, names
from ..runs import load
from ..runs.labels import name_classes
from ..runs.places import CARRIED, carried, located
from .cards import card, card_of_folder
from .refusals import Unknown
from .schema import ModelCard
from .vocabulary import Words

SEED = 0
KEPT = 4  # loaded models
LISTED = ": `clearhead models` lists the models, and a run folder is what `clearhead train` wrote"
DEEPEST = 3  # folders below the one that holds runs
OF_A_CHECKPOINT = (".json", ".safetensors", ".bin", ".txt", ".model", ".spm")

Stamp = tuple[tuple[str, int, int], ...]

_SMALL = {"width": 16, "layers": 2, "heads": 2, "vocab": 96}
_TEXT = {**_SMALL, "context": 64}
_NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
_ENDS = {"pad_token": 0, "end_token": 1}

# Small enough that every number fits the screen; the weights spread wide enough that the rows differ.
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "deck": ("deck", {}),
    "gpt-nano": ("gpt-nano", {}),
    "gpt-mini": ("gpt2", {**_TEXT, **_NO_DROPOUT, "embedding_dropout": 0.0, "init_std": 0.25}),
    "transformer-mini": ("transformer-tiny", {**_TEXT, "ff": 32, "dropout": 0.0, "start_token": 3, **_ENDS}),
    "bert-mini": ("bert-base", {**_TEXT, **_NO_DROPOUT, "task": "fill", "init_std": 0.25}),
    "t5-mini": ("t5-small", {**_SMALL, "head_width": 8, "ff": 32, "dropout": 0.0, "start_token": 0, **_ENDS}),
    "vit-mini": (
        "vit-ti16",
        {"image": 8, "patch": 2, "channels": 1, "num_classes": 10, "width": 16, "layers": 2, "heads": 2},
    ),
}

CLASSES = {"vit-mini": "0123456789"}  # it is shown digits


@dataclass(frozen=True)
class Entry:
    """A folder or file with weights, the name of weights that a package carries, or that of an architecture."""

    id: str
    place: Path | None = None
    name: str | None = None


@dataclass(frozen=True)
class Opened:
    """A loaded model. `stamp` says as which files it was read: numbers of another stamp are another model's."""

    card: ModelCard
    model: Model
    stamp: Stamp

    @cached_property
    def words(self) -> Words:
        return Words(self.model)


class Shelf:
    """given: run folders, weights files or architectures' names; root: the folder whose runs are listed too."""

    def __init__(self, given: Sequence[str] = (), root: Path | None = None, data: Path | None = None) -> None:
        self.given, self.root, self.data = [_given(one) for one in given], root, data
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self._cards: dict[str, tuple[Stamp, ModelCard]] = {}
        self._opened: OrderedDict[str, Opened] = OrderedDict()

    def cards(self) -> list[ModelCard]:
        """What was given first, then what was found, then what packages carry, then what is random."""
        return [self._card(entry) for entry in self.entries()]

    def entries(self) -> list[Entry]:
        found: dict[str, Entry] = {}
        for one in (*self.given, *_runs_below(self.root), *_carried(), *ARCHITECTURES):
            entry = _named(one) if isinstance(one, str) else _entry_of(one, found)
            found.setdefault(entry.id, entry)
        return [*found.values()]

    def card(self, id: str) -> ModelCard:
        return self._card(self._entry(id))

    def open(self, id: str) -> Opened:
        """The model with its weights; one at a time is loaded."""
        entry = self._entry(id)
        with self._loading:
            stamp = _stamp(entry.place)
            kept = self._opened.get(id)
            if kept is None or kept.stamp != stamp:
                kept = self._opened[id] = Opened(self._card(entry), self._load(entry), stamp)
            self._opened.move_to_end(id)
            while len(self._opened) > KEPT:
                self._opened.popitem(last=False)
            return kept

    def _entry(self, id: str) -> Entry:
        entries = {entry.id: entry for entry in self.entries()}
        if id not in entries:
            raise Unknown(f"there is no model '{shown(id, 80)}' here{near(id, entries)}: GET /api/models lists them")
        return entries[id]

    def _card(self, entry: Entry) -> ModelCard:
        with self._lock:
            stamp = _stamp(entry.place)
            kept = self._cards.get(entry.id)
            if kept is None or kept[0] != stamp:
                kept = self._cards[entry.id] = stamp, self._described(entry)
            return kept[1]

    def _described(self, entry: Entry) -> ModelCard:
        if entry.place is not None:
            told = card_of_folder(entry.id, entry.place, self.data)
            return told if entry.name is None else told.model_copy(update={"name": entry.name})
        assert entry.name is not None
        return card(entry.id, entry.name, _created(entry.name, "meta"), data=self.data)

    def _load(self, entry: Entry) -> Model:
        if entry.place is not None:
            return load(entry.place, device="cpu")
        assert entry.name is not None
        return _created(entry.name, "cpu")


def _given(word: str) -> Path | str:
    """A folder or file that is there or is fetched, or the name of an architecture or of weights that a package has."""
    if os.path.exists(word):
        return Path(word)
    if word.startswith("hf:"):
        return located(word)
    if word in CARRIED:
        located(word)  # says what to install, where it is not
    elif word not in (*names(), *ARCHITECTURES):
        known = [*names(), *ARCHITECTURES, *CARRIED]
        raise ClearheadError(f"there is no folder and no model called '{shown(word)}'{near(word, known) or LISTED}")
    return word


def _carried() -> list[str]:
    """The names of weights that installed packages carry."""
    return [name for name in CARRIED if carried(name) is not None]


def _named(word: str) -> Entry:
    return (
        Entry(word, place=located(word).resolve(), name=word) if word in CARRIED else Entry(f"random:{word}", name=word)
    )


def _entry_of(place: Path, found: Mapping[str, Entry]) -> Entry:
    """Two folders of one name are told apart by where they lie."""
    whole = place.resolve()
    name = whole.name or "root"
    there = found.get(name)
    return Entry(name if there is None or there.place == whole else f"{name}~{_digest(whole)}", place=whole)


def _created(name: str, device: str) -> Model:
    arch, changes = ARCHITECTURES.get(name, (name, {}))
    model = create(arch, seed=SEED, device=device, **changes)
    model.origin = Origin(name, seed=SEED)
    if name in CLASSES:
        name_classes(model, CLASSES[name])
    return model


def _runs_below(root: Path | None, depth: int = DEEPEST) -> Iterator[Path]:
    """Folders with a config.json, wherever below they lie. Links are not followed: they may lead anywhere."""
    if root is None or not root.is_dir():
        return
    try:
        inside = sorted(place for place in root.iterdir() if place.is_dir() and not place.is_symlink())
    except OSError:
        return
    for place in inside:
        if (place / "config.json").is_file():
            yield place
        elif depth > 1 and not place.name.startswith("."):
            yield from _runs_below(place, depth - 1)


def _stamp(place: Path | None) -> Stamp:
    """Names, times and sizes of the files that a checkpoint is read from."""
    if place is None:
        return ()
    folder = place if place.is_dir() else place.parent
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in OF_A_CHECKPOINT)
        return tuple((file.name, (found := file.stat()).st_mtime_ns, found.st_size) for file in files)
    except OSError:
        return ()


def _digest(place: Path) -> str:
    return hashlib.sha256(str(place).encode()).hexdigest()[:6]
