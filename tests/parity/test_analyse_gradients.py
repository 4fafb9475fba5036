"""Gradient rollout, rollout and the logit lens with the attention, gradients and hidden states of transformers."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import clearhead
from clearhead.analyse import gradient_rollout, logit_lens, rollout
from tests.support import equal, peer

transformers = peer("transformers")


def shaken(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for name, weight in model.named_parameters():
            norm = any(part in name.lower() for part in ("norm", "ln_")) and name.endswith("weight")
            weight.normal_(1.0 if norm else 0.0, 0.3)
    model.tie_weights()
    return model.eval()


def handed_over(theirs: nn.Module, folder: Path) -> clearhead.models.Model:
    theirs.save_pretrained(folder)
    return clearhead.load(folder, device="cpu")


def relevance(attentions: tuple[Tensor, ...], score: Tensor) -> list[np.ndarray]:
    """R after each layer, in numpy, from their weights and autograd's gradients of them."""
    found = torch.autograd.grad(score, attentions)
    total = np.eye(attentions[0].shape[-1])
    layers = []
    for weights, grads in zip(attentions, found, strict=True):
        positive = np.maximum(0, grads[0].detach().numpy() * weights[0].detach().numpy())
        total = total + positive.mean(axis=0) @ total
        layers.append(total)
    return layers


def assert_same(mine: Tensor, theirs: list[np.ndarray]) -> None:
    for layer, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        assert equal(one, torch.tensor(other)), f"layer {layer}"


SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40}


def test_a_berts_class_rests_on_what_their_gradients_say(tmp_path):
    config = transformers.BertConfig(vocab_size=50, num_labels=4, **SIZES, attn_implementation="eager")
    theirs = shaken(transformers.BertForSequenceClassification(config))
    ids = torch.randint(50, (1, 9))
    result = theirs(ids, output_attentions=True)
    found = gradient_rollout(handed_over(theirs, tmp_path), ids, 2)
    assert_same(found.layers, relevance(result.attentions, result.logits[0, 2]))
    assert abs(found.score - result.logits[0, 2].item()) < 1e-4


def test_a_vits_class_rests_on_what_their_gradients_say_and_rolls_out_alike(tmp_path):
    config = transformers.ViTConfig(
        image_size=12, patch_size=4, num_channels=1, num_labels=4, **SIZES, attn_implementation="eager"
    )
    theirs = shaken(transformers.ViTForImageClassification(config))
    images = torch.randn(1, 1, 12, 12)
    result = theirs(images, output_attentions=True)
    model = handed_over(theirs, tmp_path)
    found = gradient_rollout(model, images)
    assert found.number == result.logits.argmax().item()
    assert_same(found.layers, relevance(result.attentions, result.logits[0, found.number]))
    total, expected = np.eye(10), []
    for weights in result.attentions:
        total = (weights[0].detach().numpy().mean(axis=0) + np.eye(10)) / 2 @ total
        expected.append(total)
    assert_same(rollout(clearhead.record(model, images, sites="*.weights")), expected)


def test_a_gpts_next_token_rests_on_what_their_gradients_say_and_the_lens_reads_their_hidden_states(tmp_path):
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=24, n_layer=3, n_head=3, attn_implementation="eager"
    )
    theirs = shaken(transformers.GPT2LMHeadModel(config))
    ids = torch.randint(50, (1, 7))
    result = theirs(ids, output_attentions=True, output_hidden_states=True)
    model = handed_over(theirs, tmp_path)
    found = gradient_rollout(model, ids, 11)
    assert_same(found.layers, relevance(result.attentions, result.logits[0, -1, 11]))
    lens = logit_lens(model, clearhead.record(model, ids), count=50)
    with torch.no_grad():
        normed = [*(theirs.transformer.ln_f(x) for x in result.hidden_states[:-1]), result.hidden_states[-1]]
        for layer, x in enumerate(normed):
            chances = theirs.lm_head(x)[0].softmax(-1)
            assert equal(lens.probabilities[layer], chances.gather(-1, lens.numbers[layer])), f"layer {layer}"
