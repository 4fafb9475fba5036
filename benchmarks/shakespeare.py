"""Letters of Shakespeare: how long nanoGPT's own recipe takes to its best loss, and how long ours takes to the same.

    python -m benchmarks.shakespeare [--steps N] [--json] [--quick] [key=value ...]

The peer has nanoGPT's shape and published settings for single letters (6 layers, 6 heads, 384 wide, no biases, dropout
.2, batches of 64 x 256 drawn with replacement, AdamW 1e-3 to 1e-4 over 5,000 updates, 100 of warm-up, betas .9 and .99,
decay .1, clipping 1, bf16, compiled) and judges itself as it does: every 250 updates on 200 random batches of each
part. Its best weights are then scored by our evaluator over the whole validation part, in windows of 256, and that loss
is the mark. Ours is the recipe gpt-shakespeare, with `key=value` changes, judged by the same evaluator as it trains;
its time is that of the first validation at or below the mark. Compilation and their own validations are included, for
ours reading the text too; the peer finds it read, as nanoGPT does. Each runs in a process and with a compiler's cache
of its own, one after the other. `--steps` cuts the peer off early: its schedule stays the whole one.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.models.registry import as_device
from clearhead.recipes.start import named_run
from clearhead.train.job import Run, Watch
from clearhead.train.language import Language
from clearhead.train.loop import train

from . import table

CONTESTANTS = ("nanoGPT's recipe", "clearhead")
RECIPE = "gpt-shakespeare"
QUICK = ["model.width=32", "model.layers=2", "model.heads=2", "model.ff=64", "model.context=32"]
QUICK += ["steps=12", "warmup=2", "validate_every=4", "batching.size=4", "device=cpu", "precision=fp32"]
QUICK += ["compile=false", "graph=false"]


@dataclass(frozen=True)
class Published:
    """nanoGPT's settings for single letters."""

    width: int = 384
    layers: int = 6
    heads: int = 6
    window: int = 256
    dropout: float = 0.2
    rows: int = 64
    rate: float = 1e-3
    floor: float = 1e-4
    steps: int = 5000
    warmup: int = 100
    validate_every: int = 250
    judged: int = 200

    def rate_at(self, step: int) -> float:
        """Up in a line, down in half a cosine."""
        if step < self.warmup:
            return self.rate * (step + 1) / (self.warmup + 1)
        over = (step - self.warmup) / (self.steps - self.warmup)
        return self.floor + 0.5 * (1 + math.cos(math.pi * min(1.0, over))) * (self.rate - self.floor)


SMALL = Published(width=32, layers=2, heads=2, window=32, rows=4, steps=12, warmup=2, validate_every=4, judged=2)


class Block(nn.Module):
    def __init__(self, sizes: Published) -> None:
        super().__init__()
        width, self.heads, self.dropout = sizes.width, sizes.heads, sizes.dropout
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).split(width, dim=2)
        split = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(*split, dropout_p=dropout, is_causal=True)
        joined = heads.transpose(1, 2).contiguous().view(batch, length, width)
        x = x + F.dropout(self.out(joined), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norms[1](x)))), self.dropout, self.training)


class Peer(nn.Module):
    """A GPT as nanoGPT makes it without biases, split into `hidden` and `head` as our evaluator asks for it."""

    def __init__(self, vocab: int, sizes: Published) -> None:
        super().__init__()
        self.dropout = sizes.dropout
        self.tokens, self.positions = nn.Embedding(vocab, sizes.width), nn.Embedding(sizes.window, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim > 1:
                joins = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * sizes.layers) if joins else 0.02)

    def hidden(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def head(self, hidden: Tensor, uncut: bool = False) -> Tensor:
        return F.linear(hidden, self.tokens.weight)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.hidden(ids)).flatten(0, 1), targets.flatten())

    def optimiser(self, sizes: Published) -> torch.optim.Optimizer:
        groups = [
            {"params": [weight for weight in self.parameters() if weight.ndim > 1], "weight_decay": 0.1},
            {"params": [weight for weight in self.parameters() if weight.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=sizes.rate, betas=(0.9, 0.99), fused=True)


class PeerRun:
    def __init__(self, task: Language, sizes: Published, device: torch.device) -> None:
        torch.manual_seed(1337)
        torch.set_float32_matmul_precision("high")
        self.task, self.sizes, self.device = task, sizes, device
        self.streams = {
            part: torch.from_numpy(task.numbers[part].astype("int64")).to(device) for part in ("train", "valid")
        }
        self.model = Peer(task.tokenizer.size, sizes).to(device)
        self.fast: Any = torch.compile(self.model) if device.type == "cuda" else self.model
        self.optimiser = self.model.optimiser(sizes)

    def batch(self, part: str) -> tuple[Tensor, Tensor]:
        """Windows from anywhere, the same one twice if it so happens."""
        stream, length = self.streams[part], self.sizes.window
        starts = torch.randint(len(stream) - length, (self.sizes.rows, 1), device=self.device)
        places = starts + torch.arange(length, device=self.device)
        return stream[places], stream[places + 1]

    def loss(self, part: str) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.fast(*self.batch(part))

    @torch.no_grad()
    def judged(self) -> float:
        """As it judges itself; of the training part too, though nobody looks at that here."""
        self.model.eval()
        means = {part: sum(self.loss(part) for _ in range(self.sizes.judged)) for part in ("train", "valid")}
        self.model.train()
        return float(means["valid"]) / self.sizes.judged

    def update(self, step: int) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.sizes.rate_at(step)
        self.loss("train").backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def trained(self, begun: float, steps: int) -> dict[str, Any]:
        """Its best weights by its own judgement, when it had them, and what our evaluator says of them."""
        best: dict[str, Any] = {"own_loss": math.inf}
        curve = []
        for step in range(steps + 1):
            if step % self.sizes.validate_every == 0:
                loss = self.judged()
                curve.append((step, time.perf_counter() - begun, loss))
                say(f"{CONTESTANTS[0]}: step {step}, {curve[-1][1]:.1f} s, {loss:.4f} by its own sampling")
                if loss < best["own_loss"]:
                    kept = {name: weight.clone() for name, weight in self.model.state_dict().items()}
                    best = {"own_loss": loss, "step": step, "seconds": curve[-1][1]}
            if step < steps:
                self.update(step)
        self.model.load_state_dict(kept)
        torch.set_float32_matmul_precision("highest")  # as ours is scored
        figures = self.task.evaluate(self.model, "valid", self.device)  # pyright: ignore[reportArgumentType]
        weights = sum(weight.numel() for weight in self.model.parameters())
        return {**best, "loss": figures["loss"], "tokens": figures["tokens"], "weights": weights, "curve": curve}


def peer(run: Run, sizes: Published, steps: int) -> dict[str, Any]:
    task = run.spec.open()
    assert isinstance(task, Language)
    begun = time.perf_counter()
    return PeerRun(task, sizes, as_device(run.settings.device)).trained(begun, steps)


def ours(run: Run) -> dict[str, Any]:
    begun, curve = time.perf_counter(), []

    def validated(step: int, figures: Any) -> None:
        curve.append((step, time.perf_counter() - begun, figures["loss"]))
        say(f"{CONTESTANTS[1]}: step {step}, {curve[-1][1]:.1f} s, {figures['loss']:.4f}")

    task = run.spec.open()
    reading = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(run, Path(folder), Watch(validated=validated), task)
    weights = sum(weight.numel() for weight in task.model(0).parameters())
    loss = outcome.figures["valid"]["loss"]
    return {"loss": loss, "weights": weights, "reading_seconds": reading, "curve": curve}


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def alone(who: str, asked: Sequence[str]) -> dict[str, Any]:
    """A contestant in a process of its own, with an empty cache of compiled code."""
    with tempfile.TemporaryDirectory() as cache:
        places = {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
        words = [sys.executable, "-m", "benchmarks.shakespeare", *asked, "--who", who]
        done = subprocess.run(words, env={**os.environ, **places}, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{who} ended with code {done.returncode}")
    return json.loads(done.stdout.strip().split("\n")[-1])


def reached(curve: Sequence[Sequence[float]], mark: float) -> tuple[int, float] | None:
    """The first validation at or below a loss: its step and its time."""
    return next(((int(step), seconds) for step, seconds, loss in curve if loss <= mark), None)


def told(theirs: dict[str, Any], own: dict[str, Any]) -> str:
    found = reached(own["curve"], theirs["loss"])
    mine = ("never", "") if found is None else (f"{found[1]:.1f}", str(found[0]))
    lines = [
        [CONTESTANTS[0], f"{theirs['seconds']:.1f}", str(theirs["step"]), f"{theirs['loss']:.4f}"],
        [CONTESTANTS[1], *mine, f"{min(loss for _, _, loss in own['curve']):.4f}"],
    ]
    for line, figures in zip(lines, (theirs, own), strict=True):
        line.insert(1, f"{figures['weights']:,}")
    shown = table(["letters of Shakespeare", "weights", "s to the mark", "updates", "best loss"], lines)
    return (
        f"{shown}\nthe mark is the peer's best by its own sampling ({theirs['own_loss']:.4f}), scored by our evaluator"
    )


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.shakespeare", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("changes", nargs="*", help="key=value, of our recipe; data and device of both")
    parser.add_argument("--steps", type=int, help="updates after which the peer is cut off")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes on the CPU: does it run? no claim")
    parser.add_argument("--who", choices=CONTESTANTS, help="this contestant alone, its figures as a line of JSON")
    return parser.parse_intermixed_args(words)


def main(words: Sequence[str] | None = None) -> None:
    asked = parsed(words)
    sizes = SMALL if asked.quick else Published()
    steps = sizes.steps if asked.steps is None else min(asked.steps, sizes.steps)
    run = named_run(RECIPE, keys=[*(QUICK if asked.quick else ()), *asked.changes])
    if asked.who is not None:
        print(json.dumps(peer(run, sizes, steps) if asked.who == CONTESTANTS[0] else ours(run)))
        return
    given = [*asked.changes, *(["--quick"] if asked.quick else []), "--steps", str(steps)]
    theirs, own = (alone(who, given) for who in CONTESTANTS)
    print(json.dumps({"peer": theirs, "clearhead": own}) if asked.json else told(theirs, own))


if __name__ == "__main__":
    main()
