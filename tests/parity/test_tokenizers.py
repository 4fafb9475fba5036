"""Our numbers are transformers' numbers, for files that both read and for folders that we write."""

import itertools
import json
import random
import shutil

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from clearhead.data import Tokenizer, character_tokenizer, deck_tokenizer, read_tokenizer, word_tokenizer
from tests.support import peer

CORPUS = [
    "It isn't what they've said; we'll see, I'm sure he'd agree that it's 1984.",
    "The the quick  brown   fox\njumps\n\nover\tthe lazy dog.",
    "नमस्ते, कस्तो हुनुहुन्छ? नमस्ते संसार।",
    "naïve café, Ünïcödé 👩‍👩‍👧 🇳🇵",
]
AWKWARD = [
    *CORPUS,
    "",
    " ",
    "    leading and trailing   ",
    "don't DON'T 'S x'dx 'll",
    "a\r\nb\u2028c\u00a0d\u3000e",
    "<|endoftext|>",
    "one<|endoftext|>two <|endoftext|> <|endoftext",
    "Ġ Ċ ▁ ##x </w>",
    "\x00\x01\x7f",
    "e\u0301 ﬁ ﷽",
    "3.14159 1,000,000 ½ ५६७",
]


def random_texts(count: int) -> list[str]:
    generator = random.Random(0)
    ranges = [(32, 127), (32, 40), (0x900, 0x980), (0xA0, 0x3000), (0x1F300, 0x1F700), (9, 14)]
    letters = lambda: chr(generator.randrange(*generator.choice(ranges)))  # noqa: E731
    return ["".join(letters() for _ in range(generator.randrange(1, 40))) for _ in range(count)]


@pytest.fixture(scope="module")
def byte_level() -> tokenizers.Tokenizer:
    """A small byte-level BPE of GPT-2's kind, trained here."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS * 3, trainer)
    return backend


@pytest.fixture(scope="module")
def gpt2_folder(byte_level, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    model = json.loads(byte_level.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    return folder


def assert_same(ours: Tokenizer, theirs, texts: list[str]) -> None:
    for text in texts:
        ids = ours.ids(text)
        assert ids == theirs(text)["input_ids"], text
        assert ours.tokens(text) == theirs.convert_ids_to_tokens(ids), text
        for skip in (True, False):
            assert ours.text(ids, skip_special=skip) == theirs.decode(ids, skip_special_tokens=skip), text
    assert ours.size == len(theirs)


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
def test_gpt2s_two_files_give_the_ids_of_gpt2tokenizer_on_awkward_text(gpt2_folder, tmp_path, names):
    for source, name in zip(("vocab.json", "merges.txt"), names, strict=True):
        shutil.copy(gpt2_folder / source, tmp_path / name)
    theirs = peer("transformers").GPT2Tokenizer.from_pretrained(gpt2_folder)
    ours = read_tokenizer(tmp_path)

    assert_same(ours, theirs, AWKWARD + random_texts(300))
    assert ours.special == {"bos": theirs.bos_token_id, "eos": theirs.eos_token_id}


def test_a_gpt2_folder_that_we_write_is_read_by_transformers_without_segment_ids(gpt2_folder, tmp_path):
    transformers = peer("transformers")
    ours = read_tokenizer(gpt2_folder)
    ours.save(tmp_path)
    transformers.GPT2Config(vocab_size=ours.size).save_pretrained(tmp_path)

    for kind in (transformers.AutoTokenizer, transformers.PreTrainedTokenizerFast):
        theirs = kind.from_pretrained(tmp_path)
        assert_same(ours, theirs, AWKWARD)
        assert set(theirs("a b")) == {"input_ids", "attention_mask"}
        assert (theirs.bos_token_id, theirs.eos_token_id) == (ours.special["bos"], ours.special["eos"])


@pytest.mark.parametrize(
    "ours",
    [
        deck_tokenizer(),
        word_tokenizer(AWKWARD, special={"unk": "<unk>", "bos": "<s>", "eos": "</s>"}),
        character_tokenizer(CORPUS, special={"pad": "<pad>", "unk": "<unk>"}),
    ],
    ids=["deck", "words", "characters"],
)
def test_vocabularies_of_our_own_are_read_by_transformers(ours, tmp_path):
    ours.save(tmp_path)
    theirs = peer("transformers").AutoTokenizer.from_pretrained(tmp_path)

    assert_same(ours, theirs, [*AWKWARD, "This is <unk> not <pad>known"])
    assert {role: getattr(theirs, f"{role}_token_id") for role in ours.special} == ours.special


@pytest.fixture
def bert_folder(tmp_path):
    """A tokenizer.json of BERT's kind, with the roles beside it in both of the ways in which files name a token."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.enable_truncation(5)
    backend.enable_padding(length=8)
    backend.save(str(tmp_path / "tokenizer.json"))
    roles = {f"{token[1:-1].lower()}_token": token for token in special}
    roles["mask_token"] = {
        "__type": "AddedToken",
        "content": "[MASK]",
        "lstrip": True,
        "rstrip": False,
        "normalized": False,
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "[START]", **roles}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_tokenizer_json_with_pairs_truncation_padding_and_a_token_it_lacks_is_read_as_transformers_reads_it(
    bert_folder,
):
    ours = read_tokenizer(bert_folder)
    theirs = peer("transformers").AutoTokenizer.from_pretrained(bert_folder)

    assert_same(ours, theirs, [*AWKWARD, "we [MASK] the [START] fox  [MASK]"])
    assert ours.special == {role: getattr(theirs, f"{role}_token_id") for role in ours.special}
    assert set(ours.special) == {"pad", "unk", "cls", "sep", "mask", "bos"}
    for first, second in itertools.pairwise(filter(None, AWKWARD)):  # transformers takes an empty second text for none
        encoded = theirs(first, second, return_token_type_ids=True)
        assert ours.pair(first, second) == (encoded["input_ids"], encoded["token_type_ids"])


def test_a_bert_tokenizer_that_we_write_keeps_its_segment_ids_in_transformers(bert_folder, tmp_path):
    ours = read_tokenizer(bert_folder)
    ours.save(tmp_path / "written")
    theirs = peer("transformers").AutoTokenizer.from_pretrained(tmp_path / "written")

    assert_same(ours, theirs, AWKWARD)
    assert ours.pair("we", "see")[1] == theirs("we", "see")["token_type_ids"]


def test_a_batch_holds_what_transformers_pads_on_the_right(bert_folder):
    ours = read_tokenizer(bert_folder)
    theirs = peer("transformers").AutoTokenizer.from_pretrained(bert_folder)
    ids, lengths = ours.batch(AWKWARD)
    padded = theirs(AWKWARD, padding=True, return_tensors="pt")

    assert ids.equal(padded["input_ids"])
    assert lengths.equal(padded["attention_mask"].sum(1))
