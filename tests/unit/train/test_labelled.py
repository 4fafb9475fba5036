"""Labelled texts: the loss is transformers', batches are pure, figures are those of a direct computation."""

import json

import pytest
import torch
import torch.nn.functional as F

import clearhead
from clearhead.errors import ClearheadError
from clearhead.runs import tokenizer
from clearhead.tasks.classify import classify
from clearhead.train.labelled import LabelledSpec
from clearhead.train.task import Batching
from tests.minilm import WORDS, tiny
from tests.support import equal, peer

CPU = torch.device("cpu")
VOICES = [word for word in WORDS.split() if word.isalpha()]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Of 2 to 8 words."""
    random = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        size = int(torch.randint(2, 9, (), generator=random))
        made.append(" ".join(VOICES[int(n)] for n in torch.randint(len(VOICES), (size,), generator=random)))
    return made


def table(folder, count=60, scored=False, pairs=False):
    file = folder / "own.tsv"
    lines = ["sentence1\tsentence2\tlabel" if pairs else "text\tlabel"]
    for number, text in enumerate(sentences(count)):
        label = f"{len(text) / 10:.2f}" if scored else "good" if {"cat", "river"} & set(text.split()) else "bad"
        lines.append("\t".join([text, *([sentences(count, 1)[number]] if pairs else []), label]))
    file.write_text("\n".join(lines) + "\n")
    return str(file)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A random BERT without dropout."""
    folder = tmp_path_factory.mktemp("bert") / "tiny"
    return str(tiny(folder, dropout=0.0, attention_dropout=0.0))


def opened(checkpoint, tmp_path, options=None, smoothing=0.0, length=128, consistency=0.0, fields=None, **rows):
    data = table(tmp_path, **rows)
    asked = {"smoothing": smoothing, "length": length, "consistency": consistency, "fields": fields}
    return LabelledSpec(model=checkpoint, data=data, options=options, **asked).open()


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("pairs", [False, True])
def test_the_loss_is_transformers(checkpoint, tmp_path, scored, pairs):
    task = opened(checkpoint, tmp_path, scored=scored, pairs=pairs)
    model = task.model(3)
    clearhead.save(model, tmp_path / "run")
    theirs = peer("transformers").BertForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    batch = task.batch(1, Batching(size=24), 0, 1, CPU)
    ids, lengths, segments = batch.text
    seen = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    assert seen.min() == 0, "a row is padded"
    expected = theirs(ids, seen, segments, labels=batch.labels).loss
    assert equal(task.losses(model, batch)["loss"] / task.weight(batch), expected)


def test_smoothing_changes_the_loss_as_torch_does(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, smoothing=0.2)
    model, batch = task.model(0), task.batch(0, Batching(size=8), 0, 1, CPU)
    scores = model(*batch.text).log_softmax(-1)
    by_hand = -(0.8 * scores.gather(1, batch.labels[:, None])[:, 0] + 0.2 * scores.mean(1)).sum()
    assert equal(task.losses(model, batch)["loss"], by_hand)


def test_rows_read_twice_agree_without_dropout_and_the_loss_is_as_ever(checkpoint, tmp_path):
    once, twice = opened(checkpoint, tmp_path), opened(checkpoint, tmp_path, consistency=4.0)
    model, batch = once.model(3).train(), once.batch(1, Batching(size=24), 0, 1, CPU)
    losses = twice.losses(model, batch)
    assert losses["apart"] < 1e-6 and equal(losses["loss"], once.losses(model, batch)["loss"])
    assert losses["accuracy"] == once.losses(model, batch)["accuracy"]


def test_consistency_adds_half_of_both_divergences_between_two_passes(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, consistency=4.0, fields={"dropout": 0.3})
    model, batch = task.model(3).train(), task.batch(1, Batching(size=24), 0, 1, CPU)
    torch.manual_seed(5)
    losses = task.losses(model, batch)
    torch.manual_seed(5)
    scores = model(*(torch.cat([part, part]) for part in batch.text)).double()
    one, other = scores.softmax(-1).chunk(2)
    apart = ((one - other) * (one / other).log()).sum() / 2
    plain = sum(F.cross_entropy(half, batch.labels, reduction="sum") for half in scores.chunk(2)) / 2
    assert apart > 0.01 and equal(losses["apart"], apart.float())
    assert equal(losses["loss"], (plain + 4 * apart).float())


def test_a_consistency_below_nothing_is_refused(checkpoint, tmp_path):
    with pytest.raises(ClearheadError, match="consistency must be a number from 0"):
        opened(checkpoint, tmp_path, consistency=-1.0)


def test_a_batch_depends_on_its_number_alone(checkpoint, tmp_path):
    first, second = (opened(checkpoint, tmp_path) for _ in range(2))
    batching = Batching(size=8, seed=5)
    later = first.batch(11, batching, 0, 1, CPU)
    for number in (3, 0, 40):
        second.batch(number, batching, 0, 1, CPU)
    again = second.batch(11, batching, 0, 1, CPU)
    assert all(map(torch.equal, (*later.text, later.labels), (*again.text, again.labels)))
    other = first.batch(11, Batching(size=8, seed=6), 0, 1, CPU)
    assert not torch.equal(later.text.ids, other.text.ids)


def test_the_shares_of_all_processes_are_the_batch_and_its_loss(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    model, batching = task.model(0), Batching(size=7)
    whole = task.batch(2, batching, 0, 1, CPU)
    shares = [task.batch(2, batching, rank, 3, CPU) for rank in range(3)]
    assert sum(map(task.weight, shares)) == task.weight(whole) == 7
    assert sorted(row for share in shares for row in contents(share)) == sorted(contents(whole))
    together = sum(task.losses(model, share)["loss"] for share in shares)
    assert equal(torch.as_tensor(together), task.losses(model, whole)["loss"])
    with pytest.raises(ClearheadError, match="can't be shared among 8"):
        task.batch(2, batching, 0, 8, CPU)


def contents(batch):
    rows = zip(batch.text.ids.tolist(), batch.text.lengths.tolist(), batch.labels.tolist(), strict=True)
    return [(tuple(ids[:length]), label) for ids, length, label in rows]


def test_an_epoch_has_each_row_at_most_once_and_batches_of_like_lengths(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, count=400)
    batching, rows = Batching(size=16), task.rows["train"]
    numbers = [rows.share(number, batching, 0, 1) for number in range(int(task.batches_per_epoch(batching)))]
    assert all(len(chosen) == 16 for chosen in numbers)
    used = [row for chosen in numbers for row in chosen]
    assert len(set(used)) == len(used) > len(rows) - 16
    spread = [int(rows.lengths[chosen].max() - rows.lengths[chosen].min()) for chosen in numbers]
    assert sum(spread) / len(spread) < 1.5
    assert numbers != [rows.share(len(numbers) + number, batching, 0, 1) for number in range(len(numbers))]


def test_evaluation_is_what_every_text_alone_gives(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    model = task.model(1).train()
    seen = []
    figures = task.evaluate(model, "valid", CPU, lambda done, of: seen.append((done, of)))
    assert model.training and seen[-1] == (6, 6)
    part, tok = task.dataset.parts["valid"], tokenizer(checkpoint)
    model.eval()
    logits = torch.cat([model(torch.tensor([tok.ids(text)])) for text in part.texts]).detach()
    assert figures["accuracy"] == (logits.argmax(1) == part.labels).double().mean().item()
    assert figures["loss"] == pytest.approx(F.cross_entropy(logits, part.labels).item(), abs=1e-5)
    assert figures.keys() == {"accuracy", "loss", "f1", "matthews"}


def test_scores_are_judged_by_correlation(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, scored=True)
    assert task.metric == "spearman"
    assert task.evaluate(task.model(0), "valid", CPU).keys() == {"spearman", "pearson", "loss"}


@pytest.mark.parametrize("scored", [False, True])
def test_a_few_texts_are_learnt_by_heart(checkpoint, tmp_path, scored):
    task = opened(checkpoint, tmp_path, count=30, scored=scored)
    model, batching = task.model(0).train(), Batching(size=27)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for number in range(60):
        batch = task.batch(number, batching, 0, 1, CPU)
        loss = task.losses(model, batch)["loss"] / task.weight(batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.1


def test_a_new_model_learns_its_vocabulary_from_the_training_texts(tmp_path):
    fields = {"width": 24, "heads": 3, "layers": 1}
    data = table(tmp_path)
    task = LabelledSpec(model="minilm-l6", data=data, fields=fields, vocabulary=80).open()
    model = task.model(0)
    assert model.config.vocab == task.tokenizer.size <= 80
    assert "river" in task.tokenizer.vocabulary
    assert torch.equal(model.output.weight, task.model(0).output.weight)
    assert not torch.equal(model.output.weight, task.model(1).output.weight)


def test_the_head_is_drawn_by_the_seed_and_kept_when_training_goes_on(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    model = task.model(4)
    assert not torch.equal(model.output.weight, task.model(5).output.weight)
    assert torch.equal(
        model.encoder.blocks[0].feed_forward.up.weight, task.model(5).encoder.blocks[0].feed_forward.up.weight
    )
    clearhead.save(model, tmp_path / "run")
    task.save(tmp_path / "run")
    again = opened(str(tmp_path / "run"), tmp_path)
    assert torch.equal(again.model(9).output.weight, model.output.weight)


def test_classify_gives_a_saved_run_the_same_answers_by_name(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, pairs=True)
    model = task.model(0)
    clearhead.save(model, tmp_path / "run")
    task.save(tmp_path / "run")
    scores, _ = task.predicted(model, "valid", CPU)
    part = task.dataset.parts["valid"]
    verdicts = classify(
        clearhead.load(tmp_path / "run", device="cpu"), list(zip(part.texts, part.seconds, strict=True))
    )
    for verdict, row in zip(verdicts, scores.softmax(-1), strict=True):
        assert {one.name: one.probability for one in verdict.classes} == pytest.approx(
            dict(zip(("bad", "good"), row.tolist(), strict=True)), abs=1e-5
        )


def test_a_long_text_is_cut_and_counted(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, length=6)
    assert max(task.rows["train"].lengths) == 6
    assert any("were cut at 6 tokens" in note for note in task.notes)


def glue(folder):
    """SST-2 in GLUE's layout, with a labelled test part."""
    (folder / "sst2").mkdir(exist_ok=True)
    for name, count in (("train", 40), ("dev", 12), ("test-labeled", 9)):
        rows = [f"{text}\t{number % 2}" for number, text in enumerate(sentences(count, count))]
        (folder / "sst2" / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    return str(folder)


def test_with_a_share_held_out_the_development_part_is_the_test(checkpoint, tmp_path):
    spec = LabelledSpec(model=checkpoint, data="sst2", folder=glue(tmp_path), held_out=0.25)
    task = spec.open()
    sizes = {name: len(task.rows[name]) for name in ("train", *task.parts)}
    assert list(sizes) == ["train", "valid", "test", "official_test"]
    assert sizes == {"train": 30, "valid": 10, "test": 12, "official_test": 9}
    assert not set(task.dataset.parts["train"].texts) & set(task.dataset.parts["valid"].texts)
    own = LabelledSpec(model=checkpoint, data="sst2", folder=glue(tmp_path)).open()
    assert {name: len(own.rows[name]) for name in own.parts} == {"valid": 12, "test": 9}


def test_the_loss_compiles_without_a_break(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    model, batch = task.model(0).train(), task.batch(0, Batching(size=4), 0, 1, CPU)
    compiled = torch.compile(lambda given: task.losses(model, given)["loss"], fullgraph=True, backend="eager")
    assert torch.equal(compiled(batch), task.losses(model, batch)["loss"])


def test_json_lines_are_a_table_too(checkpoint, tmp_path):
    file = tmp_path / "own.jsonl"
    rows = [{"review": text, "stars": number % 3} for number, text in enumerate(sentences(30))]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = LabelledSpec(model=checkpoint, data=str(file)).open()
    assert task.classes == ("0", "1", "2") and task.metric == "accuracy"
    assert task.evaluate(task.model(0), "valid", CPU).keys() == {"accuracy", "loss"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "sst-2"}, "no named set .* did you mean 'sst2'"),
        ({"data": "digits"}, "digits holds pictures, not texts with labels"),
        ({"model": "vit-ti16"}, "learnt by a bert, and vit-ti16 is a vit"),
        ({"model": "minilm-l7"}, "no model or folder 'minilm-l7'.* did you mean 'minilm-l6'"),
        ({"options": {"lable": "x"}}, "no option 'lable'; did you mean 'label'"),
    ],
)
def test_a_mistake_is_told_in_one_line(checkpoint, tmp_path, changes, message):
    with pytest.raises(ClearheadError, match=message):
        LabelledSpec(**{"model": checkpoint, "data": table(tmp_path)} | changes).open()
