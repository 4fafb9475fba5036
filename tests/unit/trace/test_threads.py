"""Threads that record two models, or one and the same, beside a third that runs it unrecorded, all at once."""

import sys
import threading

import pytest
import torch

from clearhead.models import create
from clearhead.trace import Recorder

ROUNDS = 25


@pytest.fixture(autouse=True)
def switching_often():
    """Threads take turns every few microseconds, so that what can mix does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_all_at_once(*jobs) -> None:
    """Run the jobs in a thread each, started together; the first failure is raised here."""
    barrier, failures = threading.Barrier(len(jobs)), []

    def worker(job) -> None:
        barrier.wait()
        try:
            job()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=worker, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def recording(model, ids, **options):
    """A job that records again and again and compares with a recording made while nothing else ran."""
    with Recorder(model, **options) as alone:
        expected = model(ids)

    def job() -> None:
        for _ in range(ROUNDS):
            with Recorder(model, **options) as trace:
                output = model(ids)
            assert torch.equal(output, expected)
            assert list(trace) == list(alone)
            assert all(torch.equal(trace[site], alone[site]) for site in alone)

    return job


def running(model, ids):
    """A job that runs a model unrecorded while others record it."""
    expected = model(ids)

    def job() -> None:
        for _ in range(3 * ROUNDS):
            assert torch.equal(model(ids), expected)

    return job


def test_threads_that_record_and_threads_that_do_not_never_mix():
    model, other = create("gpt-nano", seed=0), create("deck", seed=0)
    one, two, three = (torch.randint(3, (1, length)) for length in (11, 7, 4))
    zeroed = {"decoder.blocks.1.attention.output": torch.zeros_like}
    run_all_at_once(
        recording(model, one),
        recording(model, two, sites="decoder.blocks.*.attention.weights"),
        recording(model, two, sites=["logits"], replace=zeroed),
        recording(other, three),
        running(model, three),
        running(model, one),
    )
    left = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in (*model.modules(), *other.modules())]
    assert sum(left) == 0


def test_a_failing_pass_in_one_thread_leaves_the_others_traces_alone():
    model = create("gpt-nano", seed=0)
    ids = torch.randint(3, (1, 11))

    def failing() -> None:
        for _ in range(ROUNDS):
            # torch walks over the hooks when a pass fails, and may complain that they change instead
            with pytest.raises((IndexError, RuntimeError)), Recorder(model):
                model(torch.tensor([[7]]))

    run_all_at_once(recording(model, ids), failing, running(model, ids))
