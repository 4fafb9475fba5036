"""How a picture's rows become the one that the head reads: [CLS], the mean, or a mean with learned weights."""

from ...layers import SequencePooling
from ...models.vit import ViT
from ..schema import Matrix, Step
from .block import stack_result
from .making import Maker, plus_bias
from .source import tapped

NO_DECODER = "no decoder follows: the paper's encoder is read by one"


def pooling(make: Maker) -> list[Step]:
    x = stack_result(make, "encoder", "patches", "X")
    return _weighed(make, x) if make.model.config.pooling == "sequence" else [_taken(make, x)]


def _taken(make: Maker, x: Matrix) -> Step:
    first = make.model.config.pooling == "cls"
    return make.step(
        "head",
        "pooled",
        short="pooled",
        title="The row of [CLS]" if first else "The mean of the patches",
        announced="the row of [CLS] is taken" if first else "the mean of all patches is taken",
        formula="z = X_0" if first else r"z = \frac{1}{N} \sum_i X_i",
        says="Of all rows only the one of [CLS] is taken. It has looked at every patch in every block."
        if first
        else "The rows of all patches are averaged, feature by feature. Every patch has the same say.",
        departs=[NO_DECODER],
        operation="pool",
        operands=[x],
        function="first" if first else "mean",
        result=_result(make),
        code=tapped(ViT, "pooled"),
    )


def _weighed(make: Maker, x: Matrix) -> list[Step]:
    """Scores of the rows, their softmax, and the sum in these shares."""
    shares = _shares(make)
    pooled = make.step(
        "head",
        "pooled",
        short="pooled",
        title="The picture as one row: the rows in these shares",
        announced="the rows are added in these shares",
        formula=r"z = a\, X",
        says="Every row is multiplied by its share and all are added: the picture as one vector. "
        "With equal shares it would be their mean, with a single share of 1 a copy of one row.",
        operation="product",
        operands=[shares.result, x],
        result=_result(make),
        code=tapped(ViT, "pooled"),
    )
    return [_scores(make, x), shares, pooled]


def _scores(make: Maker, x: Matrix) -> Step:
    operands = [x, *make.factors("pooling.score", "W_S", "one column: what a row is worth", "one")]
    return make.step(
        "head",
        "scores",
        short="scores",
        title="A score for every row",
        announced="every row gets a score",
        formula=r"s = X\, W_S" + plus_bias(operands),
        says="Every row is multiplied with one learned column, which gives one number for it. "
        "The higher the number, the more of that row will be in the picture's one vector.",
        departs=[NO_DECODER],
        operation="product",
        operands=operands,
        result=make.site("pooling.scores.T", "s", "a score for every row", "patches", "one"),
        code=tapped(SequencePooling, "scores"),
    )


def _shares(make: Maker) -> Step:
    scores = make.site("pooling.scores", "sᵀ", "the scores, side by side", "one", "patches")
    return make.step(
        "head",
        "shares",
        short="softmax",
        title="Softmax: shares of the rows",
        announced="the scores become shares that sum to 1",
        formula=r"a_i = \frac{e^{s_i}}{\sum_k e^{s_k}}",
        says="The softmax turns the scores of all rows into shares that sum to 1. "
        "It is attention with one learned query in place of a [CLS] that asks.",
        operation="softmax",
        operands=[scores],
        result=make.site("pooling.weights", "a", "the rows' shares", "one", "patches", colour="share"),
        code=tapped(SequencePooling, "weights"),
    )


def _result(make: Maker) -> Matrix:
    return make.site("pooled", "z", "the picture as one vector", "one")
