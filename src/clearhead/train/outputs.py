"""What a run leaves in its folder beside its states: the model, weights that will be averaged, the figures."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path

from ..convert import write_safetensors
from ..models.base import Model
from ..runs import load, save
from .average import average_checkpoints
from .companions import accompanied, leave
from .job import Outcome, Run
from .lora import adapted, merge
from .machine import machine
from .ranks import Ranks
from .spelling import spelt, unspell
from .task import Task
from .work import Spread


class Outputs:
    """Every process makes every call, for the weights may have to be gathered; the first one writes."""

    def __init__(self, folder: Path, here: Ranks, spread: Spread, task: Task) -> None:
        self.folder, self.here, self.spread, self.task = folder, here, spread, task

    def save(self) -> None:
        """The model as it is now becomes the folder's own."""
        self._save_weights(self.folder)
        if self.here.first:
            self.task.save(self.folder)

    def save_for_mean(self, step: int) -> None:
        self._save_weights(self._aside(step))

    def save_mean(self, steps: Sequence[int]) -> None:
        """The mean of what was saved at these steps becomes the folder's own."""
        if self.here.first:
            mean = average_checkpoints([self._aside(step) / "model.safetensors" for step in steps])
            write_safetensors(self.folder / "model.safetensors", mean, {"format": "pt"})

    def saved(self) -> Model | None:
        """The folder's own model, in the first process."""
        return load(self.folder, device="cpu") if self.here.first else None

    def tell(self, outcome: Outcome, run: Run, wall: float) -> None:
        """result.json: the figures by part, and what they cost on which machine.

        `seconds` is the time of updates and validations over all sittings, `wall_seconds` the last judgement too,
        and `preparing_seconds` what of it went into the first batch and into compiling and recording updates, where
        they are recorded.
        """
        if self.here.first:
            result = {"run": run.name, "steps": outcome.steps, "seconds": outcome.seconds, "wall_seconds": wall}
            if outcome.preparing is not None:
                result["preparing_seconds"] = outcome.preparing
            result["machine"] = machine(self.here.device, run.settings.precision, self.here.world)
            result |= outcome.figures
            aside = self.folder / ".result.json.part"
            aside.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            aside.replace(self.folder / "result.json")

    def _save_weights(self, folder: Path) -> None:
        whole = self.spread.whole()
        if self.here.first and whole is not None:
            save(_merged(whole), folder)

    def _aside(self, step: int) -> Path:
        return self.folder / "state" / f"snapshot-{step:08d}"


def _merged(model: Model) -> Model:
    """The model as others know it: with plain layers, in a copy, for the training goes on."""
    if not adapted(model) and not spelt(model) and not accompanied(model):
        return model
    copied = copy.deepcopy(model)
    make_plain(copied)
    return copied


def make_plain(model: Model) -> None:
    """Changes of low rank become part of the weights, and what words share by their spelling part of their rows.

    What accompanied it while it learnt is of no use any more.
    """
    merge(model)
    unspell(model)
    leave(model)
