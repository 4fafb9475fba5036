"""Running averages against timm's, means of checkpoints against torch's, and swaps that lose nothing."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from clearhead.errors import ClearheadError
from clearhead.train.average import EMA, Average, average_checkpoints
from tests.support import equal, peer


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3))


@torch.no_grad()
def moved(model: nn.Module, step: int) -> None:
    random = torch.Generator().manual_seed(step)
    for weight in model.parameters():
        weight.add_(torch.randn(weight.shape, generator=random))


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("warmup", [False, True])
def test_a_running_average_is_timms(warmup):
    model = network()
    theirs = peer("timm.utils").ModelEmaV3(model, decay=0.9, use_warmup=warmup)
    ours = EMA(model, Average(decay=0.9, warmup=warmup))
    for step in range(1, 60):
        moved(model, step)
        ours.update(model)
        theirs.update(model, step=step if warmup else None)
        assert same(ours.weights, weights(theirs.module))
    assert not same(ours.weights, weights(model))


def test_the_decay_matters():
    model = network()
    averages = [EMA(model, Average(decay=decay)) for decay in (0.0, 0.5, 0.9)]
    moved(model, 1)
    for average in averages:
        average.update(model)
    assert same(averages[0].weights, weights(model))
    assert not same(averages[1].weights, averages[2].weights)


def test_a_stored_average_goes_on_bit_for_bit():
    model = network()
    whole, first = (EMA(model, Average(decay=0.99, warmup=True)) for _ in range(2))
    for step in range(5):
        moved(model, step)
        whole.update(model)
        first.update(model)
    state = first.state_dict()
    plain = json.loads(json.dumps({key: value for key, value in state.items() if key != "weights"}))
    second = EMA(network(3), Average(decay=0.99, warmup=True))
    second.load_state_dict(plain | {"weights": {name: weight.clone() for name, weight in state["weights"].items()}})
    for step in range(5, 9):
        moved(model, step)
        whole.update(model)
        second.update(model)
    assert same(whole.weights, second.weights) and second.updates == 9


def test_swapping_in_and_out_loses_nothing():
    model = network()
    average = EMA(model, Average(decay=0.5))
    moved(model, 1)
    average.update(model)
    own, kept = weights(model), {name: weight.clone() for name, weight in average.weights.items()}
    storage = [weight.data_ptr() for weight in model.parameters()]
    with average.swapped(model):
        assert same(weights(model), kept)
    assert same(weights(model), own) and same(average.weights, kept)
    assert storage == [weight.data_ptr() for weight in model.parameters()]


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_an_exception_inside_a_swap_loses_nothing(trouble):
    model = network()
    average = EMA(model, Average(decay=0.5))
    moved(model, 1)
    average.update(model)
    own, kept = weights(model), {name: weight.clone() for name, weight in average.weights.items()}
    with pytest.raises(trouble), average.swapped(model):
        moved(model, 2)
        raise trouble
    assert same(weights(model), own) and same(average.weights, kept)


def test_frozen_weights_are_not_kept_twice_and_stay_through_a_swap():
    model = network()
    model[0].requires_grad_(False)
    average = EMA(model, Average())
    assert set(average.weights) == {"1.weight", "1.bias", "2.weight", "2.bias"}
    before = weights(model)
    with average.swapped(model):
        assert same(weights(model), before)


def test_weights_too_coarse_for_an_average_are_refused():
    with pytest.raises(ClearheadError, match="an average in bfloat16 would stand still"):
        EMA(network().bfloat16(), Average())


def test_an_average_of_another_model_is_refused_in_one_line():
    average = EMA(network(), Average())
    state = average.state_dict()
    for message, wrong in {
        "lacks '2.bias'": {name: weight for name, weight in state["weights"].items() if name != "2.bias"},
        "has '3.bias'": state["weights"] | {"3.bias": torch.zeros(1)},
        r"shape \(1,\), not \(3,\)": state["weights"] | {"2.bias": torch.zeros(1)},
    }.items():
        with pytest.raises(ClearheadError, match=message):
            average.load_state_dict({"updates": 1, "weights": wrong})


@pytest.mark.parametrize("decay", [-0.1, 1.0, "much"])
def test_an_impossible_decay_is_refused(decay):
    with pytest.raises(ClearheadError, match="decay"):
        Average(decay=decay)


def test_the_mean_of_checkpoints_is_that_of_torch(tmp_path):
    models = [network(seed) for seed in range(3)]
    theirs = torch.optim.swa_utils.AveragedModel(models[0])
    for model in models:
        theirs.update_parameters(model)
    expected = weights(theirs.module)
    files = []
    for number, model in enumerate(models):
        files.append(tmp_path / f"{number}.safetensors")
        save_file(weights(model), files[-1])
    from_dicts, from_files = average_checkpoints([m.state_dict() for m in models]), average_checkpoints(files)
    assert same(from_dicts, from_files)
    assert all(equal(from_dicts[name], expected[name], 1e-6) for name in expected)
    assert not equal(from_dicts["0.weight"], models[0].state_dict()["0.weight"])


def test_the_mean_of_one_checkpoint_is_itself_and_shares_no_memory():
    state = network().state_dict()
    mean = average_checkpoints([state])
    assert same(mean, dict(state))
    mean["0.weight"].zero_()
    assert state["0.weight"].any()


def test_whole_numbers_are_the_last_checkpoints_and_types_stay():
    sets = [{"count": torch.tensor(n), "weight": torch.full((2,), float(n), dtype=torch.bfloat16)} for n in (1, 4)]
    mean = average_checkpoints(sets)
    assert mean["count"].item() == 4
    assert mean["weight"].dtype == torch.bfloat16 and mean["weight"].tolist() == [2.5, 2.5]


def test_checkpoints_of_different_models_are_refused_in_one_line():
    with pytest.raises(ClearheadError, match="checkpoint 2 of 2 lacks '2.bias'"):
        average_checkpoints(
            [network().state_dict(), {k: v for k, v in network().state_dict().items() if k != "2.bias"}]
        )
    with pytest.raises(ClearheadError, match="no checkpoints to average"):
        average_checkpoints([])
