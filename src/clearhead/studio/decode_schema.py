"""Decoding: what is asked, and every step with what could have been written in its place."""

from typing import Literal

from pydantic import Field

from .schema import Inputs, Said, Token

Mode = Literal["greedy", "sample", "beam"]
Fate = Literal["followed", "pruned", "finished", "beaten", "late", "open"]


class DecodeSettings(Said):
    """What a mode takes no notice of is refused, not ignored.

    temperature, top_k, top_p, seed   of "sample"; the model's own chances unless given
    beams, length_penalty             of "beam"; 4 and 1 unless given
    length                            tokens at most, an end token counted
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    length: int | None = None
    beams: int | None = None
    length_penalty: float | None = None


class DecodeWanted(Said):
    """inputs: the text of a model that goes on with one, the source of an encoder-decoder.

    layer  whose cross-attention is told with the tokens: the last but one unless given; heads: of every head too
    """

    model: str
    inputs: Inputs
    mode: Mode = "greedy"
    settings: DecodeSettings = Field(default_factory=DecodeSettings)
    layer: int | None = None
    heads: bool = False


class Choice(Said):
    """A token that could have been written.

    logprob      the model's own, before anything is done to it; probability is e to this
    after        its probability after temperature and filters: what was drawn from
    cut_by       what made that 0: "never" (this model never writes it), "top_k", "top_p", "greedy" (not the best)
    """

    id: int
    text: str
    logprob: float
    probability: float
    after: float
    cut_by: Literal["never", "top_k", "top_p", "greedy"] | None


class DecodeStep(Said):
    """One token. `new` is the text that became certain with it; `cached`: tokens whose keys and values were kept then.

    choices  the 20 likeliest, likeliest first, and behind them the one that was written, if it is not among them
    reason   set with the last: "end", "length" (as many as asked for, or as the context holds)
    """

    step: int
    token: Token
    logprob: float
    choices: list[Choice]
    cached: int
    new: str
    reason: str | None


class Follower(Said):
    id: int
    text: str
    logprob: float


class BeamNode(Said):
    """A hypothesis: its place in the list is its number; `parent` is null behind the beginning.

    logprob  summed over its tokens; score: logprob / step^length_penalty
    fate     "followed" went on; "pruned" others were better; "finished" complete and among the answers; "beaten"
             complete, but pushed out by better ones; "late" complete, but not among the step's best; "open" still
             under way when the search ended
    next     the 20 likeliest tokens behind it, where the model was asked for them
    """

    parent: int | None
    token: Token
    step: int
    logprob: float
    score: float
    fate: Fate
    next: list[Follower] | None


class BeamAnswer(Said):
    """A finished hypothesis; `path` are the numbers of its nodes, the first token's first."""

    tokens: list[Token]
    text: str
    score: float
    logprob: float
    path: list[int]


class BeamTree(Said):
    """The whole search. `first`: what could come first; `answers`: the finished ones, best first."""

    beams: int
    length_penalty: float
    first: list[Follower]
    nodes: list[BeamNode]
    answers: list[BeamAnswer]


class CrossRows(Said):
    """Where each written token was read from: `rows` (tokens, source), the mean over the heads of one layer.

    A token's row holds the weights by which it was predicted. heads: (heads, tokens, source), where asked for.
    """

    layer: int
    layers: int
    site: str
    rows: list[list[float]]
    heads: list[list[list[float]]] | None


class Decoded(Said):
    """given: the prompt or the source; begin: what an answer begins with; cross: of the tokens, or the best answer."""

    mode: Mode
    given: list[Token]
    begin: list[Token]
    text: str
    tokens: list[Token]
    reason: str | None
    steps: list[DecodeStep]
    tree: BeamTree | None
    cross: CrossRows | None
    notes: list[str]


class CrossWanted(Said):
    """The rows of any tokens: those of a node of the tree, from the first on, what the answer begins with left out."""

    model: str
    inputs: Inputs
    tokens: list[int] = Field(min_length=1)
    layer: int | None = None
    heads: bool = False


class ModesWanted(Said):
    """A prompt or source, and in `target` how it truly goes on, or its true translation."""

    model: str
    inputs: Inputs
    target: str


class Forced(Said):
    """What the model held likeliest when it was shown the true tokens before this place."""

    token: Token
    probability: float
    true_probability: float


class Free(Said):
    """What it wrote from its own tokens; `cached`: how many stood in the cache when it did."""

    token: Token
    probability: float
    cached: int


class ModePlace(Said):
    """`free` is null behind the end that the model wrote itself."""

    true: Token
    forced: Forced
    free: Free | None


class DecodeModes(Said):
    """Teacher forcing (one pass over all places) against testing (a step for each token that is written).

    first_difference  the first place where what is written is not the target
    """

    given: list[Token]
    begin: list[Token]
    places: list[ModePlace]
    forced_passes: int
    free_steps: int
    first_difference: int | None
