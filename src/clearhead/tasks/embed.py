"""`embed`: texts to vectors, by the mean over a text's tokens or by its [CLS]."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data import Tokenizer
from ..errors import ClearheadError
from ..files import read_optional_json
from ..models.bert import BERT
from ..runs import tokenizer
from ..trace import underneath

POOLINGS = ("mean", "cls")

log = logging.getLogger("clearhead")


def embed(
    model: nn.Module,
    texts: Iterable[str],
    pooling: str = "mean",
    normalise: bool = True,
    batch: int = 32,
    progress: Callable[[int], None] = lambda done: None,
) -> Tensor:
    """One vector a text, (texts, width), fp32 on the CPU, in the order of the texts.

    pooling    "mean" over the tokens of a text, padding left out, or "cls": the first token's vector
    normalise  to length 1, so that a dot product is the cosine
    batch      how many texts of like length run together; it changes the speed, not the vectors
    progress   called after each batch with the number of its texts

    A text of more tokens than the model reads is cut, and that is said. A sentence-transformers folder may set the
    limit below the model's context.
    """
    encoder, tok = encoder_and_tokenizer(model)
    if pooling not in POOLINGS:
        raise ClearheadError(f"pooling must be one of {', '.join(POOLINGS)}, not {pooling!r}")
    if batch < 1:
        raise ClearheadError(f"a batch holds at least one text, not {batch}")
    texts, limit, cut = list(texts), _limit(encoder), 0
    vectors = torch.empty(len(texts), encoder.config.width)
    longest_first = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    with answering(encoder):
        for start in range(0, len(texts), batch):
            chosen = longest_first[start : start + batch]
            ids, lengths = tok.batch([texts[index] for index in chosen])
            cut += int((lengths > limit).sum())
            ids, lengths = (part.to(encoder.device) for part in shortened(ids, lengths, limit))
            vectors[chosen] = pooled(encoder.hidden(ids, lengths), lengths, pooling).float().cpu()
            progress(len(chosen))
    if cut:
        log.warning("%d of %d texts were cut at %d tokens", cut, len(texts), limit)
    return F.normalize(vectors, dim=-1) if normalise else vectors


def pooled(hidden: Tensor, lengths: Tensor, how: str) -> Tensor:
    """hidden (B,L,width), lengths (B,) -> (B,width)."""
    if how == "cls":
        return hidden[:, 0]
    valid_BL1 = (torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None])[..., None]
    return hidden.masked_fill(~valid_BL1, 0.0).sum(1) / lengths[:, None]


def shortened(ids: Tensor, lengths: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """Rows of at most `limit` tokens; a row that is cut still ends with the token that ended it ([SEP])."""
    last = ids.gather(1, lengths[:, None] - 1)[:, 0]
    ids, too_long = ids[:, :limit].clone(), lengths > limit
    ids[too_long, -1] = last[too_long]
    return ids, lengths.clamp(max=limit)


def encoder_and_tokenizer(model: nn.Module) -> tuple[BERT, Tokenizer]:
    """The model underneath and its own vocabulary; a model that gives no vector for a text is refused."""
    model = underneath(model)
    if not isinstance(model, BERT):
        raise ClearheadError(f"vectors of texts come from a BERT or MiniLM, not from a {type(model).__name__}")
    tok = tokenizer(model)
    if tok.size > model.config.vocab:
        raise ClearheadError(
            f"the tokenizer has {tok.size} tokens and the model knows {model.config.vocab}: they don't belong together"
        )
    return model, tok


def _limit(model: BERT) -> int:
    context, folder = model.config.context, model.origin.folder
    said = read_optional_json(Path(folder) / "sentence_bert_config.json") if folder else {}
    limit = said.get("max_seq_length")
    return min(context, limit) if isinstance(limit, int) and limit > 1 else context


@contextmanager
def answering(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients, for the time of an answer."""
    training = model.training
    try:
        with torch.inference_mode():
            model.eval()
            yield
    finally:
        model.train(training)
