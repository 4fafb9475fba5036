"""The line of code that computes a value, looked up in the source as it is installed: it can't go stale."""

import inspect
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import ClearheadError
from ..schema import Code

PACKAGE = Path(__file__).parents[2]


@cache
def code(of: Any, words: str) -> Code:
    """The first line of a module, class or function that holds these words."""
    lines, start = inspect.getsourcelines(of)
    for number, line in enumerate(lines, max(start, 1)):  # a module's lines are said to start at 0
        if words in line:
            return Code(file=Path(inspect.getfile(of)).relative_to(PACKAGE).as_posix(), line=number)
    raise ClearheadError(f"no line of {of.__name__} holds {words!r}")


def tapped(of: Any, site: str) -> Code:
    """Where a site's value is shown to the recorder."""
    return code(of, f'"{site.rpartition(".")[2]}"')
