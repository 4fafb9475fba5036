"""What the list of models says of each, read from its folder without loading its weights."""

import math
from pathlib import Path
from typing import Any

from ..convert import open_weights
from ..data.sets import list_sets
from ..errors import ClearheadError
from ..files import read_optional_json
from ..models import Model
from ..models.vit import ViTConfig
from ..runs.folder import config_of
from ..runs.skeleton import skeleton
from ..tasks.record import EXAMPLE_PAIR, EXAMPLE_TEXT, EXAMPLES
from .schema import Inputs, ModelCard

BERT_TASKS = {
    None: "a vector for every word",
    "fill": "fills [MASK]",
    "pretrain": "fills [MASK], and says whether a second sentence follows",
    "next-sentence": "says whether a second sentence follows",
    "classify": "names a text's class",
    "tag": "names every word's class",
    "answer": "finds where a passage answers a question",
}
TASKS = {
    "gpt": "goes on with a text",
    "transformer": "translates",
    "t5": "answers a text with a text",
    "vit": "names what a picture shows",
}
DECK_MASKED = "This is Computer [MASK] Class"
MASKED_TEXT = "The capital of France is [MASK]."
SOURCES = {"ne": EXAMPLE_PAIR[0], "de": "Ein Hund läuft durch den Schnee.", "en": "A dog runs through the snow."}
SPANS = "The dog <extra_id_0> through the snow."


def card_of_folder(id: str, place: Path, data: Path | None) -> ModelCard:
    """A checkpoint that can't be read is a card with a problem, not an error: the others are still listed."""
    try:
        weights = open_weights(place)
        family, config, _ = config_of(place, weights)
        model = skeleton(family, config)
    except (ClearheadError, OSError) as problem:
        return broken(id, place, str(problem))
    return card(id, id.partition("~")[0], model, folder=place, data=data)


def broken(id: str, place: Path, problem: str) -> ModelCard:
    return ModelCard(
        id=id,
        name=id.partition("~")[0],
        family="unknown",
        folder=str(place),
        random=False,
        parameters=0,
        layers=0,
        heads=0,
        width=0,
        context=None,
        takes=[],
        task="can't be opened",
        example=Inputs(),
        problem=problem,
    )


def card(id: str, name: str, model: Model, *, folder: Path | None = None, data: Path | None = None) -> ModelCard:
    config = model.config
    return ModelCard(
        id=id,
        name=name,
        family=model.family,  # pyright: ignore[reportArgumentType] (the registry's names are the schema's)
        folder=None if folder is None else str(folder),
        random=folder is None,
        seed=model.origin.seed if folder is None else None,
        parameters=model.parameter_count,
        layers=config.layers,
        heads=config.heads,
        width=config.width,
        context=getattr(config, "context", None),
        takes=list(model.takes),  # pyright: ignore[reportArgumentType]
        task=BERT_TASKS[config.task] if model.family == "bert" else TASKS[model.family],
        figures={} if folder is None else figures(folder),
        example=example(model, name, None if folder is None else learnt_from(folder), data),
    )


def figures(folder: Path) -> dict[str, float]:
    """The figures of a finished run, by part and name: `test/accuracy`."""
    try:
        said = read_optional_json(folder / "result.json")
    except ClearheadError:
        return {}
    parts = {part: values for part, values in said.items() if isinstance(values, dict) and part != "machine"}
    return {
        f"{part}/{name}": float(value)
        for part, values in parts.items()
        for name, value in values.items()
        if type(value) in (int, float) and math.isfinite(value)
    }


def learnt_from(folder: Path) -> dict[str, Any]:
    """The data that a run learnt from, as its run.yaml names it; nothing for a folder of other people's."""
    from ..train.records import NAME, read_run

    if not (folder / NAME).is_file():
        return {}
    try:
        spec = read_run(folder).spec
    except ClearheadError:
        return {}
    return {"kind": spec.kind, "data": getattr(spec, "data", None), "options": getattr(spec, "options", None) or {}}


def example(model: Model, name: str, learnt: dict[str, Any] | None, data: Path | None) -> Inputs:
    """An input that this model can say something about. `learnt` is None where its weights are random."""
    known = learnt or {}
    if isinstance(model.config, ViTConfig):
        return Inputs(picture=_picture(model.config, known.get("data"), data))
    if model.takes == ("source", "target"):
        if learnt is None:
            return Inputs(source=EXAMPLE_PAIR[0], target=EXAMPLE_PAIR[1])
        return Inputs(source=SPANS if known.get("kind") == "corruption" else _source(known))
    if known.get("data") == "letters":
        return Inputs(text=EXAMPLES["gpt-nano"])
    if model.family == "bert" and model.config.task in ("fill", "pretrain"):
        return Inputs(text=DECK_MASKED if learnt is None else MASKED_TEXT)
    return Inputs(text=EXAMPLES.get(name, EXAMPLE_TEXT))


def _picture(config: ViTConfig, learnt: Any, data: Path | None) -> str:
    there = [named.name for named in list_sets(data) if named.kind == "pictures" and named.present]
    if learnt in there:
        return f"{learnt}/test/0"
    return "digits/test/0" if max(config.image) <= 8 else "photographs/sample/0"  # pyright: ignore[reportArgumentType]


def _source(learnt: dict[str, Any]) -> str:
    options = learnt.get("options", {})
    if learnt.get("data") == "dates":
        directions = options.get("directions")
        return "March 3, 1998" if isinstance(directions, str) else "en>de: March 3, 1998"
    return SOURCES.get(options.get("source", "en"), SOURCES["en"])
