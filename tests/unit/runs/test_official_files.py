"""Official files carry old names and left-overs: they are mapped or dropped by a list, and what was dropped is said."""

import json
import logging
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import clearhead
from clearhead import ClearheadError
from tests.unit.runs import official
from tests.unit.runs.official import CONTEXT, GPT1_CONFIG, GPT2_CONFIG, LAYERS, VIT_CONFIG, WIDTH, drawn, write_folder

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
PICTURES = torch.linspace(-1, 1, 2 * 3 * 12 * 12).reshape(2, 3, 12, 12)


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (official.gpt2, 160),
        (official.gpt2_of_transformers_4, 173),
        (official.gpt1, 158),
        (official.vit, 200),
        (official.vit_in21k, 200),
        (official.timm_vit, 152),
    ],
)
def test_the_lists_have_as_many_names_as_the_files_of_twelve_layers(names, count):
    assert len(names(12)) == count


def test_gpt2_without_prefix_and_with_its_masks_loads_and_says_what_was_dropped(tmp_path: Path, caplog):
    tensors = drawn(official.gpt2())
    with caplog.at_level(logging.WARNING, "clearhead"):
        model = clearhead.load(write_folder(tmp_path, GPT2_CONFIG, tensors), device="cpu")
    said = f"dropped what this model has no use for: h.0.attn.bias and {LAYERS - 1} more like it"
    assert model.origin.notes == (said,)
    assert caplog.messages == [f"{tmp_path}: {said}"]
    assert torch.equal(model.decoder.blocks[1].attention.qkv.weight, tensors["h.1.attn.c_attn.weight"].T)
    assert torch.equal(model.decoder.blocks[1].feed_forward.down.bias, tensors["h.1.mlp.c_proj.bias"])
    assert torch.equal(model.decoder.norm.weight, tensors["ln_f.weight"])
    assert model.output is None


def test_an_old_pickle_with_prefix_masks_and_a_copy_of_the_table_gives_the_same_model(tmp_path: Path):
    plain = clearhead.load(write_folder(tmp_path / "new", GPT2_CONFIG, drawn(official.gpt2())), device="cpu")
    tensors = drawn(official.gpt2_of_transformers_4())
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
    old = tmp_path / "old"
    old.mkdir()
    (old / "config.json").write_text(json.dumps(GPT2_CONFIG))
    torch.save(tensors, old / "pytorch_model.bin")
    model = clearhead.load(old, device="cpu")
    assert model.origin.notes[-1].endswith(f"transformer.h.0.attn.bias and {2 * LAYERS - 1} more like it")
    assert torch.equal(model(IDS), plain(IDS))


def test_a_copy_of_the_tied_table_that_differs_is_an_error_and_untying_mends_it(tmp_path: Path):
    tensors = drawn(official.gpt2_of_transformers_4())
    with pytest.raises(ClearheadError, match=r"'lm_head.weight' should repeat 'transformer.wte.weight'.* untie them"):
        clearhead.load(write_folder(tmp_path, GPT2_CONFIG, tensors), device="cpu")
    untied = write_folder(tmp_path, GPT2_CONFIG | {"tie_word_embeddings": False}, tensors)
    assert torch.equal(clearhead.load(untied, device="cpu").output.weight, tensors["lm_head.weight"])


def test_gpt1_without_prefix_and_with_its_masks_loads_and_says_what_was_dropped(tmp_path: Path):
    tensors = drawn(official.gpt1())
    model = clearhead.load(write_folder(tmp_path, GPT1_CONFIG, tensors), device="cpu")
    assert len(model.origin.notes) == 1
    assert (model.config.norm, model.config.final_norm) == ("post", False)
    assert torch.equal(model.input.positions.weight, tensors["positions_embed.weight"])
    assert torch.equal(model.decoder.blocks[0].attention_norm.bias, tensors["h.0.ln_1.bias"])


def test_a_vit_classifier_loads_with_nothing_to_say(tmp_path: Path):
    tensors = drawn(official.vit())
    model = clearhead.load(write_folder(tmp_path, VIT_CONFIG, tensors), device="cpu")
    assert model.origin.notes == ()
    query, key, value = model.encoder.blocks[1].attention.qkv.weight.chunk(3)
    at = "vit.encoder.layer.1.attention.attention"
    assert torch.equal(query, tensors[f"{at}.query.weight"])
    assert torch.equal(key, tensors[f"{at}.key.weight"])
    assert torch.equal(value, tensors[f"{at}.value.weight"])
    patches = tensors["vit.embeddings.patch_embeddings.projection.weight"]
    assert torch.equal(model.input.project.weight, patches.reshape(WIDTH, 48))


def test_a_vit_of_imagenet_21k_has_a_pooler_to_drop_and_needs_a_new_head(tmp_path: Path):
    config = {name: value for name, value in VIT_CONFIG.items() if name not in ("id2label", "label2id")}
    write_folder(tmp_path / "in21k", config | {"architectures": ["ViTModel"]}, drawn(official.vit_in21k()))
    with pytest.raises(ClearheadError, match="no classification head: give num_classes=N"):
        clearhead.load(tmp_path / "in21k", device="cpu")
    for classes in (2, 10):  # 2 is also what a config without labels means
        model = clearhead.load(tmp_path / "in21k", num_classes=classes, device="cpu")
        assert model.origin.notes == (
            "dropped what this model has no use for: pooler.dense.bias and 1 more like it",
            f"a new head of zeros for {classes} classes (the file has none)",
        )
    classifier = clearhead.load(write_folder(tmp_path / "ft", VIT_CONFIG, drawn(official.vit())), device="cpu")
    assert torch.equal(model.hidden(PICTURES), classifier.hidden(PICTURES))


def test_a_timm_file_loads_by_the_name_of_its_architecture(tmp_path: Path):
    tensors = drawn(official.timm_vit())
    save_file(tensors, tmp_path / "vit.safetensors")
    model = clearhead.load(
        tmp_path / "vit.safetensors", arch="vit-ti16", width=WIDTH, layers=LAYERS, patch=4, device="cpu"
    )
    assert (model.config.image, model.config.num_classes, model.origin.notes) == ((12, 12), 3, ())
    assert torch.equal(model.encoder.blocks[0].attention.qkv.weight, tensors["blocks.0.attn.qkv.weight"])
    assert torch.equal(model.output.bias, tensors["head.bias"])


def test_shards_give_the_same_model_as_one_file(tmp_path: Path):
    tensors = drawn(official.gpt2())
    whole = clearhead.load(write_folder(tmp_path / "whole", GPT2_CONFIG, tensors), device="cpu")
    shards = tmp_path / "shards"
    shards.mkdir()
    (shards / "config.json").write_text(json.dumps(GPT2_CONFIG))
    names = sorted(tensors)
    places = {}
    for number, part in enumerate((names[::3], names[1::3], names[2::3]), start=1):
        file = f"model-{number:05}-of-00003.safetensors"
        save_file({name: tensors[name] for name in part}, shards / file)
        places |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": places}
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))
    model = clearhead.load(shards, device="cpu")
    assert torch.equal(model(IDS), whole(IDS))


@pytest.mark.skipif(os.name != "posix", reason="links need special rights elsewhere")
def test_a_snapshot_of_a_hub_cache_loads_through_its_links_to_blobs(tmp_path: Path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0123abcd"
    plain = write_folder(tmp_path / "plain", GPT2_CONFIG, drawn(official.gpt2()))
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(plain.iterdir())):
        (blobs / f"{number:040}").write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(Path("..") / ".." / "blobs" / f"{number:040}")
    model = clearhead.load(snapshot, device="cpu")
    assert torch.equal(model(IDS), clearhead.load(plain, device="cpu")(IDS))


def test_a_file_in_half_precision_becomes_float32_unless_asked_to_stay(tmp_path: Path):
    tensors = {name: tensor.bfloat16() for name, tensor in drawn(official.gpt2()).items()}
    folder = write_folder(tmp_path, GPT2_CONFIG, tensors)
    assert clearhead.load(folder, device="cpu").dtype == torch.float32
    kept = clearhead.load(folder, device="cpu", dtype="auto")
    assert {parameter.dtype for parameter in kept.parameters()} == {torch.bfloat16}
    assert torch.equal(kept.input.tokens.weight, tensors["wte.weight"])
    assert clearhead.load(folder, device="cpu", dtype="float16").dtype == torch.float16


def test_a_loaded_model_is_in_eval_mode_can_be_trained_and_leaves_the_file_alone(tmp_path: Path):
    folder = write_folder(tmp_path, GPT2_CONFIG, drawn(official.gpt2()))
    before = (folder / "model.safetensors").read_bytes()
    model = clearhead.load(folder, device="cpu")
    assert not model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    model(IDS[:, :CONTEXT]).square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= parameter.grad
    assert (folder / "model.safetensors").read_bytes() == before
