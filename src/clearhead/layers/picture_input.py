"""From pixels to the rows that a stack works on: patches or a convolution, [CLS] in front, positions added."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.kernels import has_kernel
from ..trace import recording, tap
from .dropout import dropped
from .embeddings import Positions, to_working_type, working_type
from .linear import Linear


class PictureInput(nn.Module):
    """What both kinds share: which rows are taken, [CLS] in front of them, positions.

    `at` (B,K) names the patches to go on with, where not all are (`drop_tokens` in training).
    """

    def __init__(self, width: int, positions: Positions | None, class_token: bool, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.class_token = nn.Parameter(torch.empty(width)) if class_token else None
        self.positions = positions

    def placed(self, x: Tensor, patches: int, at: Tensor | None) -> Tensor:
        """Rows (B,K,width) of some patches, of `patches` in all, as the first block reads them."""
        if self.class_token is not None:
            x = tap("tokens", torch.cat([self.class_token.to(x.dtype).expand(x.shape[0], 1, -1), x], 1))
        if self.positions is not None:
            x = tap("summed", x + tap("positions", self._rows(patches, at)))
        return to_working_type(dropped(x, self.dropout, self.training))

    def _rows(self, patches: int, at: Tensor | None) -> Tensor:
        """The positions' rows. Some of them are a product with one-hot rows: its way back is a product too, and not
        thousands of additions to the same few places."""
        assert self.positions is not None
        prefix = int(self.class_token is not None)
        table = self.positions(prefix + patches)
        if at is None:
            return table
        rows = F.one_hot(at, patches).to(table.dtype) @ table[prefix:]
        return torch.cat([table[:prefix].to(rows.dtype).expand(len(at), -1, -1), rows], 1)


def taken(rows: Tensor, at: Tensor | None) -> Tensor:
    """Rows (B,N,...) -> those that `at` (B,K) names; all of them when it is None."""
    return rows if at is None else rows.gather(1, at.unsqueeze(2).expand(-1, -1, rows.shape[2]))


def cut(images: Tensor, patch: tuple[int, int]) -> Tensor:
    """(B,C,H,W) -> (B,N,C*p*p): patches side by side, row by row, each as channel, row, column."""
    (high, wide), (batch, channels, rows, columns) = patch, images.shape
    pieces = images.view(batch, channels, rows // high, high, columns // wide, wide)
    return pieces.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * high * wide)


class PatchInput(PictureInput):
    """An image cut into patches, each flattened (channel, row, column) and projected; [CLS] in front; positions added.

    Patches that don't overlap are a view, a permutation and one matrix product, which is faster than a convolution.
    """

    def __init__(
        self,
        patch: tuple[int, int],
        stride: tuple[int, int],
        channels: int,
        width: int,
        positions: Positions | None,
        *,
        class_token: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(width, positions, class_token, dropout)
        self.patch, self.stride = patch, stride
        self.project = Linear(channels * patch[0] * patch[1], width)

    def patches(self, images: Tensor) -> Tensor:
        """(B,C,H,W) -> (B,N,C*p*p): patches row by row."""
        if self.stride != self.patch:
            return F.unfold(images, self.patch, stride=self.stride).transpose(1, 2)
        return cut(images, self.patch)

    def forward(self, images: Tensor, at: Tensor | None = None) -> Tensor:
        patches = self.patches(tap("image", images))
        some = tap("patches", taken(patches, at).to(self.project.bias.dtype))
        return self.placed(tap("projected", self.project(some)), patches.shape[1], at)


class ConvolutionInput(PictureInput):
    """CCT's tokenizer (Hassani et al. 2021): a 3 x 3 convolution, ReLU, and the largest of 3 x 3 at every second pixel.

    So a row stands for 2 x 2 pixels and has seen 5 x 5. The convolution is a product with every pixel's 3 x 3 window.
    """

    STEP = 2
    compiled_whole = True

    def __init__(self, channels: int, width: int, positions: Positions | None, *, dropout: float = 0.0) -> None:
        super().__init__(width, positions, False, dropout)
        self.project = Linear(channels * 9, width, bias=False)

    def windows(self, images: Tensor) -> Tensor:
        """(B,C,H,W) -> (B,H*W,C*9): the pixels around every pixel, zeros beyond the edge. A view and one copy."""
        around = F.pad(images, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1)
        return around.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)

    def forward(self, images: Tensor, at: Tensor | None = None) -> Tensor:
        if self._in_one_kernel(images):
            rows, _ = torch.ops.clearhead.largest_windows(to_working_type(images), self.project.weight, at)
            return self.placed(rows, images.shape[2] // self.STEP * (images.shape[3] // self.STEP), at)
        windows = tap("windows", self.windows(tap("image", images).to(self.project.weight.dtype)))
        x = tap("rectified", tap("convolved", self.project(windows)).relu())
        grid = x.transpose(1, 2).unflatten(2, images.shape[2:])
        pooled = F.max_pool2d(grid, 3, self.STEP, padding=1).flatten(2).transpose(1, 2)
        return self.placed(tap("projected", taken(pooled, at)), pooled.shape[1], at)

    def _in_one_kernel(self, images: Tensor) -> bool:
        """Whether all of it is made by a kernel of our own, for those rows alone that go on: in bf16 on a GPU."""
        even = images.shape[2] % self.STEP == images.shape[3] % self.STEP == 0
        plain = type(self.project) is Linear and not images.requires_grad and not recording()
        known = even and plain and working_type(images) == torch.bfloat16
        return images.is_cuda and known and has_kernel("largest_windows")
