"""Words of the real MiniLM: neighbours by transformers' own table, and a word that means two things."""

from functools import cache

import torch
import torch.nn.functional as F

import clearhead
from clearhead.analyse import analogy, best_head, compare, edit_token, nearest_words, one_hot_row, word_vectors
from clearhead.analyse.attention import attention_maps
from clearhead.models import Model
from clearhead.tasks import record, word_in_context
from tests.minilm import minilm
from tests.support import peer

SENTENCES = [
    "He sat on the bank of the river.",
    "The boat reached the bank of the lake.",
    "She put her money into the bank.",
    "The bank raised its interest rates.",
]


@cache
def model() -> Model:
    return clearhead.load(minilm(), device="cpu")


def test_neighbours_are_those_of_their_table():
    transformers = peer("transformers")
    table = transformers.BertModel.from_pretrained(minilm()).embeddings.word_embeddings.weight.detach()
    tok = transformers.AutoTokenizer.from_pretrained(minilm())
    king = tok.convert_tokens_to_ids("king")
    cosines = F.cosine_similarity(table[king][None], table, dim=-1)
    cosines[king] = -2
    best = cosines.topk(5)
    found = nearest_words(model(), "king", 5)
    assert [one.number for one in found] == best.indices.tolist()
    assert torch.allclose(torch.tensor([one.cosine for one in found]), best.values, atol=1e-5)
    assert [one.token for one in found] == tok.convert_ids_to_tokens(best.indices.tolist())
    assert torch.equal(one_hot_row(model(), "king").product, table[king])


def test_king_minus_man_plus_woman_is_queen():
    assert analogy(model(), "king", "man", "woman", 1)[0].token == "queen"


def test_banks_of_rivers_part_from_banks_of_money_on_the_way_through_the_blocks():
    found, other = word_vectors(model(), "bank", SENTENCES), word_in_context(model(), "bank", SENTENCES)
    assert torch.allclose(found.cosines(), other.contextual, atol=1e-5)
    cosines = [found.cosines(layer) for layer in range(7)]
    apart = [one[:2, 2:].mean().item() for one in cosines]
    assert all(other < min(one[0, 1], one[2, 3]) for other, one in zip(apart, cosines, strict=True))
    assert apart[0] > 0.95 > 0.85 > apart[-1]


def test_another_word_moves_the_meaning_and_the_pass_names_its_heads():
    text = "She put her money into the bank."
    found = compare(model(), text, edit_token(model(), 7, "river"))
    both = clearhead.embed(model(), [text, text.replace("bank", "river")])
    assert abs(found.cosine - (both[0] @ both[1]).item()) < 1e-5
    maps = attention_maps(record(model(), SENTENCES[0], sites="*.weights"))
    assert best_head(maps, "previous").score > 0.999
    assert best_head(maps, "next").score > 0.7
    assert best_head(maps, "first").score > 0.9
