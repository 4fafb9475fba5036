"""Batches of pictures as a pure function of a seed and a step: whoever resumes at step n gets what he would have got.

The pictures come in one endless row: epoch after epoch, each in a permutation of its own, cut into batches of one size.
So every epoch has every picture once, and a batch may end one epoch and begin the next. Of several processes each takes
its own piece of the same batch. Pictures in memory live on the device and are augmented there; files are decoded and
cut to size by threads, some batches ahead.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ..errors import ClearheadError
from .augment import STEPS, Augmentation, apply, compiled_steps, draw
from .kinds import Pictures
from .mix import draw_mixing, mix
from .picture_sources import AHEAD, picture_source

Numbers = Sequence[float] | float


def number(*key: object) -> int:
    """A seed for what `key` names: the same for the same key, unrelated for any other."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def channel_statistics(part: Pictures) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over all pictures in memory, on the scale from 0 to 1."""
    if not isinstance(part.pixels, Tensor):
        raise ClearheadError("mean and deviation are only counted for pictures in memory: give them for files")
    channels = part.pixels.shape[1]
    counts = [torch.bincount(part.pixels[:, c].flatten(), minlength=256).double() for c in range(channels)]
    levels = torch.arange(256, dtype=torch.float64) / 255
    means = [float(count @ levels / count.sum()) for count in counts]
    variances = [float(count @ (levels - mean) ** 2 / count.sum()) for count, mean in zip(counts, means, strict=True)]
    return tuple(means), tuple(variance**0.5 for variance in variances)


class PictureBatches:
    """Batches of one part. `batch` counts all processes together; `size` is the edge of square results.

    Files need a `size`; pictures in memory keep theirs where it is None. While training they are cut at random if
    `augmentation.area` says so; otherwise, and in `ordered`, the middle square is taken, of files only `centre` of it.
    Squares in memory that are not cut and smaller than `size` are enlarged last: what is done to them, so many pixels
    of moving say, means the same at every size, and costs the least.
    `classes` is needed where pictures are mixed and the part doesn't hold the last class. `compiled` fuses the
    augmentation's kernels with torch.compile, which pays on a GPU.
    """

    def __init__(
        self,
        part: Pictures,
        batch: int,
        seed: int = 0,
        device: str | torch.device = "cpu",
        augmentation: Augmentation | None = None,
        mean: Numbers = 0.0,
        std: Numbers = 1.0,
        *,
        classes: int | None = None,
        size: int | None = None,
        centre: float = 0.875,
        workers: int | None = None,
        compiled: bool = False,
    ) -> None:
        _require(len(part) > 0, "there are no pictures to make batches of")
        _require(type(batch) is int and batch > 0, f"batch must be a whole number from 1, not {batch!r}")
        self.count, self.batch_size, self.seed = len(part), batch, seed
        self.device, self.augmentation = torch.device(device), augmentation or Augmentation()
        self.labels = part.labels.to(self.device)
        self.classes = classes or int(part.labels.max()) + 1
        _require(int(part.labels.max()) < self.classes, f"a label is beyond the {self.classes} classes")
        self._enlarged = size if type(size) is int and self._smaller(part, size) else None
        self._source = picture_source(part, self.device, None if self._enlarged else size, centre, workers)
        self.mean, self.std = (_channels(v, self._source.channels, self.device) for v in (mean, std))
        _require(bool((self.std > 0).all()), f"std must be above 0, not {std!r}")
        self._steps = compiled_steps() if compiled else STEPS
        self._orders: dict[int, Tensor] = {}
        self._started: dict[tuple[int, int, int], Any] = {}

    def _smaller(self, part: Pictures, size: int) -> bool:
        if not isinstance(part.pixels, Tensor) or self.augmentation.area:
            return False
        height, width = part.pixels.shape[2:]
        return height == width < size

    def steps(self, epochs: float) -> int:
        """How many batches make so many epochs, the last one begun counting whole."""
        return -int(-epochs * self.count // self.batch_size)

    def batch(self, step: int, rank: int = 0, world: int = 1) -> tuple[Tensor, Tensor]:
        """Pixels (B,C,H,W) and targets of a step: labels (B,), or where pictures are mixed (B, classes)."""
        _require(step >= 0, f"steps are counted from 0, not {step}")
        _require(0 <= rank < world, f"process {rank} is not one of {world}")
        _require(self.batch_size % world == 0, f"a batch of {self.batch_size} can't be shared among {world} processes")
        self._look_ahead(step, rank, world)
        rows, job = self._started.pop((step, rank, world))
        generator = Generator(self.device).manual_seed(number(self.seed, "augment", step, rank))
        pixels = self._source.finish(job)
        pixels = apply(pixels, self.augmentation, draw(pixels, self.augmentation, generator), self._steps)
        targets = self.labels[rows.to(self.device)]
        if self.augmentation.mixes:
            chances = self.augmentation
            mixup, cutmix = (chances.mixup, chances.mixup_alpha), (chances.cutmix, chances.cutmix_alpha)
            pixels, pair = mix(pixels, targets, draw_mixing(*_three(pixels), mixup, cutmix, generator))
            targets = pair.soft(self.classes)
        return self._finished(pixels), targets

    def ordered(self, rank: int = 0, world: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """Every picture once, in order and not augmented, with its label; each of n processes has every nth batch."""
        starts = range(rank * self.batch_size, self.count, world * self.batch_size)
        batches = [torch.arange(start, min(start + self.batch_size, self.count)) for start in starts]
        jobs: dict[int, Any] = {}
        for index, rows in enumerate(batches):
            for near in range(index, min(index + self._source.ahead + 1, len(batches))):
                if near not in jobs:
                    jobs[near] = self._source.start(batches[near], None, None)
            pixels = self._source.finish(jobs.pop(index))
            yield self._finished(pixels), self.labels[rows.to(self.device)]

    def _finished(self, pixels: Tensor) -> Tensor:
        """On the scale of mean and deviation, and as large as wanted."""
        scaled, size = (pixels - self.mean) / self.std, self._enlarged
        return scaled if size is None else F.interpolate(scaled, (size, size), mode="bilinear")

    def _look_ahead(self, step: int, rank: int, world: int) -> None:
        """Have this step and the next ones under way, and forget any others."""
        wanted = [(near, rank, world) for near in range(step, step + self._source.ahead + 1)]
        for key in [key for key in self._started if key not in wanted]:
            self._source.drop(self._started.pop(key)[1])
        for key in wanted:
            if key not in self._started:
                rows, area = self._rows(*key), self.augmentation.area
                cuts = Generator().manual_seed(number(self.seed, "cut", *key[:2]))
                numbers = torch.rand(len(rows), 4, generator=cuts) if area else None
                self._started[key] = rows, self._source.start(rows, numbers, area)

    def _rows(self, step: int, rank: int, world: int) -> Tensor:
        """Which pictures this process has at this step."""
        share = self.batch_size // world
        first = step * self.batch_size + rank * share
        rows, last = [], first + share
        while first < last:
            epoch, place = divmod(first, self.count)
            rows.append(self._order(epoch)[place : place + last - first])
            first += len(rows[-1])
        return torch.cat(rows)

    def _order(self, epoch: int) -> Tensor:
        """The permutation of an epoch; the last few are remembered."""
        if epoch not in self._orders:
            generator = Generator().manual_seed(number(self.seed, "order", epoch))
            while len(self._orders) > AHEAD:
                self._orders.pop(next(iter(self._orders)))
            self._orders[epoch] = torch.randperm(self.count, generator=generator).to(self._source.device)
        return self._orders[epoch]


def _channels(values: Numbers, channels: int, device: torch.device) -> Tensor:
    tensor = torch.tensor(values, dtype=torch.float32, device=device).flatten()
    _require(len(tensor) in (1, channels), f"{len(tensor)} numbers for mean or std don't fit {channels} channels")
    return tensor.view(-1, 1, 1)


def _three(pixels: Tensor) -> tuple[int, int, int]:
    return len(pixels), pixels.shape[2], pixels.shape[3]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ClearheadError(message)
