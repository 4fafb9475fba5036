"""Texts judged, gone on with, translated, filled and asked, each with the attention of the token that decided.

One function a kind of task; inputs and truths are plain lists.
"""

import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ..analyse import AttentionRow, attention_maps
from ..data import Tokenizer
from ..data.kinds import Question
from ..models import Model
from ..models.bert import BERT
from ..runs import tokenizer
from ..runs.labels import labels
from ..tasks import classify, fill, generate, record, translate
from ..tasks.answer import WINDOW, Span, answers
from ..tasks.classify import padded_rows, shortened_row, text_row
from ..tasks.fill import BLANK
from ..tasks.writer import writer
from ..train.scores import same_words, shared_words
from .sample_kinds import (
    COUNT,
    LanguageSample,
    MaskedSample,
    QuestionSample,
    TextSample,
    TranslationSample,
    mistakes_first,
)

LENGTH = 48  # tokens that are written behind a prompt


class Hidden(NamedTuple):
    """A text with blanks (`___`) and the words that stood there."""

    text: str
    words: tuple[str, ...]


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
        order = mistakes_first([one.number for one in guessed], numbers, [one.probability for one in guessed], count)
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
