"""A run that was cut off and goes on, beside one that was not."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead.convert import open_weights
from clearhead.train.loop import Run, Watch, train


class CutOff(Exception):
    pass


def weights_of_both(run: Run, folder: Path, at: int) -> dict[str, Tensor]:
    """Train `run` in folder/whole; and once more, cut off behind a step. Their weights, which must be the same."""

    def stop(step: int, *_: object) -> None:
        if step == at:
            raise CutOff

    if not (folder / "whole").exists():
        train(run, folder / "whole")
    with pytest.raises(CutOff):
        train(run, folder / "halves", Watch(updated=stop))
    train(run, folder / "halves")
    whole, halves = (dict(open_weights(folder / name / "model.safetensors")) for name in ("whole", "halves"))
    assert whole.keys() == halves.keys() and all(torch.equal(whole[name], halves[name]) for name in whole)
    return whole
