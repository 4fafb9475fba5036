"""One input to one answer: what the command line, the server and the studio call."""

from .record import EXAMPLE_TEXT, prepared, record

__all__ = ["EXAMPLE_TEXT", "prepared", "record"]
