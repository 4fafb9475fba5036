"""`dates`: a calendar date written in one language, to be written long in another. Nothing is downloaded.

    en>ne: Friday, May 3, 2024  ->  २०२४ मे ३

The words and their order are CLDR's, by way of Babel; digits are those that the language writes by default, so
Nepali's are Devanagari. The source is written in one of four ways: in numbers with the whole year, medium, long, or
full with the day of the week. The target is always long, and so there is one right answer.
"""

import datetime
from collections.abc import Callable, Sequence
from functools import cache

from ..errors import ClearheadError, near
from .kinds import Dataset, Parallel
from .text_files import lot, require

LANGUAGES = ("en", "ne", "de", "fr", "es", "hi")
FORMATS = ("numbers", "medium", "long", "full")
FIRST_DAY, LAST_DAY = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
DIGITS = {"latn": "0123456789", "deva": "०१२३४५६७८९"}


def dates(directions: str | Sequence[str] | None = None, per_date: int = 2, seed: int = 0) -> Dataset[Parallel]:
    """Every day from 1950 to 2049: 90% of the days are train, 5% valid, 5% test, whatever the language.

    `directions` are such as "ne>en"; without them, all 30 between six languages. Of several, each source begins with
    its own ("ne>en: "). A day of train is written `per_date` times, each in a direction and a format drawn for it; one
    of valid and test once.
    """
    every = [f"{source}>{target}" for source in LANGUAGES for target in LANGUAGES if source != target]
    directions = [directions] if isinstance(directions, str) else directions
    chosen = list(dict.fromkeys(every if directions is None else directions))
    for direction in chosen:
        require(direction in every, f"no direction {direction!r} of dates{near(direction, every)}")
    require(chosen and per_date >= 1, "dates need a direction, and each day at least one writing")
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for ordinal in range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1):
        day = datetime.date.fromordinal(ordinal)
        drawn = lot(f"day {day}", seed)
        part = "test" if drawn < 0.05 else "valid" if drawn < 0.1 else "train"
        for copy in range(per_date if part == "train" else 1):
            rows[part].append(_row(day, chosen, lot(f"copy {copy} of {day}", seed)))
    parts = {part: Parallel(*map(list, zip(*pairs, strict=True))) for part, pairs in rows.items()}
    languages = tuple(chosen[0].split(">")) if len(chosen) == 1 else ("many", "many")
    notes = (f"split by day; words from CLDR by way of Babel {_babel().__version__}",)
    return Dataset("dates", "parallel", parts, languages=(languages[0], languages[1]), notes=notes)


def _row(day: datetime.date, directions: Sequence[str], drawn: float) -> tuple[str, str]:
    """One day in the direction and the format that its lot says."""
    direction, style = divmod(int(drawn * len(directions) * len(FORMATS)), len(FORMATS))
    source, target = directions[direction].split(">")
    prefix = f"{directions[direction]}: " if len(directions) > 1 else ""
    return prefix + written(day, source, FORMATS[style]), written(day, target, "long")


def written(day: datetime.date, language: str, style: str) -> str:
    """A day as a language writes it."""
    return _writer(language, style)(day)


@cache
def _writer(language: str, style: str) -> Callable[[datetime.date], str]:
    babel = _babel()
    locale = babel.Locale.parse(language)
    pattern = locale.date_formats["short" if style == "numbers" else style].pattern
    if style == "numbers":
        pattern = pattern.replace("yy", "y")  # two digits leave the century open
    parsed = babel.dates.parse_pattern(pattern)
    numbers = str.maketrans(DIGITS["latn"], DIGITS[locale.default_numbering_system])
    return lambda day: parsed.apply(day, locale).translate(numbers)


def _babel():
    try:
        import babel
        import babel.dates
    except ImportError:
        raise ClearheadError("the dates are written by Babel, which is not installed: pip install Babel") from None
    return babel
