"""The one exception that means "the user can mend this": one line, what is wrong and what to do."""

import difflib
from collections.abc import Iterable, Sequence


class ClearheadError(ValueError):
    """A mistake in the input, told in one line. Commands print the message without a traceback."""


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` where something known is spelt like `name`, else nothing. Goes at the end of a message."""
    spelt = {one.lower(): one for one in known}
    matches = [spelt[match] for match in difflib.get_close_matches(name.lower(), spelt, n=3, cutoff=0.5)]
    return "; did you mean " + " or ".join(repr(match) for match in matches) + "?" if matches else ""


def shown(text: object, limit: int = 240) -> str:
    """`text` made fit for a one-line message: what can't be printed is escaped, the middle of a long one is cut."""
    line = str(text)
    if len(line) > limit:
        line = f"{line[: limit // 2]}...{line[-limit // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def quoted(name: object) -> str:
    """A tensor's or key's name between quotes, fit for a one-line message."""
    return f"'{shown(name, 120)}'"


def some(names: Sequence[object]) -> str:
    """The first few of many names, for a one-line message."""
    return ", ".join(map(quoted, names[:3])) + (", ..." if len(names) > 3 else "")
