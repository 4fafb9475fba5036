"""Questions: the loss is transformers', windows hold their answers, evaluation answers as `answer` does."""

import json

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.tasks.answer import answers
from clearhead.train.questions import QuestionSpec
from clearhead.train.scores import squad
from clearhead.train.span_baselines import baselines
from clearhead.train.task import Batching
from tests.minilm import WORDS, tiny
from tests.support import equal, peer

CPU = torch.device("cpu")
VOICES = [word for word in WORDS.split() if word.isalpha() and word not in ("cat", "dog", "river")]


def passage(seed: int, size: int) -> str:
    """Words in which each of cat, dog and river stands once, with the word behind it."""
    random = torch.Generator().manual_seed(seed)
    words = [VOICES[int(n)] for n in torch.randint(len(VOICES), (size,), generator=random)]
    for place, word in zip((1, size // 2, size - 2), ("cat", "dog", "river"), strict=True):
        words[place] = word
    return " ".join(words)


def written(folder, articles=7, size=14):
    """SQuAD's dev file: what stands at each animal, and what stands behind it?"""
    data = []
    for article in range(articles):
        text, asked = passage(article, size), []
        for word in ("cat", "dog", "river"):
            start = text.index(f"{word} ")
            answer = " ".join(text[start:].split()[:2])
            truths = [{"text": answer, "answer_start": start}, {"text": word, "answer_start": start}]
            asked.append({"id": f"{article}-{word}", "question": f"the {word}", "answers": truths})
        data.append({"title": f"article {article}", "paragraphs": [{"context": text, "qas": asked}]})
    (folder / "squad").mkdir(exist_ok=True)
    (folder / "squad" / "dev-v1.1.json").write_text(json.dumps({"version": "1.1", "data": data}))
    return str(folder)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "tiny"
    return str(tiny(folder, context=24, dropout=0.0, attention_dropout=0.0))


def opened(checkpoint, tmp_path, size=14, **changes):
    options = {"split": "article"}
    return QuestionSpec(model=checkpoint, folder=written(tmp_path, size=size), options=options, **changes).open()


def test_the_loss_is_transformers_where_nothing_is_padded(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    model = task.model(3)
    clearhead.save(model, tmp_path / "run")
    theirs = peer("transformers").BertForQuestionAnswering.from_pretrained(tmp_path / "run").eval()
    batch = task.batch(0, Batching(size=6), 0, 1, CPU)
    ids, lengths, segments = batch.text
    assert (lengths == ids.shape[1]).all() and (batch.ends > 0).all()
    starts, ends = batch.ends.unbind(1)
    expected = theirs(ids, token_type_ids=segments, start_positions=starts, end_positions=ends).loss
    assert equal(task.losses(model, batch)["loss"] / task.weight(batch), expected)


def test_padding_does_not_change_the_loss(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, size=60, length=22, overlap=5)
    model = task.model(0)
    whole = task.batch(0, Batching(size=len(task.train.rows)), 0, 1, CPU)
    assert whole.text.lengths.min() < whole.text.lengths.max()
    shares = [task.batch(0, Batching(size=len(task.train.rows)), rank, 9, CPU) for rank in range(9)]
    assert sum(map(task.weight, shares)) == task.weight(whole) == len(task.train.rows)
    together = sum(task.losses(model, share)["loss"] for share in shares)
    assert equal(torch.as_tensor(together), task.losses(model, whole)["loss"])


def test_every_answer_is_in_a_window_and_others_point_at_the_first_token(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, size=60, length=22, overlap=5)
    read = task._read(task.questions["train"], answering=True)
    found = set()
    for window, row, (first, last) in zip(read.windows, read.rows.rows, read.ends.tolist(), strict=True):
        assert len(row.ids) <= 22
        text = task.tokenizer.text(row.ids[first : last + 1].tolist(), skip_special=False)
        truth = task.questions["train"][window.asked].answers[0][0]
        inside = truth in task.tokenizer.text(row.ids[window.offset :].tolist())
        assert text == (truth if inside else "[CLS]")
        found |= {window.asked} if inside else set()
    assert found == set(range(len(task.questions["train"])))
    assert (read.ends == 0).any(), "some windows lack the answer"


def test_a_batch_depends_on_its_number_alone(checkpoint, tmp_path):
    first, second = (opened(checkpoint, tmp_path) for _ in range(2))
    second.batch(7, Batching(size=4), 0, 1, CPU)
    one, other = first.batch(5, Batching(size=4), 0, 1, CPU), second.batch(5, Batching(size=4), 0, 1, CPU)
    assert all(map(torch.equal, (*one.text, one.ends), (*other.text, other.ends)))


def trained(task, updates: int):
    model, batching = task.model(0).train(), Batching(size=15)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for number in range(updates):
        batch = task.batch(number, batching, 0, 1, CPU)
        loss = task.losses(model, batch)["loss"] / task.weight(batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model, loss


def test_a_few_passages_are_learnt_by_heart_and_answered(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    model, loss = trained(task, 60)
    assert loss < 0.1
    figures = task.evaluate(model, "train", CPU)
    assert figures["em"] > 0.9 and figures["f1"] > 0.9 and model.training


def test_evaluation_answers_as_the_command_does(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, size=60, length=22, overlap=5, longest=4)
    model, _ = trained(task, 15)
    clearhead.save(model, tmp_path / "run")
    task.save(tmp_path / "run")
    rows = task.questions["test"]
    asked = [(one.question, one.passage) for one in rows]
    spans = answers(clearhead.load(tmp_path / "run", device="cpu"), asked, longest=4, window=22, overlap=5)
    given, loss = task.answered(model, "test", CPU)
    assert given == [found[0].text for found in spans]
    figures = task.evaluate(model, "test", CPU)
    accepted = [[text for text, _ in one.answers] for one in rows]
    assert figures == squad(given, accepted) | {"loss": loss} | baselines(rows)


def test_the_mean_loss_is_that_of_one_batch_of_all_windows(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path, size=60, length=22, overlap=5)
    model = task.model(0)
    whole = task.batch(0, Batching(size=len(task.train.rows)), 0, 1, CPU)
    expected = task.losses(model, whole)["loss"].item() / task.weight(whole)
    assert task.evaluate(model, "train", CPU)["loss"] == pytest.approx(expected, abs=1e-5)


def test_the_parts_share_no_article_and_test_is_not_validated_on(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    articles = [{row.article for row in task.questions[part]} for part in ("train", *task.parts)]
    assert task.parts == ("valid", "test") and sum(map(len, articles)) == len(set().union(*articles)) == 7


def test_the_loss_compiles_without_a_break(checkpoint, tmp_path):
    task = opened(checkpoint, tmp_path)
    model, batch = task.model(0).train(), task.batch(0, Batching(size=4), 0, 1, CPU)
    compiled = torch.compile(lambda given: task.losses(model, given)["loss"], fullgraph=True, backend="eager")
    assert torch.equal(compiled(batch), task.losses(model, batch)["loss"])


def test_a_new_model_learns_its_vocabulary_from_the_passages(tmp_path):
    fields = {"width": 24, "heads": 3, "layers": 1}
    task = opened("minilm-l6", tmp_path, fields=fields, vocabulary=90)
    assert task.model(0).config.vocab == task.tokenizer.size and "river" in task.tokenizer.vocabulary


def test_a_file_without_a_training_part_says_what_to_do(checkpoint, tmp_path):
    with pytest.raises(ClearheadError, match="no part to train on .*split='article'"):
        QuestionSpec(model=checkpoint, folder=written(tmp_path)).open()
    with pytest.raises(ClearheadError, match="digits holds pictures"):
        QuestionSpec(model=checkpoint, data="digits").open()
