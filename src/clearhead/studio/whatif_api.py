"""What if: one input before and after some changes; and two models, or two inputs, side by side."""

from fastapi import APIRouter

from .changes import in_words
from .core import Studio
from .schema import PassWanted
from .seen import Seen, seen
from .whatif import alike, checked_count, compared, moved, outcomes, said
from .whatif_schema import Compared, CompareWanted, WhatIf, WhatIfWanted


def router(studio: Studio) -> APIRouter:
    routes, passes = APIRouter(prefix="/api", tags=["what if"]), studio.passes

    def both(*wanted: PassWanted) -> tuple[list[Seen], list[str]]:
        """The two passes, held on to even where the second took the room of the first; and what was dropped."""
        found, dropped = [], []
        for one in wanted:
            made = passes.make(one)
            found.append(seen(studio, made.id))
            dropped += made.dropped
        return found, dropped

    @routes.post("/whatif")
    def what_if(wanted: WhatIfWanted) -> WhatIf:
        """Run the model as it is and with the changes; both passes are kept."""
        count = checked_count(wanted.count)
        plain = PassWanted(model=wanted.model, inputs=wanted.inputs)
        with_changes = PassWanted(model=wanted.model, inputs=wanted.inputs, changes=wanted.changes)
        (before, after), dropped = both(plain, with_changes)
        was = said(before, wanted.place)
        now = said(after, was.place)
        return WhatIf(
            before=before.kept.said.id,
            after=after.kept.said.id,
            told=[in_words(change) for change in wanted.changes],
            place=was.place,
            outcomes=outcomes(before, was, now, count),
            cosine=alike(was, now),
            stream=moved(before, after, was.place),
            dropped=dropped,
        )

    @routes.post("/compare")
    def compare_two(wanted: CompareWanted) -> Compared:
        """Two passes side by side: what each says, and the difference where their outcomes have the same names."""
        count = checked_count(wanted.count)
        (left, right), dropped = both(wanted.left, wanted.right)
        return compared(left, right, wanted.place, count, dropped)

    return routes
