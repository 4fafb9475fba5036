"""The feed-forward layer as steps: wider, the non-linearity (with a gate or without), and back."""

from ...layers import FeedForward, GatedFeedForward
from ..schema import Matrix, Step
from .making import Maker, plus_bias
from .source import tapped

FORMULAS = {
    "relu": r"\max(0, {x})",
    "gelu": r"{x} \odot \Phi({x})",
    "gelu-tanh": r"\tfrac{{1}}{{2}} {x} \odot (1 + \tanh(\sqrt{{2/\pi}}\,({x} + 0.044715\,{x}^3)))",
    "quick-gelu": r"{x} \odot \sigma(1.702\,{x})",
    "silu": r"{x} \odot \sigma({x})",
    "tanh": r"\tanh({x})",
    "sigmoid": r"\sigma({x})",
}
CALLED = {
    "relu": "ReLU",
    "gelu": "GELU",
    "gelu-tanh": "GELU by its tanh formula",
    "quick-gelu": "quick GELU",
    "silu": "SiLU",
    "tanh": "tanh",
}
SMOOTH = "{} acts on each cell by itself: large values pass, negative ones are pressed towards zero."
ACTS = {
    **{kind: SMOOTH.format(name) for kind, name in CALLED.items()},
    "relu": "ReLU acts on each cell by itself: positive values pass, negative ones become zero.",
    "tanh": "tanh acts on each cell by itself: every value is pressed between -1 and 1.",
}
NO_BIAS = "no bias: the paper adds b_1 and b_2"


def feed_forward(make: Maker, part: str, path: str, x: Matrix) -> list[Step]:
    """`x`: what the layer reads."""
    module = make.model.get_submodule(path)
    assert isinstance(module, FeedForward | GatedFeedForward)
    gated = isinstance(module, GatedFeedForward)
    gate = [_product(make, part, path, x, "gate", "gate", "W_G", "G")] if gated else []
    up = _product(make, part, path, x, "expanded", "up", "W_1", "U")
    through = [step.result for step in (*gate, up)]
    hidden = _activated(make, part, path, through, module.activation)
    return [*gate, up, hidden, _down(make, part, path, hidden.result)]


def _product(make: Maker, part: str, path: str, x: Matrix, site: str, layer: str, weight: str, name: str) -> Step:
    operands = [x, *make.factors(f"{path}.{layer}", weight, "leads to the wider row")]
    gate = site == "gate"
    return make.step(
        part,
        site,
        short="gate" if gate else "in",
        title="Gate" if gate else "Feed-forward, in",
        announced="a gate is made for every hidden feature" if gate else "every row is widened",
        formula=rf"{name} = {x.name}\, {weight}" + plus_bias(operands),
        says="A second product beside the first makes a number for every hidden feature. "
        "It decides how far that feature is let through."
        if gate
        else "Every token by itself is multiplied by W_1 and becomes a wider row. "
        "Each of its columns looks for one pattern of features in the token.",
        departs=[NO_BIAS if len(operands) == 2 and not gate else None],
        operation="product",
        operands=operands,
        result=make.site(
            f"{path}.{site}", name, "how far features are let through" if gate else "the wider rows", x.rows.of
        ),
        code=tapped(type(make.model.get_submodule(path)), site),
    )


def _activated(make: Maker, part: str, path: str, through: list[Matrix], kind: str) -> Step:
    gated = len(through) > 1
    inner = FORMULAS[kind].format(x=through[0].name)
    different = None if kind == "relu" else f"{CALLED[kind]}: the paper has ReLU"
    return make.step(
        part,
        "hidden",
        short=CALLED[kind].partition(" ")[0] if kind != "quick-gelu" else "GELU",
        title="Hidden, after the non-linearity",
        announced="the non-linearity acts on every cell",
        formula=rf"H = \left({inner}\right) \odot {through[1].name}" if gated else f"H = {inner}",
        says=f"{CALLED[kind]} of the gate is multiplied with the widened rows, cell by cell. "
        "So each hidden feature is let through as far as its gate is open."
        if gated
        else f"{ACTS[kind]} "
        "Without it the two products would be one, and the layer could do no more than a single matrix.",
        departs=[different, "a gated layer: the paper's has no gate" if gated else None],
        operation="activation",
        operands=through,
        function=kind.replace("-", "_"),
        result=make.site(f"{path}.hidden", "H", "the hidden rows", through[0].rows.of),
        code=tapped(type(make.model.get_submodule(path)), "hidden"),
    )


def _down(make: Maker, part: str, path: str, hidden: Matrix) -> Step:
    operands = [hidden, *make.factors(f"{path}.down", "W_2", "leads back to the stream's width")]
    return make.step(
        part,
        "output",
        short="out",
        title="Feed-forward, out",
        announced="the hidden rows are brought back to the width of the stream",
        formula=r"F = H\, W_2" + plus_bias(operands),
        says="W_2 brings the hidden rows back to the width of the stream. "
        "Each hidden feature that is on adds its row of W_2 to the token.",
        departs=[NO_BIAS if len(operands) == 2 else None],
        operation="product",
        operands=operands,
        result=make.site(f"{path}.output", "F", "what the feed-forward layer adds", hidden.rows.of),
        code=tapped(type(make.model.get_submodule(path)), "output"),
    )
