"""Operations are counted on shapes, and the meter divides them by time."""

import torch

from clearhead.train.speed import Meter, batch_operations, peak
from clearhead.train.task import Batching
from tests.unit.train.toy import LENGTH, VOCAB, ToySpec


def test_the_operations_of_a_batch_are_those_of_its_products():
    task, rows = ToySpec().open(), 16
    batch = task.batch(0, Batching(size=rows), 0, 1, torch.device("cpu"))
    tokens, width = rows * (LENGTH - 1), 16
    products = 2 * (12 * width * width) + width * VOCAB  # two blocks, the head
    least = 3 * 2 * tokens * products
    attention = 3 * 2 * 2 * 2 * rows * (LENGTH - 1) ** 2 * width
    assert least <= batch_operations(task, batch) <= least + attention


def test_twice_the_batch_is_twice_the_work():
    task = ToySpec().open()
    one, two = (
        batch_operations(task, task.batch(0, Batching(size=rows), 0, 1, torch.device("cpu"))) for rows in (8, 16)
    )
    assert two == 2 * one


def test_the_meter_divides_the_work_of_the_last_updates_by_what_the_device_could_do():
    meter = Meter(operations=50, peak=1000.0)
    assert meter.share(10, now=1.0) is None
    assert meter.share(20, now=2.0) == 0.5
    assert meter.share(30, now=4.0) == 0.25


def test_a_peak_is_measured():
    assert peak(torch.device("cpu"), "fp32") > 1e8
