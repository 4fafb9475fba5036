"""The space of words: where they lie, which are alike, what a sentence makes of one."""

from typing import Literal

from pydantic import Field

from .schema import Said

Which = Literal["source", "target"]


class PlacedWord(Said):
    id: int
    text: str
    x: float
    y: float


class WordSpace(Said):
    """Rows of the token table on a plane.

    shares      of pca: which share of the variance lies along each axis
    divergence  of tsne: KL(P || Q), what is left of the difference; perplexity: about how many neighbours a word has
    of          how many words the vocabulary has in all
    """

    kind: Literal["pca", "tsne"]
    words: list[PlacedWord]
    shares: list[float] | None
    divergence: float | None
    perplexity: float | None
    of: int


class NearWord(Said):
    id: int
    text: str
    cosine: float


class NearWords(Said):
    """The words whose rows are most like what was asked for, best first. `asked`: in words, such as a - b + c."""

    asked: str
    words: list[NearWord]


class TableRow(Said):
    """one-hot times table = row: `row` as it was looked up, `product` as it was multiplied.

    rows, width  of the table; the one-hot vector has `rows` numbers, all 0 but a 1 at `id`
    """

    id: int
    text: str
    rows: int
    width: int
    row: list[float]
    product: list[float]
    largest_difference: float


class ContextsWanted(Said):
    """A word, and sentences that all have it."""

    word: str
    sentences: list[str] = Field(min_length=1)


class WordPlace(Said):
    """Where the word stands: in which sentence, from token to token (`stop` is behind the last)."""

    sentence: int
    start: int
    stop: int
    tokens: list[str]


class WordContexts(Said):
    """One word wherever it occurs, n times in all.

    points          of the path: "input" (before the first block), then behind each block
    static_cosines  (n,n) between its rows of the token table: 1 throughout, where it is spelt the same
    cosines         (points,n,n) between its vectors at each point of the path
    to_static       (n,points) of each vector with the word's own row of the table
    path            (n,points,2) on the two axes along which the vectors differ most; shares: of their variance
    static          (n,2) the rows of the table on the same axes
    """

    word: str
    places: list[WordPlace]
    points: list[str]
    static_cosines: list[list[float]]
    cosines: list[list[list[float]]]
    to_static: list[list[float]]
    path: list[list[list[float]]]
    static: list[list[float]]
    shares: list[float]
