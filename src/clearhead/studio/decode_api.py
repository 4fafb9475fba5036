"""Writing, step by step: greedy, drawn, by beam search; all at once or as it comes; taught against tested."""

from collections.abc import Iterator
from itertools import chain

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from ..errors import ClearheadError
from . import beam_tree, decoding, taught
from .core import Studio
from .decode_schema import CrossRows, CrossWanted, Decoded, DecodeModes, DecodeStep, DecodeWanted, ModesWanted
from .schema import Problem, Said
from .writers import Writing, writing

EVENTS = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}


class Events(StreamingResponse):
    media_type = "text/event-stream"


class Desk:
    """Begins to write, and reads cross-attention, one at a time."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.lock = studio, studio.passes.computing

    def begun(self, wanted: DecodeWanted) -> Writing:
        decoding.check_settings(wanted.mode, wanted.settings)
        return writing(self.studio.shelf.open(wanted.model), wanted.inputs)

    def rows(self, job: Writing, wanted: DecodeWanted | CrossWanted, tokens: list[int]) -> CrossRows | None:
        with self.lock:
            return taught.cross_rows(job, tokens, wanted.layer, wanted.heads)


def router(studio: Studio) -> APIRouter:
    routes, desk = APIRouter(prefix="/api/decode", tags=["decode"]), Desk(studio)
    for add in (_whole, _streamed, _looked_at):
        add(routes, desk)
    return routes


def _whole(routes: APIRouter, desk: Desk) -> None:
    @routes.post("")
    def decode(wanted: DecodeWanted) -> Decoded:
        """Write from a prompt or a source: every step, or the whole tree of a beam search."""
        job = desk.begun(wanted)
        if wanted.mode == "beam":
            with desk.lock:
                tree, _ = beam_tree.search(job, wanted.settings)
            best = [token.id for token in tree.answers[0].tokens]
            return beam_tree.of_search(job, tree, desk.rows(job, wanted, best))
        said = list(decoding.steps(job, wanted.mode, wanted.settings, desk.lock))
        return decoding.whole(job, wanted.mode, said, desk.rows(job, wanted, [step.token.id for step in said]))


def _streamed(routes: APIRouter, desk: Desk) -> None:
    @routes.post("/stream", response_class=Events, responses={**EVENTS})
    def decode_stream(wanted: DecodeWanted) -> StreamingResponse:
        """The same as events: `step` (DecodeStep) for each token, then `end` (Decoded without steps), or `problem`."""
        if wanted.mode == "beam":
            raise ClearheadError("a beam search ends all at once: only greedy and sample can be watched as they write")
        job = desk.begun(wanted)
        steps = decoding.steps(job, wanted.mode, wanted.settings, desk.lock)
        first = next(steps)  # what can be refused is refused before anything is sent

        def events() -> Iterator[str]:
            said: list[DecodeStep] = []
            try:
                for step in chain([first], steps):
                    said.append(step)
                    yield event("step", step)
                cross = desk.rows(job, wanted, [step.token.id for step in said])
                yield event("end", decoding.whole(job, wanted.mode, said, cross).model_copy(update={"steps": []}))
            except ClearheadError as mistake:
                yield event("problem", Problem(problem=str(mistake)))

        return Events(events())


def _looked_at(routes: APIRouter, desk: Desk) -> None:
    @routes.post("/cross")
    def decode_cross(wanted: CrossWanted) -> CrossRows:
        """The cross-attention rows of any tokens that could be written, such as the path to a node of the tree."""
        job = writing(desk.studio.shelf.open(wanted.model), wanted.inputs)
        found = desk.rows(job, wanted, taught.checked_tokens(job, wanted.tokens))
        if found is None:
            raise ClearheadError("a model that goes on with a text has no cross-attention")
        return found

    @routes.post("/modes")
    def decode_modes(wanted: ModesWanted) -> DecodeModes:
        """Teacher forcing against testing: all places at once from the true tokens, or one by one from its own."""
        job = writing(desk.studio.shelf.open(wanted.model), wanted.inputs, wanted.target)
        with desk.lock:
            return taught.modes(job, wanted.target)


def event(name: str, said: Said) -> str:
    return f"event: {name}\ndata: {said.model_dump_json()}\n\n"
