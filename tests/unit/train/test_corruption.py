"""Span corruption: the paper's worked example, its shares, losses against transformers' T5, fixed spans to judge by."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.runs import save
from clearhead.tasks.fill import fill
from clearhead.train.corruption import Corruption, CorruptionSpec, corrupted, drawn_spans, span_count
from clearhead.train.pairs import Ragged, pair_batch
from clearhead.train.recorded import _outline
from clearhead.train.task import Batching
from clearhead.train.translation import TranslationSpec
from tests.support import peer

CPU = torch.device("cpu")
SMALL = {"width": 32, "layers": 1, "heads": 2, "head_width": 16, "ff": 64, "dropout": 0}
TEXT = "".join(f"line {n % 10} says that {'abcdefghij'[n % 10]} comes at place {n % 10}.\n" for n in range(400))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("texts") / "lines.txt"
    file.write_text(TEXT, encoding="utf-8")
    return str(file)


def opened(text: str, **changes: object) -> Corruption:
    known = {"model": "t5-small", "fields": SMALL, "data": text, "tokenizer": "words", "length": 24, "sentinels": 8}
    task = CorruptionSpec(**known | changes).open()  # pyright: ignore[reportArgumentType]
    assert isinstance(task, Corruption)
    return task


def test_the_papers_example_comes_out_as_printed():
    words = ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week", "."]
    read, said = corrupted(words, [(2, 4), (8, 9)], ["<X>", "<Y>", "<Z>"])
    assert " ".join(read) == "Thank you <X> me to your party <Y> week ."
    assert " ".join(said) == "<X> for inviting <Y> last <Z>"


@pytest.mark.parametrize("length", [2, 3, 7, 24, 100, 512])
def test_spans_have_the_papers_number_and_length_and_no_two_touch(length):
    random = np.random.default_rng(length)
    dropped, count = span_count(length, 0.15, 3.0)
    if length == 512:
        assert (dropped, count) == (77, 26)  # theirs: 512 tokens, 77 of them noise in 26 spans
    seen = set()
    for _ in range(50):
        spans = drawn_spans(length, 0.15, 3.0, random.integers(0, 2**64, length, np.uint64, endpoint=False))
        assert len(spans) == count and sum(last - first for first, last in spans) == dropped
        assert spans[0][0] >= 0 and spans[-1][1] <= length
        assert all(first < last for first, last in spans)
        assert all(a[1] < b[0] for a, b in pairwise(spans))
        seen.add(tuple(spans))
    assert len(seen) > 1


def test_span_lengths_are_drawn_evenly_over_all_ways_to_part_them():
    random, found = np.random.default_rng(1), {}
    for _ in range(6000):
        spans = drawn_spans(8, 0.5, 2.0, random.integers(0, 2**64, 8, np.uint64, endpoint=False))
        found[tuple(spans)] = found.get(tuple(spans), 0) + 1
    # 3 ways to part 4 dropped tokens in two, 10 to put 4 kept ones before, between (one at least) and behind them
    assert len(found) == 30 and min(found.values()) > 0.7 * 200 and max(found.values()) < 1.3 * 200


def test_source_and_answer_together_are_the_text(text):
    task = opened(text)
    batch = task.batch(0, Batching(size=16), 0, 1, CPU)
    end, sentinels = task.ends.end, task.sentinels
    assert batch.count == int(batch.weights.sum()) and task.weight(batch) == batch.count
    for row in range(16):
        read = batch.source[row, : batch.lengths[row]].tolist()
        said = [token for token, counts in zip(batch.labels[row].tolist(), batch.weights[row], strict=True) if counts]
        assert read.pop() == end and said.pop() == end
        assert batch.target[row, 0] == task.ends.start == task.tokenizer.special["pad"]
        parts = task._behind(said)
        assert list(parts) == sentinels[: len(parts)] and parts[sentinels[len(parts) - 1]] == []
        whole = [token for place in read for token in parts.get(place, [place])]
        assert len(whole) == 24 and task.tokenizer.text(whole) in " ".join(
            task.tokenizer.text(task.rows["train"]).split()
        )


def test_a_batch_is_a_pure_function_and_shares_make_up_the_whole(text):
    batching = Batching(size=6, seed=8)
    task, other = opened(text), opened(text)
    other.batch(1, batching, 0, 1, CPU)
    whole, again = (t.batch(4, batching, 0, 1, CPU) for t in (task, other))
    assert all(torch.equal(a, b) for a, b in zip(whole[:-1], again[:-1], strict=True))
    parts = [task.batch(4, batching, rank, 2, CPU) for rank in (0, 1)]
    assert torch.equal(torch.stack([part.source for part in parts], 1).flatten(0, 1), whole.source)
    model = task.model(0).requires_grad_(False)
    total = sum(float(task.losses(model, part)["loss"]) for part in parts)
    assert total == pytest.approx(float(task.losses(model, whole)["loss"]), rel=1e-5)
    assert sum(map(task.weight, parts)) == task.weight(whole)


def test_the_loss_is_the_one_that_transformers_computes_from_its_labels(text, tmp_path):
    transformers = peer("transformers")
    task = opened(text)
    model = task.model(4).requires_grad_(False)
    save(model, tmp_path / "run")
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "run").eval()
    batch = task.batch(3, Batching(size=5), 0, 1, CPU)
    labels = torch.where(batch.weights > 0, batch.labels, -100)
    mask = (torch.arange(batch.source.shape[1]) < batch.lengths[:, None]).long()
    with torch.no_grad():
        loss = theirs(input_ids=batch.source, attention_mask=mask, labels=labels).loss
    assert float(task.losses(model, batch)["loss"]) / task.weight(batch) == pytest.approx(float(loss), rel=1e-5)


def test_an_evaluation_covers_the_part_once_with_the_same_spans_every_time(text):
    task = opened(text, written=8)
    model = task.model(2).train()
    figures = task.evaluate(model, "valid", CPU)
    assert model.training and figures == opened(text, written=8).evaluate(model, "valid", CPU)
    pairs = task.judged("valid")
    tokens = sum(len(read) + len(said) for read, said in pairs)
    extra = sum(2 * sum(token in task.sentinels for token in read) + 3 for read, _ in pairs)  # and the last, two ends
    assert tokens - extra == len(task.rows["valid"])
    model.eval().requires_grad_(False)
    alone = [pair_batch(Ragged([read]), Ragged([said]), task.ends.start, CPU) for read, said in pairs]
    nats = sum(float(task.losses(model, batch)["loss"]) for batch in alone)
    assert figures["loss"] == pytest.approx(nats / sum(map(task.weight, alone)), rel=1e-5)


def test_spans_match_when_they_are_written_behind_their_sentinel(text):
    task = opened(text)
    a, b, c, end = *task.sentinels[:3], task.ends.end
    true = [a, 10, 11, b, 12, c, end]
    assert task._matches(true, [a, 10, 11, b, 12, c]) == [True, True]
    assert task._matches(true, [b, 12, a, 10]) == [False, True]
    assert task._matches([a, 1, 2, 3, 4, b, end], []) == []  # a long span is not asked for


def test_it_learns_what_is_missing_and_the_folder_fills_blanks(tmp_path):
    (tmp_path / "days.txt").write_text("mon tue wed thu fri sat sun\n" * 200, encoding="utf-8")
    task = opened(str(tmp_path / "days.txt"), length=7)
    model = task.model(0).train()
    optimiser = torch.optim.AdamW(model.parameters())
    for number in range(300):
        optimiser.param_groups[0]["lr"] = 8e-3 * (1 - number / 300)
        batch = task.batch(number, Batching(size=24), 0, 1, CPU)
        optimiser.zero_grad()
        (task.losses(model, batch)["loss"] / task.weight(batch)).backward()
        optimiser.step()
    figures = task.evaluate(model, "valid", CPU)
    assert figures["loss"] < 0.2 and figures["span_match"] > 0.8, figures
    task.save(save(model, tmp_path / "run"))
    again = clearhead.load(tmp_path / "run", device="cpu")
    assert fill(again, "wed thu ___ sat sun mon tue").text == "wed thu fri sat sun mon tue"
    going_on = CorruptionSpec(model=str(tmp_path / "run"), data=str(tmp_path / "days.txt"), length=7).open()
    assert going_on.evaluate(going_on.model(0), "valid", CPU) == pytest.approx(figures)


def test_a_checkpoint_goes_on_to_translation(text, tmp_path):
    task = opened(text)
    task.save(save(task.model(0), tmp_path / "run"))
    for name, lines in (("a.en", ["line 1", "line 2"] * 20), ("a.de", ["place 1", "place 2"] * 20)):
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    files = (str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    second = TranslationSpec(model=str(tmp_path / "run"), data=files, valid=files).open()
    assert second.source.vocabulary == task.tokenizer.vocabulary
    assert 0 < second.evaluate(second.model(0), "valid", CPU)["loss"] < 100


def test_lines_of_a_parallel_set_are_rows_of_their_own(text):
    pytest.importorskip("babel", reason="dates are written by Babel, which is not installed")
    options = {"directions": ["ne>en"], "per_date": 1}
    task = opened(text, data="dates", options=options, tokenizer="characters", length=48)
    lines = len(task.rows["train"])
    batch = task.batch(0, Batching(size=12), 0, 1, CPU)
    assert lines > 60_000 and batch.lengths.max() > batch.lengths.min()
    shown = task.tokenizer.text(batch.source[0, : batch.lengths[0]].tolist(), skip_special=False)
    assert "<extra_id_0>" in shown and shown.endswith("<end>")


def test_the_losses_compile_whole_and_once(text):
    task = opened(text)
    model = task.model(0).requires_grad_(False)
    torch._dynamo.reset()
    compiled = torch.compile(lambda batch: task.losses(model, batch)["loss"], fullgraph=True, backend="eager")
    for number in range(2):
        batch = task.batch(number, Batching(size=2), 0, 1, CPU)
        assert torch.allclose(compiled(batch), task.losses(model, batch)["loss"], rtol=1e-5)


def test_what_does_not_fit_is_refused_in_one_line(text, tmp_path):
    (tmp_path / "short.txt").write_text("too short a text\nfor anything", encoding="utf-8")
    bad = {
        "need 9 sentinels": {"length": 160},
        "density must be": {"density": 1.0},
        "mean_span must be": {"mean_span": 0.5},
        "too few tokens": {"data": str(tmp_path / "short.txt")},
        "can't learn span corruption": {"model": "transformer-tiny", "fields": None},
    }
    for message, changes in bad.items():
        with pytest.raises(ClearheadError, match=message) as caught:
            opened(text, **changes)
        assert "\n" not in str(caught.value)
    assert Path(text).exists()


def test_batches_of_running_text_have_one_shape_and_nothing_else_changes(text):
    task, batching = opened(text), Batching(size=6)
    listed = [task.batch(number, batching, 0, 1, CPU) for number in range(2 * int(task.batches_per_epoch(batching)))]
    assert len({tuple(_outline([batch])) for batch in listed}) == 1 < len(listed)
    assert all(task.weight(batch) == int(batch.weights.sum()) for batch in listed)
