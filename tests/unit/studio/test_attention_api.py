"""The attention views get the numbers of `analyse`: heads, rollout, relevance, over the picture, the lens."""

import io

import numpy as np
import pytest
import torch

import clearhead
from clearhead.analyse import (
    SCORES,
    attention_distances,
    attention_maps,
    best_head,
    filtered_picture,
    gradient_rollout,
    head_scores,
    logit_lens,
    over_pixels,
    patch_maps,
    patch_names,
    rollout,
)
from clearhead.runs import preprocessor
from clearhead.tasks import record
from tests.unit.studio.asking import numbers, passed, problem

REPEATS = "the cat sat on the mat the dog"
MASKED = "the cat [MASK] on the mat"
PAIR = {"source": "the cat sees", "target": "das Katze"}


@pytest.fixture
def picture(tmp_path):
    from PIL import Image

    pixels = torch.randint(256, (24, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    Image.fromarray(pixels.numpy()).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def loaded(run):
    return clearhead.load(run, device="cpu")


def asked(client, id: str, what: str, **options):
    answer = client.get(f"/api/passes/{id}/{what}", params=options)
    assert answer.status_code == 200, answer.text
    return answer


def tensor(client, id: str, what: str, **options):
    answer = asked(client, id, what, **options)
    ends = list(map(int, answer.headers["x-slice"].split(",")))
    return numbers(answer, [end - start for start, end in zip(ends[::2], ends[1::2], strict=True)])


def shown_to(client, picture) -> str:
    sent = client.post("/api/pictures", content=picture.read_bytes()).json()
    return passed(client, "vit", picture=sent["picture"])["id"]


def floats(values):
    return pytest.approx(values, rel=1e-6, abs=1e-9)


def test_every_head_has_the_scores_and_the_distance_of_analyse(studio, bert_run):
    client = studio(bert_run)
    said = asked(client, passed(client, "bert", text=REPEATS)["id"], "attention/encoder/summary").json()
    maps = attention_maps(record(loaded(bert_run), REPEATS), "encoder")
    assert (said["layers"], said["heads"], said["unit"], said["left_out"]) == (2, 2, "tokens", [])
    assert said["distance"] == [floats(row) for row in attention_distances(maps).tolist()]
    assert [one["name"] for one in said["measures"]] == list(SCORES)
    for one in said["measures"]:
        name = one["name"]
        assert (one["formula"], one["means"]) == (SCORES[name].formula, SCORES[name].means)
        assert one["values"] == [floats(head_scores(layer)[name].tolist()) for layer in maps]
        best = best_head(maps, name)
        assert one["best"] == {"layer": best.layer, "head": best.head, "score": floats(best.score), "site": best.site}


def test_a_picture_is_measured_in_pixels_and_has_no_word_twice(studio, vit_run, picture):
    client, model = studio(vit_run), loaded(vit_run)
    said = asked(client, shown_to(client, picture), "attention/encoder/summary").json()
    maps = attention_maps(record(model, picture), "encoder", rows=patch_names(model.config))
    assert said["unit"] == "pixels"
    assert said["distance"] == [floats(row) for row in attention_distances(maps, model.config).tolist()]
    assert {one["name"] for one in said["measures"] if one["values"] is None} == {"same", "induction"}


def test_cross_attention_has_no_distance_and_is_narrow_or_wide(studio, translator_run):
    client = studio(translator_run)
    said = asked(client, passed(client, "translator", **PAIR)["id"], "attention/cross/summary").json()
    maps = attention_maps(record(loaded(translator_run), (PAIR["source"], PAIR["target"])), "cross")
    assert (said["distance"], said["unit"]) == (None, None)
    (entropy,) = [one for one in said["measures"] if one["values"] is not None]
    expected = [torch.special.entr(one.weights).sum(-1).mean(-1) for one in maps]
    assert entropy["name"] == "entropy"
    assert entropy["values"] == [pytest.approx(row.tolist(), rel=1e-5) for row in expected]
    assert entropy["best"]["score"] == pytest.approx(torch.stack(expected).min().item(), rel=1e-5)


def test_layers_that_did_not_fit_are_named_and_have_no_numbers(studio):
    whole, text, left = studio(), "it was too tired", "decoder.blocks.1.attention.weights"
    trace = whole.app.state.studio.passes.get(passed(whole, "random:gpt-mini", text=text)["id"]).trace
    before = list(trace)[: list(trace).index(left)]
    client = studio(trace_bytes=sum(trace[site].nbytes for site in before))
    pass_ = passed(client, "random:gpt-mini", text=text)
    assert left in pass_["left_out"]
    said = asked(client, pass_["id"], "attention/decoder/summary").json()
    assert said["left_out"] == [1]
    assert said["distance"][1] is None
    assert len(said["distance"][0]) == 2
    assert all(one["values"][1] is None and one["best"]["layer"] == 0 for one in said["measures"] if one["values"])


def test_rollout_is_sent_by_layers(studio, bert_run):
    client = studio(bert_run)
    id, expected = passed(client, "bert", text=REPEATS)["id"], rollout(record(loaded(bert_run), REPEATS))
    assert torch.equal(tensor(client, id, "rollout"), expected)
    answer = asked(client, id, "rollout", kind="encoder", layers="1:2")
    assert answer.headers["x-shape"] == "2,10,10"
    assert answer.headers["x-slice"] == "1,2,0,10,0,10"
    assert torch.equal(numbers(answer, [1, 10, 10]), expected[1:])
    sharper = rollout(record(loaded(bert_run), REPEATS), heads="max", discard=0.5)
    assert torch.equal(tensor(client, id, "rollout", heads="max", discard=0.5), sharper)


def test_relevance_of_a_blank_is_that_of_analyse(studio, bert_run):
    client, model = studio(bert_run), loaded(bert_run)
    id = passed(client, "bert", text=MASKED)["id"]
    for target in (None, 7):
        said = asked(client, id, "gradient-rollout", **({} if target is None else {"target": target})).json()
        expected = gradient_rollout(model, MASKED, target)
        assert (said["id"], said["text"], said["place"]) == (expected.number, expected.name, 3)
        assert said["score"] == floats(expected.score)
        assert said["tokens"] == floats(expected.tokens.tolist())
        assert (said["of"], said["source"], said["layers"]) == ("tokens", None, 2)
    assert torch.equal(tensor(client, id, "gradient-rollout/layers"), gradient_rollout(model, MASKED).layers)


def test_relevance_of_a_translation_reaches_the_source(studio, translator_run):
    client = studio(translator_run)
    id = passed(client, "translator", **PAIR)["id"]
    said = asked(client, id, "gradient-rollout", place=1).json()
    expected = gradient_rollout(loaded(translator_run), (PAIR["source"], PAIR["target"]), place=1)
    assert said["of"] == "target"
    assert said["tokens"] == floats(expected.tokens.tolist())
    assert said["source"] == floats(expected.source.tolist())
    across = tensor(client, id, "gradient-rollout/layers", part="cross", layers="0:1", place=1)
    assert torch.equal(across, expected.cross[:1])


def test_relevance_of_two_sentences_knows_the_second(studio, bert_run):
    client = studio(bert_run)
    id = passed(client, "bert", text="the [MASK] sat", second="a dog")["id"]
    said = asked(client, id, "gradient-rollout").json()
    expected = gradient_rollout(loaded(bert_run), ("the [MASK] sat", "a dog"))
    assert said["tokens"] == floats(expected.tokens.tolist())


def test_any_row_of_a_head_lies_over_the_picture(studio, vit_run, picture):
    client, model = studio(vit_run), loaded(vit_run)
    id, trace = shown_to(client, picture), record(model, picture)
    weights = trace["encoder.blocks.0.attention.weights"][0]
    assert torch.equal(tensor(client, id, "patches", layer=0, head=1, row=2), weights[1, 2, 1:].reshape(3, 2))
    reads = patch_maps(weights.mean(0, keepdim=True), model.config)[0]
    assert torch.equal(tensor(client, id, "patches", layer=0), reads)
    assert torch.equal(tensor(client, id, "patches", layer=0, pixels=True), over_pixels(reads, model.config))
    rolled = rollout(trace)
    assert torch.equal(tensor(client, id, "patches", of="rollout"), rolled[-1, 0, 1:].reshape(3, 2))
    assert torch.equal(tensor(client, id, "patches", of="rollout", layer=0, row=3), rolled[0, 3, 1:].reshape(3, 2))
    relevant = gradient_rollout(model, picture, 2).tokens[1:].reshape(3, 2)
    assert torch.equal(tensor(client, id, "patches", of="relevance", target=2), relevant)


def test_the_picture_through_a_head_is_sent_as_a_picture(studio, vit_run, picture):
    from PIL import Image

    client, model = studio(vit_run), loaded(vit_run)
    id, trace = shown_to(client, picture), record(model, picture)
    answer = asked(client, id, "filtered", layer=0, head=1)
    assert answer.headers["content-type"] == "image/png"
    found = torch.from_numpy(np.array(Image.open(io.BytesIO(answer.content)))).permute(2, 0, 1)
    mixed = filtered_picture(trace["input.image"][0], trace["encoder.blocks.0.attention.weights"][0, 1], model.config)
    prepare = preprocessor(model)
    mean, std = (torch.tensor(values)[:, None, None] for values in (prepare.mean, prepare.std))
    expected = (mixed * std + mean) / prepare.scale
    assert found.shape == expected.shape and (found - expected).abs().max() <= 0.51
    assert "there is no head 9" in problem(client.get(f"/api/passes/{id}/filtered?head=9"), 400)


def test_a_text_can_not_be_filtered(studio, bert_run):
    client = studio(bert_run)
    id = passed(client, "bert", text=MASKED)["id"]
    assert "this pass has no picture" in problem(client.get(f"/api/passes/{id}/filtered"), 404)


def test_the_lens_says_what_each_block_would(studio, bert_run):
    client, model = studio(bert_run), loaded(bert_run)
    id, expected = passed(client, "bert", text=MASKED)["id"], logit_lens(model, record(model, MASKED), [3, -1], count=4)
    said = asked(client, id, "lens", places="3,-1", count=4).json()
    assert said["points"] == ["input", "block 1", "block 2"]
    assert said["places"] == [3, 7]
    told = [[[one["id"] for one in place] for place in point] for point in said["answers"]]
    assert told == expected.numbers.tolist()
    chances = [[[one["probability"] for one in place] for place in point] for point in said["answers"]]
    assert torch.allclose(torch.tensor(chances), expected.probabilities)
    assert torch.allclose(torch.tensor(said["rising"]), expected.final)
    assert [one["id"] for one in said["final"]] == expected.numbers[-1, :, 0].tolist()
    assert said["answers"][0][0][0]["text"] == expected.names[told[0][0][0]]


def test_the_lens_of_a_picture_has_no_places(studio, vit_run, picture):
    client, model = studio(vit_run), loaded(vit_run)
    said = asked(client, shown_to(client, picture), "lens").json()
    expected = logit_lens(model, record(model, picture))
    assert said["places"] == []
    assert {one["text"] for one in said["answers"][0][0]} == {"cat", "dog", "house"}
    assert torch.allclose(torch.tensor(said["rising"]), expected.final)


def test_random_weights_name_their_outcomes_by_the_words_of_the_input(studio):
    client = studio()
    id = passed(client, "random:bert-mini", text="This is Computer [MASK] Class")["id"]
    said = asked(client, id, "gradient-rollout").json()
    assert said["place"] == 4
    assert not said["text"].startswith("#") or said["id"] > 20
    assert len(asked(client, id, "lens").json()["places"]) == 7


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("attention/cross/summary", 404, "it has encoder"),
        ("attention/all/summary", 422, "kind"),
        ("rollout?kind=decoder", 404, "it has encoder"),
        ("rollout?kind=cross", 404, "it has encoder"),
        ("rollout?discard=1", 400, "below 1"),
        ("rollout?layers=0:3", 400, "within the 2"),
        ("gradient-rollout?target=99", 400, "there is no 99"),
        ("gradient-rollout?place=99", 400, "there is no place 99"),
        ("gradient-rollout/layers?part=cross", 400, "one text"),
        ("patches", 404, "no picture"),
        ("lens?places=a", 400, "whole numbers"),
        ("lens?places=99", 400, "there is no place 99"),
        ("lens?count=0", 400, "1 to 20"),
        ("lens?places=" + ",".join(["1"] * 65), 400, "64"),
    ],
)
def test_what_a_pass_does_not_have_is_refused_in_one_line(studio, bert_run, what, status, said):
    client = studio(bert_run)
    id = passed(client, "bert", text=MASKED)["id"]
    assert said in problem(client.get(f"/api/passes/{id}/{what}"), status)


@pytest.mark.parametrize(
    ("what", "said"),
    [("layer=2", "no layer 2"), ("head=2", "no head 2"), ("row=7", "no row 7"), ("of=rollout&layer=-1", "no layer -1")],
)
def test_a_row_that_a_picture_does_not_have_is_refused_in_one_line(studio, vit_run, picture, what, said):
    client = studio(vit_run)
    assert said in problem(client.get(f"/api/passes/{shown_to(client, picture)}/patches?{what}"), 400)


def test_a_text_without_a_blank_must_say_at_which_place(studio, bert_run):
    client = studio(bert_run)
    id = passed(client, "bert", text=REPEATS)["id"]
    assert "no blank" in problem(client.get(f"/api/passes/{id}/gradient-rollout"), 400)
    assert asked(client, id, "gradient-rollout", place=2).json()["place"] == 2


def test_relevance_through_too_many_weights_is_refused(studio, bert_run, monkeypatch):
    monkeypatch.setattr("clearhead.studio.attention_views.MOST_WEIGHTS", 100)
    client = studio(bert_run)
    id = passed(client, "bert", text=MASKED)["id"]
    assert "shorten the input" in problem(client.get(f"/api/passes/{id}/gradient-rollout"), 400)


def test_a_pass_that_never_was_is_not_found(studio):
    assert "no such pass" in problem(studio().get("/api/passes/0123/lens"), 404)
