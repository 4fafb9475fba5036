"""Who looks at whom: scores, scaled, plus a position bias, masked, and the softmax that makes shares of them."""

import inspect
import math

from ...layers import RelativeBias
from ...ops.attention import attention as attend
from ..schema import Matrix, Step
from .buckets import in_words
from .looking import Layer, Looking
from .making import Maker
from .source import tapped
from .stream import part_of

OPS = inspect.getmodule(attend)

BY_ROOT = (
    "A sum of more products spreads more widely, so the scores are divided by the root of a head's width. "
    "Without that the softmax would soon give everything to one token and learn no more."
)
OTHERWISE = (
    "In 2017 the scores were divided by √d_k here, so that their spread would not grow with a head's width. "
    "In this model they are {told}, and its weights are trained with that."
)
AHEAD = (
    "A token may not look at tokens that come after it: there the score becomes minus infinity, and the softmax makes "
    "it zero. So a place never sees the word that it has to guess."
)
FILLED = (
    "What only fills the row up may not be looked at: its score becomes minus infinity, and the softmax makes "
    "it zero. So an answer does not depend on how long the row was made."
)
MASKED = r"M_{ij} = \begin{cases} S_{ij} & i \text{ may look at } j \\ -\infty & \text{else} \end{cases}"
GRID = (
    'A deck\'s grid for "Hi how are you" is an illustration: one of its rows sums to 1.1, and no d_k turns its scores '
    "into its weights. Here every row sums to 1."
)
REUSED = (
    "A deck shows its softmax grid once more as scaled scores. Scaled scores are any numbers, they need not sum to 1."
)
UNSCALED = "the scores are not scaled: the paper multiplies them by 1/sqrt(d_k)"
OTHER = "the factor is {factor:.4g}: the paper's 1/sqrt(d_k) would be {usual:.4g}"
IN_SCORES = "positions are added to the scores: the paper adds them to the input"
WINDOW = "a token looks at no more than the last {window} tokens: the paper has no such window"


def weighing(make: Maker, at: Looking, module: Layer, query: Matrix, key: Matrix) -> list[Step]:
    """From queries and keys to shares of attention."""
    steps = _scores(make, at, module, query, key)
    return [*steps, _softmax(make, at, steps[-1].result)]


def _scores(make: Maker, at: Looking, module: Layer, query: Matrix, key: Matrix) -> list[Step]:
    """Products, scaled, with the position bias and the mask where there are any."""
    steps = [_products(make, at, query, key)]
    steps.append(_scaled(make, at, module, steps[-1].result, query.columns.size))
    if at.bias is not None:
        steps.append(_biased(make, at, at.bias, steps[-1].result))
    if make.has(f"{at.path}.masked"):
        steps.append(_masked(make, at, module, steps[-1].result))
    return steps


def _products(make: Maker, at: Looking, query: Matrix, key: Matrix) -> Step:
    turned = make.matrix(f"{key.key}.T", f"{key.name}ᵀ", "keys, a column a token", "dimensions", at.keys)
    return make.step(
        at.part,
        "scores",
        short="scores",
        title="Scores: every query against every key",
        announced="every query is compared with every key",
        formula=r"E = Q K^{\top}",
        says="Every token's query is compared with every token's key: one dot product a cell. "
        "A large score means that the row's token asks for what the column's token offers.",
        operation="product",
        operands=[query, turned],
        result=make.site(f"{at.path}.scores", "E", "scores, before scaling", at.rows, at.keys),
        code=tapped(OPS, "scores"),
    )


def _scaled(make: Maker, at: Looking, module: Layer, scores: Matrix, width: int) -> Step:
    usual = float(width) ** -0.5
    factor = usual if module.scale is None else module.scale
    published = math.isclose(factor, usual)
    root = rf"S = \frac{{E}}{{\sqrt{{d_k}}}} = \frac{{E}}{{\sqrt{{{width}}}}}"
    told = f"divided by √{width}" if published else f"multiplied by {factor:.4g}"
    return make.step(
        at.part,
        "scaled",
        short="÷ √d",
        title="Scores, scaled",
        announced=f"the scores are {told}",
        formula=root if published else rf"S = {factor:.4g}\, E",
        says=BY_ROOT if published else OTHERWISE.format(told=told),
        slip=REUSED,
        departs=[None if published else UNSCALED if factor == 1 else OTHER.format(factor=factor, usual=usual)],
        operation="scale",
        operands=[scores],
        factor=factor,
        result=make.site(f"{at.path}.scaled", "S", "scores, scaled", at.rows, at.keys),
        code=tapped(OPS, "scaled"),
    )


def _biased(make: Maker, at: Looking, bias: str, scaled: Matrix) -> Step:
    added = make.matrix(bias, "B", "a learned number for each distance and head", at.rows, at.keys)
    table = part_of(make.model, f"{at.path.partition('.')[0]}_bias", RelativeBias)
    return make.step(
        at.part,
        "biased",
        short="+ bias",
        title="Plus the position bias",
        announced="a number that depends on the distance of the two tokens is added",
        formula=r"S' = S + B, \quad B_{ij} = b(j - i)",
        says="A learned number is added to every score: it depends only on how far the key stands from the query. "
        f"All blocks of the stack use the same numbers, and every head has its own. {in_words(table)}",
        departs=[IN_SCORES],
        operation="add",
        operands=[scaled, added],
        result=make.site(f"{at.path}.biased", "S'", "scores plus the position bias", at.rows, at.keys),
        code=tapped(OPS, "biased"),
    )


def _masked(make: Maker, at: Looking, module: Layer, scores: Matrix) -> Step:
    ahead, window = getattr(module, "causal", False), getattr(module, "window", None)
    allowed = f"derived:{at.path}.allowed"
    return make.step(
        at.part,
        "masked",
        short="mask",
        title="Look-ahead mask" if ahead else "Mask",
        announced="the places where nobody may look are crossed out",
        formula=MASKED.replace("S", scores.name),
        says=AHEAD if ahead else FILLED,
        departs=[WINDOW.format(window=window) if window else None],
        operation="mask",
        operands=[scores, make.matrix(allowed, "allowed", "1 where a query may look", at.rows, at.keys, "share")],
        result=make.site(f"{at.path}.masked", "M", "scores, -inf where nobody may look", at.rows, at.keys),
        code=tapped(OPS, "masked"),
    )


def _softmax(make: Maker, at: Looking, scores: Matrix) -> Step:
    return make.step(
        at.part,
        "softmax",
        short="softmax",
        title="Softmax: shares of attention",
        announced="each row of scores becomes shares that sum to 1",
        formula=rf"A_{{ij}} = \frac{{e^{{{scores.name}_{{ij}}}}}}{{\sum_k e^{{{scores.name}_{{ik}}}}}}",
        says="Each row becomes shares that sum to 1: how much of its attention a token gives to each other one. "
        "A score that is larger by 1 gets 2.7 times the share.",
        slip=GRID,
        operation="softmax",
        operands=[scores],
        result=make.site(f"{at.path}.weights", "A", "attention weights", at.rows, at.keys, colour="share"),
        code=tapped(OPS, "weights"),
    )
