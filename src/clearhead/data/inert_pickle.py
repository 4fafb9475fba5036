"""A pickle machine that can't run anything: it knows the few instructions that plain numbers need, and calls nothing.

Names that a pickle asks to import are compared with a list and never imported; a call gives what a recipe of ours makes
of the arguments. A reader is a subclass that says which names and values its files may hold.
"""

import pickletools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import ClearheadError, quoted, shown

MAX_DEPTH = 100
MAX_STACK = 10_000  # picklers write dicts and lists in batches of a thousand

# Instructions that push their argument as it stands, which every reader knows.
COMMON_VALUES = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE"),
        *("BINBYTES", "SHORT_BINBYTES"),
    }
)


@dataclass(frozen=True)
class Name:
    """Something that the pickle asks to import. It never is."""

    path: str


class Machine:
    """The stack, the marks and the memo of one pickle.

    things, thing, file   what the files hold, and what they are, in the words of messages
    names     "module name" of what may be mentioned; recipes: of what may be called, and what a call gives
    values    instructions that push their argument
    keys      kinds of values that a dict may have as keys: hashing tuples of tuples of tuples could take for ever
    largest   bytes that the pickle may have
    """

    things: ClassVar[str]
    thing: ClassVar[str]
    file: ClassVar[str]
    names: ClassVar[Collection[str]] = ()
    recipes: ClassVar[Mapping[str, Callable[..., Any]]]
    values: ClassVar[frozenset[str]] = COMMON_VALUES
    keys: ClassVar[tuple[type, ...]] = (str, int)
    largest: ClassVar[int | None] = None

    def __init__(self, label: str) -> None:
        self.label = label
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def read(self, stream: Any) -> Any:
        """The object of the next pickle in a binary stream."""
        try:
            return self._run(stream)
        except ClearheadError:
            raise
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise ClearheadError(f"{self.label} is no {self.file}, or is damaged: {shown(error)}") from None

    def _run(self, stream: Any) -> Any:
        begin = stream.tell()
        for opcode, argument, position in pickletools.genops(stream):
            if opcode.name in self.values:
                self.stack.append(argument)
            elif opcode.name in ACTIONS:
                ACTIONS[opcode.name](self, argument)
            else:
                self.refuse(opcode.name)
            if len(self.stack) > MAX_STACK or len(self.marked) > MAX_DEPTH:
                raise ValueError(f"it is nested more deeply than {self.things} need")
            if self.largest is not None and position - begin > self.largest:
                raise ValueError(f"it describes more than {self.things} need")
        (value,) = self.stack
        return value

    def refuse(self, instruction: str) -> None:
        raise ValueError(f"it uses {instruction}, which {self.things} don't need; no code was run")

    # ------------------------------------------------------------------------------ what a reader may say otherwise

    def kind(self, value: object) -> str:
        """What a value is, in a word for messages."""
        return type(value).__name__

    def build(self, target: Any, state: Any) -> None:
        """BUILD: give an object its state; it stays on the stack."""
        self.refuse("BUILD")

    def persistent(self, identity: Any) -> None:
        """BINPERSID: push what lies elsewhere in the file under this identity."""
        self.refuse("BINPERSID")

    # ------------------------------------------------------------------------------------------------- instructions

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marked.pop()
        return items

    def last(self, count: int) -> list[Any]:
        return [self.stack.pop() for _ in range(count)][::-1]

    def push_tuple(self, items: list[Any]) -> None:
        self.stack.append(tuple(items))

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def name(self, path: str) -> None:
        if path not in self.names and path not in self.recipes:
            asked = quoted(path.replace(" ", "."))
            raise ClearheadError(
                f"{self.label} asks to run {asked}, which plain {self.things} never need; no code was run"
            )
        self.stack.append(Name(path))

    def name_from_stack(self, parts: list[Any]) -> None:
        self.name(" ".join(part if isinstance(part, str) else self.kind(part) for part in parts))

    def reduce(self, name: Any, arguments: Any) -> None:
        recipe = self.recipes.get(name.path) if isinstance(name, Name) else None
        if recipe is None:
            raise ValueError(f"it calls something that is no {self.thing}'s description; no code was run")
        self.stack.append(recipe(*arguments))

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError("it sets items of something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, self.keys):
                raise ValueError(f"it uses a {self.kind(key)} as a key")
            target[key] = value

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it appends to something that is no list")
        self.stack[-1].extend(items)


ACTIONS: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": lambda m, _: None,
    "FRAME": lambda m, _: None,
    "STOP": lambda m, _: None,
    "NONE": lambda m, _: m.stack.append(None),
    "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "MARK": lambda m, _: m.mark(),
    "TUPLE": lambda m, _: m.push_tuple(m.since_mark()),
    "TUPLE1": lambda m, _: m.push_tuple(m.last(1)),
    "TUPLE2": lambda m, _: m.push_tuple(m.last(2)),
    "TUPLE3": lambda m, _: m.push_tuple(m.last(3)),
    "SETITEM": lambda m, _: m.set_items(m.last(2)),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "APPEND": lambda m, _: m.extend(m.last(1)),
    "APPENDS": lambda m, _: m.extend(m.since_mark()),
    "BINPUT": lambda m, index: m.remember(index),
    "LONG_BINPUT": lambda m, index: m.remember(index),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    "BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "LONG_BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "GLOBAL": lambda m, path: m.name(path),
    "STACK_GLOBAL": lambda m, _: m.name_from_stack(m.last(2)),
    "REDUCE": lambda m, _: m.reduce(*m.last(2)),
    "BUILD": lambda m, _: m.build(*m.last(2)),
    "BINPERSID": lambda m, _: m.persistent(*m.last(1)),
}
