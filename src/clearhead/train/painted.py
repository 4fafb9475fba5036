"""Patches that a ViT is not shown, painted from those that it is: a second thing to learn from every picture.

Masked autoencoders (He et al. 2022) learn this before they learn classes; done at once with them it helps where
pictures are few (Das et al. 2024). It goes along with patches that are left out in training (`kept_tokens`): two thirds
up the stack a small decoder reads the rows that are there, and a row of its own in all other places, and says what
belongs there: which pixels, or which edges (Wei et al. 2022), on the scale of each patch's own mean and deviation. It
is a part of the model only while that learns: what is saved is a plain ViT.

Patches may be painted in squares of several: CCT has a row for every 2 x 2 pixels, of which edges say little. Such a
square is read as the mean of its rows that are there, and counts as much as rows of it are missing.
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from ..layers import FeedForward, Heads, LayerNorm, LearnedPositions, Linear, Pass, PreNormBlock, SelfAttention
from ..layers.picture_input import cut
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
        """`square`: so many by so many patches are one place."""
        super().__init__()
        self.layer, self.count = max(1, round(UP * config.layers)), config.patches // square**2
        self.square, self.columns = square, config.grid[1]
        high, wide = config.patch  # pyright: ignore[reportGeneralTypeIssues]
        self.patch, self.truth = (high * square, wide * square), PAINTS[paints]
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
        return unlike(self.painted(rows, at), self.wanted(images), self.missing(at))

    def painted(self, rows: Tensor, at: Tensor) -> Tensor:
        """(B,places,values): what is said to belong there."""
        read = self.read(rows)
        lie = self._lie(at).to(read.dtype)
        there = lie.sum(2, keepdim=True)
        x = torch.where(there > 0, lie @ read / there.clamp(min=1), self.hole.to(read.dtype))
        x = x + self.places(self.count).to(x.dtype)
        return self.paint(self.norm(self.block(x, Pass(), 0)))

    def missing(self, at: Tensor) -> Tensor:
        """(B,places): the share of each that is not there."""
        return 1.0 - self._lie(at).sum(2) / self.square**2

    def _lie(self, at: Tensor) -> Tensor:
        """(B,places,K): 1 where a patch lies."""
        across = self.columns // self.square
        place = at // self.columns // self.square * across + at % self.columns // self.square
        return F.one_hot(place, self.count).mT

    @torch.no_grad()
    def wanted(self, images: Tensor) -> Tensor:
        """(B,places,values): what belongs there, of each with a mean of 0 and about a deviation of 1."""
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


def unlike(painted: Tensor, wanted: Tensor, missing: Tensor) -> Tensor:
    """How far off painted places (B,places,values) are, (B,): the mean square, each counted as much as it is `missing`.

    Where nothing is missing that is 0.
    """
    squares = (painted.float() - wanted).square().mean(-1)
    return (squares * missing).sum(1) / missing.sum(1).clamp(min=torch.finfo(missing.dtype).tiny)
