"""Tokenizers learnt from texts: the same every time, complete, and read by transformers to the same numbers."""

import pytest

from clearhead.data import read_tokenizer
from clearhead.data.learn_tokenizer import KINDS, learn_tokenizer
from clearhead.errors import ClearheadError
from tests.support import peer

TEXTS = [
    "The quick brown fox jumps over the lazy dog, doesn't it?",
    "A lazy dog sleeps; the quick fox doesn't.",
    "नमस्ते संसार, २०२४ मे ३",
    "Grüße aus Köln!  Two  spaces and a\ttab.",
] * 3
PROBES = (*TEXTS[:4], "", "unseen wörds ☃ and 中文", "fox</s>dog", "[CLS] the fox")
SIZES = {"characters": None, "words": 30, "bpe": 320, "wordpiece": 130}


def refused(*args: object, **options: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        learn_tokenizer(*args, **options)  # pyright: ignore[reportArgumentType]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_tokenizer(kind):
    one, *others = (learn_tokenizer(TEXTS, kind, SIZES[kind]) for _ in range(4))
    for other in others:
        assert other.vocabulary == one.vocabulary
        assert all(other.ids(text) == one.ids(text) for text in PROBES)


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_the_folder_and_gives_the_same_numbers(kind, tmp_path):
    transformers = peer("transformers")
    ours = learn_tokenizer(TEXTS, kind, SIZES[kind])
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    fast = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for text in PROBES:
        assert theirs(text)["input_ids"] == fast(text)["input_ids"] == ours.ids(text)
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.ids(text, special=False)
    assert theirs(*TEXTS[:2])["input_ids"] == ours.pair(*TEXTS[:2])[0]
    assert {role: getattr(theirs, f"{role}_token_id") for role in ours.special} == ours.special
    assert len(theirs) == ours.size


@pytest.mark.parametrize("kind", KINDS)
def test_our_own_reader_gives_the_same_numbers_and_roles(kind, tmp_path):
    ours = learn_tokenizer(TEXTS, kind, SIZES[kind])
    ours.save(tmp_path)
    again = read_tokenizer(tmp_path)
    assert again.vocabulary == ours.vocabulary and again.special == ours.special
    assert all(again.ids(text) == ours.ids(text) for text in PROBES)


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_a_text_comes_back_letter_by_letter(kind):
    tokenizer = learn_tokenizer(TEXTS, kind)
    for text in TEXTS[:4]:
        assert tokenizer.text(tokenizer.ids(text)) == text


def test_byte_level_bpe_can_say_everything():
    tokenizer = learn_tokenizer(TEXTS, "bpe", 300)
    assert tokenizer.size == 300 and "unk" not in tokenizer.special
    assert tokenizer.text(tokenizer.ids("☃ 中文 never seen\x00")) == "☃ 中文 never seen\x00"


def test_the_most_frequent_words_are_kept_and_others_are_unknown():
    tokenizer = learn_tokenizer(["b b b a a c", "a b"], "words", 5, special={"pad": "<pad>", "unk": "<unk>"})
    assert tokenizer.vocabulary == {"<pad>": 0, "<unk>": 1, "b": 2, "a": 3, "c": 4}
    smaller = learn_tokenizer(["b b b a a c", "a b"], "words", 4, special={"pad": "<pad>", "unk": "<unk>"})
    assert smaller.ids("a c") == [3, smaller.special["unk"]]


def test_a_special_token_in_the_text_is_no_word_of_its_own():
    tokenizer = learn_tokenizer(["a <unk> b"], "words")
    assert set(tokenizer.vocabulary) == {"<pad>", "<unk>", "<s>", "</s>", "a", "b"}


def test_characters_come_by_frequency_then_by_code():
    tokenizer = learn_tokenizer(["bca", "cc"], "characters", special={})
    assert tokenizer.vocabulary == {"c": 0, "a": 1, "b": 2}
    limited = learn_tokenizer(["bca", "cc"], "characters", 2, special={"unk": "?"})
    assert limited.vocabulary == {"?": 0, "c": 1}


def test_wordpiece_has_berts_tokens_around_a_text_and_a_pair():
    tokenizer = learn_tokenizer(TEXTS, "wordpiece", 130)
    assert tokenizer.special == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert tokenizer.tokens("fox")[0] == "[CLS]" and tokenizer.tokens("fox")[-1] == "[SEP]"
    assert any(token.startswith("##") for token in tokenizer.tokens("quickly"))
    ids, segments = tokenizer.pair("fox", "dog")
    assert ids.count(3) == 2 and segments[0] == 0 and segments[-1] == 1
    bare = learn_tokenizer(TEXTS, "wordpiece", 130, special={"unk": "[UNK]"})
    assert bare.ids("fox") == bare.ids("fox", special=False)


def test_wordpiece_agrees_with_the_librarys_own_on_what_to_join():
    """The library numbers the letters inside words by chance; with none equally frequent it must learn the same."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    words = ["ab"] * 50 + ["abc"] * 31 + ["abcd"] * 7
    ours = learn_tokenizer(words, "wordpiece", 13, special={"unk": "[UNK]"})
    theirs = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.WordPieceTrainer(vocab_size=12, special_tokens=["[UNK]"], show_progress=False)
    theirs.train_from_iterator(words, trainer)
    joined = {token for token in theirs.get_vocab() if len(token.removeprefix("##")) > 1} - {"[UNK]"}
    assert {token for token in ours.vocabulary if len(token.removeprefix("##")) > 1} - {"[UNK]"} >= joined


def test_lower_casing_is_part_of_the_tokenizer():
    for kind in ("bpe", "wordpiece"):
        tokenizer = learn_tokenizer(TEXTS, kind, 300, lowercase=True)
        assert tokenizer.ids("The FOX") == tokenizer.ids("the fox")


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
def test_closing_puts_the_end_behind_each_text(kind, tmp_path):
    plain, closed = (learn_tokenizer(TEXTS, kind, closing=closing) for closing in (False, True))
    for text in PROBES:
        assert closed.ids(text) == [*plain.ids(text), plain.special["eos"]]
        assert closed.ids(text, special=False) == plain.ids(text, special=False)
    closed.save(tmp_path)
    assert peer("transformers").AutoTokenizer.from_pretrained(tmp_path)("fox")["input_ids"] == closed.ids("fox")


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((TEXTS, "wordpeice"), {}, "did you mean 'wordpiece'"),
        (([], "bpe"), {}, "can't be learnt from nothing"),
        (([""], "words"), {}, "can't be learnt from nothing"),
        ((["\ud800"], "characters"), {}, "half a surrogate pair"),
        ((TEXTS, "words"), {"special": {"ukn": "?"}}, "no role 'ukn' for a special token; did you mean 'unk'"),
        ((TEXTS, "words", 4), {}, "a vocabulary of 4 has no room beside its 4 special tokens"),
        ((TEXTS, "words", 5), {"special": {}}, "tokens don't fit into 5: give an 'unk' token"),
        ((TEXTS, "bpe", 100), {}, "a vocabulary of 100 is too small: it needs 256 for single letters and 3 special"),
        ((TEXTS, "wordpiece", 40), {}, "a vocabulary of 40 is too small: it needs"),
        ((TEXTS, "wordpiece"), {"special": {"pad": "[PAD]"}}, "needs a special token 'unk'"),
        ((TEXTS, "words"), {"lowercase": True}, "lower-casing is for bpe and wordpiece"),
        ((TEXTS, "wordpiece"), {"closing": True}, "closing a text needs a special token 'eos'"),
        ((TEXTS, "bpe"), {"closing": True, "special": {}}, "closing a text needs a special token 'eos'"),
    ],
)
def test_what_can_not_be_learnt_is_refused_in_one_line(args, options, message):
    assert message in refused(*args, **options)
