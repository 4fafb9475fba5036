"""What if, and two models on one input: what is asked, and what is said before and after, left and right."""

from pydantic import Field

from .schema import Change, Inputs, PassWanted, Prediction, Said


class WhatIfWanted(Said):
    """The same input twice: as it is, and with these changes. `place`: which token's answer is compared."""

    model: str
    inputs: Inputs
    changes: list[Change] = Field(min_length=1)
    place: int | None = None
    count: int = 10


class OutcomeChange(Said):
    """A word or a class, how probable it is before and after, and the difference: after - before."""

    id: int
    text: str
    before: float
    after: float
    difference: float


class StreamMoved(Said):
    """How far the residual stream of a stack moved, before its first block ("input") and behind each ("block 1" ...).

    cosine    of a token's vectors before and after, in the mean over the tokens: 1 where nothing moved
    relative  |after - before| / |before|, over all tokens: 0 where nothing moved
    at_...    the same two of the token that is asked about; null where the answer is not read from one
    """

    stack: str
    points: list[str]
    cosine: list[float]
    relative: list[float]
    at_cosine: list[float] | None
    at_relative: list[float] | None


class WhatIf(Said):
    """before, after  ids of two kept passes: every view can look at them
    told      the changes in words
    place     at which token was asked; null where the model answers once for the whole input
    outcomes  the most probable before or after, by what they were before; none where scores are no probabilities
    cosine    of the scores before and after
    dropped   passes that were forgotten to make room
    """

    before: str
    after: str
    told: list[str]
    place: int | None
    outcomes: list[OutcomeChange]
    cosine: float
    stream: list[StreamMoved]
    dropped: list[str]


class CompareWanted(Said):
    left: PassWanted
    right: PassWanted
    place: int | None = None
    count: int = 10


class Side(Said):
    """One of the two: its pass, its model's name, the place that was asked about, and what it says there."""

    id: str
    model: str
    place: int | None
    prediction: Prediction


class NamedOutcome(Said):
    """An outcome by its name; null on a side that does not know it. `difference`: right - left."""

    text: str
    left: float | None
    right: float | None
    difference: float | None


class Compared(Said):
    """`same_names`: both sides choose from the same outcomes. `dropped`: passes that were forgotten to make room."""

    left: Side
    right: Side
    same_names: bool
    outcomes: list[NamedOutcome]
    dropped: list[str]
