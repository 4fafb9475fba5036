"""Numbers that the page carries in full, in data attributes."""

from playwright.sync_api import Locator

ALL = "(all, names) => all.map((one) => names.map((name) => one.getAttribute(`data-${name}`)))"


def number(of: Locator, name: str) -> float:
    """Of the first element; NaN where it says none."""
    return float(of.first.get_attribute(f"data-{name}") or "nan")


def numbers(of: Locator, name: str) -> list[float]:
    """Of all elements, in the order of the page."""
    return [float(value) for (value,) in of.evaluate_all(ALL, [name])]


def rows(of: Locator, *names: str) -> list[list[str]]:
    """Several attributes of all elements, as they are written."""
    return of.evaluate_all(ALL, list(names))
