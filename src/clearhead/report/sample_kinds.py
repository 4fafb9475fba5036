"""Sample predictions by kind of task: what was given and said, whether it is right, and where the model looked."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..analyse import AttentionMap, AttentionRow, over_pixels
from ..models.vit import ViTConfig
from ..tasks.answer import Span
from ..tasks.fill import Filled
from ..tasks.translate import Alignment

COUNT = 12  # samples that a page shows


@dataclass(frozen=True)
class PictureSample:
    """pixels: uint8 (C,H,W) as the model saw them; attention: (layers, heads, R, C) over the patches."""

    pixels: Tensor
    truth: str
    predicted: str
    probability: float
    attention: Tensor
    config: ViTConfig

    @property
    def right(self) -> bool:
        return self.truth == self.predicted

    @property
    def over(self) -> Tensor:
        """(H,W): the last layer's attention, mean of its heads, over the pixels."""
        return over_pixels(self.attention[-1].mean(0), self.config)


@dataclass(frozen=True)
class TextSample:
    """A text or a pair with its class, or with a score: then there is no probability, and nothing is right or wrong."""

    text: str | tuple[str, str]
    truth: str
    predicted: str
    probability: float | None
    look: AttentionRow

    @property
    def right(self) -> bool | None:
        return None if self.probability is None else self.truth == self.predicted


@dataclass(frozen=True)
class LanguageSample:
    """`truth` is the one right continuation, where there is such a thing; `map`: of all that was read."""

    prompt: str
    continuation: str
    truth: str | None
    map: AttentionMap
    last: str

    @property
    def right(self) -> bool | None:
        return None if self.truth is None else self.truth.strip() == self.continuation.strip()

    @property
    def look(self) -> AttentionRow:
        """Of the token that was read last: from it the last token was chosen."""
        return self.map.row(-1)


@dataclass(frozen=True)
class TranslationSample:
    source: str
    reference: str
    output: str
    alignment: Alignment

    @property
    def right(self) -> bool:
        return self.reference.strip() == self.output.strip()


@dataclass(frozen=True)
class MaskedSample:
    """`truths` are the hidden words, one for each blank; a T5 writes all blanks together and has no `looks`."""

    text: str
    truths: tuple[str, ...]
    filled: Filled
    looks: tuple[AttentionRow, ...]

    @property
    def right(self) -> bool:
        return tuple(guesses[0].word for guesses in self.filled.blanks) == self.truths


@dataclass(frozen=True)
class QuestionSample:
    """right: SQuAD's exact match; `look` is None where the passage is read in several windows."""

    question: str
    passage: str
    truths: tuple[str, ...]
    answer: Span
    right: bool
    f1: float
    look: AttentionRow | None


Sample = PictureSample | TextSample | LanguageSample | TranslationSample | MaskedSample | QuestionSample


def mistakes_first(said: Sequence[int], truths: Sequence[int], sure: Sequence[float], count: int) -> list[int]:
    """Places: wrong ones, the surest first, then right ones, the least sure first; a quarter is kept for these."""
    places = range(len(truths))
    wrong = sorted((n for n in places if said[n] != truths[n]), key=lambda n: -sure[n])
    right = sorted((n for n in places if said[n] == truths[n]), key=lambda n: sure[n])
    kept = min(len(right), max(count // 4, count - len(wrong)))
    return wrong[: count - kept] + right[:kept]
