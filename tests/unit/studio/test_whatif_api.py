"""What if: the outcomes before and after are those of `analyse.compare`, and both passes can be looked at."""

import pytest
import torch

import clearhead
from clearhead.analyse import (
    attention_temperature,
    compare,
    edit_token,
    heads_off,
    no_positions,
    patch,
    residual_stream,
    together,
)
from clearhead.models import create
from clearhead.runs.labels import name_classes
from clearhead.tasks import record
from clearhead.tasks.record import prepared
from tests.unit.studio.asking import matrix, passed, problem

TEXT = "the cat [MASK] on the mat"
PAIR = ("the cat sees", "das Katze")
SOURCE, TARGET = PAIR


@pytest.fixture
def client(studio, bert_run, translator_run):
    return studio(bert_run, translator_run)


def loaded(run):
    return clearhead.load(run, device="cpu")


def asked(client, model: str, inputs: dict, *changes: dict, **more):
    wanted = {"model": model, "inputs": inputs, "changes": list(changes), **more}
    answer = client.post("/api/whatif", json=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, status: int, *changes: dict, model: str = "bert", **inputs: str) -> str:
    wanted = {"model": model, "inputs": inputs or {"text": TEXT}, "changes": list(changes)}
    return problem(client.post("/api/whatif", json=wanted), status)


def same(said: dict, expected) -> None:
    assert [one["id"] for one in said["outcomes"]] == [one.number for one in expected.outcomes]
    for one, other in zip(said["outcomes"], expected.outcomes, strict=True):
        assert one["before"] == pytest.approx(other.before, rel=1e-5)
        assert one["after"] == pytest.approx(other.after, rel=1e-5)
        assert one["difference"] == pytest.approx(other.difference, abs=1e-6)
    assert said["cosine"] == pytest.approx(expected.cosine, abs=1e-5)
    assert said["place"] == expected.place


CHANGES = {
    "a head off": ({"kind": "heads-off", "layer": 1, "heads": [0]}, lambda model: heads_off(model, [0], layer=1)),
    "all heads off": ({"kind": "heads-off"}, heads_off),
    "flatter": ({"kind": "temperature", "factor": 3.0, "layer": 0}, lambda m: attention_temperature(m, 3.0, layer=0)),
    "no positions": ({"kind": "no-positions"}, no_positions),
    "another token": ({"kind": "tokens", "place": 2, "token": 12}, lambda model: edit_token(model, 2, 12)),
}


@pytest.mark.parametrize("which", CHANGES)
def test_a_change_gives_the_outcomes_of_analyse(client, bert_run, which):
    change, intervention = CHANGES[which]
    model = loaded(bert_run)
    said = asked(client, "bert", {"text": TEXT}, change)
    expected = compare(model, TEXT, intervention(model))
    same(said, expected)
    assert [one["text"] for one in said["outcomes"]] == [one.name for one in expected.outcomes]
    assert any(abs(one["difference"]) > 1e-6 for one in said["outcomes"])


def test_an_activation_comes_from_another_input(client, bert_run):
    model, site = loaded(bert_run), "encoder.blocks.0.after_attention"
    other = "a dog sat on the mat"
    change = {"kind": "patch", "site": site, "other": {"text": other}, "place": 2}
    same(
        asked(client, "bert", {"text": TEXT}, change),
        compare(model, TEXT, patch(record(model, other), site, places=[2])),
    )


def test_several_changes_act_together_and_in_an_encoder_decoder_by_stack(client, translator_run):
    model = loaded(translator_run)
    changes = (
        {"kind": "heads-off", "stack": "cross", "layer": 0, "heads": [1]},
        {"kind": "temperature", "stack": "encoder", "factor": 0.5},
        {"kind": "no-positions"},
        {"kind": "tokens", "stack": "decoder", "place": 1, "token": 4},
    )
    expected = together(
        heads_off(model, [1], layer=0, kind="cross"),
        attention_temperature(model, 0.5, kind="encoder"),
        no_positions(model),
        edit_token(model, 1, 4, side="target"),
    )
    said = asked(client, "translator", {"source": SOURCE, "target": TARGET}, *changes, place=1)
    same(said, compare(model, PAIR, expected, place=1))
    assert len(said["told"]) == 4
    assert "head 2 off in cross, layer 1" in said["told"][0]


def test_positions_are_dropped_before_scores_are_divided_in_any_order(client):
    inputs = {"source": "how are you", "target": "I love it"}
    changes = ({"kind": "temperature", "stack": "encoder", "factor": 2.0}, {"kind": "no-positions"})
    one = asked(client, "random:t5-mini", inputs, *changes)
    other = asked(client, "random:t5-mini", inputs, *reversed(changes), changes[1])
    alone = asked(client, "random:t5-mini", inputs, changes[1])
    assert one["outcomes"] == other["outcomes"]
    assert one["outcomes"] != alone["outcomes"]


def test_the_stream_moves_from_the_changed_block_on(client, bert_run):
    model, change = loaded(bert_run), {"kind": "heads-off", "layer": 1}
    said = asked(client, "bert", {"text": TEXT}, change)
    before, after = (
        residual_stream(model, record(model, TEXT, replace=changes)) for changes in (None, heads_off(model, layer=1))
    )
    (moved,) = said["stream"]
    assert (moved["stack"], moved["points"]) == ("encoder", ["input", "block 1", "block 2"])
    assert moved["relative"][:2] == [0.0, 0.0]
    assert moved["cosine"][:2] == pytest.approx([1.0, 1.0])
    was, now = before[-1][0], after[-1][0]
    assert moved["relative"][2] == pytest.approx(((now - was).norm() / was.norm()).item(), rel=1e-5)
    assert moved["cosine"][2] == pytest.approx(torch.cosine_similarity(was, now).mean().item(), rel=1e-5)
    assert moved["at_cosine"][2] == pytest.approx(torch.cosine_similarity(was[3], now[3], dim=0).item(), rel=1e-5)
    assert moved["at_relative"][2] == pytest.approx(((now[3] - was[3]).norm() / was[3].norm()).item(), rel=1e-5)


def test_both_stacks_of_a_translator_move_and_the_place_is_the_decoders(client):
    said = asked(client, "translator", {"source": SOURCE, "target": TARGET}, {"kind": "no-positions"})
    encoder, decoder = said["stream"]
    assert (encoder["stack"], decoder["stack"]) == ("encoder", "decoder")
    assert encoder["at_cosine"] is None
    assert len(decoder["at_cosine"]) == 3


def test_both_passes_are_kept_and_the_changed_one_has_the_changed_numbers(client, bert_run):
    model, change = loaded(bert_run), {"kind": "heads-off", "layer": 0, "heads": [1]}
    said = asked(client, "bert", {"text": TEXT}, change)
    assert said["before"] == passed(client, "bert", text=TEXT)["id"]
    trace = record(model, TEXT, replace=heads_off(model, [1], layer=0))
    assert torch.equal(matrix(client, said["after"], "site:logits"), trace["logits"][0])
    assert not matrix(client, said["after"], "site:encoder.blocks.0.attention.output", head=1).any()
    pass_ = client.get(f"/api/passes/{said['after']}").json()
    assert pass_["changes"][0]["kind"] == "heads-off"
    assert "changed: head 2 off in layer 1" in pass_["notes"]
    assert pass_["equal_to_fused"] < 1e-5
    assert asked(client, "bert", {"text": TEXT}, change) == said
    assert "as it is" in problem(client.get(f"/api/passes/{said['after']}/gradient-rollout"), 400)


def test_an_exchanged_token_is_named_in_the_changed_pass(client, bert_run):
    said = asked(client, "bert", {"text": TEXT}, {"kind": "tokens", "place": 2, "token": 12})
    pass_ = client.get(f"/api/passes/{said['after']}").json()
    assert [token["text"] for token in pass_["tokens"]["tokens"]][1:4] == ["the", "dog", "[MASK]"]
    plain = passed(client, "bert", text=TEXT.replace("cat", "dog"))
    assert pass_["predictions"] == plain["predictions"]
    assert torch.equal(matrix(client, said["after"], "site:input.ids"), matrix(client, plain["id"], "site:input.ids"))
    assert client.get(f"/api/passes/{said['before']}").json()["tokens"]["tokens"][2]["text"] == "cat"


def test_a_pass_with_changes_can_be_asked_for_by_itself(client, bert_run):
    wanted = {"model": "bert", "inputs": {"text": TEXT}, "changes": [{"kind": "no-positions"}]}
    pass_ = client.post("/api/passes", json=wanted).json()
    model = loaded(bert_run)
    trace = record(model, TEXT, replace=no_positions(model))
    assert torch.equal(matrix(client, pass_["id"], "site:logits"), trace["logits"][0])
    assert pass_["id"] != passed(client, "bert", text=TEXT)["id"]


def test_a_pass_with_another_token_has_the_relevance_of_that_text(client):
    said = asked(client, "bert", {"text": TEXT}, {"kind": "tokens", "place": 2, "token": 12})
    plain = passed(client, "bert", text=TEXT.replace("cat", "dog"))
    one, other = (client.get(f"/api/passes/{id}/gradient-rollout").json() for id in (said["after"], plain["id"]))
    assert one == other


def test_what_was_dropped_for_the_two_passes_is_said(studio, bert_run):
    size = record(loaded(bert_run), TEXT).nbytes
    client = studio(bert_run, trace_bytes=int(1.5 * size))
    said = asked(client, "bert", {"text": TEXT}, {"kind": "no-positions"})
    assert said["dropped"] == [said["before"]]
    assert said["outcomes"]


def test_two_sentences_and_pictures_are_changed_too(studio, bert_run):
    client, model = studio(bert_run), loaded(bert_run)
    said = asked(client, "bert", {"text": "the [MASK] sat", "second": "a dog"}, {"kind": "no-positions"})
    same(said, compare(model, prepared(model, ("the [MASK] sat", "a dog")).tensors, no_positions(model)))
    said = asked(client, "random:vit-mini", {"picture": "digits/test/3"}, {"kind": "heads-off", "layer": 0})
    assert said["place"] is None
    assert {one["text"] for one in said["outcomes"]} == set("0123456789")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "heads-off", "heads": [2]}, "there is no head 2"),
        ({"kind": "heads-off", "layer": 9}, "there is no layer 9"),
        ({"kind": "heads-off", "stack": "cross"}, "say which attention is meant: encoder"),
        ({"kind": "heads-off", "factor": 2.0}, "takes no factor"),
        ({"kind": "temperature"}, "needs factor"),
        ({"kind": "temperature", "factor": 0.0}, "above 0"),
        ({"kind": "patch", "site": "logits"}, "needs other"),
        ({"kind": "patch", "site": "nowhere", "other": {"text": "a"}}, "no site matches 'nowhere'"),
        ({"kind": "patch", "site": "encoder.*.input", "other": {"text": "a"}}, "one site"),
        ({"kind": "patch", "site": "logits", "other": {"text": "a"}}, "another shape"),
        ({"kind": "patch", "site": "logits", "other": {"source": "a"}}, "not a source"),
        ({"kind": "tokens", "place": 99, "token": 1}, "there is no place 99"),
        ({"kind": "tokens", "place": 1, "token": 13}, "numbered 0 to 12"),
        ({"kind": "tokens", "place": 1}, "needs token"),
        ({"kind": "tokens", "place": 1, "token": 5, "stack": "cross"}, "not in cross-attention"),
    ],
)
def test_a_change_that_can_not_be_made_is_refused_in_one_line(client, change, said):
    assert said in refused(client, 400, change)


def test_no_changes_too_many_and_unknown_ones_are_refused(client):
    assert "changes" in refused(client, 422)
    assert "64" in refused(client, 400, *[{"kind": "no-positions"}] * 65)
    assert "kind" in refused(client, 422, {"kind": "magic"})


def test_a_blank_that_is_not_there_and_a_place_that_is_not_there_are_refused(client):
    assert "no blank" in refused(client, 400, {"kind": "no-positions"}, text="the cat")
    wanted = {"model": "bert", "inputs": {"text": TEXT}, "changes": [{"kind": "no-positions"}]}
    assert "no place 99" in problem(client.post("/api/whatif", json=wanted | {"place": 99}), 400)
    assert "1 to 50" in problem(client.post("/api/whatif", json=wanted | {"count": 0}), 400)


# Two models ----------------------------------------------------------------------------------------------------------


def pictures_run(folder, seed: int, classes: tuple[str, ...]):
    sizes = {"width": 16, "layers": 1, "heads": 2, "patch": 4, "image": 8, "channels": 1}
    model = create("vit-ti16", seed=seed, device="cpu", num_classes=len(classes), **sizes)
    model.get_parameter("output.weight").data.normal_(generator=torch.Generator().manual_seed(seed))
    name_classes(model, classes)
    return clearhead.save(model, folder)


def two(client, left: dict, right: dict, **more):
    answer = client.post("/api/compare", json={"left": left, "right": right, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_two_models_are_compared_by_the_names_of_their_classes(studio, tmp_path):
    runs = [pictures_run(tmp_path / "a", 1, ("cat", "dog")), pictures_run(tmp_path / "b", 2, ("dog", "cow", "cat"))]
    client, inputs = studio(*runs), {"picture": "digits/test/3"}
    said = two(client, {"model": "a", "inputs": inputs}, {"model": "b", "inputs": inputs})
    chances = [
        {one["text"]: one["probability"] for one in passed(client, name, **inputs)["predictions"][0]["top"]}
        for name in ("a", "b")
    ]
    assert said["same_names"] is False
    assert {one["text"] for one in said["outcomes"]} == {"cat", "dog", "cow"}
    for one in said["outcomes"]:
        left, right = (side.get(one["text"]) for side in chances)
        assert (one["left"], one["right"]) == (left, right)
        assert one["difference"] == (None if left is None or right is None else pytest.approx(right - left))
    assert said["left"]["model"] == "a"
    likeliest = sorted(chances[0], key=lambda name: -chances[0][name])
    assert [one["text"] for one in said["left"]["prediction"]["top"]] == likeliest


def test_one_model_with_and_without_a_change_has_the_same_names(client, bert_run):
    plain = {"model": "bert", "inputs": {"text": TEXT}}
    said = two(client, plain, plain | {"changes": [{"kind": "no-positions"}]})
    model = loaded(bert_run)
    expected = {one.name: one for one in compare(model, TEXT, no_positions(model)).outcomes}
    assert said["same_names"] is True
    assert said["left"]["place"] == said["right"]["place"] == 3
    for one in said["outcomes"]:
        assert one["left"] == pytest.approx(expected[one["text"]].before, rel=1e-5)
        assert one["right"] == pytest.approx(expected[one["text"]].after, rel=1e-5)


def test_an_unknown_model_on_one_side_is_refused(client):
    wanted = {"left": {"model": "bert", "inputs": {"text": TEXT}}, "right": {"model": "no", "inputs": {"text": TEXT}}}
    assert "no model 'no'" in problem(client.post("/api/compare", json=wanted), 404)
