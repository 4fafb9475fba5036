"""A run of each family, trained for a few updates on texts that are written here: real folders, in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.recipes.start import train
from clearhead.studio.presets import SEVEN
from clearhead.tasks.record import EXAMPLE_PAIR
from clearhead.train.corruption import CorruptionSpec
from clearhead.train.language import LanguageSpec
from clearhead.train.loop import Run
from clearhead.train.masked import MaskedSpec
from clearhead.train.pictures import PictureSpec
from clearhead.train.settings import Settings
from clearhead.train.task import Batching, Spec
from clearhead.train.translation import TranslationSpec

# Few cells, so that pages are read quickly.
SMALL: dict[str, Any] = {"width": 8, "layers": 2, "heads": 2, "ff": 16, "dropout": 0.0}
MONTHS = ("January", "March", "May", "July", "October")
LINES = [f"The cat {n % 10} sees the dog {n % 7}. It eats fish on day {n % 9}!" for n in range(80)]
SEAS = 10 * ("Kingdoms", "Seas", "Hills", "Stars")


@dataclass(frozen=True)
class Trained:
    """A run's folder and an input for it; `inputs` as the address names them."""

    family: str
    folder: Path
    inputs: dict[str, str]

    @property
    def id(self) -> str:
        return self.folder.name


def trained_runs(folder: Path) -> dict[str, Trained]:
    """One of each family, by its name."""
    return {run.family: run for run in _trained(_specs(folder), folder).values()}


def _trained(specs: dict[str, tuple[Spec, dict[str, str]]], folder: Path) -> dict[str, Trained]:
    settings = Settings(steps=4, batching=Batching(size=16), device="cpu", log_every=1)
    made = {}
    for name, (spec, inputs) in specs.items():
        train(Run(name, spec, settings), out=folder / name)
        made[name] = Trained(name.partition("-")[0], folder / name, inputs)
    return made


def stand_ins(folder: Path) -> dict[str, Trained]:
    """Runs that are called as recipes are which take long: the same kinds of model, on a few lines of the same kind."""
    nepali, english = (
        _written(folder / f"{name}.txt", [line, *(f"{line} {n}" for n in range(60))])
        for name, line in zip(("nepali", "english"), EXAMPLE_PAIR, strict=True)
    )
    specs: dict[str, tuple[Spec, dict[str, str]]] = {
        "translate-nepali": (
            TranslationSpec(
                model="transformer-tiny",
                fields={**SMALL, "norm": "pre", "context": 32},
                data=(nepali, english),
                tokenizer="characters",
                scores=(),
            ),
            {"source": EXAMPLE_PAIR[0]},
        ),
        "bert-wikitext2": (
            MaskedSpec(
                model="bert-base",
                fields={**SMALL, "attention_dropout": 0.0, "context": 48},
                data=_written(folder / "seas.txt", [f"A dragon soars over the Seven {word} ." for word in SEAS]),
                vocabulary=120,
                length=24,
            ),
            {"text": SEVEN},
        ),
    }
    return _trained(specs, folder)


def _written(file: Path, lines: Sequence[str]) -> str:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def _specs(folder: Path) -> dict[str, tuple[Spec, dict[str, str]]]:
    lines = _written(folder / "lines.txt", LINES)
    return {
        "gpt-letters": (
            LanguageSpec(model="gpt-nano", fields={"layers": 2, "width": 24}, data="letters"),
            {"text": "CBABBC"},
        ),
        "transformer-dates": (
            TranslationSpec(
                model="transformer-tiny",
                fields={**SMALL, "norm": "pre", "context": 32},
                data=_dates(folder),
                tokenizer="characters",
                scores=(),
            ),
            {"source": "3 May 1998", "target": "1998-05-03"},
        ),
        "bert-lines": (
            MaskedSpec(
                model="bert-base",
                fields={**SMALL, "attention_dropout": 0.0, "context": 32},
                data=lines,
                vocabulary=120,
                length=24,
            ),
            {"text": "The cat sees the [MASK].", "second": "It eats fish!"},
        ),
        "t5-lines": (
            CorruptionSpec(
                model="t5-small",
                fields={**SMALL, "head_width": 4},
                data=lines,
                tokenizer="words",
                length=24,
                sentinels=8,
            ),
            {"source": "The cat <extra_id_0> the dog", "target": "<extra_id_0> sees"},
        ),
        "vit-digits": (
            PictureSpec(model="vit-ti16", fields={"width": 8, "layers": 2, "heads": 2, "patch": 2}, data="digits"),
            {"picture": "digits/test/3"},
        ),
    }


def _dates(folder: Path) -> tuple[str, str]:
    """Days in words and in numbers, line by line."""
    days = [(day, month, year) for day in (1, 3, 12, 28) for month in range(len(MONTHS)) for year in (1987, 1998, 2024)]
    spoken = [f"{day} {MONTHS[month]} {year}" for day, month, year in days]
    plain = [f"{year}-{2 * month + 1:02}-{day:02}" for day, month, year in days]
    return _written(folder / "spoken.txt", spoken), _written(folder / "plain.txt", plain)
