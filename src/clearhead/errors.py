"""The one exception that means "the user can mend this": one line, what is wrong and what to do."""

import difflib
from collections.abc import Iterable


class ClearheadError(ValueError):
    """A mistake in the input, told in one line. Commands print the message without a traceback."""


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` where something known is spelt like `name`, else nothing. Goes at the end of a message."""
    spelt = {one.lower(): one for one in known}
    matches = [spelt[match] for match in difflib.get_close_matches(name.lower(), spelt, n=3, cutoff=0.5)]
    return "; did you mean " + " or ".join(repr(match) for match in matches) + "?" if matches else ""
