"""Translation: losses against transformers' Marian and T5, batches by length, what is written and how it is scored."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import clearhead
from clearhead.data.sets import open_set
from clearhead.data.tokenizer_files import read_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import Model
from clearhead.runs import save
from clearhead.train import translation
from clearhead.train.job import Run, Watch
from clearhead.train.loop import Trainer
from clearhead.train.optimiser import Optimiser
from clearhead.train.pairs import STRIDE, PairBatch, Ragged, pair_batch
from clearhead.train.ranks import Ranks
from clearhead.train.recorded import _outline
from clearhead.train.settings import Settings
from clearhead.train.task import Batching
from clearhead.train.translation import TranslationSpec, TranslationTask
from clearhead.train.written import scored, signatures, written
from tests.support import equal, peer

CPU = torch.device("cpu")
NUMBERS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
SMALL = {"width": 32, "layers": 1, "heads": 2, "ff": 64, "context": 64, "dropout": 0}
MARIAN = SMALL | {"half_split": True, "norm": "post"}
T5 = {"width": 32, "layers": 1, "heads": 2, "head_width": 16, "ff": 64, "dropout": 0}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Numbers from 1 to 999 as figures, and figure by figure as German words."""
    place = tmp_path_factory.mktemp("texts")
    numbers = [f"{number}" for number in range(1, 1000)]
    sides = {"de": [" ".join(NUMBERS[int(f)] for f in number) for number in numbers], "xx": numbers}
    for language, lines in sides.items():
        (place / f"numbers.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(place / "numbers.xx"), str(place / "numbers.de")


def opened(files: tuple[str, str], **changes: object) -> TranslationTask:
    known = {"model": "transformer-tiny", "fields": SMALL, "data": files, "tokenizer": "characters"}
    task = TranslationSpec(**known | changes).open()  # pyright: ignore[reportArgumentType]
    assert isinstance(task, TranslationTask)
    return task


def shaken(model: Model) -> Model:
    """Biases and norms too are drawn anew, and no gradients are asked for."""
    with torch.no_grad():
        for weight in model.requires_grad_(False).parameters():
            weight += 0.1 * torch.randn_like(weight)
    return model


def trained(task: TranslationTask, steps: int, rate: float, size: int) -> Model:
    model = task.model(0).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    for number in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1, (number + 1) / 20) * (1 - number / steps)
        batch = task.batch(number, Batching(size=size), 0, 1, CPU)
        optimiser.zero_grad()
        (task.losses(model, batch)["loss"] / task.weight(batch)).backward()
        optimiser.step()
    return model


def test_the_vocabularies_settle_the_config(files):
    task = opened(files)
    config, special = task.model(0).config, task.target.special
    assert task.source is task.target and config.vocab == task.source.size
    assert (config.pad_token, config.start_token, config.end_token) == tuple(special[r] for r in ("pad", "bos", "eos"))
    assert [task.target.vocabulary[name] for name in ("<pad>", "<start>", "<end>")] == [
        special[r] for r in ("pad", "bos", "eos")
    ]
    two = opened(files, joint=False)
    config = two.model(0).config
    assert (config.vocab, config.target_vocab, config.tied) == (two.source.size, two.target.size, "decoder")
    assert "e" in two.target.vocabulary and "e" not in two.source.vocabulary
    t5 = opened(files, model="t5-small", fields=T5).model(0).config
    assert t5.start_token == t5.pad_token and t5.end_token != t5.pad_token


@pytest.mark.parametrize("joint", [True, False])
def test_the_loss_is_the_one_that_marian_computes_from_its_labels(files, tmp_path, joint):
    transformers = peer("transformers")
    task = opened(files, fields=MARIAN, joint=joint)
    model = shaken(task.model(2))
    save(model, tmp_path / "run")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "run").eval()
    _assert_same_loss(task, model, theirs)


def test_the_loss_is_the_one_that_t5_computes_from_its_labels(files, tmp_path):
    transformers = peer("transformers")
    task = opened(files, model="t5-small", fields=T5, prefix="say: ")
    model = shaken(task.model(2))
    save(model, tmp_path / "run")
    _assert_same_loss(task, model, transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "run").eval())


def test_pairs_read_twice_agree_without_dropout_and_with_it_half_of_both_divergences_is_added(files):
    for dropout in (0.0, 0.3):
        once = opened(files, fields=SMALL | {"dropout": dropout}, smoothing=0.1)
        twice = opened(files, fields=SMALL | {"dropout": dropout}, smoothing=0.1, consistency=3.0)
        model, batch = once.model(3).train(), once.batch(1, Batching(size=256), 0, 1, CPU)
        torch.manual_seed(5)
        losses = twice.losses(model, batch)
        if not dropout:
            assert losses["apart"] < 1e-4 and equal(losses["loss"], once.losses(model, batch)["loss"])
            continue
        torch.manual_seed(5)
        parts = (torch.cat([part, part]) for part in (batch.source, batch.target, batch.lengths))
        one, other = model.head(model.hidden(*parts)).double().log_softmax(-1).chunk(2)
        kl = [F.kl_div(a, b, reduction="none", log_target=True).sum(-1) for a, b in ((one, other), (other, one))]
        apart = (batch.weights * (kl[0] + kl[1]) / 2).sum()
        plain = (
            sum(
                (
                    F.cross_entropy(half.flatten(0, 1), batch.labels.flatten(), reduction="none", label_smoothing=0.1)
                    * batch.weights.flatten()
                ).sum()
                for half in (one, other)
            )
            / 2
        )
        assert apart > 0.1 and equal(losses["apart"], apart.float())
        assert equal(losses["loss"], (plain + 3 * apart).float())


def _assert_same_loss(task: TranslationTask, model: Model, theirs: torch.nn.Module) -> None:
    batch = task.batch(3, Batching(size=200), 0, 1, CPU)
    assert len(set(batch.lengths.tolist())) > 1 or (batch.weights == 0).any()
    labels = torch.where(batch.weights > 0, batch.labels, -100)
    mask = (torch.arange(batch.source.shape[1]) < batch.lengths[:, None]).long()
    with torch.no_grad():
        loss = theirs(input_ids=batch.source, attention_mask=mask, labels=labels).loss
    assert task.weight(batch) == int((labels >= 0).sum())
    assert float(task.losses(model, batch)["loss"]) / task.weight(batch) == pytest.approx(float(loss), rel=1e-5)


def test_smoothing_is_torchs_and_belongs_to_training_alone(files):
    plain, smooth = opened(files), opened(files, smoothing=0.1)
    model = plain.model(0).requires_grad_(False)
    batch = plain.batch(0, Batching(size=300), 0, 1, CPU)
    logits = model(batch.source, batch.target, batch.lengths)
    labels = torch.where(batch.weights > 0, batch.labels, -100)
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum", label_smoothing=0.1)
    assert float(smooth.losses(model, batch)["loss"]) == pytest.approx(float(expected), rel=1e-5)
    assert float(plain.losses(model, batch)["loss"]) != pytest.approx(float(expected), rel=1e-4)
    assert smooth.evaluate(model, "valid", CPU) == plain.evaluate(model, "valid", CPU)


@pytest.mark.parametrize("counted", ["tokens", "sentences"])
def test_a_batch_is_a_pure_function_and_shares_make_up_the_whole(files, counted):
    batching = Batching(size=200 if counted == "tokens" else 24, seed=5)
    task, other = opened(files, counted=counted), opened(files, counted=counted)
    count = int(task.batches_per_epoch(batching))
    other.batch(3 * count, batching, 0, 1, CPU)
    model = task.model(0).requires_grad_(False)
    for number in (0, count - 1, count + 2):
        whole, again = (t.batch(number, batching, 0, 1, CPU) for t in (task, other))
        assert all(torch.equal(a, b) for a, b in zip(whole[:-1], again[:-1], strict=True))
        parts = [task.batch(number, batching, rank, 2, CPU) for rank in (0, 1)]
        assert sum(map(task.weight, parts)) == task.weight(whole)
        assert sum(len(part.source) for part in parts) == len(whole.source)
        total = sum(float(task.losses(model, part)["loss"]) for part in parts)
        assert total == pytest.approx(float(task.losses(model, whole)["loss"]), rel=1e-5)
        size = len(whole.source)
        longest = max(int(whole.lengths.max()), int(whole.weights.sum(1).max()))
        assert size <= 24 if counted == "sentences" else size * longest <= 200


def test_an_epoch_has_every_pair_once_and_the_next_another_order(files):
    task, batching = opened(files), Batching(size=300)
    count = int(task.batches_per_epoch(batching))
    epochs = []
    for epoch in (0, 1):
        listed = [task.batch(epoch * count + n, batching, 0, 1, CPU) for n in range(count)]
        epochs.append(
            [tuple(row[:size]) for b in listed for row, size in zip(b.source.tolist(), b.lengths, strict=True)]
        )
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(map(tuple, task.rows["train"][0]))
    assert epochs[0] != epochs[1]


WIDTHS = (8, 16, 24)  # a number in words has 5 to 18 letters and one token that ends it


def test_with_widths_an_epoch_has_as_many_shapes_and_nothing_else_changes_from_batch_to_batch(files):
    task, batching = opened(files, widths=WIDTHS), Batching(size=300)
    count = int(task.batches_per_epoch(batching))
    listed = [task.batch(number, batching, 0, 1, CPU) for number in range(2 * count)]
    assert {(*batch.source.shape, *batch.labels.shape) for batch in listed} == {
        (300 // width, width, 300 // width, width) for width in WIDTHS[1:]
    }
    assert len({tuple(_outline([batch])) for batch in listed}) == 2 < len({int(batch.count) for batch in listed})
    without = [opened(files).batch(number, batching, 0, 1, CPU) for number in range(count)]
    assert len({tuple(_outline([batch])) for batch in without}) > 2


def test_with_widths_every_pair_is_learnt_once_an_epoch_and_rows_that_fill_up_count_for_nothing(files):
    task, batching = opened(files, widths=WIDTHS), Batching(size=300)
    model = task.model(1).requires_grad_(False)
    listed = [task.batch(number, batching, 0, 1, CPU) for number in range(int(task.batches_per_epoch(batching)))]
    there = [
        (tuple(source[:length]), tuple(labels[: int(counts.sum())]))
        for batch in listed
        for source, length, labels, counts in zip(
            batch.source.tolist(), batch.lengths, batch.labels.tolist(), batch.weights, strict=True
        )
        if counts.any()
    ]
    assert sorted(there) == sorted((tuple(s), tuple(t)) for s, t in zip(*task.rows["train"], strict=True))
    assert any((batch.weights.sum(1) == 0).any() for batch in listed)
    assert sum(map(task.weight, listed)) == sum(map(len, task.rows["train"][1]))
    whole = pair_batch(*map(Ragged, task.rows["train"]), task.ends.start, CPU)
    total = sum(float(task.losses(model, batch)["loss"]) for batch in listed)
    assert total == pytest.approx(float(task.losses(model, whole)["loss"]), rel=1e-5)


def test_rows_that_fill_up_have_no_part_in_the_gradient(files):
    task = opened(files)
    model, rows = task.model(1), [0, 500, 11]
    gradients = []
    for chosen, shape in (([*rows, -1, -1], (8, 24)), (rows, None)):
        batch = task._batch("train", chosen, CPU, shape)
        model.zero_grad()
        task.losses(model, batch)["loss"].backward()
        gradients.append([weight.grad.clone() for weight in model.parameters() if weight.grad is not None])
    assert all(equal(a, b) for a, b in zip(*gradients, strict=True))


def test_with_widths_shares_make_up_the_whole(files):
    task, batching = opened(files, widths=WIDTHS), Batching(size=300, seed=2)
    model = task.model(0).requires_grad_(False)
    for number in (0, 3, int(task.batches_per_epoch(batching)) + 1):
        whole = task.batch(number, batching, 0, 1, CPU)
        parts = [task.batch(number, batching, rank, 3, CPU) for rank in range(3)]
        assert sum(map(task.weight, parts)) == task.weight(whole)
        assert sum(len(part.source) for part in parts) == len(whole.source)
        total = sum(float(task.losses(model, part)["loss"]) for part in parts)
        assert total == pytest.approx(float(task.losses(model, whole)["loss"]), rel=1e-5)


def test_pairs_wider_than_all_widths_are_left_out_and_that_is_said(files):
    task = opened(files, widths=(8, 16))
    assert max(map(len, task.rows["train"][1])) == 16 < max(map(len, task.rows["valid"][1]))
    assert any("training pairs left out: more than 16 tokens" in note for note in task.notes)
    assert task.evaluate(task.model(0), "valid", CPU)["loss"] > 0


def test_targets_may_have_widths_of_their_own(files):
    task, batching = opened(files, widths=(4, 4), target_widths=(12, 24)), Batching(size=240)
    listed = [task.batch(number, batching, 0, 1, CPU) for number in range(int(task.batches_per_epoch(batching)))]
    assert {(batch.source.shape, batch.labels.shape) for batch in listed} == {((20, 4), (20, 12)), ((10, 4), (10, 24))}
    assert sum(map(task.weight, listed)) == sum(map(len, task.rows["train"][1]))
    narrow = opened(files, widths=(4,), target_widths=(12,))
    assert any("training pairs left out: more than 4 and 12 tokens on a side" in note for note in narrow.notes)


@pytest.mark.parametrize("model", ["transformer-tiny", "t5-small"])
def test_a_loss_and_its_gradients_wait_for_no_value(files, model):
    """Nothing asks what a tensor holds, so nothing waits for a GPU and all of it can be recorded."""
    drops = {"dropout": 0.1}
    task = opened(files, model=model, fields=(T5 if model == "t5-small" else SMALL) | drops, smoothing=0.1)
    net, batch = task.model(0).train(), task.batch(0, Batching(size=300), 0, 1, CPU)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        shapes = PairBatch(*map(mode.from_tensor, batch))
        found = torch.autograd.grad(task.losses(net, shapes)["loss"], list(net.parameters()))
    assert len(found) == len(list(net.parameters()))


def updated(files: tuple[str, str], folder: Path, device: str, **changes: Any) -> Trainer:
    """Thirty updates of batches of two widths."""
    task = opened(files, widths=WIDTHS, smoothing=0.1)
    made = Optimiser(rate=3e-3, clip=1.0)
    settings = Settings(
        steps=30, batching=Batching(size=300), optimiser=made, warmup=4, compile=False, device=device, **changes
    )
    run = Run("numbers", task.spec, settings)
    trainer = Trainer(run, folder, Ranks(0, 1, torch.device(device)), Watch(), task)
    while trainer.step < trainer.steps:
        trainer.update()
    trainer.log()
    trainer.close()
    return trainer


def test_batches_of_few_shapes_are_learnt_by_the_loop(files, tmp_path):
    trainer = updated(files, tmp_path, "cpu")
    sums, _, weight = trainer._figures
    assert float(sums["loss"]) / weight < math.log(trainer.model.config.vocab)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_one_update_is_recorded_for_each_shape_and_the_weights_are_the_same(files, tmp_path, precision):
    plain = updated(files, tmp_path / "plain", "cuda", precision=precision)
    recorded = updated(files, tmp_path / "recorded", "cuda", precision=precision, graph=True)
    assert recorded.recorded is not None and len(recorded.recorded.graphs) == 2
    weights = zip(plain.model.parameters(), recorded.model.parameters(), strict=True)
    assert all(equal(a, b, 2e-3 if precision == "fp32" else 2e-2) for a, b in weights)


@pytest.mark.parametrize("resident", [0, 1 << 20])
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_that_a_gpu_makes_are_those_of_the_cpu(files, monkeypatch, resident):
    task = opened(files)
    rows = [0, 500, 11, -1]
    expected = task._batch("train", rows, CPU, (8, 24))
    monkeypatch.setattr(translation, "RESIDENT", resident)
    made = task._batch("train", rows, torch.device("cuda"), (8, 24))
    assert all(torch.equal(ours.cpu(), theirs) for ours, theirs in zip(made, expected, strict=True))
    assert made.source.is_cuda and made.weights.is_cuda and not made.count.is_cuda
    assert task._packed("train", torch.device("cuda"))[0].numbers.is_cuda == bool(resident)


def test_padding_changes_nothing(files):
    task = opened(files)
    model = task.model(1).requires_grad_(False)
    sources, targets = ([side[row] for row in (0, 500, 11)] for side in task.rows["train"])
    together = pair_batch(Ragged(sources), Ragged(targets), task.ends.start, CPU)
    assert together.source.shape[1] % STRIDE == 0 and together.labels.shape[1] % STRIDE == 0
    alone = [pair_batch(Ragged([s]), Ragged([t]), task.ends.start, CPU) for s, t in zip(sources, targets, strict=True)]
    assert torch.equal(pair_batch(*map(Ragged, task.rows["train"]), task.ends.start, CPU, [0, 500, 11])[0], together[0])
    total = sum(float(task.losses(model, batch)["loss"]) for batch in alone)
    assert total == pytest.approx(float(task.losses(model, together)["loss"]), rel=1e-5)


def test_an_evaluation_is_the_mean_over_every_target_token(files):
    task = opened(files, scores=())
    model = task.model(3).train()
    figures = task.evaluate(model, "valid", CPU)
    assert model.training and set(figures) == {"loss"}
    nats = count = 0.0
    with torch.no_grad():
        for source, target in zip(*task.rows["valid"], strict=True):
            logits = model.eval()(torch.tensor([source]), torch.tensor([[task.ends.start, *target[:-1]]]))
            nats += float(F.cross_entropy(logits[0].double(), torch.tensor(target), reduction="sum"))
            count += len(target)
    assert figures["loss"] == pytest.approx(nats / count, rel=1e-5)


def test_it_learns_to_say_numbers_and_the_folder_translates_them(files, tmp_path):
    task = opened(files, metric="exact_match", written=50)
    assert task.higher_is_better and task.evaluate(task.model(0), "valid", CPU)["exact_match"] < 0.1
    model = trained(task, steps=400, rate=8e-3, size=1200)
    figures = task.evaluate(model, "valid", CPU)
    assert figures["exact_match"] > 0.85 and figures["loss"] < 0.2, figures
    task.save(save(model, tmp_path / "run"))
    again = clearhead.load(tmp_path / "run", device="cpu")
    numbers = task.texts["valid"].sources[:20]
    said = [found[0].text for found in clearhead.translate(again, numbers, beams=1)]
    greedy = task.translations(model, [task.source.ids(text) for text in numbers])
    assert said == greedy
    going_on = TranslationSpec(model=str(tmp_path / "run"), data=files).open()
    assert going_on.evaluate(going_on.model(0), "valid", CPU)["loss"] == pytest.approx(figures["loss"], rel=1e-5)
    beams = opened(files, beams=3)
    assert beams.evaluate(model, "valid", CPU)["exact_match"] >= figures["exact_match"] - 0.1


def test_separate_vocabularies_are_both_saved_and_both_written_with(files, tmp_path):
    task = opened(files, joint=False)
    model = task.model(0)
    task.save(tmp_path)
    read = [clearhead.tokenizer(place).vocabulary for place in (tmp_path, tmp_path / "target")]
    assert read == [task.source.vocabulary, task.target.vocabulary]
    assert read_tokenizer(tmp_path, "target").vocabulary == task.target.vocabulary
    assert read_tokenizer(tmp_path, "source").vocabulary == task.source.vocabulary
    rows = task.rows["valid"][0][:5]
    for text in task.translations(model, rows):
        assert set(text) <= set("".join(NUMBERS) + " ")
    assert all(len(row) <= 64 and task.ends.end not in row for row in written(model, rows, task.ends))


def test_what_is_too_long_is_left_out_of_training_and_cut_elsewhere(files):
    task = opened(files, longest=12)
    assert max(map(len, task.rows["train"][1])) <= 12 < max(map(len, task.rows["valid"][1]))
    assert any("training pairs left out: more than 12 tokens" in note for note in task.notes)
    narrow = opened(files, fields=SMALL | {"context": 14})
    assert max(map(len, narrow.rows["valid"][1])) == 14 and all(
        r[-1] == narrow.ends.end for r in narrow.rows["valid"][1]
    )
    assert any("pairs of valid cut at 14 tokens" in note for note in narrow.notes)
    narrow.evaluate(narrow.model(0), "valid", CPU)


def test_lower_case_is_made_of_all_texts_and_by_the_tokenizer(tmp_path):
    for name, lines in (("a.en", ["One Two", "TWO one"] * 30), ("a.de", ["Eins Zwei", "ZWEI eins"] * 30)):
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    files = (str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    task = opened(files, tokenizer="bpe", vocabulary=300, lowercase=True, valid=files)
    assert set(task.texts["valid"].targets) == {"eins zwei", "zwei eins"}
    assert task.source.ids("ONE TWO") == task.source.ids("one two")


def test_bleu_and_chrf_are_sacrebleus(monkeypatch):
    said, true = ["The cat sat on the mat .", "a dog"], ["the cat sat on the mat .", "A dog barked"]
    assert scored(said, [*said], ["exact_match"]) == {"exact_match": 1.0}
    assert scored(said, true, ["exact_match"]) == {"exact_match": 0.0}
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ClearheadError, match="pip install sacrebleu"):
        scored(said, true, ["bleu"])
    monkeypatch.undo()
    sacrebleu = pytest.importorskip("sacrebleu", reason="compares with sacrebleu, which is not installed")
    figures = scored(said, true, ["bleu", "bleu_lower", "chrf"])
    assert figures["bleu"] == sacrebleu.corpus_bleu(said, [true]).score
    assert figures["bleu_lower"] > figures["bleu"] and figures["chrf"] == sacrebleu.corpus_chrf(said, [true]).score
    assert [line.partition("|eff")[0] for line in signatures(["exact_match", "bleu_lower", "bleu"])] == [
        "bleu_lower: nrefs:1|case:lc",
        "bleu: nrefs:1|case:mixed",
    ]


def test_dates_between_languages_are_one_task(files):
    pytest.importorskip("babel", reason="dates are written by Babel, which is not installed")
    task = opened(files, data="dates", options={"directions": ["ne>en", "en>ne"], "per_date": 1})
    assert task.texts["train"].sources[0].startswith(("ne>en: ", "en>ne: "))
    assert task.parts == ("valid", "test")
    batch = task.batch(0, Batching(size=500), 0, 1, CPU)
    loss = float(task.losses(task.model(0).requires_grad_(False), batch)["loss"]) / task.weight(batch)
    assert loss < 2 * math.log(task.source.size)


def test_other_sets_join_what_is_learnt_and_what_is_judged():
    spec = TranslationSpec(model="transformer-tiny", data="phrases", more=("phrases",), tests=("phrases",))
    alone = TranslationSpec(model="transformer-tiny", data="phrases").open()
    task = spec.open()
    assert isinstance(task, TranslationTask) and isinstance(alone, TranslationTask)
    assert len(task.texts["train"]) == len(alone.texts["train"]) + 67
    assert task.texts["phrases"] == alone.texts["test"]
    assert task.parts == ("valid", "test", "phrases")
    assert "67 pairs of phrases join train" in task.notes


def test_a_set_that_is_learnt_whole_is_no_test(monkeypatch):
    everything = open_set("phrases")
    known = replace(everything, parts={"test": everything.parts["test"]})
    monkeypatch.setattr("clearhead.train.translation.open_set", lambda *_, **__: known)
    spec = TranslationSpec(model="transformer-tiny", data="phrases", more=("flores",), tests=("flores",))
    with pytest.raises(ClearheadError, match="flores has no test part that is not learnt"):
        spec.open()


def test_the_losses_compile_whole(files):
    task = opened(files)
    model = task.model(0).requires_grad_(False)
    torch._dynamo.reset()
    compiled = torch.compile(lambda batch: task.losses(model, batch)["loss"], fullgraph=True, backend="eager")
    for number in range(3):
        batch = task.batch(number, Batching(size=200), 0, 1, CPU)
        assert torch.allclose(compiled(batch), task.losses(model, batch)["loss"], rtol=1e-5)


def test_what_does_not_fit_is_refused_in_one_line(files):
    bad = {
        "two files": {"data": files[:1]},
        "can't learn translation": {"model": "gpt2", "fields": None},
        "joint": {"model": "t5-small", "fields": T5, "joint": False},
        "metric must be": {"metric": "bleu"},
        "scores are": {"scores": ("rouge",)},
        "vocab is settled": {"fields": SMALL | {"vocab": 5}},
        "at most 2 tokens": {"longest": 2},
        "widths must be whole numbers from 1, from narrow to wide": {"widths": (16, 8)},
        "widths must be whole numbers": {"widths": 16},
        "there are 2 widths and 1 target_widths": {"widths": (16, 32), "target_widths": (16,)},
        "rows of 128 tokens don't fit the model's context of 64": {"widths": (16, 128)},
        "has no train part": {"data": "ntrex", "folder": str(Path(files[0]).parent)},
    }
    for name, text in (("src.eng", "one\ntwo\n"), ("ref.nep", "एक\nदुई\n")):
        (Path(files[0]).parent / f"newstest2019-{name}.txt").write_text(text, encoding="utf-8")
    for message, changes in bad.items():
        with pytest.raises(ClearheadError, match=message) as caught:
            opened(files, **changes).model(0)
        assert "\n" not in str(caught.value)
