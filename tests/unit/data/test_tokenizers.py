"""The tokenizer class and the readers: what they promise, and what they refuse."""

import json
import os

import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors

from clearhead.data import Tokenizer, deck_tokenizer, read_tokenizer, word_tokenizer
from clearhead.data.tokenizers import BYTE_LETTERS
from clearhead.errors import ClearheadError


@pytest.fixture
def byte_files(tmp_path):
    """GPT-2's two files with no merge but one: `h` and `e`."""
    vocabulary = {letter: number for number, letter in enumerate([*BYTE_LETTERS, "he", "<|endoftext|>"])}
    (tmp_path / "encoder.json").write_text(json.dumps(vocabulary))
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\nh e\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def bert():
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "play": 5, "##ing": 6, "we": 7}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return Tokenizer(backend, {role: f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")})


def test_the_letters_for_bytes_are_the_librarys_own():
    assert set(BYTE_LETTERS) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(BYTE_LETTERS.values()) == list(range(256))


def test_a_split_letter_is_shown_by_its_bytes_and_a_space_as_a_space(byte_files):
    tokenizer = read_tokenizer(byte_files)
    ids = tokenizer.ids("he é<|endoftext|>")

    assert tokenizer.tokens("he é<|endoftext|>") == ["he", "Ġ", "Ã", "©", "<|endoftext|>"]
    assert tokenizer.pieces(ids) == ["he", " ", "\\xc3", "\\xa9", "<|endoftext|>"]
    assert tokenizer.text(ids) == "he é"
    assert tokenizer.special == {"bos": 257, "eos": 257}


def test_an_added_token_is_shown_as_it_is_written(byte_files):
    (byte_files / "tokenizer_config.json").write_text(json.dumps({"mask_token": "é"}))
    tokenizer = read_tokenizer(byte_files)

    assert tokenizer.pieces(tokenizer.ids("é")) == ["é"]


def test_a_batch_is_filled_on_the_right_and_says_its_lengths():
    ids, lengths = deck_tokenizer().batch(["This is Computer Vision Class", "I love", ""])

    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.tolist() == [[4, 5, 6, 7, 8], [9, 10, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert lengths.tolist() == [5, 2, 0]


def test_a_batch_without_a_pad_token_is_filled_with_zero():
    ids, lengths = word_tokenizer("a b").batch(["b", "b b"])

    assert ids.tolist() == [[1, 0], [1, 1]]
    assert lengths.tolist() == [1, 2]


def test_an_empty_batch_is_refused():
    with pytest.raises(ClearheadError, match="no texts"):
        deck_tokenizer().batch([])


def test_a_pair_is_one_input_with_its_segments(bert):
    assert bert.ids("we playing") == [2, 7, 5, 6, 3]
    assert bert.ids("we playing", special=False) == [7, 5, 6]
    assert bert.pair("we", "playing") == ([2, 7, 3, 5, 6, 3], [0, 0, 0, 1, 1, 1])


def test_numbers_may_come_in_a_tensor_and_one_outside_the_vocabulary_is_refused():
    tokenizer = word_tokenizer("a b")

    assert tokenizer.text(torch.tensor([1, 0])) == "b a"
    for wrong in (2, -1):
        with pytest.raises(ClearheadError, match=f"no token has the number {wrong}"):
            tokenizer.text([0, wrong])
        with pytest.raises(ClearheadError, match=f"no token has the number {wrong}"):
            tokenizer.pieces([wrong])


def test_text_that_is_no_unicode_is_refused_in_one_line():
    with pytest.raises(ClearheadError, match="half a surrogate pair"):
        deck_tokenizer().ids("I \udce9")


def test_saved_and_read_it_is_the_same_tokenizer(tmp_path):
    saved = deck_tokenizer()
    saved.save(tmp_path / "new")
    read = read_tokenizer(tmp_path / "new")

    assert sorted(os.listdir(tmp_path / "new")) == ["tokenizer.json", "tokenizer_config.json"]
    assert (read.vocabulary, read.special) == (saved.vocabulary, saved.special)
    assert read.ids("This is <pad> Sparta") == saved.ids("This is <pad> Sparta")
    assert read_tokenizer(tmp_path / "new" / "tokenizer.json").special == saved.special


def test_a_limit_that_the_file_remembers_does_not_cut_or_fill_a_text(tmp_path, bert):
    bert.save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {
        "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))

    assert read_tokenizer(tmp_path).ids("we playing") == [2, 7, 5, 6, 3]


@pytest.mark.parametrize(
    ("files", "special"),
    [
        ({}, {"pad": 0, "unk": 1, "bos": 2, "eos": 3}),
        ({"config.json": {"bos_token_id": 3, "eos_token_id": 99}}, {"pad": 0, "unk": 1, "bos": 3, "eos": 3}),
        (
            {"special_tokens_map.json": {"eos_token": {"content": "<pad>"}}, "config.json": {"eos_token_id": 2}},
            {"pad": 0, "unk": 1, "bos": 2, "eos": 0},
        ),
        (
            {"tokenizer_config.json": {"eos_token": "<start>"}, "special_tokens_map.json": {"eos_token": "<pad>"}},
            {"pad": 0, "unk": 1, "bos": 2, "eos": 2},
        ),
    ],
)
def test_roles_come_from_the_files_in_the_stated_order(tmp_path, files, special):
    deck_tokenizer().save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))

    assert read_tokenizer(tmp_path).special == special


def test_a_cache_snapshot_whose_files_are_links_to_blobs_is_read(tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots" / "main").mkdir(parents=True)
    deck_tokenizer().save(tmp_path / "blobs")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "snapshots" / "main" / name).symlink_to(f"../../blobs/{name}")

    assert read_tokenizer(tmp_path / "snapshots" / "main").size == 30


def test_a_path_inside_a_file_is_never_followed(tmp_path):
    deck_tokenizer().save(tmp_path / "model")
    (tmp_path / "secret.json").write_text("{not json")
    config = {"tokenizer_file": "../secret.json", "auto_map": {"AutoTokenizer": ["../secret.py", None]}}
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(config))

    assert read_tokenizer(tmp_path / "model").size == 30


def _drop_merge_token(folder):
    vocabulary = json.loads((folder / "encoder.json").read_text())
    vocabulary["hx"] = vocabulary.pop("he")
    (folder / "encoder.json").write_text(json.dumps(vocabulary))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "encoder.json").unlink(), "has no tokenizer: looked for tokenizer.json"),
        (lambda f: (f / "encoder.json").write_text('{"a": 0'), "encoder.json is not valid JSON"),
        (lambda f: (f / "encoder.json").write_text("[1]"), "encoder.json must hold a JSON object, not a list"),
        (lambda f: (f / "encoder.json").write_bytes(b"\xff\xfe"), "encoder.json is not valid JSON"),
        (lambda f: (f / "encoder.json").write_text('{"a": 1, "b": 1}'), "encoder.json is not a vocabulary"),
        (lambda f: (f / "encoder.json").write_text('{"a": 0, "b": "1"}'), "encoder.json is not a vocabulary"),
        (lambda f: (f / "encoder.json").write_text('{"a</w>": 0}'), "encoder.json is not GPT-2's byte-level form"),
        (lambda f: (f / "encoder.json").write_text("[" * 100000), "encoder.json is nested too deeply"),
        (lambda f: (f / "vocab.bpe").write_text("#version: 0.2\nh e\nh e r\n"), "vocab.bpe line 3 is not a merge"),
        (_drop_merge_token, "vocab.bpe does not fit encoder.json"),
        (lambda f: (f / "config.json").write_text("{"), "config.json is not valid JSON"),
        (lambda f: (f / "tokenizer_config.json").write_text('{"pad_token": "\\ud800"}'), "half a surrogate pair"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.json is not a tokenizer that"),
        (lambda f: (f / "tokenizer.json").write_text('{"version": "1.0'), "tokenizer.json is not a tokenizer that"),
        (lambda f: (f / "tokenizer.json").write_text("[]"), "tokenizer.json is not a tokenizer that"),
        (lambda f: (f / "tokenizer.json").mkdir(), "tokenizer.json can't be read"),
    ],
)
def test_broken_files_are_refused_in_one_line_that_names_them(byte_files, damage, message):
    damage(byte_files)
    with pytest.raises(ClearheadError, match=message) as caught:
        read_tokenizer(byte_files)
    assert str(byte_files) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ClearheadError, match="missing does not exist"):
        read_tokenizer(tmp_path / "missing")


@pytest.mark.parametrize("special_tokens", [{}, {"[X]": {"id": "[X]", "ids": [7], "tokens": ["[X]"]}}])
def test_a_template_with_a_token_that_does_not_exist_is_refused_before_it_is_used(tmp_path, special_tokens):
    word_tokenizer("a b").save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    parts = [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    template = {"type": "TemplateProcessing", "single": parts, "pair": parts, "special_tokens": special_tokens}
    content["post_processor"] = {"type": "Sequence", "processors": [template]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))

    with pytest.raises(ClearheadError, match=r"tokenizer.json puts tokens around a text that it does not have: \[X\]"):
        read_tokenizer(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ClearheadError, match="can't be written"):
        deck_tokenizer().save(tmp_path / "file")
