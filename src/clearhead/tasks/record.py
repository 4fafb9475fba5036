"""`record`: one pass, every intermediate by name, from tensors, a text or a picture."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import word_tokenizer
from ..errors import ClearheadError
from ..models import Model
from ..runs import preprocessor, tokenizer
from ..trace import Recorder, Replacement, Trace, underneath

EXAMPLE_TEXT = "This is Computer Vision Class"

Inputs = Tensor | tuple[Tensor, ...] | str | os.PathLike[str] | None


@dataclass(frozen=True)
class Prepared:
    """A model's inputs, the names of its tokens, and what a reader should know about how they were made."""

    tensors: tuple[Tensor, ...]
    about: dict[str, Any]


def record(
    model: torch.nn.Module,
    inputs: Inputs = None,
    *,
    sites: str | Iterable[str] = "*",
    max_bytes: int | None = None,
    dtype: torch.dtype | None = None,
    grads: bool = False,
    replace: Mapping[str, Replacement] | None = None,
) -> Trace:
    """Run the model once, in eval mode and on the reference path, and keep every site that `sites` names.

    inputs  tensors as the model takes them, a text, or a picture's path; the decks' sentence when nothing is given
    The other arguments are the Recorder's. `trace.output` is what the model returned.
    """
    target = underneath(model)
    if not isinstance(target, Model):
        raise ClearheadError(f"record takes a clearhead model, not a {type(target).__name__}")
    ready = prepared(target, inputs)
    training = target.training
    recorder = Recorder(target, sites, max_bytes=max_bytes, dtype=dtype, grads=grads, replace=replace)
    try:
        with torch.set_grad_enabled(grads), recorder as trace:
            trace.output = target.eval()(*ready.tensors)
    finally:
        target.train(training)
    origin = target.origin
    weights = {"folder": origin.folder} if origin.folder else {"random": True, "seed": origin.seed}
    trace.about = {"model": origin.name, "family": target.family, "path": "reference", **weights, **ready.about}
    return trace


def prepared(model: Model, inputs: Inputs = None) -> Prepared:
    """Whatever the user gave, as the tensors that this model takes."""
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    if isinstance(inputs, tuple):
        return Prepared(tuple(tensor.to(model.device) for tensor in inputs), {})
    if model.family == "vit":
        return _picture(model, inputs)
    return _text(model, EXAMPLE_TEXT if inputs is None else str(inputs))


def _text(model: Model, text: str) -> Prepared:
    if not text.strip():
        raise ClearheadError("the text is empty: there is nothing to record")
    tok, note = _vocabulary(model, text)
    ids = tok.ids(text)
    about = {"text": text, "tokens": tok.pieces(ids)} | ({"note": note} if note else {})
    limit = model.config.vocab
    if max(ids) >= limit:
        raise ClearheadError(
            f"the tokenizer numbers up to {max(ids)} and the model knows {limit} tokens: they don't belong together"
        )
    return Prepared((torch.tensor([ids], device=model.device),), about)


def _vocabulary(model: Model, text: str) -> tuple[Any, str | None]:
    """The model's own tokenizer. With random weights and none at hand, words are numbered as they appear."""
    try:
        return tokenizer(model), None
    except ClearheadError:
        if not model.origin.random:
            raise
        return word_tokenizer(
            text
        ), f"{model.origin.name} comes without a vocabulary: words are numbered as they appear"


def _picture(model: Model, path: Any) -> Prepared:
    place = Path(path) if path is not None else _sample_picture()
    pixels = preprocessor(model)(place)
    channels = model.config.channels
    if channels == 1:
        pixels = pixels.mean(0, keepdim=True)
    elif channels != len(pixels):
        raise ClearheadError(f"the model takes pictures of {channels} channels, not of {len(pixels)}")
    return Prepared((pixels[None].to(model.device, model.dtype),), {"image": str(place)})


def _sample_picture() -> Path:
    try:
        import sklearn.datasets
    except ImportError:
        raise ClearheadError(
            "the sample picture comes with scikit-learn, which is not installed: give a picture"
        ) from None
    return Path(sklearn.datasets.__file__).parent / "images" / "flower.jpg"
