"""Runs as text: there and back, changed by key=value, and misspelt keys."""

import pytest

from clearhead import ClearheadError
from clearhead.train.average import Average
from clearhead.train.loop import Run
from clearhead.train.optimiser import Optimiser
from clearhead.train.records import parsed, read_run, spec_class, with_keys, write_run
from clearhead.train.settings import Settings


def run() -> Run:
    spec = spec_class("pictures")(model="vit-ti16", data="digits", fields={"layers": 2})  # pyright: ignore
    settings = Settings(epochs=3, optimiser=Optimiser(rate=2e-3), average=Average(decay=0.99), freeze=("input.*",))
    return Run("test", spec, settings)


def test_a_run_comes_back_from_its_folder_as_it_was(tmp_path):
    write_run(run(), tmp_path)
    again = read_run(tmp_path)
    assert again == run()
    assert again.fingerprint == run().fingerprint


def test_keys_change_what_they_name_wherever_it_stands():
    changed = with_keys(run(), ["rate=5e-4", "batch=32", "ema=0.5", "model.layers=4", "seed=7", "optimiser=muon"])
    assert changed.settings.optimiser.rate == 5e-4
    assert changed.settings.optimiser.name == "muon"
    assert changed.settings.batching.size == 32
    assert changed.settings.average == Average(decay=0.5)
    assert changed.spec.fields == {"layers": 4}
    assert run().settings.optimiser.rate == 2e-3


@pytest.mark.parametrize(
    ("pair", "freeze"),
    [("freeze=head.*", ("head.*",)), ("freeze=head.*,input.*", ("head.*", "input.*")), ("freeze=none", ())],
)
def test_a_list_of_one_name_is_that_name_not_its_letters(pair, freeze):
    assert with_keys(run(), [pair]).settings.freeze == freeze


def test_steps_take_the_place_of_epochs():
    changed = with_keys(run(), ["steps=10"])
    assert (changed.settings.steps, changed.settings.epochs) == (10, None)
    with pytest.raises(ClearheadError, match="steps or epochs, not both"):
        with_keys(run(), ["steps=10", "epochs=1"])


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("rat=1", "did you mean 'rate'"),
        ("optimiser.weigth_decay=1", "optimiser.weight_decay"),
        ("epochs", "not key=value"),
        ("=3", "not key=value"),
        ("rate=fast", "rate must be a number"),
        ("schedule=zigzag", "schedule must be one of"),
    ],
)
def test_a_wrong_key_or_value_is_told_in_one_line(pair, said):
    with pytest.raises(ClearheadError, match=said) as error:
        with_keys(run(), [pair])
    assert "\n" not in str(error.value)


def test_values_are_what_they_look_like():
    assert [parsed(text) for text in ("3", "0.1", "1e-3", "true", "none", "abc", "a,b", "1,2")] == [
        *(3, 0.1, 1e-3, True, None, "abc", ("a", "b"), (1, 2)),
    ]


@pytest.mark.parametrize("content", ["", "a: 1", "{", "- 1", "task: {kind: pictures}\nname: x\nsettings: {}"])
def test_a_broken_run_file_is_one_line(tmp_path, content):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(ClearheadError):
        read_run(tmp_path)


def test_a_folder_without_a_run_is_said(tmp_path):
    with pytest.raises(ClearheadError, match="no run.yaml"):
        read_run(tmp_path)
