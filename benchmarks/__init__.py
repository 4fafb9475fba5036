"""Speed beside peers: `python -m benchmarks.forward`, `.decode`, `.training`, `.loading`, `.taps`, `.gpu`, `.busy`.

`.variants` is about learning: what a part of a recipe is worth. `.together` runs many commands within a given time.
"""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of equal columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def aligned(line: Sequence[str]) -> str:
        rest = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        return "  ".join([line[0].ljust(widths[0]), *rest])

    return "\n".join([aligned(header), "-" * len(aligned(header)), *map(aligned, rows)])
