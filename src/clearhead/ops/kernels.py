"""Kernels of our own, in Triton, which torch for a GPU brings along (not everywhere): looked for when first needed."""

import os
from importlib import import_module

# Checked by Triton's interpreter and compiled for a card, but never run on one: only where this variable is 1.
UNPROVEN = frozenset({"gelu_kernel", "one_row", "one_token_kernel", "short_attention", "token_losses"})
ASKED_FOR = "CLEARHEAD_UNPROVEN_KERNELS"


def has_kernel(name: str) -> bool:
    """Whether the file `name` of this folder is to be used and can be loaded; that registers its operators."""
    if name in UNPROVEN and os.environ.get(ASKED_FOR) != "1":
        return False
    try:
        import_module(f".{name}", __package__)
    except ImportError:
        return False
    return True


# What torch.compiler.assume_constant_result sets, without the second that importing the compiler takes.
has_kernel._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
