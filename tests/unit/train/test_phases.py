"""What changes within a run: courses by their shares, applied by the number of the update, the same after a break."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import clearhead
from clearhead.data.sets import open_set
from clearhead.errors import ClearheadError
from clearhead.recipes import RECIPES
from clearhead.train import pictures
from clearhead.train.loop import Run, Trainer, Watch, train
from clearhead.train.optimiser import Optimiser
from clearhead.train.phases import value_at
from clearhead.train.pictures import PictureSpec
from clearhead.train.ranks import Ranks
from clearhead.train.records import read_run, with_keys, write_run
from clearhead.train.settings import Settings
from clearhead.train.task import Batching

CPU = torch.device("cpu")
FIELDS = {"width": 24, "heads": 3, "layers": 3, "pooling": "mean", "rotary_base": 100.0, "position_std": 0.3}
COURSES = {"kept_tokens": (8, 0.5, 16), "mixing": (1.0, 0.75, 0.0)}


def run(spec: dict[str, Any] | None = None, **settings: Any) -> Run:
    usual = {"steps": 8, "device": "cpu", "compile": False, "validate_every": 4, "log_every": 1}
    usual |= {"optimiser": Optimiser(rate=3e-3), "batching": Batching(size=8)}
    given = {"model": "vit-ti16", "data": "digits", "fields": FIELDS, "augmentation": {"cutmix": 0.5}}
    return Run("digits", PictureSpec(**given | COURSES | (spec or {})), Settings(**usual | settings))


def states(one: Run, folder) -> list[dict[str, Any]]:
    """What held in each update of a run."""
    trainer = Trainer(one, folder, Ranks(0, 1, CPU), Watch(), one.spec.open())
    found = []
    while trainer.step < trainer.steps:
        trainer.update()
        model: Any = trainer.model
        depths = {block.drop_path for block in model.encoder.blocks}
        mixed = (trainer.task.batch(trainer.step - 1, one.settings.batching, 0, 1, CPU).targets > 0).sum(1).max() > 1
        found.append(
            {"kept": model.kept_tokens, "skipped": model.encoder.skipped, "depth": max(depths), "mixed": mixed}
        )
    trainer.close()
    return found


def test_a_course_is_a_value_until_a_share_of_the_run_and_another_from_there():
    course = (0.15, 0.75, 0.1, 0.9, 0.0)
    assert [value_at(course, at) for at in (0.0, 0.749, 0.75, 0.899, 0.9, 1.0)] == [0.15, 0.15, 0.1, 0.1, 0.0, 0.0]
    assert value_at(0.2, 0.99) == 0.2 and value_at(None, 0.5) is None


def test_every_update_has_what_its_number_says(tmp_path):
    found = states(run(skip_rows=(0.25, 0.5, 0.125)), tmp_path)
    assert [one["kept"] for one in found] == [8] * 4 + [None] * 4
    assert [one["skipped"] for one in found] == [0.25] * 4 + [0.125] * 4
    assert all(one["mixed"] for one in found[:6]) and not any(one["mixed"] for one in found[6:])
    masked = states(run(drop_path=(0.3, 0.5, 0.1)), tmp_path / "masked")
    assert [one["depth"] for one in masked] == [0.3] * 4 + [0.1] * 4


def weights(folder) -> dict[str, torch.Tensor]:
    return dict(clearhead.load(folder, device="cpu").state_dict())


@pytest.mark.parametrize("stopped", [3, 4, 5, 7])
def test_a_run_that_broke_off_in_any_phase_ends_with_the_same_bits(tmp_path, stopped):
    one = run(skip_rows=(0.25, 0.5, 0.1), save_every=1)
    train(one, tmp_path / "whole")

    def stop(step: int, steps: int, figures: Any) -> None:
        if step == stopped + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(one, tmp_path / "broken", Watch(updated=stop))
    said: list[str] = []
    train(one, tmp_path / "broken", Watch(said=said.append))
    assert any(line.startswith(f"going on behind step {stopped} of 8") for line in said)
    whole, broken = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


@pytest.mark.parametrize("change", [{"kept_tokens": None}, {"mixing": 1.0}, {}])
def test_a_phase_that_is_ignored_would_give_other_weights(tmp_path, change):
    train(run(skip_rows=(0.25, 0.5, 0.1)), tmp_path / "one")
    train(run(change, **({} if change else {"skip_rows": 0.25})), tmp_path / "two")
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert not all(torch.equal(one[name], two[name]) for name in one)


def test_targets_keep_their_shape_when_mixing_ends():
    task = run().spec.open()
    model = task.model(0)
    shapes, sums = set(), []
    for progress in (0.0, 0.9):
        task.enter(model, progress)
        targets = task.batch(3, Batching(size=8), 0, 1, CPU).targets
        shapes.add((tuple(targets.shape), targets.dtype))
        sums.append(targets.sum().item())
    assert shapes == {((8, 10), torch.float32)} and sums == pytest.approx([8.0, 8.0])


def test_operations_and_erasing_end_when_their_strength_does():
    moved = {"crop": 1, "flip": 0.5}
    strong = moved | {"ops": "rand", "ops_count": 2, "magnitude": 0.6, "erase": 0.5}
    task = run({"augmentation": strong, "strength": (1.0, 0.5, 0.5, 0.75, 0.0)}).spec.open()
    for progress, same in ((0.1, strong), (0.6, strong | {"magnitude": 0.3, "erase": 0.25}), (0.8, moved)):
        task.enter(task.model(0), progress)
        expected = run({"augmentation": same}).spec.open().batch(3, Batching(size=8), 0, 1, CPU)
        assert torch.equal(task.batch(3, Batching(size=8), 0, 1, CPU).pixels, expected.pixels)


def test_a_batch_is_the_same_whatever_phase_was_before_it():
    first, second = run().spec.open(), run().spec.open()
    model = first.model(0)
    for progress in (0.9, 0.1):
        second.enter(model, progress)
        second.batch(1, Batching(size=8), 0, 1, CPU)
    one, other = (task.batch(5, Batching(size=8), 0, 1, CPU) for task in (first, second))
    assert torch.equal(one.pixels, other.pixels) and torch.equal(one.targets, other.targets)


def test_nothing_need_be_held_out(tmp_path, monkeypatch):
    digits = open_set("digits")
    parts = {name: digits.parts[name] for name in ("train", "test")}
    monkeypatch.setattr(pictures, "open_set", lambda *_, **__: replace(digits, parts=parts))
    assert run().spec.open().parts == ("valid", "test")
    task = run({"held_out": 0.0}).spec.open()
    assert task.parts == ("test",) and task.batches_per_epoch(Batching(size=1)) == len(parts["train"])
    outcome = train(run({"held_out": 0.0}), tmp_path)
    assert outcome.figures.keys() == {"test"} and (tmp_path / "model.safetensors").exists()


def test_courses_are_written_read_and_changed_from_the_command_line(tmp_path):
    one = run(skip_rows=(0.15, 0.75, 0.1))
    write_run(one, tmp_path)
    assert read_run(tmp_path) == one and read_run(tmp_path).fingerprint == one.fingerprint
    changed = with_keys(one, ["skip_rows=0.2,0.5,0.1", "kept_tokens=4,0.5,16", "mixing=0.5", "compile=blocks"])
    assert changed.settings.skip_rows == (0.2, 0.5, 0.1) and changed.settings.compile == "blocks"
    assert changed.spec.kept_tokens == (4, 0.5, 16) and changed.spec.mixing == 0.5


def test_compiled_blocks_train_as_plain_ones_do(tmp_path, monkeypatch):
    """Without chance, as compiled code draws other numbers; by a back end that runs what was traced."""
    compiled = torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda module, **how: compiled(module, backend="aot_eager", fullgraph=True, **how)
    )
    plain = {"kept_tokens": None, "augmentation": {}, "mixing": 1.0}
    for name, how in (("plain", False), ("blocks", "blocks")):
        train(run(plain, compile=how, steps=4, skip_rows=(0.25, 0.5, 0.1)), tmp_path / name)
    one, two = weights(tmp_path / "plain"), weights(tmp_path / "blocks")
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"skip_rows": (0.1, 0.5)}, "skip_rows is one value, or value, share of the run, value"),
        ({"skip_rows": (0.1, 0.5, 0.2, 0.4, 0.0)}, "skip_rows is one value, or"),
        ({"skip_rows": (0.1, 0.5, 1.0)}, "skip_rows must be at least 0 and below 1, not 1.0"),
        ({"drop_path": 1.5}, "drop_path must be at least 0 and below 1, not 1.5"),
        ({"drop_path": 0.1, "skip_rows": 0.1}, "two kinds of stochastic depth: choose one"),
        ({"compile": "block"}, "compile must be true, false, blocks, dynamic-blocks or none, not 'block'"),
        ({"compile": "blocks", "drop_path": 0.1}, "compile=blocks goes with skip_rows"),
        ({"compile": "dynamic-blocks", "drop_path": 0.1}, "compile=dynamic-blocks goes with skip_rows"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(settings, message):
    with pytest.raises(ClearheadError, match=message):
        run(**settings)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kept_tokens": (8, 0.5, 17)}, "a picture has 16 patches: kept_tokens can't be 17"),
        ({"kept_tokens": 0}, "kept_tokens must be whole numbers from 1, not 0"),
        ({"kept_tokens": (8.5, 0.5, 16)}, "kept_tokens must be whole numbers from 1, not 8.5"),
        ({"mixing": (1.0, 0.5, 2.0)}, "mixing must be from 0 to 1, not 2.0"),
        ({"strength": -0.5}, "strength must be from 0 to 1, not -0.5"),
        ({"held_out": 1.0}, "held_out must be at least 0 and below 1"),
    ],
)
def test_impossible_phases_of_pictures_are_refused_in_one_line(spec, message):
    with pytest.raises(ClearheadError, match=message):
        run(spec).spec.open()


@pytest.mark.parametrize(
    ("name", "whole"), [("vit-cifar10", 0.75), ("vit-cifar10-fast", 0.75), ("vit-cifar100", 0.75), ("cct-cifar10", 0.9)]
)
def test_the_recipes_for_small_pictures_fit_their_models_and_see_whole_pictures_at_last(name, whole):
    one = RECIPES[name].make()
    assert one.name == name and one.settings.precision == "bf16" and one.settings.compile == "blocks"
    assert isinstance(one.spec, PictureSpec) and one.spec.held_out == 0.0
    model = clearhead.create(one.spec.model, device="meta", **one.spec.fields)
    assert value_at(one.spec.kept_tokens, whole - 0.01) < value_at(one.spec.kept_tokens, whole) == model.config.patches
    assert value_at(one.spec.mixing, 0.94) == 1.0 and value_at(one.spec.mixing, 0.95) == 0.0
    if name in ("vit-cifar10", "vit-cifar100"):
        assert [value_at(one.settings.skip_rows, at) for at in (0.74, 0.75)] == [0.15, 0.1]
