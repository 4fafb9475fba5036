"""Official files in small: their exact lists of names, with left-overs, over weights narrow enough for a test."""

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

WIDTH, LAYERS, VOCAB, CONTEXT = 12, 2, 11, 8

GPT_CONFIG = {
    **{"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 3, "n_positions": CONTEXT, "n_ctx": CONTEXT, "vocab_size": VOCAB},
    **{"attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02},
}
GPT2_CONFIG = GPT_CONFIG | {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "activation_function": "gelu_new",
}
GPT1_CONFIG = GPT_CONFIG | {"model_type": "openai-gpt", "architectures": ["OpenAIGPTLMHeadModel"], "afn": "gelu"}
VIT_CONFIG = {
    **{"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_act": "gelu", "qkv_bias": True},
    **{"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 3, "intermediate_size": 4 * WIDTH},
    **{"image_size": 12, "patch_size": 4, "num_channels": 3, "layer_norm_eps": 1e-12},
    **{"id2label": {"0": "cat", "1": "dog", "2": "ox"}, "label2id": {"cat": 0, "dog": 1, "ox": 2}},
}


def _gpt_blocks(layers: int) -> dict[str, tuple[int, ...]]:
    shapes = {
        "ln_1.weight": (WIDTH,),
        "ln_1.bias": (WIDTH,),
        "attn.bias": (1, 1, CONTEXT, CONTEXT),
        "attn.c_attn.weight": (WIDTH, 3 * WIDTH),
        "attn.c_attn.bias": (3 * WIDTH,),
        "attn.c_proj.weight": (WIDTH, WIDTH),
        "attn.c_proj.bias": (WIDTH,),
        "ln_2.weight": (WIDTH,),
        "ln_2.bias": (WIDTH,),
        "mlp.c_fc.weight": (WIDTH, 4 * WIDTH),
        "mlp.c_fc.bias": (4 * WIDTH,),
        "mlp.c_proj.weight": (4 * WIDTH, WIDTH),
        "mlp.c_proj.bias": (WIDTH,),
    }
    return {f"h.{layer}.{name}": shape for layer in range(layers) for name, shape in shapes.items()}


def gpt2(layers: int = LAYERS) -> dict[str, tuple[int, ...]]:
    """Modelled on openai-community/gpt2, model.safetensors: no prefix, the causal masks, no head: 160 names in full."""
    tables = {"wte.weight": (VOCAB, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
    return tables | _gpt_blocks(layers) | {"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}


def gpt2_of_transformers_4(layers: int = LAYERS) -> dict[str, tuple[int, ...]]:
    """Modelled on what GPT2LMHeadModel of transformers 3 and 4 saved as pytorch_model.bin, such as distilgpt2's."""
    prefixed = {f"transformer.{name}": shape for name, shape in gpt2(layers).items()}
    masked = {f"transformer.h.{layer}.attn.masked_bias": () for layer in range(layers)}
    return prefixed | masked | {"lm_head.weight": (VOCAB, WIDTH)}


def gpt1(layers: int = LAYERS) -> dict[str, tuple[int, ...]]:
    """Modelled on openai-community/openai-gpt: no prefix, the causal masks, no head, no last norm: 158 in full."""
    tables = {"tokens_embed.weight": (VOCAB, WIDTH), "positions_embed.weight": (CONTEXT, WIDTH)}
    return tables | _gpt_blocks(layers)


def vit(layers: int = LAYERS) -> dict[str, tuple[int, ...]]:
    """Modelled on google/vit-base-patch16-224: a classifier and no pooler, 200 names in full."""
    body = {f"vit.{name}": shape for name, shape in _vit_body(layers).items()}
    return body | {"classifier.weight": (3, WIDTH), "classifier.bias": (3,)}


def vit_in21k(layers: int = LAYERS) -> dict[str, tuple[int, ...]]:
    """Modelled on google/vit-base-patch16-224-in21k: a ViTModel, so no prefix, a pooler and no classifier."""
    return _vit_body(layers) | {"pooler.dense.weight": (WIDTH, WIDTH), "pooler.dense.bias": (WIDTH,)}


def _vit_body(layers: int) -> dict[str, tuple[int, ...]]:
    square = ("attention.attention.query", "attention.attention.key", "attention.attention.value")
    products = dict.fromkeys((*square, "attention.output.dense"), (WIDTH, WIDTH))
    products |= {"intermediate.dense": (4 * WIDTH, WIDTH), "output.dense": (WIDTH, 4 * WIDTH)}
    block = {f"{name}.weight": shape for name, shape in products.items()}
    block |= {f"{name}.bias": shape[:1] for name, shape in products.items()}
    block |= {
        f"{name}.{end}": (WIDTH,) for name in ("layernorm_before", "layernorm_after") for end in ("weight", "bias")
    }
    patches = "embeddings.patch_embeddings.projection"
    return {
        "embeddings.cls_token": (1, 1, WIDTH),
        "embeddings.position_embeddings": (1, 10, WIDTH),
        f"{patches}.weight": (WIDTH, 3, 4, 4),
        f"{patches}.bias": (WIDTH,),
        **{f"encoder.layer.{layer}.{name}": shape for layer in range(layers) for name, shape in block.items()},
        "layernorm.weight": (WIDTH,),
        "layernorm.bias": (WIDTH,),
    }


def timm_vit(layers: int = LAYERS) -> dict[str, tuple[int, ...]]:
    """Modelled on timm/vit_base_patch16_224.augreg2_in21k_ft_in1k: 152 names in full."""
    products = {"attn.qkv": (3 * WIDTH, WIDTH), "attn.proj": (WIDTH, WIDTH)}
    products |= {"mlp.fc1": (4 * WIDTH, WIDTH), "mlp.fc2": (WIDTH, 4 * WIDTH)}
    block = {f"{name}.weight": shape for name, shape in products.items()}
    block |= {f"{name}.bias": shape[:1] for name, shape in products.items()}
    block |= {f"{name}.{end}": (WIDTH,) for name in ("norm1", "norm2") for end in ("weight", "bias")}
    return {
        "cls_token": (1, 1, WIDTH),
        "pos_embed": (1, 10, WIDTH),
        "patch_embed.proj.weight": (WIDTH, 3, 4, 4),
        "patch_embed.proj.bias": (WIDTH,),
        **{f"blocks.{layer}.{name}": shape for layer in range(layers) for name, shape in block.items()},
        **{"norm.weight": (WIDTH,), "norm.bias": (WIDTH,), "head.weight": (3, WIDTH), "head.bias": (3,)},
    }


def drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Random numbers in these shapes: the same for the same name without its prefix, whatever else there is."""
    return {name: torch.randn(shape, generator=_seed(name)) for name, shape in shapes.items()}


def _seed(name: str) -> torch.Generator:
    plain = name.removeprefix("transformer.").removeprefix("vit.")
    return torch.Generator().manual_seed(zlib.crc32(plain.encode()))


def write_folder(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
