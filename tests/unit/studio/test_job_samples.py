"""Predictions that change while a run trains: always the same examples, made anew with the weights alone."""

import os
import time

import pytest

from clearhead.recipes import recipe
from clearhead.recipes.start import train
from clearhead.studio.job_samples import COUNT, SampleBook
from clearhead.studio.tasks_kept import Tasks
from clearhead.train.records import read_run
from tests.unit.studio.small_runs import small_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("samples")
    for run in small_runs(place):
        train(run, out=place / "runs" / run.name)
    train("vit-digits", out=place / "runs" / "pictures", steps=2, warmup=1, validate_every=2, device="cpu")
    return place / "runs"


def told(folder, book=None):
    return (book or SampleBook(Tasks())).of(read_run(folder), folder)


@pytest.mark.parametrize("kind", ["labelled", "masked", "translation", "language", "questions", "pictures"])
def test_every_kind_of_task_shows_examples_of_its_validation_part(folder, kind):
    shown = told(folder / kind)
    assert shown.part == "valid"
    assert 0 < len(shown.samples) <= COUNT
    for one in shown.samples:
        assert one.given or one.picture
        assert isinstance(one.said, str)
        if kind in ("labelled", "pictures", "translation"):
            assert one.right == (one.said.strip() == (one.truth or "").strip())
        if kind == "pictures":
            assert one.picture is not None and one.picture.startswith("data:image/png;base64,")
    if kind == "masked":
        assert all("___" in one.given and one.truth for one in shown.samples)


def test_the_same_examples_are_shown_in_the_same_order_and_only_new_weights_are_asked_again(folder):
    book, place = SampleBook(Tasks()), folder / "pictures"
    first = told(place, book)
    assert told(place, book) is first
    os.utime(place / "model.safetensors", (1, 1))
    again = told(place, book)
    assert again.saved == 1
    assert [(one.picture, one.truth) for one in again.samples] == [(one.picture, one.truth) for one in first.samples]


def test_a_task_is_opened_once_and_few_are_kept(folder):
    tasks = Tasks()
    runs = [read_run(folder / kind) for kind in ("labelled", "masked", "translation")]
    opened = [tasks.open(run) for run in runs]
    assert tasks.open(runs[2]) is opened[2]
    assert tasks.open(runs[0]) is not opened[0]
    assert tasks.steps(runs[0]) == 1


def test_how_many_updates_epochs_make_is_counted_aside():
    run = recipe("vit-digits")
    tasks, end = Tasks(), time.monotonic() + 60
    while (steps := tasks.steps(run)) is None and time.monotonic() < end:
        time.sleep(0.05)
    assert steps == run.settings.updates(run.spec.open().batches_per_epoch(run.settings.batching))
