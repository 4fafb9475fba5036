"""What people type: tokens with their places, blanks, pairs, targets; and all that can't be read, in words."""

import pytest
import torch

import clearhead
from clearhead.studio.inputs import MOST_TOKENS
from clearhead.tasks import record
from tests.unit.studio.asking import matrix, passed, refused
from tests.writers import bytes_folder, translator


def shown(said, of="tokens"):
    return [token["shown"] for token in said["tokens"][of]]


def test_tokens_say_where_in_the_text_they_stood(studio):
    said = passed(studio(), "random:deck", text="I love, artificial  intelligence")
    tokens = said["tokens"]["tokens"]
    assert shown(said) == ["I", "love", "<unk>", "artificial", "intelligence"]
    assert [(token["start"], token["end"]) for token in tokens] == [(0, 1), (2, 6), (6, 7), (8, 18), (20, 32)]
    assert [token["special"] for token in tokens] == [False, False, True, False, False]


def test_spaces_are_made_visible_and_the_spelling_is_the_tokenizers(studio, tmp_path):
    said = passed(studio(bytes_folder(tmp_path / "bytes", "abc")), "bytes", text="a b\n")
    assert shown(said) == ["a", "␣", "b", "⏎"]
    assert [token["text"] for token in said["tokens"]["tokens"]] == ["a", "Ġ", "b", "Ċ"]


def test_emoji_and_right_to_left_text_are_read(studio, tmp_path):
    client = studio(bytes_folder(tmp_path / "bytes", "abc"))
    for text in ("🦜🏽‍♀️", "שלום עולם", "مرحبا", "नमस्ते"):
        assert len(shown(passed(client, "bytes", text=text))) == len(text.encode())
        assert shown(passed(client, "random:gpt-mini", text=text))


def test_words_of_your_own_get_numbers_with_random_weights_and_the_decks_words_keep_theirs(studio):
    client = studio()
    one, other = (passed(client, "random:gpt-mini", text=text) for text in ("zebra love", "love quagga"))
    assert shown(one) == ["zebra", "love"]
    assert one["tokens"]["tokens"][1]["id"] == other["tokens"]["tokens"][0]["id"]
    assert "random weights" in one["notes"][0]


def test_a_text_that_is_too_long_is_cut_and_that_is_said(studio):
    said = passed(studio(), "random:gpt-mini", text="it was " * 5000)
    assert len(said["tokens"]["tokens"]) == 64
    assert "10,000 tokens" in said["cut"]
    assert "64" in said["cut"]


def test_a_cut_text_of_a_bert_still_ends_with_its_mark_and_of_a_pair_the_longer_is_cut(studio):
    said = passed(studio(), "random:bert-mini", text="it was " * 100, second="I love you")
    assert len(shown(said)) == 64
    assert shown(said)[-5:] == ["[SEP]", "I", "love", "you", "[SEP]"]
    assert shown(passed(studio(), "random:bert-mini", text="it was " * 100))[-1] == "[SEP]"


def test_a_model_without_a_context_reads_so_many_tokens(studio):
    said = passed(studio(), "random:t5-mini", source="it was " * 600, target="it")
    assert len(said["tokens"]["source"]) == MOST_TOKENS
    assert "source" in said["cut"]


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_text_is_refused(studio, text):
    assert "empty" in refused(studio(), 400, "random:deck", text=text)
    assert "empty" in refused(studio(), 400, "random:t5-mini", source=text, target="it")


def test_what_a_model_does_not_take_is_refused_with_what_it_takes(studio):
    client = studio()
    assert "takes a text, not a picture" in refused(client, 400, "random:deck", text="I", picture="digits/test/0")
    assert "not a second sentence" in refused(client, 400, "random:deck", text="I", second="you")
    assert "takes a source and a target" in refused(client, 400, "random:t5-mini", text="I")
    assert "takes a picture" in refused(client, 400, "random:vit-mini", text="I")
    assert "no picture" in refused(client, 400, "random:vit-mini")


def test_a_letter_that_the_vocabulary_lacks_is_named(studio, letters_run):
    assert "'z'" in refused(studio(letters_run), 400, "letters", text="abz")


def test_half_a_surrogate_pair_is_refused_not_a_crash(studio):
    body = b'{"model": "random:deck", "inputs": {"text": "\\ud800"}}'
    answer = studio().post("/api/passes", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["problem"]


# ------------------------------------------------------------------------------------------ predictions


def test_a_gpt_says_the_next_token_at_every_place_most_at_the_last(studio, letters_run):
    said = passed(studio(letters_run), "letters", text="abcd")
    assert [(one["of"], one["place"], len(one["top"])) for one in said["predictions"]] == [
        ("next", 0, 5),
        ("next", 1, 5),
        ("next", 2, 5),
        ("next", 3, 9),  # as many as there are, up to 20
    ]
    assert [one["top"][0]["text"] for one in said["predictions"]] == ["b", "c", "d", "e"]
    logits = record(clearhead.load(letters_run, device="cpu"), "abcd")["logits"][0, 3]
    best = said["predictions"][-1]["top"][0]
    assert best["logit"] == logits.max().item()
    assert best["probability"] == logits.softmax(-1).max().item()


@pytest.mark.parametrize("blank", ["[MASK]", "___"])
def test_a_bert_fills_its_blanks_and_only_these(studio, bert_run, blank):
    said = passed(studio(bert_run), "bert", text=f"the cat {blank} on a mat")
    filled = clearhead.fill(clearhead.load(bert_run, device="cpu"), "the cat [MASK] on a mat", top=13)
    assert [(one["of"], one["place"]) for one in said["predictions"]] == [("word", 3)]
    assert [chance["text"] for chance in said["predictions"][0]["top"]] == [guess.word for guess in filled.blanks[0]]


def test_a_bert_without_a_blank_says_what_it_would_put_in_each_place(studio, bert_run):
    said = passed(studio(bert_run), "bert", text="the cats sat")
    assert shown(said) == ["[CLS]", "the", "cat", "##s", "sat", "[SEP]"]
    assert [one["place"] for one in said["predictions"]] == [0, 1, 2, 3, 4, 5]


def test_two_sentences_are_told_apart_by_their_segments(studio, bert_run):
    client = studio(bert_run)
    said = passed(client, "bert", text="the cat", second="a [MASK] sat")
    assert shown(said) == ["[CLS]", "the", "cat", "[SEP]", "a", "[MASK]", "sat", "[SEP]"]
    places = [(token["start"], token["end"]) for token in said["tokens"]["tokens"]]
    assert places == [(None, None), (0, 3), (4, 7), (None, None), (0, 1), (2, 8), (9, 12), (None, None)]
    model = clearhead.load(bert_run, device="cpu")
    table = model.get_parameter("input.segments.weight")
    assert torch.equal(matrix(client, said["id"], "site:input.segments"), table[[0, 0, 0, 0, 1, 1, 1, 1]])


def test_an_encoder_decoder_without_a_target_writes_its_own_and_that_is_said(studio, translator_run):
    client = studio(translator_run)
    said = passed(client, "translator", source="the big dog sees")
    greedy = clearhead.generate(clearhead.load(translator_run, device="cpu"), "the big dog sees")[0]
    assert said["written"] == greedy.text
    assert shown(said, "target") == ["<start>", *greedy.text.split()]
    best = [one["top"][0]["text"] for one in said["predictions"]]
    assert best == [*greedy.text.split(), "<end>"]
    assert passed(client, "translator", source="the dog", target="das Hund")["written"] is None


def test_t5_writes_its_own_target_too(studio, tmp_path):
    said = passed(studio(translator(tmp_path / "t5", "t5-small")), "t5", source="the big dog")
    greedy = clearhead.generate(clearhead.load(tmp_path / "t5", device="cpu"), "the big dog", length=16)[0]
    assert said["written"] == greedy.text


def test_a_vit_names_its_classes(studio, vit_run):
    said = passed(studio(vit_run), "vit", picture="photographs/sample/0")
    (classes,) = said["predictions"]
    assert (classes["of"], classes["place"]) == ("class", 0)
    assert {chance["text"] for chance in classes["top"]} == {"cat", "dog", "house"}
    assert sum(chance["probability"] for chance in classes["top"]) == pytest.approx(1)
    assert said["tokens"] == {}


def test_the_last_number_that_the_model_knows_is_the_last_that_is_read(studio, tmp_path):
    place = bytes_folder(tmp_path / "bytes", "abc")
    model = clearhead.models.create("gpt2", vocab=100, context=8, width=8, layers=1, heads=1, seed=0, device="cpu")
    clearhead.save(model, place)
    assert "don't belong together" in refused(studio(place), 400, "bytes", text="z")
