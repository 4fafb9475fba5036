"""The Transformer against torch.nn.Transformer: hidden states and the weights of every attention module."""

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.models import create
from clearhead.models.transformer import Transformer, TransformerConfig
from tests.support import equal

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

SMALL = {"vocab": 101, "context": 16, "width": 21, "layers": 2, "heads": 3, "ff": 17}
VARIANTS = {
    "as published": {},
    "post-norm with last norms": {"final_norm": True},
    "pre-norm": {"norm": "pre"},
    "pre-norm without last norms": {"norm": "pre", "final_norm": False},
    "one head, GELU, deeper decoder": {"heads": 1, "activation": "gelu", "layers": 1, "decoder_layers": 3},
    "learned positions, a large epsilon": {"norm": "pre", "positions": "learned", "norm_eps": 0.1, "tied": "none"},
}
PARTS = {
    "attention_norm": "norm1",
    "attention.out": "self_attn.out_proj",
    "cross_norm": "norm2",
    "cross.out": "multihead_attn.out_proj",
    "feed_forward.up": "linear1",
    "feed_forward.down": "linear2",
}


def shaken(model: Transformer) -> Transformer:
    """Weights as they are initialised, biases and norms stirred: alike or zero they would hide faults."""
    model.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def torchs(model: Transformer) -> nn.Transformer:
    """torch's own module with the same weights."""
    c = model.config
    layers = (c.layers, c.decoder_layers or c.layers)
    theirs = nn.Transformer(
        *(c.width, c.heads, *layers, c.ff or 4 * c.width, 0.0, c.activation),
        layer_norm_eps=c.norm_eps,
        batch_first=True,
        norm_first=c.norm == "pre",
    )
    if not c.norms_last:
        theirs.encoder.norm = theirs.decoder.norm = None
    theirs.load_state_dict(their_names(model.named_parameters()))
    theirs.encoder.use_nested_tensor = False
    return theirs.eval()


def their_names(ours: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """The stacks' tensors under torch's names, q, k and v of cross-attention under one another."""
    theirs: dict[str, Tensor] = {}
    for name, tensor in ours:
        stack, _, rest = name.partition(".")
        place, _, kind = rest.removeprefix("blocks.").rpartition(".")
        layer, _, part = place.partition(".")
        at = f"{stack}.layers.{layer}"
        if part == "attention.qkv":
            theirs[f"{at}.self_attn.in_proj_{kind}"] = tensor
        elif part in ("cross.query", "cross.key", "cross.value"):
            stacked = f"{at}.multihead_attn.in_proj_{kind}"
            theirs[stacked] = torch.cat([theirs[stacked], tensor]) if stacked in theirs else tensor
        elif part:
            last = {"feed_forward_norm": "norm3" if stack == "decoder" else "norm2"}
            theirs[f"{at}.{(PARTS | last)[part]}.{kind}"] = tensor
        elif stack in ("encoder", "decoder"):
            theirs[name] = tensor
    return theirs


def with_weights(theirs: nn.Transformer) -> list[Tensor]:
    """A list that every attention module fills with its weights, head by head, whenever it is called."""
    seen: list[Tensor] = []
    for module in theirs.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.register_forward_pre_hook(_asking_for_weights, with_kwargs=True)
            module.register_forward_hook(lambda _, __, output: seen.append(output[1]))
    return seen


def _asking_for_weights(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    return args, kwargs | {"need_weights": True, "average_attn_weights": False}


def assert_same(model: Transformer, inputs: tuple[Tensor, ...]) -> None:
    """Hidden states and weights equal torch's wherever there is a token, recorded and on the fused path."""
    source, target, source_lengths, target_lengths = inputs
    theirs = torchs(model)
    theirs_weights = with_weights(theirs)
    hidden_sources, hidden_targets = (
        torch.arange(ids.shape[1]) >= lengths[:, None]
        for ids, lengths in ((source, source_lengths), (target, target_lengths))
    )
    with torch.no_grad():
        expected = theirs(
            model.source(source),
            model.target(target),
            tgt_mask=torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1),
            src_key_padding_mask=hidden_sources,
            tgt_key_padding_mask=hidden_targets,
            memory_key_padding_mask=hidden_sources,
        )
        fused = model.hidden(*inputs)
    trace = clearhead.record(model, inputs, sites="*.weights")
    for row, (read, written) in enumerate(zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)):
        assert equal(fused[row, :written], expected[row, :written])
        assert equal(trace.output[row, :written], model.head(expected[row, :written]))
        for (site, mine), other in zip(trace.items(), theirs_weights, strict=True):
            queries = read if site.startswith("encoder") else written
            assert equal(mine[row, :, :queries], other[row, :, :queries]), site


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_hidden_states_and_weights_are_torchs_with_padding_on_both_sides(changes: dict):
    model = shaken(Transformer(TransformerConfig(**SMALL | changes)))
    ids = torch.randint(101, (4, 9)), torch.randint(101, (4, 7))
    assert_same(model, (*ids, torch.tensor([9, 3, 1, 6]), torch.tensor([2, 7, 1, 5])))


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_without_lengths_nothing_is_hidden(changes: dict):
    model = shaken(Transformer(TransformerConfig(**SMALL | changes)))
    source, target = torch.randint(101, (2, 9)), torch.randint(101, (2, 7))
    theirs = torchs(model)
    with torch.no_grad():
        causal = nn.Transformer.generate_square_subsequent_mask(7)
        expected = theirs(model.source(source), model.target(target), tgt_mask=causal, tgt_is_causal=True)
        assert equal(model.hidden(source, target), expected)


def test_gradients_are_torchs():
    model = shaken(Transformer(TransformerConfig(**SMALL, norm="pre", dropout=0)))
    theirs = torchs(model)
    source, target = torch.randint(101, (2, 9)), torch.randint(101, (2, 7))
    causal = nn.Transformer.generate_square_subsequent_mask(7)
    model.hidden(source, target).square().mean().backward()
    given = model.source(source).detach(), model.target(target).detach()
    theirs.train()(*given, tgt_mask=causal, tgt_is_causal=True).square().mean().backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    ours = their_names((name, weight.grad) for name, weight in model.named_parameters() if weight.grad is not None)
    assert ours.keys() == gradients.keys()
    assert all(equal(ours[name], gradient) for name, gradient in gradients.items())


@pytest.mark.parametrize("name", ["transformer-base", pytest.param("transformer-big", marks=pytest.mark.large)])
def test_a_published_size_in_full_gives_torchs_hidden_states_and_weights(name: str):
    model = create(name, device="cpu", seed=0)
    ids = torch.randint(37000, (2, 33)), torch.randint(37000, (2, 21))
    assert_same(model, (*ids, torch.tensor([33, 12]), torch.tensor([7, 21])))
