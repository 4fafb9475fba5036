"""Class names: they survive load, save and convert, and transformers reads them where we write them."""

import json
from pathlib import Path

import pytest

import clearhead
from clearhead import ClearheadError
from clearhead.models import FAMILIES, Model
from clearhead.runs.convert import convert
from clearhead.runs.labels import Labels, labels, name_classes
from tests.support import peer

NAMES = ("cat", "big dog", "राम", "crane", "crane")  # two classes of ImageNet have one name


def small(family: str, **changes: object) -> Model:
    kind = FAMILIES[family]
    model = kind.model(kind.shrunken.with_changes(**changes))
    model.initialise()
    return model


def bert(classes: int | None = 5, task: str | None = "classify") -> Model:
    return small("bert", task=task, num_classes=classes)


def config(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def rewritten(folder: Path, **values: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config(folder) | values))
    return folder


@pytest.mark.parametrize("model", [bert(), small("vit"), small("vit", pooling="mean")], ids=["bert", "vit", "own form"])
def test_names_come_back_from_a_folder_as_often_as_it_is_written(model, tmp_path):
    name_classes(model, NAMES)
    clearhead.save(model, tmp_path / "a")
    clearhead.save(clearhead.load(tmp_path / "a", device="cpu"), tmp_path / "b")
    assert labels(clearhead.load(tmp_path / "b", device="cpu")) == Labels(NAMES)
    assert config(tmp_path / "a") == config(tmp_path / "b")


def test_what_kind_of_question_it_is_is_kept_with_the_names(tmp_path):
    model = bert()
    name_classes(model, NAMES, "multi_label_classification")
    clearhead.save(model, tmp_path / "a")
    again = clearhead.load(tmp_path / "a", device="cpu")
    clearhead.save(again, tmp_path / "b")
    assert config(tmp_path / "b")["problem_type"] == "multi_label_classification" == labels(again).problem


def test_transformers_reads_the_names_that_we_write_and_we_read_its(tmp_path):
    transformers = peer("transformers")
    model = bert()
    name_classes(model, NAMES)
    theirs = transformers.BertForSequenceClassification.from_pretrained(clearhead.save(model, tmp_path / "a"))
    assert theirs.config.id2label == dict(enumerate(NAMES))
    theirs.save_pretrained(tmp_path / "b")
    assert labels(clearhead.load(tmp_path / "b", device="cpu")).names == NAMES


def test_nameless_classes_are_numbered_as_transformers_numbers_them(tmp_path):
    model = bert(3)
    assert labels(model).names == ("LABEL_0", "LABEL_1", "LABEL_2")
    clearhead.save(model, tmp_path)
    assert config(tmp_path)["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}


def test_new_classes_have_no_old_names(tmp_path):
    model = bert()
    name_classes(model, NAMES)
    folder = clearhead.save(model, tmp_path)
    fewer = clearhead.load(folder, device="cpu", task="classify", num_classes=2)
    assert labels(fewer).names == ("LABEL_0", "LABEL_1")
    tags = clearhead.load(folder, device="cpu", task="tag", num_classes=5)
    assert labels(tags).names[0] == "LABEL_0"
    assert labels(clearhead.load(folder, device="cpu", dropout=0.5)).names == NAMES


def test_a_model_without_classes_has_no_names(tmp_path):
    with pytest.raises(ClearheadError, match="has no classes"):
        labels(bert(None, "fill"))
    with pytest.raises(ClearheadError, match="has no classes"):
        labels(small("gpt"))


@pytest.mark.parametrize("said", [{"1": "a", "2": "b"}, {"0": "a", "x": "b"}, {"0": "a", "1": ["b"]}])
def test_names_that_do_not_fit_are_left_out_and_that_is_said(said, tmp_path):
    folder = rewritten(clearhead.save(bert(2), tmp_path), id2label=said)
    model = clearhead.load(folder, device="cpu")
    assert labels(model).names == ("LABEL_0", "LABEL_1")
    assert any("class names left out" in note and "\n" not in note for note in model.origin.notes)


@pytest.mark.parametrize("names", [NAMES[:2], (*NAMES, "more")])
def test_a_wrong_number_of_names_is_refused(names):
    with pytest.raises(ClearheadError, match=f"5 classes, and {len(names)} names"):
        name_classes(bert(), names)


def test_an_unknown_kind_of_question_is_refused():
    with pytest.raises(ClearheadError, match="problem must be one of"):
        name_classes(bert(), NAMES, "ranking")


@pytest.mark.parametrize("to", ["hf", "clearhead"])
def test_converting_keeps_the_names_there_and_back(to, tmp_path):
    model = small("vit")
    name_classes(model, NAMES)
    clearhead.save(model, tmp_path / "a")
    convert(tmp_path / "a", tmp_path / "b", to=to)
    convert(tmp_path / "b", tmp_path / "c", to="hf")
    for place in "bc":
        assert labels(clearhead.load(tmp_path / place, device="cpu")).names == NAMES
    assert config(tmp_path / "a") == config(tmp_path / "c")


def test_timms_names_are_read_and_become_hugging_faces(tmp_path):
    timm = peer("timm")
    from safetensors.torch import save_file

    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=3, img_size=32)
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    about = {"architecture": "vit_tiny_patch16_224", "num_classes": 3, "label_names": ["a", "b", "c"]}
    about |= {"model_args": {"img_size": 32}, "pretrained_cfg": {"input_size": [3, 32, 32]}}
    (tmp_path / "config.json").write_text(json.dumps(about))
    assert labels(clearhead.load(tmp_path, device="cpu")).names == ("a", "b", "c")
    convert(tmp_path, tmp_path / "hf")
    assert config(tmp_path / "hf")["id2label"] == {"0": "a", "1": "b", "2": "c"}
