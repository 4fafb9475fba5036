"""Heads of a BERT: a file's weights serve a task that they were not saved for, and what is made new is said."""

import torch
from torch import Tensor

from ..errors import ClearheadError
from ..models.bert import BERT, PARTS, WITH_CLASSES, BERTConfig


def with_heads(state: dict[str, Tensor], before: BERTConfig, model: BERT, asked: bool) -> list[str]:
    """Take from `state` what the model's task has no use for, add what it needs and the file lacks; say both."""
    after, wanted = model.config, dict(model.named_parameters())
    same = (before.task, before.num_classes) == (after.task, after.num_classes)
    if not same and _other_classes(state.get("output.weight"), before, after):
        for name in [name for name in state if _part(name) == "output"]:
            del state[name]
    spare = [name for name in state if name not in wanted and _part(name) in set().union(*PARTS.values())]
    parts = {_part(name) for name in spare}
    for name in spare:
        del state[name]
    missing = set(PARTS[after.task]) - {_part(name) for name in state}
    if missing and not asked and after.task is not None:
        what = ", ".join(sorted(missing))
        raise ClearheadError(
            f"the weights have no {what} for task '{after.task}': give task='{after.task}' for new ones"
        )
    _make_new(state, missing, model)
    for name in (name for name in wanted if name not in state and _part(name) in PARTS[after.task]):
        raise ClearheadError(f"the weights hold only a part of {_part(name)}: {name} is not there")
    notes = [("left out, as the task has no use for it", parts), ("new and random, as the weights have none", missing)]
    return [f"{what}: {', '.join(sorted(which))}" for what, which in notes if which]


def _other_classes(weight: Tensor | None, before: BERTConfig, after: BERTConfig) -> bool:
    """Classes of a text and of a token may have one shape: what a config named for the one can't be the other's."""
    return weight is not None and (before.task in WITH_CLASSES or weight.shape[:1] != (after.num_classes,))


def _make_new(state: dict[str, Tensor], missing: set[str], model: BERT) -> None:
    random, like = torch.Generator().manual_seed(0), state["input.tokens.weight"]
    for name, weight in model.named_parameters():
        if _part(name) in missing:
            state[name] = like.new_empty(weight.shape)
            model.fill(name, state[name], random)


def _part(name: str) -> str:
    return name.partition(".")[0]
