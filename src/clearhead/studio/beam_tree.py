"""Beam search as a tree for the page: every hypothesis that was considered, and what could have come behind it."""

from dataclasses import replace

from torch import Tensor

from ..decode import Beams, Search, beam_search
from .decode_schema import BeamAnswer, BeamNode, BeamTree, CrossRows, Decoded, DecodeSettings, Follower
from .decoding import BEST, Watched, length_of
from .writers import Writing


def search(job: Writing, settings: DecodeSettings) -> tuple[BeamTree, Search]:
    """The tree as `beam_search` keeps it, and what the model held likeliest behind every hypothesis that went on."""
    writes, behind = job.writes, _Behind()
    given = {"count": settings.beams, "length_penalty": settings.length_penalty}
    beams = Beams(**{name: value for name, value in given.items() if value is not None})
    beams = replace(beams, length=length_of(job, "beam", settings))
    found = beam_search(
        Watched(writes.model, behind.look),  # pyright: ignore[reportArgumentType]
        [job.ids],
        beams,
        end=writes.end,
        never=writes.never,
        prefix=writes.prefix,
        tree=True,
    )[0]
    tree = BeamTree(
        beams=beams.count,
        length_penalty=beams.length_penalty,
        first=behind.followers(job, 0, 0),
        nodes=_nodes(job, found, behind),
        answers=[_answer(job, found, number) for number in range(len(found.finished))],
    )
    return tree, found


class _Behind:
    """For every step and row of the search the likeliest tokens: (numbers, log probabilities)."""

    def __init__(self) -> None:
        self.steps: list[tuple[list[list[int]], list[list[float]]]] = []

    def look(self, scores: Tensor, cached: int) -> None:
        best = scores.float().log_softmax(-1).topk(min(BEST, scores.shape[-1]))
        self.steps.append((best.indices.tolist(), best.values.tolist()))

    def followers(self, job: Writing, step: int, row: int) -> list[Follower]:
        pairs = zip(self.steps[step][0][row], self.steps[step][1][row], strict=True)
        return [Follower(id=n, text=job.words.target.shown(n), logprob=logprob) for n, logprob in pairs]


def _nodes(job: Writing, found: Search, behind: _Behind) -> list[BeamNode]:
    """Those that went on stand in the tree in the order of the search's rows."""
    rows: dict[int, int] = {}
    nodes = []
    for node in found.tree:
        after = None
        if node.fate in ("followed", "open"):
            row = rows[node.step] = rows.get(node.step, -1) + 1
            after = behind.followers(job, node.step, row) if node.step < len(behind.steps) else None
        nodes.append(
            BeamNode(
                parent=node.parent,
                token=job.words.target.token(node.token),
                step=node.step,
                logprob=node.logprob,
                score=node.score,
                fate=node.fate,  # pyright: ignore[reportArgumentType]
                next=after,
            )
        )
    return nodes


def _answer(job: Writing, found: Search, number: int) -> BeamAnswer:
    one = found.finished[number]
    path, node = [], one.node
    while node is not None:
        path.append(node)
        node = found.tree[node].parent
    tokens = list(one.tokens)
    return BeamAnswer(
        tokens=job.tokens(tokens),
        text=job.text(tokens),
        score=one.score,
        logprob=one.logprob,
        path=path[::-1],
    )


def of_search(job: Writing, tree: BeamTree, cross: CrossRows | None) -> Decoded:
    best = tree.answers[0]
    return Decoded(
        mode="beam",
        given=job.given,
        begin=job.tokens(job.begin),
        text=best.text,
        tokens=best.tokens,
        reason="end" if best.tokens[-1].id in job.writes.end else "length",
        steps=[],
        tree=tree,
        cross=cross,
        notes=[job.words.note] if job.words.note else [],
    )
