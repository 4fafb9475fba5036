"""`translate` against beam search on each line alone, and alignments against a recorded pass."""

import pytest
import torch

import clearhead
from clearhead.decode import Beams, beam_search
from clearhead.errors import ClearheadError
from clearhead.tasks import generate, translate, writer
from tests.support import equal
from tests.writers import DICTIONARY, letters, trained_translator, translator

LINES = [
    "the cat sees a dog",
    "",
    "a",
    "the big dog eats the big cat and the big house",
    " \t",
    "a house",
    "the the the the the the the the the the",
    "dog",
]


@pytest.fixture(scope="module", params=["trained", "t5-small", "transformer-tiny"])
def model(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("t") / "model"
    folder = trained_translator(place) if request.param == "trained" else translator(place, request.param)
    return clearhead.load(folder, device="cpu")


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    return clearhead.load(trained_translator(tmp_path_factory.mktemp("t") / "model"), device="cpu")


def limit(model, count: int) -> int:
    wanted = 2 * ((count + 7) // 8 * 8) + 10
    return min(wanted, getattr(model.config, "context", wanted))


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_every_line_gets_what_beam_search_gives_it_alone_in_order(model, batch):
    writes = writer(model)
    found = translate(model, LINES, beams=3, best=2, length_penalty=0.6, batch=batch)
    assert len(found) == len(LINES)
    for line, translations in zip(LINES, found, strict=True):
        if not line.strip():
            assert [(t.text, t.tokens, t.score) for t in translations] == [("", (), 0.0)]
            continue
        ids = writes.ids(line)
        beams = Beams(3, 0.6, False, limit(model, len(ids)))
        (search,) = beam_search(model, [ids], beams, end=writes.end, never=writes.never)
        assert [t.tokens for t in translations] == [h.tokens for h in search.finished[:2]]
        assert [t.score for t in translations] == pytest.approx([h.score for h in search.finished[:2]], abs=1e-5)
        assert all(t.score == pytest.approx(t.logprob / len(t.tokens) ** 0.6) for t in translations)
        assert translations[0].score >= translations[1].score
        assert "<end>" not in translations[0].text and "<pad>" not in translations[0].text


def test_one_beam_is_greedy(model):
    for line in (line for line in LINES if line.strip()):
        (best,) = translate(model, line, beams=1, length=9)[0]
        assert best.tokens == generate(model, line, length=9)[0].tokens


def test_a_trained_translator_translates_and_its_alignment_points_at_the_words(transformer):
    lines = ["the cat sees a dog", "a house", "dog", "a big cat"]
    for line, (best,) in zip(lines, translate(transformer, lines, align=True), strict=True):
        assert best.text == " ".join(DICTIONARY[word] for word in line.split())
        assert best.alignment.target == (*best.text.split(), "<end>")
        assert best.alignment.strongest[:-1] == tuple(range(len(line.split())))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_alignment_is_what_the_last_but_one_layer_looked_at_when_it_wrote(tmp_path, layers):
    model = clearhead.load(translator(tmp_path / "model", layers=layers), device="cpu")
    writes = writer(model)
    lines = ["the cat sees a dog", "a"]
    for line, translations in zip(lines, translate(model, lines, best=2, length=6, align=True), strict=True):
        for found in translations:
            source, target = torch.tensor([writes.ids(line)]), torch.tensor([[model.start_token, *found.tokens[:-1]]])
            site = f"decoder.blocks.{max(0, layers - 2)}.cross.weights"
            expected = clearhead.record(model, (source, target))[site][0].mean(0)
            assert equal(found.alignment.weights, expected)
            assert found.alignment.source == tuple(line.split()) and len(found.alignment.target) == len(found.tokens)
            assert torch.allclose(found.alignment.weights.sum(-1), torch.ones(len(found.tokens)))
            assert found.alignment.strongest == tuple(row.tolist().index(max(row.tolist())) for row in expected)


def test_without_being_asked_nothing_is_aligned(transformer):
    assert translate(transformer, "the cat")[0][0].alignment is None


def test_lines_are_told_in_order_as_they_are_done_and_progress_counts_every_one(transformer):
    told, done, trees = [], [], {}
    lines = LINES * 3
    found = translate(
        transformer,
        lines,
        batch=1,
        on_line=lambda number, translations: told.append((number, translations)),
        on_search=trees.__setitem__,
        progress=done.append,
    )
    assert told == list(enumerate(found)) and sum(done) == len(lines)
    assert sorted(trees) == [number for number, line in enumerate(lines) if line.strip()]
    for number, search in trees.items():
        best = search.finished[0]
        path, node = [], best.node
        while node is not None:
            path.append(search.tree[node].token)
            node = search.tree[node].parent
        assert tuple(reversed(path)) == best.tokens == found[number][0].tokens


def test_an_interruption_keeps_the_lines_that_were_told(transformer):
    told = []

    def stop(done: int) -> None:
        if told:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translate(transformer, ["the cat"] * 20, batch=1, on_line=lambda n, found: told.append(n), progress=stop)
    assert told == list(range(8))


def test_a_prefix_is_put_before_every_line(model):
    assert translate(model, ["cat", ""], prefix="the big ")[0] == translate(model, "the big cat")[0]
    assert translate(model, ["", "cat"], prefix="the big ")[0][0].text == ""


WRONG = {
    "beams": ({"beams": 0}, "the number of beams must be a whole number of at least 1, not 0"),
    "best": ({"beams": 2, "best": 3}, "2 beams give 1 to 2 translations of a line, not 3"),
    "batch": ({"batch": 0}, "a batch holds at least one line, not 0"),
    "length": ({"length": 0}, "a length must be a whole number of at least 1, not 0"),
    "too long": ({"length": 25}, "a translation has room for 24 tokens in the context, not for 25"),
    "penalty": ({"length_penalty": float("nan")}, "length_penalty must be a number, not nan"),
    "early": ({"early_stopping": "often"}, "early_stopping must be true, false or 'never', not 'often'"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_refused_in_one_line(transformer, options, message):
    with pytest.raises(ClearheadError) as caught:
        translate(transformer, "the cat", **options)
    assert str(caught.value) == message


def test_a_long_source_is_refused_before_any_work_and_names_its_line(transformer, tmp_path):
    told = []
    with pytest.raises(ClearheadError, match="line 2 has 25 tokens and the context is 24: shorten it"):
        translate(transformer, ["the cat", "the " * 25], batch=1, on_line=lambda *line: told.append(line))
    assert told == []
    gpt = clearhead.load(letters(tmp_path / "gpt"), device="cpu")
    with pytest.raises(ClearheadError, match="a gpt model goes on with a text: translating needs a transformer or t5"):
        translate(gpt, "a")
