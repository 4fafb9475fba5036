"""What the server says when it can't do what it was asked: one line, in words, with the status that fits."""

from ..errors import ClearheadError


class Unknown(ClearheadError):
    """There is no such thing, or no longer: answered with 404, all other mistakes with 400."""
