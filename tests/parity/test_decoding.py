"""Greedy decoding and beam search against transformers' `generate`, on the same weights, token for token.

The models are trained for some seconds, so that what comes next is no coin toss and answers end at different lengths.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import clearhead
from clearhead.decode import Beams, Limits, Sampling, Search, beam_search, collect, generate
from clearhead.models import Model
from tests.support import equal, peer

transformers = peer("transformers")

VOCAB, END, PAD = 20, 1, 0
TIE = 1e-4  # the two best scores closer than this: such an input is left out, and counted
ROUNDING = 1e-5  # two continuations closer than this may change places
PENALTIES = (0.0, 0.6, 1.0, 2.0)
STOPS = (True, False, "never")
LENGTH = 12

Rows = list[list[int]]


@dataclass
class Pair:
    """Their model, ours from the folder that theirs wrote, and inputs of many lengths."""

    theirs: nn.Module
    ours: Model
    inputs: Rows

    @property
    def answers_a_source(self) -> bool:
        return bool(self.theirs.config.is_encoder_decoder)

    def generate(self, inputs: Rows, **how: object):
        """Theirs, in one batch. A decoder alone wants its padding at the left."""
        longest = max(map(len, inputs))
        gaps = [longest - len(row) for row in inputs]
        if self.answers_a_source:
            ids = [row + [PAD] * gap for row, gap in zip(inputs, gaps, strict=True)]
            seen = [[1] * len(row) + [0] * gap for row, gap in zip(inputs, gaps, strict=True)]
        else:
            ids = [[PAD] * gap + row for row, gap in zip(inputs, gaps, strict=True)]
            seen = [[0] * gap + [1] * len(row) for row, gap in zip(inputs, gaps, strict=True)]
        how = {"max_new_tokens": LENGTH, "do_sample": False, "return_dict_in_generate": True} | how
        with torch.no_grad():
            result = self.theirs.generate(torch.tensor(ids), attention_mask=torch.tensor(seen), **how)
        skip = 1 if self.answers_a_source else longest
        return [cut(row[skip:]) for row in result.sequences.tolist()], result


def cut(row: list[int]) -> tuple[int, ...]:
    """Up to the end token; what stands behind it is filler."""
    return tuple(row[: row.index(END) + 1] if END in row else row)


def train(model: nn.Module, batches: Iterator[tuple[Tensor, ...]], loss: Callable, steps: int) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        loss(model, *next(batches)).backward()
        optimiser.step()
        schedule.step()
    model.eval()


def sources(count: int, random: torch.Generator) -> Rows:
    """Letters in any number from 2 to 7, and the end."""
    sizes = torch.randint(2, 8, (count,), generator=random).tolist()
    return [[*torch.randint(2, VOCAB, (size,), generator=random).tolist(), END] for size in sizes]


def translated(source: list[int]) -> list[int]:
    """What is to be learned: the letters in rising order, the doubled ones once."""
    return [*sorted({*source} - {END}), END]


def filled(rows: Rows, filler: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])


def translations(random: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    while True:
        rows = sources(64, random)
        yield filled(rows, PAD), filled([translated(row) for row in rows], -100)


def source_loss(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return model(source, attention_mask=(source != PAD).long(), labels=target).loss


def progressions(random: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    """Letters in steps of 1, 2 or 3 up to the last letter, then the end."""
    while True:
        begins = torch.randint(2, VOCAB, (64, 2), generator=random).tolist()
        yield (filled([[*range(first, VOCAB, 1 + kind % 3), END] for first, kind in begins], END),)


def text_loss(model: nn.Module, ids: Tensor) -> Tensor:
    return model(ids, labels=ids).loss


def handed_over(theirs: nn.Module, folder: Path) -> Model:
    theirs.save_pretrained(folder)
    return clearhead.load(folder, device="cpu")


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    torch.manual_seed(0)
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 1), ("ffn_dim", 64))}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "d_model": 32, "max_position_embeddings": 16}
    tokens = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD, "forced_eos_token_id": None}
    config = transformers.MarianConfig(
        vocab_size=VOCAB, **sizes, **heads, **tokens, scale_embedding=True, dropout=0.0, init_std=0.1
    )
    theirs = transformers.MarianMTModel(config)
    random = torch.Generator().manual_seed(1)
    train(theirs, translations(random), source_loss, 150)
    return Pair(theirs, handed_over(theirs, tmp_path_factory.mktemp("marian")), sources(60, random))


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 16, "num_heads": 2, "d_ff": 64, "num_layers": 1}
    tokens = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD}
    theirs = transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=VOCAB, **sizes, **tokens, dropout_rate=0.0)
    )
    random = torch.Generator().manual_seed(1)
    train(theirs, translations(random), source_loss, 150)
    return Pair(theirs, handed_over(theirs, tmp_path_factory.mktemp("t5")), sources(20, random))


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_head": 2, "n_layer": 1, "n_positions": 32}
    drops = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    tokens = {"pad_token_id": PAD, "eos_token_id": END, "bos_token_id": END}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCAB, **sizes, **drops, **tokens))
    random = torch.Generator().manual_seed(1)
    train(theirs, progressions(random), text_loss, 120)
    prompts = [
        list(range(first, VOCAB, step))[:size] for first in (2, 3, 5, 8) for step in (1, 2, 3) for size in (1, 2, 4)
    ]
    return Pair(theirs, handed_over(theirs, tmp_path_factory.mktemp("gpt2")), prompts)


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.getfixturevalue(request.param)


every_family = pytest.mark.parametrize("pair", ["marian", "t5", "gpt2"], indirect=True)


@every_family
def test_greedy_is_theirs_token_for_token_in_a_batch_of_many_lengths(pair: Pair):
    theirs, _ = pair.generate(pair.inputs)
    written = collect(
        len(pair.inputs), generate(pair.ours, pair.inputs, Limits(length=LENGTH, end=frozenset({END})), best=2)
    )
    clear = [min(first[1] - second[1] for first, second in row.best) >= TIE for row in written]
    assert sum(clear) >= 0.9 * len(clear)
    for row, other, plain in zip(written, theirs, clear, strict=True):
        assert tuple(row.tokens) == other or not plain
        assert row.reason == ("end" if other[-1] == END else "length") or not plain
    assert len({len(other) for other in theirs}) >= 5


@every_family
def test_greedy_with_filters_of_the_scores_is_theirs(pair: Pair):
    """A repetition penalty counts the prompt, or how the target begins; a forbidden token is never written."""
    theirs, _ = pair.generate(pair.inputs, repetition_penalty=1.7, bad_words_ids=[[7], [PAD]])
    limits = Limits(length=LENGTH, end=frozenset({END}), never=frozenset({7, PAD}))
    written = collect(len(pair.inputs), generate(pair.ours, pair.inputs, limits, Sampling(repetition_penalty=1.7)))
    different = [row for row, other in zip(written, theirs, strict=True) if tuple(row.tokens) != other]
    assert len(different) <= 1  # one for a near tie, which a penalised score does not tell
    assert theirs != pair.generate(pair.inputs)[0]


def closest(search: Search) -> float:
    """The smallest distance between neighbours among a step's continuations, or among the answers."""
    levels = [[hypothesis.score for hypothesis in search.finished]]
    for step in {node.step for node in search.tree}:
        levels.append([node.logprob for node in search.tree if node.step == step])
    return min(a - b for level in levels for a, b in pairwise(level))


def assert_same_beams(pair: Pair, beams: Beams, never: frozenset[int] = frozenset(), **how: object) -> int:
    """The same sequences and scores for every input that has no near tie; returns how many had none."""
    k = beams.count
    theirs, result = pair.generate(
        pair.inputs,
        num_beams=k,
        num_return_sequences=k,
        length_penalty=beams.length_penalty,
        early_stopping=beams.early_stopping,
        output_scores=True,
        **how,
    )
    scores = result.sequences_scores.tolist()
    searches = beam_search(pair.ours, pair.inputs, beams, end=frozenset({END}), never=never, tree=True)
    compared = 0
    for row, search in enumerate(searches):
        if closest(search) < ROUNDING:
            continue
        compared += 1
        at = slice(row * k, (row + 1) * k)
        assert [hypothesis.tokens for hypothesis in search.finished] == theirs[at]
        for hypothesis, score in zip(search.finished, scores[at], strict=True):
            assert abs(hypothesis.score - score) <= 1e-5 * max(1.0, abs(score))
    assert compared >= 0.9 * len(pair.inputs)
    return compared


@pytest.mark.parametrize("early_stopping", STOPS, ids=str)
@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_marians_beams_are_theirs_for_sources_of_different_lengths(marian: Pair, length_penalty, early_stopping):
    beams = Beams(4, length_penalty, early_stopping, LENGTH)
    assert assert_same_beams(marian, beams) >= 50


@pytest.mark.parametrize("early_stopping", STOPS, ids=str)
@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("pair", ["t5", "gpt2"], indirect=True)
def test_t5s_and_gpt2s_beams_are_theirs(pair: Pair, length_penalty: float, early_stopping: bool | str):
    assert_same_beams(pair, Beams(4, length_penalty, early_stopping, LENGTH))


@every_family
@pytest.mark.parametrize("count", [2, 3, 7])
def test_any_number_of_beams_is_theirs_also_where_they_run_into_the_length(pair: Pair, count: int):
    assert_same_beams(pair, Beams(count, 1.0, False, 5), max_new_tokens=5)


@every_family
def test_tokens_that_are_never_written_leave_the_other_scores_as_they_are(pair: Pair):
    """As with bad_words_ids: the forbidden tokens' probability is not shared out among the others."""
    beams = Beams(4, 1.0, False, LENGTH)
    assert_same_beams(pair, beams, never=frozenset({7, 11}), bad_words_ids=[[7], [11]])


def test_the_settings_compared_do_change_their_answers(marian: Pair):
    """So that the tests above can fail."""
    answers = set()
    for length_penalty in PENALTIES:
        for early_stopping in STOPS:
            rows, _ = marian.generate(
                marian.inputs,
                num_beams=4,
                num_return_sequences=4,
                length_penalty=length_penalty,
                early_stopping=early_stopping,
            )
            answers.add(tuple(rows))
    assert len(answers) >= 5


FILTERS = {
    "temperature": {"temperature": 0.7},
    "hot": {"temperature": 3.0},
    "top-k": {"top_k": 5},
    "top-k of one": {"top_k": 1},
    "top-k of more than there are": {"top_k": 1000},
    "top-p": {"top_p": 0.6},
    "a small top-p": {"top_p": 0.01},
    "top-p of all": {"top_p": 1.0},
    "min-p": {"min_p": 0.1},
    "min-p of the best alone": {"min_p": 1.0},
    "repetition penalty": {"repetition_penalty": 1.8},
    "repetition reward": {"repetition_penalty": 0.5},
    "all of them": {"temperature": 1.4, "top_k": 20, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.3},
}


def their_scores(logits: Tensor, history: Tensor, how: dict) -> Tensor:
    """Their processors, in the order in which their `generate` applies them."""
    kinds = transformers.generation.logits_process
    made = {
        "repetition_penalty": kinds.RepetitionPenaltyLogitsProcessor,
        "temperature": kinds.TemperatureLogitsWarper,
        "top_k": kinds.TopKLogitsWarper,
        "top_p": kinds.TopPLogitsWarper,
        "min_p": kinds.MinPLogitsWarper,
    }
    for name, kind in made.items():
        if name in how:
            logits = kind(how[name])(history, logits)
    return logits


@pytest.mark.parametrize("how", FILTERS.values(), ids=FILTERS)
def test_filters_leave_the_tokens_and_chances_that_theirs_leave(how: dict):
    logits, history = 3 * torch.randn(200, 50), torch.randint(50, (200, 9))
    theirs = their_scores(logits.clone(), history, how)
    ours = Sampling(**{"temperature": 1.0} | how).scores(logits, history.tolist())
    assert torch.equal(ours == -torch.inf, theirs == -torch.inf)
    assert equal(ours.softmax(-1), theirs.softmax(-1))
    assert not torch.equal(theirs, logits) or how.get("top_p") == 1.0 or how.get("top_k") == 1000


def test_their_generate_applies_the_filters_in_the_same_order(gpt2: Pair):
    how = {"temperature": 1.4, "top_k": 6, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.3}
    prompt = [[2, 4, 6]]
    torch.manual_seed(0)
    _, result = gpt2.generate(prompt, **how | {"do_sample": True}, max_new_tokens=1, output_scores=True)
    (piece,) = next(generate(gpt2.ours, prompt, best=VOCAB))
    logits = torch.tensor([logprob for _, logprob in sorted(piece.best)])
    ours = Sampling(**how).scores(logits[None], prompt)
    assert not torch.equal(ours, logits[None])
    assert torch.equal(ours == -torch.inf, result.scores[0] == -torch.inf)
