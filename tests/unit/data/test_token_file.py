"""Running text as a mapped file of numbers: what is written comes back, what is broken is refused, windows are pure."""

import json
import os

import numpy as np
import pytest
import torch

from clearhead.data import character_tokenizer, read_tokenizer, token_file
from clearhead.data.token_file import (
    HEADER_BYTES,
    MAGIC,
    open_tokens,
    sequential,
    tokenizer_checksum,
    windows,
    write_tokens,
)
from clearhead.errors import ClearheadError

TOKENIZER = character_tokenizer("abcdefgh", special={"eos": "<end>"})
TEXTS = ["abc", "", "hgfe", "a"]


def refused(function, *args: object, **options: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        function(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_numbers_of_all_documents_come_back_each_with_its_end(tmp_path):
    end = TOKENIZER.special["eos"]
    tokens = write_tokens(tmp_path / "deep" / "a.tokens", iter(TEXTS), TOKENIZER, end=end)
    assert tokens.numbers.tolist() == [n for text in TEXTS for n in (*TOKENIZER.ids(text), end)]
    assert tokens.numbers.dtype == np.uint16 and tokens.vocabulary == TOKENIZER.size and len(tokens) == 12
    assert isinstance(tokens.numbers, np.memmap) and not tokens.numbers.flags.writeable
    assert os.listdir(tmp_path / "deep") == ["a.tokens"]
    assert write_tokens(tmp_path / "b", TEXTS, TOKENIZER).numbers.tolist() == TOKENIZER.ids("".join(TEXTS))


def test_a_large_vocabulary_takes_four_bytes(tmp_path):
    large = character_tokenizer([chr(0x10000 + i) for i in range(2**16 + 5)])
    tokens = write_tokens(tmp_path / "a", [chr(0x10000 + 2**16 + 4)], large)
    assert tokens.numbers.dtype == np.uint32 and tokens.numbers.tolist() == [2**16 + 4]


def test_progress_is_told_as_documents_are_done(tmp_path, monkeypatch):
    monkeypatch.setattr(token_file, "TEXTS_AT_ONCE", 3)
    told = []
    write_tokens(tmp_path / "a", TEXTS, TOKENIZER, progress=told.append)
    assert told == [3, 4]


def test_the_checksum_is_the_same_for_a_saved_tokenizer_and_another_for_another(tmp_path):
    TOKENIZER.save(tmp_path)
    assert tokenizer_checksum(read_tokenizer(tmp_path)) == tokenizer_checksum(TOKENIZER)
    other = character_tokenizer("hgfedcba", special={"eos": "<end>"})
    assert tokenizer_checksum(other) != tokenizer_checksum(TOKENIZER)
    file = tmp_path / "a.tokens"
    write_tokens(file, TEXTS, TOKENIZER)
    assert len(open_tokens(file)) == len(open_tokens(file, read_tokenizer(tmp_path))) == 8
    assert f"{file} was made by another tokenizer" in refused(open_tokens, file, other)


@pytest.mark.parametrize("kept", [0, 4, 500, HEADER_BYTES, HEADER_BYTES + 7])
def test_a_truncated_file_is_refused_in_one_line(kept, tmp_path):
    file = tmp_path / "a"
    write_tokens(file, TEXTS, TOKENIZER)
    file.write_bytes(file.read_bytes()[:kept])
    message = refused(open_tokens, file)
    assert ("truncated" if kept > len(MAGIC) else "is no file of tokens") in message


def test_a_foreign_or_broken_file_is_refused_in_one_line(tmp_path):
    file = tmp_path / "a"
    assert "can't be read: No such file" in refused(open_tokens, file)
    write_tokens(file, TEXTS, TOKENIZER)
    whole = file.read_bytes()
    file.write_bytes(whole + b"\0\0")
    assert "has 2 bytes behind its end" in refused(open_tokens, file)
    file.write_bytes(b"\x89PNG" + whole)
    assert "is no file of tokens" in refused(open_tokens, file)
    file.write_bytes(MAGIC + b"{" * (HEADER_BYTES - len(MAGIC)))
    assert "is not valid JSON" in refused(open_tokens, file)
    for change in ({"count": -1}, {"count": True}, {"dtype": "float64"}, {"vocabulary": "9"}, {"tokenizer": None}):
        header = json.loads(whole[len(MAGIC) : HEADER_BYTES]) | change
        file.write_bytes((MAGIC + json.dumps(header).encode()).ljust(HEADER_BYTES) + whole[HEADER_BYTES:])
        assert "has a header that is not understood" in refused(open_tokens, file)


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "a"
    write_tokens(file, TEXTS, TOKENIZER)
    before = file.read_bytes()

    def failing():
        yield "abc"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tokens(file, failing(), TOKENIZER)
    assert "'z' is not in this vocabulary" in refused(write_tokens, file, ["a", "z"], TOKENIZER)
    assert "would hold no token" in refused(write_tokens, file, [""], TOKENIZER)
    assert "99 is no number of a vocabulary of 9" in refused(write_tokens, file, ["a"], TOKENIZER, end=99)
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["a"]


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "can't be written: No space left on device" in refused(write_tokens, tmp_path / "a", ["a"], TOKENIZER)
    assert os.listdir(tmp_path) == []


def test_windows_are_a_pure_function_of_seed_and_step():
    numbers = np.arange(10_000, dtype=np.uint16)
    inputs, targets = windows(numbers, 16, seed=3, step=7, batch=8)
    assert inputs.shape == targets.shape == (8, 16) and inputs.dtype == torch.int64
    assert torch.equal(targets, inputs + 1)
    again, _ = windows(numbers, 16, seed=3, step=7, batch=8)
    assert torch.equal(again, inputs)
    for other in (windows(numbers, 16, 3, 8, 8), windows(numbers, 16, 4, 7, 8)):
        assert not torch.equal(other[0], inputs)
    assert inputs[:, 0].tolist() == [5596, 8264, 9747, 2327, 3598, 8336, 8557, 4343]  # for ever: resuming relies on it


def test_windows_reach_every_place_evenly_and_never_leave_the_text():
    numbers = np.arange(21, dtype=np.uint16)
    starts = torch.cat([windows(numbers, 4, 0, step, 64)[0][:, 0] for step in range(200)])
    counts = torch.bincount(starts)
    assert len(counts) == 17 and counts.min() > 0.85 * 12_800 / 17


def test_evaluation_scores_every_token_but_the_first_exactly_once():
    for count, length, batch in ((101, 10, 3), (100, 10, 3), (10, 10, 4), (11, 10, 4), (2, 10, 1), (64, 1, 7)):
        numbers = np.arange(count, dtype=np.uint16)
        scored, seen = [], list(sequential(numbers, length, batch))
        for inputs, targets in seen:
            assert torch.equal(targets, inputs + 1) and inputs.shape[0] <= batch and inputs.shape[1] <= length
            scored += targets.flatten().tolist()
        assert scored == list(range(1, count))


def test_a_text_too_short_for_a_window_is_refused(tmp_path):
    tokens = write_tokens(tmp_path / "a", ["abcd"], TOKENIZER)
    assert "has 4 tokens: too few for a window of 4" in refused(windows, tokens, 4, 0, 0, 1)
    assert windows(tokens, 3, 0, 0, 1)[0].tolist() == [tokens.numbers[:3].tolist()]
    assert "at least a token" in refused(windows, tokens, 0, 0, 0, 1)
    assert "at least a token" in refused(windows, tokens, 2, 0, 0, 0)
    assert "at least a token" in refused(lambda: list(sequential(np.zeros(1, np.uint16), 4, 1)))
