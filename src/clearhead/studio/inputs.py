"""What a person typed or dropped, as the tensors that a model takes. What is cut is said; what can't be read, refused.

The rows are those of `record`: the tokenizer's own numbers, and for an encoder-decoder a target that begins with the
token that starts it. A target that was not given is written by the model itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import Preprocessor
from ..decode import Limits, collect, generate
from ..errors import ClearheadError
from ..models import Model
from ..models.vit import ViT
from ..runs import preprocessor
from ..tasks.classify import shortened_row
from ..tasks.fill import BLANK
from ..tasks.writer import writer
from .pictures import Album, as_png
from .schema import Inputs, Picture, Token
from .shelf import Opened
from .vocabulary import Speller, Vocabulary

MOST_TOKENS = 1024  # of a side, also where the model would read more: every score is kept
GIVEN = {"text": "a text", "second": "a second sentence", "source": "a source", "target": "a target"}
GIVEN |= {"picture": "a picture"}
FIELDS = {("text",): ("text",), ("source", "target"): ("source", "target"), ("image",): ("picture",)}


@dataclass(frozen=True)
class Ready:
    """An input that the model can be called with: `model(*tensors, **options)`.

    tokens   by the names of axes; reads: what names the tokens that the model predicts
    about    what the trace says of its input, as `record` puts it
    """

    tensors: tuple[Tensor, ...]
    about: dict[str, Any]
    options: dict[str, Tensor] = field(default_factory=dict)
    tokens: dict[str, list[Token]] = field(default_factory=dict)
    reads: Speller | None = None
    picture: Picture | None = None
    png: bytes | None = None
    cut: str | None = None
    written: str | None = None
    notes: tuple[str, ...] = ()


def ready(opened: Opened, inputs: Inputs, album: Album) -> Ready:
    """Whatever was given, or one line that says why not."""
    model = opened.model
    _check_fields(model, inputs)
    if isinstance(model, ViT):
        if inputs.picture is None:
            raise ClearheadError("there is no picture: choose one, or drop one here")
        return _of_picture(model, inputs.picture, album)
    if model.takes == ("source", "target"):
        return _of_pair(opened, _text(inputs.source, "source"), inputs.target or "")
    second = inputs.second if inputs.second and inputs.second.strip() else None
    return _of_text(opened, _text(inputs.text, "text"), second)


def _check_fields(model: Model, inputs: Inputs) -> None:
    takes = [*FIELDS[model.takes], *(["second"] if model.family == "bert" else [])]
    for name, value in inputs.model_dump().items():
        if value and name not in takes:
            wanted = " and ".join(GIVEN[field] for field in takes if field != "second")
            raise ClearheadError(f"a {model.family} model takes {wanted}, not {GIVEN[name]}")


def _text(given: str | None, what: str) -> str:
    if given is None or not given.strip():
        raise ClearheadError(f"the {what} is empty: type a sentence")
    return given


# ---------------------------------------------------------------------------------------------------- texts


def _of_text(opened: Opened, text: str, second: str | None) -> Ready:
    model, vocabulary = opened.model, opened.words.of(text, second or "")
    speller = vocabulary.source
    if model.family == "bert":
        text, second = _with_masks(speller, text), _with_masks(speller, second or "")
    tokens, segments = speller.pair(text, second) if second else (speller.row(text), None)
    kept, cut = _cut(tokens, _limit(model), "text", segments)
    tokens = [tokens[place] for place in kept]
    options = {}
    if segments is not None:
        told = torch.tensor([[segments[place] for place in kept]])
        options["segments"] = told.clamp(max=model.config.segments - 1)
    about = {"text": text, **({"second": second} if second else {}), "tokens": _pieces(speller, tokens)}
    return Ready(
        (_row(tokens, model.config.vocab),),
        about,
        options,
        {"tokens": tokens},
        reads=speller,
        cut=cut,
        notes=_notes(vocabulary),
    )


def _with_masks(speller: Speller, text: str) -> str:
    """`[MASK]` and `___` as this tokenizer spells a blank."""
    number = speller.tok.special.get("mask")
    return text if number is None else re.sub(rf"\[MASK\]|{BLANK}", lambda _: speller.spelt[number], text)


def _of_pair(opened: Opened, source: str, target: str) -> Ready:
    model, vocabulary = opened.model, opened.words.of(source, target)
    limit = _limit(model)
    read = vocabulary.source.row(source)
    kept, cut = _cut(read, limit, "source")
    read = [read[place] for place in kept]
    start = _start(model, vocabulary)
    written = None
    if target.strip():
        given = [*map(vocabulary.target.token, start), *vocabulary.target.row(target, special=False)]
        kept, more = _cut(given, limit, "target")
        given, cut = [given[place] for place in kept], "; ".join(filter(None, (cut, more))) or None
    else:
        numbers = _greedy(opened, vocabulary, [token.id for token in read], start, limit)
        given = [vocabulary.target.token(number) for number in (*start, *numbers)]
        target = written = vocabulary.target.tok.text(numbers)
    about = {"source": source, "target": target, "source_tokens": _pieces(vocabulary.source, read)}
    about["target_tokens"] = _pieces(vocabulary.target, given)
    sizes = [len(model.get_submodule(f"{side}.tokens").weight) for side in ("source", "target")]  # pyright: ignore
    return Ready(
        (_row(read, sizes[0]), _row(given, sizes[1])),
        about,
        tokens={"source": read, "target": given},
        reads=vocabulary.target,
        cut=cut,
        written=written,
        notes=_notes(vocabulary),
    )


def _start(model: Model, vocabulary: Vocabulary) -> list[int]:
    """The token that a target begins with, by the same rule as `record`."""
    marks = vocabulary.source.tok.special
    known = (model.start_token, marks.get("bos"), marks.get("pad"))
    return [number for number in known if number is not None][:1]


def _greedy(opened: Opened, vocabulary: Vocabulary, source: list[int], start: list[int], limit: int) -> list[int]:
    """The likeliest token, time after time, until the model ends it itself or it is twice as long as the source."""
    model, tok = opened.model, vocabulary.target.tok
    if model.origin.random:
        end = frozenset(tok.special[role] for role in ("eos",) if role in tok.special)
        never = frozenset({*range(model.config.vocab)} - {*vocabulary.target.spelt}) | {tok.special["pad"]}
    else:
        writes = writer(model)
        end, never = writes.end, writes.never
    length = min(2 * len(source) + 10, limit - len(start))
    steps = generate(model, [source], Limits(length, end, never), prefix=start)  # pyright: ignore[reportArgumentType]
    tokens = collect(1, steps)[0].tokens
    return tokens[:-1] if tokens and tokens[-1] in end else tokens


def _limit(model: Model) -> int:
    return min(getattr(model.config, "context", None) or MOST_TOKENS, MOST_TOKENS)


def _cut(
    tokens: Sequence[Token], limit: int, what: str, segments: list[int] | None = None
) -> tuple[list[int], str | None]:
    """The places of the tokens that are kept; a mark that ends the row stays, and of two texts the longer is cut."""
    places = list(range(len(tokens)))
    if len(tokens) <= limit:
        return places, None
    if segments is not None or tokens[-1].special:
        kept, _ = shortened_row(places, segments or [0] * len(tokens), limit)
    else:
        kept = places[:limit]
    return kept, f"the {what} has {len(tokens):,} tokens, of which {limit:,} are read: the rest was cut"


def _row(tokens: Sequence[Token], knows: int) -> Tensor:
    numbers = [token.id for token in tokens]
    if not numbers:
        raise ClearheadError("the text has no tokens: type something that the vocabulary knows")
    if max(numbers) >= knows:
        raise ClearheadError(
            f"the tokenizer numbers up to {max(numbers)} and the model knows {knows} tokens: they don't belong together"
        )
    return torch.tensor([numbers])


def _pieces(speller: Speller, tokens: Sequence[Token]) -> list[str]:
    return [speller.piece(token.id) for token in tokens]


def _notes(vocabulary: Vocabulary) -> tuple[str, ...]:
    return () if vocabulary.note is None else (vocabulary.note,)


# ------------------------------------------------------------------------------------------------- pictures


def _of_picture(model: ViT, name: str, album: Album) -> Ready:
    prepare, config = preprocessor(model), model.config
    pixels = prepare(album.image(name))
    if config.channels == 1:
        pixels = pixels.mean(0, keepdim=True)
    elif config.channels != len(pixels):
        raise ClearheadError(f"the model takes pictures of {config.channels} channels, not of {len(pixels)}")
    high, wide = pixels.shape[1:]
    picture = Picture(
        width=wide,
        height=high,
        grid=config.grid,
        patch=config.patch,  # pyright: ignore[reportArgumentType]
        class_token=config.pooling == "cls",
        name=album.called(name),
    )
    png = as_png(unnormalised(pixels, prepare))
    return Ready((pixels[None].to(model.dtype),), {"image": name}, picture=picture, png=png)


def unnormalised(pixels: Tensor, prepare: Preprocessor) -> Any:
    """Normalised pixels (C,H,W) as a picture again: what the model is looking at."""
    from PIL import Image

    mean, std = (torch.tensor(values)[:, None, None] for values in (prepare.mean, prepare.std))
    if len(pixels) == 1:  # the mean of three channels that were normalised one by one
        values = (pixels + (mean / std).mean()) / (1 / std).mean()
    else:
        values = pixels * std + mean
    bytes_ = (values / prepare.scale).round().clamp(0, 255).to(torch.uint8)
    array = bytes_[0].numpy() if len(pixels) == 1 else np.ascontiguousarray(bytes_.permute(1, 2, 0).numpy())
    return Image.fromarray(array)
