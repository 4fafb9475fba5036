"""What the functions of a table share: naming matrices, writing a step down, joining parts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...models import Model
from ...trace import Trace
from ..schema import Axis, Code, Matrix, Node, Operation, Step
from .matrices import Matrices

Of = Literal["source", "target", "tokens", "patches", "dimensions", "vocabulary", "classes", "pixels", "heads", "one"]
Colour = Literal["signed", "share", "plain"]
Column = Literal["encoder", "decoder"] | None


@dataclass
class Part:
    """A line of the left rail and the steps behind it."""

    node: Node
    steps: list[Step]

    @property
    def result(self) -> Matrix:
        return self.steps[-1].result


@dataclass
class Maker:
    """Makes the matrices and steps of one pass. `announced`: how the step before a step speaks of it."""

    model: Model
    trace: Trace
    announced: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.matrices = Matrices(self.model, self.trace)

    def has(self, site: str) -> bool:
        """Whether the pass came by this site."""
        return site in self.trace.values or site in self.trace.left_out

    def matrix(
        self,
        key: str,
        name: str,
        means: str,
        rows: Of,
        columns: Of = "dimensions",
        colour: Colour = "signed",
        labels: Sequence[str] | None = None,
        row_labels: Sequence[str] | None = None,
    ) -> Matrix:
        found = self.matrices.find(key)
        kind: Any = key.partition(":")[0]
        return Matrix(
            key=key,
            name=name,
            means=means,
            rows=Axis(of=rows, size=found.shape[0], labels=None if row_labels is None else list(row_labels)),
            columns=Axis(of=columns, size=found.shape[1], labels=None if labels is None else list(labels)),
            heads=found.heads,
            colour=colour,
            site=found.source,
            kind=kind,
        )

    def site(self, site: str, name: str, means: str, rows: Of, columns: Of = "dimensions", **more: Any) -> Matrix:
        return self.matrix(f"site:{site}", name, means, rows, columns, **more)

    def factors(self, path: str, name: str, means: str, columns: Of = "dimensions", **more: Any) -> list[Matrix]:
        """What a row is multiplied by, and the bias that is added where there is one."""
        found = [self.matrix(f"weight:{path}", name, means, "dimensions", columns, **more)]
        if self.matrices.weights.has_bias(path):
            bias = name.replace("W", "b", 1)
            found.append(self.matrix(f"weight:{path}.bias", bias, "the bias, added to every row", "one", columns))
        return found

    def step(
        self,
        part: str,
        name: str,
        *,
        short: str,
        title: str,
        announced: str,
        formula: str,
        says: str,
        operation: Operation,
        operands: Iterable[Matrix],
        result: Matrix,
        code: Code,
        slip: str | None = None,
        departs: Iterable[str | None] = (),
        **numbers: Any,
    ) -> Step:
        """`announced` is a clause that stands behind "Next" in the step before; None among `departs` is left out."""
        self.announced[f"{part}.{name}"] = announced
        return Step(
            id=f"{part}.{name}",
            part=part,
            short=short,
            title=title,
            formula=formula,
            says=says,
            slip=slip,
            departs=[one for one in departs if one is not None],
            operation=operation,
            operands=list(operands),
            result=result,
            code=code,
            **numbers,
        )

    def joined(self, parts: Sequence[Part]) -> tuple[list[Node], list[Step]]:
        """The rail and the table; each step says what comes next."""
        steps = [step for part in parts for step in part.steps]
        told = [f"Next {self.announced[step.id]}." for step in steps[1:]]
        linked = [step.model_copy(update={"next": then}) for step, then in zip(steps, [*told, None], strict=True)]
        return [part.node for part in parts], linked


def renamed(matrix: Matrix, name: str, means: str | None = None) -> Matrix:
    """The same matrix by the name that it has in the next formula."""
    return matrix.model_copy(update={"name": name, "means": means or matrix.means})


def plus_bias(operands: Sequence[Matrix]) -> str:
    """The end of a product's formula: its bias, where it has one."""
    return rf" + {latex(operands[2].name)}" if len(operands) > 2 else ""


def latex(name: str) -> str:
    """A matrix's name as a formula writes it: what stands below the line is kept together."""
    letter, _, below = name.partition("_")
    return f"{letter}_{{{below}}}" if below else letter


def by(*sizes: int) -> str:
    return " × ".join(map(str, sizes))


def shape_of(matrix: Matrix) -> str:
    return by(matrix.rows.size, matrix.columns.size)
