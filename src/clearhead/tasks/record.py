"""`record`: one pass, every intermediate by name, from tensors, a text, a pair of texts or a picture."""

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
EXAMPLES = {"gpt-nano": "CBABBC"}  # for vocabularies that can't say the decks' sentence
EXAMPLE_PAIR = ("नमस्ते, कस्तो हुनुहुन्छ?", "Hi, how are you?")

Inputs = Tensor | tuple[Tensor, ...] | tuple[str, str] | str | os.PathLike[str] | None


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

    inputs  tensors as the model takes them, a text, (source, target) for an encoder-decoder, (first, second) sentence
            for a BERT, or a picture's path; the decks' sentence when nothing is given
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
    given = () if inputs is None else inputs if isinstance(inputs, tuple) else (inputs,)
    if given and all(isinstance(part, Tensor) for part in given):
        return Prepared(tuple(tensor.to(model.device) for tensor in given), {})  # pyright: ignore
    if model.family == "bert" and len(given) == 2:
        return _sentences(model, *given)
    if given and len(given) != len(model.takes):
        wanted = f"({', '.join(model.takes)}): {len(model.takes)} expected, {len(given)} given"
        raise ClearheadError(f"a {model.family} model takes {wanted}")
    return PREPARE[model.takes](model, *given)


def row_tokens(about: Mapping[str, Any], site: str) -> list[str] | None:
    """The tokens that a site's rows belong to: of the source in the encoder, and where the decoder looks at it."""
    plain = site.partition("#")[0]
    of_source = plain.startswith(("source.", "encoder.")) or plain.endswith((".cross.key", ".cross.value"))
    return about.get("tokens") or about.get("source_tokens" if of_source else "target_tokens")


def _text(model: Model, text: Any = None) -> Prepared:
    text = EXAMPLES.get(model.origin.name, EXAMPLE_TEXT) if text is None else str(text)
    tok, note = _vocabulary(model, text)
    ids = _known(tok.ids(text), model.config.vocab)
    return Prepared((torch.tensor([ids], device=model.device),), {"text": text, "tokens": tok.pieces(ids)} | note)


def _sentences(model: Model, first: Any, second: Any) -> Prepared:
    """Two sentences as one row, as a BERT reads them: ids, the row's length, and to which of the two each belongs."""
    texts = {"text": str(first), "second": str(second)}
    tok, note = _vocabulary(model, *texts.values())
    ids, segments = tok.pair(*texts.values())
    _known(ids, model.config.vocab)
    told = torch.tensor([segments]).clamp(max=model.config.segments - 1)  # some know no second sentence
    tensors = (torch.tensor([ids]), torch.tensor([len(ids)]), told)
    return Prepared(tuple(one.to(model.device) for one in tensors), texts | {"tokens": tok.pieces(ids)} | note)


def _pair(model: Model, source: Any = EXAMPLE_PAIR[0], target: Any = EXAMPLE_PAIR[1]) -> Prepared:
    """Source and target; the target begins with the token that starts it, as in training."""
    texts = {"source": str(source), "target": str(target)}
    tok, note = _vocabulary(model, *texts.values())
    toks = {"source": tok, "target": tok if note else tokenizer(model, side="target")}
    starts = (model.start_token, tok.special.get("bos"), tok.special.get("pad"))
    start = [number for number in starts if number is not None][:1]
    ids = {"source": tok.ids(texts["source"]), "target": start + toks["target"].ids(texts["target"], special=False)}
    for side, numbers in ids.items():
        table: Tensor = model.get_submodule(f"{side}.tokens").weight  # pyright: ignore[reportAssignmentType]
        _known(numbers, len(table))
    tokens = {f"{side}_tokens": toks[side].pieces(numbers) for side, numbers in ids.items()}
    tensors = tuple(torch.tensor([numbers], device=model.device) for numbers in ids.values())
    return Prepared(tensors, texts | tokens | note)


def _known(ids: list[int], limit: int) -> list[int]:
    if not ids:
        raise ClearheadError("the text has no tokens: there is nothing to record")
    if max(ids) >= limit:
        raise ClearheadError(
            f"the tokenizer numbers up to {max(ids)} and the model knows {limit} tokens: they don't belong together"
        )
    return ids


def _vocabulary(model: Model, *texts: str) -> tuple[Any, dict[str, str]]:
    """The model's own tokenizer. With random weights and none at hand, words are numbered as they appear."""
    if not all(text.strip() for text in texts):
        raise ClearheadError("the text is empty: there is nothing to record")
    try:
        return tokenizer(model), {}
    except ClearheadError:
        if not model.origin.random:
            raise
    note = f"{model.origin.name} comes without a vocabulary: words are numbered as they appear"
    start = {"bos": "<start>"} if "target" in model.takes else None
    return word_tokenizer(texts, special=start), {"note": note}


def _picture(model: Model, path: Any = None) -> Prepared:
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


PREPARE = {("text",): _text, ("image",): _picture, ("source", "target"): _pair}
