"""What every family shares: a checked, frozen config, a model split into `hidden` and `head`, a registry entry."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, get_args

import torch
from torch import Generator, Tensor, nn

from ..errors import ClearheadError, near
from ..layers import Cache, Encoded, State

# No published model comes near these: a config that asks for more is a mistake, refused before anything is built.
DEEPEST = 1 << 12
LARGEST = 1 << 24


PLAIN: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    NoneType: "none",
}


def _is(value: Any, kind: type) -> bool:
    """Whole numbers are numbers; true and false are none."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


@dataclass(frozen=True, kw_only=True)
class Config:
    """A family's architecture. Subclasses add fields and say in `check` what is impossible."""

    def __post_init__(self) -> None:
        try:
            self.check()  # first: a family says more precisely what it wants
        except TypeError:
            self._check_kinds()
            raise
        self._check_kinds()

    def check(self) -> None:
        """Raise a one-line error for an architecture that can't be built."""

    def _check_kinds(self) -> None:
        """Fields that hold plain values or a record of their own hold nothing else."""
        for field in fields(self):
            value = getattr(self, field.name)
            options: tuple[Any, ...] = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
            records = [kind for kind in options if isinstance(kind, type) and issubclass(kind, Config)]
            if all(kind in PLAIN or kind in records for kind in options):
                fits = any(_is(value, kind) for kind in options)
                spoken = [f"settings of its own ({field.name}.{fields(kind)[0].name}=...)" for kind in records]
                spoken += [PLAIN[kind] for kind in options if kind in PLAIN and (records or kind is not NoneType)]
                self.require(fits, f"{field.name} must be {' or '.join(spoken)}, not {value!r}")

    def with_changes(self, **changes: Any) -> Self:
        """The same architecture but for these fields; an unknown field is an error that names the nearest."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise ClearheadError(f"{type(self).__name__} has no field '{name}'{near(name, known)}")
        return replace(self, **changes)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise ClearheadError(f"{cls.__name__} has no field '{name}'{near(name, known)}")
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise ClearheadError(message)

    def require_sizes(self, *names: str) -> None:
        """These fields are whole numbers from 1 to something that could exist."""
        for name in names:
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            most = DEEPEST if name == "layers" else LARGEST
            self.require(
                whole and 1 <= value <= most, f"{name} must be a whole number from 1 to {most:,}, not {value!r}"
            )

    def require_probabilities(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            self.require(
                isinstance(value, int | float) and 0 <= value < 1,
                f"{name} must be at least 0 and below 1, not {value!r}",
            )

    def require_weights(self, *names: str) -> None:
        """How much something counts, from nothing on."""
        for name in names:
            value = getattr(self, name)
            given = isinstance(value, int | float) and 0 <= value < 1e6
            self.require(given, f"{name} must be a number from 0, not {value!r}")

    def require_choice(self, name: str, choices: Mapping[str, Any] | tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in list(choices):
            raise ClearheadError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


@dataclass(frozen=True)
class Origin:
    """Where a model's weights come from: a name with random weights (and their seed), or a folder or file."""

    name: str
    folder: str | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def random(self) -> bool:
        return self.folder is None

    def __str__(self) -> str:
        if self.folder is not None:
            return self.folder
        return f"{self.name} (random weights, {'no seed' if self.seed is None else f'seed {self.seed}'})"


class Model(nn.Module):
    """A pass is `head(hidden(...))`: a loss may fuse the head, decoding may ask it for the last position alone."""

    family: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = ("text",)  # what a person gives it: a text, an image, or a source and a target
    config: Any
    origin: Origin = Origin("a model built by hand")
    float8: bool = False  # while it learns, its last product is in 8 bits: set by train/token_loss.py

    @property
    def catalogue(self) -> str:
        """Which of the lists in trace/sites.py names what it computes."""
        return self.family

    def hidden(self, *inputs: Any, **options: Any) -> Any:
        raise NotImplementedError

    def head(self, hidden: Any) -> Any:
        raise NotImplementedError

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self.head(self.hidden(*inputs, **options))

    def initialise(self, random: Generator | None = None) -> None:
        """Fill every weight once, as the paper or its authors' code does."""
        raise NotImplementedError

    def example(self, batch: int = 2, random: Generator | None = None) -> tuple[Tensor, ...]:
        """Inputs that this model takes, for tests, benchmarks and export."""
        raise NotImplementedError

    def reset_buffers(self) -> None:
        """Compute the tables that are never saved, after the model left the meta device."""
        for module in self.modules():
            if module is not self and hasattr(module, "reset_buffers"):
                module.reset_buffers()  # pyright: ignore[reportCallIssue]

    @property
    def start_token(self) -> int | None:
        """The number of the token that a target begins with, where the config settles it."""
        return None

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype


class WritingModel(Model):
    """A model that writes one token after the other: `start` reads what is given, `step` goes on."""

    def start(self, ids: Tensor, lengths: Tensor | None = None, **options: Any) -> State:
        """Read prompts or sources (B,L); the state's logits score the first token that is written."""
        raise NotImplementedError

    def next_logits(self, tokens: Tensor, state: State) -> Tensor:
        """What a step computes, between `begin` and `advance`: tensors alone, so it compiles and can be captured."""
        raise NotImplementedError

    def check_room(self, used: int) -> None:
        """Refuse a row of `used` tokens and one more where there is no position for it."""

    def step(self, tokens: Tensor, state: State) -> Tensor:
        """One token (B,) joins each row -> logits (B,vocab) of the next, kept in the state too."""
        self.check_room(state.cache.used)
        state.cache.begin(1)
        state.logits = self.next_logits(tokens, state)
        state.cache.advance(1)
        return state.logits


class EncoderDecoder(WritingModel):
    """A source is read once (`encode`), a target is written from it (`decode`). A family adds how."""

    takes = ("source", "target")

    def encode(self, source: Tensor, source_lengths: Tensor | None = None) -> Encoded:
        """source (B,S), its rows' true lengths (B,) when some are padded -> what the decoder asks: computed once."""
        raise NotImplementedError

    def decoded(self, target: Tensor, encoded: Encoded, cache: Cache | None = None) -> Tensor:
        """target (B,T) -> (B,T,width): a pass of the decoder, between `begin` and `advance` where there is a cache."""
        raise NotImplementedError

    def new_cache(self, batch: int, size: int | None = None, bucket: int | None = None) -> Cache:
        raise NotImplementedError

    def decode(
        self, target: Tensor, encoded: Encoded, target_lengths: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """target (B,T) -> (B,T,width). With a cache, target holds the tokens that come next in each row: they join it.

        Padding needs no mask here: it stands behind every true token, where none of them may look.
        """
        count = target.shape[1]
        self.check_room(count - 1 + (0 if cache is None else cache.used))
        if cache is None:
            return self.decoded(target, encoded)
        cache.begin(count)
        x = self.decoded(target, encoded, cache)
        cache.advance(count, target_lengths)
        return x

    def hidden(
        self,
        source: Tensor,
        target: Tensor,
        source_lengths: Tensor | None = None,
        target_lengths: Tensor | None = None,
    ) -> Tensor:
        """source (B,S), target (B,T) -> (B,T,width): the whole target at once, as in training."""
        return self.decode(target, self.encode(source, source_lengths), target_lengths)

    def start(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        *,
        prefix: Tensor | None = None,
        room: int | None = None,
        bucket: int | None = None,
    ) -> State:
        """Encode the sources (B,S) and read how their targets begin: `prefix` (B,P), the start token unless given."""
        if prefix is None:
            if self.start_token is None:
                raise ClearheadError("the model's config names no start_token: say how the target begins")
            prefix = torch.full((len(ids), 1), self.start_token, device=self.device)
        cache, encoded = self.new_cache(len(ids), room, bucket), self.encode(ids, lengths)
        return State(cache, self.head(self.decode(prefix, encoded, cache=cache)[:, -1]), encoded)

    def next_logits(self, tokens: Tensor, state: State) -> Tensor:
        assert state.encoded is not None
        return self.head(self.decoded(tokens[:, None], state.encoded, state.cache)[:, 0])


@dataclass(frozen=True)
class Family:
    """One model file's entry in the registry. `paper` holds what a paper or deck says where the true count differs."""

    name: str
    config: type[Config]
    model: type[Model]
    sizes: Mapping[str, Config]
    shrunken: Config
    paper: Mapping[str, str]
