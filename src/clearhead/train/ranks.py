"""The processes that train together: one, or as many as `torchrun` started. PyTorch's own engine does the work.

Tensors on GPUs go through NCCL, numbers on the CPU through gloo: what the processes tell each other about an update
(how many tokens, whether to stop) never waits for a device.
"""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from ..errors import ClearheadError

# A process that died is noticed at once, by its closed connections and by torchrun. This is for one that hangs: it is
# longer than the first process takes to write a large state while the others wait for it.
PATIENCE = timedelta(minutes=10)
NEEDED = ("RANK", "MASTER_ADDR", "MASTER_PORT")


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

    def sums(self, *numbers: int) -> list[int]:
        """Each number's sum over all processes."""
        if self.world == 1:
            return list(numbers)
        summed = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(summed)
        return summed.tolist()

    def any(self, mine: bool) -> bool:
        """Whether it is so in one process at least."""
        return self.sums(int(mine))[0] > 0

    def totals(self, values: torch.Tensor) -> torch.Tensor:
        """The sums over all processes of numbers on the device; in place."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def agreed(self, numbers: Sequence[float]) -> list[float]:
        """The first process's numbers, in all of them."""
        if self.world == 1:
            return list(numbers)
        told = torch.tensor(numbers, dtype=torch.float64)
        dist.broadcast(told, 0)
        return told.tolist()

    def wait(self) -> None:
        """Until every process is here."""
        self.sums(0)


@contextmanager
def ranks(device: torch.device) -> Iterator[Ranks]:
    """Join the other processes where `torchrun` started some (or the program did, by itself), and leave them again.

    After an error nobody is waited for: the process ends, and that ends the others.
    """
    if dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size(), _own(device))
        return
    world = _number("WORLD_SIZE", 1)
    if world == 1:
        yield Ranks(0, 1, device)
        return
    missing = [name for name in NEEDED if name not in os.environ]
    if missing:
        raise ClearheadError(f"WORLD_SIZE is {world}, but {missing[0]} is not set: start several processes by torchrun")
    device = _own(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    yield Ranks(dist.get_rank(), world, device)
    # DDP's reducer must not be the last to hold the connections: it closes them under Python's lock, for which their
    # threads may wait, and both wait for ever
    gc.collect()
    dist.destroy_process_group()


def lost_another(problem: RuntimeError) -> bool:
    """Whether an error says that another process is gone, or silent for too long; gloo has no type for that."""
    return isinstance(problem, dist.DistError) or "gloo" in str(problem)


def _own(device: torch.device) -> torch.device:
    """The device of this process alone."""
    if device.type not in ("cuda", "cpu"):
        raise ClearheadError(f"several processes train on cuda or on the cpu, not on {device.type}: give device=cpu")
    if device.type == "cpu":
        return device
    number, count = _number("LOCAL_RANK", 0), torch.cuda.device_count()
    if number >= count:
        raise ClearheadError(
            f"process {number} has no GPU of its own, there are {count}: give --nproc-per-node={count}"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdecimal():
        raise ClearheadError(f"{name} must be a whole number, not {value!r}: torchrun sets it")
    return int(value)
