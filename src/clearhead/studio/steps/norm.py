"""A norm as a step, layer norm or root mean square, wherever it stands."""

from collections.abc import Iterable

from torch import nn

from ...layers import LayerNorm, RMSNorm
from ..schema import Matrix, Step
from .making import Maker
from .source import tapped

LAYER = r"\frac{{{x} - \mu}}{{\sqrt{{\sigma^2 + \epsilon}}}} \odot g + b"
RMS = r"\frac{{{x}}}{{\sqrt{{\overline{{{x}^2}} + \epsilon}}}} \odot g"
LAYER_SAYS = (
    "Each row by itself is shifted to mean 0 and stretched to variance 1, then multiplied by a learned gain and moved "
    "by a learned bias. So no row grows out of proportion, however many layers add to it."
)
RMS_SAYS = (
    "Each row by itself is divided by the root of its mean square, then multiplied by a learned gain. "
    "So no row grows out of proportion, however many layers add to it."
)
IS_RMS = "root-mean-square norm: no mean is taken off and no bias is added, the paper does both"


def norm(
    make: Maker,
    part: str,
    path: str,
    x: Matrix,
    name: str,
    *,
    title: str = "Norm",
    announced: str = "every row is normed",
    departs: Iterable[str | None] = (),
) -> Step:
    """`path`: the norm's module; `x`: what it reads; `name`: what the formulas call its result."""
    module = make.model.get_submodule(path)
    rms = isinstance(module, RMSNorm)
    return make.step(
        part,
        "norm",
        short="norm",
        title=title,
        announced=announced,
        formula=f"{name} = " + (RMS if rms else LAYER).format(x=x.name),
        says=RMS_SAYS if rms else LAYER_SAYS,
        departs=[*departs, IS_RMS if rms else None],
        operation="rms" if rms else "norm",
        operands=[x, *_learned(make, path, bias=not rms)],
        epsilon=_epsilon(module),
        result=make.site(f"{path}.normed", name, "the rows, normed", x.rows.of),
        code=tapped(type(module), "normed"),
    )


def _learned(make: Maker, path: str, bias: bool) -> list[Matrix]:
    gain = make.matrix(f"weight:{path}", "g", "the gain, one number a feature", "one")
    return [gain, make.matrix(f"weight:{path}.bias", "b", "the bias, one number a feature", "one")] if bias else [gain]


def _epsilon(module: nn.Module) -> float:
    assert isinstance(module, LayerNorm | RMSNorm)
    return module.eps
