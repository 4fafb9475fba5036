"""A trace saved and loaded is the same, bit for bit; what is not a trace is refused in one line."""

import json

import pytest
import torch
from safetensors.torch import save_file

from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.trace import Recorder, Trace


@pytest.fixture
def trace() -> Trace:
    model = create("deck", seed=0)
    with Recorder(model, max_bytes=1500, grads=True) as recorded:
        model(torch.arange(5)[None]).square().sum().backward()
    recorded.about.update(model="deck", seed=0, words=["This", "is", "Computer", "Vision", "Class"])
    return recorded


def test_a_round_trip_keeps_every_bit_the_order_the_gradients_and_the_rest(trace, tmp_path):
    loaded = Trace.load(trace.save(tmp_path / "deck.safetensors"))
    assert list(loaded) == list(trace)
    assert set(loaded.grads) == set(trace.grads)
    for site in trace:
        assert loaded[site].dtype == trace[site].dtype
        assert torch.equal(loaded[site], trace[site])
    assert len(trace.grads) > 10
    assert all(torch.equal(loaded.grads[site], trace.grads[site]) for site in trace.grads)
    assert len(trace.left_out) > 0
    assert loaded.left_out == trace.left_out
    assert loaded.about == trace.about


def test_views_infinities_and_small_types_survive(tmp_path):
    values = {
        "turned": torch.randn(3, 4).T,
        "masked": torch.tensor([0.0, float("-inf")]),
        "half": torch.randn(3).bfloat16(),
        "ids": torch.arange(3),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 4),
    }
    loaded = Trace.load(Trace(values).save(tmp_path / "odd.safetensors"))
    assert list(loaded) == list(values)
    assert all(torch.equal(loaded[site], values[site]) and loaded[site].dtype == values[site].dtype for site in values)


def one_line_error(path) -> str:
    with pytest.raises(ClearheadError) as caught:
        Trace.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_missing_file_is_refused_in_one_line(tmp_path):
    assert "there is no trace" in one_line_error(tmp_path / "nothing.safetensors")


def test_a_folder_is_refused_in_one_line(tmp_path):
    one_line_error(tmp_path)


@pytest.mark.parametrize("cut", [0, 4, 200, -1])
def test_a_truncated_file_is_refused_in_one_line(trace, tmp_path, cut):
    path = trace.save(tmp_path / "cut.safetensors")
    path.write_bytes(path.read_bytes()[:cut])
    assert "is not a trace" in one_line_error(path)


def test_a_safetensors_file_of_somebody_else_is_refused_in_one_line(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file({"a": torch.ones(2)}, path)
    assert "is not a trace" in one_line_error(path)


GOOD = {"order": ["a"], "left_out": {}, "about": {}}
BROKEN = {
    "not json": "{",
    "a list": "[]",
    "nothing": "null",
    "nested too deep": "[" * 100_000,
    "no left_out": json.dumps({"order": ["a"], "about": {}}),
    "no about": json.dumps({"order": ["a"], "left_out": {}}),
    "a site that isn't there": json.dumps(GOOD | {"order": ["b"]}),
    "left_out is a list": json.dumps(GOOD | {"left_out": ["a"]}),
    "a shape is a number": json.dumps(GOOD | {"left_out": {"b": 3}}),
    "order is a number": json.dumps(GOOD | {"order": 3}),
}


@pytest.mark.parametrize("header", BROKEN.values(), ids=BROKEN)
def test_a_broken_description_is_refused_in_one_line(header, tmp_path):
    path = tmp_path / "broken.safetensors"
    save_file({"a": torch.ones(2)}, path, metadata={"clearhead_trace": header})
    assert "is not a trace" in one_line_error(path)


def test_a_trace_is_a_mapping_that_names_near_sites_when_asked_for_one_it_has_not(trace):
    assert "input.summed" in trace
    assert "input.sum" not in trace
    assert len(trace) == len(list(trace)) == len(dict(trace))
    with pytest.raises(KeyError, match="'input.sum' was not recorded; did you mean 'input.summed'"):
        trace["input.sum"]
    with pytest.raises(KeyError, match=r"'logits' was left out \(max_bytes\), shape \(1, 5, 30\)"):
        trace["logits"]


def test_matching_gives_the_sites_of_a_glob_and_none_is_an_error(trace):
    found = trace.matching("decoder.blocks.0.attention.*s")
    assert list(found) == ["decoder.blocks.0.attention.scores", "decoder.blocks.0.attention.weights"]
    with pytest.raises(ClearheadError, match="no recorded site matches"):
        trace.matching("encoder.*")


def test_a_trace_describes_itself_and_escapes_what_it_shows():
    trace = Trace({"<site>": torch.tensor([1.0, 2.0, float("-inf")])}, about={"model": "deck"})
    assert repr(trace) == "Trace of deck: 1 sites, 0.0 MB"
    assert "<code>&lt;site&gt;</code></td><td>3</td><td>1, 1.5, 2</td>" in trace._repr_html_()
