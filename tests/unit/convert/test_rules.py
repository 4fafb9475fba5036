"""Name maps: every rule reads what it writes, and a file that doesn't fit is refused before a byte of it is read."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from clearhead.convert.rules import (
    Dialect,
    each_layer,
    names_in,
    read_state,
    same,
    shaped,
    stacked,
    transposed,
    with_biases,
    write_state,
)
from clearhead.convert.tensors import Weights
from clearhead.errors import ClearheadError


@dataclass
class Stored:
    """A tensor of a file that counts how often it is read."""

    tensor: Tensor
    reads: list[str] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    def read(self) -> Tensor:
        self.reads.append("read")
        return self.tensor


def file_with(**tensors: Tensor) -> Weights:
    """Weights of a file; `__` in a name stands for a dot."""
    stored = {name.replace("__", "."): Stored(tensor) for name, tensor in tensors.items()}
    return Weights(Path("weights.safetensors"), stored, {}, [])


def was_read(weights: Weights) -> bool:
    return any(stored.reads for stored in weights.stored.values())  # pyright: ignore


class Pair(nn.Module):
    """Ours: a product of two inputs and three outputs, and a table that serves as the head too."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(2, 3)
        self.table = nn.Parameter(torch.empty(4, 2))


DIALECT = Dialect(
    [*with_biases(transposed, "up", "body.fc"), same("table", "body.wte")],
    prefixes=("body.",),
    renames=((r"gamma$", "weight"),),
    leftovers=(r"(^|\.)mask$",),
    copies={"head": "body.wte"},
)
GOOD = {"body__fc__weight": torch.randn(2, 3), "body__fc__bias": torch.randn(3), "body__wte": torch.randn(4, 2)}


def refused(weights: Weights, dialect: Dialect = DIALECT) -> str:
    with torch.device("meta"):
        model = Pair()
    with pytest.raises(ClearheadError) as caught:
        read_state(weights, dialect, model)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("rule", "ours", "theirs"),
    [
        (same("a", "b"), [0, 1, 2], [[0, 1, 2]]),
        (transposed("a", "b"), [[1, 2], [3, 4], [5, 6]], [[[1, 3, 5], [2, 4, 6]]]),
        (stacked("a", "q", "k", "v"), [[0, 1], [2, 3], [4, 5]], [[[0, 1]], [[2, 3]], [[4, 5]]]),
        (shaped("a", "b", (2, 3), (1, 3, 2)), [[0, 1, 2], [3, 4, 5]], [[[[0, 1], [2, 3], [4, 5]]]]),
    ],
    ids=["same", "transposed", "stacked", "shaped"],
)
def test_a_rule_writes_their_tensors_and_reads_ours_back(rule, ours, theirs):
    assert [part.tolist() for part in rule.write(torch.tensor(ours))] == theirs
    read = rule.read([torch.tensor(part) for part in theirs])
    assert read.tolist() == ours
    assert read.is_contiguous()


def test_the_bias_of_a_transposed_product_is_not_transposed_and_may_be_absent():
    weight, bias = with_biases(transposed, "up", "fc")
    assert (weight.ours, weight.theirs, bias.ours, bias.theirs) == (
        "up.weight",
        ("fc.weight",),
        "up.bias",
        ("fc.bias",),
    )
    assert torch.equal(bias.read([torch.arange(3.0)]), torch.arange(3.0))
    assert [rule.ours for rule in with_biases(same, "up", "fc", bias=False)] == ["up.weight"]


def test_a_layers_number_is_put_into_every_name():
    rules = each_layer([stacked("blocks.{}.qkv", "h.{}.q", "h.{}.k")], 2)
    assert [(rule.ours, rule.theirs) for rule in rules] == [
        ("blocks.0.qkv", ("h.0.q", "h.0.k")),
        ("blocks.1.qkv", ("h.1.q", "h.1.k")),
    ]


def test_what_is_written_reads_back_bit_for_bit():
    model = Pair()
    nn.init.normal_(model.table)
    written = write_state(model, DIALECT)
    assert set(written) == {"body.fc.weight", "body.fc.bias", "body.wte"}
    state, notes = read_state(file_with(**{name.replace(".", "__"): t for name, t in written.items()}), DIALECT, model)
    assert notes == []
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


def test_names_without_their_prefix_and_in_old_spelling_are_found():
    weights = file_with(fc__gamma=GOOD["body__fc__weight"], fc__bias=GOOD["body__fc__bias"], wte=GOOD["body__wte"])
    state, _ = read_state(weights, DIALECT, Pair())
    assert torch.equal(state["up.weight"], GOOD["body__fc__weight"].T)
    found, dropped = names_in(weights, DIALECT)
    assert found == {"body.fc.weight": "fc.gamma", "body.fc.bias": "fc.bias", "body.wte": "wte"}
    assert dropped == []


@pytest.mark.parametrize(
    ("leftovers", "said"),
    [
        ({"mask": torch.ones(1)}, "dropped what this model has no use for: mask"),
        (
            {"h0__mask": torch.ones(1), "h1__mask": torch.ones(9, dtype=torch.uint8)},
            "dropped what this model has no use for: h0.mask and 1 more like it",
        ),
    ],
)
def test_left_overs_are_dropped_unread_and_said(leftovers, said):
    weights = file_with(**leftovers, **GOOD)
    _, notes = read_state(weights, DIALECT, Pair())
    assert notes == [said]
    assert not any(weights.stored[name.replace("__", ".")].reads for name in leftovers)  # pyright: ignore


def test_a_copy_of_tied_weights_may_be_there_if_it_is_equal():
    state, notes = read_state(file_with(head=GOOD["body__wte"].clone(), **GOOD), DIALECT, Pair())
    assert (set(state), notes) == ({"up.weight", "up.bias", "table"}, [])
    message = refused(file_with(head=GOOD["body__wte"] + 1, **GOOD))
    assert message == "'head' should repeat 'body.wte' (the config ties them) but differs: untie them in the config"
    assert "differs" in refused(file_with(head=torch.ones(5, 2), **GOOD))


def test_a_copy_stands_in_for_the_original_that_a_file_leaves_out():
    parts = {name: tensor for name, tensor in GOOD.items() if name != "body__wte"}
    state, _ = read_state(file_with(head=GOOD["body__wte"], **parts), DIALECT, Pair())
    assert torch.equal(state["table"], GOOD["body__wte"])


def test_a_spare_head_is_read_where_a_file_has_one_and_never_written():
    dialect = Dialect(DIALECT.rules, spare=[same("extra", "extra")])
    assert set(read_state(file_with(**GOOD), dialect, Pair())[0]) == {"up.weight", "up.bias", "table"}
    state, _ = read_state(file_with(extra=torch.ones(2), **GOOD), dialect, Pair())
    assert torch.equal(state["extra"], torch.ones(2))
    assert "extra" not in write_state(Pair(), dialect)


def test_a_part_that_may_be_absent_is_left_to_the_caller_but_never_half_of_it():
    dialect = Dialect(DIALECT.rules, optional=("up.",))
    state, _ = read_state(file_with(body__wte=GOOD["body__wte"]), dialect, Pair())
    assert set(state) == {"table"}
    halves = Dialect([stacked("up.weight", "q", "k"), same("table", "body.wte")], optional=("up.",))
    assert "lacks k" in refused(file_with(q=torch.ones(1, 2), body__wte=GOOD["body__wte"]), halves)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"body__fc__bias": None}, "weights.safetensors lacks body.fc.bias"),
        (dict.fromkeys(GOOD), "weights.safetensors lacks body.fc.bias, body.fc.weight, body.wte"),
        ({"body__fc__scale": torch.ones(3)}, "weights.safetensors has unknown body.fc.scale"),
        ({f"x{n}": torch.ones(1) for n in range(5)}, "weights.safetensors has unknown x0, x1, x2 and 2 more"),
        (
            {"body__fc__weight": torch.ones(3, 2)},
            "weights.safetensors: body.fc.weight has shape (3, 2), the config asks for (2, 3)",
        ),
        (
            {"body__wte": torch.ones(4, 2, dtype=torch.int64)},
            "weights.safetensors: body.wte holds torch.int64, which is not a type of weights",
        ),
        ({"wte": torch.ones(4, 2)}, "'wte' and 'body.wte' are the same tensor under two names"),
    ],
    ids=["missing", "all missing", "extra", "many extra", "misshapen", "integers", "twice"],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line_before_anything_is_read(tensors, message):
    weights = file_with(**{name: tensor for name, tensor in (GOOD | tensors).items() if tensor is not None})
    assert refused(weights) == message
    assert not was_read(weights)


def test_what_the_reader_of_the_file_had_to_say_is_passed_on():
    weights = file_with(**GOOD)
    weights.notes.append("read a, not b beside it")
    assert read_state(weights, DIALECT, Pair())[1] == ["read a, not b beside it"]
