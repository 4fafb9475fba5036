"""What the text tasks share: texts by a set's name or from files, the model that is asked for, draws for a step."""

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..data.kinds import Dataset, Parallel, Running
from ..data.own_texts import own_parallel, own_text
from ..data.sets import open_set
from ..data.text_files import all_facts, facts
from ..data.text_splits import with_validation
from ..data.tokenizers import Tokenizer
from ..errors import ClearheadError
from ..models import Config, Model, create, names
from ..models.registry import find
from ..runs import load, tokenizer
from .task import Spec

TOKENIZERS = ("characters", "words", "bpe")  # that can be learnt for a new model
EVALUATED_AT_ONCE = 1 << 25  # logits that one step of an evaluation may hold


def running_text(
    data: str | tuple[str, ...],
    folder: str | None = None,
    options: Mapping[str, Any] | None = None,
    valid: tuple[str, ...] = (),
    test: tuple[str, ...] = (),
) -> Dataset[Running]:
    """A named set of running text, or the user's own files; where no valid part is given, one is held out."""
    if _is_set(data):
        dataset = _named(data, folder, options, valid or test)
        _check_kind(dataset, "running")
        return with_validation(dataset)
    _check_own(data, options)
    return own_text(data if isinstance(data, str) else list(data), valid or None, test or None)


def parallel_text(
    data: str | tuple[str, ...],
    folder: str | None = None,
    options: Mapping[str, Any] | None = None,
    valid: tuple[str, ...] = (),
    test: tuple[str, ...] = (),
) -> Dataset[Parallel]:
    """A named set of parallel text, or the user's own two files; where no valid part is given, one is held out."""
    if _is_set(data):
        dataset = _named(data, folder, options, valid or test)
        _check_kind(dataset, "parallel")
        return with_validation(dataset)
    _check_own(data, options)
    pairs = {"data": data, "valid": valid, "test": test}
    for name, files in pairs.items():
        if (files or name == "data") and (isinstance(files, str) or len(files) != 2):
            raise ClearheadError(f"{name} of a translation is two files, the source and the target, not {files!r}")
    source, target = data
    return own_parallel(source, target, _two(valid), _two(test))


def _is_set(data: str | tuple[str, ...]) -> bool:
    """Whether it is the name of a set; a word that is neither that nor a file is told the nearest name."""
    if not isinstance(data, str):
        return False
    if data in all_facts():
        return True
    if not os.path.exists(data):
        facts(data)
    return False


def _named(data: Any, folder: str | None, options: Mapping[str, Any] | None, more: tuple[str, ...]) -> Dataset:
    if more:
        raise ClearheadError(f"{data} has parts of its own: valid and test files go with your own texts")
    return open_set(data, folder, **(options or {}))


def _check_own(data: str | tuple[str, ...], options: Mapping[str, Any] | None) -> None:
    if options:
        raise ClearheadError(f"options are for named sets, and {data!r} is none: {', '.join(options)} can't be used")


def _check_kind(dataset: Dataset, kind: str) -> None:
    if dataset.kind != kind:
        raise ClearheadError(f"{dataset.name} is {dataset.kind}: this task needs {kind} text")


def _two(files: tuple[str, ...]) -> tuple[str, str] | None:
    return (files[0], files[1]) if files else None


def is_new(spec: Spec) -> bool:
    """Whether the model is made from an architecture's name, not read from a checkpoint."""
    return spec.model in names()


def config_of(spec: Spec, wanted: type[Config] | tuple[type[Config], ...], skill: str, **settled: Any) -> Any:
    """The architecture that is asked for, before any vocabulary settles the rest; another family is refused."""
    changes = {**settled, **(spec.fields or {})}
    config = (
        find(spec.model)[1].with_changes(**(spec.fields or {}))
        if is_new(spec)
        else load(spec.model, device="cpu", **changes).config
    )
    if not isinstance(config, wanted):
        raise ClearheadError(
            f"{spec.model} can't learn {skill}: it is a {type(config).__name__.removesuffix('Config')}"
        )
    return config


def new_model(spec: Spec, seed: int, **settled: Any) -> Model:
    """The named architecture with random weights; what the data settles can't be set by hand."""
    fields = dict(spec.fields or {})
    for name in settled:
        if name in fields:
            raise ClearheadError(f"{name} is settled by the data and its vocabulary: leave it out of the fields")
    return create(spec.model, device="cpu", seed=seed, **settled, **fields)


def loaded_model(spec: Spec, **settled: Any) -> Model:
    """The checkpoint's model with the fields that are asked for."""
    return load(spec.model, device="cpu", **{**settled, **(spec.fields or {})})


def checkpoint_tokenizer(spec: Spec, asked: str | None, vocab: int, side: str = "source") -> Tokenizer:
    """A checkpoint's own vocabulary; no other can be asked for, and it must fit the model."""
    if asked is not None:
        raise ClearheadError(f"{spec.model} has a tokenizer of its own: don't ask for one of {asked}")
    found = tokenizer(spec.model, side)
    if found.size > vocab:
        raise ClearheadError(f"{spec.model} knows {vocab} tokens and its tokenizer has {found.size}: they don't fit")
    return found


def draws(count: int, seed: int, step: int, stream: int) -> np.ndarray:
    """`count` numbers below 2^64, a pure function of the other three: Philox's own, which NumPy promises to keep."""
    key = np.array([seed % 2**64, step % 2**64], np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, 0, stream], np.uint64)).random_raw(count)


def shares(count: int, seed: int, step: int, stream: int) -> np.ndarray:
    """The same as numbers from 0 to 1."""
    return draws(count, seed, step, stream) / 2.0**64


def shuffled(rows: int, seed: int, number: int, size: int) -> np.ndarray:
    """Which rows batch `number` has, of an endless stream: epoch after epoch, each in a permutation of its own."""
    first = number * size
    epochs = range(first // rows, (first + size - 1) // rows + 1)
    stream = np.concatenate([_permutation(rows, seed, epoch) for epoch in epochs])
    return stream[first % rows : first % rows + size]


@lru_cache(maxsize=4)
def _permutation(rows: int, seed: int, epoch: int) -> np.ndarray:
    return np.argsort(draws(rows, seed, epoch, stream=1), kind="stable")


def check_share(size: int, world: int) -> None:
    if size < world:
        raise ClearheadError(f"a batch of {size} can't be divided among {world} processes: make it larger")
