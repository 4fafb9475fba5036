"""`fill`: the words that could stand where a text has a blank, by a BERT's masked words or by T5's sentinels."""

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..data import Tokenizer
from ..errors import ClearheadError
from ..models.bert import BERT
from ..models.t5 import T5
from ..runs import tokenizer
from ..trace import underneath
from .embed import answering, encoder_and_tokenizer
from .translate import translate

BLANK = r"_{3,}"  # a person's blank, whatever the model's own token for it
SENTINEL = r"<extra_id_\d+>"
WITH_WORDS = ("fill", "pretrain")
BEAMS = 4


@dataclass(frozen=True)
class Guess:
    """A word as the vocabulary spells it (`##ing` goes on with the one before), its tokens, how likely it is."""

    word: str
    tokens: tuple[int, ...]
    probability: float


@dataclass(frozen=True)
class Filled:
    """`text` has the best word in every blank; `blanks` holds each one's best words, the best first."""

    text: str
    blanks: tuple[tuple[Guess, ...], ...]


def fill(model: nn.Module, text: str, top: int = 5, one_by_one: bool = False) -> Filled:
    """The `top` most likely words for every blank of a text: the tokenizer's mask token, or `___`.

    A BERT fills several blanks independently, none of them knowing the others' words; `one_by_one` fills the surest
    first and reads again, so that each word is given those before it. T5 (blanks are `<extra_id_0>` and so on, or
    `___`) writes all of them together, of any length: a word's probability is the sum over the answers that have it
    among those that beam search found.
    """
    if type(top) is not int or top < 1:
        raise ClearheadError(f"at least one word is asked for, not {top!r}")
    target = underneath(model)
    if isinstance(target, T5):
        if one_by_one:
            raise ClearheadError("a T5 fills its blanks together: one by one is for a BERT")
        return _by_sentinels(target, text, top)
    reader, tok = _masked_reader(target)
    parts = _parts(text, re.escape(_mask(tok)), _mask(tok))
    ids = torch.tensor([tok.ids(_mask(tok).join(parts))], device=reader.device)
    with answering(reader):
        blanks = _one_by_one(reader, tok, ids, top) if one_by_one else _independent(reader, tok, ids, top)
    return Filled(_put_in(parts, [guesses[0].word for guesses in blanks]), tuple(blanks))


def count_blanks(model: nn.Module, text: str) -> int:
    """How many blanks `fill` finds; none at all is refused, and so is a model that fills none."""
    target = underneath(model)
    if isinstance(target, T5):
        return len(_parts(text, SENTINEL, "<extra_id_0>")) - 1
    mask = _mask(_masked_reader(target)[1])
    return len(_parts(text, re.escape(mask), mask)) - 1


def _masked_reader(model: nn.Module) -> tuple[BERT, Tokenizer]:
    if not isinstance(model, BERT):
        raise ClearheadError(f"blanks are filled by a BERT or a T5, not by a {type(model).__name__}")
    if model.config.task not in WITH_WORDS:
        task = f"its task is {model.config.task!r}" if model.config.task else "it has no task"
        raise ClearheadError(f"this BERT has no masked words ({task}): give one of task {' or '.join(WITH_WORDS)}")
    return encoder_and_tokenizer(model)


def _mask(tok: Tokenizer) -> str:
    if "mask" not in tok.special:
        raise ClearheadError("the model's tokenizer has no mask token: it was not made for filling blanks")
    return tok.pieces([tok.special["mask"]])[0]


def _parts(text: str, own: str, spelt: str) -> list[str]:
    """What stands around the blanks."""
    parts = re.split(f"{own}|{BLANK}", text)
    if len(parts) == 1:
        raise ClearheadError(f"the text has no blank: put {spelt} or ___ where words are wanted")
    return parts


def _independent(model: BERT, tok: Tokenizer, ids: Tensor, top: int) -> list[tuple[Guess, ...]]:
    places = _places(ids, tok)
    return [_guesses(tok, row, top) for row in _probabilities(model, tok, ids, places)]


def _one_by_one(model: BERT, tok: Tokenizer, ids: Tensor, top: int) -> list[tuple[Guess, ...]]:
    """The surest blank is filled with its best word, then the text is read again."""
    found: dict[int, tuple[Guess, ...]] = {}
    while (places := _places(ids, tok)).numel():
        rows = _probabilities(model, tok, ids, places)
        rows[:, tok.special["mask"]] = 0.0  # a blank can't be filled with a blank
        surest = int(rows.amax(-1).argmax())
        place = int(places[surest])
        found[place] = _guesses(tok, rows[surest], top)
        ids[0, place] = found[place][0].tokens[0]
    return [found[place] for place in sorted(found)]


def _places(ids: Tensor, tok: Tokenizer) -> Tensor:
    return (ids[0] == tok.special["mask"]).nonzero()[:, 0]


def _probabilities(model: BERT, tok: Tokenizer, ids: Tensor, places: Tensor) -> Tensor:
    """(blanks, vocab) on the CPU. A number that the vocabulary lacks is no word."""
    scores = model.masked_words(model.hidden(ids)[0, places], model.input.tokens).float().cpu()
    nameless = sorted(set(range(scores.shape[-1])) - set(tok.vocabulary.values()))
    scores[:, nameless] = -math.inf
    return scores.softmax(-1)


def _guesses(tok: Tokenizer, probabilities: Tensor, top: int) -> tuple[Guess, ...]:
    best = probabilities.topk(min(top, tok.size))
    numbers = best.indices.tolist()
    words = (piece.strip() or piece for piece in tok.pieces(numbers))
    return tuple(
        Guess(word, (number,), probability)
        for word, number, probability in zip(words, numbers, best.values.tolist(), strict=True)
    )


def _put_in(parts: list[str], words: list[str]) -> str:
    """The text with its blanks filled; a piece such as `##ing` is joined to what stands before it."""
    text = parts[0]
    for word, after in zip(words, parts[1:], strict=True):
        text = text.rstrip() + word[2:] if word.startswith("##") and len(word) > 2 else text + word
        text += after
    return text


def _by_sentinels(model: T5, text: str, top: int) -> Filled:
    """T5's first task: the answer names each sentinel, and behind it the words that it stands for."""
    tok, parts = tokenizer(model), _parts(text, SENTINEL, "<extra_id_0>")
    names = [f"<extra_id_{number}>" for number in range(len(parts))]
    for name in names[:-1]:
        if name not in tok.vocabulary:
            raise ClearheadError(f"the model's tokenizer has no {name}: it fills fewer blanks than {len(parts) - 1}")
    asked = parts[0] + "".join(name + part for name, part in zip(names, parts[1:], strict=False))
    answers = translate(model, asked, beams=max(BEAMS, top), best=max(BEAMS, top))[0]
    written = [_behind_sentinels(tok, answer.tokens, len(parts) - 1) for answer in answers]
    blanks = []
    for number in range(len(parts) - 1):
        guesses: dict[str, Guess] = {}
        for answer, chosen in zip(answers, written, strict=True):
            word = tok.text(chosen[number]).strip()
            before = guesses.get(word, Guess(word, chosen[number], 0.0))
            guesses[word] = Guess(word, before.tokens, before.probability + math.exp(answer.logprob))
        blanks.append(tuple(sorted(guesses.values(), key=lambda guess: -guess.probability)[:top]))
    best = [tok.text(tokens).strip() for tokens in written[0]]
    return Filled(_put_in(parts, best), tuple(blanks))


def _behind_sentinels(tok: Tokenizer, tokens: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """For each sentinel the tokens up to the next one; none where the answer leaves it out."""
    sentinels = {number: name for name, number in tok.vocabulary.items() if re.fullmatch(SENTINEL, name)}
    found: dict[str, list[int]] = {}
    current: list[int] = []
    for token in tokens:
        if token in sentinels:
            current = found.setdefault(sentinels[token], [])
        else:
            current.append(token)
    return [tuple(found.get(f"<extra_id_{number}>", ())) for number in range(count)]
