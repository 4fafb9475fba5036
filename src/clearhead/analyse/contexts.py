"""One word in several sentences: its static vector, the same everywhere, against what each block makes of it there."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import ClearheadError
from ..models import Model
from ..ops import cosine
from ..runs import tokenizer
from ..tasks.embed import answering
from ..tasks.words import word_places
from ..trace import Recorder
from .answers import checked_model
from .stream import stack_of, stream_sites


@dataclass(frozen=True)
class Occurrence:
    """Where a word stands: in which sentence, from token to token, and the sentence's tokens."""

    sentence: int
    start: int
    stop: int
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class WordVectors:
    """A word wherever it occurs, n times in all; of a word in several pieces the mean is taken.

    static   (n,d) its rows of the token table
    layers   (n,N+1,d) what comes into the first block and out of each of the N: the word's path
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    static: Tensor
    layers: Tensor

    @property
    def contextual(self) -> Tensor:
        """(n,d) behind the last block."""
        return self.layers[:, -1]

    def cosines(self, layer: int = -1) -> Tensor:
        """(n,n) of every occurrence with every other, at one point of the path; 0 is before the first block."""
        return cosine(self.layers[:, layer], self.layers[:, layer])

    @property
    def static_cosines(self) -> Tensor:
        return cosine(self.static, self.static)


def word_vectors(model: nn.Module, word: str, sentences: Sequence[str]) -> WordVectors:
    """A word's vectors in sentences that all have it. In an encoder-decoder it is the encoder that reads them."""
    model = checked_model(model)
    if model.takes == ("image",):
        raise ClearheadError(f"a {model.family} model reads no words")
    if not sentences or not word.strip():
        raise ClearheadError("give a word, and the sentences to look for it in")
    tok = tokenizer(model)
    found: list[Occurrence] = []
    paths: list[Tensor] = []
    rows: list[Tensor] = []
    for number, sentence in enumerate(sentences):
        ids = tok.ids(sentence)
        starts = word_places(tok, word, ids)
        if not starts:
            raise ClearheadError(f"{word!r} does not occur in {sentence!r}")
        static, stream = _read(model, torch.tensor([ids], device=model.device))
        for start, stop in starts:
            found.append(Occurrence(number, start, stop, tuple(tok.pieces(ids))))
            paths.append(stream[:, start:stop].mean(1))
            rows.append(static[start:stop].mean(0))
    return WordVectors(word, tuple(found), torch.stack(rows), torch.stack(paths))


def _read(model: Model, ids: Tensor) -> tuple[Tensor, Tensor]:
    """ids (1,L) -> the tokens' rows (L,d) and the stream (N+1,L,d) of the stack that reads."""
    both = "target" in model.takes
    stack = "encoder" if both else stack_of(model)[0]
    sites = stream_sites(model, stack)
    embedded = "source.embedded" if both else "input.embedded"
    with answering(model), Recorder(model, [embedded, *sites], dtype=torch.float32) as trace:
        model.encode(ids) if both else model.hidden(ids)  # pyright: ignore[reportCallIssue]
    return trace[embedded][0], torch.stack([trace[site][0] for site in sites])
