"""Other people's models to measure ours against, with random weights.

transformers and timm as they install, imported only when asked for; nanoGPT's shape, and what torch.nn.Transformer
needs around it, as plain modules of our own.
"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@cache
def declare_vision_operators() -> torch.library.Library | None:
    """Let timm and transformers import where torchvision's compiled operators don't fit the installed torch.

    torchvision fails on two missing operators that no model here calls: declaring them is enough. The library object
    must stay alive, hence the cache.
    """
    try:
        import torchvision  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        return None
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


def timm_vit(**options: Any) -> nn.Module:
    """timm's ViT-B/16 at 224 pixels, fused attention, eval mode."""
    declare_vision_operators()
    import timm  # pyright: ignore[reportMissingImports]

    return timm.create_model("vit_base_patch16_224", **options).eval()


def transformers_vit(**options: Any) -> nn.Module:
    """transformers' ViT-B/16 at 224 pixels with 1,000 classes, SDPA, eval mode."""
    declare_vision_operators()
    from transformers import ViTConfig, ViTForImageClassification  # pyright: ignore[reportMissingImports]

    settings = {"num_labels": 1000, "attn_implementation": "sdpa", **options}
    return ViTForImageClassification(ViTConfig(**settings)).eval()


def transformers_gpt2(**options: Any) -> nn.Module:
    """transformers' GPT-2, 124M, SDPA, eval mode, no dropout, no cache: a single pass doesn't need one."""
    declare_vision_operators()
    from transformers import GPT2Config, GPT2LMHeadModel  # pyright: ignore[reportMissingImports]

    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    settings = {"attn_implementation": "sdpa", "use_cache": False, **dropout, **options}
    return GPT2LMHeadModel(GPT2Config(**settings)).eval()


def transformers_bert() -> nn.Module:
    """transformers' BERT-base without a head, SDPA, eval mode."""
    declare_vision_operators()
    from transformers import BertConfig, BertModel  # pyright: ignore[reportMissingImports]

    return BertModel(BertConfig(attn_implementation="sdpa")).eval()


def transformers_t5() -> nn.Module:
    """transformers' T5-small called with source and target, SDPA, eval mode, no cache: a single pass needs none."""
    declare_vision_operators()
    from transformers import T5Config, T5ForConditionalGeneration  # pyright: ignore[reportMissingImports]

    config = T5Config(attn_implementation="sdpa", use_cache=False, decoder_start_token_id=0)
    return SourceAndTarget(T5ForConditionalGeneration(config).eval())


class SourceAndTarget(nn.Module):
    """Source and target by position, as our encoder-decoders take them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, target: Tensor) -> Any:
        return self.model(input_ids=source, decoder_input_ids=target)


class NanoGPT(nn.Module):
    """nanoGPT's shape: tied head, biases, exact GELU, vocabulary rounded up to 50,304, loss in the forward pass.

    It returns logits and loss, as nanoGPT does: whoever compiles it has to write the logits to memory.
    """

    def __init__(
        self, vocab: int = 50304, context: int = 1024, width: int = 768, layers: int = 12, heads: int = 12
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(NanoGPTBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=-1)


class NanoGPTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        heads = F.scaled_dot_product_attention(*split, is_causal=True)
        return self.out(heads.transpose(1, 2).contiguous().view(batch, length, width))


class TorchTransformer(nn.Module):
    """torch.nn.Transformer between one table for source, target and head; sinusoids, embeddings times sqrt(width)."""

    def __init__(self, vocab: int, width: int, layers: int, heads: int, context: int = 128) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.core = nn.Transformer(width, heads, layers, layers, 4 * width, dropout=0.0, batch_first=True)
        self.scale = width**0.5
        angles = torch.arange(context)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.positions: Tensor
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        nn.init.normal_(self.tokens.weight, std=width**-0.5)

    def forward(self, source: Tensor, target: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Source and target ids (B,L), the sources' true lengths (B,) -> logits (B,L,vocab)."""
        padding = None if lengths is None else torch.arange(source.shape[1]) >= lengths[:, None]
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.core(
            self.read(source),
            self.read(target),
            tgt_mask=later,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(hidden, self.tokens.weight)

    def read(self, ids: Tensor) -> Tensor:
        return self.tokens(ids) * self.scale + self.positions[: ids.shape[1]]


def transformers_marian(vocab: int) -> nn.Module:
    """transformers' Marian with the sizes of transformer-base, SDPA, eval mode; the last token is padding and start."""
    declare_vision_operators()
    from transformers import MarianConfig, MarianMTModel  # pyright: ignore[reportMissingImports]

    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in MARIAN_SIDE.items()}
    config = MarianConfig(
        vocab_size=vocab,
        d_model=512,
        max_position_embeddings=512,
        pad_token_id=vocab - 1,
        eos_token_id=0,
        decoder_start_token_id=vocab - 1,
        scale_embedding=True,
        activation_function="relu",
        forced_eos_token_id=None,
        attn_implementation="sdpa",
        **sides,
    )
    return MarianMTModel(config).eval()


MARIAN_SIDE = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}


def ctranslate2_marian(model: nn.Module, vocab: int, folder: Path) -> dict[str, Path]:
    """The same weights in CTranslate2's form, fp32 and int8, in folders. Its form of Marian has no padding token."""
    from ctranslate2.converters.transformers import MarianMTLoader  # pyright: ignore[reportMissingImports]

    words = ["</s>", *(f"t{token}" for token in range(1, vocab - 1))]
    places = {}
    for kind, stored in (("fp32", None), ("int8", "int8")):
        spec: Any = MarianMTLoader().get_model_spec(model)
        spec.register_source_vocabulary(words)
        spec.register_target_vocabulary(words)
        spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "t1"
        spec.validate()
        spec.optimize(quantization=stored)
        places[kind] = folder / kind
        places[kind].mkdir()
        spec.save(str(places[kind]))
    return places


TRANSLATORS: dict[str, Any] = {}


def ctranslate2_translate(kind: str, place: Path, words: list[list[str]], options: dict[str, int], threads: int) -> int:
    """Run in a process of its own: beside another library's threads in one process, both would wait asleep."""
    import ctranslate2  # pyright: ignore[reportMissingImports]

    if kind not in TRANSLATORS:
        computed = {"fp32": "float32", "int8": "int8"}[kind]
        TRANSLATORS[kind] = ctranslate2.Translator(
            str(place), device="cpu", inter_threads=1, intra_threads=threads, compute_type=computed
        )
    return len(TRANSLATORS[kind].translate_batch(words, **options))
