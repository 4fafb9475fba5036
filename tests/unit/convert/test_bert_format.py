"""BERT's files as they lie about: old names, copies, left-overs, another task's head; and configs that are refused."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

import clearhead
from clearhead.convert.bert import ARCHITECTURES
from clearhead.errors import ClearheadError
from clearhead.models import Model, create
from clearhead.models.bert import PARTS

SMALL = {"vocab": 101, "context": 12, "width": 24, "layers": 2, "heads": 3}
CONFIG = {
    "model_type": "bert",
    "vocab_size": 101,
    "max_position_embeddings": 12,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 96,
}
CLASSES = {"classify": {"num_classes": 5}, "tag": {"num_classes": 5}}

# The tensors of google-bert/bert-base-uncased's model.safetensors, which its config.json calls a BertForMaskedLM.
# `{}` is a layer. Its pytorch_model.bin has `cls.predictions.decoder.weight` as well.
OFFICIAL = [
    *(f"bert.embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")),
    *("bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.beta"),
    *(f"bert.encoder.layer.{{}}.attention.self.{n}.{w}" for n in ("query", "key", "value") for w in ("weight", "bias")),
    *(f"bert.encoder.layer.{{}}.attention.output.{n}" for n in ("dense.weight", "dense.bias")),
    *(f"bert.encoder.layer.{{}}.attention.output.LayerNorm.{n}" for n in ("gamma", "beta")),
    *(f"bert.encoder.layer.{{}}.intermediate.dense.{n}" for n in ("weight", "bias")),
    *(
        f"bert.encoder.layer.{{}}.output.{n}"
        for n in ("dense.weight", "dense.bias", "LayerNorm.gamma", "LayerNorm.beta")
    ),
    *("bert.pooler.dense.weight", "bert.pooler.dense.bias"),
    *("cls.predictions.bias", "cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias"),
    *("cls.predictions.transform.LayerNorm.gamma", "cls.predictions.transform.LayerNorm.beta"),
    *("cls.seq_relationship.weight", "cls.seq_relationship.bias"),
]


def stirred(task: str | None, **changes: object) -> Model:
    """A small model whose every weight differs from every other."""
    model = create("bert-base", **SMALL, task=task, **CLASSES.get(task, {}), **changes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.2, 0.3)
    return model


def their_tensors(model: Model, folder: Path) -> dict[str, Tensor]:
    """A model's tensors under Hugging Face's names."""
    clearhead.save(model, folder)
    return safetensors.torch.load_file(folder / "model.safetensors")


def written(folder: Path, tensors: dict[str, Tensor], architecture: str | None, **config: object) -> Path:
    folder.mkdir(exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    named = {} if architecture is None else {"architectures": [architecture]}
    (folder / "config.json").write_text(json.dumps(CONFIG | named | config))
    return folder


def official(folder: Path) -> tuple[Model, dict[str, Tensor]]:
    """A small model with both heads of pre-training, and its tensors under the names of Google's first release."""
    model = stirred("pretrain")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = their_tensors(model, folder)
    for new, name in old.items():
        tensors = {key.replace(new, name): tensor for key, tensor in tensors.items()}
    expected = {name.format(layer) for name in OFFICIAL for layer in range(2)}
    assert set(tensors) == expected
    return model, tensors


def refused(folder: Path, **changes: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        clearhead.load(folder, device="cpu", **changes)
    message = str(caught.value)
    assert "\n" not in message
    return message


def parts_equal(a: Model, b: Model, *parts: str) -> bool:
    ours, theirs = dict(a.named_parameters()), dict(b.named_parameters())
    names = [name for name in ours if name.split(".")[0] in ("input", "encoder", *parts)]
    return all(torch.equal(ours[name], theirs[name]) for name in names)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("task", PARTS)
def test_there_and_back_again_is_bit_equal(task, tied, tmp_path):
    model = stirred(task, tied=tied, head_dropout=0.2, ff=40, activation="relu")
    back = clearhead.load(clearhead.save(model, tmp_path), device="cpu")
    assert back.config == model.config
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), back.parameters(), strict=True))
    assert back.origin.notes == ()


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_the_official_file_is_read_as_its_config_says_and_what_else_it_holds_is_said(kind, tmp_path):
    model, tensors = official(tmp_path / "a")
    folder = written(tmp_path / "b", tensors, "BertForMaskedLM", position_embedding_type="absolute", use_cache=True)
    if kind == "bin":
        (folder / "model.safetensors").unlink()
        copy = {"cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"]}
        torch.save(tensors | copy, folder / "pytorch_model.bin")
    read = clearhead.load(folder, device="cpu")
    assert read.config.task == "fill"
    assert parts_equal(read, model, "masked_words")
    assert any(note.endswith("no use for it: next_sentence, pooler") for note in read.origin.notes)


@pytest.mark.parametrize("task", [None, "pretrain", "next-sentence"])
def test_another_task_uses_what_the_official_file_holds_for_it(task, tmp_path):
    model, tensors = official(tmp_path / "a")
    read = clearhead.load(written(tmp_path / "b", tensors, "BertForMaskedLM"), device="cpu", task=task)
    assert parts_equal(read, model, *PARTS[task])
    assert not any("new" in note for note in read.origin.notes)


def test_a_new_classifier_stands_on_the_official_files_own_pooler_and_is_said(tmp_path):
    model, tensors = official(tmp_path / "a")
    folder = written(tmp_path / "b", tensors, "BertForMaskedLM")
    read, again = (clearhead.load(folder, device="cpu", task="classify", num_classes=3) for _ in range(2))
    assert parts_equal(read, model, "pooler")
    assert read.output.weight.shape == (3, 24) and read.output.weight.std() > 0 and not read.output.bias.any()
    assert torch.equal(read.output.weight, again.output.weight)
    assert "new and random, as the weights have none: output" in read.origin.notes
    assert "left out, as the task has no use for it: masked_words, next_sentence" in read.origin.notes


def test_files_without_a_prefix_and_with_position_ids_are_read(tmp_path):
    """As sentence-transformers saves them."""
    model = stirred(None)
    tensors = their_tensors(model, tmp_path / "a") | {"embeddings.position_ids": torch.arange(12)[None]}
    assert "embeddings.word_embeddings.weight" in tensors
    read = clearhead.load(written(tmp_path / "b", tensors, "BertModel"), device="cpu")
    assert parts_equal(read, model, "pooler")
    assert read.origin.notes == ("dropped what this model has no use for: embeddings.position_ids",)


@pytest.mark.parametrize("task", PARTS)
def test_the_prefix_may_be_there_or_not_for_every_task(task, tmp_path):
    model = stirred(task)
    tensors = their_tensors(model, tmp_path / "a")
    bare = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    heads = ("cls.", "classifier.", "qa_outputs.")
    full = {name if name.startswith(heads) else f"bert.{name}": tensor for name, tensor in bare.items()}
    architecture = next(name for name, known in ARCHITECTURES.items() if known == task)
    labels = {"id2label": {str(n): str(n) for n in range(5)}} if task in CLASSES else {}
    for number, named in enumerate((bare, full)):
        read = clearhead.load(written(tmp_path / str(number), named, architecture, **labels), device="cpu")
        assert parts_equal(read, model, *PARTS[task])


def test_a_folder_that_names_no_class_is_read_without_a_head(tmp_path):
    model, tensors = official(tmp_path / "a")
    read = clearhead.load(written(tmp_path / "b", tensors, None), device="cpu")
    assert read.config.task is None and parts_equal(read, model, "pooler")


def test_copies_of_tied_weights_are_dropped_when_equal_and_refused_when_not(tmp_path):
    model = stirred("fill")
    tensors = their_tensors(model, tmp_path / "a")
    table, bias = tensors["bert.embeddings.word_embeddings.weight"], tensors["cls.predictions.bias"]
    copies = {"cls.predictions.decoder.weight": table.clone(), "cls.predictions.decoder.bias": bias.clone()}
    read = clearhead.load(written(tmp_path / "b", tensors | copies, "BertForMaskedLM"), device="cpu")
    assert parts_equal(read, model, "masked_words")
    for name in copies:
        other = tensors | copies | {name: copies[name] + 1}
        assert f"'{name}' should repeat" in refused(written(tmp_path / "c", other, "BertForMaskedLM"))


def test_a_missing_pooler_of_a_plain_model_is_made_new_and_said(tmp_path):
    model = stirred(None)
    tensors = {name: t for name, t in their_tensors(model, tmp_path / "a").items() if "pooler" not in name}
    read = clearhead.load(written(tmp_path / "b", tensors, "BertModel"), device="cpu")
    assert parts_equal(read, model)
    assert read.origin.notes == ("new and random, as the weights have none: pooler",)


def test_a_missing_head_is_an_error_unless_a_new_one_is_asked_for(tmp_path):
    tensors = {name: t for name, t in their_tensors(stirred("tag"), tmp_path / "a").items() if "classifier" not in name}
    folder = written(tmp_path / "b", tensors, "BertForTokenClassification")
    assert refused(folder) == "the weights have no output for task 'tag': give task='tag' for new ones"
    assert clearhead.load(folder, device="cpu", task="tag").origin.notes == (
        "new and random, as the weights have none: output",
    )


def test_half_a_head_is_refused(tmp_path):
    tensors = their_tensors(stirred("fill"), tmp_path / "a")
    del tensors["cls.predictions.transform.LayerNorm.weight"]
    said = "the weights hold only a part of masked_words: masked_words.norm.weight is not there"
    assert refused(written(tmp_path / "b", tensors, "BertForMaskedLM")) == said


def test_a_classifier_of_texts_does_not_become_one_of_tokens(tmp_path):
    folder = clearhead.save(stirred("classify"), tmp_path)
    read = clearhead.load(folder, device="cpu", task="tag")
    assert read.config.num_classes == 5
    assert "new and random, as the weights have none: output" in read.origin.notes


def test_another_number_of_classes_is_a_new_head_on_the_same_pooler(tmp_path):
    model = stirred("classify")
    read = clearhead.load(clearhead.save(model, tmp_path), device="cpu", num_classes=2)
    assert parts_equal(read, model, "pooler") and read.output.bias.shape == (2,)
    assert read.origin.notes == ("new and random, as the weights have none: output",)


def test_classes_asked_of_a_folder_without_a_task_are_refused(tmp_path):
    assert "num_classes goes with task" in refused(clearhead.save(stirred(None), tmp_path), num_classes=2)


def test_a_bare_file_gives_the_head_that_it_holds(tmp_path):
    model = stirred("tag")
    clearhead.save(model, tmp_path)
    file = (tmp_path / "model.safetensors").rename(tmp_path / "weights.safetensors")
    (tmp_path / "config.json").unlink()
    how = {"arch": "bert-base", "device": "cpu", **SMALL}
    read = clearhead.load(file, **how, task="tag", num_classes=5)
    assert parts_equal(read, model, "output") and not any("new" in note for note in read.origin.notes)
    assert "new and random, as the weights have none: pooler" in clearhead.load(file, **how).origin.notes


def test_another_tasks_head_of_the_wrong_type_or_shape_is_refused(tmp_path):
    _, tensors = official(tmp_path / "a")
    whole = tensors | {"bert.pooler.dense.bias": torch.arange(24)}
    assert "bert.pooler.dense.bias holds torch.int64" in refused(written(tmp_path / "b", whole, "BertForMaskedLM"))
    short = tensors | {"bert.pooler.dense.bias": torch.zeros(7)}
    folder = written(tmp_path / "c", short, "BertForMaskedLM")
    assert "pooler.bias" in refused(folder, task=None)


def test_a_spare_classifier_of_no_shape_at_all_is_no_classifier(tmp_path):
    _, tensors = official(tmp_path / "a")
    folder = written(tmp_path / "b", tensors | {"classifier.weight": torch.tensor(1.0)}, "BertForMaskedLM")
    read = clearhead.load(folder, device="cpu", task="classify", num_classes=3)
    assert "new and random, as the weights have none: output" in read.origin.notes


def test_a_lacking_or_unknown_tensor_is_named(tmp_path):
    tensors = their_tensors(stirred(None), tmp_path / "a")
    lacking = {name: t for name, t in tensors.items() if name != "encoder.layer.1.output.dense.bias"}
    assert "lacks encoder.layer.1.output.dense.bias" in refused(written(tmp_path / "b", lacking, "BertModel"))
    unknown = tensors | {"encoder.layer.1.crossattention.self.query.weight": torch.zeros(24, 24)}
    assert "has unknown encoder.layer.1.crossattention" in refused(written(tmp_path / "c", unknown, "BertModel"))


REFUSED = {
    "relative positions": ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'"),
    "a decoder": ({"is_decoder": True}, "is_decoder = True"),
    "cross-attention": ({"add_cross_attention": True}, "add_cross_attention = True"),
    "pruned heads": ({"pruned_heads": {"0": [1]}}, "pruned_heads = {'0': [1]}"),
    "another pooler": ({"pooler_type": "mean"}, "pooler_type = 'mean'"),
    "one direction": ({"directionality": "left"}, "directionality = 'left'"),
    "an unknown field": ({"rope_theta": 1e4}, "does not know the field 'rope_theta'"),
    "an unknown activation": ({"hidden_act": "mish"}, "hidden_act 'mish' is not an activation"),
    "another class": ({"architectures": ["BertForMultipleChoice"]}, "architectures ['BertForMultipleChoice']"),
    "two classes": ({"architectures": ["BertModel", "BertForMaskedLM"]}, "names no BERT that clearhead reads"),
    "a class that is no text": ({"architectures": [["BertModel"]]}, "names no BERT that clearhead reads"),
    "answers with three ends": (
        {"architectures": ["BertForQuestionAnswering"], "num_labels": 3},
        "span answers need 2 labels (start and end), not 3",
    ),
    "labels in a list": ({"id2label": ["a", "b"]}, "id2label must be an object"),
    "a dropout in words": ({"classifier_dropout": "a lot"}, "head_dropout must be at least 0"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED)
def test_a_config_that_means_other_arithmetic_is_refused_by_its_field(fields, message, tmp_path):
    tensors = their_tensors(stirred(None), tmp_path / "a")
    assert message in refused(written(tmp_path / "b", tensors, "BertModel", **fields))


def test_what_google_and_older_transformers_wrote_beside_the_architecture_is_read(tmp_path):
    """Fields of bert-base-cased, bert-base-chinese and of folders that old versions saved."""
    beside = {
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128,
        "pooler_type": "first_token_transform",
        "gradient_checkpointing": False,
        "position_embedding_type": "absolute",
        "classifier_dropout": None,
        "output_past": True,
        "pruned_heads": {},
        "is_decoder": False,
        "pad_token_id": 0,
        "use_cache": True,
    }
    model = stirred(None)
    read = clearhead.load(written(tmp_path / "b", their_tensors(model, tmp_path / "a"), "BertModel", **beside))
    assert parts_equal(read.cpu(), model, "pooler")


def test_the_written_config_names_the_class_of_the_task_and_its_labels(tmp_path):
    for architecture, task in ARCHITECTURES.items():
        clearhead.save(stirred(task), tmp_path)
        said = json.loads((tmp_path / "config.json").read_text())
        assert said["architectures"] == [architecture] and said["model_type"] == "bert"
        assert len(said.get("id2label", {})) == (5 if task in CLASSES else 0)
