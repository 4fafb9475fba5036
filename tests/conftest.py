"""Every test starts from the same seed, and torch uses as many threads as the environment says (one unless told)."""

import os
import sys

import pytest
import torch

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels of our own, on the CPU: read when Triton is imported
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    """torch allows a function eight compiled versions a process: tests before this one must not have used them up."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
