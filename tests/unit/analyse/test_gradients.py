"""Gradient rollout: gradients against finite differences at the weights' own site, the rule against loops."""

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.analyse import gradient_rollout
from clearhead.errors import ClearheadError
from clearhead.models import Model, create
from clearhead.tasks import record
from tests.minilm import tiny

SMALL = {"device": "cpu", "seed": 0, "dtype": "float64"}
IDS = torch.tensor([[3, 1, 4, 1, 5]])


def gpt() -> Model:
    return create("gpt2", vocab=11, context=8, width=12, layers=2, heads=3, init_std=0.5, **SMALL)


def bert(**task: object) -> Model:
    return create("bert-base", vocab=11, context=8, width=12, layers=2, heads=3, init_std=0.5, **task, **SMALL)


def vit(**changes: object) -> Model:
    model = create(
        "vit-ti16", image=8, patch=4, channels=1, width=12, layers=2, heads=3, num_classes=4, **changes, **SMALL
    )
    with torch.no_grad():
        model.get_parameter("output.weight").normal_()
    return model


def translator() -> Model:
    return create("transformer-tiny", vocab=11, context=8, width=12, layers=2, heads=3, norm="pre", **SMALL)


def slopes(model: Model, inputs, site: str, read) -> Tensor:
    """d read(output) / d weights (H,L,M), by moving one weight at a time."""
    weights = record(model, inputs, sites=site)[site]
    found = torch.zeros_like(weights[0])
    for at in torch.cartesian_prod(*map(torch.arange, found.shape)).tolist():
        ends = []
        for step in (1e-5, -1e-5):
            moved = weights.clone()
            moved[0][tuple(at)] += step
            ends.append(read(record(model, inputs, sites=site, replace={site: moved}).output))
        found[tuple(at)] = (ends[0] - ends[1]) / 2e-5
    return found


def layer_map(model: Model, inputs, site: str, read) -> Tensor:
    """mean over heads of max(0, slope * weight), written out."""
    weights, by = record(model, inputs, sites=site)[site][0], slopes(model, inputs, site, read)
    heads = [torch.clamp(by[head] * weights[head], min=0) for head in range(len(weights))]
    return sum(heads[1:], heads[0]) / len(heads)


def by_hand(model: Model, inputs, stack: str, read) -> list[Tensor]:
    """R after each layer, from slopes."""
    relevance, found = None, []
    for layer in range(2):
        step = layer_map(model, inputs, f"{stack}.blocks.{layer}.attention.weights", read)
        relevance = torch.eye(len(step), dtype=step.dtype) if relevance is None else relevance
        relevance = relevance + step @ relevance
        found.append(relevance)
    return found


CASES = {
    "gpt": (gpt, IDS, {"target": 7}, "decoder", lambda out: out[0, -1, 7].item(), -1),
    "bert classifies": (
        lambda: bert(task="classify", num_classes=3),
        IDS,
        {"target": 2},
        "encoder",
        lambda out: out[0, 2].item(),
        0,
    ),
    "bert fills": (
        lambda: bert(task="pretrain"),
        IDS,
        {"target": 6, "place": 2},
        "encoder",
        lambda out: out[0][0, 2, 6].item(),
        2,
    ),
    "vit": (vit, torch.rand(1, 1, 8, 8).double(), {"target": 1}, "encoder", lambda out: out[0, 1].item(), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_relevance_grows_layer_by_layer_as_finite_differences_say(case):
    make, inputs, asked, stack, read, row = CASES[case]
    model = make()
    found = gradient_rollout(model, inputs, **asked)
    expected = by_hand(model, inputs, stack, read)
    assert found.layers.shape == (2, *expected[0].shape)
    for mine, other in zip(found.layers, expected, strict=True):
        assert torch.allclose(mine, other.float(), atol=1e-6)
    assert torch.equal(found.tokens, found.layers[-1][row])
    assert found.tokens.sum() > 1.001  # more than the identity: something was relevant
    assert found.score == pytest.approx(read(record(model, inputs, sites="logits").output))


def test_with_mean_pooling_every_patch_is_read():
    found = gradient_rollout(vit(pooling="mean"), torch.rand(1, 1, 8, 8).double())
    assert torch.allclose(found.tokens, found.layers[-1].mean(0))


def test_a_model_that_weighs_its_patches_by_itself_is_refused_in_one_line():
    model = create("vit-ti16", pooling="sequence", image=8, patch=4, channels=1, device="cpu", seed=0)
    with pytest.raises(ClearheadError, match="weighs its patches by itself"):
        gradient_rollout(model, torch.rand(1, 1, 8, 8))


def test_an_encoder_decoder_follows_the_rules_for_two_sequences():
    model, inputs = translator(), (torch.tensor([[3, 1, 4]]), torch.tensor([[2, 5]]))

    def read(out):
        return out[0, -1, 6].item()

    def norm(relevance):
        gained = relevance - torch.eye(len(relevance))
        sums = gained.sum(-1, keepdim=True)
        return torch.nan_to_num(gained / sums) + torch.eye(len(relevance))

    of_source = by_hand(model, inputs, "encoder", read)[-1]
    of_target, across = torch.eye(2, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64)
    for layer in range(2):
        own = layer_map(model, inputs, f"decoder.blocks.{layer}.attention.weights", read)
        cross = layer_map(model, inputs, f"decoder.blocks.{layer}.cross.weights", read)
        of_target, across = of_target + own @ of_target, across + own @ across
        across = across + norm(of_target).T @ cross @ norm(of_source)
    found = gradient_rollout(model, inputs, 6)
    assert torch.allclose(found.layers[-1], of_target.float(), atol=1e-6)
    assert found.cross is not None and torch.allclose(found.cross[-1], across.float(), atol=1e-6)
    assert found.source is not None and torch.equal(found.source, found.cross[-1][-1])
    assert (found.number, found.place) == (6, 1) and found.source.max() > 1e-4


def test_the_best_scored_is_explained_unless_one_is_named():
    model = gpt()
    found = gradient_rollout(model, IDS)
    assert found.number == record(model, IDS, sites="logits").output[0, -1].argmax().item()
    assert found.name == f"#{found.number}" and found.place == 4


def test_neither_gradients_nor_modes_nor_hooks_stay_behind():
    model = gpt().train()
    gradient_rollout(model, IDS)
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_frozen_model_is_explained_alike():
    model = gpt()
    free = gradient_rollout(model, IDS, 7)
    assert torch.allclose(gradient_rollout(model.requires_grad_(False), IDS, 7).layers, free.layers)


def test_the_blank_of_a_text_is_found(tmp_path):
    model = clearhead.load(tiny(tmp_path / "fill", task="fill"), device="cpu")
    found = gradient_rollout(model, "the cat sat on the [MASK]")
    assert found.place == 6 and len(found.tokens) == 8
    assert found.name in clearhead.tokenizer(model).vocabulary


def test_a_padded_row_answers_at_its_own_last_token():
    ids = torch.tensor([[3, 1, 4, 1, 5], [3, 1, 4, 0, 0]])
    padded = gradient_rollout(gpt(), (ids, torch.tensor([5, 3])), 7, item=1)
    alone = gradient_rollout(gpt(), torch.tensor([[3, 1, 4]]), 7)
    assert padded.place == 2
    assert torch.allclose(padded.tokens[:3], alone.tokens, atol=1e-6)


def test_bad_requests_are_refused_in_one_line():
    cases = [
        (lambda: gradient_rollout(torch.nn.Linear(1, 1), IDS), "a clearhead model is needed, not a Linear"),
        (lambda: gradient_rollout(bert(), IDS), "this BERT has no task"),
        (lambda: gradient_rollout(bert(task="tag", num_classes=2), IDS), "say at which place"),
        (lambda: gradient_rollout(gpt(), IDS, 11), "scores 0 to 10: there is no 11"),
        (lambda: gradient_rollout(gpt(), IDS, place=5), "there is no place 5: the input has 5 tokens"),
        (lambda: gradient_rollout(gpt(), IDS, item=1), "there are 1 inputs: there is no number 1"),
        (lambda: gradient_rollout(vit(), torch.rand(1, 1, 8, 8).double(), place=0), "no place can be chosen"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
