"""Training steps on the CPU, two threads, fp32, eager, beside timm, nanoGPT's shape and torch.nn.Transformer.

    python -m benchmarks.training [--rounds N] [--row TEXT] [--json] [--quick]

A step is the forward pass, the loss, the backward pass, clipping and fused AdamW, on a batch that is there already; no
dropout. Both contestants of a row have the same number of weights and the same settings. `speed` is the peer's time
over ours in the same round: above 1 ours is faster, and it should be at least 1 (within 3%).

The last rows compare the loop that `clearhead train` runs with nothing but such steps of the same model: see
loop_overhead.py.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import clearhead
from clearhead.train.optimiser import Optimiser, build
from clearhead.train.token_loss import token_loss

from . import loop_overhead, peers, table
from .rounds import FEWEST, Contestant, Ratio, interleave

THREADS = 2
OURS = "clearhead"
TOLERANCE = 0.03
SETTINGS = Optimiser(rate=3e-4, betas=(0.9, 0.95), weight_decay=0.1, clip=1.0)
NO_DROPOUT: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0}
LAYERS = 6

Loss = Callable[..., Tensor]  # a model and a batch -> the mean loss
Step = Callable[[], None]


@dataclass(frozen=True)
class Entry:
    """A contestant: how its model is made, and how its loss is computed."""

    make: Callable[[], nn.Module]
    loss: Loss


@dataclass(frozen=True)
class Row:
    name: str
    make_batch: Callable[[], tuple[Tensor, ...]]
    ours: Entry
    peer: str
    theirs: Entry


@dataclass(frozen=True)
class Result:
    row: str
    peer: str
    rounds: int
    ms: float
    peer_ms: float
    speed: Ratio

    @property
    def good(self) -> bool:
        return self.speed.median >= 1 - TOLERANCE


def picture_loss(model: nn.Module, images: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(model(images), classes)


def our_text_loss(model: Any, ids: Tensor, targets: Tensor) -> Tensor:
    return token_loss(model, model.hidden(ids), targets) / targets.numel()


def nano_text_loss(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    return model(ids, targets)[1]


def our_pair_loss(model: Any, source: Tensor, target: Tensor, labels: Tensor, lengths: Tensor | None = None) -> Tensor:
    return token_loss(model, model.hidden(source, target, lengths), labels) / labels.numel()


def torch_pair_loss(
    model: nn.Module, source: Tensor, target: Tensor, labels: Tensor, lengths: Tensor | None = None
) -> Tensor:
    return F.cross_entropy(model(source, target, lengths).flatten(0, 1), labels.flatten())


def pictures() -> tuple[Tensor, ...]:
    return torch.randn(64, 3, 32, 32), torch.randint(10, (64,))


def texts(vocab: int) -> tuple[Tensor, ...]:
    return torch.randint(vocab, (16, 128)), torch.randint(vocab, (16, 128))


def pairs(vocab: int, ragged: bool) -> tuple[Tensor, ...]:
    """Source, target, labels; where `ragged`, sources of 16 to 32 tokens, filled up to 32."""
    tokens = tuple(torch.randint(vocab, (32, 32)) for _ in range(3))
    return (*tokens, torch.arange(32) // 2 + 17) if ragged else tokens


def our_model(name: str, **fields: Any) -> nn.Module:
    return clearhead.create(name, device="cpu", seed=0, layers=LAYERS, **fields)


def vit_row(width: int, heads: int) -> Row:
    size: dict[str, Any] = {"img_size": 32, "patch_size": 4, "num_classes": 10, "depth": LAYERS}
    ours = partial(our_model, "vit-ti16", image=32, patch=4, num_classes=10, width=width, heads=heads)
    theirs = partial(peers.timm_vit, embed_dim=width, num_heads=heads, **size)
    name = f"vit, width {width}, 64 pictures of 32 x 32"
    return Row(name, pictures, Entry(ours, picture_loss), "timm", Entry(theirs, picture_loss))


def gpt_row(width: int, heads: int, vocab: int) -> Row:
    size = {"vocab": vocab, "context": 128, "width": width, "heads": heads}
    ours = partial(our_model, "gpt2", activation="gelu", embedding_dropout=0.0, **size, **NO_DROPOUT)
    theirs = partial(peers.NanoGPT, layers=LAYERS, **size)
    name = f"gpt, width {width}, 16 x 128, {vocab:,} tokens"
    entries = Entry(ours, our_text_loss), Entry(theirs, nano_text_loss)
    return Row(name, partial(texts, vocab), entries[0], "nanoGPT's shape", entries[1])


def transformer_row(width: int, heads: int, vocab: int, ragged: bool) -> Row:
    size = {"vocab": vocab, "width": width, "heads": heads}
    ours = partial(our_model, "transformer-base", context=128, final_norm=True, **size, **NO_DROPOUT)
    theirs = partial(peers.TorchTransformer, layers=LAYERS, **size)
    name = f"transformer, width {width}, 32 x (32 + 32){', ragged' if ragged else ''}, {vocab:,} tokens"
    entries = Entry(ours, our_pair_loss), Entry(theirs, torch_pair_loss)
    return Row(name, partial(pairs, vocab, ragged), entries[0], "nn.Transformer", entries[1])


ROWS = [
    vit_row(192, 3),
    vit_row(384, 6),
    gpt_row(384, 6, 65),
    gpt_row(256, 4, 8192),
    transformer_row(256, 4, 8192, ragged=False),
    transformer_row(256, 4, 8192, ragged=True),
]


def our_step(model: nn.Module, loss: Loss, batch: tuple[Tensor, ...]) -> Step:
    updater = build(model.train(), SETTINGS)

    def step() -> None:
        loss(model, *batch).backward()
        updater.clip_gradients()
        updater.step()
        updater.zero_grad()

    return step


def peer_step(model: nn.Module, loss: Loss, batch: tuple[Tensor, ...]) -> Step:
    """The usual way: two groups of weights, torch's clipping, fused AdamW."""
    weights = list(model.train().parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": SETTINGS.weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=SETTINGS.rate, betas=SETTINGS.betas, eps=SETTINGS.eps, fused=True)

    def step() -> None:
        loss(model, *batch).backward()
        assert SETTINGS.clip is not None
        nn.utils.clip_grad_norm_(weights, SETTINGS.clip)
        optimiser.step()
        optimiser.zero_grad()

    return step


def measure(row: Row, rounds: int) -> Result:
    batch, ours, theirs = row.make_batch(), row.ours.make(), row.theirs.make()
    check_same_size(row, ours, theirs)
    contestants = {
        OURS: Contestant(our_step(ours, row.ours.loss, batch)),
        row.peer: Contestant(peer_step(theirs, row.theirs.loss, batch)),
    }
    timed = interleave(contestants, rounds)
    ours_ms, peer_ms = (timed.median(name) * 1e3 for name in contestants)
    return Result(row.name, row.peer, timed.count, ours_ms, peer_ms, timed.ratio(row.peer, OURS))


def check_same_size(row: Row, *models: nn.Module) -> None:
    counts = [sum(weight.numel() for weight in model.parameters()) for model in models]
    if len(set(counts)) > 1:
        raise SystemExit(
            f"{row.name}: the contestants have {counts[0]:,} and {counts[1]:,} weights: not the same shape"
        )


def line(result: Result) -> list[str]:
    return [result.row, f"{result.ms:.1f}", result.peer, f"{result.peer_ms:.1f}", str(result.speed)]


def verdict(result: Result) -> str:
    return f"{result.row}: {'as fast as' if result.good else 'SLOWER THAN'} {result.peer} ({result.speed})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=FEWEST, help=f"a claim needs {FEWEST} or more (default {FEWEST})")
    parser.add_argument("--row", default="", help="only rows whose name holds this")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="3 rounds: does it run? no claim")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    rounds = 3 if options.quick else options.rounds
    steps: list[Result] = []
    for row in (row for row in ROWS if options.row in row.name):
        steps.append(measure(row, rounds))
        print(verdict(steps[-1]), file=sys.stderr, flush=True)
    loops: list[loop_overhead.Result] = []
    for name in (name for name in loop_overhead.ROWS if options.row in name):
        loops.append(loop_overhead.measure(name, rounds))
        print(loop_overhead.verdict(loops[-1]), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"steps": [asdict(result) for result in steps], "loops": [asdict(row) for row in loops]}))
        return
    if steps:
        header = ["training step, CPU, two threads, fp32", "ms", "peer", "peer's ms", "speed [95%]"]
        print(table(header, [line(result) for result in steps]))
    if loops:
        print(table(loop_overhead.HEADER, [loop_overhead.line(result) for result in loops]))


if __name__ == "__main__":
    main()
