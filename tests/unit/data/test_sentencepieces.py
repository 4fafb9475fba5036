"""SentencePiece's files: what the reader makes of small ones written here byte by byte, and what it refuses."""

import json
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.data import read_tokenizer
from clearhead.data.piece_model import CONTROL, NORMAL, UNKNOWN, USER_DEFINED, parse_piece_model
from clearhead.data.sentencepieces import read_marian
from clearhead.errors import ClearheadError

PIECES = [
    ("<pad>", 0.0, CONTROL),
    ("</s>", 0.0, CONTROL),
    ("<unk>", 0.0, UNKNOWN),
    ("▁", -2.0, NORMAL),
    ("▁the", -3.0, NORMAL),
    ("▁d", -4.0, NORMAL),
    ("og", -4.5, NORMAL),
    ("a", -5.0, NORMAL),
]
MARIAN = ["</s>", "<unk>", "og", "▁the", "▁d", "▁", "a", ">>fra<<", "<pad>"]


def varint(number: int) -> bytes:
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + varint(rest) if rest else bytes([head])


def part(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def charsmap(units: list[int] | None = None, texts: bytes = b"a\0") -> bytes:
    """A trie of 256 units that turns A into a, as Darts lays it out: the root's children lie at 0 ^ byte."""
    if units is None:
        units = [0] * 256
        units[ord("A")] = ord("A") | 1 << 8 | (ord("A") ^ 128) << 10  # its child 0, with the text's place, is unit 128
        units[128] = 1 << 31
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts


def model(pieces=PIECES, table: bytes = b"", model_type: int = 1) -> bytes:
    content = b"".join(
        part(1, part(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))
        for text, score, kind in pieces
    )
    return content + part(2, b"\x18" + varint(model_type)) + part(3, part(2, table) if table else b"")


@pytest.fixture
def t5(tmp_path: Path) -> Path:
    (tmp_path / "spiece.model").write_bytes(model(table=charsmap()))
    return tmp_path


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    pytest.importorskip("sentencepiece", reason="Marian's pieces are cut by sentencepiece, which is not installed")
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes(model())
    (tmp_path / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(MARIAN)}))
    return tmp_path


def test_a_spiece_model_has_extra_tokens_at_its_end_and_closes_a_text(t5: Path):
    tokenizer = read_tokenizer(t5)
    assert tokenizer.special == {"pad": 0, "unk": 2, "eos": 1}
    assert tokenizer.vocabulary["<extra_id_99>"] == len(PIECES)
    assert tokenizer.vocabulary["<extra_id_0>"] == tokenizer.size - 1 == len(PIECES) + 99
    assert tokenizer.ids("the dog A<extra_id_0>") == [4, 5, 6, 3, 7, len(PIECES) + 99, 1]
    assert tokenizer.text(tokenizer.ids("the dog A")) == "the dog a"
    assert tokenizer.ids("the xyz") == [4, 3, 2, 1]


def test_the_target_of_a_tokenizer_with_one_side_is_that_side(t5: Path):
    assert read_tokenizer(t5, side="target").ids("the dog") == read_tokenizer(t5).ids("the dog")


def test_a_side_that_there_is_not_is_refused(t5: Path):
    with pytest.raises(ClearheadError, match="no side 'sorce' of a tokenizer: there are source and target"):
        read_tokenizer(t5, side="sorce")


def test_symbols_of_the_models_own_are_found_in_a_text(t5: Path):
    (t5 / "spiece.model").write_bytes(model([*PIECES, ("<user>", 0.0, USER_DEFINED)]))
    assert read_tokenizer(t5).ids("the<user>the") == [4, len(PIECES), 4, 1]


def test_a_language_before_a_text_and_special_tokens_in_it_are_one_piece_each(marian: Path):
    tokenizer = read_tokenizer(marian)
    assert tokenizer.special == {"pad": 8, "unk": 1, "eos": 0}
    assert tokenizer.ids(">>fra<< the dog </s> a") == [7, 3, 4, 2, 0, 5, 6, 0]
    assert tokenizer.ids(">>eng<< the") == [1, 3, 0]
    assert tokenizer.text([3, 4, 2, 0]) == "the dog"
    assert tokenizer.text([]) == tokenizer.text([0]) == ""
    assert tokenizer.batch(["the dog", ""])[0].tolist() == [[3, 4, 2, 0], [0, 8, 8, 8]]
    with pytest.raises(ClearheadError, match="half a surrogate pair"):
        tokenizer.ids("the \udce9")


def test_without_sentencepiece_marian_says_what_to_install(marian: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ClearheadError, match=r"source.spm: it is read by the package sentencepiece: pip install"):
        read_marian(marian, "source")


BROKEN_MODELS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "exactly one piece for the unknown"),
    "text": (b"version https://git-lfs.github.com/spec/v1\n", "not a SentencePiece model"),
    "cut off": (model()[:-40], "not a SentencePiece model, or cut off"),
    "a length without an end": (b"\x0a" + b"\xff" * 20, "a number without an end"),
    "a length beyond memory": (b"\x0a" + varint(2**62), "a field runs past the end"),
    "a piece twice": (model([*PIECES, ("a", 0.0, NORMAL)]), "piece 8 is 'a', empty or a repeat"),
    "a piece of nothing": (model([*PIECES, ("", 0.0, NORMAL)]), "piece 8 is '', empty or a repeat"),
    "a zero byte": (model([*PIECES, ("\0", 0.0, NORMAL)]), "piece 8 is"),
    "no number": (model([*PIECES, ("x", float("nan"), NORMAL)]), "piece 8 has score nan"),
    "an unknown kind": (model([*PIECES, ("x", 0.0, 9)]), "piece 8 has score 0.0, kind 9"),
    "two unknowns": (model([*PIECES, ("x", 0.0, UNKNOWN)]), "exactly one piece for the unknown"),
    "no text": (part(1, part(1, b"\xff\xfe")), "is not UTF-8"),
    "pieces as numbers": (b"\x08\x05", "a number where a part was expected"),
    "a table cut off": (model(table=charsmap()[:500]), "its table of characters is cut off"),
    "a table too short": (model(table=b"\0"), "its table of characters is cut off"),
    "a table without an end": (model(table=charsmap(texts=b"a")), "its table of characters is cut off"),
    "a table that is no text": (model(table=charsmap(texts=b"\xff\0")), "its table of characters is not UTF-8"),
    "a table of one unit": (model(table=charsmap(units=[0])), "points outside itself"),
    "a far child": (model(table=charsmap(units=[7 << 20, *[0] * 255])), "points outside itself"),
    "a far text": (
        model(table=charsmap(units=[1 << 8 | 5 << 10, *[0] * 4, 1 << 31 | 99, *[0] * 250])),
        "points outside",
    ),
    "half a letter": (
        model(table=charsmap(units=[1 << 8 | 5 << 10, *[0] * 4, 1 << 31 | 1, *[0] * 250], texts="é\0".encode())),
        "points outside",
    ),
}


@pytest.mark.parametrize(("content", "message"), BROKEN_MODELS.values(), ids=BROKEN_MODELS)
def test_a_broken_model_is_refused_in_one_line_that_names_it(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "spiece.model").write_bytes(content)
    with pytest.raises(ClearheadError, match=message) as caught:
        read_tokenizer(tmp_path)
    assert str(tmp_path / "spiece.model") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"extra_ids": 10**9}, "extra_ids must be 0 to 10000"),
        ({"extra_ids": "100"}, "extra_ids must be 0 to 10000"),
        ({"eos_token": "a b"}, "'a b' can't be the token that closes a text"),
        ({"eos_token": "$C"}, "'$C' can't be the token that closes a text"),
        ({"eos_token": "\ud800"}, "half a surrogate pair"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(config: dict, message: str, t5: Path):
    (t5 / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ClearheadError) as caught:
        read_tokenizer(t5)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_token_that_can_not_stand_around_a_text_is_refused_for_a_wordpiece_list(tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\na:b\n")
    (tmp_path / "tokenizer_config.json").write_text('{"cls_token": "a:b"}')
    with pytest.raises(ClearheadError, match="vocab.txt and the tokens named beside it don't go together: Cannot"):
        read_tokenizer(tmp_path)


def test_the_last_of_two_tables_is_the_one_that_is_checked_and_used(t5: Path):
    broken = part(3, part(2, charsmap()) + part(2, charsmap(units=[0])))
    (t5 / "spiece.model").write_bytes(model() + broken)
    with pytest.raises(ClearheadError, match="points outside itself"):
        read_tokenizer(t5)


def test_a_model_of_byte_pairs_is_refused(t5: Path):
    (t5 / "spiece.model").write_bytes(model(model_type=2))
    with pytest.raises(ClearheadError, match="is not a unigram model"):
        read_tokenizer(t5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"</s>": 0, "<unk>": 1, "<pad>": 1}', "must be whole numbers from 0, each once"),
        ('{"</s>": 0, "<unk>": -1, "<pad>": 1}', "must be whole numbers from 0, each once"),
        ('{"</s>": 0, "<unk>": 1e300, "<pad>": 1}', "must be whole numbers from 0, each once"),
        ('{"</s>": 0, "<unk>": 99999999999999999999, "<pad>": 1}', "must be whole numbers from 0, each once"),
        ('{"</s>": 0, "<pad>": 1}', "not a Marian vocabulary: it has no <unk>"),
        ('{"\\ud800": 0}', "half a surrogate pair"),
        ("{}", "must be whole numbers from 0, each once"),
        ("[]", "must hold a JSON object, not a list"),
        ('{"a": 0', "is not valid JSON"),
    ],
)
def test_a_list_that_is_none_is_refused_in_one_line_that_names_it(content: str, message: str, marian: Path):
    (marian / "vocab.json").write_text(content)
    with pytest.raises(ClearheadError, match=message) as caught:
        read_tokenizer(marian)
    assert "vocab.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def mangled(content: bytes, roll: random.Random) -> bytes:
    """Cut off, doubled, or with some bytes changed."""
    place = roll.randrange(len(content))
    damaged = bytearray(content)
    if (kind := roll.randrange(4)) == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + content[roll.randrange(len(content)) :]
    for _ in range(roll.randrange(1, 9)):
        damaged[roll.randrange(len(content))] = roll.randrange(256)
    return bytes(damaged)


def survives(read: Callable[[], object]) -> bool:
    """Read or refused in one line; anything else fails the test."""
    try:
        read()
    except ClearheadError as error:
        assert "\n" not in str(error)
        return False
    return True


TEXTS = ["the dog A ÀB नमस्ते ﬁ", "", "A" * 50, "\x00\x01 \U0010ffff", ">>fra<< a </s> A"]


def test_no_mangled_spiece_model_brings_a_library_down(t5: Path):
    roll, content, read = random.Random(0), model(table=charsmap()), 0
    for _ in range(300):
        (t5 / "spiece.model").write_bytes(mangled(content, roll))
        read += survives(lambda: [read_tokenizer(t5).ids(text) for text in TEXTS])
    assert 0 < read < 300


@pytest.mark.parametrize("name", ["source.spm", "vocab.json"])
def test_no_mangled_marian_file_brings_a_library_down(name: str, marian: Path):
    roll, content, read = random.Random(0), (marian / name).read_bytes(), 0
    for _ in range(200):
        (marian / name).write_bytes(mangled(content, roll))
        read += survives(lambda: [read_tokenizer(marian).ids(text) for text in TEXTS])
    assert 0 < read < 200


def test_no_mangled_wordpiece_list_brings_a_library_down(tmp_path: Path):
    roll, read = random.Random(0), 0
    content = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##a", "dog", "न", "\n"]).encode()
    for _ in range(200):
        (tmp_path / "vocab.txt").write_bytes(mangled(content, roll))
        read += survives(lambda: [read_tokenizer(tmp_path).ids(text) for text in TEXTS])
    assert 0 < read < 200


def test_a_table_never_sends_a_walk_outside_itself():
    """Every unit in turn is made to point as far as it can, and is caught."""
    units = list(struct.unpack("<256I", charsmap()[4:-2]))
    for place in range(256):
        if units[place] >> 31 == 0:
            damaged = [*units[:place], units[place] | 0x7FFFFC00, *units[place + 1 :]]
            with pytest.raises(ClearheadError, match="points outside itself"):
                parse_piece_model(model(table=charsmap(damaged)))
