"""Sample predictions of a trained model with where it looked, mistakes first, for a part of a data set of any kind.

Shown is the last layer's attention: for a class that of [CLS] (of all patches, with mean pooling), for a text that goes
on that of the token its last token was chosen from, for a blank its own, for an answer that of its first token; for a
translation the decoder's of the source, of the layer that `translate` aligns by.
"""

from collections.abc import Sequence
from typing import TypeVar

from ..data.kinds import Labelled, Parallel, Part, Pictures, Questions, Running
from ..errors import ClearheadError
from ..models import Model
from ..models.gpt import GPT
from ..runs import tokenizer
from .picture_samples import picture_samples
from .sample_kinds import COUNT, Sample
from .text_samples import (
    language_samples,
    masked_samples,
    question_samples,
    text_samples,
    translation_samples,
    with_blanks,
)

CONSIDERED = 200  # texts among which mistakes are looked for
PROMPT = 160  # characters of a document that are given as a prompt, or in which words are hidden

T = TypeVar("T")


def sample_predictions(model: Model, part: Part, count: int = COUNT, seed: int = 0) -> Sequence[Sample]:
    """Samples for a part of a data set, by its kind and the model's: `model` must come from its folder (`load`)."""
    if isinstance(part, Pictures):
        return picture_samples(model, part.pixels, part.labels, count)
    if isinstance(part, Labelled):
        some = _evenly(list(range(len(part))), CONSIDERED)
        texts = [part.texts[n] if part.seconds is None else (part.texts[n], part.seconds[n]) for n in some]
        return text_samples(model, texts, part.labels[some].tolist(), count)
    if isinstance(part, Parallel):
        some = _evenly(list(zip(part.sources, part.targets, strict=True)), 2 * count)
        return translation_samples(model, some, count)
    if isinstance(part, Questions):
        return question_samples(model, _evenly(part.rows, 2 * count), count)
    if isinstance(part, Running):
        limit = getattr(model.config, "context", None) or PROMPT
        texts = [text for text in part.documents if text.strip()]
        if isinstance(model, GPT):
            return language_samples(model, [_beginning(model, text, limit // 2) for text in _evenly(texts, count)])
        begun = (_beginning(model, text, limit) for text in _evenly(texts, count))
        return masked_samples(model, [with_blanks(model, text, seed=seed) for text in begun])
    raise ClearheadError(f"there are no samples for a {type(part).__name__}")


def _evenly(things: Sequence[T], most: int) -> list[T]:
    """At most so many, taken evenly from the whole."""
    count = min(most, len(things))
    return [things[place * len(things) // count] for place in range(count)]


def _beginning(model: Model, text: str, limit: int) -> str:
    """The first words of a document, of at most `limit` tokens."""
    tok, text = tokenizer(model), text.strip()
    text = text if len(text) <= PROMPT else text[:PROMPT].rsplit(None, 1)[0]
    while (count := len(tok.ids(text))) > limit:
        text = text[: min(len(text) - 1, len(text) * limit // count)].rstrip()
    return text
