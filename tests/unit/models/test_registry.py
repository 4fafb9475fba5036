"""Names in, models out: what is unknown or impossible is told in one line before anything is allocated."""

import inspect

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.models import FAMILIES, create, find, list_models, names, registry
from clearhead.ops import init


def refused(*args, **options) -> str:
    """The one line in which `create` refuses."""
    with pytest.raises(ClearheadError) as caught:
        create(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_list_has_every_name_once_with_its_family():
    entries = list_models()
    assert [entry.name for entry in entries] == names()
    assert len(set(names())) == len(names())
    assert {entry.family for entry in entries} == set(FAMILIES)
    assert clearhead.list_models is list_models


@pytest.mark.parametrize(("wrong", "nearest"), [("gpt-2", "gpt2"), ("vit-b-16", "vit-b16"), ("GPT2", "gpt2")])
def test_an_unknown_name_suggests_the_nearest(wrong, nearest):
    message = refused(wrong)
    assert message.startswith(f"there is no model '{wrong}'; did you mean ")
    assert f"'{nearest}'" in message


def test_a_name_like_nothing_says_how_to_list_them():
    assert refused("zzzz") == "there is no model 'zzzz' (`clearhead models` lists them)"
    with pytest.raises(ClearheadError, match="zzzz"):
        find("zzzz")


IMPOSSIBLE = {
    "an unknown field": ("gpt2", {"widht": 768}, "GPTConfig has no field 'widht'; did you mean 'width'"),
    "a field of another family": ("vit-b16", {"vocab": 10}, "ViTConfig has no field 'vocab'"),
    "heads that don't divide": ("gpt2", {"heads": 7}, "7 heads don't divide a width of 768"),
    "heads of a ViT": ("vit-b16", {"heads": 5}, "5 heads don't divide a width of 768"),
    "key/value heads": ("gpt2", {"kv_heads": 5}, "5 key/value heads don't divide 12 heads"),
    "negative depth": ("gpt2", {"layers": -1}, "layers must be a whole number from 1 to"),
    "no depth": ("vit-b16", {"layers": 0}, "layers must be a whole number from 1 to"),
    "half a layer": ("gpt2", {"layers": 1.5}, "layers must be a whole number"),
    "a truth for a number": ("gpt2", {"heads": True}, "heads must be a whole number"),
    "a text for a number": ("gpt2", {"width": "768"}, "width must be a whole number"),
    "no heads": ("gpt2", {"heads": 0}, "heads must be a whole number from 1"),
    "a monstrous width": (
        "gpt2",
        {"width": 10**9},
        "width must be a whole number from 1 to 16,777,216, not 1000000000",
    ),
    "a monstrous ViT": ("vit-b16", {"width": 10**9}, "width must be a whole number"),
    "a monstrous vocabulary": ("gpt2", {"vocab": 10**12}, "vocab must be a whole number"),
    "a monstrous depth": ("gpt2", {"layers": 10**6}, "layers must be"),
    "a patch that doesn't fit": ("vit-b16", {"image": 225}, "patches of 16 every 16 pixels don't fit 225 pixels"),
    "a patch larger than the image": ("vit-b16", {"image": 8}, "patches of 16 every 16 pixels don't fit 8 pixels"),
    "a stride that skips": ("vit-b16", {"stride": 26}, "a stride of 26 would skip pixels between patches of 16"),
    "three sides": ("vit-b16", {"image": (3, 224, 224)}, "image must be one size or (height, width)"),
    "no pixels": ("vit-b16", {"image": 0}, "image must be one size or (height, width)"),
    "an unknown activation": ("gpt2", {"activation": "gelu_new"}, "activation must be one of gelu, gelu-tanh"),
    "an activation in a list": ("gpt2", {"activation": ["gelu"]}, "activation must be one of"),
    "unknown positions": ("vit-b16", {"positions": "rotary"}, "positions must be one of learned"),
    "certain dropout": ("gpt2", {"dropout": 1.0}, "dropout must be at least 0 and below 1"),
    "an epsilon of nothing": ("gpt2", {"norm_eps": 0.0}, "norm_eps must be above 0"),
    "an epsilon in words": ("gpt2", {"norm_eps": "small"}, "norm_eps must be"),
    "a word for a truth": ("gpt2", {"tied": "no"}, "tied must be"),
    "2-D positions of an odd width": (
        "vit-b16",
        {"positions": "sinusoidal-2d", "width": 6, "heads": 3},
        "that 4 divides, not 6",
    ),
    "rotary halves": (
        "gpt2",
        {"positions": "rotary", "head_width": 3},
        "rotary positions need an even head_width, not 3",
    ),
}


@pytest.mark.parametrize(("name", "changes", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_override_is_refused_before_anything_is_built(name, changes, message, monkeypatch):
    monkeypatch.setattr(registry, "on_meta", lambda *_: pytest.fail("a model was built"))
    assert message in refused(name, **changes)


def test_an_unknown_type_or_device_is_refused_in_one_line():
    assert "there is no dtype 'float31'; did you mean 'float32'" in refused("deck", dtype="float31")
    assert "there is no device 'gpu': use auto, cpu" in refused("deck", device="gpu")


def test_a_model_larger_than_the_machine_is_refused_in_one_line_with_nothing_allocated(monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "to_empty", lambda *_, **__: pytest.fail("allocated"))
    assert refused("gpt3", device="cpu").startswith("gpt3 needs 698.4 GB for its weights and this machine has ")
    assert refused("gpt3", device="cpu", dtype="bfloat16").startswith("gpt3 needs 349.2 GB")


@pytest.mark.skipif(torch.cuda.is_available(), reason="tells what happens without a CUDA device, and there is one")
def test_a_device_that_this_machine_has_not_is_refused_in_one_line():
    assert "cuda" in refused("deck", device="cuda")


def test_a_seed_gives_the_same_weights_and_another_seed_others():
    one, again, other = (create("gpt-nano", device="cpu", seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["input.tokens.weight"], other["input.tokens.weight"])


def test_a_seed_does_not_depend_on_the_global_generator_nor_move_it():
    one = create("gpt-nano", device="cpu", seed=1).state_dict()
    torch.manual_seed(77)
    state = torch.get_rng_state()
    again = create("gpt-nano", device="cpu", seed=1).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], again[name]) for name in one)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_is_filled_exactly_once(family, monkeypatch):
    filled, inside = [], []

    def counted(rule):
        def fill(weight, *args, **options):
            assert not weight.is_meta
            if not inside:  # a rule may be made of another
                filled.append(weight.data_ptr())
            inside.append(rule)
            try:
                return rule(weight, *args, **options)
            finally:
                inside.pop()

        return fill

    for name, rule in inspect.getmembers(init, inspect.isfunction):
        monkeypatch.setattr(init, name, counted(rule))
    name, config = next(iter(FAMILIES[family].sizes.items()))
    small = {field: getattr(FAMILIES[family].shrunken, field) for field in config.to_dict()}
    model = create(name, device="cpu", **small)
    assert sorted(filled) == sorted(parameter.data_ptr() for parameter in model.parameters())
    assert all(torch.isfinite(tensor).all() for tensor in (*model.parameters(), *model.buffers()))


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-2d"])
def test_tables_that_are_never_saved_are_computed_all_the_same(positions):
    model = create("vit-c10", device="cpu", layers=1, positions=positions)
    table = model.input.positions.table
    assert not table.is_meta
    assert table.abs().max() == 1
    assert "input.positions.table" not in model.state_dict()


def test_the_meta_device_gives_shapes_without_memory():
    model = create("gpt3", device="meta")
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert create("deck", device=torch.device("meta")).device.type == "meta"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("float32", torch.float32),
        ("bfloat16", torch.bfloat16),
        ("float16", torch.float16),
        ("float64", torch.float64),
        (torch.bfloat16, torch.bfloat16),
    ],
)
def test_a_type_may_be_a_word_or_torchs_own(given, meant):
    model = create("deck", device="cpu", dtype=given)
    assert {tensor.dtype for tensor in (*model.parameters(), *model.buffers())} == {meant}


def test_a_created_model_is_in_eval_mode_and_says_where_its_weights_are_from():
    model = create("gpt-nano", device="cpu", seed=3, layers=1)
    assert not model.training
    assert model.config.layers == 1
    assert model.origin.random
    assert str(model.origin) == "gpt-nano (random weights, seed 3)"
    assert str(create("gpt-nano", device="cpu").origin) == "gpt-nano (random weights, no seed)"


def spreads(name: str, **changes) -> dict[str, float]:
    model = create(name, device="cpu", seed=0, **changes)
    return {weight: parameter.std().item() for weight, parameter in model.named_parameters() if parameter.dim() > 1}


def test_gpt2_starts_as_its_authors_code_does_with_narrower_products_into_the_residual_stream():
    found = spreads("gpt2", vocab=300, context=64, width=192, layers=8)
    narrow = ("out.weight", "down.weight")
    for weight, std in found.items():
        expected = 0.02 / 4 if weight.endswith(narrow) else 0.01 if "positions" in weight else 0.02
        assert std == pytest.approx(expected, rel=0.03), weight


def test_gpt1_starts_with_one_spread_throughout_as_its_paper_says():
    for weight, std in spreads("gpt1", vocab=300, context=64, width=192, layers=2).items():
        assert std == pytest.approx(0.02, rel=0.03), weight


def test_a_vit_starts_as_its_authors_code_does_with_a_head_of_zeros():
    found = spreads("vit-s16", layers=1)
    assert found["output.weight"] == 0
    assert found["input.positions.weight"] == pytest.approx(0.02, rel=0.03)
    assert found["input.project.weight"] == pytest.approx((1 / 768) ** 0.5, rel=0.03)
    assert found["encoder.blocks.0.attention.qkv.weight"] == pytest.approx((2 / 768) ** 0.5, rel=0.03)
    assert found["encoder.blocks.0.feed_forward.up.weight"] == pytest.approx((2 / 1920) ** 0.5, rel=0.03)
