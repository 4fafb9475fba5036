"""Where the tokens or patches stand: rows of a table, computed or learned, looked up by place."""

from ...ops import positions as ops
from ..schema import Code, Matrix, Step
from .making import Maker, Of
from .source import code

SINES = r"p_{pos,2i} = \sin\frac{pos}{10000^{2i/d}}, \quad p_{pos,2i+1} = \cos\frac{pos}{10000^{2i/d}}"
HALVES = r"p_{pos,i} = \sin\frac{pos}{10000^{2i/d}}, \quad p_{pos,i+d/2} = \cos\frac{pos}{10000^{2i/d}}"
FORMULAS = {
    "sinusoidal": SINES,
    "sinusoidal-2d": r"p_{(r,c)} = \left[\,\mathrm{sines}(r)\;\; \mathrm{sines}(c)\,\right]",
    "learned": r"P_i = W_P[i]",
}
SAYS = {
    "sinusoidal": "Attention alone can't tell one order of the rows from another, so every place has a row of its own. "
    "Its features are sines and cosines whose waves grow longer along the row.",
    "sinusoidal-2d": "Attention alone can't tell one order of the patches from another, so every place has its row. "
    "Half of its features say in which line of the picture the patch stands, half in which column.",
    "learned": "Attention alone can't tell one order of the rows from another, so every place has a row of its own. "
    "These rows are learned in training like any other weight.",
}
DEPARTS = {
    "sinusoidal": None,
    "sinusoidal-2d": "sines for a line and a column: the paper's are for one place in a row",
    "learned": "learned positions: the paper's are sines and cosines",
}
SLIP = (
    "A deck lets pos run from 0 to n and i from 0 to d/2. There are n places and d/2 pairs of features: "
    "pos = 0 ... n-1, i = 0 ... d/2-1."
)
IN_TURN = "all sines stand before all cosines: the paper takes them in turn"


def positions(
    make: Maker, part: str, rows: Of, kind: str, tap: Code, *, half_split: bool = False, means: str = "tokens"
) -> Step:
    """`kind` is what the config calls them; `tap` where they are added."""
    at = part
    operands = [
        make.matrix(f"derived:{at}.places", "pos", f"the places of the {means}, from 0", rows, "one", "plain"),
        make.matrix(f"weight:{at}.positions", "W_P", "the table: a row for every place there can be", "one"),
    ]
    computed = kind == "sinusoidal"
    return make.step(
        part,
        "positions",
        short="positions",
        title="The places' rows",
        announced=f"the places of the {means} get rows of their own",
        formula=HALVES if half_split else FORMULAS[kind],
        says=SAYS[kind],
        slip=SLIP if computed else None,
        departs=[DEPARTS[kind], IN_TURN if half_split else None],
        operation="lookup",
        operands=operands,
        result=make.site(f"{at}.positions", "P", "the rows of these places", rows),
        code=code(ops.sinusoidal, "def sinusoidal") if computed else tap,
    )


def summed(make: Maker, part: str, rows: Of, terms: list[Matrix], tap: Code, departs: str | None = None) -> Step:
    """Everything that was looked up, added; a lone term stays what it is."""
    names = " + ".join(term.name for term in terms)
    several = (
        "The rows are added, cell by cell, and nothing tells them apart afterwards. "
        "What a token is and where it stands now share the same features."
    )
    alone = (
        "Nothing is added to the rows here: the sum has one term. "
        "Whatever the model knows about places it gets later, or not at all."
    )
    return make.step(
        part,
        "sum",
        short="sum",
        title="The input of the first block",
        announced="all rows that belong to a place are added",
        formula=rf"X = {names}",
        says=several if len(terms) > 1 else alone,
        departs=[departs],
        operation="add",
        operands=terms,
        result=make.site(f"{part}.summed", "X", "what goes into the first block", rows),
        code=tap,
    )
