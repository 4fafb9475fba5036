"""`answer` against a loop over every span of transformers' logits, in windows that transformers' tokenizer cuts."""

import math

import pytest
import torch

import clearhead
from clearhead.data.learn_tokenizer import learn_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.tasks.answer import answer, answers
from tests.minilm import minilm, tiny
from tests.support import TOLERANCE, peer

QUESTION = "Where did Zoë put the naïve café's money?"
PASSAGE = (
    "Zoë sat by the RIVER bank; it was cold.  The café (a naïve one) had closed!\n"
    "She put all 12,500 euros in the bank-vault -- नमस्ते said the clerk, 'come back on Monday'. "
    "Then the dog, who liked tea, ran along the water's edge until the sun set over the hills.\n"
)


def random_reader(place, tok, context: int = 64):
    small = {"context": context, "width": 24, "layers": 2, "heads": 3, "task": "answer", "init_std": 0.4}
    model = create("bert-base", vocab=tok.size, **small, seed=0, device="cpu")
    return clearhead.save(model, place, tokenizer=tok)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tok = learn_tokenizer([QUESTION, PASSAGE], "wordpiece", 130, lowercase=True)
    return random_reader(tmp_path_factory.mktemp("reader") / "tiny", tok)


@pytest.fixture
def model(folder):
    return clearhead.load(folder, device="cpu")


def every_span(folder, question: str, passage: str, window: int, overlap: int, longest: int) -> dict:
    """The score of each stretch of the passage, by its characters: the best over the windows."""
    transformers = peer("transformers")
    theirs = transformers.BertForQuestionAnswering.from_pretrained(folder).eval()
    tok = transformers.AutoTokenizer.from_pretrained(folder)
    cut = {"truncation": "only_second", "max_length": window, "stride": overlap, "return_overflowing_tokens": True}
    read = tok(question, passage, **cut, return_offsets_mapping=True, padding=True, return_tensors="pt")
    places = read.pop("offset_mapping").tolist()
    read.pop("overflow_to_sample_mapping")
    with torch.no_grad():
        result = theirs(**read)
    spans: dict[tuple[int, int], float] = {}
    for row, where in enumerate(places):
        inside = [at for at, text in enumerate(read.sequence_ids(row)) if text == 1]
        for first in inside:
            for last in inside:
                if first <= last < first + longest:
                    score = (result.start_logits[row, first] + result.end_logits[row, last]).item()
                    span = where[first][0], where[last][1]
                    spans[span] = max(spans.get(span, -math.inf), score)
    return spans


def assert_same(found, spans: dict, passage: str) -> None:
    best = sorted(spans, key=lambda span: -spans[span])[: len(found)]
    assert [(span.start, span.end) for span in found] == best
    assert all(span.text == passage[span.start : span.end] and span.text for span in found)
    total = math.log(sum(math.exp(score) for score in spans.values()))
    for span in found:
        score = spans[span.start, span.end]
        assert abs(span.score - score) <= TOLERANCE * max(1, abs(score))
        assert abs(span.probability - math.exp(score - total)) <= TOLERANCE


@pytest.mark.parametrize(
    ("window", "overlap", "longest"), [(64, 10, 30), (40, 0, 30), (45, 15, 3), (36, 8, 1), (64, 25, 64)]
)
def test_the_best_spans_over_all_windows_are_those_of_a_loop_over_transformers_logits(
    folder, model, window, overlap, longest
):
    spans = every_span(folder, QUESTION, PASSAGE, window, overlap, longest)
    found = answer(model, QUESTION, PASSAGE, 20, window=window, overlap=overlap, longest=longest)
    assert len(found) == 20
    assert_same(found, spans, PASSAGE)


def test_a_passage_that_fits_is_read_in_one_window(folder, model):
    spans = every_span(folder, "Who sat?", PASSAGE[:60], 64, 0, 30)
    assert_same(answer(model, "Who sat?", PASSAGE[:60], 10), spans, PASSAGE[:60])


def test_with_the_real_vocabulary_the_characters_are_the_passages_own(tmp_path):
    tok = clearhead.tokenizer(minilm())
    folder = random_reader(tmp_path / "reader", tok, context=128)
    model, passage = clearhead.load(folder, device="cpu"), PASSAGE * 4
    spans = every_span(folder, QUESTION, passage, 100, 30, 12)
    assert_same(answer(model, QUESTION, passage, 15, window=100, overlap=30, longest=12), spans, passage)


def test_probabilities_sum_to_one_over_all_spans(model):
    found = answer(model, QUESTION, PASSAGE, 10**6, longest=4)
    assert abs(sum(span.probability for span in found) - 1) < 1e-5
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)


def test_many_questions_in_batches_get_the_answers_that_each_gets_alone(model):
    asked = [(QUESTION, PASSAGE), ("Who?", PASSAGE[80:]), ("What was cold?", PASSAGE[:30]), ("Tea?", PASSAGE * 2)]
    alone = [answer(model, *one, top=3) for one in asked]
    for batch in (1, 3, 32):
        done = []
        found = answers(model, asked, 3, batch=batch, progress=done.append)
        for ours, theirs in zip(found, alone, strict=True):
            assert [(span.start, span.end) for span in ours] == [(span.start, span.end) for span in theirs]
            assert all(abs(a.probability - b.probability) <= TOLERANCE for a, b in zip(ours, theirs, strict=True))
        assert len(done) == math.ceil(sum(done) / batch)


def test_an_answer_across_the_border_of_two_windows_is_found_where_they_overlap(model):
    """The band is filled from every window: with enough overlap no short span is out of reach."""
    spans = {(span.start, span.end) for span in answer(model, "Who?", PASSAGE, 10**6, window=30, overlap=10, longest=8)}
    whole = {(span.start, span.end) for span in answer(model, "Who?", PASSAGE[:120], 10**6, window=64, longest=8)}
    assert {span for span in whole if span[1] <= 110} <= spans


def test_mistakes_are_told_in_one_line(model, tmp_path):
    headless = clearhead.load(tiny(tmp_path / "headless", task="fill"), device="cpu")
    cases = [
        (model, "", PASSAGE, {}, "question is empty"),
        (model, QUESTION, " \n", {}, "passage is empty"),
        (model, QUESTION * 5, PASSAGE, {}, "no room for the passage in 64 tokens"),
        (model, QUESTION, PASSAGE, {"overlap": 60}, "can share 0 to"),
        (model, QUESTION, PASSAGE, {"top": 0}, "top must be"),
        (model, QUESTION, PASSAGE, {"longest": 0}, "longest must be"),
        (headless, QUESTION, PASSAGE, {}, "its task is 'fill'"),
        (create("vit-ti16", layers=1, device="cpu"), QUESTION, PASSAGE, {}, "not by a ViT"),
    ]
    for one, question, passage, options, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            answer(one, question, passage, **options)
        assert "\n" not in str(caught.value)
