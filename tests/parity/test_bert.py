"""BERT against transformers: every head's output and every layer's attention weights, from files that they wrote."""

import gc
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.convert.bert import ARCHITECTURES
from clearhead.models import Model, create
from tests.support import equal, peer

transformers = peer("transformers")

ACTIVATIONS = ("gelu", "relu", "gelu_new", "silu", "tanh", "quick_gelu", "gelu_pytorch_tanh")
LENGTHS = torch.tensor([9, 1, 4, 7])


def shaken(model: nn.Module, std: float = 0.3) -> nn.Module:
    """Every weight drawn anew, biases and norms too: as they come, most biases are zero and attention is flat."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if name.endswith("LayerNorm.weight") else 0.0, std)
    model.tie_weights()
    return model.eval()


def built(architecture: str, std: float = 0.3, **fields: object) -> nn.Module:
    """Their model: eager attention, because the fused one returns no weights."""
    config = transformers.BertConfig(**{"vocab_size": 101} | fields, attn_implementation="eager")
    return shaken(getattr(transformers, architecture)(config), std)


def handed_over(theirs: nn.Module, folder: Path) -> Model:
    """Ours, out of the folder that theirs writes."""
    theirs.save_pretrained(folder)
    return clearhead.load(folder, device="cpu")


def drawn(seed: int) -> dict[str, object]:
    """A small config of odd sizes, with every arithmetic field of BERT's drawn at random."""
    roll = random.Random(seed)
    heads = roll.choice([1, 2, 3, 5])
    return {
        "hidden_size": heads * roll.choice([3, 7, 12]),
        "num_attention_heads": heads,
        "num_hidden_layers": roll.choice([1, 2, 3]),
        "max_position_embeddings": roll.choice([9, 16, 21]),
        "intermediate_size": roll.choice([17, 50, 84]),
        "type_vocab_size": roll.choice([2, 3]),
        "hidden_act": ACTIVATIONS[seed % len(ACTIVATIONS)],
        "layer_norm_eps": roll.choice([1e-12, 1e-3, 0.1]),
        "tie_word_embeddings": roll.random() < 0.5,
        "num_labels": 2,
    }


def inputs_of(length: int = 9, segments: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """ids, lengths and segments of four rows, three of them padded."""
    return torch.randint(101, (4, length)), LENGTHS.clamp(max=length), torch.randint(segments, (4, length))


def answer(theirs: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[list[Tensor], list[Tensor]]:
    """(what their model returns, attention weights by layer); the two halves of a span side by side, as ours are."""
    ids, lengths, segments = inputs
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    with torch.no_grad():
        result = theirs(ids, attention_mask=mask, token_type_ids=segments, output_attentions=True)
    outputs = [value for name, value in result.items() if "attentions" not in name]
    return [torch.stack(outputs, -1)] if "start_logits" in result else outputs, list(result.attentions)


def valid(output: Tensor, lengths: Tensor) -> Tensor:
    """What belongs to tokens, or to the whole row where the output has no tokens."""
    if output.ndim < 3:
        return output
    return torch.cat([row[:length] for row, length in zip(output, lengths.tolist(), strict=True)])


def as_list(output: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)


def assert_same(model: Model, theirs: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Ours gives their numbers: recorded and on the fused path, wherever there is a token."""
    outputs, attentions = answer(theirs, inputs)
    lengths = inputs[1]
    trace = clearhead.record(model, inputs, sites="*.attention.weights")
    with torch.no_grad():
        fused = model(*inputs)
    for ours in (trace.output, fused):
        for mine, other in zip(as_list(ours), outputs, strict=True):
            assert equal(valid(mine, lengths), valid(other, lengths))
    assert len(trace) == len(attentions) == model.config.layers
    for layer, (mine, other) in enumerate(zip(trace.values.values(), attentions, strict=True)):
        for row, length in enumerate(lengths.tolist()):
            assert equal(mine[row, :, :length, :length], other[row, :, :length, :length]), f"layer {layer}"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_head_gives_their_output_and_weights_on_padded_rows_of_two_sentences(architecture: str, tmp_path: Path):
    small = {"hidden_size": 21, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 50}
    theirs = built(architecture, **small, max_position_embeddings=9)
    model = handed_over(theirs, tmp_path)
    assert model.config.task == ARCHITECTURES[architecture]
    assert_same(model, theirs, inputs_of())


@pytest.mark.parametrize("seed", range(14))
def test_any_arithmetic_gives_their_output_and_weights(seed: int, tmp_path: Path):
    fields = drawn(seed)
    theirs = built(list(ARCHITECTURES)[seed % len(ARCHITECTURES)], **fields)
    assert_same(handed_over(theirs, tmp_path), theirs, inputs_of(segments=fields["type_vocab_size"]))


def test_the_fields_drawn_do_change_their_numbers():
    """So that the draws above can fail: a field that transformers ignored would prove nothing."""
    small = {"hidden_size": 21, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 50}
    inputs = inputs_of()

    def numbers(**change: object) -> Tensor:
        torch.manual_seed(1)
        return valid(answer(built("BertForMaskedLM", **small | change), inputs)[0][0], LENGTHS)

    base = numbers()
    for change in ({"hidden_act": "relu"}, {"layer_norm_eps": 0.1}, {"tie_word_embeddings": False}):
        assert not equal(numbers(**change), base), change


def test_one_layer_of_one_head_and_one_token_gives_their_output(tmp_path: Path):
    theirs = built("BertModel", hidden_size=7, num_attention_heads=1, num_hidden_layers=1, intermediate_size=5)
    inputs = (torch.tensor([[100]]), torch.tensor([1]), torch.tensor([[1]]))
    assert_same(handed_over(theirs, tmp_path), theirs, inputs)


def test_ids_alone_mean_whole_rows_of_the_first_sentence(tmp_path: Path):
    theirs = built("BertForMaskedLM", hidden_size=21, num_attention_heads=3, num_hidden_layers=2, intermediate_size=50)
    model, (ids, _, _) = handed_over(theirs, tmp_path), inputs_of()
    with torch.no_grad():
        assert equal(model(ids), theirs(ids).logits)


@pytest.mark.parametrize("classes", [1, 5])
@pytest.mark.parametrize("architecture", ["BertForSequenceClassification", "BertForTokenClassification"])
def test_classes_and_regression_give_their_output(architecture: str, classes: int, tmp_path: Path):
    theirs = built(architecture, hidden_size=21, num_attention_heads=3, num_hidden_layers=1, num_labels=classes)
    model = handed_over(theirs, tmp_path)
    assert model.config.num_classes == classes
    assert_same(model, theirs, inputs_of())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_folders_that_we_write_load_there_with_no_key_missing_and_equal_output(
    architecture: str, tied: bool, tmp_path: Path
):
    task = ARCHITECTURES[architecture]
    classes = {"num_classes": 3} if task in ("classify", "tag") else {}
    model = create("bert-base", **SMALL, task=task, tied=tied, seed=0, **classes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.2, 0.3)
    clearhead.save(model, tmp_path)
    theirs, report = getattr(transformers, architecture).from_pretrained(
        tmp_path, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(report.values()), report
    assert type(transformers.AutoConfig.from_pretrained(tmp_path)).__name__ == "BertConfig"
    assert_same(model, theirs.eval(), inputs_of())


SMALL = {"vocab": 101, "context": 12, "width": 21, "layers": 2, "heads": 3, "ff": 50, "activation": "gelu-tanh"}


def test_the_published_size_in_full_gives_their_output_and_weights(tmp_path: Path):
    model = create("bert-base", seed=0, device="cpu")
    clearhead.save(model, tmp_path)
    theirs = transformers.BertModel.from_pretrained(tmp_path, attn_implementation="eager")
    assert sum(weight.numel() for weight in theirs.parameters()) == model.parameter_count
    ids = torch.randint(30522, (2, 24))
    assert_same(model, theirs.eval(), (ids, torch.tensor([24, 13]), torch.randint(2, (2, 24))))
    del theirs
    gc.collect()


@pytest.mark.large
def test_bert_large_in_full_gives_their_output_and_weights(tmp_path: Path):
    model = create("bert-large", seed=0, device="cpu", task="pretrain")
    clearhead.save(model, tmp_path)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path, attn_implementation="eager")
    assert_same(model, theirs.eval(), (torch.randint(30522, (1, 40)), torch.tensor([40]), torch.randint(2, (1, 40))))


def test_training_steps_with_the_same_weights_give_the_same_gradients(tmp_path: Path):
    fields = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "hidden_size": 21}
    theirs = built("BertForMaskedLM", **fields, num_attention_heads=3, num_hidden_layers=2, intermediate_size=50)
    model, (ids, lengths, segments) = handed_over(theirs, tmp_path), inputs_of()
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    valid(model.train()(ids, lengths, segments), lengths).logsumexp(-1).sum().backward()
    logits = theirs.train()(ids, attention_mask=mask, token_type_ids=segments).logits
    valid(logits, lengths).logsumexp(-1).sum().backward()
    pairs = {
        "input.tokens.weight": "bert.embeddings.word_embeddings.weight",
        "input.segments.weight": "bert.embeddings.token_type_embeddings.weight",
        "encoder.blocks.1.feed_forward.up.weight": "bert.encoder.layer.1.intermediate.dense.weight",
        "masked_words.bias": "cls.predictions.bias",
    }
    for ours, name in pairs.items():
        mine, other = model.get_parameter(ours).grad, theirs.get_parameter(name).grad
        if ours == "input.tokens.weight":
            mine, other = mine[1:], other[1:]  # theirs gives no gradient to the row of their padding token
        assert equal(mine, other), ours
