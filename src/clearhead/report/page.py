"""`report.html`: a run as one page that needs nothing else. No network, no script: it can be mailed and kept.

What it shows comes from the run's folder (run.yaml, metrics.jsonl, result.json, the last state) and from the samples
that the caller computed with the folder's own weights.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch

from ..analyse import AttentionRow, over_pixels
from ..errors import ClearheadError
from ..files import read_json, read_text
from ..train.metrics import read_metrics
from . import charts
from .charts import Curve, Tile, heat_map, line_chart, number, picture, picture_grid
from .samples import (
    LanguageSample,
    MaskedSample,
    PictureSample,
    QuestionSample,
    Sample,
    TextSample,
    TranslationSample,
)

NAME = "report.html"
LONGEST_TABLE = 20  # rows
OPEN = 3  # samples whose attention matrix is open from the start
MOST_TOKENS = 40  # of a matrix that is drawn whole
FEW = 120  # validations that get a dot each
UNBOUNDED = ("loss", "perplexity", "norm")  # figures of which a tenth may be as telling as a half
BESIDE = ("rate", "norm")  # figures about the training itself, after those about what was learned

STYLE = (
    ":root{--bg:#fbfbfa;--panel:#fff;--line:#e4e3df;--ink:#1b1c1e;--soft:#62656b;--good:#1d6fd0;--bad:#b4500a}"
    "@media(prefers-color-scheme:dark){:root{--bg:#131416;--panel:#1a1b1e;--line:#2f3237;--ink:#e9e8e4;--soft:#a3a6ad;"
    "--good:#8ab8ff;--bad:#ffa458}}"
    ":root{color-scheme:light dark}*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:1220px;padding:28px 24px 60px;background:var(--bg);color:var(--ink);"
    "font:14px/1.5 Inter,system-ui,'Noto Sans','Noto Sans Devanagari',sans-serif;font-feature-settings:'tnum'}"
    "h1{font-size:24px;letter-spacing:-.01em;margin:0 0 2px}h2{font-size:17px;margin:34px 0 10px}"
    "h1+p,.lead,.none,.scale,figcaption,summary,dt{color:var(--soft)}h1+p,.lead{margin:0 0 12px;max-width:76ch}"
    "figcaption b{color:var(--ink);font-weight:600}figure{margin:0}"
    "table{border-collapse:collapse;background:var(--panel)}th,td{border:1px solid var(--line);padding:4px 11px;"
    "text-align:left}th{font-weight:560;color:var(--soft)}"
    "thead th{white-space:nowrap}td.big{text-align:right;font-size:17px;font-weight:600}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,460px),1fr));gap:14px}"
    ".two{display:flex;flex-wrap:wrap;gap:18px;align-items:flex-start}"
    ".chart,.matrix,.sample{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:12px 14px}"
    ".chart figcaption{display:flex;flex-wrap:wrap;gap:4px 16px;margin-bottom:4px}.chart figcaption span{display:flex;"
    "align-items:center;gap:6px}.matrix{border:0;padding:0;margin-top:8px;overflow-x:auto}.matrix svg{max-width:none}"
    ".scale{display:flex;gap:7px;align-items:center;margin:6px 0;font-size:12px}"
    ".tiles{display:flex;flex-wrap:wrap;gap:16px}.tiles svg,.atlas svg{border-radius:4px;max-width:none}"
    ".tiles .pair{display:flex;gap:4px}.tiles figcaption{font-size:12.5px;margin-top:4px}"
    ".samples{columns:2 460px;column-gap:14px}.sample{break-inside:avoid;margin-bottom:14px}"
    ".sample dl{display:grid;gap:2px 12px;margin:0;grid-template-columns:auto 1fr}"
    ".sample dd{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}.good{color:var(--good);font-style:normal}"
    ".bad{color:var(--bad);font-style:normal}mark{background:none;color:inherit;border-bottom:2px solid var(--s2)}"
    ".strip{margin:10px 0 0;line-height:1.9;overflow-wrap:anywhere;white-space:pre-wrap}"
    ".strip span{border-radius:3px;padding:1px 1px}.of{font-size:12.5px;color:var(--soft);margin:10px 0 -6px}"
    "summary{cursor:pointer;margin-top:8px}code{font:12.5px ui-monospace,monospace;overflow-wrap:anywhere}"
    "table.atlas{background:none}table.atlas td,table.atlas th{border:0;padding:3px}"
    "table.atlas th{font-size:12px;white-space:nowrap}"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(folder: str | os.PathLike[str], samples: Sequence[Sample] = ()) -> Path:
    """Write report.html into a run's folder, finished or not, and return its path."""
    place = Path(folder)
    run, lines, result = _run(place), _metrics(place), _result(place)
    if not (run or lines or result):
        raise ClearheadError(f"{place} is not the folder of a run: it has no run.yaml, metrics.jsonl or result.json")
    name = str(run.get("name") or result.get("run") or place.name)
    body = [
        _head(name, run, lines, result),
        _figures(result),
        _convergence(lines),
        _predictions(samples),
        _configuration(run),
        _machine(place, result),
    ]
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<style>{STYLE}{charts.STYLE}</style></head><body>{charts.DEFS}{''.join(body)}</body></html>\n"
    )
    aside = place / f".{NAME}.part"
    try:
        aside.write_text(page, encoding="utf-8", errors="backslashreplace")
        aside.replace(place / NAME)
    except OSError as problem:
        raise ClearheadError(f"{place / NAME} can't be written: {problem.strerror}") from None
    return place / NAME


# ------------------------------------------------------------------------------------------------ the folder


def _run(place: Path) -> dict[str, Any]:
    file = place / "run.yaml"
    if not file.is_file():
        return {}
    try:
        import yaml
    except ImportError:
        raise ClearheadError("run.yaml is read with PyYAML, which is not installed: pip install PyYAML") from None
    try:
        values = yaml.safe_load(read_text(file))
    except (yaml.YAMLError, RecursionError):
        raise ClearheadError(f"{file} is not valid YAML: it is broken or another kind of file") from None
    if not isinstance(values, dict):
        raise ClearheadError(f"{file} does not describe a run: it holds no keys and values")
    return values


def _metrics(place: Path) -> list[dict[str, Any]]:
    try:
        lines = read_metrics(place)
    except (ValueError, OSError):
        raise ClearheadError(f"{place / 'metrics.jsonl'} can't be read: a line of it is no JSON") from None
    if any(not isinstance(line.get("step"), int) for line in lines):
        raise ClearheadError(f"{place / 'metrics.jsonl'} has a line without a step: it is another kind of file")
    return lines


def _result(place: Path) -> dict[str, Any]:
    return read_json(place / "result.json") if (place / "result.json").exists() else {}


def _last_state(place: Path) -> dict[str, Any]:
    """What the last saved state says about where the run trained."""
    files = sorted((place / "state").glob("[0-9]*/state.json"))
    values = read_json(files[-1]).get("values") if files else None
    return values if isinstance(values, dict) else {}


# ------------------------------------------------------------------------------------------------ sections


def _head(name: str, run: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> str:
    task = run.get("task")
    about = [task[key] for key in ("kind", "model", "data") if key in task] if isinstance(task, dict) else []
    if result:
        about += [f"{result.get('steps', '?')} steps", f"{number(float(result.get('seconds', 0)))} s"]
    else:
        about += [f"not finished: {lines[-1]['step'] if lines else 0} steps so far"]
    return f"<h1>{escape(name)}</h1><p>{escape(' · '.join(map(str, about)))}</p>"


def _figures(result: Mapping[str, Any]) -> str:
    parts = {name: values for name, values in result.items() if isinstance(values, dict)}
    if not parts:
        return ""
    names = list(dict.fromkeys(name for values in parts.values() for name in values))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{escape(part)}</th>{''.join(_figure(values.get(name)) for name in names)}</tr>"
        for part, values in parts.items()
    )
    return f"<h2>Final figures</h2><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _figure(value: Any) -> str:
    if not isinstance(value, int | float):
        return f"<td>{'' if value is None else escape(str(value))}</td>"
    told = f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 10 else number(value, 5)
    return f'<td class="big" title="{value!r}">{told}</td>'


def _convergence(lines: Sequence[Mapping[str, Any]]) -> str:
    """Every figure over the steps: that of training and those of other parts under one name on one chart."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in lines:
        for key, value in line.items():
            if key != "step" and isinstance(value, int | float):
                part, _, figure = key.rpartition("/")
                found.setdefault(figure, {}).setdefault(part, []).append((line["step"], value))
    if not found:
        return '<h2>Convergence</h2><p class="none">No figures were written yet.</p>'
    settled = {name: parts for name, parts in found.items() if _never_changes(parts) and len(found) > 1}
    order = sorted((name for name in found if name not in settled), key=lambda name: (name in BESIDE, name != "loss"))
    drawn = "".join(
        line_chart(
            [_curve(part, points, name) for part, points in found[name].items()],
            name,
            log=None if name.endswith(UNBOUNDED) else False,
        )
        for name in order
    )
    said = ", ".join(f"{name} {number(next(iter(parts.values()))[0][1], 6)}" for name, parts in settled.items())
    note = f'<p class="lead">The same throughout: {escape(said)}.</p>' if said else ""
    return f'<h2>Convergence</h2><div class="charts">{drawn}</div>{note}'


def _never_changes(parts: Mapping[str, Sequence[tuple[float, float]]]) -> bool:
    values = [value for points in parts.values() for _, value in points]
    return len(values) > 1 and min(values) == max(values)


def _curve(part: str, points: list[tuple[float, float]], figure: str) -> Curve:
    style = {"": 1, "valid": 2}.get(part, 3)
    return Curve(part or "train", points, style, marked=bool(part) and len(points) <= FEW, noisy=figure != "rate")


def _configuration(run: Mapping[str, Any]) -> str:
    if not run:
        return ""
    groups = [("run", list(_flat({k: v for k, v in run.items() if not isinstance(v, dict)})))]
    groups += [(str(name), list(_flat(values))) for name, values in run.items() if isinstance(values, dict)]
    tables = "".join(
        _table(name if first == 0 else f"{name}, continued", rows[first : first + LONGEST_TABLE])
        for name, rows in groups
        for first in range(0, len(rows), LONGEST_TABLE)
    )
    return f'<h2>Configuration</h2><p class="lead">As run.yaml holds it.</p><div class="two">{tables}</div>'


def _flat(values: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield (
                f"{before}{key}",
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str),
            )


def _machine(place: Path, result: Mapping[str, Any]) -> str:
    """What the run's own files say about time and threads, and on what this page was written."""
    state = _last_state(place)
    said = {key: value for key, value in result.items() if not isinstance(value, dict) and key != "run"}
    said |= {key: state[key] for key in ("threads", "world") if key in state and key not in said}
    names = {"seconds": "seconds of training", "world": "processes"}
    steps, seconds = said.get("steps"), said.get("seconds")
    rows = [(names.get(key, key), _plain(value)) for key, value in said.items()]
    if isinstance(steps, int) and isinstance(seconds, int | float) and seconds > 0:
        rows.append(("steps a second", number(steps / seconds)))
    here = [("processor", _processor()), ("cores", str(os.cpu_count())), ("threads now", str(torch.get_num_threads()))]
    here += [("GPU", torch.cuda.get_device_name())] if torch.cuda.is_available() else []
    here += [("PyTorch", torch.__version__), ("Python", platform.python_version()), ("system", platform.system())]
    return (
        '<h2>Time and machine</h2><div class="two">'
        + (_table("the run", rows) if rows else "")
        + _table("where this page was written", here)
        + "</div>"
    )


def _table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(f"<tr><th>{escape(key)}</th><td><code>{escape(value)}</code></td></tr>" for key, value in rows)
    return f"<table><thead><tr><th colspan=2>{escape(title)}</th></tr></thead><tbody>{body}</tbody></table>"


def _plain(value: Any) -> str:
    return number(value, 4) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _processor() -> str:
    """The processor's name where the system tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8", errors="replace").splitlines() if facts.is_file() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


# ------------------------------------------------------------------------------------------------ samples


def _predictions(samples: Sequence[Sample]) -> str:
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
    return picture_grid(tiles) + charts.overlay_bar(None, note) + _atlas(samples[0])


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
    said = f"where the model looked when it chose its last token, {charts.label(sample.last)!r}:"
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
        f'<span class="c q{charts.level(value, top)}" title="{escape(charts.label(token))}: {number(value)}">'
        f"{escape(spaced)}</span>"
        for token, spaced, value in zip(look.columns, _spaced(look.columns), values, strict=True)
    )
    heads = f"mean of {len(look.weights)} heads of {look.site.removesuffix('.weights')}"
    said = said or f"where {charts.label(look.of)} looked:"
    return f'<p class="of">{escape(said)}</p><p class="strip">{spans}</p>{charts.scale_bar(top, heads)}'


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
