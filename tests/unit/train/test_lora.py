"""LoRA against peft's on the same factors, merged against unmerged, in every family."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clearhead.errors import ClearheadError
from clearhead.layers import Linear, quantise, use_path
from clearhead.models import FAMILIES, Model
from clearhead.trace import Recorder
from clearhead.train.freeze import unfreeze
from clearhead.train.lora import LoRA, LoRALinear, add_lora, merge
from clearhead.train.optimiser import Optimiser, build, parameter_groups
from tests.support import equal, peer


def small(family: str) -> Model:
    made = FAMILIES[family].model(FAMILIES[family].shrunken)
    random = torch.Generator().manual_seed(0)
    made.initialise(random)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.min() == weight.max():
                weight.add_(0.3 * torch.randn(weight.shape, generator=random))
    return made.eval()


@torch.no_grad()
def stirred(model: nn.Module) -> None:
    """B starts at zero, where nothing of LoRA is seen."""
    random = torch.Generator().manual_seed(5)
    for name, weight in model.named_parameters():
        if name.endswith("lora_b"):
            weight.copy_(0.3 * torch.randn(weight.shape, generator=random))


def output(model: Model) -> torch.Tensor:
    out = model(*model.example(3, torch.Generator().manual_seed(1)))
    return out if isinstance(out, torch.Tensor) else out[0]


class Two(nn.Module):
    """Two layers and a bend, for either library."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Linear(6, 10), Linear(10, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


@pytest.fixture
def pair() -> tuple[nn.Module, nn.Module]:
    """Ours and peft's, around the same weights and with the same factors."""
    peft = peer("peft")
    ours, theirs = Two(), Two()
    theirs.load_state_dict(ours.state_dict())
    theirs = peft.inject_adapter_in_model(
        peft.LoraConfig(r=3, lora_alpha=7, lora_dropout=0.4, target_modules=["first", "second"]), theirs
    )
    add_lora(ours, LoRA(targets=("*",), rank=3, alpha=7.0, dropout=0.4))
    stirred(ours)
    with torch.no_grad():
        for name in ("first", "second"):
            mine, other = ours.get_submodule(name), theirs.get_submodule(name)
            other.lora_A["default"].weight.copy_(mine.lora_a)
            other.lora_B["default"].weight.copy_(mine.lora_b)
    return ours, theirs


def test_outputs_are_pefts(pair):
    ours, theirs = (model.eval() for model in pair)
    x = torch.randn(5, 6)
    assert equal(ours(x), theirs(x))


def test_outputs_and_gradients_in_training_are_pefts_with_the_same_dropout(pair):
    ours, theirs = (model.train() for model in pair)
    x = torch.randn(5, 6)
    torch.manual_seed(1)
    mine = ours(x)
    torch.manual_seed(1)
    others = theirs(x)
    assert equal(mine, others)
    assert not equal(mine, ours.eval()(x)), "dropout must be seen"
    mine.square().sum().backward()
    others.square().sum().backward()
    for name in ("first", "second"):
        layer, other = ours.get_submodule(name), theirs.get_submodule(name)
        assert equal(layer.lora_a.grad, other.lora_A["default"].weight.grad)
        assert equal(layer.lora_b.grad, other.lora_B["default"].weight.grad)
        assert layer.base.weight.grad is None


def test_merged_weights_are_pefts(pair):
    ours, theirs = pair
    merge(ours)
    for name in ("first", "second"):
        layer = theirs.get_submodule(name)
        layer.merge()
        assert type(ours.get_submodule(name)) is Linear
        assert equal(ours.get_submodule(name).weight, layer.base_layer.weight)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_familys_linear_layers_can_be_adapted_and_merged(family):
    model = small(family)
    before, keys = output(model), list(model.state_dict())
    names = add_lora(model, LoRA(targets=("*",), rank=2), torch.Generator().manual_seed(3))
    assert any(name.endswith("attention.qkv") for name in names) and any("feed_forward" in name for name in names)
    assert equal(output(model), before), "B is zero at first"
    stirred(model)
    changed = output(model)
    assert not equal(changed, before)
    assert merge(model) == names
    assert list(model.state_dict()) == keys and not any(isinstance(m, LoRALinear) for m in model.modules())
    assert equal(output(model), changed)


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("family", FAMILIES)
def test_only_a_and_b_train(name, family):
    model = small(family).train()
    add_lora(model, LoRA(rank=2))
    stirred(model)
    start = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    updater = build(model, Optimiser(name=name, weight_decay=0.5, rate=0.01))
    output(model).square().sum().backward()
    updater.step()
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, start[key]) == ("lora_" not in key), key


def test_muon_leaves_lora_to_adamw():
    model = small("gpt")
    add_lora(model, LoRA())
    assert {group.method for group in parameter_groups(model, Optimiser(name="muon"))} == {"adamw"}


def test_a_vit_whose_last_block_is_shortened_gives_what_the_whole_one_gives():
    model = small("vit")
    add_lora(model, LoRA(targets=("*.qkv",), rank=2))
    stirred(model)
    short, factors = output(model), model.get_submodule("encoder.blocks.1.attention.qkv")
    F.cross_entropy(short, torch.tensor([0, 1, 2])).backward()
    gradients = [factors.lora_a.grad.clone(), factors.lora_b.grad.clone()]
    model.zero_grad()
    use_path(model, "reference")
    whole = output(model)
    F.cross_entropy(whole, torch.tensor([0, 1, 2])).backward()
    assert equal(short, whole)
    assert equal(factors.lora_a.grad, gradients[0]) and equal(factors.lora_b.grad, gradients[1])
    assert gradients[1].any()


def test_a_part_of_the_outputs_is_that_part_and_has_dropout_too():
    layer = LoRALinear(Linear(6, 9), LoRA(rank=2, dropout=0.5))
    stirred(layer)
    x = torch.randn(4, 6)
    for outputs in (slice(3), slice(3, None)):
        assert equal(layer.eval().part(x, outputs), layer(x)[:, outputs])
        layer.train()
        torch.manual_seed(0)
        part = layer.part(x, outputs)
        torch.manual_seed(0)
        assert equal(part, layer(x)[:, outputs])
        assert not equal(part, layer.eval()(x)[:, outputs])


def test_rank_alpha_and_targets_are_heeded():
    model = small("gpt")
    names = add_lora(model, LoRA(targets=("decoder.blocks.1.*.qkv", "*.down"), rank=5, alpha=2.0))
    assert names == [
        "decoder.blocks.0.feed_forward.down",
        "decoder.blocks.1.attention.qkv",
        "decoder.blocks.1.feed_forward.down",
    ]
    layer = model.get_submodule(names[0])
    assert layer.lora_a.shape == (5, 96) and layer.lora_b.shape == (24, 5) and layer.scale == 0.4


def test_a_seed_gives_the_same_factors():
    models = [small("gpt") for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        add_lora(model, LoRA(), torch.Generator().manual_seed(seed))
    first, second, third = (model.get_parameter("decoder.blocks.0.attention.qkv.lora_a") for model in models)
    assert torch.equal(first, second) and not torch.equal(first, third)


def test_factors_start_as_widely_as_pefts():
    peft = peer("peft")
    ours, theirs = nn.Sequential(Linear(400, 30)), nn.Sequential(nn.Linear(400, 30))
    add_lora(ours, LoRA(targets=("*",)))
    theirs = peft.inject_adapter_in_model(peft.LoraConfig(r=8, target_modules=["0"]), theirs)
    mine, other = ours[0].lora_a, theirs[0].lora_A["default"].weight
    assert mine.std().item() == pytest.approx(other.std().item(), rel=0.05)
    assert mine.abs().max().item() == pytest.approx(other.abs().max().item(), rel=0.01)


def test_a_head_can_train_beside_the_factors():
    model = small("vit")
    add_lora(model, LoRA(rank=2))
    unfreeze(model, ["output"])
    trains = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert "output.weight" in trains and all("lora_" in name or name.startswith("output.") for name in trains)


def test_an_adapted_model_is_stored_and_loaded_by_name():
    model, other = small("t5"), small("t5")
    add_lora(model, LoRA(rank=2))
    stirred(model)
    add_lora(other, LoRA(rank=2))
    other.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
    assert torch.equal(output(model), output(other))


def test_an_adapted_model_is_recorded_at_the_same_sites():
    model = small("gpt")
    inputs = model.example(2)

    def sites() -> list[str]:
        with Recorder(model) as trace:
            model(*inputs)
        return list(trace)

    before = sites()
    add_lora(model, LoRA())
    assert sites() == before


def test_an_adapted_vit_compiles_without_a_break():
    model = small("vit")
    add_lora(model, LoRA())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert equal(output(model), compiled(*model.example(3, torch.Generator().manual_seed(1))))


def test_a_glob_without_a_linear_layer_is_an_error_that_names_near_ones_and_changes_nothing():
    model = small("gpt")
    with pytest.raises(ClearheadError, match="no linear layer is named 'decoder.blocks.0.attention.qvk'; did you mean"):
        add_lora(model, LoRA(targets=("*.down", "decoder.blocks.0.attention.qvk")))
    assert all(weight.requires_grad for weight in model.parameters())
    assert not any(isinstance(module, LoRALinear) for module in model.modules())


def test_what_can_not_be_is_refused_in_one_line():
    model = small("gpt")
    add_lora(model, LoRA())
    with pytest.raises(ClearheadError, match="LoRA layers already"):
        add_lora(model, LoRA())
    quantised = quantise(copy.deepcopy(model))
    with pytest.raises(ClearheadError, match="8 bits"):
        merge(quantised)
    for wrong in ({"rank": 0}, {"alpha": 0.0}, {"dropout": 1.0}, {"targets": ()}):
        with pytest.raises(ClearheadError, match=next(iter(wrong))):
            LoRA(**wrong)
