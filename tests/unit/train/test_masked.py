"""Masked words and next sentences: shares of 15, 80, 10 and 10, losses against transformers' BertForPreTraining."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter

import clearhead
from clearhead.errors import ClearheadError
from clearhead.runs import save
from clearhead.tasks.fill import fill
from clearhead.train.masked import FOLLOWS, RANDOM, Masked, MaskedSpec, Sentences, sentences
from clearhead.train.task import Batching
from tests.support import peer

CPU = torch.device("cpu")
ANIMALS, FOODS = ("cat", "dog", "owl", "pig", "hen", "fox"), ("fish", "bones", "mice", "roots", "corn", "eggs")
SMALL = {
    "width": 32,
    "layers": 1,
    "heads": 2,
    "ff": 64,
    "init_std": 0.1,
    "context": 40,
    "dropout": 0,
    "attention_dropout": 0,
}


def story(number: int) -> str:
    """Every animal eats its own food; a document is about one of them."""
    animal, food = ANIMALS[number % 6], FOODS[number % 6]
    said = [f"The {animal} eats {food}.", f"It is day {number % 5}!", f"Does a {animal} like {food}? It does."]
    return " ".join(said[(number + n) % 3] for n in range(9))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("texts")
    for number in range(60):
        (place / f"{number:02}.txt").write_text(story(number), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def task(folder: Path) -> Masked:
    opened = spec(folder).open()
    assert isinstance(opened, Masked)
    return opened


def spec(folder: Path, **changes: object) -> MaskedSpec:
    known = {"model": "minilm-l6", "fields": SMALL, "data": str(folder), "vocabulary": 200}
    return MaskedSpec(**known | changes)  # pyright: ignore[reportArgumentType]


def test_a_text_is_cut_into_sentences_and_loses_nothing_but_spaces():
    text = 'He said "No." Then\nhe left! At 3.5 km? क्या हाल है। ठीक है।\n\n def f(x): return x.y '
    cut = sentences(text)
    assert cut == ['He said "No."', "Then", "he left!", "At 3.5 km?", "क्या हाल है।", "ठीक है।", "def f(x): return x.y"]
    assert "".join(text.split()) == "".join("".join(cut).split())
    assert sentences(" \n ") == []


def test_rows_are_two_stretches_that_meet_at_a_border_and_know_whether_they_do(task):
    text, special = task.texts["train"], task.special
    rows, follows = 0, []
    for number in range(20):
        batch = task.batch(number, Batching(size=16), 0, 1, CPU)
        ids = batch.ids.clone().scatter_(1, batch.places, torch.where(batch.weights > 0, batch.words, batch.ids[:, :1]))
        follows += batch.follows.tolist()
        for row, size, segments, answer in zip(ids, batch.lengths, batch.segments, batch.follows, strict=True):
            kept = row[:size].tolist()
            assert kept[0] == special["cls"] and kept[-1] == special["sep"] and kept.count(special["sep"]) == 2
            assert row[size:].eq(special["pad"]).all()
            middle = kept.index(special["sep"])
            assert segments.tolist() == [0] * (middle + 1) + [1] * (len(kept) - middle - 1) + [0] * (40 - len(kept))
            both = kept[1:middle] + kept[middle + 1 : -1]
            rows += _stands_in(both, text) if answer == FOLLOWS else 0
    assert rows == follows.count(FOLLOWS)  # what is said to follow is one stretch of a document
    assert 0.4 < follows.count(RANDOM) / len(follows) < 0.6


def _stands_in(tokens: list[int], text: Sentences) -> bool:
    wide = np.lib.stride_tricks.sliding_window_view(text.numbers, len(tokens))
    return bool((wide == np.array(tokens)).all(1).any())


def test_what_does_not_follow_comes_from_another_document(task):
    text = task.texts["train"]
    for border in range(0, len(text.borders), 7):
        other = text.elsewhere(border, drawn=border * 7919)
        assert text.of_document[other] != text.of_document[border]
    alone = Sentences.of(["One. Two. Three. Four."], task.tokenizer)
    assert {alone.elsewhere(1, drawn) for drawn in range(9)} == {0, 2}


def test_masks_have_the_papers_shares_and_touch_no_special_token(task):
    random, size = np.random.default_rng(0), (2000, 40)
    ids = random.choice(task.ordinary, size)
    may = np.ones(size, bool)
    may[:, [0, 20, 39]] = False
    lots = (random.integers(0, 2**64, size, np.uint64, endpoint=False) for _ in range(3))
    read, places, words, weights = task.masked(ids, may, *lots)
    assert weights.sum(1).tolist() == [round(0.15 * 37)] * 2000 and places.shape == (2000, task.most)
    assert (np.take_along_axis(ids, places, 1) == words).all()
    chosen = np.zeros(size, bool)
    np.put_along_axis(chosen, places, True, 1)
    assert (chosen.sum(1) == weights.sum(1)).all() and not chosen[~may].any()  # each place once
    assert (read[~chosen] == ids[~chosen]).all()
    shown = read[chosen]
    as_mask, kept = (shown == task.special["mask"]).mean(), (shown == ids[chosen]).mean()
    assert abs(as_mask - 0.8) < 0.01 and abs(kept - 0.1) < 0.01 and abs(1 - as_mask - kept - 0.1) < 0.01
    assert not np.isin(shown[shown != task.special["mask"]], list(task.special.values())).any()
    assert np.abs(chosen.mean(0)[may[0]] - 6 / 37).max() < 0.03  # every place as likely as any other


def test_a_batch_is_a_pure_function_and_shares_make_up_the_whole(task, folder):
    batching = Batching(size=6, seed=3)
    whole, again = (t.batch(7, batching, 0, 1, CPU) for t in (task, spec(folder).open()))
    assert all(torch.equal(a, b) for a, b in zip(whole[:-1], again[:-1], strict=True)) and whole.count == again.count
    parts = [task.batch(7, batching, rank, 2, CPU) for rank in (0, 1)]
    for place in range(7):
        joined = torch.stack([parts[0][place], parts[1][place]], 1).flatten(0, 1)
        assert torch.equal(joined, whole[place])
    assert sum(map(task.weight, parts)) == task.weight(whole) == int(whole.weights.sum())
    model = task.model(0).requires_grad_(False)
    for name, value in task.losses(model, whole).items():
        assert float(sum(task.losses(model, part)[name] for part in parts)) == pytest.approx(float(value), rel=1e-5)


def test_the_losses_are_those_that_transformers_computes_from_its_labels(task, tmp_path):
    transformers = peer("transformers")
    model = task.model(1).requires_grad_(False)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    save(model, tmp_path / "run")
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path / "run").eval()
    batch = task.batch(2, Batching(size=8), 0, 1, CPU)
    labels = torch.full_like(batch.ids, -100)
    for row, places, words, weights in zip(labels, batch.places, batch.words, batch.weights, strict=True):
        row[places[weights > 0]] = words[weights > 0]
    mask = (torch.arange(40) < batch.lengths[:, None]).long()
    inputs = {"attention_mask": mask, "token_type_ids": batch.segments}
    with torch.no_grad():
        both = theirs(batch.ids, **inputs, labels=labels, next_sentence_label=batch.follows)
    ours = task.losses(model, batch)
    words, following = (
        float(ours["masked_loss"]) / task.weight(batch),
        float(ours["next_sentence_loss"]) / task.most / 8,
    )
    assert words + following == pytest.approx(float(both.loss), rel=1e-5)
    expected = F.cross_entropy(both.prediction_logits.flatten(0, 1), labels.flatten())
    assert words == pytest.approx(float(expected), rel=1e-5)
    assert float(ours["loss"]) == pytest.approx(float(ours["masked_loss"] + ours["next_sentence_loss"]))


def test_an_evaluation_is_the_direct_count_with_baselines_on_the_same_masks(task, folder):
    model = task.model(5).train()
    seen = []
    original, task._judged = task._judged, lambda m, batch: (seen.append(batch), original(m, batch))[1]
    try:
        figures = task.evaluate(model, "valid", CPU)
        once = len(seen)
        assert model.training and figures == task.evaluate(model, "valid", CPU)
    finally:
        del task._judged
    assert figures == spec(folder).open().evaluate(model, "valid", CPU)
    model.eval()
    right = followed = unigram = bigram = words = rows = 0
    nats = 0.0
    stream = task.texts["train"].numbers
    most = np.bincount(stream).argmax()
    for batch in seen[:once]:
        with torch.no_grad():
            scores, answers = model(batch.ids, batch.lengths, batch.segments)
        followed += int((answers.argmax(-1) == batch.follows).sum())
        rows += len(answers)
        for row, (places, true, counts) in enumerate(zip(batch.places, batch.words, batch.weights, strict=True)):
            for place, word in zip(places[counts > 0].tolist(), true[counts > 0].tolist(), strict=True):
                words += 1
                nats -= float(scores[row, place].double().log_softmax(-1)[word])
                right += int(scores[row, place].argmax()) == word
                unigram += int(most) == word
                left = int(batch.ids[row, place - 1])
                bigram += _after(task, left, most) == word
    assert figures["masked_accuracy"] == pytest.approx(right / words)
    assert figures["masked_loss"] == pytest.approx(nats / words, rel=1e-5)
    assert figures["unigram_accuracy"] == pytest.approx(unigram / words)
    assert figures["bigram_accuracy"] == pytest.approx(bigram / words)
    assert figures["next_sentence_accuracy"] == pytest.approx(followed / rows)
    assert figures["next_sentence_low"] < figures["next_sentence_accuracy"] < figures["next_sentence_high"]


def _after(task: Masked, left: int, otherwise: int) -> int:
    text = task.texts["train"]
    ends = set((text.edges[1:] - 1).tolist())
    behind = [int(text.numbers[at + 1]) for at in np.nonzero(text.numbers == left)[0].tolist() if at not in ends]
    return min(set(behind), key=lambda word: (-behind.count(word), word)) if behind else int(otherwise)


def test_it_learns_who_eats_what_and_the_folder_fills_blanks(task, tmp_path):
    model = task.model(0).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for number in range(400):
        batch = task.batch(number, Batching(size=24), 0, 1, CPU)
        optimiser.zero_grad()
        (task.losses(model, batch)["loss"] / task.weight(batch)).backward()
        optimiser.step()
    figures = task.evaluate(model, "valid", CPU)
    assert figures["masked_accuracy"] > max(figures["unigram_accuracy"], figures["bigram_accuracy"]) + 0.1, figures
    task.save(save(model, tmp_path / "run"))
    again = clearhead.load(tmp_path / "run", device="cpu")
    assert fill(again, "The owl eats mice. Does a owl like [MASK]? It does.").blanks[0][0].word in FOODS
    going_on = MaskedSpec(model=str(tmp_path / "run"), data=str(task.spec.data)).open()
    assert going_on.evaluate(going_on.model(0), "valid", CPU) == pytest.approx(figures)


def test_the_losses_compile_whole_and_once(task):
    model = task.model(0).requires_grad_(False)
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(lambda batch: task.losses(model, batch), fullgraph=True, backend=counter)
    for number in range(3):
        batch = task.batch(number, Batching(size=2), 0, 1, CPU)
        assert torch.allclose(compiled(batch)["loss"], task.losses(model, batch)["loss"])
    assert counter.frame_count == 1


def test_what_does_not_fit_is_refused_in_one_line(folder, tmp_path):
    (tmp_path / "one.txt").write_text("one sentence alone", encoding="utf-8")
    bad = {
        "don't fit a context": {"length": 41},
        "at least 8 tokens": {"length": 5},
        "can't learn masked words": {"model": "gpt2", "fields": None},
        "between sentences": {"data": str(tmp_path / "one.txt")},
    }
    for message, changes in bad.items():
        with pytest.raises(ClearheadError, match=message) as caught:
            spec(folder, **changes).open()
        assert "\n" not in str(caught.value)
