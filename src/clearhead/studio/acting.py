"""Where changes really act on a pass, and which steps no longer follow from what they show because of them."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ..analyse import Intervention
from ..trace import Replacement
from .schema import Step

BROKEN = "A change acts here, so the result does not follow from what is shown: {}."
READ_OFF = ".segment_ids"  # operands that are read off the result: they follow it wherever it goes


class Acting:
    """Changes to one pass: what a Recorder puts in place of its sites' values, and at which of them that was another.

    told  site -> the changes that it goes on with another value for, in words
    """

    def __init__(self) -> None:
        self.told: dict[str, list[str]] = {}
        self._at: dict[str, list[tuple[str, Replacement]]] = {}

    def add(self, words: str, change: Intervention) -> None:
        """One more change; where several change the same site, they do so in this order."""
        for site, new in change.items():
            self._at.setdefault(site, []).append((words, new))

    @property
    def replacements(self) -> Intervention:
        return {site: partial(self._going_on, site) for site in self._at}

    def _going_on(self, site: str, computed: Tensor) -> Tensor:
        value, told = computed, []
        for words, new in self._at[site]:
            before, value = value, new(value) if callable(new) else new
            if not torch.equal(value, before):
                told.append(words)
        if not torch.equal(value, computed):
            self.told[site] = told
        return value

    def marked(self, steps: Sequence[Step]) -> list[Step]:
        """The steps; those whose result is not what their operands give say which change is the reason."""
        return [self._marked(step) if self._breaks(step) else step for step in steps]

    def _breaks(self, step: Step) -> bool:
        """A result that was exchanged, and that is not shown as its own operand too."""
        result, operands = step.result, [matrix.key for matrix in step.operands]
        exchanged = result.kind == "site" and result.site in self.told
        return exchanged and result.key not in operands and not any(key.endswith(READ_OFF) for key in operands)

    def _marked(self, step: Step) -> Step:
        return step.model_copy(update={"changed": BROKEN.format("; ".join(self.told[step.result.site]))})
