"""`phrases`: 80 everyday phrases in Nepali and English, our own, so that a small translator can greet. No download.

A fifth is held out, drawn by the letters of the Nepali side; the decks' greeting is always one to learn.
"""

from pathlib import Path

from ..files import read_json
from .kinds import Dataset, Parallel
from .text_files import lot, require

GREETING = "नमस्ते, कस्तो हुनुहुन्छ?"
HELD_OUT = 0.2


def phrases(source: str = "ne", target: str = "en") -> Dataset[Parallel]:
    """Four fifths to learn from, one fifth to test."""
    require({source, target} == {"ne", "en"}, f"the phrases are in Nepali and English (ne, en), not {source}, {target}")
    pairs = read_json(Path(__file__).with_name("phrases.json"))["phrases"]
    test = [pair for pair in pairs if lot(pair[0]) < HELD_OUT and pair[0] != GREETING]
    chosen = {"train": [pair for pair in pairs if pair not in test], "test": test}
    order = (0, 1) if source == "ne" else (1, 0)
    parts = {part: Parallel(*([pair[side] for pair in some] for side in order)) for part, some in chosen.items()}
    return Dataset(
        "phrases", "parallel", parts, languages=(source, target), notes=("our own phrases, no text of others",)
    )
