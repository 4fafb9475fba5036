"""`fill` against transformers' fill-mask, one blank after another by hand, and T5's sentinels on a trained toy."""

import random

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

import clearhead
from clearhead.data import Tokenizer, word_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks.fill import count_blanks, fill
from tests.minilm import tiny
from tests.support import TOLERANCE, peer

TEXT = "the cat sat on the [MASK] , she put [MASK] in tea"
LETTERS = list("abcdefgh")


@pytest.fixture(scope="module", params=["fill", "pretrain"])
def folder(request, tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("bert") / request.param, task=request.param)


@pytest.fixture
def model(folder):
    return clearhead.load(folder, device="cpu")


def test_words_and_probabilities_are_those_of_transformers(folder, model):
    transformers = peer("transformers")
    theirs = transformers.BertForMaskedLM.from_pretrained(folder)
    tok = transformers.AutoTokenizer.from_pretrained(folder)
    expected = transformers.pipeline("fill-mask", model=theirs, tokenizer=tok, top_k=7)(TEXT)
    found = fill(model, TEXT, top=7)
    assert len(found.blanks) == 2
    for guesses, answers in zip(found.blanks, expected, strict=True):
        assert [guess.tokens for guess in guesses] == [(answer["token"],) for answer in answers]
        assert [guess.word for guess in guesses] == [answer["token_str"] for answer in answers]
        assert all(
            abs(guess.probability - answer["score"]) <= TOLERANCE
            for guess, answer in zip(guesses, answers, strict=True)
        )


def test_a_blank_may_be_written_as_underscores(model):
    by_mask = fill(model, TEXT)
    for text in (TEXT.replace("[MASK]", "___"), TEXT.replace("[MASK]", "_______", 1)):
        assert fill(model, text) == by_mask
        assert count_blanks(model, text) == 2


def test_the_text_comes_back_with_the_best_words_in_it(model):
    found = fill(model, "the cat ___ tea", top=1)
    word = found.blanks[0][0].word
    assert found.text == ("the cat" + word[2:] if word.startswith("##") else f"the cat {word}") + " tea"


def test_a_piece_is_joined_to_the_word_before_it():
    from clearhead.tasks.fill import _put_in

    assert _put_in(["he was sit ", " by the ", "."], ["##ing", "bank"]) == "he was siting by the bank."
    assert _put_in(["", ""], ["##"]) == "##"


def test_one_by_one_reads_again_with_the_surest_word_in_its_place(model):
    tok = clearhead.tokenizer(model)
    for word, number in tok.vocabulary.items():  # so that whole words alone are chosen, which can be put into a text
        if word.startswith(("##", "[")):
            model.masked_words.bias.data[number] = -100.0
    together, found = fill(model, TEXT), fill(model, TEXT, one_by_one=True)
    first = max((0, 1), key=lambda blank: together.blanks[blank][0].probability)
    assert found.blanks[first] == together.blanks[first]
    given = TEXT.split("[MASK]")
    given.insert(1, "[MASK]" if first else found.blanks[0][0].word)
    given.insert(3, found.blanks[1][0].word if first else "[MASK]")
    assert found.blanks[1 - first] == fill(model, "".join(given)).blanks[0]
    assert found.blanks[1 - first] != together.blanks[1 - first]


def test_one_by_one_ends_even_where_the_best_word_is_the_mask_itself(model):
    mask = clearhead.tokenizer(model).special["mask"]
    with torch.no_grad():
        model.masked_words.bias[mask] += 100  # pyright: ignore
    found = fill(model, "___ ___ the cat", one_by_one=True)
    assert len(found.blanks) == 2 and mask not in [guesses[0].tokens[0] for guesses in found.blanks]


def test_numbers_that_the_vocabulary_lacks_are_never_words(tmp_path):
    model = clearhead.load(tiny(tmp_path / "tiny", task="fill", vocab=200), device="cpu")
    size = clearhead.tokenizer(model).size
    guesses = fill(model, "the ___", top=500).blanks[0]
    assert len(guesses) == size and abs(sum(guess.probability for guess in guesses) - 1) < 1e-5


def test_mistakes_are_told_in_one_line(model, tmp_path):
    gpt = create("gpt-nano", device="cpu")
    headless = clearhead.load(tiny(tmp_path / "headless"), device="cpu")
    unmasked = word_tokenizer(["the cat"], special={"unk": "<unk>"})
    maskless = create("bert-base", vocab=unmasked.size, width=24, layers=1, heads=3, task="fill", device="cpu")
    maskless = clearhead.load(clearhead.save(maskless, tmp_path / "maskless", tokenizer=unmasked), device="cpu")
    cases = [
        (model, "no blank here __ at all", {}, "no blank: put \\[MASK\\] or ___"),
        (model, TEXT, {"top": 0}, "at least one word"),
        (model, "the " * 20 + "___", {}, "context of 16"),
        (gpt, TEXT, {}, "by a BERT or a T5, not by a GPT"),
        (headless, TEXT, {}, "no masked words \\(it has no task\\)"),
        (maskless, TEXT, {}, "no mask token"),
    ]
    for one, text, options, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            fill(one, text, **options)
        assert "\n" not in str(caught.value)


UPDATES = 250  # at a rate that goes down to nothing: as sure of its letters whatever way a processor rounds


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A T5 that has learnt the alphabet: letters are missing from a stretch of it."""
    special = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
    backend = Backend(models.WordLevel({word: n for n, word in enumerate([*special.values(), *LETTERS])}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore
    backend.add_special_tokens([f"<extra_id_{number}>" for number in range(3)])
    tok = Tokenizer(backend, special)
    sizes = {"vocab": tok.size, "width": 32, "layers": 2, "heads": 2, "head_width": 16, "ff": 64, "dropout": 0.0}
    marks = {"pad_token": tok.special["pad"], "start_token": tok.special["pad"], "end_token": tok.special["eos"]}
    model = create("t5-small", **sizes, **marks, seed=0, device="cpu")
    optimiser, roll = torch.optim.AdamW(model.parameters()), random.Random(0)
    for update in range(UPDATES):
        optimiser.param_groups[0]["lr"] = 5e-3 * min(1.0, 2 - 2 * update / UPDATES)
        rows = []
        for _ in range(32):
            begin = roll.randrange(len(LETTERS) - 4)
            letters, (first, second) = LETTERS[begin : begin + 5], sorted(roll.sample(range(5), 2))
            source = [
                *letters[:first],
                "<extra_id_0>",
                *letters[first + 1 : second],
                "<extra_id_1>",
                *letters[second + 1 :],
            ]
            rows.append((source, ["<extra_id_0>", letters[first], "<extra_id_1>", letters[second], "</s>"]))
        source, lengths = tok.batch([" ".join(source) for source, _ in rows])
        target, _ = tok.batch([" ".join(["<pad>", *target]) for _, target in rows])
        loss = torch.nn.functional.cross_entropy(model(source, target[:, :-1], lengths).mT, target[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    folder = clearhead.save(model, tmp_path_factory.mktemp("t5") / "t5", tokenizer=tok)
    return clearhead.load(folder, device="cpu")


@pytest.mark.parametrize("text", ["b ___ d ___ f", "b <extra_id_0> d <extra_id_1> f", "b <extra_id_7> d ___ f"])
def test_a_t5_fills_its_sentinels(t5, text):
    found = fill(t5, text, top=3)
    assert found.text == "b c d e f"
    assert [guesses[0].word for guesses in found.blanks] == ["c", "e"]
    for guesses in found.blanks:
        chances = [guess.probability for guess in guesses]
        assert chances == sorted(chances, reverse=True) and 0.5 < chances[0] <= sum(chances) <= 1 + 1e-6
    assert count_blanks(t5, text) == 2


def test_a_t5_refuses_more_blanks_than_it_has_sentinels_and_one_by_one(t5):
    with pytest.raises(ClearheadError, match="no <extra_id_3>"):
        fill(t5, "___ ___ ___ ___")
    with pytest.raises(ClearheadError, match="together"):
        fill(t5, "a ___", one_by_one=True)
    with pytest.raises(ClearheadError, match="no blank"):
        count_blanks(t5, "a b")
