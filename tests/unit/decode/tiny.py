"""Models small enough to ask again from the beginning at every step, and one that is a table: exact and independent."""

import math
import random
from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor

from clearhead.models.base import Model
from clearhead.models.gpt import GPT, GPTConfig
from clearhead.models.t5 import T5, T5Config
from clearhead.models.transformer import Transformer, TransformerConfig

VOCAB = 11
GPTS = {
    "gpt, learned": {},
    "gpt, sinusoidal": {"positions": "sinusoidal"},
    "gpt, rotary": {"positions": "rotary"},
    "gpt, no positions": {"positions": "none"},
    "gpt, banded": {"band": 3},
    "gpt, banded rotary, grouped": {"band": 3, "positions": "rotary", "kv_heads": 1, "value_width": 5},
    "gpt, post-norm, untied": {"norm": "post", "final_norm": False, "tied": False},
}
TRANSFORMERS = {
    "transformer, post": {},
    "transformer, pre": {"norm": "pre"},
    "transformer, learned": {"positions": "learned"},
    "transformer, pre, learned": {"norm": "pre", "positions": "learned", "output_bias": True},
}
T5S = {"t5": {}, "t5, gated": {"gated": True, "tied": False, "output_scaled": False, "decoder_layers": 3}}
FAMILIES = [*GPTS, *TRANSFORMERS, *T5S]


def build(name: str, context: int = 24) -> Model:
    """A model by name, its weights wide enough that every token matters to the next; the same at every call.

    T5's scores are not scaled: as wide as the others' they would be so sharp that fp32 itself leaves the tolerance.
    """
    small = {"vocab": VOCAB, "width": 12, "layers": 2, "heads": 2}
    if name in GPTS:
        model = GPT(GPTConfig(**small, context=context, **GPTS[name]))
    elif name in TRANSFORMERS:
        model = Transformer(TransformerConfig(**small, context=context, start_token=2, **TRANSFORMERS[name]))
    else:
        model = T5(T5Config(**small, head_width=5, ff=20, buckets=6, max_distance=7, **T5S[name]))
    random_numbers = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name_of, weight in model.named_parameters():
            centre = 1.0 if "norm" in name_of and name_of.endswith("weight") else 0.0
            weight.normal_(centre, 0.2 if name in T5S else 0.4, generator=random_numbers)
    return model.eval()


@torch.no_grad()
def whole(model: Model, given: Sequence[int], written: Sequence[int] = ()) -> Tensor:
    """The logits (vocabulary) behind all of it, by one pass without cache, padding or neighbours."""
    if model.takes == ("text",):
        return model(torch.tensor([[*given, *written]]))[0, -1]
    assert model.start_token is not None
    return model(torch.tensor([list(given)]), torch.tensor([[model.start_token, *written]]))[0, -1]


def prompts(seed: int, count: int, longest: int = 9, shortest: int = 1) -> list[list[int]]:
    """Rows of many lengths, the longest among them."""
    roll = random.Random(seed)
    sizes = [longest, *(roll.randint(shortest, longest) for _ in range(count - 1))]
    return [[roll.randrange(VOCAB) for _ in range(size)] for size in sizes]


class TableState:
    def __init__(self, model: "TableModel", rows: list[tuple[int, ...]]) -> None:
        self.model, self.rows = model, rows
        self.logits = torch.tensor([model.scores(row) for row in rows], dtype=torch.float64)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, rows: list[int]) -> "TableState":
        return TableState(self.model, [self.rows[row] for row in rows])

    def reorder(self, rows: list[int]) -> None:
        self.__dict__.update(self.select(rows).__dict__)

    def join(self, other: "TableState") -> "TableState":
        return TableState(self.model, self.rows + other.rows)


class TableModel:
    """Scores that are drawn anew for every beginning and stay: no layer, no cache, no rounding of its own."""

    family = "table"
    takes = ("text",)
    device = torch.device("cpu")
    config = SimpleNamespace()

    def __init__(self, seed: int, vocab: int, spread: float = 1.5) -> None:
        self.seed, self.vocab, self.spread = seed, vocab, spread

    def scores(self, row: Sequence[int]) -> list[float]:
        roll = random.Random(f"{self.seed} {list(row)}")
        return [roll.gauss(0, self.spread) for _ in range(self.vocab)]

    def logprobs(self, row: Sequence[int]) -> list[float]:
        scores = self.scores(row)
        total = math.log(sum(math.exp(score) for score in scores))
        return [score - total for score in scores]

    def start(self, inputs: Tensor, lengths: Tensor | None = None, **options: object) -> TableState:
        sizes = [inputs.shape[1]] * len(inputs) if lengths is None else lengths.tolist()
        return TableState(self, [tuple(row[:size]) for row, size in zip(inputs.tolist(), sizes, strict=True)])

    def step(self, tokens: Tensor, state: TableState) -> Tensor:
        grown = [(*row, token) for row, token in zip(state.rows, tokens.tolist(), strict=True)]
        state.__init__(self, grown)
        return state.logits
