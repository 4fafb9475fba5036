"""Activation checkpointing: the same loss and the same gradients, for less memory, where a way back comes."""

import pytest
import torch
from torch import Tensor

from clearhead.layers import Stack
from clearhead.layers.stack import set_checkpointing, set_drop_path
from clearhead.models import FAMILIES, Model
from clearhead.trace import Recorder
from tests.support import equal

DROPS = {
    "transformer": {"dropout": 0.2, "attention_dropout": 0.2, "activation_dropout": 0.2},
    "gpt": {"dropout": 0.2, "attention_dropout": 0.2, "embedding_dropout": 0.2},
    "bert": {"dropout": 0.2, "attention_dropout": 0.2},
    "t5": {"dropout": 0.2},
    "vit": {"dropout": 0.2, "attention_dropout": 0.2},
}


def small(family: str) -> Model:
    made = FAMILIES[family].model(FAMILIES[family].shrunken.with_changes(**DROPS.get(family, {})))
    made.initialise(torch.Generator().manual_seed(0))
    set_drop_path(made, 0.3)
    return made.train()


def passes(model: Model) -> list[int]:
    """How often each block starts, counted as it happens."""
    counts = [0] * sum(len(stack.blocks) for stack in model.modules() if isinstance(stack, Stack))
    blocks = [block for stack in model.modules() if isinstance(stack, Stack) for block in stack.blocks]

    def count(index: int):
        def hook(*_) -> None:
            counts[index] += 1

        return hook

    for index, block in enumerate(blocks):
        block.register_forward_pre_hook(count(index))
    return counts


def loss(model: Model) -> Tensor:
    torch.manual_seed(0)
    return model.hidden(*model.example(4, torch.Generator().manual_seed(1))).square().mean()


@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_gradients_are_bit_equal_with_dropout_and_drop_path_on(family):
    plain, again = small(family), small(family)
    set_checkpointing(again, True)
    counts = passes(again)
    for model in (plain, again):
        first = loss(model)
        first.backward()
        model.first = first.detach()
    assert torch.equal(plain.first, again.first)
    for (name, a), b in zip(plain.named_parameters(), again.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        assert a.grad is None or torch.equal(a.grad, b.grad), name
    assert set(counts) == {2}, "every block runs once more on the way back"


def test_random_numbers_after_a_pass_are_those_without_it():
    drawn = []
    for on in (False, True):
        model = small("gpt")
        set_checkpointing(model, on)
        loss(model).backward()
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)


def test_less_is_kept_for_the_way_back():
    kept = []
    for on in (False, True):
        model, sizes = small("gpt"), []
        set_checkpointing(model, on)
        with torch.autograd.graph.saved_tensors_hooks(lambda t, into=sizes: into.append(t.nbytes) or t, lambda t: t):
            loss(model)
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 2


def refused(*_, **__) -> None:
    raise AssertionError("a block is checkpointed here")


@pytest.mark.parametrize("how", ["eval", "no_grad", "recording", "off"])
def test_it_is_ignored_where_no_way_back_comes_or_somebody_looks(how, monkeypatch):
    model = small("vit")
    set_checkpointing(model, how != "off")
    monkeypatch.setattr("clearhead.layers.stack.checkpoint", refused)
    if how == "eval":
        model.eval()
    if how == "no_grad":
        with torch.no_grad():
            loss(model)
    elif how == "recording":
        with Recorder(model):
            loss(model).backward()
    else:
        loss(model).backward()


def test_it_is_ignored_with_a_cache(monkeypatch):
    model = small("gpt")
    set_checkpointing(model, True)
    monkeypatch.setattr("clearhead.layers.stack.checkpoint", refused)
    ids = model.example(2)[0]
    model.hidden(ids, cache=model.new_cache(2)).sum().backward()
    with pytest.raises(AssertionError, match="checkpointed here"):
        model.hidden(ids)


def test_a_compiled_model_without_a_break_gives_the_same_gradients():
    plain, again = small("vit"), small("vit")
    for model in (plain, again):
        set_drop_path(model, 0.0)
        for module in model.modules():
            if hasattr(module, "dropout"):
                module.dropout = 0.0
    set_checkpointing(again, True)
    inputs = plain.example(4)
    plain(*inputs).square().sum().backward()
    torch.compile(again, fullgraph=True, backend="aot_eager")(*inputs).square().sum().backward()
    for (name, a), b in zip(plain.named_parameters(), again.parameters(), strict=True):
        assert equal(a.grad, b.grad), name
