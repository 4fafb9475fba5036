"""A compiled model is recorded through the module underneath it."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.trace import Recorder, underneath

IDS = torch.arange(5)[None]


@pytest.fixture
def model():
    return create("deck", seed=0)


def compiled(model):
    return torch.compile(model, fullgraph=True, backend="eager")


def test_a_compiled_model_is_recorded_through_the_module_underneath(model):
    fast = compiled(model)
    expected = fast(IDS)
    recorder = Recorder(fast)
    with recorder as trace:
        output = recorder.model(IDS)
    assert recorder.model is underneath(fast) is model
    assert trace["decoder.blocks.0.attention.weights"].shape == (1, 1, 5, 5)
    assert torch.equal(trace["logits"], output)
    assert (output - expected).abs().max() <= 1e-5


def test_compiled_code_runs_on_undisturbed_after_and_while_its_module_is_recorded(model):
    fast = compiled(model)
    with Recorder(model, "logits"):
        expected = model(IDS)
        while_recording = fast(IDS)
    assert (while_recording - expected).abs().max() <= 1e-5
    assert torch.equal(fast(IDS), while_recording)


def test_calling_the_compiled_code_inside_a_recording_of_it_is_told_in_one_line(model):
    fast = compiled(model)
    fast(IDS)
    with pytest.raises(ClearheadError, match="no site"), Recorder(fast):
        fast(IDS)


def test_a_module_compiled_in_place_can_not_be_recorded_and_says_so(model):
    model.decoder.compile(backend="eager")
    with pytest.raises(ClearheadError, match="'decoder' was compiled in place.*record before compiling"):
        Recorder(model)
