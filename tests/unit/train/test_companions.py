"""What accompanies a model while it learns is a part of it then, and of nothing that is saved."""

import copy

import torch
from torch import nn

from clearhead.train.companions import Companion, accompanied, accompany, companion, leave


class Watching(Companion):
    name = "watching"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))


class Counting(Companion):
    name = "counting"


def test_a_companion_is_found_by_its_kind_and_learns_with_the_model():
    model = nn.Sequential(nn.Linear(2, 2))
    assert not accompanied(model) and companion(model, Watching) is None
    accompany(model, Watching())
    found = companion(model, Watching)
    assert found is not None and companion(model, Counting) is None
    assert "watching.weight" in dict(model.named_parameters()) and "watching.weight" in model.state_dict()


def test_all_of_them_leave_and_the_model_is_as_it_was():
    model = nn.Sequential(nn.Linear(2, 2))
    names = list(model.state_dict())
    accompany(model, Watching())
    accompany(model, Counting())
    copied = copy.deepcopy(model)
    leave(model)
    leave(model)
    assert list(model.state_dict()) == names and not accompanied(model) and accompanied(copied)
