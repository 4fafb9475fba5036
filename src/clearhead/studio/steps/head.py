"""What stands behind a stack: scores for words or classes, their probabilities, and the one that is taken."""

from collections.abc import Iterable, Sequence
from typing import Any

from ...analyse.answers import probabilities_of
from ...decode.sampling import Sampling
from ...runs.labels import labels
from ..schema import Code, Matrix, Step
from .making import Maker, plus_bias
from .source import code

FEW = 64  # names of classes that travel with the table; more are asked for where they are shown
OWN_TABLE = "the head is a matrix of its own: in the paper it is the embedding table, turned round"
BIAS = "a bias is added to the scores: the paper has none"


def words(make: Maker, part: str, x: Matrix, weight: str, *, tied: bool, tap: Code, bias: str | None = None) -> Step:
    """A score for every word at every place. `weight`: the key of a matrix (width, vocabulary)."""
    table = "the embedding table, turned round" if tied else "a column for every word"
    name = "W_Eᵀ" if tied else "W_L"
    operands = [x, make.matrix(weight, name, table, "dimensions", "vocabulary")]
    if bias is not None:
        operands.append(make.matrix(bias, "b_L", "a bias for every word", "one", "vocabulary"))
    written = r"W_E^{\top}" if tied else "W_L"
    return make.step(
        part,
        "logits",
        short="logits",
        title="Logits: a score for every word",
        announced="every row is compared with every word of the vocabulary",
        formula=rf"L = {x.name}\, {written}" + plus_bias(operands),
        says="Every place's row is multiplied with a column for each word: one dot product a word. "
        "The better a row fits a word's column, the higher that word's score.",
        departs=[None if tied else OWN_TABLE, BIAS if bias else None],
        operation="product",
        operands=operands,
        result=make.site("logits", "L", "a score for every word", x.rows.of, "vocabulary"),
        code=tap,
    )


def classes(
    make: Maker, part: str, x: Matrix, path: str, tap: Code, *, site: str = "logits", names: Sequence[str] | None = None
) -> Step:
    """A score for every class, by a linear layer."""
    operands = [x, *make.factors(path, "W_L", "a column for every class", "classes")]
    return make.step(
        part,
        "logits",
        short="logits",
        title="Logits: a score for every class",
        announced="every class gets a score",
        formula=rf"L = {x.name}\, W_L" + plus_bias(operands),
        says="The row is multiplied with a column for each class, and a bias is added. "
        "The better the row fits a class's column, the higher its score.",
        departs=["classes, not words, are scored: the paper's model writes text"],
        operation="product",
        operands=operands,
        result=make.site(site, "L", "a score for every class", x.rows.of, "classes", labels=names),
        code=tap,
    )


def probabilities(make: Maker, part: str, logits: Matrix) -> Step:
    """Softmax of the scores; of classes that don't exclude each other, each by itself."""
    several = _several(make)
    site = logits.key.removeprefix("site:")
    numbers: dict[str, Any] = (
        {"operation": "activation", "function": "sigmoid"} if several else {"operation": "softmax"}
    )
    many = r"p_{ij} = \frac{1}{1 + e^{-L_{ij}}}"
    one = r"p_{ij} = \frac{e^{L_{ij}}}{\sum_k e^{L_{ik}}}"
    return make.step(
        part,
        "probabilities",
        short="probabilities",
        title="Probabilities",
        announced="the scores become probabilities",
        formula=many if several else one,
        says="Each score by itself is pressed between 0 and 1, because several classes may be true at once. "
        "The probabilities of a row need not sum to 1."
        if several
        else "The softmax turns each row of scores into probabilities that sum to 1. "
        "Only differences between scores count: adding the same number to all changes nothing.",
        operands=[logits],
        result=make.matrix(
            f"derived:{site}.probabilities",
            "p",
            "probabilities",
            logits.rows.of,
            logits.columns.of,
            "share",
            logits.columns.labels,
            logits.rows.labels,
        ),
        code=code(probabilities_of, ".sigmoid(" if several else ".softmax("),
        **numbers,
    )


def chosen(make: Maker, part: str, name: str, shares: Matrix, title: str, says: str, tap: Code | None = None) -> Step:
    """The most probable of each row."""
    site = shares.key.removeprefix("derived:").removesuffix(".probabilities")
    return make.step(
        part,
        name,
        short=title.lower(),
        title=title.capitalize(),
        announced="the most probable is taken",
        formula=r"\hat{y}_i = \arg\max_j\, p_{ij}",
        says=says,
        operation="choose",
        operands=[shares],
        result=make.matrix(
            f"derived:{site}.chosen",
            "y",
            "the number of the best",
            shares.rows.of,
            "one",
            "plain",
            None,
            shares.rows.labels,
        ),
        code=tap or code(Sampling.choose, "argmax"),
    )


def next_token(make: Maker, part: str, shares: Matrix) -> Step:
    says = (
        "At every place the most probable word is taken as the next one; sampling would draw one instead. "
        "In training all places are asked at once, in writing only the last: its word joins the text."
    )
    return chosen(make, part, "next", shares, "next token", says)


def writing_head(make: Maker, before: Iterable[Step], logits: Step) -> list[Step]:
    """The end of every model that writes: logits, probabilities, the next token."""
    shares = probabilities(make, logits.part, logits.result)
    return [*before, logits, shares, next_token(make, logits.part, shares.result)]


def class_names(make: Maker) -> list[str] | None:
    names = labels(make.model).names
    return list(names) if len(names) <= FEW else None


def _several(make: Maker) -> bool:
    has_classes = getattr(make.model.config, "num_classes", None) is not None
    return has_classes and labels(make.model).problem == "multi_label_classification"


def is_measure(make: Maker) -> bool:
    """Whether the one number that comes out is a measure, not a choice among classes."""
    named = labels(make.model)
    return named.problem == "regression" or (len(named.names) == 1 and named.problem != "multi_label_classification")
