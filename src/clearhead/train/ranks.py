"""The processes that train together: one, or as many as `torchrun` started. PyTorch's own engine does the work."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

PATIENCE = timedelta(minutes=10)  # a rank that is silent for longer ends the job


@dataclass(frozen=True)
class Ranks:
    """This process's number among `world` of them, and the device it works on."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def total(self, number: int) -> int:
        """The sum over all processes."""
        if self.world == 1:
            return number
        summed = torch.tensor(number, device=self.device, dtype=torch.int64)
        dist.all_reduce(summed)
        return int(summed)

    def totals(self, values: torch.Tensor) -> torch.Tensor:
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()


@contextmanager
def ranks(device: torch.device) -> Iterator[Ranks]:
    """Join the other processes where `torchrun` started some; leave them in the end, also after an error."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks(0, 1, device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Ranks(dist.get_rank(), world, device)
    finally:
        dist.destroy_process_group()
