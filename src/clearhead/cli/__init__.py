"""The command line: parse, call, print. Mistakes of the user end in one line and exit code 2."""

from .app import main

__all__ = ["main"]
