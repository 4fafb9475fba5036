"""The page's sample predictions: pictures with their maps, and a card for each text. HTML, every text escaped."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from ..analyse import AttentionRow, over_pixels
from .matrices import heat_map
from .pictures import Tile, picture, picture_grid
from .sample_kinds import (
    LanguageSample,
    MaskedSample,
    PictureSample,
    QuestionSample,
    Sample,
    TextSample,
    TranslationSample,
)
from .scale import label, level, number, overlay_bar, scale_bar

OPEN = 3  # samples whose attention matrix is open from the start
MOST_TOKENS = 40  # of a matrix that is drawn whole


def predictions(samples: Sequence[Sample]) -> str:
    if not samples:
        return ""
    pictures = [sample for sample in samples if isinstance(sample, PictureSample)]
    texts = [sample for sample in samples if not isinstance(sample, PictureSample)]
    cards = "".join(
        f'<div class="sample">{CARDS[type(sample)](sample, place < OPEN)}</div>' for place, sample in enumerate(texts)
    )
    wrong, judged = sum(s.right is False for s in samples), sum(s.right is not None for s in samples)
    lead = (
        f"{judged} predictions, {wrong or 'none'} of them wrong{', these first' if wrong else ''}. " if judged else ""
    )
    lead += "The darker a token, the more of it was looked at (in dark mode: the lighter)." if texts else ""
    drawn = _pictures(pictures) if pictures else ""
    return f'<h2>Sample predictions</h2><p class="lead">{lead}</p>{drawn}<div class="samples">{cards}</div>'


def _pictures(samples: Sequence[PictureSample]) -> str:
    layers, heads = samples[0].attention.shape[:2]
    tiles = []
    for sample in samples:
        both = picture(sample.pixels, f"a picture of class {sample.truth}")
        told = f"attention: the most looked-at patch has {number(float(sample.attention[-1].mean(0).max()))}"
        both += picture(sample.pixels, told, sample.over)
        said = [f"{sample.predicted}, {sample.probability:.1%}", "" if sample.right else f"truly {sample.truth}"]
        tiles.append(Tile(f'<div class="pair">{both}</div>', [line for line in said if line], sample.right))
    note = f"attention of the last of {layers} layers, mean of its {heads} heads; each picture has its own scale"
    return picture_grid(tiles) + overlay_bar(None, note) + _atlas(samples[0])


def _atlas(sample: PictureSample) -> str:
    """Every head of every layer over one picture."""
    layers, heads = sample.attention.shape[:2]
    if layers * heads > 150:
        return ""
    rows = []
    for layer in range(layers):
        cells = []
        for head in range(heads):
            patches = sample.attention[layer, head]
            told = f"layer {layer + 1}, head {head + 1}: up to {number(float(patches.max()))} a patch"
            cells.append(f"<td>{picture(sample.pixels, told, over_pixels(patches, sample.config), edge=72)}</td>")
        rows.append(f"<tr><th>layer {layer + 1}</th>{''.join(cells)}</tr>")
    head = "".join(f"<th>head {number + 1}</th>" for number in range(heads))
    title = f"Every head, over the first picture ({sample.truth})"
    return (
        f'<details open><summary>{escape(title)}</summary><table class="atlas"><tr><th></th>{head}</tr>'
        f"{''.join(rows)}</table></details>"
    )


def _text_card(sample: TextSample, open_: bool) -> str:
    texts = (sample.text,) if isinstance(sample.text, str) else sample.text
    sure = "" if sample.probability is None else f", {sample.probability:.1%}"
    rows = [("text", escape(" | ".join(texts))), ("truth", escape(sample.truth))]
    rows.append(("predicted", _marked(sample.right, f"{sample.predicted}{sure}")))
    return _list(rows) + _strip(sample.look) + _by_head(sample.look, open_)


def _translation_card(sample: TranslationSample, open_: bool) -> str:
    rows = [("source", escape(sample.source)), ("reference", escape(sample.reference))]
    rows.append(("output", _marked(sample.right, sample.output)))
    looked, title = sample.alignment, "Each written token and where it looked in the source, mean of the heads"
    matrix = heat_map(looked.weights, looked.target, looked.source, title)
    return _list(rows) + _folded("cross-attention", matrix, open_)


def _language_card(sample: LanguageSample, open_: bool) -> str:
    rows = [("prompt", escape(sample.prompt)), ("continuation", _marked(sample.right, sample.continuation))]
    rows += [("truth", escape(sample.truth))] if sample.truth is not None else []
    said = f"where the model looked when it chose its last token, {label(sample.last)!r}:"
    map_, size = sample.map, min(MOST_TOKENS, len(sample.map.rows))
    cut = "" if size == len(map_.rows) else f", the last {size} of {len(map_.rows)} tokens"
    matrix = heat_map(
        map_.mean[-size:, -size:],
        map_.rows[-size:],
        map_.columns[-size:],
        f"Every token that was read and where it looked: last layer, mean of the heads{cut}",
        masked=None if map_.masked is None else map_.masked[-size:, -size:],
    )
    return _list(rows) + _strip(sample.look, said) + _folded("the whole matrix", matrix, open_)


def _masked_card(sample: MaskedSample, open_: bool) -> str:
    rows = [("text", escape(sample.text)), ("filled", escape(sample.filled.text))]
    for place, (truth, guesses) in enumerate(zip(sample.truths, sample.filled.blanks, strict=True), start=1):
        said = ", ".join(f"{guess.word} {guess.probability:.1%}" for guess in guesses)
        right = guesses[0].word == truth
        rows.append((f"blank {place}", f"{_marked(right, truth)}: {escape(said)}"))
    looks = "".join(_strip(look, f"where blank {place} looked:") for place, look in enumerate(sample.looks, start=1))
    return _list(rows) + (_folded("attention", looks, open_) if looks else "")


def _question_card(sample: QuestionSample, open_: bool) -> str:
    start, end = sample.answer.start, sample.answer.end
    before, marked, after = (
        escape(sample.passage[part]) for part in (slice(start), slice(start, end), slice(end, None))
    )
    passage = f"{before}<mark>{marked}</mark>{after}"
    sure = f", {sample.answer.probability:.1%}, F1 {number(sample.f1)}"
    rows = [("question", escape(sample.question)), ("answer", _marked(sample.right, sample.answer.text + sure))]
    rows += [("accepted", escape(" | ".join(sample.truths))), ("passage", passage)]
    if sample.look is None:
        return _list(rows) + '<p class="none">Read in several windows: no single attention map.</p>'
    return _list(rows) + _folded("attention of the answer's first token", _strip(sample.look), open_)


def _list(rows: Sequence[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in rows)}</dl>"


def _marked(right: bool | None, text: str) -> str:
    mark = {None: "", True: '<i class="good">✓</i> ', False: '<i class="bad">✗</i> '}[right]
    return mark + escape(text)


def _strip(look: AttentionRow, said: str | None = None) -> str:
    """A text with each token as dark as it was looked at."""
    values = look.mean.tolist()
    top = max(values)
    spans = "".join(
        f'<span class="c q{level(value, top)}" title="{escape(label(token))}: {number(value)}">{escape(spaced)}</span>'
        for token, spaced, value in zip(look.columns, _spaced(look.columns), values, strict=True)
    )
    heads = f"mean of {len(look.weights)} heads of {look.site.removesuffix('.weights')}"
    said = said or f"where {label(look.of)} looked:"
    return f'<p class="of">{escape(said)}</p><p class="strip">{spans}</p>{scale_bar(top, heads)}'


def _spaced(tokens: Sequence[str]) -> list[str]:
    """Tokens as they stand in a text: as they are where they have their own spaces or are letters, else words."""
    if any(token[:1].isspace() for token in tokens) or all(len(token) == 1 for token in tokens):
        return list(tokens)
    nexts = [*tokens[1:], "##"]
    return [
        token.removeprefix("##") + ("" if after.startswith("##") else " ")
        for token, after in zip(tokens, nexts, strict=True)
    ]


def _by_head(look: AttentionRow, open_: bool) -> str:
    if len(look.columns) > MOST_TOKENS:
        return ""
    names = [f"head\N{NO-BREAK SPACE}{head + 1}" for head in range(len(look.weights))]
    return _folded(
        "head by head", heat_map(look.weights, names, look.columns, f"Where {look.of} looked, by head"), open_
    )


def _folded(title: str, inside: str, open_: bool) -> str:
    return f"<details{' open' if open_ else ''}><summary>{escape(title)}</summary>{inside}</details>"


CARDS: dict[type, Callable[[Any, bool], str]] = {
    TextSample: _text_card,
    LanguageSample: _language_card,
    TranslationSample: _translation_card,
    MaskedSample: _masked_card,
    QuestionSample: _question_card,
}
