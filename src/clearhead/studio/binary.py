"""Tensors on the wire: little-endian float32, row by row, with headers that say what of the whole they are.

X-Shape  "rows,columns" of the whole (more numbers where there are more dimensions)
X-Slice  "r0,r1,c0,c1": the rows and columns that the body holds
X-Range  "min,max" of the finite values of the whole; "nan,nan" where none is finite
"""

import re

import torch
from torch import Tensor

from ..errors import ClearheadError, shown

LARGEST = 16 * 2**20  # numbers of one answer: 64 MiB

Span = tuple[int, int]


def span(text: str | None, size: int, what: str) -> Span:
    """`a:b` as the rows or columns from a up to, not including, b; all of them where nothing is asked for."""
    if text is None:
        return 0, size
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text, re.ASCII)
    if match is None:
        raise ClearheadError(f"{what} are asked for as a:b, such as 0:64, not as '{shown(text, 40)}'")
    start, end = int(match[1]), int(match[2])
    if not start < end <= size:
        raise ClearheadError(f"{what} {start}:{end} are not within the {size} that there are")
    return start, end


def check_size(rows: Span, columns: Span) -> None:
    count = (rows[1] - rows[0]) * (columns[1] - columns[0])
    if count > LARGEST:
        raise ClearheadError(f"{count:,} numbers are more than one answer holds ({LARGEST:,}): ask for fewer rows")


def packed(values: Tensor) -> bytes:
    return values.detach().to("cpu", torch.float32).contiguous().numpy().astype("<f4", copy=False).tobytes()


def joined(*numbers: float) -> str:
    return ",".join(map(repr, numbers))
