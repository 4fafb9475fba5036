"""The Transformer against transformers' Marian: logits, and every layer's weights in all three kinds of attention."""

import random
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.models import Model, create
from tests.support import equal, peer

transformers = peer("transformers")

ACTIVATIONS = ("swish", "relu", "gelu", "gelu_new", "silu", "tanh", "quick_gelu")
# (shared, tied, has a vocabulary of its own): every way in which transformers joins the three tables
TABLES = ((True, True, False), (False, True, False), (False, False, True), (True, False, False), (False, True, True))
SMALL = {
    "vocab_size": 101,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 16,
    "pad_token_id": 100,
    "decoder_start_token_id": 100,
    "scale_embedding": True,
}


def built(**fields: object) -> nn.Module:
    """Their model, every weight drawn anew: as they come, biases and the bias of the logits are zero.

    Wider than 1/sqrt(width) and attention is so sharp that their own fp32 leaves their fp64 by more than the tolerance.
    """
    model = transformers.MarianMTModel(transformers.MarianConfig(**SMALL | fields, attn_implementation="eager"))
    std = model.config.d_model**-0.5
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), ("bias", model.final_logits_bias)]:
            if "embed_positions" not in name:
                weight.normal_(1.0 if "norm.weight" in name else 0.0, std)
    return model.eval()


def handed_over(theirs: nn.Module, folder: Path) -> Model:
    """Ours, out of the folder that theirs writes."""
    theirs.save_pretrained(folder)
    return clearhead.load(folder, device="cpu")


def batch(theirs: nn.Module, rows: int = 4, source: int = 9, target: int = 7) -> tuple[Tensor, ...]:
    """Sources and targets of many lengths, padded at their right, and the lengths."""
    config = theirs.config
    ids = torch.randint(config.vocab_size, (rows, source)), torch.randint(config.decoder_vocab_size, (rows, target))
    return *ids, torch.randint(1, source + 1, (rows,)), torch.randint(1, target + 1, (rows,))


def assert_same(model: Model, theirs: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Ours gives their numbers, recorded and on the fused path, wherever there is a token."""
    source, target, source_lengths, target_lengths = inputs
    with torch.no_grad():
        answer = theirs(
            source,
            (torch.arange(source.shape[1]) < source_lengths[:, None]).long(),
            target,
            (torch.arange(target.shape[1]) < target_lengths[:, None]).long(),
            output_attentions=True,
        )
        fused = model(*inputs)
    trace = clearhead.record(model, inputs, sites="*.weights")
    kinds = {
        "encoder.blocks.*.attention.weights": answer.encoder_attentions,
        "decoder.blocks.*.attention.weights": answer.decoder_attentions,
        "decoder.blocks.*.cross.weights": answer.cross_attentions,
    }
    for row, (read, written) in enumerate(zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)):
        assert equal(trace.output[row, :written], answer.logits[row, :written])
        assert equal(fused[row, :written], answer.logits[row, :written])
        for kind, attentions in kinds.items():
            queries = read if kind.startswith("encoder") else written
            ours = list(trace.matching(kind).values())
            for layer, (mine, other) in enumerate(zip(ours, attentions, strict=True)):
                assert equal(mine[row, :, :queries], other[row, :, :queries]), f"{kind}, layer {layer}"


def drawn(seed: int) -> dict[str, object]:
    """A small config of odd sizes, with every arithmetic field drawn at random."""
    roll = random.Random(seed)
    heads, more_heads = roll.choice([(1, 3), (2, 2), (3, 1), (3, 3), (5, 5)])
    shared, tied, own = TABLES[seed % len(TABLES)]
    return {
        "d_model": heads * more_heads * roll.choice([3, 7, 12]),
        "encoder_layers": roll.choice([1, 2, 3]),
        "decoder_layers": roll.choice([1, 2, 3]),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": more_heads,
        "encoder_ffn_dim": roll.choice([17, 50]),
        "decoder_ffn_dim": roll.choice([17, 31]),
        "activation_function": ACTIVATIONS[seed % len(ACTIVATIONS)],
        "scale_embedding": roll.random() < 0.5,
        "max_position_embeddings": roll.choice([9, 16, 21]),
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": tied,
        "decoder_vocab_size": 67 if own else None,
        "pad_token_id": 66,
        "decoder_start_token_id": 66,
    }


@pytest.mark.parametrize("seed", range(15))
def test_any_arithmetic_gives_their_logits_and_weights_with_padding_on_both_sides(seed: int, tmp_path: Path):
    theirs = built(**drawn(seed))
    assert_same(handed_over(theirs, tmp_path), theirs, batch(theirs))


@pytest.mark.parametrize("change", [{"activation_function": "relu"}, {"scale_embedding": False}])
def test_the_fields_drawn_do_change_their_numbers(change: dict):
    """So that the draws above can fail: a field that transformers ignored would prove nothing."""
    logits = []
    for fields in ({}, change):
        torch.manual_seed(7)
        theirs = built(**fields)
        inputs = batch(theirs)
        logits.append(theirs(inputs[0], None, inputs[1]).logits)
    assert not equal(*logits)


@pytest.mark.parametrize(
    "changes",
    [
        {"tied": "all"},
        {"tied": "decoder", "target_vocab": 67},
        {"tied": "none", "output_bias": False, "activation": "silu", "decoder_layers": 1, "decoder_heads": 2},
        {"tied": "none", "embedding_scaled": False, "decoder_ff": 11, "pad_token": 3, "start_token": 3, "end_token": 0},
    ],
)
def test_a_folder_of_ours_loads_in_transformers_with_nothing_missing_or_unexpected(changes: dict, tmp_path: Path):
    sayable = {"half_split": True, "output_bias": True, "vocab": 101, "context": 16}
    model = create("transformer-tiny", device="cpu", seed=1, width=36, heads=3, layers=2, **sayable | changes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    clearhead.save(model, tmp_path)
    theirs, report = transformers.MarianMTModel.from_pretrained(
        tmp_path, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(report.values()), report
    assert_same(model, theirs.eval(), batch(theirs))
    again = clearhead.load(tmp_path, device="cpu")
    assert again.config == model.config
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


def test_transformers_chooses_the_class_from_a_folder_of_ours_and_decodes_the_same_words(tmp_path: Path):
    theirs = built(eos_token_id=0, forced_eos_token_id=0, encoder_layers=1)
    ours = handed_over(theirs, tmp_path / "theirs")
    clearhead.save(ours, tmp_path / "ours")
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours").eval()
    source, *_ = batch(theirs)
    how = {"max_new_tokens": 6, "num_beams": 1, "do_sample": False}
    assert torch.equal(again.generate(source, **how), theirs.generate(source, **how))


def test_half_precision_files_with_every_copy_of_a_table_and_the_sinusoids_are_read(tmp_path: Path):
    """The state as it is in memory, which is what pytorch_model.bin files on the hub hold."""
    theirs = built()
    theirs.config.save_pretrained(tmp_path)
    torch.save({name: tensor.half() for name, tensor in theirs.state_dict().items()}, tmp_path / "pytorch_model.bin")
    model = clearhead.load(tmp_path, device="cpu")
    with torch.no_grad():
        theirs.half().float()  # the same rounding; its sinusoids are computed anew, as ours are
        for side in (theirs.model.encoder, theirs.model.decoder):
            side.embed_positions.weight.copy_(side.embed_positions.create_weight())
    assert_same(model, theirs, batch(theirs))


def test_transformer_base_in_full_with_marians_bias_and_sinusoids(tmp_path: Path):
    model = create("transformer-base", device="cpu", seed=0, half_split=True, output_bias=True)
    with torch.no_grad():
        model.output_bias.normal_()
    try:
        clearhead.save(model, tmp_path)
        theirs = transformers.MarianMTModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
        assert_same(model, theirs, batch(theirs, rows=2, source=33, target=21))
    finally:
        shutil.rmtree(tmp_path)  # pytest would keep 250 MB
