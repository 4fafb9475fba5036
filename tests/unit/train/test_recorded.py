"""An update recorded as a CUDA graph trains as one that is not; without a GPU it is said, and training is as usual."""

from typing import Any

import pytest
import torch

from clearhead.data.kinds import Dataset, Pictures
from clearhead.train import pictures
from clearhead.train.average import Average
from clearhead.train.job import Run
from clearhead.train.loop import Trainer, Watch
from clearhead.train.optimiser import Optimiser
from clearhead.train.pictures import PictureSpec
from clearhead.train.ranks import Ranks
from clearhead.train.recorded import FIRST
from clearhead.train.settings import Settings
from clearhead.train.task import Batching
from tests.support import equal

FIELDS = {"width": 32, "layers": 2, "heads": 2, "patch": 2, "position_std": 0.5}


@pytest.fixture(autouse=True)
def noise(monkeypatch):
    """A set of random pictures."""

    def opened(name: str, *_: object, **__: object) -> Dataset:
        drawn = torch.Generator().manual_seed(0)
        parts = {
            part: Pictures(
                torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8, generator=drawn), torch.arange(count) % 10
            )
            for part, count in (("train", 500), ("test", 50))
        }
        return Dataset(name, "pictures", parts, classes=tuple("0123456789"))

    monkeypatch.setattr(pictures, "open_set", opened)


def trained(folder, device: str, said: list[str] | None = None, **changes: Any) -> Trainer:
    """24 updates, which move weights by 0.05; patches, rows and mixing change on the way: graphs are made anew."""
    spec = PictureSpec(
        model="vit-ti16",
        data="digits",
        fields=FIELDS,
        augmentation={"crop": 1, "cutmix": 0.5},
        mixing=(1.0, 0.75, 0.0),
        kept_tokens=(8, 0.5, 16),
    )
    settings: dict[str, Any] = {"steps": 24, "compile": False, "batching": Batching(size=32), "device": device}
    made = Optimiser(name="muon", rate=3e-3, adam_rate=3e-3, clip=1.0, muon_dtype="float32")
    settings |= {"optimiser": made, "warmup": 4}
    settings |= {"average": Average(decay=0.9, warmup=True), "skip_rows": (0.25, 0.5, 0.125)}
    run = Run("noise", spec, Settings(**settings | changes))
    watch = Watch() if said is None else Watch(said=said.append)
    trainer = Trainer(run, folder, Ranks(0, 1, torch.device(device)), watch, spec.open())
    while trainer.step < trainer.steps:
        trainer.update()
    trainer.close()
    return trainer


def same(one: Trainer, other: Trainer, tolerance: float) -> bool:
    assert one.ema is not None and other.ema is not None
    weights = zip(one.model.parameters(), other.model.parameters(), strict=True)
    averages = zip(one.ema.weights.values(), other.ema.weights.values(), strict=True)
    return all(equal(a, b, tolerance) for pairs in (weights, averages) for a, b in pairs)


def test_without_a_gpu_a_graph_is_not_made_and_that_is_said(tmp_path):
    said: list[str] = []
    asked = trained(tmp_path / "asked", "cpu", said, graph=True)
    assert asked.recorded is None and any("graph=true is for one GPU" in line for line in said)
    assert same(asked, trained(tmp_path / "plain", "cpu"), 0.0)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_rates_and_shares_that_are_tensors_move_the_weights_as_numbers_do(tmp_path, monkeypatch, accumulate):
    plain = trained(tmp_path / "plain", "cpu", accumulate=accumulate)
    original = Trainer._recorded

    def with_tensors(self: Trainer) -> Any:
        self.updater.rates_on(torch.device("cpu"))
        assert self.ema is not None
        self.ema.share = torch.zeros(())
        return original(self)

    monkeypatch.setattr(Trainer, "_recorded", with_tensors)
    assert same(plain, trained(tmp_path / "tensors", "cpu", accumulate=accumulate), 1e-3)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("compiled", [False, "blocks"])
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_recorded_run_ends_with_the_weights_of_one_that_is_not(tmp_path, accumulate, compiled):
    plain = trained(tmp_path / "plain", "cuda", accumulate=accumulate, compile=compiled)
    recorded = trained(tmp_path / "recorded", "cuda", accumulate=accumulate, compile=compiled, graph=True)
    assert recorded.recorded is not None and len(recorded.recorded.graphs) == 1
    assert max(recorded.recorded.seen.values()) == FIRST  # graphs of phases that are over are gone
    assert same(plain, recorded, 2e-3)
