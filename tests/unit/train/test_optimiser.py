"""Groups by rule, AdamW against torch's, clipping against torch's, and a state that goes on bit for bit."""

import copy
import json

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from clearhead.errors import ClearheadError
from clearhead.models import FAMILIES, Model
from clearhead.train.optimiser import Optimiser, build, clip_gradients, distances, parameter_groups
from tests.support import peer


def small(family: str) -> Model:
    made = FAMILIES[family].model(FAMILIES[family].shrunken)
    made.initialise(torch.Generator().manual_seed(0))
    return made.train()


def gradients(model: nn.Module, seed: int, size: float = 1.0) -> None:
    random = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = size * torch.randn(weight.shape, generator=random) if weight.requires_grad else None


def trained(model: nn.Module, settings: Optimiser, steps: int = 3) -> nn.Module:
    updater = build(model, settings)
    for step in range(steps):
        gradients(model, step)
        updater.step()
    return model


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_adamw_moves_weights_bit_for_bit_as_torchs_does_on_two_groups(family):
    ours, theirs = small(family), small(family)
    settings = Optimiser(rate=3e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.2)
    decays, stays = [], []
    for name, weight in theirs.named_parameters():
        table = name.endswith(("tokens.weight", "positions.weight", "segments.weight")) or "_bias.weight" in name
        (stays if weight.ndim < 2 or table else decays).append(weight)
    groups = [{"params": decays, "weight_decay": 0.2}, {"params": stays, "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=3e-3, betas=(0.8, 0.95), eps=1e-6, fused=True)
    updater = build(ours, settings)
    for step in range(4):
        gradients(ours, step)
        gradients(theirs, step)
        updater.step(0.5)
        for group in reference.param_groups:
            group["lr"] = 3e-3 * 0.5
        reference.step()
    assert same_weights(ours, theirs)


def test_adamw_is_fused_where_the_device_allows_it():
    assert build(small("vit"), Optimiser()).optimisers["adamw"].defaults["fused"] is True
    on_meta = FAMILIES["vit"].model(FAMILIES["vit"].shrunken).to("meta")
    assert build(on_meta, Optimiser()).optimisers["adamw"].defaults["fused"] is False


def test_norms_biases_tables_and_class_tokens_do_not_decay():
    decays = {
        name: group.weight_decay
        for family in FAMILIES
        for group in parameter_groups(small(family), Optimiser(weight_decay=0.1))
        for name in group.weights
    }
    for name in (
        "input.tokens.weight",
        "source.tokens.weight",
        "input.positions.weight",
        "input.segments.weight",
        "input.class_token",
        "encoder_bias.weight",
        "encoder.norm.weight",
        "masked_words.bias",
        "encoder.blocks.0.attention.qkv.bias",
        "decoder.blocks.1.cross_norm.weight",
    ):
        assert decays[name] == 0, name
    for name in (
        "input.project.weight",
        "encoder.blocks.0.attention.qkv.weight",
        "decoder.blocks.0.cross.key.weight",
        "output.weight",
        "pooler.weight",
        "encoder.blocks.1.feed_forward.gate_up.weight",
    ):
        assert decays[name] == 0.1, name


def test_weight_decay_shrinks_weights_that_decay_and_no_others():
    model, start = small("gpt"), small("gpt")
    updater = build(model, Optimiser(rate=0.1, weight_decay=0.5))
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    updater.step()
    assert torch.allclose(
        model.get_parameter("decoder.blocks.0.attention.out.weight"),
        0.95 * start.get_parameter("decoder.blocks.0.attention.out.weight"),
    )
    assert torch.equal(model.get_parameter("input.tokens.weight"), start.get_parameter("input.tokens.weight"))


def test_every_trainable_weight_is_in_one_group_and_no_frozen_one_is():
    for family in FAMILIES:
        for name in ("adamw", "muon"):
            model = small(family)
            left_out = next(iter(dict(model.named_parameters())))
            model.get_parameter(left_out).requires_grad_(False)
            groups = parameter_groups(model, Optimiser(name=name, layer_decay=0.9))
            named = [weight for group in groups for weight in group.weights]
            assert sorted(named) == sorted(n for n, _ in model.named_parameters() if n != left_out)


def test_layer_wise_rates_of_a_vit_are_timms_but_for_the_last_norm():
    """timm counts the norm behind the blocks as part of the last one; here it stands with the head."""
    timm, optim = peer("timm"), peer("timm.optim")
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=5)
    names = {id(weight): name for name, weight in theirs.named_parameters()}
    scales = {
        names[id(weight)]: group["lr_scale"]
        for group in optim.param_groups_layer_decay(theirs, layer_decay=0.7)
        for weight in group["params"]
    }
    config = FAMILIES["vit"].shrunken.with_changes(layers=12)
    ours = FAMILIES["vit"].model(config)
    rates = {
        name: group.rate
        for group in parameter_groups(ours, Optimiser(rate=1.0, layer_decay=0.7))
        for name in group.weights
    }
    pairs = {
        "input.class_token": "cls_token",
        "input.project.weight": "patch_embed.proj.weight",
        "output.weight": "head.weight",
    }
    pairs |= {f"encoder.blocks.{n}.feed_forward.up.weight": f"blocks.{n}.mlp.fc1.weight" for n in range(12)}
    for mine, peers in pairs.items():
        assert rates[mine] == pytest.approx(scales[peers]), mine
    assert rates["encoder.norm.weight"] == rates["output.weight"] == 1.0
    assert rates["input.positions.weight"] == pytest.approx(0.7**13)


def test_each_stack_counts_its_distance_from_the_top_alone():
    config = FAMILIES["t5"].shrunken.with_changes(layers=3, decoder_layers=2)
    below = distances(FAMILIES["t5"].model(config))
    assert [below[f"encoder.blocks.{n}.attention.qkv.weight"] for n in range(3)] == [3, 2, 1]
    assert [below[f"decoder.blocks.{n}.attention.qkv.weight"] for n in range(2)] == [2, 1]
    assert below["source.tokens.weight"] == below["decoder_bias.weight"] == 4
    assert below["output.weight"] == below["encoder.norm.weight"] == 0


def test_layer_decay_slows_the_lower_layers_in_a_real_step():
    plain, slowed = (trained(small("vit"), Optimiser(layer_decay=d, weight_decay=0.0), 1) for d in (1.0, 0.5))
    start = small("vit")

    def moved(model: nn.Module, name: str) -> torch.Tensor:
        return model.get_parameter(name) - start.get_parameter(name)

    for name, factor in (
        ("output.bias", 1.0),
        ("encoder.blocks.1.attention.qkv.bias", 0.5),
        ("input.class_token", 0.125),
    ):
        assert torch.allclose(moved(slowed, name), factor * moved(plain, name), rtol=1e-3), name


def test_muon_takes_the_blocks_matrices_and_adamw_the_rest_at_its_own_rate():
    groups = parameter_groups(small("t5"), Optimiser(name="muon", rate=0.02, adam_rate=0.003))
    by = {name: (group.method, group.rate) for group in groups for name in group.weights}
    assert by["encoder.blocks.0.attention.qkv.weight"] == by["decoder.blocks.1.cross.out.weight"] == ("muon", 0.02)
    assert by["source.tokens.weight"] == by["output.weight"] == by["encoder_bias.weight"] == ("adamw", 0.003)
    assert by["encoder.blocks.0.attention_norm.weight"] == ("adamw", 0.003)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_step_takes_the_schedules_factor_of_each_groups_own_rate(name):
    updater = build(small("vit"), Optimiser(name=name, rate=0.02, layer_decay=0.5))
    gradients(small("vit"), 0)
    updater.step(0.25)
    assert len({group["base_rate"] for group in updater.param_groups}) > 2
    assert all(group["lr"] == 0.25 * group["base_rate"] for group in updater.param_groups)


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_stored_state_goes_on_bit_for_bit(name, family):
    settings = Optimiser(name=name, layer_decay=0.8, weight_decay=0.1)
    whole = trained(small(family), settings, 6)
    first = small(family)
    updater = build(first, settings)
    for step in range(3):
        gradients(first, step)
        updater.step()
    stored = load(save({key: tensor.contiguous() for key, tensor in updater.state_dict().items()}))
    second = copy.deepcopy(first)
    resumed = build(second, settings)
    resumed.load_state_dict(stored)
    for step in range(3, 6):
        gradients(second, step)
        resumed.step()
    assert same_weights(second, whole)
    assert not same_weights(trained(copy.deepcopy(first), settings, 3), whole), "without the state it must differ"


def test_a_state_before_the_first_step_is_empty_and_loads():
    updater = build(small("vit"), Optimiser())
    assert updater.state_dict() == {}
    updater.load_state_dict({})


def test_a_state_of_another_run_is_refused_in_one_line_and_changes_nothing():
    model = small("vit")
    updater = build(model, Optimiser())
    gradients(model, 0)
    updater.step()
    state = {key: tensor.clone() for key, tensor in updater.state_dict().items()}
    wrong = {
        "does not train": state | {"elsewhere.weight.exp_avg": torch.zeros(1)},
        "another shape": state | {"output.bias.exp_avg": torch.zeros(1)},
        "must be exp_avg, exp_avg_sq, step": {k: v for k, v in state.items() if k != "output.bias.exp_avg"},
    }
    for message, bad in wrong.items():
        with pytest.raises(ClearheadError, match=message) as error:
            updater.load_state_dict(bad)
        assert "\n" not in str(error.value)
    assert all(torch.equal(state[key], tensor) for key, tensor in updater.state_dict().items())


@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_clipping_is_torchs(limit):
    ours, theirs = small("gpt"), small("gpt")
    gradients(ours, 0)
    gradients(theirs, 0)
    norm = build(ours, Optimiser(clip=limit)).clip_gradients()
    assert torch.equal(norm, nn.utils.clip_grad_norm_(theirs.parameters(), limit))
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_without_a_limit_the_norm_is_measured_and_gradients_stay():
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    assert clip_gradients([weight], None).item() == 5.0
    assert weight.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_norm_that_is_not_finite_is_told_and_the_culprit_can_still_be_found(bad):
    weights = [nn.Parameter(torch.zeros(2)) for _ in range(2)]
    weights[0].grad, weights[1].grad = torch.tensor([3.0, 4.0]), torch.tensor([1.0, bad])
    assert not clip_gradients(weights, 1.0).isfinite()
    assert weights[0].grad.tolist() == [3.0, 4.0]


def test_zero_grad_forgets_every_gradient():
    model = small("vit")
    updater = build(model, Optimiser(name="muon"))
    gradients(model, 0)
    updater.zero_grad()
    assert all(weight.grad is None for weight in model.parameters())


def test_settings_survive_json():
    settings = Optimiser(name="muon", betas=(0.9, 0.95), adam_rate=1e-4, clip=None)
    assert Optimiser.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "sgd"},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"rate": "fast"},
        {"adam_rate": 1e-3},
        {"betas": (0.9, 1.0)},
        {"betas": (0.9,)},
        {"eps": -1e-8},
        {"weight_decay": -0.1},
        {"layer_decay": 1.1},
        {"clip": 0.0},
        {"momentum": 1.0},
        {"muon_scale": "large"},
        {"muon_dtype": "int8"},
    ],
)
def test_impossible_settings_are_refused_in_one_line(wrong):
    with pytest.raises(ClearheadError) as error:
        Optimiser(**wrong)
    assert next(iter(wrong)) in str(error.value) and "\n" not in str(error.value)


def test_a_model_that_is_frozen_throughout_can_not_be_trained():
    with pytest.raises(ClearheadError, match="every weight is frozen"):
        build(small("vit").requires_grad_(False), Optimiser())
