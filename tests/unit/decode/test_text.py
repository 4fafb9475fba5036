"""Text while it is written: whole characters, exact cuts at stop strings, and the same text in the end."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from clearhead.data.tokenizers import Tokenizer
from clearhead.decode import TextStream
from clearhead.decode.text import BROKEN
from clearhead.errors import ClearheadError

LINES = [
    "नमस्ते दुनिया, तिमीलाई कस्तो छ?",
    "the cat sat on the mat 🎉🙂",
    "म घर जान्छु।",
    "a family: 👨‍👩‍👧 and a flag 🇳🇵",
    "naïve café — fine",
]
ALPHABET = "".join(sorted({*"".join(LINES), "\n", "\N{REPLACEMENT CHARACTER}"}))
WHOLE = ALPHABET.replace("\N{REPLACEMENT CHARACTER}", "")
texts = st.text(ALPHABET, min_size=1, max_size=60)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def byte_level(size: int) -> Tokenizer:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    return Tokenizer(backend, {"eos": "<|endoftext|>"})


def word_pieces() -> Tokenizer:
    words = ["[UNK]", "hello", "world", ".", "don", "##'", "##t", "##ing", "'", "s", "go", "!"]
    backend = Backend(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    return Tokenizer(backend, {"unk": "[UNK]"})


def sentence_pieces() -> Tokenizer:
    pieces = [
        "<unk>",
        "</s>",
        "▁hello",
        "▁world",
        "▁",
        "s",
        "!",
        "▁go",
        "ing",
        *(f"<0x{byte:02X}>" for byte in range(256)),
    ]
    backend = Backend(
        models.BPE({piece: at for at, piece in enumerate(pieces)}, [], byte_fallback=True, unk_token="<unk>")
    )
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer(backend, {"eos": "</s>"})


BYTES = byte_level(300)  # most letters of Devanagari are split: 256 bytes and some merges
KINDS = {"bytes": BYTES, "merged bytes": byte_level(400), "words": word_pieces(), "pieces": sentence_pieces()}


def streamed(stream: TextStream, tokens: list[int]) -> list[str]:
    return [*(stream.add(token) for token in tokens), stream.finish()]


@given(text=texts)
@quick
def test_pieces_together_are_the_text_and_never_hold_half_a_character(text: str):
    stream = TextStream(BYTES)
    for token in BYTES.ids(text):
        given_out = stream.add(token)
        assert BROKEN not in given_out or BROKEN in text
        assert text.startswith(stream.text[: stream._given])
    stream.finish()
    assert stream.text == text
    assert "".join(streamed(TextStream(BYTES), BYTES.ids(text))) == text


def test_half_a_utf8_sequence_is_held_back_until_it_is_whole():
    tokens = BYTES.ids("ङ🙃")  # letters that no line has, so that their bytes are not one token
    pieces = streamed(TextStream(BYTES), tokens)
    assert [piece for piece in pieces if piece] == ["ङ", "🙃"]
    assert pieces[0] == ""


def test_a_text_that_ends_inside_a_character_shows_that_in_the_end():
    tokens = BYTES.ids("ab🎉")[:-1]
    pieces = streamed(TextStream(BYTES), tokens)
    assert "".join(pieces[:-1]) == "ab"
    assert "".join(pieces) == BYTES.text(tokens)
    assert BROKEN in pieces[-1]


def units(tokenizer: Tokenizer) -> list[list[int]]:
    """Each token; but bytes that stand in for letters (the last 256 of the pieces) only as whole letters.

    One bad byte there makes the decoder break the whole run of bytes around it: such a text has no fixed beginning.
    """
    if tokenizer is not KINDS["pieces"]:
        return [[number] for number in range(tokenizer.size)]
    letters = [[9 + byte for byte in letter.encode()] for letter in "न🎉é"]
    return [[number] for number in range(9)] + letters


@pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_tokens_of_any_vocabulary_give_the_text_of_all_of_them(tokenizer: Tokenizer, data: st.DataObject):
    """Also behind a prompt, whose own text is not told again; and also in texts so long that the beginning is left."""
    lists = st.lists(st.sampled_from(units(tokenizer)), max_size=90).map(lambda parts: [*chain(*parts)])
    before, tokens = data.draw(lists), data.draw(lists) * data.draw(st.sampled_from([1, 9]))
    prompt, everything = tokenizer.text(before), tokenizer.text(before + tokens)
    stream = TextStream(tokenizer, before=before)
    pieces = streamed(stream, tokens)
    assert "".join(pieces) == stream.text == everything[len(prompt) :]


@given(text=texts, stop=st.lists(st.text(WHOLE, min_size=1, max_size=5), min_size=1, max_size=3), data=st.data())
@quick
def test_a_stop_string_cuts_exactly_wherever_the_tokens_lie(text: str, stop: list[str], data: st.DataObject):
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + stop[0] + text[at:]
    stream = TextStream(BYTES, stop)
    pieces = streamed(stream, BYTES.ids(text))
    _, end = min((text.find(one) + len(one), text.find(one)) for one in stop if one in text)
    assert "".join(pieces) == stream.text == text[:end]
    assert stream.stopped in stop
    assert text[end:].startswith(stream.stopped)


@given(text=texts, stop=st.text(WHOLE, min_size=2, max_size=6))
@quick
def test_no_beginning_of_a_stop_string_is_given_out_before_it_is_decided(text: str, stop: str):
    stream, shown = TextStream(BYTES, [stop]), ""
    for token in BYTES.ids(text):
        shown += stream.add(token)
        known = stream.text.rstrip(BROKEN)
        begun = [len(known) - size for size in range(1, len(stop)) if known.endswith(stop[:size])]
        assert stream.stopped is not None or len(shown) <= min(begun, default=len(known))
    if stop not in text:
        assert shown + stream.finish() == text


def test_a_stop_string_over_three_tokens_is_held_back_and_then_cut():
    tokens = [*BYTES.ids("ab"), *BYTES.ids("#"), *BYTES.ids("#"), *BYTES.ids("#"), *BYTES.ids("c")]
    stream = TextStream(BYTES, ["###"])
    assert "".join(streamed(stream, tokens)) == "ab"
    assert stream.stopped == "###"
    stream = TextStream(BYTES, ["###"])
    assert "".join(streamed(stream, [*tokens[:-2], tokens[-1]])) == "ab##c"
    assert stream.stopped is None


def test_after_a_stop_string_nothing_comes_any_more():
    stream = TextStream(BYTES, ["b"])
    assert "".join(streamed(stream, BYTES.ids("abc"))) == "a"
    assert stream.add(BYTES.ids("d")[0]) == ""
    assert stream.text == "a"


def test_of_several_stop_strings_the_one_that_is_complete_first_cuts():
    stream = TextStream(BYTES, ["the mat", "sat", "zzz"])
    assert "".join(streamed(stream, BYTES.ids("the cat sat on the mat"))) == "the cat "
    assert stream.stopped == "sat"


def test_a_stop_string_far_into_a_long_text_is_found():
    stream = TextStream(BYTES, ["।।"])
    assert "".join(streamed(stream, BYTES.ids("म घर जान्छु। " * 40 + "अब ।। नमस्ते"))) == "म घर जान्छु। " * 40 + "अब "


def test_special_tokens_are_not_text():
    end = BYTES.special["eos"]
    assert "".join(streamed(TextStream(BYTES), [*BYTES.ids("ab"), end])) == "ab"


@pytest.mark.parametrize("stop", [[""], ["a", ""]])
def test_an_empty_stop_string_is_refused_in_one_line(stop: list[str]):
    with pytest.raises(ClearheadError, match="^a stop string is empty$"):
        TextStream(BYTES, stop)


def test_a_stop_string_of_broken_characters_is_refused_in_one_line():
    with pytest.raises(ClearheadError, match="^a stop string holds U\\+FFFD, which stands for bytes"):
        TextStream(BYTES, [f"a{BROKEN}"])


def test_a_token_costs_the_same_however_long_the_text_is(monkeypatch: pytest.MonkeyPatch):
    """Told by how many tokens are asked for, and not by a clock."""
    asked = []
    inner = BYTES.text
    monkeypatch.setattr(BYTES, "text", lambda ids: (asked.append(len(ids)), inner(ids))[1])
    tokens = BYTES.ids("नमस्ते दुनिया, the cat sat 🎉 " * 200)
    assert len(tokens) > 4000
    streamed(TextStream(BYTES, ["never there"], before=tokens), tokens)
    assert sum(asked) < 150 * len(tokens)
