"""CCT against vit-pytorch's, weights handed over, and against the same arithmetic in torch's functions."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.models import create
from tests.support import equal, peer, redrawn

SIZES = {"image": 16, "width": 32, "layers": 3, "heads": 4, "ff": 64, "num_classes": 7}


@pytest.fixture
def model():
    return redrawn(create("cct-7-3x1", device="cpu", **SIZES))


@pytest.fixture
def images():
    return torch.randn(3, 3, 16, 16)


def names(layers: int) -> dict[str, str]:
    """Ours -> vit-pytorch's."""
    parts = {"attention_norm": "pre_norm", "attention.qkv": "self_attn.qkv", "attention.out": "self_attn.proj"}
    parts |= {"feed_forward_norm": "norm1", "feed_forward.up": "linear1", "feed_forward.down": "linear2"}
    found = {
        f"encoder.blocks.{n}.{ours}.{kind}": f"classifier.blocks.{n}.{theirs}.{kind}"
        for n in range(layers)
        for ours, theirs in parts.items()
        for kind in ("weight", "bias")
    }
    ends = {"encoder.norm": "norm", "pooling.score": "attention_pool", "output": "fc"}
    found |= {f"{a}.{kind}": f"classifier.{b}.{kind}" for a, b in ends.items() for kind in ("weight", "bias")}
    return found | {
        "input.project.weight": "tokenizer.conv_layers.0.0.weight",
        "input.positions.weight": "classifier.positional_emb",
    }


def handed_over(model, theirs) -> None:
    known, into = names(model.config.layers), theirs.state_dict()
    ours = {known[name]: weight.detach() for name, weight in model.named_parameters()}
    assert set(ours) == set(into)
    theirs.load_state_dict({name: weight.reshape(into[name].shape) for name, weight in ours.items()})


def test_logits_and_gradients_are_vit_pytorchs(model, images):
    cct = peer("vit_pytorch.cct")
    theirs = cct.CCT(
        img_size=16,
        embedding_dim=32,
        n_conv_layers=1,
        kernel_size=3,
        stride=1,
        padding=1,
        num_layers=3,
        num_heads=4,
        mlp_ratio=2,
        num_classes=7,
        positional_embedding="learnable",
    ).eval()
    handed_over(model, theirs)
    ours, expected = model(images), theirs(images)
    assert equal(ours, expected)
    targets = torch.tensor([1, 6, 0])
    for logits in (ours, expected):
        F.cross_entropy(logits, targets).backward()
    known, gradients = names(3), {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, weight in model.named_parameters():
        assert equal(weight.grad, gradients[known[name]].reshape(weight.shape)), name


def test_the_named_size_has_as_many_weights_as_vit_pytorchs():
    cct = peer("vit_pytorch.cct")
    theirs = cct.cct_7(img_size=32, n_conv_layers=1, kernel_size=3, num_classes=10, positional_embedding="learnable")
    assert sum(weight.numel() for weight in theirs.parameters()) == 3_760_139


def test_logits_are_those_of_the_same_arithmetic_in_torchs_functions(model, images):
    weights = dict(model.named_parameters())
    x = F.conv2d(images, weights["input.project.weight"].view(32, 3, 3, 3), padding=1)
    x = F.max_pool2d(x.relu(), 3, 2, 1).flatten(2).transpose(1, 2) + weights["input.positions.weight"]

    def layer(name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (32,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)

    for n in range(3):
        at = f"encoder.blocks.{n}"
        q, k, v = layer(f"{at}.attention.qkv", norm(f"{at}.attention_norm", x)).chunk(3, -1)
        q, k, v = (part.view(3, 64, 4, 8).transpose(1, 2) for part in (q, k, v))
        looked = (q @ k.mT / 8**0.5).softmax(-1) @ v
        x = x + layer(f"{at}.attention.out", looked.transpose(1, 2).flatten(2))
        x = norm(f"{at}.feed_forward_norm", x)  # the stream itself goes through it
        x = x + layer(f"{at}.feed_forward.down", F.gelu(layer(f"{at}.feed_forward.up", x)))
    x = norm("encoder.norm", x)
    shares = layer("pooling.score", x).softmax(1)
    assert equal(model(images), layer("output", (shares * x).sum(1)))
