"""Rows of a training batch as a person reads them: what the model is shown, and what it shall learn from it."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ..data.tokenizers import Tokenizer
from ..train.labelled import LabelledBatch, LabelledTask
from ..train.masked import FOLLOWS, MaskedBatch
from ..train.pairs import PairBatch
from ..train.pictures import PictureBatch, PictureTask
from ..train.questions import QuestionBatch
from ..train.token_batches import TokenBatch
from ..train.translation import TranslationTask
from .inputs import unnormalised
from .pictures import as_png
from .training_schema import BatchRow, Wanted

ROWS = 8
TOKENS = 128  # of a row
SMALLEST_SHARE = 0.01  # of a class that a mixed picture is told to show


def rows_of(batch: Any) -> int:
    """How many rows a batch has."""
    first = batch[0]
    return len(first if isinstance(first, Tensor) else first[0])


def shown_rows(task: Any, batch: Any, count: int = ROWS) -> list[BatchRow]:
    make = KINDS[type(batch)]
    return [make(task, batch, row) for row in range(min(count, rows_of(batch)))]


def _picture(task: PictureTask, batch: PictureBatch, row: int) -> BatchRow:
    png = as_png(unnormalised(batch.pixels[row].float().cpu(), task.preprocessor))
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    target = batch.targets[row]
    if target.ndim == 0:
        return BatchRow(picture=url, wanted=[Wanted(place=None, text=task.classes[int(target)])])
    best = target.topk(min(2, len(target)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    told = [Wanted(place=None, text=task.classes[n], share=share) for n, share in pairs if share > SMALLEST_SHARE]
    return BatchRow(picture=url, wanted=told)


def _next_tokens(task: Any, batch: TokenBatch, row: int) -> BatchRow:
    ids, targets = batch.ids[row, :TOKENS], batch.targets[row, :TOKENS]
    counts = None if batch.weights is None else batch.weights[row, :TOKENS]
    return BatchRow(tokens=_pieces(task.tokenizer, ids), wanted=_each(task.tokenizer, targets, counts))


def _pair(task: Any, batch: PairBatch, row: int) -> BatchRow:
    source, target = (task.source, task.target) if isinstance(task, TranslationTask) else (task.tokenizer,) * 2
    length = min(TOKENS, int(batch.weights[row].sum()))
    return BatchRow(
        tokens=_pieces(source, batch.source[row, : min(TOKENS, int(batch.lengths[row]))]),
        target=_pieces(target, batch.target[row, :length]),
        wanted=_each(target, batch.labels[row, :length]),
    )


def _masked(task: Any, batch: MaskedBatch, row: int) -> BatchRow:
    length = min(TOKENS, int(batch.lengths[row]))
    asked = zip(batch.places[row].tolist(), batch.words[row].tolist(), batch.weights[row].tolist(), strict=True)
    wanted = [
        Wanted(place=place, text=_pieces(task.tokenizer, [word])[0])
        for place, word, weight in asked
        if weight > 0 and place < length
    ]
    follows = "the second follows" if int(batch.follows[row]) == FOLLOWS else "the second is from elsewhere"
    return BatchRow(
        tokens=_pieces(task.tokenizer, batch.ids[row, :length]), wanted=[*wanted, Wanted(place=None, text=follows)]
    )


def _labelled(task: LabelledTask, batch: LabelledBatch, row: int) -> BatchRow:
    label = batch.labels[row]
    text = f"{float(label):.3g}" if task.scored else task.classes[int(label)]
    return BatchRow(tokens=_filled(task.tokenizer, batch, row), wanted=[Wanted(place=None, text=text)])


def _question(task: Any, batch: QuestionBatch, row: int) -> BatchRow:
    tokens, (start, end) = _filled(task.tokenizer, batch, row), batch.ends[row].tolist()
    ends = [Wanted(place=place, text=f"{which} of the answer") for which, place in (("beginning", start), ("end", end))]
    return BatchRow(tokens=tokens, wanted=[one for one in ends if one.place is None or one.place < len(tokens)])


def _filled(tokenizer: Tokenizer, batch: LabelledBatch | QuestionBatch, row: int) -> list[str]:
    return _pieces(tokenizer, batch.text.ids[row, : min(TOKENS, int(batch.text.lengths[row]))])


def _each(tokenizer: Tokenizer, targets: Tensor, counts: Tensor | None = None) -> list[Wanted]:
    """One token at every place that counts."""
    places = [place for place in range(len(targets)) if counts is None or counts[place] > 0]
    return [Wanted(place=place, text=_pieces(tokenizer, [int(targets[place])])[0]) for place in places]


def _pieces(tokenizer: Tokenizer, ids: Tensor | Sequence[int]) -> list[str]:
    return tokenizer.pieces(ids.tolist() if isinstance(ids, Tensor) else ids)


KINDS: dict[type, Callable[[Any, Any, int], BatchRow]] = {
    PictureBatch: _picture,
    TokenBatch: _next_tokens,
    PairBatch: _pair,
    MaskedBatch: _masked,
    LabelledBatch: _labelled,
    QuestionBatch: _question,
}
