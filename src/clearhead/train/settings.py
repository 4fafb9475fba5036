"""How a run trains: everything but the task. A frozen record of plain values, checked before anything is read."""

from dataclasses import dataclass, field
from typing import Any

from ..models.base import Config
from .average import Average
from .lora import LoRA
from .optimiser import Optimiser
from .phases import Course, check_rates, values_of
from .schedule import SCHEDULES
from .task import Batching

PRECISIONS = ("fp32", "bf16", "fp8")
BLOCKWISE = ("blocks", "dynamic-blocks")


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """steps or epochs  how long; one of them is given
    accumulate      batches that make one update
    schedule        of the rate: see schedule.py; warmup in updates, floor as a share of the highest rate
    average         a running average of the weights, evaluated and saved in place of the last ones
    average_last    the mean of the weights at the last so many validations is saved in the end
    drop_path       stochastic depth at the last block, less before it; may change on the way: see phases.py
    skip_rows       the other kind: at every block so large a share of the batch is not computed (pictures alone)
    sharpness       how far uphill the gradient is taken (sharpness.py), at twice the price; may change on the way
    freeze          globs of weights that do not move
    lora            linear layers learn a change of low rank, all else is frozen but what `unfreeze` names (a new head);
                    the change is merged into the weights that are saved
    precision       bf16: autocast, the weights stay fp32; fp8: so too, but a head over many words multiplies in 8 bits
                    on the way forward, on GPUs that can
    compile         None: on a GPU; "blocks": each block by itself, once for all of them and for every shape, which
                    takes a fraction of the time; what stands around them is not compiled. "dynamic-blocks": once for
                    all shapes together, where batches have many
    graph           on one GPU: an update is recorded as a CUDA graph, so that small models don't wait for Python; for
                    tasks whose batches have few shapes
    shard           with several processes: each keeps a piece of every weight (FSDP2), for models that don't fit one
    recompute       activations are computed again in the backward pass instead of being kept
    validate_every  updates between validations, once an epoch unless given; also when the state is saved
    save_every      updates between saved states, if more often than that
    patience        validations without a better figure after which the run ends
    log_every       updates between lines of metrics
    """

    steps: int | None = None
    epochs: float | None = None
    batching: Batching = field(default_factory=Batching)
    accumulate: int = 1
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: str = "cosine"
    warmup: int = 0
    floor: float = 0.0
    average: Average | None = None
    average_last: int = 0
    drop_path: Course = 0.0
    skip_rows: Course = 0.0
    sharpness: Course = 0.0
    freeze: tuple[str, ...] = ()
    unfreeze: tuple[str, ...] = ()
    lora: LoRA | None = None
    precision: str = "fp32"
    compile: bool | str | None = None
    graph: bool = False
    shard: bool = False
    recompute: bool = False
    validate_every: int | None = None
    save_every: int | None = None
    patience: int | None = None
    log_every: int = 10
    seed: int = 0
    device: str = "auto"

    def check(self) -> None:
        self.require((self.steps is None) != (self.epochs is None), "say how long a run is: steps or epochs, not both")
        given = ("steps", "validate_every", "save_every", "patience")
        self.require_sizes("accumulate", "log_every", *(name for name in given if getattr(self, name) is not None))
        if self.epochs is not None:
            self.require(0 < self.epochs < 1e6, f"epochs must be a number above 0, not {self.epochs!r}")
        self.require_probabilities("floor")
        for name in ("drop_path", "skip_rows", "sharpness"):
            check_rates(self, name)
        both = any(values_of(self.drop_path)) and any(values_of(self.skip_rows))
        self.require(not both, "drop_path and skip_rows are two kinds of stochastic depth: choose one")
        alike = self.compile not in BLOCKWISE or not any(values_of(self.drop_path))
        self.require(
            alike, f"compile={self.compile} goes with skip_rows: with drop_path each block would be compiled anew"
        )
        known = self.compile is None or isinstance(self.compile, bool) or self.compile in BLOCKWISE
        choices = f"true, false, {', '.join(BLOCKWISE)} or none"
        self.require(known, f"compile must be {choices}, not {self.compile!r}")
        self.require_choice("schedule", SCHEDULES)
        self.require_choice("precision", PRECISIONS)
        alone = self.lora is None or not self.shard
        self.require(alone, "lora and shard don't go together: a change of low rank is small")
        whole = not self.shard or not any(values_of(self.sharpness))
        self.require(whole, "sharpness and shard don't go together: weights in pieces are not moved uphill")
        self.require(not self.unfreeze or self.lora is not None, "unfreeze goes with lora: nothing else freezes all")
        whole = type(self.average_last) is int and self.average_last >= 0
        self.require(whole, f"average_last must be a whole number from 0, not {self.average_last!r}")
        whole = type(self.warmup) is int and self.warmup >= 0
        self.require(whole, f"warmup must be a whole number from 0, not {self.warmup!r}")

    def updates(self, batches_per_epoch: float) -> int:
        """How many updates the run makes."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return max(1, round(self.epochs * batches_per_epoch / self.accumulate))

    def validates_every(self, batches_per_epoch: float) -> int:
        return self.validate_every or max(1, round(batches_per_epoch / self.accumulate))


def to_plain(value: Any) -> Any:
    """A record as JSON and YAML hold it."""
    if isinstance(value, Config):
        return {name: to_plain(part) for name, part in vars(value).items()}
    if isinstance(value, dict):
        return {name: to_plain(part) for name, part in value.items()}
    return list(map(to_plain, value)) if isinstance(value, tuple | list) else value
