"""Folders without a tokenizer.json, T5's, Marian's, GPT's and BERT's, give transformers' numbers in many languages.

The SentencePiece models are trained here, small ones, on sentences put together from the words below.
"""

import gzip
import io
import json
import os
import random
from itertools import islice
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from clearhead.data import read_tokenizer
from clearhead.data.piece_model import parse_piece_model
from clearhead.errors import ClearheadError
from tests.support import peer

SENTENCES = {
    "eng": "The quick brown fox jumps over the lazy dog, and nobody knows why it isn't tired of jumping yet.",
    "deu": "Über den Dächern flog ein größerer Vogel; niemand weiß, ob er müde war oder bloß Straßen zählte.",
    "fra": "L'été dernier, où étiez-vous ? Ça m'était égal : « nous n'avons rien vu » à l'œuvre, même là-bas.",
    "ces": "Příliš žluťoučký kůň úpěl ďábelské ódy, a nikdo neví, proč se ještě neunavil skákáním.",
    "hin": "यह तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर से कूदती है, और कोई नहीं जानता कि वह थकी क्यों नहीं।",
    "nep": "छिटो खैरो फ्याउरो अल्छी कुकुरमाथि उफ्रन्छ, र ऊ किन थाकेन भन्ने कसैलाई थाहा छैन।",
}
AWKWARD = [
    *SENTENCES.values(),
    "",
    " ",
    "   leading, trailing   and   inner   spaces   ",
    "tab\there, line\r\nbreak, \u2028 \u00a0no-break\u3000wide\u200bnothing\u00adsoft",
    "Ünïcödé e\u0301 o\u0308 ﬁ ﬂ ½ ㎏ ① Ⅳ ﷽ ａｂｃ ＜/s＞ ～ 〜",
    "न\u093c क\u093c क़ ड़ ढ़ ऩ र् क्ष त्र ज्ञ श्र ५६७ ॥ ॐ \u200d \u200c",
    "!!!!!!! ........ ======= hahahahaha aaaaaaaaaaaaaaa tototototo",
    "你好，世界 привет мир مرحبا 한국어 \u1112\u1161\u11ab 👩‍👩‍👧 🇳🇵",
    "the你好dog the न dog न नम नमस्ते",
    "▁ ▁▁the ▁dog▁ dog ▁",
    "\x00\x01\x07\x7f\x85\ufeff\ufffd\ue000",
    "</s> the <unk> dog<pad>fox </s></s> < /s> <s>",
    "<extra_id_0> the <extra_id_99><extra_id_5> <extra_id_100>",
    ">>fra<< the dog >>deu<< fox",
    ">>xyz<<the dog </s> >>fra<< fox </s>>>fra<<fox >>fra",
    "<user> the<user>dog",
    "x" * 300,
    "don't DON'T 'S 3.14159 1,000,000 e-mail@x.org #tag $5 a/b\\c",
]


def mixed(languages: list[str], count: int) -> list[str]:
    """Lines of words of these languages, in any order."""
    roll = random.Random(0)
    words = [SENTENCES[language].split() for language in languages]
    return [" ".join(roll.choices(roll.choice(words), k=roll.randrange(3, 15))) for _ in range(count)]


def lines() -> list[str]:
    """The first lines of the texts in the folder that CLEARHEAD_DATA names, 500 to 2,000 of every language."""
    place = os.environ.get("CLEARHEAD_DATA")
    if not place:
        pytest.skip("reads lines from the folder that CLEARHEAD_DATA names, and it names none")
    files = sorted((Path(place) / "ntrex").glob("newstest2019-*.txt"))
    files += sorted((Path(place) / "flores_v1").glob("wikipedia.dev.ne-en.[en][en]"))
    files += sorted((Path(place) / "multi30k").rglob("val.??.gz"))
    if not files:
        pytest.skip("CLEARHEAD_DATA names a folder without ntrex, flores_v1 and multi30k")
    found: list[str] = []
    for file in files:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as opened:
            found += islice((line.rstrip("\n") for line in opened), 500)
    return found


def trained(texts: list[str], **options: object) -> bytes:
    """A SentencePiece model of at most 500 pieces."""
    written = io.BytesIO()
    peer("sentencepiece").SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        num_threads=1,
        minloglevel=2,
        hard_vocab_limit=False,
        **{"vocab_size": 500, "model_type": "unigram", "normalization_rule_name": "nmt_nfkc"} | options,
    )
    return written.getvalue()


T5_IDS = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
T5_KINDS = {
    "as published": ({}, None),
    "config as published": ({}, {"extra_ids": 100, "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}),
    "no extra tokens": ({}, {"extra_ids": 0}),
    "symbols of its own": ({"user_defined_symbols": ["<user>"], "control_symbols": ["<control>"]}, None),
    "bytes at its end": ({"byte_fallback": True}, None),
}


def t5_folder(folder: Path, options: dict, config: dict | None) -> Path:
    pytest.importorskip(
        "google.protobuf", reason="transformers reads spiece.model with protobuf, which isn't installed"
    )
    (folder / "spiece.model").write_bytes(trained(mixed(list(SENTENCES), 400), **T5_IDS, **options))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", **config}))
    return folder


@pytest.mark.parametrize(("options", "config"), T5_KINDS.values(), ids=T5_KINDS)
def test_a_spiece_model_becomes_part_for_part_the_tokenizer_that_transformers_makes_of_it(options, config, tmp_path):
    t5_folder(tmp_path, options, config)
    theirs = peer("transformers").T5Tokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)

    assert json.loads(ours._backend.to_str()) == json.loads(theirs._tokenizer.to_str())
    assert ours.special == {"pad": theirs.pad_token_id, "unk": theirs.unk_token_id, "eos": theirs.eos_token_id}
    for text in AWKWARD:
        ids = ours.ids(text)
        assert ids == theirs(text)["input_ids"], text
        assert ours.text(ids) == theirs.decode(ids, skip_special_tokens=True), text
    assert ours.pair("a dog", "the fox")[0] == theirs("a dog", "the fox")["input_ids"]


def test_t5s_numbers_of_thousands_of_lines_in_six_languages_are_theirs(tmp_path):
    texts = lines()
    t5_folder(tmp_path, {}, None)
    theirs = peer("transformers").T5Tokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)
    assert ours.size == len(theirs)
    assert [ours.ids(text) for text in texts] == theirs(texts)["input_ids"]


def test_a_t5_tokenizer_that_we_write_is_read_by_transformers(tmp_path):
    ours = read_tokenizer(t5_folder(tmp_path, {}, None))
    ours.save(tmp_path / "written")
    theirs = peer("transformers").AutoTokenizer.from_pretrained(tmp_path / "written")
    for text in AWKWARD:
        assert ours.ids(text) == theirs(text)["input_ids"], text


def test_our_reading_of_a_model_file_is_that_of_its_own_library():
    content = trained(mixed(["deu", "hin"], 300), user_defined_symbols=["<user>"])
    library = peer("sentencepiece").SentencePieceProcessor(model_proto=content)
    model = parse_piece_model(content)
    assert [piece.text for piece in model.pieces] == [library.id_to_piece(n) for n in range(library.get_piece_size())]
    assert [piece.score for piece in model.pieces] == [library.get_score(n) for n in range(library.get_piece_size())]
    assert model.unknown == library.unk_id()
    assert len(model.charsmap) > 100_000


def numbered(spms: list[bytes], left_out: int = 0, most: int | None = None) -> dict[str, int]:
    """Marian's list: </s> and <unk>, the pieces of the models shuffled, and <pad> last."""
    pieces = list(dict.fromkeys(piece.text for spm in spms for piece in parse_piece_model(spm).pieces[3:]))
    random.Random(0).shuffle(pieces)
    tokens = ["</s>", "<unk>", ">>fra<<", ">>deu<<", *pieces[left_out:most], "<pad>"]
    return {token: number for number, token in enumerate(tokens)}


MARIAN_KINDS = {
    "as published": ({}, {}),
    "pieces that the list lacks": ({"left_out": 60}, {}),
    "a list for each side": ({}, {"separate_vocabs": True}),
    "byte pairs": ({"model_type": "bpe", "normalization_rule_name": "identity"}, {}),
}


def marian_folder(folder: Path, options: dict, config: dict) -> Path:
    """English and French on the one side, Hindi and German on the other, in files as transformers writes them."""
    training = {name: value for name, value in options.items() if name != "left_out"}
    spms = [trained(mixed(languages, 400), **training) for languages in (["eng", "fra"], ["hin", "deu"])]
    if "separate_vocabs" in config:  # of one length: theirs gives <pad> the source's number on both sides
        lists = [numbered([spm], most=60) for spm in spms]
    else:
        lists = [numbered(spms, options.get("left_out", 0))]
    (folder / "source.spm").write_bytes(spms[0])
    (folder / "target.spm").write_bytes(spms[1])
    for name, numbers in zip(("vocab.json", "target_vocab.json"), lists, strict=False):
        (folder / name).write_text(json.dumps(numbers))
    config = {"source_lang": "eng", "target_lang": "hin", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize(("options", "config"), MARIAN_KINDS.values(), ids=MARIAN_KINDS)
def test_both_sides_of_marian_give_the_numbers_of_mariantokenizer(options, config, tmp_path):
    marian_folder(tmp_path, options, config)
    theirs = peer("transformers").MarianTokenizer.from_pretrained(tmp_path)
    source, target = read_tokenizer(tmp_path), read_tokenizer(tmp_path, side="target")
    texts = AWKWARD + mixed(list(SENTENCES), 300)

    assert source.special == {"pad": theirs.pad_token_id, "unk": theirs.unk_token_id, "eos": theirs.eos_token_id}
    assert source.vocabulary == theirs.get_vocab()
    for text in texts:
        assert source.ids(text) == theirs(text)["input_ids"], text
        assert target.ids(text) == theirs(text_target=text)["input_ids"], text
        ids = target.ids(text)
        assert target.text(ids) == theirs.decode(ids, skip_special_tokens=True), text
    assert source.ids("the dog", special=False) == theirs("the dog", add_special_tokens=False)["input_ids"]
    assert source.pair("the dog", "a fox")[0] == theirs("the dog", "a fox")["input_ids"]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_marians_numbers_of_thousands_of_lines_in_six_languages_are_theirs(tmp_path):
    texts = lines()
    marian_folder(tmp_path, {}, {})
    theirs = peer("transformers").MarianTokenizer.from_pretrained(tmp_path)
    for side, given in (("source", "text"), ("target", "text_target")):
        ours = read_tokenizer(tmp_path, side)
        assert [ours.ids(text) for text in texts] == theirs(**{given: texts})["input_ids"]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("config", [{}, {"separate_vocabs": True}], ids=["one list", "two lists"])
def test_a_marian_folder_that_we_write_is_read_by_transformers_and_by_us(config, tmp_path):
    ours = read_tokenizer(marian_folder(tmp_path, {}, config), side="target")
    ours.save(tmp_path / "written")
    theirs = peer("transformers").AutoTokenizer.from_pretrained(tmp_path / "written")
    again = read_tokenizer(tmp_path / "written", side="target")
    for text in AWKWARD:
        assert ours.ids(text) == again.ids(text) == theirs(text_target=text)["input_ids"], text
    assert (tmp_path / "written" / "source.spm").read_bytes() == (tmp_path / "source.spm").read_bytes()


def test_gpts_two_files_give_the_ids_of_openaigpttokenizer(tmp_path):
    backend = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    backend.train_from_iterator(mixed(list(SENTENCES), 300), trainer)
    model = json.loads(backend.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    theirs = peer("transformers").OpenAIGPTTokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)

    assert ours.vocabulary == theirs.get_vocab()
    assert ours.special == {"unk": theirs.unk_token_id}
    for text in AWKWARD + mixed(list(SENTENCES), 200):
        ids = ours.ids(text)
        assert ids == theirs(text)["input_ids"], text
        assert ours.text(ids) == theirs.decode(ids, skip_special_tokens=True), text


def test_a_bert_folder_with_nothing_but_vocab_txt_gives_the_numbers_and_roles_of_berttokenizer(tmp_path):
    letters = sorted({letter for text in AWKWARD for letter in text.lower() if letter.isalnum()})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), "the"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    theirs = peer("transformers").BertTokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)

    assert ours.special == {role: getattr(theirs, f"{role}_token_id") for role in ("pad", "unk", "cls", "sep", "mask")}
    for text in AWKWARD:
        assert ours.ids(text) == theirs(text)["input_ids"], text


@pytest.mark.parametrize("name", ["spiece.model", "source.spm"])
def test_no_mangled_file_of_a_trained_model_brings_a_library_down(name, tmp_path):
    roll, read = random.Random(0), 0
    content = (marian_folder(tmp_path, {}, {}) / "source.spm").read_bytes()
    if name == "spiece.model":
        (tmp_path / "source.spm").unlink()
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(roll.choice([1, 3, 30])):
            place = roll.randrange(len(content) if roll.random() < 0.5 else 3000)
            damaged[place] = roll.choice([0, 255, damaged[place] ^ (1 << roll.randrange(8))])
        (tmp_path / name).write_bytes(damaged[: roll.choice([len(content), roll.randrange(len(content))])])
        try:
            tokenizer = read_tokenizer(tmp_path)
            read += bool([tokenizer.ids(text) for text in AWKWARD])
        except ClearheadError as error:
            assert "\n" not in str(error)
    assert 0 < read < 150
