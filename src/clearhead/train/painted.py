"""Patches that a ViT is not shown, painted from those that it is: a second thing to learn from every picture.

Masked autoencoders (He et al. 2022) learn this before they learn classes; done at once with them it helps where
pictures are few (Das et al. 2024). It goes along with patches that are left out in training (`kept_tokens`): two thirds
up the stack a small decoder reads the rows that are there, and a row of its own in all other places, and says what
belongs there: which pixels, or which edges (Wei et al. 2022), on the scale of each patch's own mean and deviation. It
is a part of the model only while that learns: what is saved is a plain ViT.

Where patches are left out in squares (`square`), such a square is one place, and is read as the mean of its rows: CCT
has four times as many rows as its pictures have places worth telling apart.
"""

import math

import torch
from torch import Generator, Tensor, nn

from ..layers import FeedForward, Heads, LayerNorm, LearnedPositions, Linear, Pass, PreNormBlock, SelfAttention
from ..layers.picture_input import cut, squares_of
from ..models.vit import ViTConfig
from ..ops import init
from ..ops.edges import edges
from .companions import Companion

WIDTH, HEADS = 128, 4  # of the decoder's one block
UP = 2 / 3  # of a model's blocks stand before it
SPREAD = 0.3  # of its places
EVEN = 1e-2  # added to a patch's variance: one that is all the same has none
LEAST = 4  # pixels across a cell of edges: of fewer they say less (docs/LOG.md)


class Painter(Companion):
    name = "painter"
    compiled_whole = True

    def __init__(
        self, config: ViTConfig, random: Generator | None = None, paints: str = "pixels", square: int = 1
    ) -> None:
        super().__init__()
        self.layer, self.count = max(1, round(UP * config.layers)), config.patches // square**2
        self.square, self.columns = square, config.grid[1]
        high, wide = config.patch  # pyright: ignore[reportGeneralTypeIssues]
        self.patch = high * square, wide * square
        self.truth = PAINTS[paints]
        self.read = Linear(config.width, WIDTH)
        self.hole, self.places = nn.Parameter(torch.empty(WIDTH)), LearnedPositions(self.count, WIDTH)
        attention = SelfAttention(WIDTH, Heads.of(WIDTH, HEADS))
        feed_forward = FeedForward(WIDTH, 4 * WIDTH, "gelu-tanh")
        self.block = PreNormBlock(attention, feed_forward, lambda: LayerNorm(WIDTH))
        self.norm = LayerNorm(WIDTH)
        example = torch.zeros(1, config.channels, *config.image)  # pyright: ignore[reportGeneralTypeIssues]
        self.paint = Linear(WIDTH, self.truth(example, self.patch).shape[-1])
        self._initialise(random)

    def _initialise(self, random: Generator | None) -> None:
        for name, weight in self.named_parameters():
            if name.startswith("places"):
                init.normal(weight, SPREAD, random)
            elif weight.ndim > 1:
                init.normal(weight, math.sqrt(1 / weight.shape[1]), random)
            else:
                init.constant(weight, 1.0 if "norm" in name and name.endswith("weight") else 0.0)

    def forward(self, rows: Tensor, at: Tensor, images: Tensor) -> Tensor:
        """rows (B,K,width) of the patches of `images` that `at` (B,K) names -> how far off the others are, (B,)."""
        places, at = self.read_in_squares(rows, at)
        return unlike(self.painted(places, at), self.wanted(images), at)

    def read_in_squares(self, rows: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """What there is to read, and of which places: a row of each square, if patches were left out in squares."""
        if self.square == 1:
            return rows, at
        return rows.unflatten(1, (-1, self.square**2)).mean(2), squares_of(at, self.columns, self.square)

    def painted(self, rows: Tensor, at: Tensor) -> Tensor:
        """Rows (B,K,width) of the places that `at` (B,K) names -> (B,places,values): what is said to be in each."""
        read = self.read(rows)
        holes = self.hole.to(read.dtype).expand(len(rows), self.count, -1)
        x = holes.scatter(1, at.unsqueeze(2).expand(-1, -1, WIDTH), read)
        x = x + self.places(self.count).to(x.dtype)
        return self.paint(self.norm(self.block(x, Pass(), 0)))

    @torch.no_grad()
    def wanted(self, images: Tensor) -> Tensor:
        """(B,places,values): what is there, of each place with a mean of 0 and about a deviation of 1."""
        true = self.truth(images.float(), self.patch)
        variance, mean = torch.var_mean(true, -1, keepdim=True)
        return (true - mean) * torch.rsqrt(variance + EVEN)


def edges_of(images: Tensor, patch: tuple[int, int]) -> Tensor:
    """(B,patches,values): edges in two cells across a patch and down, where its halves are large enough, or in one.

    A cell that is too small looks beyond its patch.
    """
    cells = 2 if all(side % 2 == 0 and side >= 2 * LEAST for side in patch) else 1
    high, wide = (side // cells for side in patch)
    above, beside = (max(0, math.ceil((LEAST - side) / 2)) for side in (high, wide))
    return cut(edges(images, (high, wide), (above, beside)), (cells, cells))


PAINTS = {"pixels": cut, "edges": edges_of}


def unlike(painted: Tensor, wanted: Tensor, at: Tensor) -> Tensor:
    """How far off the painted patches are that were left out, (B,): the mean square. `at` (B,K) were not."""
    squares = (painted.float() - wanted).square().mean(-1)
    left_out = torch.ones_like(squares).scatter(1, at, 0.0)
    return (squares * left_out).sum(1) / left_out.sum(1).clamp(min=1.0)
