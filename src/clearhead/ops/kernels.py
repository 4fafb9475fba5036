"""Operators of our own. Most need Triton, which torch for a GPU brings along (not everywhere): loaded when needed."""

import os
from importlib import import_module

# Checked without a card, but not yet seen right and faster on one: only where this variable is 1.
UNPROVEN = frozenset({"largest_windows"})
ASKED_FOR = "CLEARHEAD_UNPROVEN_KERNELS"


def asked_for() -> bool:
    """Whether what no card has seen yet is to be used."""
    return os.environ.get(ASKED_FOR) == "1"


def has_kernel(name: str) -> bool:
    """Whether the file `name` of this folder is to be used and can be loaded; that registers its operators."""
    if name in UNPROVEN and not asked_for():
        return False
    try:
        import_module(f".{name}", __package__)
    except ImportError:
        return False
    return True


# What torch.compiler.assume_constant_result sets, without the second that importing the compiler takes.
for told in (asked_for, has_kernel):
    told._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
