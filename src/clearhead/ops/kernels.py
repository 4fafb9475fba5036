"""Operators of our own. Most need Triton, which torch for a GPU brings along (not everywhere): loaded when needed."""

from importlib import import_module


def has_kernel(name: str) -> bool:
    """Whether the file `name` of this folder can be loaded; that registers its operators."""
    try:
        import_module(f".{name}", __package__)
    except ImportError:
        return False
    return True


# What torch.compiler.assume_constant_result sets, without the second that importing the compiler takes.
has_kernel._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
