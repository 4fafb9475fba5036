"""The words views get the numbers of `analyse`: spaces, neighbours, analogies, rows, contexts, positions."""

import pytest
import torch

import clearhead
from clearhead.analyse import analogy, nearest_words, one_hot_row, pca, token_table, tsne, word_vectors
from clearhead.models import create
from clearhead.ops import cosine
from clearhead.ops.positions import rotary_angles, sinusoidal
from clearhead.studio.word_views import TSNE_STEPS
from tests.unit.studio.asking import numbers, problem

SENTENCES = ["the cat sat on the mat", "a dog sat on a cat"]


@pytest.fixture
def client(studio, bert_run, letters_run, translator_run):
    return studio(bert_run, letters_run, translator_run)


def loaded(run):
    return clearhead.load(run, device="cpu")


def asked(client, model: str, what: str, **options):
    answer = client.get(f"/api/words/{model}/{what}", params=options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def placed(said: dict) -> torch.Tensor:
    return torch.tensor([[one["x"], one["y"]] for one in said["words"]])


def test_letters_are_placed_where_there_are_no_longer_words(client):
    assert [one["text"] for one in asked(client, "letters", "space")["words"]] == list("abcdefgh")


def test_the_first_words_lie_where_pca_puts_them_and_pieces_and_marks_are_left_out(client, bert_run):
    said = asked(client, "bert", "space", count=5)
    assert [one["id"] for one in said["words"]] == [5, 6, 7, 8, 10]
    assert said["words"][1]["text"] == "cat"
    expected = pca(token_table(loaded(bert_run))[[5, 6, 7, 8, 10]])
    assert torch.allclose(placed(said), expected.coordinates)
    assert said["shares"] == pytest.approx(expected.shares.tolist())
    assert (said["kind"], said["divergence"], said["of"]) == ("pca", None, 13)


def test_the_words_that_are_named_lie_where_tsne_puts_them(client, bert_run):
    words = ["dog", "cat", "mat", "sat", "the", "dog"]
    said = asked(client, "bert", "space", kind="tsne", word=words)
    assert [one["text"] for one in said["words"]] == words[:-1]
    expected = tsne(token_table(loaded(bert_run))[[12, 6, 10, 7, 5]], steps=TSNE_STEPS)
    assert torch.equal(placed(said), expected.coordinates)
    assert (said["divergence"], said["perplexity"]) == (expected.divergence, expected.perplexity)
    assert said["shares"] is None


def test_a_space_is_computed_once(client, monkeypatch):
    first = asked(client, "bert", "space", kind="tsne", count=5)
    monkeypatch.setattr("clearhead.studio.word_views.tsne", None)
    assert asked(client, "bert", "space", kind="tsne", count=5) == first


def test_neighbours_and_analogies_are_those_of_analyse(client, bert_run):
    model = loaded(bert_run)
    said = asked(client, "bert", "neighbours", word="cat", count=4)
    assert [(one["text"], one["id"]) for one in said["words"]] == [
        (one.token, one.number) for one in nearest_words(model, "cat", 4)
    ]
    assert asked(client, "bert", "neighbours", number=6, count=4)["words"] == said["words"]
    expected = analogy(model, "cat", "the", "a", 3)
    said = asked(client, "bert", "analogy", a="cat", b="the", c="a", count=3)
    assert said["asked"] == "cat - the + a"
    assert [one["cosine"] for one in said["words"]] == [one.cosine for one in expected]
    assert [one["id"] for one in said["words"]] == [one.number for one in expected]


def test_a_side_of_a_translator_has_its_own_neighbours(client, translator_run):
    said = asked(client, "translator", "neighbours", word="Katze", side="target", count=3)
    expected = nearest_words(loaded(translator_run), "Katze", 3, side="target")
    assert [one["cosine"] for one in said["words"]] == [one.cosine for one in expected]


def test_one_hot_times_the_table_is_the_row(client, bert_run):
    said = asked(client, "bert", "row", token="cat")
    expected = one_hot_row(loaded(bert_run), "cat")
    assert (said["id"], said["text"], said["rows"], said["width"]) == (6, "cat", 13, 16)
    assert torch.equal(torch.tensor(said["row"]), expected.looked_up)
    assert torch.equal(torch.tensor(said["product"]), expected.product)
    assert said["largest_difference"] == 0.0
    assert asked(client, "bert", "row", number=6) == said
    assert asked(client, "bert", "row", number=0)["id"] == 0


def test_a_word_in_two_sentences_is_static_and_contextual(client, bert_run):
    answer = client.post("/api/words/bert/contexts", json={"word": "cat", "sentences": SENTENCES})
    said, expected = answer.json(), word_vectors(loaded(bert_run), "cat", SENTENCES)
    assert [(one["sentence"], one["start"], one["stop"]) for one in said["places"]] == [(0, 2, 3), (1, 6, 7)]
    assert said["places"][0]["tokens"][2] == "cat"
    assert said["points"] == ["input", "block 1", "block 2"]
    assert torch.equal(torch.tensor(said["static_cosines"]), expected.static_cosines)
    assert torch.equal(torch.tensor(said["cosines"]), torch.stack([expected.cosines(point) for point in range(3)]))
    assert said["static_cosines"][0][1] == pytest.approx(1.0)
    assert said["cosines"][2][0][1] < 0.99
    own = torch.stack([cosine(expected.static[[n]], expected.layers[n])[0] for n in range(2)])
    assert torch.equal(torch.tensor(said["to_static"]), own)
    flat = pca(expected.layers.reshape(6, -1))
    assert torch.allclose(torch.tensor(said["path"]).reshape(6, 2), flat.coordinates)
    assert torch.allclose(torch.tensor(said["static"]), flat.place(expected.static))
    assert said["shares"] == pytest.approx(flat.shares.tolist())


def table(client, model: str, **options):
    answer = client.get(f"/api/words/{model}/positions", params=options)
    assert answer.status_code == 200, answer.text
    ends = list(map(int, answer.headers["x-slice"].split(",")))
    return answer.headers["x-kind"], numbers(answer, [ends[1] - ends[0], ends[3] - ends[2]])


def test_the_positions_of_every_kind_can_be_drawn(studio, bert_run, translator_run, tmp_path):
    small = {"vocab": 20, "context": 12, "width": 16, "layers": 1, "heads": 2, "device": "cpu", "seed": 0}
    for positions in ("rotary", "none"):
        clearhead.save(create("gpt2", positions=positions, **small), tmp_path / positions)
    client = studio(bert_run, translator_run, tmp_path / "rotary", tmp_path / "none")
    kind, values = table(client, "bert")
    assert kind == "learned"
    assert torch.equal(values, loaded(bert_run).input.positions.weight)
    kind, values = table(client, "translator", rows="2:5", columns="1:9")
    assert kind == "sinusoidal"
    assert torch.equal(values, sinusoidal(24, 32)[2:5, 1:9])
    kind, values = table(client, "random:vit-mini")
    assert (kind, values.shape) == ("learned", (17, 16))
    kind, values = table(client, "random:t5-mini", side="target")
    assert (kind, values.shape) == ("relative", (32, 2))
    kind, values = table(client, "rotary")
    assert kind == "rotary"
    assert torch.equal(values, rotary_angles(torch.arange(12), 8))
    assert "no table" in problem(client.get("/api/words/none/positions"), 404)


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("bert/space?count=0", "at least one"),
        ("bert/space?count=1", "at least two points"),
        ("bert/space?kind=tsne&count=3", "t-SNE places 4"),
        ("bert/space?word=nonsense", "not in this vocabulary"),
        ("bert/neighbours?word=nonsense", "not in this vocabulary"),
        ("bert/neighbours?word=%20", "empty"),
        ("bert/neighbours?word=cat&number=6", "one of the two"),
        ("bert/neighbours", "one of the two"),
        ("bert/neighbours?number=13", "0 to 12"),
        ("bert/neighbours?number=-1", "0 to 12"),
        ("bert/neighbours?word=cat&count=101", "1 to 100"),
        ("bert/neighbours?word=" + "x" * 300, "longer than"),
        ("bert/analogy?a=cat&b=dog&c=zzz", "not in this vocabulary"),
        ("bert/row", "one of the two"),
        ("bert/row?token=cat&number=6", "one of the two"),
        ("bert/row?number=13", "numbered 0 to 12"),
        ("bert/row?number=-1", "numbered 0 to 12"),
        ("bert/positions?rows=0:17", "within the 16"),
        ("random:gpt-mini/neighbours?word=cat", "random weights and no vocabulary"),
        ("random:vit-mini/space", "reads pictures"),
    ],
)
def test_words_that_there_are_not_are_refused_in_one_line(client, route, said):
    assert said in problem(client.get(f"/api/words/{route}"), 400)


def test_more_words_than_are_placed_are_refused(client, monkeypatch):
    monkeypatch.setattr("clearhead.studio.word_views.MOST_WORDS", {"pca": 3, "tsne": 3})
    assert "3 words at most" in problem(client.get("/api/words/bert/space"), 400)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"word": "cat", "sentences": ["a dog"]}, "does not occur"),
        ({"word": " ", "sentences": ["a dog"]}, "give a word"),
        ({"word": "cat", "sentences": ["the cat"] * 21}, "20"),
        ({"word": "cat", "sentences": ["cat " * 600]}, "2,000"),
        ({"word": "cat", "sentences": ["cat " * 20]}, "context of 16"),
    ],
)
def test_sentences_that_can_not_be_compared_are_refused_in_one_line(client, wanted, said):
    assert said in problem(client.post("/api/words/bert/contexts", json=wanted), 400)


def test_an_unknown_model_has_no_words(client):
    assert "no model 'bart'" in problem(client.get("/api/words/bart/neighbours?word=cat"), 404)
