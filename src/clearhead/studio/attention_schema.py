"""What the attention views are told: how far heads look, what they do, what an answer rests on."""

from typing import Literal

from .schema import Said

Kind = Literal["encoder", "decoder", "cross"]


class TellingHead(Said):
    """The head that does something most clearly. Layer and head count from 0."""

    layer: int
    head: int
    score: float
    site: str


class HeadMeasure(Said):
    """One score of every head.

    lowest  the most telling head is the one that scores lowest
    values  by layer and head; a layer that was left out of the trace is null, and so is a score that this input has no
            token for (no word occurs twice)
    """

    name: str
    formula: str
    means: str
    lowest: bool
    values: list[list[float] | None] | None
    best: TellingHead | None


class AttentionSummary(Said):
    """Every head of one kind in numbers.

    distance  by layer and head how far away it looks in the mean, in `unit`; null for cross-attention, which looks at
              another text
    left_out  layers whose weights did not fit into the trace
    """

    kind: Kind
    layers: int
    heads: int
    unit: Literal["tokens", "pixels"] | None
    distance: list[list[float] | None] | None
    measures: list[HeadMeasure]
    left_out: list[int]


class OutcomeRelevance(Said):
    """What one score rests on (gradient rollout).

    id, text, score  what was explained: a token or class, and its logit; place: at which token it was scored
    of               the list of the pass that `tokens` belongs to: "tokens", "target" or "patches" ([CLS] first)
    tokens           how relevant each is; source: of an encoder-decoder, how relevant each token of the source is
    layers           how many layers GET .../gradient-rollout/layers has
    """

    id: int
    text: str
    score: float
    place: int | None
    of: Literal["tokens", "target", "patches"]
    tokens: list[float]
    source: list[float] | None
    layers: int


class Answered(Said):
    id: int
    text: str
    probability: float


class LensAnswers(Said):
    """What the model would answer if it stopped before the first block ("input") and behind each ("block 1" ...).

    places   the tokens that are asked about; none where the model answers once for the whole input
    answers  by point and place the best answers, best first
    final    by place the whole model's answer; rising: by point and place how probable that is there
    """

    points: list[str]
    places: list[int]
    answers: list[list[list[Answered]]]
    final: list[Answered]
    rising: list[list[float]]
