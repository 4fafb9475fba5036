"""Where pictures for batches come from: memory on the device, or files that threads decode ahead of time.

Both take rows of the set, and for random crops four numbers a picture, at `start`, and give pixels (B,C,H,W) from 0 to
1 at `finish`. What comes out depends on nothing else.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ClearheadError
from .crops import centre_box, random_boxes, resized_crop
from .images import FILTERS
from .kinds import Pictures
from .pictures import open_picture

AHEAD = 2  # batches of files that are decoded before they are asked for

Area = tuple[float, float] | None


class Memory:
    """Pictures of one size that live on the device."""

    ahead = 0

    def __init__(self, pixels: Tensor, device: torch.device, size: int | None) -> None:
        self.pixels, self.device = pixels.to(device), device
        self.channels, self.height, self.width = pixels.shape[1:]
        self.size = size or min(self.height, self.width)
        self.fits = size is None or self.height == self.width == size

    def start(self, rows: Tensor, numbers: Tensor | None, area: Area) -> Any:
        return rows, numbers, area

    def finish(self, job: Any) -> Tensor:
        rows, numbers, area = job
        pixels = self.pixels[rows.to(self.device)].float() / 255
        if numbers is not None and area is not None:
            boxes = random_boxes(numbers.to(self.device), self.height, self.width, area)
        elif self.fits:
            return pixels
        else:
            boxes = torch.tensor(centre_box(self.height, self.width), device=self.device).expand(len(rows), 4)
        return resized_crop(pixels, boxes, self.size)

    def drop(self, job: Any) -> None:
        """Nothing was begun."""


class Files:
    """Pictures that are decoded and cut to size by threads."""

    ahead = AHEAD
    channels = 3

    def __init__(
        self, paths: Sequence[Path], device: torch.device, size: int, centre: float, workers: int | None
    ) -> None:
        self.paths, self.target, self.size, self.centre = paths, device, size, centre
        self.device = torch.device("cpu")  # where the order is kept
        self.pool = ThreadPoolExecutor(workers or os.cpu_count(), "pictures")

    def start(self, rows: Tensor, numbers: Tensor | None, area: Area) -> list[Future[np.ndarray]]:
        cuts = [None] * len(rows) if numbers is None or area is None else list(numbers)
        return [
            self.pool.submit(self._decoded, self.paths[row], cut, area)
            for row, cut in zip(rows.tolist(), cuts, strict=True)
        ]

    def finish(self, job: list[Future[np.ndarray]]) -> Tensor:
        pixels = torch.from_numpy(np.stack([future.result() for future in job]))
        if self.target.type == "cuda":
            pixels = pixels.pin_memory()
        return pixels.to(self.target, non_blocking=True).permute(0, 3, 1, 2).float() / 255

    def drop(self, job: list[Future[np.ndarray]]) -> None:
        for future in job:
            future.cancel()

    def _decoded(self, path: Path, numbers: Tensor | None, area: Area) -> np.ndarray:
        """One picture, (size, size, 3) bytes."""
        image = open_picture(path)
        if numbers is None or area is None:
            top, left, tall, wide = centre_box(image.height, image.width, self.centre)
        else:
            top, left, tall, wide = random_boxes(numbers[None], image.height, image.width, area)[0].tolist()
        box = (left, top, min(left + wide, image.width), min(top + tall, image.height))
        return np.asarray(image.resize((self.size, self.size), FILTERS.index("bilinear"), box=box))


def picture_source(
    part: Pictures, device: torch.device, size: int | None, centre: float, workers: int | None
) -> Memory | Files:
    """The source for this part; `size`, `centre` and `workers` as in PictureBatches."""
    if size is not None and (type(size) is not int or size < 1):
        raise ClearheadError(f"size must be a whole number from 1, not {size!r}")
    if not 0 < centre <= 1:
        raise ClearheadError(f"centre must be above 0 and at most 1, not {centre!r}")
    if isinstance(part.pixels, Tensor):
        if part.pixels.ndim != 4 or part.pixels.dtype != torch.uint8:
            got = f"{part.pixels.dtype} {tuple(part.pixels.shape)}"
            raise ClearheadError(f"pictures in memory are bytes (N,C,H,W), not {got}")
        return Memory(part.pixels, device, size)
    if size is None:
        raise ClearheadError("pictures that are files need a size: the edge they are resized to")
    return Files(part.pixels, device, size, centre, workers)
