"""One update opened: it is the loop's own, bit by bit, and leaves everything as it was. And runs side by side."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from clearhead.convert import open_weights
from clearhead.recipes.start import train
from clearhead.studio.runs import thinned
from clearhead.train.records import read_run
from tests.unit.studio.asking import problem
from tests.unit.studio.small_runs import small_runs

ALL = {"steps": 4, "save_every": 1, "validate_every": 4, "log_every": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two finished runs; of each the states behind steps 3 and 4 are there."""
    folder = tmp_path_factory.mktemp("studio") / "runs"
    train("gpt-letters", out=folder / "letters", warmup=2, model__dropout=0.1, **ALL)
    train("vit-digits", out=folder / "deeper" / "digits", warmup=1, **ALL)
    return folder


@pytest.fixture
def client(studio, root):
    return studio(root=root)


def opened(client, name, **wanted):
    answer = client.post(f"/api/runs/{name}/step", json=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


def weight(folder: Path, step: int, name: str):
    return open_weights(folder / "state" / f"{step:08d}" / "tensors.safetensors")[f"model/{name}"]


def files(folder: Path):
    return {place: place.read_bytes() for place in folder.rglob("*") if place.is_file()}


@pytest.mark.parametrize(("name", "below"), [("letters", "letters"), ("digits", "deeper/digits")])
def test_the_opened_update_is_the_one_that_the_run_made_and_nothing_is_written(client, root, name, below):
    before = files(root)
    told = opened(client, name)
    assert (told["at"], told["steps"], told["states"], told["own"]) == (3, 4, [0, 3, 4], True)
    shown = told["shown"]
    r0, r1, c0, c1 = shown["slice"]
    assert (r1 - r0, c1 - c0) == (min(64, shown["rows"]), min(64, shown["columns"]))
    for step, which in ((3, "before"), (4, "after")):
        values = weight(root / below, step, shown["name"])[r0:r1, c0:c1]
        assert torch.equal(torch.tensor(shown[which]), values)
    made = torch.tensor(shown["before"]) + torch.tensor(shown["update"])
    assert torch.allclose(made, torch.tensor(shown["after"]), atol=1e-7)
    line = json.loads((root / below / "metrics.jsonl").read_text().splitlines()[3])
    assert line["step"] == 4
    assert {key: told[key] for key in ("loss", "rate", "norm")} == {key: line[key] for key in ("loss", "rate", "norm")}
    assert told["loss_after"] != told["loss"]
    assert files(root) == before


def test_norms_of_weights_add_up_to_those_of_layers_and_of_all(client):
    told = opened(client, "letters")
    total = sum(one["gradient"] ** 2 for one in told["weights"]) ** 0.5
    assert total == pytest.approx(told["norm"], rel=1e-5)
    assert sum(one["gradient"] ** 2 for one in told["layers"]) ** 0.5 == pytest.approx(total)
    assert [one["layer"] for one in told["layers"]][:2] == ["input", "decoder.blocks.0"]
    assert told["clipped"] == pytest.approx(min(1.0, 1.0 / told["norm"]), rel=1e-4)
    assert {one["method"] for one in opened(client, "digits")["weights"]} == {"adamw", "muon"}


def test_a_gradient_is_how_fast_the_loss_moves_with_a_weight(client, root):
    """In float64, with the loss written here: one weight a little up and a little down."""
    told = opened(client, "digits", at=0, weight="output.weight")
    run = read_run(root / "deeper" / "digits")
    task = run.spec.open()
    pixels, targets = task.batch(0, run.settings.batching, 0, 1, torch.device("cpu"))
    model = task.model(run.settings.seed).double()

    def loss(change: float) -> float:
        with torch.no_grad():
            model.get_parameter("output.weight")[2, 3] += change
            return F.cross_entropy(model(pixels.double()), targets, label_smoothing=0.1).item()

    up, down = loss(1e-4), loss(-2e-4)
    assert told["shown"]["gradient"][2][3] == pytest.approx((up - down) / 2e-4, rel=1e-4)


def test_what_adamw_remembers_makes_the_update(client):
    """By the formula of Loshchilov and Hutter, in float64, from what is told alone."""
    name = "decoder.blocks.0.feed_forward.up.weight"
    told = opened(client, "letters", at=3, weight=name)
    shown, moved = told["shown"], next(one for one in told["weights"] if one["name"] == name)
    adam = shown["adam"]
    assert (adam["betas"], adam["eps"], adam["count"]) == ([0.9, 0.999], 1e-8, 4)
    before, first, second = (torch.tensor(one).double() for one in (shown["before"], adam["first"], adam["second"]))
    mean = first / (1 - adam["betas"][0] ** adam["count"])
    square = second / (1 - adam["betas"][1] ** adam["count"])
    step = -moved["rate"] * (mean / (square.sqrt() + adam["eps"]) + moved["decay"] * before)
    assert torch.allclose(step, torch.tensor(shown["update"]).double(), atol=2e-7)
    block = opened(client, "digits", at=0)["shown"]
    assert block["adam"] is None  # Muon moves it


def test_the_start_and_another_batch_can_be_opened_and_are_told_apart(client):
    start = opened(client, "letters", at=0)
    assert start["own"]
    assert start["rate"] == 0.0  # the warm-up begins at nothing: the weights stay
    assert start["shown"]["before"] == start["shown"]["after"]
    other = opened(client, "letters", batch=7)
    assert not other["own"]
    assert other["batch"]["number"] == 7
    assert other["batch"]["shown"] != opened(client, "letters")["batch"]["shown"]
    assert not opened(client, "letters", at=4)["own"]  # behind the last update


def test_letters_and_pictures_are_shown_as_they_were_learnt_from(client):
    row = opened(client, "letters")["batch"]["shown"][0]
    word, answer = "".join(row["tokens"])[:6], "".join(one["text"] for one in row["wanted"])
    assert answer == "".join(sorted(word))
    assert [one["place"] for one in row["wanted"]] == list(range(5, 11))
    batch = opened(client, "digits")["batch"]
    assert (batch["rows"], batch["count"], len(batch["shown"])) == (64, 64, 8)
    assert batch["shown"][0]["picture"].startswith("data:image/png;base64,")
    assert batch["shown"][0]["wanted"][0]["text"] in "0123456789"


def test_a_part_of_a_weight_is_told_and_too_much_refused(client):
    told = opened(client, "letters", weight="input.tokens.weight", rows="1:3", columns="4:6")["shown"]
    assert told["slice"] == [1, 3, 4, 6]
    assert [len(row) for row in told["after"]] == [2, 2]
    vector = opened(client, "letters", weight="decoder.blocks.0.feed_forward.up.bias")["shown"]
    assert vector["rows"] == 1

    def refused(**wanted):
        return problem(client.post("/api/runs/letters/step", json=wanted), 400)

    assert "at most 64" in refused(weight="decoder.blocks.0.feed_forward.up.weight", rows="0:65")
    assert "did you mean" in refused(weight="input.token.weight")
    assert "can be opened at 0, 3, 4" in refused(at=2)
    assert problem(client.post("/api/runs/none/step", json={}), 404)
    assert problem(client.post("/api/runs/letters/step", json={"batch": -1}), 422)


def test_texts_of_every_kind_are_shown_with_what_is_wanted_of_them(studio, tmp_path):
    for run in small_runs(tmp_path):
        train(run, out=tmp_path / "runs" / run.name)
    client = studio(root=tmp_path / "runs")
    row = opened(client, "labelled", at=0)["batch"]["shown"][0]
    assert row["tokens"][0] == "[CLS]"
    assert row["wanted"][0]["text"] in "xy"
    row = opened(client, "masked", at=0)["batch"]["shown"][0]
    assert row["wanted"][-1]["text"] in ("the second follows", "the second is from elsewhere")
    assert row["wanted"][0]["place"] < len(row["tokens"])
    row = opened(client, "questions", at=0)["batch"]["shown"][0]
    start, end = (one["place"] for one in row["wanted"])
    assert row["tokens"][start] == "cat"
    assert row["tokens"][end].removeprefix("##").isdigit()
    row = opened(client, "translation", at=0)["batch"]["shown"][0]
    assert row["tokens"][0] == "cat"
    assert row["wanted"][0]["text"] == "Katze"
    assert row["target"][1] == "Katze"  # behind the token that starts it
    assert len(row["wanted"]) == len(row["target"])


# ------------------------------------------------------------------------------------------------- runs


def test_runs_are_listed_with_what_they_are_and_gave(client, root):
    cards = {card["name"]: card for card in client.get("/api/runs").json()}
    assert cards.keys() == {"letters", "digits"}
    letters, result = cards["letters"], json.loads((root / "letters" / "result.json").read_text())
    assert (letters["run"], letters["family"], letters["task"], letters["data"]) == (
        "gpt-letters",
        "gpt",
        "language",
        "letters",
    )
    assert letters["finished"]
    assert letters["steps"] == 4
    assert letters["figures"]["test/accuracy"] == result["test"]["accuracy"]
    assert letters["model"] == "letters"
    assert {"loss", "valid/accuracy"} <= set(letters["curves"])


def test_a_run_that_has_just_begun_and_a_broken_one_are_listed_too(studio, tmp_path, root):
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "run.yaml").write_text((root / "letters" / "run.yaml").read_text())
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.yaml").write_text("[")
    (tmp_path / "link").symlink_to(root / "letters")
    client = studio(root=tmp_path)
    cards = {card["name"]: card for card in client.get("/api/runs").json()}
    assert cards.keys() == {"begun", "broken"}
    assert (cards["begun"]["finished"], cards["begun"]["model"], cards["begun"]["steps"]) == (False, None, None)
    assert "does not describe a run" in cards["broken"]["problem"]
    assert opened(client, "begun")["at"] == 0


def test_curves_are_told_by_name_and_long_ones_thinned_to_means(client, root):
    told = client.get("/api/runs/letters/metrics").json()
    lines = [json.loads(line) for line in (root / "letters" / "metrics.jsonl").read_text().splitlines()]
    assert told["curves"]["loss"]["points"] == [[line["step"], line["loss"]] for line in lines if "loss" in line]
    assert told["curves"]["loss"]["each"] == 1
    assert len(client.get("/api/runs/letters/metrics", params={"points": 2}).json()["curves"]["loss"]["points"]) == 2
    thin = thinned([(float(n), float(n)) for n in range(1001)], 500)
    assert thin.each == 3
    assert len(thin.points) == 334
    assert thin.points[0] == (1.0, 1.0)
    assert problem(client.get("/api/runs/..%2f/metrics"), 404)
