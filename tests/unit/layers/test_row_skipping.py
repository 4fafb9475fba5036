"""Stochastic depth that skips rows: against every row computed alone, in its order, and nothing in evaluation."""

import pytest
import torch
import torch._dynamo.utils

from clearhead.errors import ClearheadError
from clearhead.layers import Pass
from clearhead.layers.row_skipping import reordered, working_rows
from clearhead.layers.stack import set_checkpointing, set_row_skipping
from clearhead.models import FAMILIES, create
from tests.support import equal

LAYERS = 6


def small(**changes):
    sizes = {"image": 8, "patch": 4, "width": 16, "heads": 2, "layers": LAYERS, "num_classes": 5, "pooling": "mean"}
    made = create("vit-c10", device="cpu", seed=0, **sizes | changes).train()
    torch.nn.init.normal_(made.output.weight)
    return made


def one_by_one(model, x, rate, places=None):
    """The same, one row at a time: who is where is kept in a list of row numbers."""
    batch = len(x)
    working = working_rows(batch, rate)
    order, rows = list(range(batch)), list(x[:, None].unbind(0))
    for layer, block in enumerate(model.encoder.blocks):
        if layer in (2, 4):
            drawn = torch.rand(batch).argsort().tolist()
            order = [order[place] for place in drawn]
        for row in order[:working]:
            at = None if places is None else places[row][None]
            y, scale = rows[row], batch / working
            y = y + scale * block.attention(block.attention_norm(y), positions=at)
            rows[row] = y + scale * block.feed_forward(block.feed_forward_norm(y))
        order = order[working:] + order[:working]
    return model.encoder.norm(torch.cat(rows))


@pytest.mark.parametrize("changes", [{}, {"rotary_base": 100.0}], ids=str)
def test_it_is_what_each_row_gives_alone_when_some_go_around_a_block(changes):
    model, rate = small(**changes), 0.3
    x, places = torch.randn(10, 4, 16), torch.rand(10, 4).argsort(1)
    shared = Pass(positions=places) if changes else Pass()
    set_row_skipping(model, rate)
    torch.manual_seed(5)
    ours = model.encoder(x, shared)
    torch.manual_seed(5)
    assert equal(ours, one_by_one(model, x, rate, places if changes else None))
    set_row_skipping(model, 0.0)
    assert not equal(ours, model.encoder(x, shared), tolerance=1e-3)


def test_every_block_is_computed_for_a_fixed_number_of_rows():
    model, seen = small(), []
    for block in model.encoder.blocks:
        block.attention.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    set_row_skipping(model, 0.25)
    model(*model.example(8))
    assert seen == [6] * LAYERS
    seen.clear()
    model.eval()(*model.example(8))
    assert seen == [8] * LAYERS


def test_evaluation_does_not_notice_it():
    model = small().eval()
    inputs = model.example(4)
    still = model(*inputs)
    set_row_skipping(model, 0.5)
    assert torch.equal(model(*inputs), still)


def test_the_mean_over_many_passes_is_near_the_pass_without():
    """For one block, where no later one bends what the earlier adds; its feed-forward layer is silenced for that."""
    model = small(layers=1)
    torch.nn.init.zeros_(model.encoder.blocks[0].feed_forward.down.weight)
    model.encoder.norm = None
    x = torch.randn(4, 4, 16)
    whole = model.encoder(x, Pass())
    set_row_skipping(model, 0.5)
    passes = [torch.stack([model.encoder(x.roll(n, 0), Pass()).roll(-n, 0) for n in range(4)]).mean(0)]
    assert equal(passes[0], whole)


def test_a_class_tokens_row_alone_gives_the_same():
    model = small(pooling="cls")
    set_row_skipping(model, 0.4)
    images = model.example(5)
    torch.manual_seed(1)
    short = model.hidden(*images)
    model.path = "reference"
    torch.manual_seed(1)
    assert equal(short, model.hidden(*images))


def test_gradients_are_those_of_computing_every_row_alone():
    model, x = small(), torch.randn(7, 4, 16)
    set_row_skipping(model, 0.3)

    def gradients(run):
        model.zero_grad()
        torch.manual_seed(3)
        run().square().sum().backward()
        return [weight.grad.clone() for weight in model.encoder.parameters()]

    ours, theirs = gradients(lambda: model.encoder(x, Pass())), gradients(lambda: one_by_one(model, x, 0.3))
    assert all(equal(a, b, tolerance=1e-4) for a, b in zip(ours, theirs, strict=True))
    set_checkpointing(model, True)
    assert all(torch.equal(a, b) for a, b in zip(ours, gradients(lambda: model.encoder(x, Pass())), strict=True))


def test_a_reordering_and_its_way_back_are_an_indexs():
    x, order = torch.randn(6, 2, requires_grad=True), torch.tensor([4, 1, 5, 0, 3, 2])
    weight = torch.randn(6, 2)
    (reordered(x, order) * weight).sum().backward()
    ours, x.grad = x.grad, None
    (x[order] * weight).sum().backward()
    assert torch.equal(ours, x.grad)


def test_it_compiles_without_a_break_and_again_for_another_rate():
    model = small()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=False)
    for rate in (0.3, 0.1):
        set_row_skipping(model, rate)
        inputs = model.example(10)
        torch.manual_seed(2)
        ours = compiled(*inputs)
        ours.sum().backward()
        torch.manual_seed(2)
        assert equal(ours, model(*inputs))


def test_blocks_compiled_by_themselves_share_one_graph_for_each_shape():
    model, counters = small(rotary_base=100.0), torch._dynamo.utils.counters
    counters.clear()
    for block in model.encoder.blocks:
        block.compile(dynamic=False, backend="aot_eager", fullgraph=True)
    for kept, rate, graphs in ((3, 0.3, 1), (4, 0.1, 2), (3, 0.3, 2)):
        model.keep_tokens(kept)
        set_row_skipping(model, rate)
        model(*model.example(10)).sum().backward()
        assert counters["stats"]["unique_graphs"] == graphs


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(ClearheadError, match="skip_rows must be at least 0 and below 1"):
        set_row_skipping(small(), rate)


def test_texts_with_padding_are_refused():
    family = FAMILIES["bert"]
    model = family.model(family.shrunken).train()
    model.initialise()
    set_row_skipping(model, 0.5)
    with pytest.raises(ClearheadError, match="skip_rows is for pictures"):
        model(*model.example(4))
