"""The next token: windows and losses against transformers' GPT-2, evaluation against a direct sum, the sorting game."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter

import clearhead
from clearhead.errors import ClearheadError
from clearhead.models import Model
from clearhead.runs import save
from clearhead.train.language import LanguageSpec
from clearhead.train.ngrams import ByteModel
from clearhead.train.remembered import SHARES, SHARPNESS
from clearhead.train.task import Batching, Task
from clearhead.train.token_batches import places
from clearhead.train.token_loss import token_loss
from tests.support import peer

CPU = torch.device("cpu")
TEXT = "".join(f"{n} green bottles hanging on the wall, and if one should fall: {n - 1}.\n" for n in range(60, 0, -1))
SMALL = {"width": 32, "layers": 2, "heads": 2, "context": 24}
QUIET = {"dropout": 0, "attention_dropout": 0, "embedding_dropout": 0}


@pytest.fixture
def text(tmp_path: Path) -> str:
    file = tmp_path / "bottles.txt"
    file.write_text(TEXT, encoding="utf-8")
    return str(file)


def spec(text: str, **changes: object) -> LanguageSpec:
    known = {"model": "gpt2", "fields": SMALL | QUIET, "data": text, "tokenizer": "characters"}
    return LanguageSpec(**known | changes)  # pyright: ignore[reportArgumentType]


def trained(task: Task, steps: int, rate: float, size: int) -> tuple[Model, float]:
    """A few updates as the loop makes them; the last loss."""
    model, mean = task.model(0).train(), math.nan
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for number in range(steps):
        batch = task.batch(number, Batching(size=size), 0, 1, CPU)
        loss = task.losses(model, batch)["loss"] / task.weight(batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        mean = loss.item()
    return model, mean


def test_the_loss_is_the_one_that_transformers_computes_from_its_labels(text, tmp_path):
    transformers = peer("transformers")
    task = spec(text).open()
    model = task.model(3)
    save(model, tmp_path / "run")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "run").eval()
    batch = task.batch(5, Batching(size=4), 0, 1, CPU)
    row = torch.cat([batch.ids, batch.targets[:, -1:]], 1)
    with torch.no_grad():
        ours = task.losses(model, batch)["loss"] / task.weight(batch)
        # their labels are shifted inside: one more token than the context, so all but the last are read alone
        logits = theirs(batch.ids).logits
        assert float(ours) == pytest.approx(
            float(F.cross_entropy(logits.flatten(0, 1), row[:, 1:].flatten())), rel=1e-5
        )
        inner = (
            token_loss(model, model.hidden(batch.ids)[:, :-1], batch.targets[:, :-1]) / batch.targets[:, :-1].numel()
        )
        assert float(inner) == pytest.approx(float(theirs(batch.ids, labels=batch.ids).loss), rel=1e-5)


def test_weights_and_smoothing_of_the_loss_are_torchs():
    model = clearhead.create("gpt2", device="cpu", seed=1, vocab=11, **SMALL, **QUIET)
    hidden, targets = torch.randn(3, 5, 32), torch.randint(11, (3, 5))
    weights = torch.rand(3, 5)
    logits = model.requires_grad_(False).head(hidden).double()
    chances = logits.log_softmax(-1)
    true, spread = -chances.gather(-1, targets[..., None])[..., 0], -chances.mean(-1)
    expected = (weights * (0.9 * true + 0.1 * spread)).sum()
    assert float(token_loss(model, hidden, targets, weights, 0.1)) == pytest.approx(float(expected), rel=1e-5)
    assert float(token_loss(model, hidden, targets)) == pytest.approx(float(true.sum()), rel=1e-5)


def test_windows_read_twice_agree_without_dropout_and_with_it_they_are_kept_together(text):
    once, twice = spec(text).open(), spec(text, consistency=2.0).open()
    model, batch = once.model(3).train(), once.batch(1, Batching(size=4), 0, 1, CPU)
    losses = twice.losses(model, batch)
    assert losses["apart"] < 1e-4
    assert losses["loss"].item() == pytest.approx(once.losses(model, batch)["loss"].item(), rel=1e-5)
    noisy = spec(text, consistency=2.0, fields=SMALL | QUIET | {"dropout": 0.3}).open()
    model = noisy.model(3).train()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    torch.manual_seed(5)
    losses = noisy.losses(model, batch)
    torch.manual_seed(5)
    one, other = model(torch.cat([batch.ids, batch.ids])).double().log_softmax(-1).chunk(2)
    kl = [F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((one, other), (other, one))]
    plain = sum(F.nll_loss(half.flatten(0, 1), batch.targets.flatten(), reduction="sum") for half in (one, other)) / 2
    assert losses["apart"].item() == pytest.approx((kl[0] + kl[1]).item() / 2, rel=1e-4) and losses["apart"] > 0.1
    assert losses["loss"].item() == pytest.approx((plain + kl[0] + kl[1]).item(), rel=1e-5)


def test_with_a_memory_every_token_is_scored_once_and_what_it_says_is_chosen_on_valid(text):
    task, plain = spec(text, remembers=200, stride=8).open(), spec(text, stride=8).open()
    model, _ = trained(task, 40, 3e-3, 8)
    ours, alone = (one.evaluate(model, "valid", CPU) for one in (task, plain))
    assert ours["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-4) and "memory_perplexity" not in alone
    assert ours["memory_perplexity"] < 0.9 * ours["perplexity"]  # the bottles are a song that repeats itself
    assert ours["memory_tokens"] == 200 and ours["memory_share"] in SHARES and ours["memory_sharpness"] in SHARPNESS


def test_a_batch_is_a_pure_function_and_shares_make_up_the_whole(text):
    batching = Batching(size=6, seed=4)
    first, second = spec(text).open(), spec(text).open()
    whole = first.batch(9, batching, 0, 1, CPU)
    first.batch(2, batching, 0, 1, CPU)
    again = second.batch(9, batching, 0, 1, CPU)
    assert torch.equal(whole.ids, again.ids) and torch.equal(whole.targets, again.targets)
    parts = [first.batch(9, batching, rank, 3, CPU) for rank in range(3)]
    assert sum(first.weight(part) for part in parts) == first.weight(whole)
    assert {tuple(row) for part in parts for row in part.ids.tolist()} == {tuple(row) for row in whole.ids.tolist()}
    model = first.model(0).requires_grad_(False)
    total = sum(first.losses(model, part)["loss"] for part in parts)
    assert float(total) == pytest.approx(float(first.losses(model, whole)["loss"]), rel=1e-6)
    assert not torch.equal(first.batch(10, batching, 0, 1, CPU).ids, whole.ids)
    with pytest.raises(ClearheadError, match="divided"):
        first.batch(0, batching, 0, 7, CPU)


def test_noise_replaces_a_share_of_what_is_read_and_nothing_of_what_comes_next(text):
    plain, noisy, batching = spec(text).open(), spec(text, noise=0.3).open(), Batching(size=64)
    clean, batch = (task.batch(7, batching, 0, 1, CPU) for task in (plain, noisy))
    changed = batch.ids != clean.ids
    common = torch.tensor(np.bincount(plain.numbers["train"], minlength=plain.tokenizer.size)).float()
    alike = ((common / common.sum()) ** 2).sum()  # a token drawn may be the one that stood there
    assert changed.float().mean().item() == pytest.approx(0.3 * (1 - alike.item()), abs=0.03)
    assert torch.equal(batch.targets, clean.targets)
    assert set(batch.ids[changed].tolist()) <= set(plain.numbers["train"].tolist())
    shares = [noisy.batch(7, batching, rank, 2, CPU).ids for rank in range(2)]
    assert all(torch.equal(share, batch.ids[rank::2]) for rank, share in enumerate(shares))
    assert not torch.equal(batch.ids != clean.ids, noisy.batch(8, batching, 0, 1, CPU).ids != clean.ids)


@pytest.mark.parametrize(("count", "length", "stride"), [(50, 8, 8), (50, 8, 3), (51, 8, 5), (8, 8, 2), (9, 8, 8)])
def test_every_target_is_scored_exactly_once(count, length, stride):
    scored = [start + place for start, begin in places(count, length, stride) for place in range(begin, length)]
    assert sorted(scored) == list(range(count))
    for start, begin in places(count, length, stride)[1:]:
        assert 0 <= start <= count - length and begin >= length - stride


@pytest.mark.parametrize("stride", [24, 7])
def test_an_evaluation_is_the_sum_over_every_token_with_the_context_it_says(text, stride):
    task = spec(text, stride=stride).open()
    model = task.model(1).train()
    figures = task.evaluate(model, "valid", CPU)
    assert model.training
    model.eval()
    numbers = torch.from_numpy(np.concatenate([[task.end], task.numbers["valid"]]).astype(np.int64))
    nats, done = 0.0, 0
    with torch.no_grad():
        for start, begin in places(len(numbers) - 1, 24, stride):
            chances = model(numbers[None, start : start + 24]).double().log_softmax(-1)[0]
            true = numbers[start + 1 : start + 25]
            nats -= float(chances[torch.arange(24), true][begin:].sum())
            done += 24 - begin
    assert done == len(numbers) - 1 == figures["tokens"]
    assert figures["loss"] == pytest.approx(nats / done, rel=1e-5)
    assert figures["perplexity"] == pytest.approx(math.exp(nats / done), rel=1e-4)
    held_out = task.tokenizer.text(task.numbers["valid"].tolist())
    assert figures["bits_per_byte"] == pytest.approx(nats / math.log(2) / len(held_out.encode()), rel=1e-5)
    assert figures["stride"] == stride and figures["window"] == 24


def test_a_tokenizer_that_loses_spaces_gets_no_bits_per_byte(text):
    task = spec(text, tokenizer="words").open()
    assert "bits_per_byte" not in task.evaluate(task.model(0), "valid", CPU)
    assert any("no bits per byte" in note for note in task.notes)


def test_a_counting_model_is_told_beside_the_models_own_figure(text):
    task = spec(text, beside=3).open()
    figures = task.evaluate(task.model(0), "valid", CPU)
    train, valid = (task.tokenizer.text(task.numbers[part].tolist()) for part in ("train", "valid"))
    assert figures["3_gram_bits_per_byte"] == pytest.approx(ByteModel([train], 3).bits_per_byte([valid]))
    with pytest.raises(ClearheadError, match="at most 7 bytes together, not 9"):
        spec(text, beside=9).open()


def test_tokens_are_kept_as_a_file_in_the_folder_given(text, tmp_path):
    cached = spec(text, cache=str(tmp_path / "cache"))
    first, kept = cached.open(), spec(text).open()
    assert isinstance(first.numbers["train"], np.memmap)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").iterdir()}
    second = cached.open()
    assert files == {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").iterdir()} and len(files) == 2
    for task in (first, second):
        ours, plain = (t.batch(1, Batching(size=3), 0, 1, CPU).ids for t in (task, kept))
        assert torch.equal(ours, plain)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    spec(text, cache=str(tmp_path / "cache"), tokenizer="bpe", vocabulary=300).open()
    assert len(list((tmp_path / "cache").iterdir())) == 4


def test_it_learns_a_song_by_heart_and_the_folder_writes_it(text, tmp_path):
    task = spec(text, tokenizer="bpe", vocabulary=320).open()
    model, loss = trained(task, steps=150, rate=4e-3, size=16)
    assert loss < 0.5, loss
    assert task.evaluate(model, "valid", CPU)["bits_per_byte"] < 0.8
    task.save(save(model, tmp_path / "run"))
    again = clearhead.load(tmp_path / "run", device="cpu")
    said = clearhead.generate(again, "40 green bottles hanging", length=8, window=True)[0].text
    assert said.startswith(" on the wall")
    going_on = LanguageSpec(model=str(tmp_path / "run"), data=text).open()
    assert going_on.tokenizer.vocabulary == task.tokenizer.vocabulary
    batch = going_on.batch(0, Batching(size=8), 0, 1, CPU)
    assert going_on.losses(going_on.model(0), batch)["loss"].item() / going_on.weight(batch) < 0.6


def test_what_does_not_fit_is_refused_in_one_line(text, tmp_path):
    bad = {
        "too few tokens": {"fields": SMALL | {"context": 100_000}},
        "doesn't fit the model's context": {"window": 25},
        "would skip tokens": {"stride": 25},
        "can't learn the next token": {"model": "bert-base", "fields": None},
        "vocab is settled": {"fields": SMALL | {"vocab": 5}},
        "no data set is called": {"data": "tinyshakespear"},
        "tokenizer must be one of": {"tokenizer": "wordpiece"},
    }
    for message, changes in bad.items():
        with pytest.raises(ClearheadError, match=message) as caught:
            spec(text, **changes).open().model(0)
        assert "\n" not in str(caught.value)


def test_the_losses_compile_whole_and_once(text):
    task = spec(text, fields=SMALL | QUIET | {"layers": 1}).open()
    model = task.model(0)
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(lambda batch: task.losses(model, batch)["loss"], fullgraph=True, backend=counter)
    for number in (0, 1):
        batch = task.batch(number, Batching(size=2), 0, 1, CPU)
        assert torch.allclose(compiled(batch), task.losses(model, batch)["loss"])
    assert counter.frame_count == 1


# ------------------------------------------------------------------------------------------------ letters


def test_the_game_of_letters_asks_for_the_answer_alone():
    task = LanguageSpec(model="gpt-nano", data="letters").open()
    model = task.model(2)
    assert (model.config.vocab, model.config.context) == (3, 11)
    batch = task.batch(0, Batching(size=5), 0, 1, CPU)
    assert batch.ids.shape == (5, 11) and task.weight(batch) == 30
    with torch.no_grad():
        logits, loss = model(batch.ids).double(), float(task.losses(model, batch)["loss"])
    expected = F.cross_entropy(logits[:, 5:].flatten(0, 1), batch.targets[:, 5:].flatten(), reduction="sum")
    assert loss == pytest.approx(float(expected), rel=1e-5)
    for row, target in zip(batch.ids.tolist(), batch.targets.tolist(), strict=True):
        assert target[5:] == sorted(row[:6])


def test_the_words_of_the_game_are_shared_and_none_is_in_two_parts():
    task = LanguageSpec(model="gpt-nano", data="letters").open()
    sets = {name: {tuple(row) for row in rows.tolist()} for name, rows in task.rows.items()}
    assert sum(map(len, sets.values())) == len(set.union(*sets.values())) == 729 and len(sets["test"]) == 182
    count = len(sets["train"])
    seen = [
        tuple(row) for n in range(-(-count // 50)) for row in task.batch(n, Batching(size=50), 0, 1, CPU).ids.tolist()
    ]
    assert len(set(seen[:count])) == count  # an epoch has every word once
    whole = task.batch(3, Batching(size=50, seed=2), 0, 1, CPU).ids.tolist()
    parts = [task.batch(3, Batching(size=50, seed=2), rank, 2, CPU).ids.tolist() for rank in (0, 1)]
    assert sorted(parts[0] + parts[1]) == sorted(whole)


def test_the_smallest_model_learns_to_sort_unseen_words(tmp_path):
    task = LanguageSpec(model="gpt-nano", data="letters").open()
    before = task.evaluate(task.model(0), "test", CPU)["accuracy"]
    model, _ = trained(task, steps=250, rate=3e-3, size=64)
    figures = task.evaluate(model, "test", CPU)
    assert before < 0.1 and figures["accuracy"] > 0.9, (before, figures)
    task.save(save(model, tmp_path / "run"))
    again = clearhead.load(tmp_path / "run", device="cpu")
    rows = [task.tokenizer.text(row) for row in task.rows["test"][:40].tolist()]
    said = [found.text for found in clearhead.generate(again, [row[:6] for row in rows], length=6)]
    assert sum(text == row[6:] for text, row in zip(said, rows, strict=True)) >= 34
