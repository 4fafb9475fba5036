"""A run of one update for each kind of text, on texts that are written here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.train.labelled import LabelledSpec
from clearhead.train.language import LanguageSpec
from clearhead.train.loop import Run
from clearhead.train.masked import MaskedSpec
from clearhead.train.questions import QuestionSpec
from clearhead.train.settings import Settings
from clearhead.train.task import Batching, Spec
from clearhead.train.translation import TranslationSpec

SMALL: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2, "ff": 32}


def small_runs(folder: Path) -> Iterator[Run]:
    settings = Settings(steps=1, batching=Batching(size=8), device="cpu", log_every=1)
    for spec in _specs(folder):
        yield Run(spec.kind, spec, settings)


def _specs(folder: Path) -> Iterator[Spec]:
    (folder / "own.tsv").write_text("text\tlabel\n" + "".join(f"a{n} b c\t{'xy'[n % 2]}\n" for n in range(40)))
    (folder / "texts").mkdir()
    for number in range(30):
        (folder / "texts" / f"{number}.txt").write_text(f"The cat {number} eats. It is day {number}! Does it? " * 4)
    for side, word in (("source", "cat"), ("target", "Katze")):
        (folder / side).write_text("".join(f"{word} {n}\n" for n in range(40)))
    bert: dict[str, Any] = {"model": "minilm-l6", "fields": {**SMALL, "context": 40}, "vocabulary": 200}
    pair = (str(folder / "source"), str(folder / "target"))
    yield LabelledSpec(data=str(folder / "own.tsv"), **bert)
    yield MaskedSpec(data=str(folder / "texts"), **bert)
    yield TranslationSpec(model="transformer-tiny", fields=SMALL, data=pair, tokenizer="words")
    yield QuestionSpec(folder=_asked(folder), options={"split": "article"}, **bert)
    yield LanguageSpec(
        model="gpt2", fields={**SMALL, "context": 16}, data=str(folder / "texts"), tokenizer="words", vocabulary=50
    )


def _asked(folder: Path) -> str:
    """SQuAD's form: who eats in each of some passages?"""
    data = []
    for number in range(12):
        answers = [{"text": f"cat {number}", "answer_start": 4}]
        asked = {"id": str(number), "question": "Who eats?", "answers": answers}
        passage = {"context": f"The cat {number} eats fish.", "qas": [asked]}
        data.append({"title": str(number), "paragraphs": [passage]})
    (folder / "squad").mkdir()
    (folder / "squad" / "dev-v1.1.json").write_text(json.dumps({"version": "1.1", "data": data}))
    return str(folder)
