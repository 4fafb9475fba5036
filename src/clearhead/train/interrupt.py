"""Ctrl-C: the first ends a run after the update that it is in, with its state saved; a second one ends it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupt:
    """`wanted` turns true with the first Ctrl-C inside `listening`."""

    wanted = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        try:
            before = signal.signal(signal.SIGINT, self._stop)
        except ValueError:  # not the main thread: whoever started it handles signals
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _stop(self, number: int, frame: object) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
