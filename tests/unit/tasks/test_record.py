"""`record`: what a person gives becomes the model's inputs, and rows are named by the tokens they belong to."""

import json
import sys

import pytest
import torch

import clearhead
from clearhead.cli import main
from clearhead.data import word_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import FAMILIES, Model, create
from clearhead.tasks import row_tokens

TINY = {"device": "cpu", "seed": 0, "layers": 1}
PAIR = ("नमस्ते, कस्तो हुनुहुन्छ?", "Hi, how are you?")
TARGET_TOKENS = ["<start>", "Hi", ",", "how", "are", "you", "?"]


@pytest.fixture
def translator() -> Model:
    return create("transformer-tiny", **TINY)


def refused(*args, **options) -> str:
    with pytest.raises(ClearheadError) as caught:
        clearhead.record(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_family_says_what_it_takes():
    takes = {name: family.model.takes for name, family in FAMILIES.items()}
    assert takes["gpt"] == ("text",)
    assert takes["vit"] == ("image",)
    assert takes["transformer"] == takes["t5"] == ("source", "target")


def test_a_text_is_recorded_with_its_tokens():
    trace = clearhead.record(create("deck", device="cpu", seed=0), "I love intelligence")
    assert trace.about["text"] == "I love intelligence"
    assert trace.about["tokens"] == ["I", "love", "intelligence"]
    assert trace["input.ids"].shape == (1, 3)
    assert trace.about["path"] == "reference"


def test_nothing_given_is_the_decks_sentence_or_the_decks_pair(translator):
    assert clearhead.record(create("deck", device="cpu")).about["text"] == "This is Computer Vision Class"
    about = clearhead.record(translator).about
    assert (about["source"], about["target"]) == PAIR


def test_a_pair_is_recorded_with_the_tokens_of_both_sides(translator):
    trace = clearhead.record(translator, PAIR)
    assert trace.about["source_tokens"] == ["नमस्ते", ",", "कस्तो", "हुनुहुन्छ", "?"]
    assert trace.about["target_tokens"] == TARGET_TOKENS
    assert trace["source.ids"].shape == (1, 5)
    assert trace["target.ids"].shape == (1, 7)
    assert trace["decoder.blocks.0.cross.weights"].shape == (1, 4, 7, 5)
    assert trace.output.shape == (1, 7, 10000)


def test_words_of_both_sides_are_numbered_as_they_appear_when_random_weights_have_no_vocabulary(translator):
    trace = clearhead.record(translator, ("a b", "b c"))
    assert trace["source.ids"].tolist() == [[1, 2]]
    assert trace["target.ids"].tolist() == [[0, 2, 3]]
    assert "numbered as they appear" in trace.about["note"]


def test_t5_takes_a_pair_too():
    model = create("t5-small", device="cpu", layers=1, width=16, heads=2, head_width=8, ff=16, vocab=50)
    assert clearhead.record(model, PAIR, sites="*.ids").about["target_tokens"] == TARGET_TOKENS


@pytest.mark.parametrize(
    ("site", "side"),
    [
        ("source.embedded", "source"),
        ("encoder.blocks.0.attention.weights", "source"),
        ("encoder.norm.normed", "source"),
        ("decoder.blocks.0.cross.key", "source"),
        ("decoder.blocks.0.cross.value#2", "source"),
        ("decoder.blocks.0.cross.weights", "target"),
        ("decoder.blocks.0.attention.key", "target"),
        ("target.positions", "target"),
        ("logits", "target"),
    ],
)
def test_rows_are_named_by_the_side_they_belong_to(site, side):
    about = {"source_tokens": ["s"], "target_tokens": ["t"]}
    assert row_tokens(about, site) == [side[0]]


def test_every_site_of_a_pair_has_as_many_rows_as_its_tokens(translator):
    trace = clearhead.record(translator, PAIR)
    for site, value in trace.items():
        rows = value.shape[-1] if site.endswith(".ids") else value.shape[-2]
        assert rows == len(row_tokens(trace.about, site)), site


def test_a_text_models_rows_are_all_named_by_its_text_and_a_pictures_by_nothing():
    assert row_tokens({"tokens": ["a"]}, "decoder.blocks.0.attention.key") == ["a"]
    assert row_tokens({"image": "a.png"}, "encoder.blocks.0.attention.key") is None


def test_a_target_begins_with_the_models_own_start_token(tmp_path):
    special = {"pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    tokenizer = word_tokenizer(["one two"], special=special)
    starts = {}
    for start in (None, 0):
        model = create("transformer-tiny", **TINY, vocab=tokenizer.size, start_token=start)
        clearhead.save(model, tmp_path, tokenizer=tokenizer)
        trace = clearhead.record(clearhead.load(tmp_path, device="cpu"), ("one", "two"))
        starts[start] = trace.about["target_tokens"]
    assert starts == {None: ["<s>", "two"], 0: ["<pad>", "two"]}


def test_tensors_are_taken_as_they_are(translator):
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])
    trace = clearhead.record(translator, (source, target, torch.tensor([2])), sites="*.ids")
    assert torch.equal(trace["source.ids"], source)
    assert torch.equal(trace["target.ids"], target)
    assert "source_tokens" not in trace.about


def test_the_wrong_number_of_inputs_is_refused_in_one_line(translator):
    assert refused(translator, "a text") == "a transformer model takes (source, target): 2 expected, 1 given"
    assert refused(create("deck", device="cpu"), PAIR) == "a gpt model takes (text): 1 expected, 2 given"


@pytest.mark.parametrize("pair", [("", "a"), ("a", " ")])
def test_an_empty_side_is_refused_in_one_line(translator, pair):
    assert refused(translator, pair) == "the text is empty: there is nothing to record"


def test_a_side_with_more_words_than_its_table_is_refused_in_one_line():
    model = create("transformer-tiny", **TINY, vocab=50, target_vocab=3, tied="decoder")
    assert refused(model, ("a b c d", "e")) == (
        "the tokenizer numbers up to 5 and the model knows 3 tokens: they don't belong together"
    )


def test_weights_from_a_folder_without_a_tokenizer_are_refused_in_one_line(translator, tmp_path):
    clearhead.save(translator, tmp_path)
    assert "has no tokenizer" in refused(clearhead.load(tmp_path, device="cpu"), PAIR)


# The command ---------------------------------------------------------------------------------------------------------


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["clearhead", "trace", *arguments, "--device", "cpu"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_the_command_prints_a_pair_with_rows_named_by_the_right_side(monkeypatch, capsys):
    site = ("--site", "decoder.blocks.3.cross.weights", "--site", "encoder.blocks.3.input")
    code, out, _ = run(monkeypatch, capsys, "transformer-tiny", "--text", "one two", "--target", "un deux", *site)
    assert code == 0
    assert out.index("source: one two") < out.index("target: un deux")
    rows = [line.split()[0] for line in out.split("decoder.blocks.3.cross.weights")[1].splitlines()[1:4]]
    assert rows == ["<start>", "un", "deux"]
    assert "\n  two " in out.split("encoder.blocks.3.input")[1]


def test_the_command_gives_both_sides_as_json(monkeypatch, capsys):
    arguments = ("transformer-tiny", "--text", "one", "--target", "un", "--site", "*.ids", "--json")
    code, out, _ = run(monkeypatch, capsys, *arguments)
    about = json.loads(out)
    assert code == 0
    assert (about["source"], about["target_tokens"]) == ("one", ["<start>", "un"])
    assert [site["site"] for site in about["sites"]] == ["source.ids", "target.ids"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("transformer-tiny", "--text", "a"), "a transformer model takes --text and --target together: give both"),
        (("transformer-tiny", "--target", "a"), "a transformer model takes --text and --target together: give both"),
        (("transformer-tiny", "--image", "a.png"), "a transformer model takes --text and --target, not --image"),
        (("deck", "--text", "I", "--target", "a"), "a gpt model takes --text, not --target"),
        (("vit-ti16", "--text", "a"), "a vit model takes --image, not --text"),
    ],
)
def test_the_command_refuses_what_the_model_does_not_take(monkeypatch, capsys, arguments, message):
    assert run(monkeypatch, capsys, *arguments) == (2, "", f"clearhead: {message}\n")
