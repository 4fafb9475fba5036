"""What `benchmarks.busy` counts, and what it says where there is nothing to count."""

from types import SimpleNamespace

import pytest
import torch

from benchmarks import busy
from clearhead.recipes.start import named_run
from clearhead.train.job import Watch
from clearhead.train.loop import Trainer
from clearhead.train.ranks import Ranks


def test_time_in_which_kernels_run_side_by_side_counts_once():
    assert busy.covered([(0, 2), (5, 6), (1, 3), (1.5, 2.5)]) == 4
    assert busy.covered([]) == 0


def test_kernels_of_one_name_are_added_up_and_the_longest_comes_first():
    spans = [("short", 0, 2000), ("long", 2000, 9000), ("short", 9000, 11000)]
    assert busy.by_name(spans, updates=2) == [("long", 3.5, 0.5), ("short", 2.0, 1.0)]


def test_batches_at_hand_are_each_made_once_and_the_trainer_stands_where_it_stood(tmp_path):
    run = named_run("vit-digits", [], ["device=cpu", "fields.layers=1"])
    trainer = Trainer(run, tmp_path, Ranks(0, 1, torch.device("cpu")), Watch(), run.spec.open())
    made, make = [], trainer._batch
    trainer._batch = lambda number: made.append(number) or make(number)
    trainer.step = 3
    assert busy._at_hand(trainer, 2) > 0
    assert made == [3, 4] and trainer.step == 3
    assert trainer._batch(7).targets.equal(make(7).targets)


def test_it_warms_up_until_an_epoch_has_recorded_nothing_new():
    """A shape that comes once in an epoch of 200 is recorded when it comes for the fourth time."""
    recorded, made = SimpleNamespace(seconds=0.0), []

    def update() -> None:
        made.append(len(made))
        recorded.seconds += 0.1 * (made[-1] in (0, 1, 50, 250, 450, 650))

    task = SimpleNamespace(batches_per_epoch=lambda batching: 199.5)
    settings = SimpleNamespace(batching=None, accumulate=1)
    busy.warm_up(SimpleNamespace(recorded=recorded, update=update, task=task, settings=settings))  # pyright: ignore
    assert len(made) == 1000
    plain = SimpleNamespace(recorded=None, update=update, task=task, settings=settings)
    busy.warm_up(plain)  # pyright: ignore
    assert len(made) == 1200


def test_asking_ends_before_all_is_done():
    asked, done = busy.asked_and_done(lambda: None, 3)
    assert 0 < asked <= done


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so(capsys):
    assert busy.main([]) == 1
    assert capsys.readouterr().err == "busy: there is no CUDA device to keep busy\n"
