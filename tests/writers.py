"""Tiny folders of models that write: one whose next token is known by construction, and random encoder-decoders."""

import functools
import json
import random
from collections.abc import Mapping
from pathlib import Path

import torch

import clearhead
from clearhead.data import Tokenizer, character_tokenizer, word_tokenizer
from clearhead.data.tokenizers import BYTE_LETTERS
from clearhead.models import create
from clearhead.models.base import Model

ENGLISH = ("the", "a", "cat", "dog", "house", "sees", "eats", "big")
GERMAN = ("das", "ein", "Katze", "Hund", "Haus", "sieht", "frisst", "groß")
DICTIONARY = dict(zip(ENGLISH, GERMAN, strict=True))
STEPS = 150
SPECIAL = {"pad": "<pad>", "unk": "<unk>", "bos": "<start>", "eos": "<end>"}


def chain(following: Mapping[int, int], vocab: int, context: int = 16, sureness: float = 12.0) -> Model:
    """A GPT that knows which token follows which, and nothing else: its blocks add nothing to a one-hot embedding.

    The logit of the known follower is `sureness`, all others are near 0; a token without one has no favourite.
    """
    width = vocab + 1
    model = create(
        "gpt2", vocab=vocab, context=context, width=width, layers=1, heads=1, tied=False, seed=0, device="cpu"
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("out.weight", "out.bias", "down.weight", "down.bias", "positions.weight")):
                weight.zero_()
        model.get_parameter("input.tokens.weight").copy_(torch.eye(vocab, width))
        head = model.get_parameter("output.weight").zero_()
        for token, follower in following.items():
            head[follower, token] = sureness / width**0.5  # what the last norm makes of a one is about sqrt(width)
    return model


def letters(folder: Path, text: str = "abcdefgh", *, end: bool = True, **options: float) -> Path:
    """A chain over the characters of a text without repetitions; behind the last comes <end>, or the first again."""
    tok = character_tokenizer(text, special={"eos": "<end>"} if end else None)
    ids = tok.ids(text)
    last = tok.special["eos"] if end else ids[0]
    following = dict(zip(ids, [*ids[1:], last], strict=True))
    return clearhead.save(chain(following, tok.size, **options), folder, tokenizer=tok)  # pyright: ignore


def bytes_folder(folder: Path, text: str) -> Path:
    """The same over bytes, with GPT-2's two files: a character may come in several tokens."""
    numbers = {letter: number for number, letter in enumerate(sorted(BYTE_LETTERS, key=BYTE_LETTERS.__getitem__))}
    coded = list(text.encode())
    following = dict(zip(coded, [*coded[1:], coded[0]], strict=True))
    clearhead.save(chain(following, 256, context=64, sureness=30.0), folder)
    (folder / "vocab.json").write_text(json.dumps(numbers))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder


def words() -> Tokenizer:
    return word_tokenizer(vocabulary=[*ENGLISH, *GERMAN], special=SPECIAL)


def translator(folder: Path, name: str = "transformer-tiny", layers: int = 3, **changes: object) -> Path:
    """A random encoder-decoder over a few words; its weights are wide enough that every source word matters."""
    tok = words()
    small = {"vocab": tok.size, "width": 24, "layers": layers, "heads": 3, "ff": 40, "dropout": 0.0}
    marks = {"pad_token": tok.special["pad"], "start_token": tok.special["bos"], "end_token": tok.special["eos"]}
    own = {"context": 24, "norm": "pre", "tied": "none"} if name.startswith("transformer") else {"head_width": 8}
    model = create(name, **small | marks | own | changes, seed=1, device="cpu")
    numbers = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter, weight in model.named_parameters():
            weight.normal_(float("norm.weight" in parameter), 0.4, generator=numbers)
    return clearhead.save(model, folder, tokenizer=tok)


def trained_translator(folder: Path) -> Path:
    """A Transformer that has learnt DICTIONARY, word for word, in about two seconds."""
    return clearhead.save(_trained(), folder, tokenizer=words())


@functools.cache
def _trained() -> Model:
    tok, roll = words(), random.Random(0)
    start, end, pad = (tok.special[role] for role in ("bos", "eos", "pad"))
    sizes = {"vocab": tok.size, "context": 24, "width": 32, "layers": 2, "heads": 2, "ff": 64, "norm": "pre"}
    marks = {"pad_token": pad, "start_token": start, "end_token": end}
    model = create("transformer-tiny", **sizes | marks, dropout=0.0, seed=0, device="cpu")
    optimiser = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(STEPS):
        rows = [[roll.choice(ENGLISH) for _ in range(roll.randint(1, 6))] for _ in range(32)]
        source, lengths = tok.batch([" ".join(row) for row in rows])
        target, _ = tok.batch(["<start> " + " ".join(DICTIONARY[word] for word in row) + " <end>" for row in rows])
        logits = model(source, target[:, :-1], lengths)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model
