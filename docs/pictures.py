"""Draw docs/images/deck.svg: the attention of the decks' sentence, with real numbers (`make docs`)."""

from pathlib import Path

from torch import Tensor

import clearhead as ch

CELL, GAP, TOP, LABEL = 44, 34, 66, 78
STEPS = [
    ("query", "Q = X W_Q"),
    ("key", "K = X W_K"),
    ("scores", "Q K^T"),
    ("scaled", "/ sqrt(d_k)"),
    ("masked", "look-ahead mask"),
    ("weights", "softmax"),
    ("value", "V = X W_V"),
    ("output", "weights V"),
]


def colour(value: float, largest: float) -> str:
    """Blue below zero, orange above, pale at it: readable for colour-blind eyes."""
    share = min(abs(value) / largest, 1.0) if largest else 0.0
    end = (230, 126, 34) if value > 0 else (52, 110, 190)
    return "#" + "".join(f"{round(248 + (channel - 248) * share):02x}" for channel in end)


def cell(x: int, y: int, value: float, largest: float) -> str:
    if value == float("-inf"):
        box = f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="url(#hatch)" stroke="#fff"/>'
        return box + f'<text x="{x + CELL / 2}" y="{y + CELL / 2 + 4}" class="n">-inf</text>'
    box = f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour(value, largest)}" stroke="#fff"/>'
    return box + f'<text x="{x + CELL / 2}" y="{y + CELL / 2 + 4}" class="n">{value:.2f}</text>'


def matrix(x: int, title: str, values: Tensor) -> str:
    finite = [v for v in values.flatten().tolist() if abs(v) != float("inf")]
    largest = max(map(abs, finite))
    rows, columns = values.shape
    cells = "".join(
        cell(x + c * CELL, TOP + r * CELL, values[r, c].item(), largest) for r in range(rows) for c in range(columns)
    )
    shape = f'<text x="{x}" y="{TOP - 10}" class="s">{rows} x {columns}</text>'
    return f'<text x="{x}" y="{TOP - 28}" class="t">{title}</text>{shape}{cells}'


def picture(trace: ch.Trace) -> str:
    tokens = trace.about["tokens"]
    x, parts = LABEL, []
    for row, token in enumerate(tokens):
        parts.append(f'<text x="{LABEL - 8}" y="{TOP + row * CELL + CELL / 2 + 4}" class="l">{token}</text>')
    for site, title in STEPS:
        values = trace[f"decoder.blocks.0.attention.{site}"][0, 0]
        parts.append(matrix(x, title, values))
        x += values.shape[1] * CELL + GAP
    height = TOP + len(tokens) * CELL + 16
    style = (
        "text{font-family:ui-sans-serif,system-ui,sans-serif;fill:#222}.n{font-size:12px;text-anchor:middle}"
        ".t{font-size:15px;font-weight:600}.s{font-size:12px;fill:#666}.l{font-size:13px;text-anchor:end}"
    )
    hatch = (
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="6" height="6" fill="#f4f4f4"/><path d="M0 0V6" stroke="#cfcfcf" stroke-width="2"/>'
        "</pattern></defs>"
    )
    background = f'<rect width="{x}" height="{height}" fill="#fff"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x} {height}" width="{x}" height="{height}">'
        f"<style>{style}</style>{hatch}{background}{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    target = Path(__file__).parent / "images" / "deck.svg"
    target.write_text(picture(ch.record(ch.create("deck", seed=0, device="cpu"))), encoding="utf-8")
    print(f"drew {target.name}")
