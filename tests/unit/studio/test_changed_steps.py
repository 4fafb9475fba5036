"""A pass with changes: a step that still follows from what it shows is left alone, one that does not says why."""

import pytest
import torch

from clearhead.studio.core import Settings, Studio
from clearhead.studio.passes import Kept
from clearhead.studio.schema import Change, Inputs, PassWanted, Step
from clearhead.studio.steps import Matrices
from tests.support import TOLERANCE
from tests.unit.studio.test_steps import cells, expected

TEXT, OTHER = "the cat [MASK] on the mat", "a dog sat on a dog"
BERT = Inputs(text=TEXT)
PAIR = Inputs(source="how are you", target="I love it")
DIGIT = Inputs(picture="digits/test/3")


def made(studio: Studio, model: str, inputs: Inputs, *changes: Change) -> tuple[Kept, Matrices]:
    id = studio.passes.make(PassWanted(model=model, inputs=inputs, changes=list(changes))).id
    matrices = studio.passes.matrices(id)
    assert isinstance(matrices, Matrices)
    return studio.passes.get(id), matrices


def apart(step: Step, matrices: Matrices, everywhere: bool) -> float:
    """How far the result is from what the operands give, in three cells of a head or in every cell."""
    worst = 0.0
    for head in range(step.result.heads):
        result = matrices.get(step.result.key, head)
        operands = [matrices.get(operand.key, head).double() for operand in step.operands]
        finite = result[torch.isfinite(result)].abs()
        largest = max(1.0, finite.max().item() if finite.numel() else 0.0)
        rows, columns = result.shape
        every = [(i, j) for i in range(rows) for j in range(columns)]
        for i, j in every if everywhere else cells((rows, columns)):
            found, wanted = result[i, j].item(), expected(step, matrices, operands, i, j)
            worst = max(worst, 0.0 if found == wanted else abs(found - wanted) / largest)
    return worst


def marked(kept: Kept, matrices: Matrices) -> dict[str, str]:
    """The marked steps and what they say. Every step is walked: unmarked it follows, marked it differs."""
    for step in (step for step in kept.said.steps if step.operands):
        off = apart(step, matrices, everywhere=step.changed is not None)
        assert off <= TOLERANCE if step.changed is None else off > TOLERANCE, (step.id, step.changed, off)
    return {step.id: step.changed for step in kept.said.steps if step.changed is not None}


@pytest.fixture(scope="module")
def studio(bert_run, translator_run, vit_run) -> Studio:
    return Studio(Settings(runs=(str(bert_run), str(translator_run), str(vit_run), "t5-mini", "vit-mini")))


def change(kind: str, **more) -> Change:
    return Change.model_validate({"kind": kind, **more})


CASES = {
    "a head off": ("bert", BERT, change("heads-off", layer=1, heads=[0]), ["encoder.1.attention.weighted"]),
    "all heads off": ("bert", BERT, change("heads-off"), [f"encoder.{n}.attention.weighted" for n in (0, 1)]),
    "flatter": ("bert", BERT, change("temperature", factor=3.0, layer=0), ["encoder.0.attention.scaled"]),
    "no positions": ("bert", BERT, change("no-positions"), ["input.positions"]),
    "another token": ("bert", BERT, change("tokens", place=2, token=12), []),
    "cross-attention": (
        "translator",
        Inputs(source="the cat sees", target="das Katze"),
        change("heads-off", stack="cross", layer=0, heads=[1]),
        ["decoder.0.cross.weighted"],
    ),
    "no positions in a pair": (
        "translator",
        Inputs(source="the cat sees", target="das Katze"),
        change("no-positions"),
        ["source.positions", "target.positions"],
    ),
    "t5 without distances": (
        "t5-mini",
        PAIR,
        change("no-positions"),
        [f"{stack}.{n}.attention.biased" for stack in ("encoder", "decoder") for n in (0, 1)],
    ),
    "t5 sharper": (
        "t5-mini",
        PAIR,
        change("temperature", stack="encoder", factor=0.5),
        [f"encoder.{n}.attention.biased" for n in (0, 1)],
    ),
    "a picture without positions": ("vit-mini", DIGIT, change("no-positions"), ["input.positions"]),
    "another picture's rows": (
        "vit-mini",
        DIGIT,
        change("patch", site="input.projected", other={"picture": "digits/test/4"}, place=9),
        ["input.projected"],
    ),
    "another picture": (
        "vit-mini",
        DIGIT,
        change("patch", site="input.image", other={"picture": "digits/test/4"}),
        ["input.picture"],
    ),
}


@pytest.mark.parametrize("which", CASES)
def test_exactly_the_steps_where_a_change_acts_are_marked(studio, which):
    model, inputs, wanted, steps = CASES[which]
    name = model if model in ("bert", "translator") else f"random:{model}"
    assert list(marked(*made(studio, name, inputs, wanted))) == steps


def test_a_pass_without_changes_has_no_marks(studio):
    assert marked(*made(studio, "bert", BERT)) == {}


def test_the_mark_says_which_change_it_was(studio):
    both = change("heads-off", layer=0, heads=[1]), change("temperature", factor=2.0)
    found = marked(*made(studio, "bert", BERT, *both))
    assert "does not follow from what is shown: head 2 off in layer 1." in found["encoder.0.attention.weighted"]
    assert "what goes into the softmax divided by 2." in found["encoder.1.attention.scaled"]
    assert len(found) == 3


def test_several_changes_at_one_site_are_all_named(studio):
    changes = change("temperature", factor=2.0, layer=0), change("temperature", factor=3.0)
    found = marked(*made(studio, "bert", BERT, *changes))
    assert "divided by 2 in layer 1; what goes into the softmax divided by 3." in found["encoder.0.attention.scaled"]


@pytest.mark.parametrize(
    "changes",
    [
        (change("temperature", factor=1.0),),
        (change("patch", site="encoder.blocks.0.attention.weights", other={"text": TEXT}),),
        (change("temperature", factor=2.0), change("temperature", factor=0.5)),
    ],
    ids=["a temperature of 1", "the same input", "there and back"],
)
def test_a_change_that_changes_nothing_marks_nothing(studio, changes):
    assert marked(*made(studio, "bert", BERT, *changes)) == {}


def test_whatever_site_is_patched_its_step_is_marked_and_no_other(studio):
    one, other = Inputs(text=TEXT, second="a dog"), {"text": "a dog", "second": OTHER}
    plain, _ = made(studio, "bert", one)
    for site in (site for site in plain.trace.values if "blocks.1" not in site):
        kept, matrices = made(studio, "bert", one, change("patch", site=site, other=other))
        shown = [step.id for step in kept.said.steps if step.result.kind == "site" and step.result.site == site]
        follows = site in ("input.segments", "input.positions")  # read off the result; the same in every input
        assert list(marked(kept, matrices)) == ([] if follows else shown), site
        assert shown or site.endswith(".input"), site  # what comes into a block is an operand alone


def test_tokens_that_were_not_typed_are_marked(studio):
    kept, matrices = made(studio, "bert", BERT, change("patch", site="input.ids", other={"text": OTHER}))
    assert list(marked(kept, matrices)) == ["input.tokens"]
    typed = [token.id for token in kept.said.tokens["tokens"]]
    assert matrices.get("site:input.ids")[:, 0].tolist() != typed
