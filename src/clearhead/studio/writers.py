"""What writes, for any model of the shelf that can: a trained one as its folder says, a random one with your words."""

from dataclasses import dataclass

from ..decode import check_decodes, continues
from ..errors import ClearheadError
from ..tasks.writer import Writer, writer
from .inputs import MOST_TOKENS
from .schema import Inputs, Token
from .shelf import Opened
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class Writing:
    """A writer, what names its tokens, and the numbers of the prompt or source."""

    writes: Writer
    words: Vocabulary
    ids: list[int]

    @property
    def begin(self) -> list[int]:
        """What an answer begins with before anything is written; nothing where the prompt itself goes on."""
        if self.writes.continues:
            return []
        first = self.writes.model.start_token
        return list(self.writes.prefix or ([] if first is None else [first]))

    @property
    def given(self) -> list[Token]:
        return [self.words.source.token(number) for number in self.ids]

    def tokens(self, numbers: list[int]) -> list[Token]:
        return [self.words.target.token(number) for number in numbers]

    def text(self, numbers: list[int]) -> str:
        """Without the token that ended it, and without numbers that nobody named."""
        kept = numbers[:-1] if numbers and numbers[-1] in self.writes.end else numbers
        return self.words.target.tok.text(kept)


def writing(opened: Opened, inputs: Inputs, target: str = "") -> Writing:
    """Ready to write. `target` is what the answer should be, where its words must be known too."""
    model = opened.model
    check_decodes(model)
    field = "text" if continues(model) else "source"  # pyright: ignore[reportArgumentType]
    idle = [name for name, value in inputs.model_dump(exclude={field}).items() if value]
    if idle:
        raise ClearheadError(f"a {model.family} model writes from a {field}: leave out the {' and the '.join(idle)}")
    given = getattr(inputs, field) or ""
    if not given.strip():
        raise ClearheadError(f"the {field} is empty: there is nothing to start from")
    words = opened.words.of(given, target)
    writes = writer(model) if words.note is None else _of_random(opened, words)
    ids = writes.ids(given)
    if len(ids) > MOST_TOKENS:
        raise ClearheadError(f"the {field} has {len(ids):,} tokens, and {MOST_TOKENS:,} are read at most: shorten it")
    return Writing(writes, words, ids)


def _of_random(opened: Opened, words: Vocabulary) -> Writer:
    """Random weights have no folder that says how texts end: the vocabulary's own marks do."""
    model, marks = opened.model, words.target.tok.special
    nameless = {*range(model.config.vocab)} - {*words.target.spelt}
    begins = [n for n in (model.start_token, marks.get("bos"), marks.get("pad")) if n is not None][:1]
    both = not continues(model)  # pyright: ignore[reportArgumentType]
    return Writer(
        model,
        words.source.tok,
        words.target.tok,
        end=frozenset(marks[role] for role in ("eos",) if role in marks),
        never=frozenset(nameless | {marks["pad"]}),
        prefix=tuple(begins) if both and model.start_token is None else None,
    )
