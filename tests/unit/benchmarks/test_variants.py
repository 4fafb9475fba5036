"""Variants of a recipe: judged on what was held out, in equal time, and one that fails does not stop the others."""

import json
import math
from types import SimpleNamespace

import pytest

from benchmarks import variants
from benchmarks.variants import Result, fitted, judged, main
from clearhead.errors import ClearheadError
from clearhead.recipes.start import named_run, train

TINY = ["fields.width=16", "fields.heads=2", "fields.layers=1", "warmup=2"]


def test_a_variant_is_judged_on_the_held_out_part_alone(monkeypatch):
    read: list[str] = []
    true = variants.Trainer.evaluate
    monkeypatch.setattr(variants.Trainer, "evaluate", lambda self, part: read.append(part) or true(self, part))
    found = judged("vit-digits", TINY, "epochs=1", None)
    assert set(read) == {"valid"} and found.variant == "epochs=1" and found.metric == "accuracy"
    rows = len(named_run("vit-digits").spec.open().data["valid"])  # pyright: ignore[reportAttributeAccessIssue]
    assert found.error == pytest.approx(math.sqrt(found.value * (1 - found.value) / rows))
    assert found.epochs == pytest.approx(1, abs=0.1)


def test_a_checkpoint_goes_on_with_its_pictures_in_a_larger_size(tmp_path):
    first = named_run("vit-digits", [], [*TINY, "steps=2", "fields.rotary_base=100.0", "fields.rotary_span=4"])
    train(first, out=tmp_path / "first")
    found = judged(str(tmp_path / "first"), ["digits", "fields.image=16", "held_out=0.2"], "epochs=0.1", None)
    assert found.metric == "accuracy" and found.updates > 0


def test_a_recipe_that_holds_nothing_out_is_refused(monkeypatch):
    task = SimpleNamespace(parts=("test",))
    run = SimpleNamespace(spec=SimpleNamespace(open=lambda: task))
    monkeypatch.setattr(variants, "one_stage", lambda *words: run)
    with pytest.raises(ClearheadError, match="vit-cifar10 holds nothing out"):
        judged("vit-cifar10", [], "", None)


def test_a_slower_variant_gets_fewer_epochs(monkeypatch):
    run = named_run("vit-digits", [], TINY)
    task = run.spec.open()
    for pace, epochs in ((0.1, 10 / 0.1), (0.2, 10 / 0.2)):
        monkeypatch.setattr(variants, "seconds_an_update", lambda run, task, pace=pace: pace)
        per_epoch = task.batches_per_epoch(run.settings.batching)
        assert fitted(run, task, 10.0).settings.epochs == pytest.approx(epochs / per_epoch, abs=0.01)


def test_phases_count_by_their_length(monkeypatch):
    """A clock that says how many patches are computed: 8 for a quarter of the run, 16 for the rest."""

    def seconds_of(update, count):
        update()
        return update.__self__.model.kept_tokens or 16

    monkeypatch.setattr(variants, "seconds_of", seconds_of)
    run = named_run("vit-digits", [], ["kept_tokens=8,0.25,16", "epochs=2", *TINY])
    assert variants.seconds_an_update(run, run.spec.open()) == pytest.approx((0.25 * 8 + 0.75 * 16) / variants.TIMED)


def test_one_that_fails_does_not_stop_the_others(monkeypatch, capsys):
    def of(name, changes, variant, seconds):
        if variant == "a=1":
            raise ClearheadError("there is no setting 'a'")
        return Result(variant, 2.0, 40, 1.5, "accuracy", 0.9, 0.01)

    monkeypatch.setattr(variants, "judged", of)
    words = ["vit-digits", "--try", "a=1", "--try", "seed=1", "--try", "seed=1"]
    assert main(words) == 1
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in rows[2:]] == ["as it is", "a=1", "seed=1", "seed=1"]
    assert rows[3].endswith("there is no setting 'a'") and rows[4].endswith("90.00% +- 1.00%")
    assert main([*words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one.get("reason") for one in found] == [None, "there is no setting 'a'", None, None]


def test_a_run_with_a_first_stage_is_not_measured_without_it():
    with pytest.raises(ClearheadError, match="t5-dates has a first stage: take a recipe without one, and model=FOLDER"):
        judged("t5-dates", [], "", None)
