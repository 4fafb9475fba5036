"""What a recorder keeps, under which name, in which type and how much of it, and that it leaves nothing behind."""

import contextlib

import pytest
import torch
from torch import nn

from clearhead.errors import ClearheadError
from clearhead.trace import Recorder, recording, tap


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        return tap("product", tap("seen", x) * self.scale)


class Outer(nn.Module):
    """Two children; the second is called as often as `times` says."""

    def __init__(self, times: int = 1) -> None:
        super().__init__()
        self.first, self.rest, self.times = Inner(), nn.ModuleList([Inner()]), times

    def forward(self, x):
        x = self.first(x)
        for _ in range(self.times):
            x = self.rest[0](x)
        return tap("total", x)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0])


def hooks(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_always_called", "_backward_hooks")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


def recorded(model: nn.Module, x: torch.Tensor, *args, **options):
    with Recorder(model, *args, **options) as trace:
        model(x)
    return trace


def test_sites_are_named_by_their_path_in_the_order_they_fire(x):
    trace = recorded(Outer(), x)
    assert list(trace) == ["first.seen", "first.product", "rest.0.seen", "rest.0.product", "total"]
    assert trace["rest.0.seen"].tolist() == [3.0, 6.0]
    assert trace["total"].tolist() == [9.0, 18.0]


def test_a_site_that_fires_twice_is_numbered_from_one(x):
    trace = recorded(Outer(times=3), x, "rest.0.product")
    assert {site: value.tolist() for site, value in trace.items()} == {
        "rest.0.product#1": [9.0, 18.0],
        "rest.0.product#2": [27.0, 54.0],
        "rest.0.product#3": [81.0, 162.0],
    }


def test_numbered_sites_keep_the_order_of_firing(x):
    trace = recorded(Outer(times=2), x, ["rest.0.*", "total"])
    assert list(trace) == ["rest.0.seen#1", "rest.0.product#1", "rest.0.seen#2", "rest.0.product#2", "total"]


@pytest.mark.parametrize("number", [1, 2])
def test_one_firing_can_be_asked_for_by_its_number(number, x):
    trace = recorded(Outer(times=2), x, f"rest.0.product#{number}")
    assert list(trace) == [f"rest.0.product#{number}"]
    assert trace[f"rest.0.product#{number}"].tolist() == [3.0 * 3**number, 6.0 * 3**number]


def test_globs_are_decided_before_anything_is_stored(x, monkeypatch):
    stored = []
    keep = Recorder._keep
    monkeypatch.setattr(Recorder, "_keep", lambda self, site, value: (stored.append(site), keep(self, site, value)))
    trace = recorded(Outer(), x, ["*.product"])
    assert stored == list(trace) == ["first.product", "rest.0.product"]


def test_a_glob_that_matches_nothing_is_an_error_that_names_near_sites(x):
    with pytest.raises(ClearheadError, match=r"^no site matches 'first.produkt'; did you mean 'first.product'.*\?$"):
        recorded(Outer(), x, ["total", "first.produkt"])


def test_what_exceeds_max_bytes_is_left_out_by_name_and_smaller_things_still_fit(x):
    class Growing(nn.Module):
        def forward(self, x):
            return tap("small_again", tap("big", tap("small", x).repeat(100)).view(100, -1)[0])

    trace = recorded(Growing(), x, max_bytes=20)
    assert list(trace) == ["small", "small_again"]
    assert trace.left_out == {"big": (200,)}
    assert trace.nbytes <= 20
    with pytest.raises(KeyError, match="left out"):
        trace["big"]


def test_measuring_keeps_shapes_and_no_values(x):
    trace = recorded(Outer(times=2), x, "rest.0.product", measure=True)
    assert len(trace) == 0
    assert trace.left_out == {"rest.0.product#1": (2,), "rest.0.product#2": (2,)}


def test_values_are_copies_in_the_type_asked_for_and_integers_keep_theirs(x):
    class Mixed(nn.Module):
        def forward(self, x):
            return tap("real", x) + tap("whole", x.long())

    trace = recorded(Mixed(), x, dtype=torch.float16)
    assert trace["real"].dtype == torch.float16
    assert trace["whole"].dtype == torch.int64
    kept = recorded(Mixed(), x)
    x.zero_()
    assert kept["real"].tolist() == [1.0, 2.0]
    assert not kept["real"].requires_grad


def test_gradients_are_those_that_backward_computed(x):
    model = Outer(times=2)
    with Recorder(model, ["first.product", "rest.0.product"], grads=True) as trace:
        model(x).sum().backward()
    assert {site: value.tolist() for site, value in trace.grads.items()} == {
        "first.product": [9.0, 9.0],
        "rest.0.product#1": [3.0, 3.0],
        "rest.0.product#2": [1.0, 1.0],
    }


def test_no_gradient_is_kept_unless_asked_for(x):
    model = Outer()
    with Recorder(model) as trace:
        model(x).sum().backward()
    assert trace.grads == {}


def test_a_gradient_hook_does_not_stay_on_the_users_tensor(x):
    x.requires_grad_()
    model = Outer()
    with Recorder(model, "first.seen", grads=True) as trace:
        model(x).sum().backward()
    assert trace.grads["first.seen"].tolist() == [9.0, 9.0]
    (7 * x).sum().backward()
    assert trace.grads["first.seen"].tolist() == [9.0, 9.0]


def test_no_hook_stays_behind(x):
    model = Outer()
    with Recorder(model):
        model(x)
        assert hooks(model) > 0
    assert hooks(model) == 0


class Failing(Inner):
    """Fails when it is given zeros."""

    def forward(self, x):
        if not x.any():
            raise RuntimeError("in the middle")
        return super().forward(x)


@pytest.fixture
def failing() -> nn.Module:
    model = Outer()
    model.rest[0] = Failing()
    return model


def test_no_hook_stays_behind_after_an_exception_and_recording_works_again(failing, x):
    before = set(vars(failing))
    with pytest.raises(RuntimeError, match="in the middle"):
        recorded(failing, 0 * x, "no such site")
    assert hooks(failing) == 0
    assert set(vars(failing)) == before
    assert not recording()
    assert len(recorded(failing, x)) == 5


def test_a_childs_exception_that_its_parent_catches_does_not_shift_later_paths(x):
    class Forgiving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = Failing()

        def forward(self, x):
            with contextlib.suppress(RuntimeError):
                self.child(x)
            return tap("after", x)

    assert list(recorded(Forgiving(), 0 * x)) == ["after"]
    assert list(recorded(Forgiving(), x)) == ["child.seen", "child.product", "after"]


def test_recordings_of_two_models_in_one_thread_do_not_mix(x):
    one, two = Outer(), Outer(times=2)
    with Recorder(one) as first, Recorder(two) as second:
        two(x)
        one(x)
    assert list(first) == ["first.seen", "first.product", "rest.0.seen", "rest.0.product", "total"]
    assert second["total"].tolist() == [27.0, 54.0]
    assert "total#1" not in second
