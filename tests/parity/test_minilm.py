"""Real weights: all-MiniLM-L6-v2 through our reader and tokenizer, against transformers on the same files.

sentence-transformers' pipeline for this model is tokenizer (256 tokens at most), BertModel, mean over the tokens,
length one, cosine. The reference here does exactly that with transformers.
"""

import random
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor

import clearhead
from clearhead.data.pairs import mrpc, stsb
from clearhead.models.bert import BERT
from clearhead.tasks import similar, word_in_context
from tests.minilm import data_set, minilm
from tests.support import equal, peer

SENTENCES = [
    "A man is playing a guitar.",
    "The quick brown fox jumps over the lazy dog, doesn't it?",
    "",
    "नमस्ते, कस्तो हुनुहुन्छ?",
    "naïve café, Ünïcödé 👩‍👩‍👧 ¿qué? 你好，世界",
    "x" * 150 + " [MASK] [SEP] unbelievably antidisestablishmentarianism",
    "one two three " * 120,
    "Interest rates rose.",
]


@cache
def ours() -> BERT:
    model = clearhead.load(minilm(), device="cpu")
    assert isinstance(model, BERT)
    return model


@cache
def theirs() -> tuple:
    transformers = peer("transformers")
    folder = minilm()
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def their_vectors(texts: list[str]) -> Tensor:
    model, tokenizer = theirs()
    vectors = []
    for start in range(0, len(texts), 32):
        batch = tokenizer(texts[start : start + 32], max_length=256, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None].float()
        vectors.append((hidden * mask).sum(1) / mask.sum(1))
    return F.normalize(torch.cat(vectors), dim=-1)


def cosines(vectors: Tensor, count: int) -> Tensor:
    """Of each of the first `count` vectors with the one that lies `count` further."""
    return (vectors[:count] * vectors[count:]).sum(-1)


def test_it_has_the_count_of_the_name_and_its_position_ids_are_left_out():
    model = ours()
    assert model.parameter_count == 22_713_216
    assert model.config == clearhead.models.find("minilm-l6")[1]
    assert model.origin.notes == ("dropped what this model has no use for: embeddings.position_ids",)


def test_ids_hidden_states_pooled_and_attention_weights_are_theirs():
    model, (peer_model, tokenizer) = ours(), theirs()
    tok, texts = clearhead.tokenizer(minilm()), [text for text in SENTENCES if len(text) < 300]
    ids, lengths = tok.batch(texts)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(ids, batch["input_ids"]) and torch.equal(lengths, batch["attention_mask"].sum(1))
    with torch.no_grad():
        expected = peer_model(**batch, output_attentions=True)
    trace = clearhead.record(model, (ids, lengths), sites="*.attention.weights")
    hidden, pooled = trace.output
    assert equal(pooled, expected.pooler_output)
    for row, length in enumerate(lengths.tolist()):
        assert equal(hidden[row, :length], expected.last_hidden_state[row, :length])
        for mine, other in zip(trace.values.values(), expected.attentions, strict=True):
            assert equal(mine[row, :, :length, :length], other[row, :, :length, :length])


def test_sentence_vectors_are_theirs_long_and_empty_texts_included():
    vectors = clearhead.embed(ours(), SENTENCES, batch=3)
    assert (vectors * their_vectors(SENTENCES)).sum(-1).min() >= 0.99999
    assert equal(vectors, their_vectors(SENTENCES))


def test_paraphrases_of_mrpc_are_ranked_above_unrelated_pairs():
    rows = [row for row in mrpc("test", data_set("mrpc")).rows if row.score == 1][:100]
    firsts, seconds = [row.first for row in rows], [row.second for row in rows]
    vectors = clearhead.embed(ours(), firsts + seconds)
    paraphrases = cosines(vectors, len(rows))
    shift = 1 + random.Random(0).randrange(len(rows) - 1)
    unrelated = (vectors[: len(rows)] * vectors[len(rows) :].roll(shift, 0)).sum(-1)
    ranked_above = (paraphrases[:, None] > unrelated).float().mean().item()
    assert ranked_above > 0.999
    assert paraphrases.mean() > 0.8 and unrelated.mean() < 0.15


def test_judged_paraphrases_of_mrpc_are_ranked_above_judged_near_misses():
    """Both halves of MRPC share most of their words: cosines tell them apart better than chance, not more."""
    rows = mrpc("test", data_set("mrpc")).rows[:200]
    scores = cosines(clearhead.embed(ours(), [r.first for r in rows] + [r.second for r in rows]), len(rows))
    yes = torch.tensor([row.score == 1 for row in rows])
    area = (scores[yes][:, None] > scores[~yes]).float().mean().item()
    assert 0.7 < area < 0.9


def test_stsb_ranks_as_sentence_transformers_ranks_it():
    rows = stsb("dev", data_set("stsb")).rows[::7]
    texts = [row.first for row in rows] + [row.second for row in rows]
    judged = torch.tensor([row.score for row in rows])
    mine, reference = (
        spearmanr(cosines(vectors, len(rows)), judged).statistic
        for vectors in (clearhead.embed(ours(), texts), their_vectors(texts))
    )
    assert mine == pytest.approx(reference, abs=1e-3)
    assert mine > 0.85


def test_bank_has_one_static_vector_and_a_contextual_one_for_each_sentence():
    river, water, money, rates = (
        "He sat on the bank of the river.",
        "The boat reached the bank of the lake.",
        "She put her money into the bank.",
        "The bank raised its interest rates.",
    )
    found = word_in_context(ours(), "bank", [river, water, money, rates])
    assert found.sentences == [0, 1, 2, 3]
    assert torch.allclose(found.static, torch.ones(4, 4), atol=1e-6)
    same_sense = found.contextual[0, 1], found.contextual[2, 3]
    other_sense = found.contextual[:2, 2:]
    assert other_sense.max() < min(same_sense) < max(same_sense) < 0.99


def test_a_query_finds_the_line_that_means_the_same():
    lines = ["Stocks fell on Monday.", "A cat sleeps on the sofa.", "He plays the violin."]
    best = similar(ours(), lines, "a feline is napping on a couch", count=2)
    assert best[0].second == 1 and best[0].score > 0.5 > best[1].score


def test_folders_that_we_write_from_it_give_the_same_vectors_there(tmp_path):
    """Ours, saved with its tokenizer, read by transformers: nothing was lost on the way through."""
    transformers = peer("transformers")
    clearhead.save(clearhead.load(minilm(), device="cpu"), tmp_path, tokenizer=clearhead.tokenizer(minilm()))
    model, report = transformers.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    batch = transformers.AutoTokenizer.from_pretrained(tmp_path)(SENTENCES[:2], padding=True, return_tensors="pt")
    with torch.no_grad():
        assert equal(model(**batch).last_hidden_state, theirs()[0](**batch).last_hidden_state)
