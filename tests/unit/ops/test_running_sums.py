"""Sums of one more vector each: right, and each in memory of its own, in a compiled function too."""

import pytest
import torch

from clearhead.ops.kernels import has_kernel


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
def test_each_is_the_sum_of_all_vectors_up_to_its_own(dtype, compiled):
    assert has_kernel("running_sums")
    vectors = [torch.randn(7).to(dtype) for _ in range(5)]
    sums = torch.ops.clearhead.running_sums
    found = (torch.compile(lambda given: sums(given), backend="aot_eager") if compiled else sums)(vectors)
    for count, one in enumerate(found, 1):
        assert torch.allclose(one, torch.stack(vectors[:count]).float().sum(0), atol=1e-6)
        assert one.dtype == torch.float32 and one.storage_offset() == 0
    assert len({one.untyped_storage().data_ptr() for one in found}) == 5
