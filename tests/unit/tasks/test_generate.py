"""`generate` on models whose next token is known by construction, and against the decoding underneath."""

import json
import shutil

import pytest
import torch

import clearhead
from clearhead.data import character_tokenizer
from clearhead.decode import Limits, Sampling, collect
from clearhead.decode import generate as decoded
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks import Interrupted, generate, teach, writer
from tests.writers import bytes_folder, letters, trained_translator, translator

FAMILIES = ["gpt", "transformer", "t5"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("writers")
    return {
        "gpt": letters(place / "gpt"),
        "unsure": letters(place / "unsure", end=False, context=24, sureness=3.0),
        "endless": letters(place / "endless", end=False),
        "bytes": bytes_folder(place / "bytes", "aé猫b€"),
        "transformer": trained_translator(place / "transformer"),
        "t5": translator(place / "t5", "t5-small"),
    }


@pytest.fixture
def load(folders):
    return lambda name: clearhead.load(folders[name], device="cpu")


def refused(call) -> str:
    with pytest.raises(ClearheadError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_text_goes_on_to_its_end_token_which_is_no_part_of_it(load):
    (found,) = generate(load("gpt"), "abc")
    assert (found.text, found.reason, found.prompt, found.sample) == ("defgh", "end", 0, 0)
    assert found.pieces == (*"defgh", "<end>") and len(found.tokens) == len(found.logprobs) == 6
    assert -0.01 < found.logprob < 0 and found.seconds > 0 and found.best == ()


PROMPTS = {
    "gpt": ["abc", "a", "bcde"],
    "transformer": ["the cat", "a big dog sees the house", "a"],
    "t5": ["the cat", "a big dog", "eats"],
}


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("name", FAMILIES)
def test_it_is_the_decoding_underneath_token_for_token(load, name, temperature):
    model = load(name)
    writes = writer(model)
    limits = Limits(7, writes.end, writes.never)
    sampling = Sampling(temperature, top_k=9 if temperature else None, repetition_penalty=1.1)
    rows = [writes.ids(text) for text in PROMPTS[name]]
    expected = collect(3, decoded(model, rows, limits, sampling, seeds=[5, 5, 5], best=2))
    options = {"top_k": 9} if temperature else {}
    found = generate(
        model, PROMPTS[name], length=7, temperature=temperature, repetition_penalty=1.1, seed=5, logprobs=2, **options
    )
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.tokens == tuple(theirs.tokens) and mine.logprobs == tuple(theirs.logprobs)
        assert [[score for _, score in best] for best in mine.best] == [[s for _, s in best] for best in theirs.best]


def test_a_draw_depends_on_its_seed_and_number_alone(load):
    model = load("unsure")
    together = generate(model, ["ab", "cde"], samples=4, seed=7, length=8, batch=8)
    assert [(found.prompt, found.sample) for found in together] == [(p, s) for p in (0, 1) for s in range(4)]
    for batch in (1, 3):
        assert [f.tokens for f in generate(model, ["ab", "cde"], samples=4, seed=7, length=8, batch=batch)] == [
            f.tokens for f in together
        ]
    for found in together:
        (alone,) = generate(model, ["ab", "cde"][found.prompt], temperature=1.0, seed=7 + found.sample, length=8)
        assert alone.tokens == found.tokens
    assert len({found.tokens for found in together}) > 3


def test_without_a_temperature_samples_and_filters_draw_from_the_models_own_chances(load):
    model = load("unsure")
    for options in ({"samples": 2}, {"top_k": 8}, {"top_p": 0.99}, {"min_p": 0.001}):
        plain = generate(model, "a", **options)
        assert [found.tokens for found in plain] == [f.tokens for f in generate(model, "a", temperature=1.0, **options)]
    assert generate(model, "ab")[0].text.startswith("cdefgh")


def test_stop_strings_may_straddle_tokens_and_are_no_part_of_the_text(load):
    shown = []
    (found,) = generate(load("gpt"), "a", stop=["gh", "ef"], on_text=lambda row, text: shown.append(text))
    assert (found.text, found.reason) == ("bcd", "stop") and "".join(shown) == "bcd"
    assert generate(load("gpt"), "a", stop="fg")[0].text == "bcde"
    (found,) = generate(load("gpt"), "a", stop="hx")
    assert (found.text, found.reason) == ("bcdefgh", "end")


def test_text_comes_in_whole_characters_and_rows_tell_when_they_end(load):
    shown, ended = [], []
    found = generate(
        load("bytes"),
        ["a", "猫"],
        length=9,
        on_text=lambda row, text: shown.append((row, text)),
        on_end=ended.append,
    )
    assert found[0].text == "é猫b€" and found[1].text == "b€aé\N{REPLACEMENT CHARACTER}"
    assert [text for row, text in shown if row == 0] == ["é", "猫", "b", "€"]
    assert "".join(text for row, text in shown if row == 1) == found[1].text
    assert sorted(ended) == [0, 1]


def test_the_context_ends_a_text_unless_a_window_is_asked_for(load):
    model = load("endless")
    (found,) = generate(model, "abcd", length=40)
    assert (found.reason, len(found.tokens)) == ("context", 16 - 4 + 1)
    (more,) = generate(model, "abcd", length=40, window=True)
    assert more.reason == "length" and more.text == ("efghabcd" * 5)
    assert generate(model, "abcd", length=13)[0].reason == "length"
    assert generate(model, "abcdefgh" * 3, length=2, window=True)[0].text == "ab"
    shown = []
    said = refused(lambda: generate(model, ["ab", "a" * 17], batch=1, on_text=lambda *new: shown.append(new)))
    assert said == "prompt 2 has 17 tokens and the context is 16: shorten it, or ask for a window (--window)"
    assert shown == []
    assert "a transformer answers it" in refused(lambda: generate(load("transformer"), "the cat", window=True))


def test_only_choices_are_written_and_one_may_begin_another(load):
    model = load("gpt")
    (found,) = generate(model, "c", choices=["ab", "de", "ha"])
    assert (found.text, found.reason) == ("de", "closed")
    assert generate(model, "f", choices=["gh", "ghab"])[0].text == "gh"
    assert generate(load("transformer"), "the cat", choices=["das Hund", "Hund", "das Haus"])[0].text != "Hund"
    said = refused(lambda: generate(load("endless"), "f", choices=["gh", "ghab"]))
    assert "begins another" in said
    assert "no token" in refused(lambda: generate(model, "f", choices=[""]))


def changed(folder, tmp_path, **files):
    copied = shutil.copytree(folder, tmp_path / "copy")
    for name, values in files.items():
        file = copied / f"{name}.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(known | values))
    return clearhead.load(copied, device="cpu")


@pytest.mark.parametrize("name", ["config", "generation_config"])
def test_end_tokens_come_from_the_folder_too_and_numbers_beyond_the_vocabulary_end_nothing(folders, tmp_path, name):
    model = changed(folders["gpt"], tmp_path, **{name: {"eos_token_id": [6, 50256]}})
    assert writer(model).end == {0, 6}
    assert generate(model, "a")[0].text == "bcde"


def test_forbidden_tokens_padding_and_numbers_without_a_name_are_never_written(folders, tmp_path):
    model = changed(folders["transformer"], tmp_path, generation_config={"bad_words_ids": [[7], [9]]})
    assert writer(model).never == {0, 7, 9}
    tok = character_tokenizer("abc")
    wider = clearhead.save(create("gpt2", vocab=9, context=8, width=8, layers=1, heads=1, seed=0), tmp_path / "wide")
    tok.save(wider)
    model = clearhead.load(wider, device="cpu")
    assert writer(model).never == {3, 4, 5, 6, 7, 8}
    assert set(generate(model, "a", samples=8, length=7)[0].text) <= set("abc")


def test_what_a_folder_says_wrongly_is_refused(folders, tmp_path):
    for number, (values, message) in enumerate(
        [
            ({"eos_token_id": "x"}, "eos_token_id"),
            ({"eos_token_id": [-1]}, "eos_token_id"),
            ({"bad_words_ids": [[1, 2]]}, "only single ones"),
            ({"bad_words_ids": 3}, "only single ones"),
        ]
    ):
        model = changed(folders["gpt"], tmp_path / str(number), generation_config=values)
        assert message in refused(lambda model=model: generate(model, "a"))


def test_a_target_begins_with_the_vocabularys_own_mark_where_the_config_names_none(tmp_path):
    places = translator(tmp_path / "unnamed", start_token=None), translator(tmp_path / "named")
    unnamed, named = (clearhead.load(place, device="cpu") for place in places)
    assert unnamed.start_token is None and writer(unnamed).prefix == (2,) and writer(named).prefix is None
    assert [f.tokens for f in generate(unnamed, PROMPTS["transformer"])] == [
        f.tokens for f in generate(named, PROMPTS["transformer"])
    ]


def test_an_interruption_brings_what_was_written(load):
    def stop_at_d(row: int, text: str) -> None:
        if text == "d":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        generate(load("gpt"), ["a", "g", "b"], on_text=stop_at_d, batch=2)
    assert isinstance(caught.value, Interrupted)
    assert [(found.text, found.reason) for found in caught.value.results] == [
        ("bcd", "interrupted"),
        ("h", "end"),
        ("", "interrupted"),
    ]


def test_training_mode_comes_back_and_a_compiled_model_is_used_as_it_was_written(load):
    model = load("gpt").train()
    assert generate(torch.compile(model), "abc")[0].text == "defgh"
    assert model.training


@pytest.mark.parametrize("name", ["gpt", "transformer"])
def test_teacher_forcing_stands_beside_testing(load, name):
    model = load(name)
    given, target = ("ab", "cdxef".replace("x", "a")) if name == "gpt" else ("the cat", "das Hund")
    lesson = teach(model, given, target)
    assert "".join(lesson.target) == target if name == "gpt" else lesson.target == ("das", "Hund", "<end>")
    assert len(lesson.forced) == len(lesson.target) and lesson.modes.free
    if name == "gpt":
        assert "".join(lesson.forced) == "cdebf" and lesson.modes.first_difference == 2
        assert "".join(lesson.free) == "cdefg"
    else:
        assert lesson.free == ("das", "Katze", "<end>") and lesson.modes.first_difference == 1


BERT = {"vocab": 30, "width": 8, "layers": 1, "heads": 1}
WRONG = {
    "an empty prompt": (lambda m: generate(m, ""), "the prompt is empty"),
    "a letter unknown": (lambda m: generate(m, "aZ"), "'Z' is not in this vocabulary"),
    "NaN": (lambda m: generate(m, "a", temperature=float("nan")), "temperature must be at least 0, not nan"),
    "negative": (lambda m: generate(m, "a", temperature=-1.0), "temperature must be at least 0, not -1.0"),
    "samples of one": (lambda m: generate(m, "a", samples=2, temperature=0.0), "temperature 0 always takes the best"),
    "no samples": (lambda m: generate(m, "a", samples=0), "samples must be a whole number of at least 1, not 0"),
    "no length": (lambda m: generate(m, "a", length=0), "length must be a whole number of at least 1, not 0"),
    "no batch": (lambda m: generate(m, "a", batch=0), "batch must be a whole number of at least 1, not 0"),
    "no seed": (lambda m: generate(m, "a", seed=-1), "seed must be a whole number of at least 0, not -1"),
    "an empty stop": (lambda m: generate(m, "a", stop=""), "a stop string is empty"),
    "no target": (lambda m: teach(m, "a", ""), "the target is empty"),
    "a long target": (lambda m: teach(m, "a", "b" * 17), "the context has room for 16"),
    "a BERT": (lambda m: generate(create("bert-base", **BERT), "a"), "bert models don't write text"),
    "no vocabulary": (lambda m: generate(create("gpt2", width=8, layers=1, heads=1), "a"), "without a vocabulary"),
    "no model of ours": (lambda m: generate(torch.nn.Linear(1, 1), "a"), "a clearhead model writes text, not a Linear"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_refused_in_one_line(load, call, message):
    assert message in refused(lambda: call(load("gpt")))
