"""Answers that took a while, kept for the next who asks: computed once, however many ask at the same moment."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Remembered(Generic[Answer]):
    """The last `most` answers, by a key that says all they depend on. A failure is told to all and not kept."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Future[Answer]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Answer]) -> Answer:
        with self._lock:
            known = self._kept.get(key)
            mine = known is None
            answer = self._kept.setdefault(key, Future())
            self._kept.move_to_end(key)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        if not mine:
            return answer.result()
        try:
            answer.set_result(make())
        except BaseException as failure:
            with self._lock:
                self._kept.pop(key, None)
            answer.set_exception(failure)
        return answer.result()
