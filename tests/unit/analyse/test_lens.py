"""The logit lens: behind the last block it is the model's own answer; before, what norm and head make of the stream."""

import pytest
import torch

from clearhead.analyse import logit_lens, residual_stream, stream_sites
from clearhead.errors import ClearheadError
from clearhead.layers import Pass
from clearhead.models import FAMILIES, Model, create
from clearhead.tasks import record
from tests.support import equal
from tests.writers import chain

SMALL = {"device": "cpu", "seed": 0, "layers": 3, "width": 12, "heads": 2}
IDS = torch.tensor([[3, 1, 4, 1, 5]])


def models() -> dict[str, tuple[Model, object]]:
    pair = (IDS, torch.tensor([[2, 7, 1]]))
    picture = torch.rand(1, 1, 8, 8)
    small_picture = {"image": 8, "patch": 4, "channels": 1, "num_classes": 4}
    found = {
        "gpt": (create("gpt2", vocab=11, context=8, **SMALL), IDS),
        "gpt, post-norm": (create("gpt1", vocab=11, context=8, **SMALL), IDS),
        "bert fills": (create("bert-base", vocab=11, context=8, task="pretrain", **SMALL), IDS),
        "bert classifies": (create("bert-base", vocab=11, context=8, task="classify", num_classes=3, **SMALL), IDS),
        "transformer, post-norm": (create("transformer-tiny", vocab=11, **SMALL), pair),
        "t5": (create("t5-small", vocab=11, head_width=6, ff=16, **SMALL), pair),
        "vit": (create("vit-ti16", **small_picture, **SMALL), picture),
        "vit, weighed": (create("vit-ti16", pooling="sequence", **small_picture, **SMALL), picture),
        "vit, mean": (create("vit-ti16", pooling="mean", final_norm="pooled", **small_picture, **SMALL), picture),
    }
    assert {model.family for model, _ in found.values()} == FAMILIES.keys()
    for model, _ in found.values():
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(0.1, 0.4)
    return found


@pytest.mark.parametrize("name", models())
def test_behind_the_last_block_stands_the_models_own_answer(name):
    model, inputs = models()[name]
    trace = record(model, inputs, sites=[*stream_sites(model), "logits"])
    scores = trace["logits"].reshape(-1, trace["logits"].shape[-1]).softmax(-1)
    lens = logit_lens(model, trace, count=2)
    assert lens.numbers.shape == (4, len(scores), 2)
    best = scores.topk(2)
    assert torch.equal(lens.numbers[-1], best.indices)
    assert equal(lens.probabilities[-1], best.values)
    assert torch.equal(lens.final[-1], lens.probabilities[-1][:, 0])
    assert not torch.allclose(lens.probabilities[0], lens.probabilities[-1])
    assert all(number in lens.names for number in lens.numbers.flatten().tolist())


def test_before_the_first_block_it_is_norm_and_head_of_the_input():
    model, inputs = models()["gpt"]
    trace = record(model, inputs, sites="*")
    stream = trace["decoder.blocks.0.input"][0, -1]
    normed = (stream - stream.mean()) / (stream.var(correction=0) + 1e-5).sqrt()
    normed = normed * model.decoder.norm.weight + model.decoder.norm.bias
    expected = (model.input.tokens.weight @ normed).softmax(-1)
    lens = logit_lens(model, trace, [-1], count=11)
    assert lens.places == (4,)
    assert equal(lens.probabilities[0, 0], expected[lens.numbers[0, 0]])


def test_blocks_that_add_nothing_change_no_answer():
    """A chain whose blocks add nothing knows the follower from the start."""
    model = chain({0: 1, 1: 2, 2: 3}, 4)
    lens = logit_lens(model, record(model, torch.tensor([[0, 1, 2]])), count=1)
    assert lens.numbers[:, :, 0].tolist() == [[1, 2, 3], [1, 2, 3]]
    assert torch.allclose(lens.final[0], lens.final[1])


def test_the_stream_is_what_blocks_take_and_give():
    model, inputs = models()["bert fills"]
    trace = record(model, inputs)
    stream = residual_stream(model, trace)
    assert len(stream) == 4
    for layer, block in enumerate(model.encoder.blocks):
        with torch.no_grad():
            assert equal(block(stream[layer], Pass(), layer), stream[layer + 1])


def test_bad_requests_are_refused_in_one_line():
    model, inputs = models()["gpt"]
    trace = record(model, inputs, sites="*.input")
    whole = record(model, inputs)
    picture, pixels = models()["vit"]
    plain = create("bert-base", vocab=11, context=8, **SMALL)
    spans = create("bert-base", vocab=11, context=8, task="answer", **SMALL)
    cases = [
        (lambda: logit_lens(model, trace), "lacks 'decoder.blocks.2.after_feed_forward': record 'decoder.blocks"),
        (lambda: logit_lens(model, whole, [5]), "there is no place 5: the input has 5 tokens"),
        (lambda: logit_lens(model, whole, []), "no places were given"),
        (lambda: logit_lens(model, whole, count=0), "at least one answer"),
        (lambda: logit_lens(model, whole, item=1), "there is no number 1"),
        (lambda: logit_lens(picture, record(picture, pixels), [0]), "no places can be chosen"),
        (lambda: logit_lens(plain, record(plain, IDS)), "this BERT has no task"),
        (lambda: logit_lens(spans, record(spans, IDS)), "nothing to choose from"),
        (lambda: stream_sites(model, "encoder"), "a gpt model has no encoder: it has decoder"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
