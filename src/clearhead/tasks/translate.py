"""`translate`: lines from one language into another by beam search, and what each word was read from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from ..decode import Beams, Hypothesis, Search, beam_search
from ..decode.protocol import padded
from ..errors import ClearheadError
from ..trace import Recorder
from .embed import answering
from .writer import Writer, writer

STRIDE = 8  # sources whose lengths round up to the same multiple of this have the same limit, and run together
AHEAD = 8  # how many batches of lines are sorted by length at a time; their results come together


@dataclass(frozen=True)
class Alignment:
    """weights (target tokens, source tokens) of cross-attention; `strongest` is each target token's best source."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Tensor

    @property
    def strongest(self) -> tuple[int, ...]:
        return tuple(self.weights.argmax(-1).tolist())


@dataclass(frozen=True)
class Translation:
    """`score` is logprob / length^penalty, by which translations are ranked; an end token is among the tokens."""

    text: str
    score: float
    logprob: float
    tokens: tuple[int, ...]
    alignment: Alignment | None = None


EMPTY = Translation("", 0.0, 0.0, ())


def translate(
    model: nn.Module,
    lines: str | Sequence[str],
    *,
    beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
    best: int = 1,
    length: int | None = None,
    batch: int = 16,
    prefix: str = "",
    align: bool = False,
    on_line: Callable[[int, list[Translation]], None] = lambda number, translations: None,
    on_search: Callable[[int, Search], None] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[Translation]]:
    """For each line its `best` translations, the best first. A blank line has one, which is empty.

    length     the most tokens of a translation; about 2 x source + 10 unless given, within the context
    batch      how many lines run together; it changes the speed, not the translations
    prefix     put before every line: T5 is told its task so, as in "translate English to German: "
    align      read from cross-attention which source tokens each token was translated from (`aligned`)
    on_line    called with (line's number from 0, its translations), in order, as soon as the lines before are done
    on_search  called with (line's number, its search with the tree of all hypotheses), in the order of the work
    progress   called with the number of lines that were finished together
    """
    wanted = Beams(beams, length_penalty, early_stopping, 1 if length is None else length)
    if type(best) is not int or not 1 <= best <= beams:
        raise ClearheadError(f"{beams} beams give 1 to {beams} translations of a line, not {best!r}")
    if type(batch) is not int or batch < 1:
        raise ClearheadError(f"a batch holds at least one line, not {batch!r}")
    writes, given = translator(model), [lines] if isinstance(lines, str) else list(lines)
    room = writes.room(())
    if length is not None and room is not None and length > room:
        raise ClearheadError(f"a translation has room for {room} tokens in the context, not for {length}")
    sources = source_rows(writes, given, prefix)

    def together(numbers: list[int], limit: int) -> list[list[Translation]]:
        rows = [sources[number] for number in numbers]
        searches = _searched(writes, rows, replace(wanted, length=limit), on_search is not None)
        for number, search in zip(numbers, searches, strict=True):
            if on_search is not None:
                on_search(number, search)
        progress(len(numbers))
        return _translations(writes, rows, [search.finished[:best] for search in searches], align)

    found: dict[int, list[Translation]] = {}
    with answering(writes.model):
        for start in range(0, len(given), AHEAD * batch):
            chunk = range(start, min(start + AHEAD * batch, len(given)))
            found |= {number: [EMPTY] for number in chunk}
            for numbers, limit in _batches(writes, {n: len(sources[n]) for n in chunk if sources[n]}, length, batch):
                found |= dict(zip(numbers, together(numbers, limit), strict=True))
            progress(sum(not sources[number] for number in chunk))
            for number in chunk:
                on_line(number, found[number])
    return [found[number] for number in range(len(given))]


def translator(model: nn.Module) -> Writer:
    """A writer that answers a source; a model that goes on with a text is refused."""
    writes = writer(model)
    if writes.continues:
        raise ClearheadError(
            f"a {writes.model.family} model goes on with a text: translating needs a transformer or t5"
        )
    return writes


def source_rows(writes: Writer, lines: Sequence[str], prefix: str = "") -> list[list[int]]:
    """The lines as numbers, blank ones as none. All are looked at before any work: a bad one names its line."""
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(writes.ids(prefix + line) if line.strip() else [])
        except ClearheadError as mistake:
            raise ClearheadError(f"line {number}: {mistake}") from None
        if writes.context is not None and len(rows[-1]) > writes.context:
            raise ClearheadError(
                f"line {number} has {len(rows[-1])} tokens and the context is {writes.context}: shorten it"
            )
    return rows


def aligned(writes: Writer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
    """From which source tokens each target token was translated, read from a second pass over whole translations.

    Taken are the cross-attention weights of the decoder's last-but-one layer (of the only one, where there is one),
    averaged over its heads: of a trained translator's layers that one comes nearest to what people align (Garg et al.
    2019, "Jointly Learning to Align and Translate"). A token's row holds the weights by which it was predicted.
    """
    model, begin = writes.model, writes.prefix or (writes.model.start_token,)
    layers = len(model.decoder.blocks)
    site = f"decoder.blocks.{max(0, layers - 2)}.cross.weights"
    source, lengths = padded(sources, model.device)
    target, _ = padded([[*begin, *tokens[:-1]] for tokens in targets], model.device)
    with answering(model), Recorder(model, site) as trace:
        model.hidden(source, target, lengths)
    weights = trace[site].float().mean(1)
    first = len(begin) - 1
    return [
        Alignment(
            tuple(writes.source.pieces(given)),
            writes.pieces(tokens),
            weights[row, first : first + len(tokens), : len(given)].clone(),
        )
        for row, (given, tokens) in enumerate(zip(sources, targets, strict=True))
    ]


def _batches(
    writes: Writer, lengths: dict[int, int], length: int | None, batch: int
) -> Iterator[tuple[list[int], int]]:
    """Lines that run together, with the most tokens that they may get: a line's own length settles it, not others'."""
    limits = {number: length or _limit(writes, count) for number, count in lengths.items()}
    order = sorted(lengths, key=lambda number: (limits[number], lengths[number]))
    while order:
        limit = limits[order[0]]
        numbers = [number for number in order[:batch] if limits[number] == limit]
        yield numbers, limit
        order = order[len(numbers) :]


def _limit(writes: Writer, count: int) -> int:
    wanted = 2 * (-(-count // STRIDE) * STRIDE) + 10
    room = writes.room(())
    return wanted if room is None else min(wanted, room)


def _searched(writes: Writer, rows: list[list[int]], beams: Beams, tree: bool) -> list[Search]:
    return beam_search(writes.model, rows, beams, end=writes.end, never=writes.never, prefix=writes.prefix, tree=tree)


def _translations(
    writes: Writer, rows: list[list[int]], finished: list[list[Hypothesis]], align: bool
) -> list[list[Translation]]:
    flat = [(row, hypothesis) for row, found in zip(rows, finished, strict=True) for hypothesis in found]
    alignments: list[Alignment | None] = [None] * len(flat)
    if align and flat:
        alignments = [*aligned(writes, [row for row, _ in flat], [hypothesis.tokens for _, hypothesis in flat])]
    made = iter(
        Translation(text_of(writes, found.tokens), found.score, found.logprob, found.tokens, alignment)
        for (_, found), alignment in zip(flat, alignments, strict=True)
    )
    return [[next(made) for _ in found] for found in finished]


def text_of(writes: Writer, tokens: Sequence[int]) -> str:
    """The text without the token that ended it."""
    return writes.target.text(tokens[:-1] if tokens[-1] in writes.end else tokens)
