"""What `benchmarks.gpu` measures: what a row is, and the rows of training and inference; gpu_writing.py has the others.

Who takes part in each row, and the step that each takes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import clearhead
from clearhead.models import Model
from clearhead.train.token_loss import set_float8, token_loss

from . import peers

Step = Callable[[], Tensor]
Work = Callable[..., Tensor]
NO_DROPOUT: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}


@dataclass(frozen=True)
class Scale:
    """How large everything is. The options are those of each library, for the same architecture."""

    device: str = "cuda"
    backend: str = "inductor"
    images: int = 256
    side: int = 224
    classes: int = 1000
    sequences: int = 32
    length: int = 1024
    vocab: int = 50257
    pairs: int = 256
    pair_length: int = 32
    pair_vocab: int = 32000
    prompt: int = 32
    new: int = 256
    many: int = 64
    beams: int = 4
    dtype: torch.dtype = torch.bfloat16
    product: int = 8192
    copy_bytes: int = 2**31
    rounds: int = 20
    sustained: float = 2.0
    vit: dict[str, Any] = field(default_factory=dict)
    timm: dict[str, Any] = field(default_factory=dict)
    gpt: dict[str, Any] = field(default_factory=dict)
    nano: dict[str, Any] = field(default_factory=dict)
    transformers: dict[str, Any] = field(default_factory=dict)
    transformer: dict[str, Any] = field(default_factory=lambda: {"width": 512, "layers": 6, "heads": 8})

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    def synchronise(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()


FULL = Scale()
QUICK = Scale(
    device="cpu",
    backend="aot_eager",
    images=2,
    side=32,
    classes=10,
    sequences=2,
    length=16,
    vocab=101,
    pairs=3,
    pair_length=7,
    pair_vocab=64,
    prompt=4,
    new=6,
    many=3,
    beams=2,
    dtype=torch.float32,
    product=256,
    copy_bytes=2**20,
    rounds=3,
    sustained=0.05,
    vit={"image": 32, "width": 64, "layers": 1, "heads": 2, "num_classes": 10},
    timm={"img_size": 32, "embed_dim": 64, "depth": 1, "num_heads": 2, "num_classes": 10},
    gpt={"vocab": 101, "context": 16, "width": 64, "layers": 1, "heads": 2},
    nano={"vocab": 128, "context": 16, "width": 64, "layers": 1, "heads": 2},
    transformers={
        "vocab_size": 101,
        "n_positions": 16,
        "n_embd": 64,
        "n_layer": 1,
        "n_head": 2,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    transformer={"width": 32, "layers": 1, "heads": 2},
)


@dataclass(frozen=True)
class Entry:
    """One contestant: `work` takes the model and the inputs. Compiled is all of it, the model alone, or nothing.

    itself  `work` takes model and scale, and gives what takes the inputs; it compiles and records what it likes
    """

    name: str
    make: Callable[[Scale], nn.Module]
    work: Callable[..., Any]
    ours: bool = False
    compiles: Literal["work", "model", "nothing", "itself"] = "work"


@dataclass(frozen=True)
class Row:
    """`flops` are one item's in the model as published: an implementation's shortcuts don't lower them.

    reads   bytes that a run has to read, where that is what limits it: the weights, once for each token written
    rounds  how many at most
    judge   where a run gives what was written, the same weights should write the same: given inputs and texts, how
            likely these are, in the logarithm and a token
    """

    unit: str
    items: Callable[[Scale], int]
    flops: float
    inputs: Callable[[Scale, torch.dtype], tuple[Tensor, ...]]
    step: Callable[[Work, nn.Module, tuple[Tensor, ...], Scale], Step]
    entries: list[Entry]
    reads: float = 0.0
    rounds: int = 20
    judge: Callable[[Scale, Tensor, Tensor], float] | None = None


def our_vit(scale: Scale, **changes: Any) -> nn.Module:
    return clearhead.create("vit-b16", device=scale.device, seed=0, **scale.vit, **changes)


def our_gpt(scale: Scale) -> nn.Module:
    return clearhead.create("gpt2", device=scale.device, seed=0, **scale.gpt, **NO_DROPOUT)


def our_gpt_in_8_bits(scale: Scale) -> nn.Module:
    """Ours with the vocabulary's product in 8 bits on the way forward: other arithmetic, hence a line of its own.

    Where there is no GPU, which is in tests alone, it is the plain one.
    """
    model = our_gpt(scale)
    if scale.on_gpu:
        set_float8(model, torch.device(scale.device))
    return model


def our_transformer(scale: Scale) -> nn.Module:
    """transformer-base with a norm behind each stack, as nn.Transformer has it."""
    size = {"vocab": scale.pair_vocab, "context": 128, "final_norm": True, "ff": 4 * scale.transformer["width"]}
    plain = {**size, **scale.transformer, "dropout": 0.0, "attention_dropout": 0.0}
    return clearhead.create("transformer-base", device=scale.device, seed=0, **plain)


def torch_transformer(scale: Scale) -> nn.Module:
    return OnDevice(vocab=scale.pair_vocab, **scale.transformer)


class OnDevice(peers.TorchTransformer):
    """Full rows alone, and a look-ahead mask that lies where the ids lie."""

    def forward(self, source: Tensor, target: Tensor, lengths: Tensor | None = None) -> Tensor:
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden = self.core(self.read(source), self.read(target), tgt_mask=later, tgt_is_causal=True)
        return F.linear(hidden, self.tokens.weight)


def timm_vit(scale: Scale) -> nn.Module:
    return peers.timm_vit(**scale.timm)


def nano_gpt(scale: Scale) -> nn.Module:
    return peers.NanoGPT(**scale.nano)


def transformers_gpt(scale: Scale) -> nn.Module:
    return peers.transformers_gpt2(**scale.transformers)


def tanh(scale: Scale, **changes: Any) -> nn.Module:
    """Ours with GELU by its tanh formula: not the published function, hence a line of its own."""
    return our_vit(scale, activation="gelu-tanh", **changes)


def logits(model: nn.Module, inputs: Tensor) -> Tensor:
    return model(inputs)


def image_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(images), labels)


def text_loss(model: Model, ids: Tensor, targets: Tensor) -> Tensor:
    return token_loss(model, model.hidden(ids), targets) / targets.numel()


def pair_loss(model: Model, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
    return token_loss(model, model.hidden(source, target), labels) / labels.numel()


def torch_pair_loss(model: nn.Module, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten())


def transformers_loss(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(ids).logits.flatten(0, 1), targets.flatten())


def own_loss(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    return model(ids, targets)[1]


def some_images(scale: Scale, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return (torch.randn(scale.images, 3, scale.side, scale.side, device=scale.device, dtype=dtype),)


def labelled_images(scale: Scale, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return *some_images(scale, dtype), torch.randint(scale.classes, (scale.images,), device=scale.device)


def texts(scale: Scale, _: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(torch.randint(scale.vocab, (scale.sequences, scale.length), device=scale.device) for _ in range(2))


def pairs(scale: Scale, _: torch.dtype) -> tuple[Tensor, ...]:
    """Sources, what the decoder reads, and what it shall say."""
    size = scale.pairs, scale.pair_length
    return tuple(torch.randint(scale.pair_vocab, size, device=scale.device) for _ in range(3))


def training_step(call: Work, model: nn.Module, inputs: tuple[Tensor, ...], scale: Scale) -> Step:
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True, capturable=scale.on_gpu)

    def step() -> Tensor:
        with torch.autocast(scale.device, torch.bfloat16):
            loss = call(*inputs)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach()

    return step


def inference_step(call: Work, model: nn.Module, inputs: tuple[Tensor, ...], scale: Scale) -> Step:
    """Weights that are bf16 already need no autocast."""
    mixed = dtype_of(model) == torch.float32

    def step() -> Tensor:
        with torch.inference_mode(), torch.autocast(scale.device, torch.bfloat16, enabled=mixed):
            return call(*inputs)

    return step


def dtype_of(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype


VIT_FLOPS = 2 * 17.58e9  # a forward pass at 224 pixels; a training step counts three
GPT_FLOPS = 6 * 124.4e6 + 12 * 12 * 768 * 1024  # training, a token, attention counted in full as nanoGPT does
# Training, a source and a target token: both stacks and the head; three attentions in each of six layers.
PAIR_FLOPS = 6 * (18.87e6 + 25.17e6 + 16.38e6) + 18 * 12 * 512 * 32

ROWS = {
    "vit-train": Row(
        "img/s",
        lambda scale: scale.images,
        3 * VIT_FLOPS,
        labelled_images,
        training_step,
        [
            Entry("timm", timm_vit, image_loss),
            Entry("clearhead", our_vit, image_loss, ours=True),
            Entry("clearhead, tanh GELU", tanh, image_loss, ours=True),
        ],
    ),
    "vit-infer": Row(
        "img/s",
        lambda scale: scale.images,
        VIT_FLOPS,
        some_images,
        inference_step,
        [
            Entry("timm, autocast", timm_vit, logits),
            Entry("timm, bf16 weights", lambda scale: timm_vit(scale).bfloat16(), logits),
            Entry("clearhead, autocast", our_vit, logits, ours=True),
            Entry("clearhead, bf16 weights", lambda scale: our_vit(scale, dtype="bfloat16"), logits, ours=True),
            Entry("clearhead, bf16, tanh GELU", lambda scale: tanh(scale, dtype="bfloat16"), logits, ours=True),
        ],
    ),
    "gpt-train": Row(
        "tok/s",
        lambda scale: scale.sequences * scale.length,
        GPT_FLOPS,
        texts,
        training_step,
        [
            Entry("nanoGPT's shape", nano_gpt, own_loss, compiles="model"),
            Entry("clearhead", our_gpt, text_loss, ours=True),
            Entry("clearhead, head in fp8", our_gpt_in_8_bits, text_loss, ours=True),
            Entry("transformers, eager", transformers_gpt, transformers_loss, compiles="nothing"),
        ],
    ),
    "transformer-train": Row(
        "tok/s",
        lambda scale: 2 * scale.pairs * scale.pair_length,
        PAIR_FLOPS / 2,
        pairs,
        training_step,
        [
            Entry("nn.Transformer", torch_transformer, torch_pair_loss),
            Entry("clearhead", our_transformer, pair_loss, ours=True),
        ],
    ),
}
