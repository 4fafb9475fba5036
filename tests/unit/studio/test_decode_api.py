"""Decoding in the studio writes what `decode` and the tasks write, and tells what could have been written instead."""

import json
import math
import threading

import pytest
import torch

import clearhead
from clearhead.decode import Beams, Sampling, beam_search
from clearhead.tasks.generate import generate, teach
from clearhead.tasks.translate import aligned, translator
from clearhead.tasks.writer import writer
from tests.unit.studio.asking import problem
from tests.writers import translator as random_translator

SOURCE = "the cat sees"


@pytest.fixture(scope="module")
def unsure_run(tmp_path_factory):
    """An encoder-decoder with random weights, which holds many words likely."""
    return random_translator(tmp_path_factory.mktemp("runs") / "unsure")


@pytest.fixture
def client(studio, letters_run, translator_run, unsure_run):
    return studio(letters_run, translator_run, unsure_run)


def loaded(run):
    return clearhead.load(run, device="cpu")


def wanted(model: str, mode: str, inputs: dict, settings: dict | None = None, **more) -> dict:
    return {"model": model, "mode": mode, "inputs": inputs, "settings": settings or {}, **more}


def decoded(client, *args, **more) -> dict:
    answer = client.post("/api/decode", json=wanted(*args, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


def own_logits(model, source: list[int], shown: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([source]), torch.tensor([shown]))[0, -1]


def test_greedy_writes_what_the_task_writes(client, letters_run):
    said = decoded(client, "letters", "greedy", {"text": "abc"})
    expected = generate(loaded(letters_run), "abc", length=40)[0]
    assert (said["text"], said["reason"]) == (expected.text, expected.reason) == ("defgh", "end")
    assert [step["token"]["id"] for step in said["steps"]] == list(expected.tokens)
    assert [step["logprob"] for step in said["steps"]] == pytest.approx(expected.logprobs, abs=1e-5)
    assert "".join(step["new"] for step in said["steps"]) == expected.text
    assert [step["cached"] for step in said["steps"]] == [3, 4, 5, 6, 7, 8]
    assert [token["text"] for token in said["given"]] == ["a", "b", "c"]
    assert (said["begin"], said["cross"], said["tree"]) == ([], None, None)


def test_the_choices_of_a_step_are_the_models_own_and_greedy_takes_the_best(client, letters_run):
    step = decoded(client, "letters", "greedy", {"text": "abc"}, {"length": 1})["steps"][0]
    model = loaded(letters_run)
    with torch.no_grad():
        own = model(torch.tensor([writer(model).ids("abc")]))[0, -1].log_softmax(-1)
    assert [one["id"] for one in step["choices"]] == own.topk(min(20, len(own))).indices.tolist()
    for one in step["choices"]:
        assert one["logprob"] == pytest.approx(own[one["id"]].item(), abs=1e-5)
        assert one["probability"] == pytest.approx(math.exp(one["logprob"]), rel=1e-5)
        best = one["id"] == step["token"]["id"]
        assert (one["after"], one["cut_by"]) == ((1.0, None) if best else (0.0, "greedy"))
    assert step["reason"] == "length"


def test_a_draw_is_that_of_the_task_with_the_same_seed(client, unsure_run):
    settings = {"temperature": 1.5, "top_k": 12, "top_p": 0.9, "seed": 5, "length": 8}
    said = decoded(client, "unsure", "sample", {"source": SOURCE}, settings)
    expected = generate(loaded(unsure_run), SOURCE, **settings)[0]
    assert [step["token"]["id"] for step in said["steps"]] == list(expected.tokens)
    assert [step["logprob"] for step in said["steps"]] == pytest.approx(expected.logprobs, abs=1e-5)
    assert said["text"] == expected.text


def test_temperature_and_filters_are_told_token_by_token(client, unsure_run):
    settings = {"temperature": 2.0, "top_k": 10, "top_p": 0.7, "seed": 1, "length": 4}
    said = decoded(client, "unsure", "sample", {"source": SOURCE}, settings)
    model = loaded(unsure_run)
    writes, shown = writer(model), [model.start_token]
    for step in said["steps"]:
        logits = own_logits(model, writes.ids(SOURCE), shown)
        possible = logits.clone()
        possible[sorted(writes.never)] = -math.inf
        scores = Sampling(2.0, 10, 0.7).scores(possible[None], [shown])[0]
        after, first_ten = scores.softmax(-1), set(possible.topk(10).indices.tolist())
        assert len(step["choices"]) == min(20, len(logits))
        for one in step["choices"]:
            number = one["id"]
            assert one["after"] == pytest.approx(after[number].item(), abs=1e-5)
            gone = "never" if number in writes.never else None if number in first_ten else "top_k"
            gone = gone or (None if scores[number].isfinite() else "top_p")
            assert one["cut_by"] == gone
        shown.append(step["token"]["id"])
    cuts = {one["cut_by"] for step in said["steps"] for one in step["choices"]}
    assert cuts == {None, "never", "top_k", "top_p"}
    assert sum(one["after"] for one in said["steps"][0]["choices"]) == pytest.approx(1.0, abs=1e-5)


def test_beam_search_is_drawn_as_it_was_done(client, unsure_run):
    settings = {"beams": 3, "length_penalty": 0.6, "length": 7}
    said = decoded(client, "unsure", "beam", {"source": SOURCE}, settings)
    model = loaded(unsure_run)
    writes = writer(model)
    options = {"end": writes.end, "never": writes.never, "prefix": writes.prefix, "tree": True}
    search = beam_search(model, [writes.ids(SOURCE)], Beams(3, 0.6, length=7), **options)[0]
    tree = said["tree"]
    assert len(tree["nodes"]) == len(search.tree)
    for one, node in zip(tree["nodes"], search.tree, strict=True):
        assert (one["parent"], one["token"]["id"], one["step"], one["fate"]) == (
            node.parent,
            node.token,
            node.step,
            node.fate,
        )
        assert (one["logprob"], one["score"]) == (node.logprob, node.score)
        assert node.score == pytest.approx(node.logprob / node.step**0.6)
    answers = [(tuple(token["id"] for token in one["tokens"]), one["score"]) for one in tree["answers"]]
    assert answers == [(one.tokens, one.score) for one in search.finished]
    for one in tree["answers"]:
        assert [tree["nodes"][node]["token"] for node in one["path"]] == one["tokens"]
    assert (said["text"], said["steps"]) == (tree["answers"][0]["text"], [])


def test_what_could_come_behind_a_beam_is_what_the_model_says_there(client, unsure_run):
    said = decoded(client, "unsure", "beam", {"source": SOURCE}, {"beams": 3, "length": 6})
    model, nodes = loaded(unsure_run), said["tree"]["nodes"]
    source = writer(model).ids(SOURCE)
    first = own_logits(model, source, [model.start_token]).log_softmax(-1)
    assert said["tree"]["first"][0]["logprob"] == pytest.approx(first.max().item(), abs=1e-5)
    checked = 0
    for number, node in enumerate(nodes):
        assert (node["next"] is not None) == (node["fate"] == "followed")
        if node["next"] is None:
            continue
        path, at = [], number
        while at is not None:
            path.append(nodes[at]["token"]["id"])
            at = nodes[at]["parent"]
        own = own_logits(model, source, [model.start_token, *path[::-1]]).log_softmax(-1)
        assert [one["id"] for one in node["next"]] == own.topk(20).indices.tolist()
        assert [one["logprob"] for one in node["next"]] == pytest.approx(own.topk(20).values.tolist(), abs=1e-4)
        checked += 1
    assert checked > 6


@pytest.mark.parametrize(("mode", "settings"), [("greedy", {}), ("beam", {"beams": 2})])
def test_every_written_token_has_the_cross_attention_that_it_was_read_by(client, translator_run, mode, settings):
    said = decoded(client, "translator", mode, {"source": SOURCE}, settings, heads=True)
    writes, numbers = translator(loaded(translator_run)), [token["id"] for token in said["tokens"]]
    expected = aligned(writes, [writes.ids(SOURCE)], [numbers])[0]
    assert said["text"] == "das Katze sieht"
    cross = said["cross"]
    assert (cross["layer"], cross["layers"], cross["site"]) == (0, 2, "decoder.blocks.0.cross.weights")
    assert torch.allclose(torch.tensor(cross["rows"]), expected.weights, atol=1e-6)
    assert torch.allclose(torch.tensor(cross["heads"]).mean(0), expected.weights, atol=1e-6)
    asked = {"model": "translator", "inputs": {"source": SOURCE}, "tokens": numbers}
    again = client.post("/api/decode/cross", json=asked).json()
    assert again["rows"] == cross["rows"]
    assert again["heads"] is None
    last = client.post("/api/decode/cross", json=asked | {"layer": 1}).json()
    assert last["rows"] != cross["rows"]


def test_what_is_streamed_is_what_is_told_at_once(client):
    asked = wanted("unsure", "sample", {"source": SOURCE}, {"temperature": 1.2, "seed": 3, "length": 6})
    whole = client.post("/api/decode", json=asked).json()
    answer = client.post("/api/decode/stream", json=asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [part.split("\n") for part in answer.text.strip().split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    told = [json.loads(data.removeprefix("data: ")) for _, data in events]
    assert names == ["step"] * len(whole["steps"]) + ["end"]
    assert told[:-1] == whole["steps"]
    assert told[-1] == whole | {"steps": []}


def test_tabs_that_decode_at_once_do_not_mix(client):
    def asked(seed: int) -> dict:
        return wanted("unsure", "sample", {"source": SOURCE}, {"temperature": 1.5, "seed": seed, "length": 8})

    alone = [client.post("/api/decode", json=asked(seed)).json() for seed in range(6)]
    found: dict[int, dict] = {}
    together = threading.Barrier(6)

    def tab(seed: int) -> None:
        together.wait()
        found[seed] = client.post("/api/decode", json=asked(seed)).json()

    tabs = [threading.Thread(target=tab, args=(seed,)) for seed in range(6)]
    for one in tabs:
        one.start()
    for one in tabs:
        one.join()
    assert [found[seed] for seed in range(6)] == alone
    assert len({said["text"] for said in alone}) > 1


def test_what_can_not_be_streamed_is_refused_before_it_begins(client):
    answer = client.post("/api/decode/stream", json=wanted("letters", "greedy", {"text": "a" * 17}))
    assert "doesn't fit the context of 16" in problem(answer, 400)
    answer = client.post("/api/decode/stream", json=wanted("translator", "beam", {"source": SOURCE}))
    assert "all at once" in problem(answer, 400)


def test_taught_and_tested_are_those_of_the_task(client, unsure_run):
    target = "das Katze sieht ein Haus"
    asked = {"model": "unsure", "inputs": {"source": SOURCE}, "target": target}
    said = client.post("/api/decode/modes", json=asked).json()
    lesson = teach(loaded(unsure_run), SOURCE, target)
    modes = lesson.modes
    assert [one["true"]["id"] for one in said["places"]] == list(modes.target)
    assert [one["forced"]["token"]["id"] for one in said["places"]] == [guess.token for guess in modes.forced]
    chances = [one["forced"]["true_probability"] for one in said["places"]]
    assert chances == pytest.approx([guess.true_probability for guess in modes.forced], rel=1e-5)
    free = [one["free"] for one in said["places"] if one["free"] is not None]
    assert [one["token"]["id"] for one in free] == [guess.token for guess in modes.free]
    assert [one["cached"] for one in free] == list(range(1, len(free) + 1))
    assert (said["first_difference"], said["forced_passes"]) == (modes.first_difference, 1)
    assert said["free_steps"] == len(modes.free)
    assert [token["text"] for token in said["begin"]] == ["<start>"]


def test_a_model_that_goes_on_is_taught_and_tested_behind_its_prompt(client, letters_run):
    asked = {"model": "letters", "inputs": {"text": "ab"}, "target": "cdxf".replace("x", "h")}
    said = client.post("/api/decode/modes", json=asked).json()
    assert [one["forced"]["token"]["text"] for one in said["places"]] == ["c", "d", "e", "<end>"]
    assert [one["free"]["token"]["text"] for one in said["places"]] == ["c", "d", "e", "f"]
    assert [one["free"]["cached"] for one in said["places"]] == [2, 3, 4, 5]
    assert said["first_difference"] == 2


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        ("random:deck", {"text": "This is Computer"}),
        ("random:gpt-nano", {"text": "CBAB"}),
        ("random:gpt-mini", {"text": "The animal was"}),
        ("random:transformer-mini", {"source": "how are you"}),
        ("random:t5-mini", {"source": "how are you"}),
    ],
)
def test_random_weights_write_too_with_words_that_have_names(studio, model, inputs):
    client = studio()
    for mode in ("greedy", "sample", "beam"):
        said = decoded(client, model, mode, inputs, {"length": 3})
        assert 1 <= len(said["tokens"]) <= 3
        assert not any(token["text"].startswith("#") for token in said["tokens"])
        assert (said["cross"] is None) == ("text" in inputs)
    field = next(iter(inputs.values()))
    modes = {"model": model, "inputs": inputs, "target": field}
    assert client.post("/api/decode/modes", json=modes).status_code == 200


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (wanted("letters", "greedy", {"text": " "}), "empty"),
        (wanted("letters", "greedy", {"source": "a"}), "leave out the source"),
        (wanted("translator", "greedy", {"source": "a", "target": "b"}), "leave out the target"),
        (wanted("letters", "greedy", {"text": "a"}, {"temperature": 1.0}), "greedy decoding takes no temperature"),
        (wanted("letters", "sample", {"text": "a"}, {"beams": 2}), "sample decoding takes no beams"),
        (wanted("letters", "beam", {"text": "a"}, {"seed": 2}), "beam decoding takes no seed"),
        (wanted("letters", "sample", {"text": "a"}, {"temperature": 0.0}), "greedy"),
        (wanted("letters", "sample", {"text": "a"}, {"temperature": -1.0}), "at least 0"),
        (wanted("letters", "sample", {"text": "a"}, {"top_p": 2.0}), "top_p"),
        (wanted("letters", "sample", {"text": "a"}, {"top_k": 0}), "top_k"),
        (wanted("letters", "sample", {"text": "a"}, {"seed": -1}), "seed"),
        (wanted("letters", "greedy", {"text": "a"}, {"length": 0}), "1 to 256"),
        (wanted("letters", "greedy", {"text": "a"}, {"length": 257}), "1 to 256"),
        (wanted("letters", "beam", {"text": "a"}, {"length": 129}), "1 to 128"),
        (wanted("letters", "beam", {"text": "a"}, {"beams": 9}), "1 to 8"),
        (wanted("letters", "beam", {"text": "abc"}, {"length": 60}), "don't fit the context of 16"),
        (wanted("letters", "greedy", {"text": "a" * 17}), "doesn't fit the context of 16"),
        (wanted("letters", "greedy", {"text": "a"}, layer=0), "no cross-attention"),
        (wanted("translator", "greedy", {"source": "cat"}, layer=2), "there is no layer 2"),
        (wanted("random:bert-mini", "greedy", {"text": "a"}), "don't write text"),
        (wanted("random:vit-mini", "greedy", {"picture": "digits/test/0"}), "don't write text"),
        (wanted("random:t5-mini", "greedy", {"source": "how " * 1100}), "1,024 are read at most"),
    ],
)
def test_what_can_not_be_decoded_is_refused_in_one_line(client, asked, said):
    assert said in problem(client.post("/api/decode", json=asked), 400)


@pytest.mark.parametrize(
    ("route", "asked", "said"),
    [
        ("modes", {"model": "letters", "inputs": {"text": "a"}, "target": ""}, "target is empty"),
        ("modes", {"model": "letters", "inputs": {"text": "a"}, "target": "b" * 17}, "room for 16"),
        ("cross", {"model": "letters", "inputs": {"text": "a"}, "tokens": [1]}, "no cross-attention"),
        ("cross", {"model": "translator", "inputs": {"source": "cat"}, "tokens": [99]}, "there is no 99"),
        ("cross", {"model": "translator", "inputs": {"source": "cat"}, "tokens": [1] * 300}, "256"),
        ("cross", {"model": "translator", "inputs": {"source": "cat"}, "tokens": [5] * 30}, "context of 24"),
    ],
)
def test_modes_and_rows_that_there_are_not_are_refused_in_one_line(client, route, asked, said):
    assert said in problem(client.post(f"/api/decode/{route}", json=asked), 400)
