"""Sample predictions of a trained model with where it looked, mistakes first. Inputs and truths come from the caller.

`sample_predictions` takes a part of a data set; the functions below it take plain lists, one function a kind of task.
Shown is the last layer's attention: for a class that of [CLS] (of all patches, with mean pooling), for a text that goes
on that of the token its last token was chosen from, for a blank its own, for an answer that of its first token; for a
translation the decoder's of the source, of the layer that `translate` aligns by.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..analyse import AttentionMap, AttentionRow, attention_maps, over_pixels, patch_maps, patch_names
from ..data import Preprocessor, Tokenizer
from ..data.kinds import Labelled, Parallel, Part, Pictures, Question, Questions, Running
from ..errors import ClearheadError
from ..models import Model
from ..models.bert import BERT
from ..models.gpt import GPT
from ..models.vit import ViT, ViTConfig
from ..runs import preprocessor, tokenizer
from ..runs.labels import labels
from ..tasks import classify, fill, generate, record, translate
from ..tasks.answer import WINDOW, Span, answers
from ..tasks.classify import padded_rows, shortened_row, text_row
from ..tasks.embed import answering
from ..tasks.fill import BLANK, Filled
from ..tasks.translate import Alignment
from ..tasks.writer import writer
from ..train.scores import same_words, shared_words

COUNT = 12
AT_ONCE = 64  # pictures that are classified together
CONSIDERED = 200  # texts among which mistakes are looked for
PROMPT = 160  # characters of a document that are given as a prompt, or in which words are hidden
LENGTH = 48  # tokens that are written behind a prompt

T = TypeVar("T")


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


class Hidden(NamedTuple):
    """A text with blanks (`___`) and the words that stood there."""

    text: str
    words: tuple[str, ...]


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


def picture_samples(
    model: Model,
    pictures: Tensor | Sequence[Path],
    truths: Tensor | Sequence[int],
    count: int = COUNT,
    *,
    classes: Sequence[str] | None = None,
    scores: Tensor | None = None,
) -> list[PictureSample]:
    """pictures: uint8 (N,C,H,W) or files; truths: the numbers of their classes.

    classes  names of the classes, the model's own unless given
    scores   (N, classes) where they were computed already; every picture is classified here otherwise
    """
    if not isinstance(model, ViT):
        raise ClearheadError(f"pictures are classified by a ViT, not by a {type(model).__name__}")
    names, numbers = classes or labels(model).names, [int(truth) for truth in truths]
    if not numbers:
        return []
    prepare = preprocessor(model)
    if scores is None:
        with answering(model):
            scores = torch.cat(
                [
                    model(_prepared(model, prepare, pictures[start : start + AT_ONCE])).float().cpu()
                    for start in range(0, len(numbers), AT_ONCE)
                ]
            )
    best = scores.softmax(-1).max(-1)
    order = _mistakes_first(best.indices.tolist(), numbers, best.values.tolist(), count)
    return [
        _picture(model, prepare, pictures[n : n + 1], names[numbers[n]], names[int(best.indices[n])], best.values[n])
        for n in order
    ]


def _prepared(model: ViT, prepare: Preprocessor, pictures: Tensor | Sequence[Path]) -> Tensor:
    """(B,C,H,W) as `classify` gives them to the model."""
    arrays = [p if isinstance(p, Path) else _array(p) for p in pictures]
    pixels = prepare.batch(arrays)
    pixels = pixels.mean(1, keepdim=True) if model.config.channels == 1 else pixels
    return pixels.to(model.device, model.dtype)


def _array(picture: Tensor) -> np.ndarray:
    """(C,H,W) bytes as Pillow takes them: (H,W) where they are grey."""
    array = picture.permute(1, 2, 0).numpy()
    return np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array)


def _picture(
    model: ViT, prepare: Preprocessor, picture: Any, truth: str, predicted: str, sure: Tensor
) -> PictureSample:
    pixels = _prepared(model, prepare, picture)
    names = patch_names(model.config)
    maps = attention_maps(record(model, pixels, sites="*.attention.weights"), rows=names)
    attention = torch.stack([patch_maps(one.weights, model.config) for one in maps])
    seen, grey = pixels[0].float().cpu(), model.config.channels == 1
    mean, std = (torch.tensor(values[:1] if grey else values)[:, None, None] for values in (prepare.mean, prepare.std))
    shown = ((seen * std + mean) / prepare.scale).round().clamp(0, 255).byte()
    return PictureSample(shown, truth, predicted, float(sure), attention, model.config)


def text_samples(
    model: Model, texts: Sequence[str | tuple[str, str]], truths: Sequence[float], count: int = COUNT
) -> list[TextSample]:
    """truths: the numbers of the classes, or scores where the model measures."""
    verdicts = classify(model, texts, top=1)
    names = labels(model).names
    measures = bool(verdicts) and verdicts[0].value is not None
    if measures:
        gaps = [abs(verdict.value - truth) for verdict, truth in zip(verdicts, truths, strict=True)]  # pyright: ignore
        order = sorted(range(len(texts)), key=lambda n: -gaps[n])[:count]
    else:
        guessed = [verdict.classes[0] for verdict in verdicts]
        numbers = [int(truth) for truth in truths]
        order = _mistakes_first([one.number for one in guessed], numbers, [one.probability for one in guessed], count)
    tok, found = tokenizer(model), []
    for n in order:
        look = _class_look(model, tok, texts[n])
        if measures:
            found.append(TextSample(texts[n], f"{truths[n]:.3g}", f"{verdicts[n].value:.3g}", None, look))
        else:
            said = verdicts[n].classes[0]
            found.append(TextSample(texts[n], names[int(truths[n])], said.name, said.probability, look))
    return found


def _class_look(model: Model, tok: Tokenizer, text: str | tuple[str, str]) -> AttentionRow:
    row = shortened_row(*text_row(tok, text), model.config.context)
    trace = record(model, padded_rows([row], model), sites="*.attention.weights")  # pyright: ignore[reportArgumentType]
    return attention_maps(trace, rows=tok.pieces(row[0]))[-1].row(0)


def language_samples(
    model: Model, prompts: Sequence[str], truths: Sequence[str] | None = None, length: int = LENGTH
) -> list[LanguageSample]:
    """Prompts and what the model writes behind them, always its best token; truths where there is one right answer."""
    writes = writer(model)
    found = []
    for number, made in enumerate(generate(model, prompts, length=length)):
        ids = [*writes.ids(prompts[number]), *made.tokens]
        read = ids[:-1][-(writes.context or len(ids)) :]
        trace = record(model, torch.tensor([read]), sites=("*.attention.weights", "*.attention.masked"))
        last = attention_maps(trace, rows=writes.pieces(read))[-1]
        truth = None if truths is None else truths[number]
        found.append(LanguageSample(prompts[number], made.text, truth, last, made.pieces[-1]))
    return sorted(found, key=lambda sample: sample.right is True)


def translation_samples(
    model: Model, pairs: Sequence[tuple[str, str]], count: int = COUNT, beams: int = 4
) -> list[TranslationSample]:
    """pairs: sources with their references."""
    pairs = [pair for pair in pairs if pair[0].strip()]
    written = [best[0] for best in translate(model, [source for source, _ in pairs], beams=beams, align=True)]
    made = [
        TranslationSample(source, reference, best.text, best.alignment)
        for (source, reference), best in zip(pairs, written, strict=True)
        if best.alignment is not None
    ]
    return sorted(made, key=lambda sample: sample.right)[:count]


def masked_samples(model: Model, hidden: Iterable[Hidden], top: int = 5) -> list[MaskedSample]:
    """Texts with blanks and the words that stood there; what the model would put into each."""
    made = [
        MaskedSample(text, words, fill(model, text, top), _blank_looks(model, text) if isinstance(model, BERT) else ())
        for text, words in hidden
        if words
    ]
    return sorted(made, key=lambda sample: sample.right)


def with_blanks(model: Model, text: str, count: int = 3, seed: int = 0) -> Hidden:
    """Hide up to `count` words of a text, each one token of the model's own and seen whole: no blank is hopeless."""
    tok = tokenizer(model)
    words = [match for match in re.finditer(r"\w+", text) if len(match[0]) > 1]
    single = [match for match in words if _is_one_token(tok, match[0])]
    chosen = sorted(random.Random(seed).sample(single, min(count, len(single))), key=lambda match: match.start())
    blanked, end = "", 0
    for match in chosen:
        blanked += text[end : match.start()] + "___"
        end = match.end()
    return Hidden(blanked + text[end:], tuple(tok.text(tok.ids(match[0], special=False)).strip() for match in chosen))


def _is_one_token(tok: Tokenizer, word: str) -> bool:
    ids = tok.ids(word, special=False)
    return len(ids) == 1 and ids[0] != tok.special.get("unk")


def _blank_looks(model: Model, text: str) -> tuple[AttentionRow, ...]:
    tok = tokenizer(model)
    mask = tok.special["mask"]
    ids = tok.ids(re.sub(BLANK, tok.pieces([mask])[0], text))
    last = attention_maps(record(model, torch.tensor([ids]), sites="*.attention.weights"), rows=tok.pieces(ids))[-1]
    return tuple(last.row(place) for place, number in enumerate(ids) if number == mask)


def question_samples(model: Model, questions: Sequence[Question], count: int = COUNT) -> list[QuestionSample]:
    found = []
    best = answers(model, [(one.question, one.passage) for one in questions])
    for one, spans in zip(questions, best, strict=True):
        truths = tuple(dict.fromkeys(text for text, _ in one.answers))
        right, f1 = (max(judge(spans[0].text, truth) for truth in truths) for judge in (same_words, shared_words))
        look = _answer_look(model, one, spans[0])
        found.append(QuestionSample(one.question, one.passage, truths, spans[0], bool(right), f1, look))
    return sorted(found, key=lambda sample: sample.f1)[:count]


def _answer_look(model: Model, asked: Question, span: Span) -> AttentionRow | None:
    tok = tokenizer(model)
    row = tok.pair(asked.question, asked.passage)
    if len(row[0]) > min(WINDOW, model.config.context):
        return None
    places = tok.offsets(asked.question, asked.passage)
    first = next(n for n, place in enumerate(places) if place is not None and place[1] > span.start)
    trace = record(model, padded_rows([row], model), sites="*.attention.weights")  # pyright: ignore[reportArgumentType]
    return attention_maps(trace, rows=tok.pieces(row[0]))[-1].row(first)


def _mistakes_first(said: Sequence[int], truths: Sequence[int], sure: Sequence[float], count: int) -> list[int]:
    """Places: wrong ones, the surest first, then right ones, the least sure first; a quarter is kept for these."""
    places = range(len(truths))
    wrong = sorted((n for n in places if said[n] != truths[n]), key=lambda n: -sure[n])
    right = sorted((n for n in places if said[n] == truths[n]), key=lambda n: sure[n])
    kept = min(len(right), max(count // 4, count - len(wrong)))
    return wrong[: count - kept] + right[:kept]


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
