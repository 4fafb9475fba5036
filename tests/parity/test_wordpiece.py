"""WordPiece from a bare vocab.txt gives transformers' numbers, whatever is in the text."""

import json
import random
from pathlib import Path

import pytest

from clearhead.data import Tokenizer
from clearhead.data.wordpiece import SPECIAL, read_wordpiece
from clearhead.errors import ClearheadError
from tests.minilm import minilm
from tests.support import peer

WORDS = [
    *(
        "The",
        "the",
        "unaffable",
        "isn't",
        "U.S.A.",
        "COVID-19",
        "e-mail@x.org",
        "3.14159",
        "1,000,000",
        "½",
        "x²",
        "naïve",
    ),
    *("Übergrößenträger", "Straße", "ÉCOLE", "école", "ça", "œuvre", "İstanbul", "ırmak", "ĳ", "Ǆ", "ﬁnal"),
    *("नमस्ते", "कस्तो", "हुनुहुन्छ", "संसार।", "क्षत्रिय", "५६७", "привет", "Ёлка", "Ελλάδα", "ΣΊΣΥΦΟΣ", "שָׁלוֹם"),
    *("مرحبا", "العالم", "你好", "世界", "漢字かな", "カタカナ", "한국어", "\u1112\u1161\u11ab", "ภาษาไทย", "Việt"),
    *(
        "👩‍👩‍👧",
        "🇳🇵",
        "—",
        "…",
        "«quoted»",
        "“so”",
        "¿qué?",
        "$5",
        "a/b\\c",
        "~^`|",
        "##s",
        "[MASK]",
        "[SEP]",
        "[mask]",
    ),
    *(
        "e\u0301",
        "a\u200bb",
        "a\u00adb",
        "\u00a0",
        "\u3000",
        "\t",
        "\r\n",
        "\x00",
        "\x07",
        "\ufeff",
        "\ufffd",
        "\U000e0041",
    ),
    *("x" * 100, "x" * 101, "\u2028", "\x85", "\u0300", "ab" * 60),
]


def texts(count: int) -> list[str]:
    roll = random.Random(0)
    return [
        "",
        " ",
        *("".join(roll.choice(WORDS) + roll.choice(["", " ", "  "]) for _ in range(12)) for _ in range(count)),
    ]


def vocabulary() -> list[str]:
    """Special tokens, every letter that the words are made of, alone and inside a word, and some longer pieces.

    Some of the lines are such that Python would break them, and some are nothing but space.
    """
    letters = sorted({form for word in WORDS for form in (*word, *word.lower(), *word.upper())} - set("\nツ한국"))
    pieces = ["the", "The", "una", "##ffa", "##ble", "naive", "école", "ecole", "नम", "##स्ते", "xx", "##xx", "isn"]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), *pieces]


def folder(path: Path, config: dict | None) -> Path:
    (path / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary()), encoding="utf-8", newline="\n")
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


CONFIGS = {
    "nothing said": None,
    "lower case": {"do_lower_case": True},
    "as written": {"do_lower_case": False},
    "accents off, case kept": {"do_lower_case": False, "strip_accents": True},
    "accents kept, lower case": {"do_lower_case": True, "strip_accents": False},
    "Chinese as words": {"tokenize_chinese_chars": False},
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_numbers_of_a_thousand_awkward_lines_are_theirs(config: dict | None, tmp_path: Path):
    folder(tmp_path, config)
    ours = Tokenizer(read_wordpiece(tmp_path / "vocab.txt"), SPECIAL)
    theirs = peer("transformers").BertTokenizer.from_pretrained(tmp_path)
    assert ours.vocabulary == theirs.get_vocab()
    for text in texts(1000):
        assert ours.ids(text) == theirs(text)["input_ids"], text


def test_pairs_and_their_segments_are_theirs(tmp_path: Path):
    ours = Tokenizer(read_wordpiece(folder(tmp_path, None) / "vocab.txt"), SPECIAL)
    theirs = peer("transformers").BertTokenizer.from_pretrained(tmp_path)
    lines = texts(40)[1:]  # they take an empty second text for none
    for first, second in zip(lines, reversed(lines), strict=True):
        pair = theirs(first, second)
        assert ours.pair(first, second) == (pair["input_ids"], pair["token_type_ids"])


def test_the_real_vocabulary_gives_the_numbers_of_the_tokenizer_file_beside_it():
    transformers, place = peer("transformers"), minilm()
    ours, theirs = (
        Tokenizer(read_wordpiece(place / "vocab.txt"), SPECIAL),
        transformers.AutoTokenizer.from_pretrained(place),
    )
    assert ours.size == 30522
    for text in texts(1000):
        assert ours.ids(text) == theirs(text, truncation=False)["input_ids"], text


def test_other_spellings_of_the_special_tokens_are_taken_from_the_config(tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("<pad>\n<unk>\n<cls>\n<sep>\n<mask>\nthe\n")
    named = {f"{role}_token": f"<{role}>" for role in SPECIAL} | {"cls_token": {"content": "<cls>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    ours = Tokenizer(read_wordpiece(tmp_path / "vocab.txt"))
    assert ours.ids("the <mask> cat") == [2, 5, 4, 1, 3]


def test_a_vocabulary_without_the_tokens_around_a_text_is_refused(tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\nthe\n")
    with pytest.raises(ClearheadError, match=r"vocab.txt is not a WordPiece vocabulary: it has no line '\[SEP\]'"):
        read_wordpiece(tmp_path / "vocab.txt")


def test_a_switch_that_is_neither_on_nor_off_is_refused(tmp_path: Path):
    with pytest.raises(ClearheadError, match="do_lower_case must be true or false, not 'no'"):
        read_wordpiece(folder(tmp_path, {"do_lower_case": "no"}) / "vocab.txt")
