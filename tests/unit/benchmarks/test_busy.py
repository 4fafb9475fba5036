"""What `benchmarks.busy` counts, and what it says where there is nothing to count."""

import pytest
import torch

from benchmarks import busy


def test_time_in_which_kernels_run_side_by_side_counts_once():
    assert busy.covered([(0, 2), (5, 6), (1, 3), (1.5, 2.5)]) == 4
    assert busy.covered([]) == 0


def test_kernels_of_one_name_are_added_up_and_the_longest_comes_first():
    spans = [("short", 0, 2000), ("long", 2000, 9000), ("short", 9000, 11000)]
    assert busy.by_name(spans, updates=2) == [("long", 3.5, 0.5), ("short", 2.0, 1.0)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so(capsys):
    assert busy.main([]) == 1
    assert capsys.readouterr().err == "busy: there is no CUDA device to keep busy\n"
