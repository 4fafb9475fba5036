"""Rows of `benchmarks.gpu` that write text: gpt2 goes on with a prompt, a Marian of transformer-base's size translates.

Ours have the weights of transformers' model, out of the folder that it writes: so all contestants should write the same
tokens, as far as bf16 lets them. Nothing ends a text early: every run takes the same number of steps. `clearhead` is
what a user calls, with its steps captured; `steps alone` leaves out the loop that looks at every token (reasons to
stop, log probabilities): the difference is what that loop costs.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import clearhead
from clearhead.decode import Beams, Limits, beam_search, collect, generate
from clearhead.decode.captured import Captured

from . import peers
from .decode import sharpened
from .gpu_rows import Entry, Row, Scale, Step, Work

GPT_BYTES = 2 * 124.4e6  # bf16: every weight is read for every token
MARIAN_BYTES = 2 * (25.2e6 + 32000 * 512)  # the decoder and its head


def their_gpt(scale: Scale) -> nn.Module:
    torch.manual_seed(0)
    return sharpened(peers.transformers_gpt2(use_cache=True, **scale.transformers)).to(scale.dtype)


def their_marian(scale: Scale) -> nn.Module:
    """transformers' Marian of transformer-base's shape; the last token is padding and start, the first the end."""
    peers.declare_vision_operators()
    from transformers import MarianConfig, MarianMTModel  # pyright: ignore[reportMissingImports]

    size, last = scale.transformer, scale.pair_vocab - 1
    side = {"layers": size["layers"], "attention_heads": size["heads"], "ffn_dim": 4 * size["width"]}
    config = MarianConfig(
        vocab_size=scale.pair_vocab,
        d_model=size["width"],
        max_position_embeddings=512,
        pad_token_id=last,
        eos_token_id=0,
        decoder_start_token_id=last,
        forced_eos_token_id=None,
        scale_embedding=True,
        activation_function="relu",
        attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
        **{f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in side.items()},
    )
    torch.manual_seed(0)
    return sharpened(MarianMTModel(config).eval()).to(scale.dtype)


def ours_of(theirs: Callable[[Scale], nn.Module]) -> Callable[[Scale], nn.Module]:
    def make(scale: Scale) -> nn.Module:
        with tempfile.TemporaryDirectory() as folder:
            theirs(scale).save_pretrained(folder)  # pyright: ignore[reportCallIssue]
            return clearhead.load(folder, device=scale.device, dtype=scale.dtype)

    return make


def prompts(rows: Callable[[Scale], int]) -> Callable[[Scale, torch.dtype], tuple[Tensor, ...]]:
    def make(scale: Scale, _: torch.dtype) -> tuple[Tensor, ...]:
        drawn = torch.randint(scale.vocab, (rows(scale), scale.prompt), generator=torch.Generator().manual_seed(1))
        return (drawn.to(scale.device),)

    return make


def sources(scale: Scale, _: torch.dtype) -> tuple[Tensor, ...]:
    """Neither the end nor padding is among their tokens."""
    size, random = (scale.many, scale.pair_length), torch.Generator().manual_seed(1)
    return (torch.randint(1, scale.pair_vocab - 1, size, generator=random).to(scale.device),)


def writing_step(call: Work, model: nn.Module, inputs: tuple[Tensor, ...], scale: Scale) -> Step:
    def step() -> Tensor:
        with torch.inference_mode():
            return call(*inputs)

    return step


def their_writing(model: Any, scale: Scale) -> Work:
    options = {"max_new_tokens": scale.new, "min_new_tokens": scale.new, "do_sample": False, "pad_token_id": 0}

    def write(given: Tensor) -> Tensor:
        mask = torch.ones_like(given)
        written = model.generate(
            input_ids=given, attention_mask=mask, eos_token_id=None, cache_implementation="static", **options
        )
        return written[:, given.shape[1] :]

    return write


def our_writing(model: Any, scale: Scale) -> Work:
    decoder, limits = Captured(model, backend=scale.backend), Limits(scale.new)

    def write(given: Tensor) -> Tensor:
        return torch.tensor([row.tokens for row in collect(len(given), generate(decoder, given.tolist(), limits))])

    return write


def our_steps(model: Any, scale: Scale) -> Work:
    decoder = Captured(model, backend=scale.backend)

    def write(given: Tensor) -> Tensor:
        state = decoder.start(given, room=scale.prompt + scale.new)
        last, bursts, count = state.logits.argmax(-1), [], 1
        first = last.tolist()
        while count < scale.new:
            bursts.append(decoder.ahead(last, state, scale.new - count))
            last, count = bursts[-1].last, count + len(bursts[-1])
        return torch.tensor([first, *(row for burst in bursts for row in burst.read()[0])]).T

    return write


def their_translation(model: Any, scale: Scale, cache: str | None = None) -> Work:
    length = {"max_new_tokens": scale.pair_length, "min_new_tokens": scale.pair_length}
    unended = {"eos_token_id": None, "forced_eos_token_id": None, "bad_words_ids": [[scale.pair_vocab - 1]]}
    options = {**length, **unended, "num_beams": scale.beams, "do_sample": False, "cache_implementation": cache}

    def translate(given: Tensor) -> Tensor:
        return model.generate(input_ids=given, attention_mask=torch.ones_like(given), **options)[:, 1:]

    return translate


in_static_cache = partial(their_translation, cache="static")


def our_translation(model: Any, scale: Scale) -> Work:
    decoder, never = Captured(model, backend=scale.backend), frozenset({scale.pair_vocab - 1})
    beams = Beams(scale.beams, 1.0, False, scale.pair_length)

    def translate(given: Tensor) -> Tensor:
        found = beam_search(decoder, given.tolist(), beams, never=never)
        return torch.tensor([search.finished[0].tokens for search in found])

    return translate


def likelihood_of_writing(scale: Scale, given: Tensor, texts: Tensor) -> float:
    """By transformers' own model in fp32, whoever wrote them: that of a text which went wrong is far lower."""
    model, start = their_gpt(scale).float().to(scale.device), given.shape[1] - 1
    whole = torch.cat([given, texts], 1)
    return mean_log(texts, lambda rows: model(input_ids=whole[rows]).logits[:, start:-1])


def likelihood_of_translation(scale: Scale, given: Tensor, texts: Tensor) -> float:
    model = their_marian(scale).float().to(scale.device)
    before = torch.cat([torch.full_like(texts[:, :1], scale.pair_vocab - 1), texts[:, :-1]], 1)
    return mean_log(texts, lambda rows: model(input_ids=given[rows], decoder_input_ids=before[rows]).logits)


@torch.inference_mode()
def mean_log(texts: Tensor, scores: Callable[[slice], Tensor], some: int = 8) -> float:
    """The mean logarithm of a token's probability; a few rows at a time, since a vocabulary's scores are large."""
    total = 0.0
    for first in range(0, len(texts), some):
        rows = slice(first, first + some)
        total += scores(rows).float().log_softmax(-1).gather(-1, texts[rows, :, None]).sum().item()
    return total / texts.numel()


def gpt_row(rows: Callable[[Scale], int]) -> Row:
    return Row(
        "tok/s",
        lambda scale: rows(scale) * scale.new,
        2 * 124.4e6,
        prompts(rows),
        writing_step,
        [
            Entry("transformers, static cache", their_gpt, their_writing, compiles="itself"),
            Entry("clearhead", ours_of(their_gpt), our_writing, ours=True, compiles="itself"),
            Entry("clearhead, steps alone", ours_of(their_gpt), our_steps, ours=True, compiles="itself"),
        ],
        reads=GPT_BYTES * 256,
        rounds=10,
        judge=likelihood_of_writing,
    )


ROWS = {
    "gpt-write-1": gpt_row(lambda scale: 1),
    "gpt-write-64": gpt_row(lambda scale: scale.many),
    "translate": Row(
        "tok/s",
        lambda scale: scale.many * scale.pair_length,
        4 * 2 * (25.2e6 + 32000 * 512),
        sources,
        writing_step,
        [
            Entry("transformers", their_marian, their_translation, compiles="itself"),
            Entry(
                "transformers, static cache",
                their_marian,
                partial(their_translation, cache="static"),
                compiles="itself",
            ),
            Entry("clearhead", ours_of(their_marian), our_translation, ours=True, compiles="itself"),
        ],
        reads=MARIAN_BYTES * 32,
        rounds=10,
        judge=likelihood_of_translation,
    ),
}
