"""What if: each change against the same thing done to the weights or the inputs of the model itself."""

import copy

import pytest
import torch

import clearhead
from clearhead.analyse import attention_temperature, compare, edit_token, heads_off, no_positions, patch, together
from clearhead.errors import ClearheadError
from clearhead.models import FAMILIES, Model, create
from clearhead.tasks import record
from tests.minilm import tiny
from tests.support import equal

SMALL = {"device": "cpu", "seed": 0, "layers": 2, "width": 12, "heads": 3}
IDS = torch.tensor([[3, 1, 4, 1, 5]])
PAIR = (IDS, torch.tensor([[2, 7, 1]]))
PIXELS = torch.linspace(-1, 1, 64).reshape(1, 1, 8, 8)


def made(family: str) -> tuple[Model, object]:
    names = {
        "gpt": ("gpt2", {"vocab": 11, "context": 8}, IDS),
        "bert": ("bert-base", {"vocab": 11, "context": 8, "task": "classify", "num_classes": 3}, IDS),
        "transformer": ("transformer-tiny", {"vocab": 11, "context": 8}, PAIR),
        "t5": ("t5-small", {"vocab": 11, "head_width": 4, "ff": 16}, PAIR),
        "vit": ("vit-ti16", {"image": 8, "patch": 4, "channels": 1, "num_classes": 4}, PIXELS),
    }
    name, sizes, inputs = names[family]
    model = create(name, **sizes, **SMALL)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.1, 0.4)
    return model, inputs


def kinds(model: Model) -> list[str]:
    return ["encoder", "decoder", "cross"] if "target" in model.takes else [None]  # pyright: ignore


def answer(model: Model, inputs) -> torch.Tensor:
    """Of the fused path."""
    with torch.no_grad():
        scores = model(*(inputs if isinstance(inputs, tuple) else (inputs,)))
    return scores[0] if scores.ndim == 2 else scores[0, -1]


def attending(model: Model, kind: str | None, layer: int) -> torch.nn.Module:
    stack = "decoder" if kind in ("decoder", "cross") or model.family == "gpt" else "encoder"
    return model.get_submodule(f"{stack}.blocks.{layer}.{'cross' if kind == 'cross' else 'attention'}")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_that_is_off_is_a_head_without_its_part_of_the_output_matrix(family):
    model, inputs = made(family)
    for kind in kinds(model):
        changed = copy.deepcopy(model)
        part = attending(changed, kind, 1)
        width = part.heads.value
        with torch.no_grad():
            part.out.weight[:, :width] = 0
            part.out.weight[:, 2 * width :] = 0
        found = compare(model, inputs, heads_off(model, [0, 2], layer=1, kind=kind))
        assert equal(found.after.scores, answer(changed, inputs))
        assert equal(found.before.scores, answer(model, inputs))
        assert not torch.allclose(found.after.scores, found.before.scores)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_temperature_is_queries_divided_by_it(family):
    model, inputs = made(family)
    for kind in kinds(model):
        changed = copy.deepcopy(model)
        for layer in range(2):
            part = attending(changed, kind, layer)
            part.scale = (part.scale or part.heads.key**-0.5) / 2.5
        if family == "t5" and kind in ("encoder", "decoder"):
            with torch.no_grad():
                changed.get_parameter(f"{kind}_bias.weight").div_(2.5)  # what is added to the scores is divided too
        found = compare(model, inputs, attention_temperature(model, 2.5, kind=kind))
        assert equal(found.after.scores, answer(changed, inputs))
        assert not torch.allclose(found.after.scores, found.before.scores)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_positions_is_with_a_table_of_zeros(family):
    model, inputs = made(family)
    changed = copy.deepcopy(model)
    tables = [weight for name, weight in changed.named_parameters() if "positions" in name or "_bias.weight" in name]
    tables += [table for name, table in changed.named_buffers() if "positions" in name]
    assert tables
    with torch.no_grad():
        for table in tables:
            table.zero_()
    found = compare(model, inputs, no_positions(model))
    assert equal(found.after.scores, answer(changed, inputs))
    assert not torch.allclose(found.after.scores, found.before.scores)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "vit"])
def test_an_edited_token_is_another_input(family):
    model, inputs = made(family)
    for side in ("source", "target") if "target" in model.takes else ("source",):
        given = list(inputs) if isinstance(inputs, tuple) else [inputs]
        which = 1 if side == "target" else 0
        given[which] = given[which].clone()
        given[which][0, 1] = 9
        found = compare(model, inputs, edit_token(model, 1, 9, side=side))
        assert equal(found.after.scores, answer(model, tuple(given)))
        assert inputs[which][0, 1] != 9 if isinstance(inputs, tuple) else inputs[0, 1] != 9


@pytest.mark.parametrize("family", FAMILIES)
def test_the_whole_stream_of_another_input_gives_the_others_answer(family):
    model, inputs = made(family)
    stack = "decoder" if hasattr(model, "decoder") else "encoder"
    other = (IDS.flip(1), PAIR[1].flip(1)) if isinstance(inputs, tuple) else inputs.flip(-1)
    trace = record(model, other)
    sites = [f"{stack}.blocks.0.input", *(site for site in trace if ".cross.key" in site or ".cross.value" in site)]
    found = compare(model, inputs, together(*(patch(trace, site) for site in sites)))
    assert equal(found.after.scores, answer(model, other))
    assert not torch.allclose(found.after.scores, found.before.scores)


def test_a_patch_of_one_place_leaves_the_others_and_lengths_may_differ():
    model, _ = made("gpt")
    other = record(model, torch.tensor([[7, 7, 7, 7, 7, 7, 7]]))
    site = "decoder.blocks.1.input"
    found = compare(model, IDS, patch(other, site, places=[2]), sites=site)
    before, after = found.before.trace[site], found.after.trace[site]
    assert torch.equal(after[0, 2], other[site][0, 2])
    assert torch.equal(after[0, [0, 1, 3, 4]], before[0, [0, 1, 3, 4]])


def test_changes_of_one_site_are_made_one_after_the_other():
    model, _ = made("gpt")
    both = together(heads_off(model, [0], layer=0), heads_off(model, [2], layer=0), edit_token(model, 0, 9))
    at_once = together(edit_token(model, 0, 9), heads_off(model, [0, 2], layer=0))
    assert torch.equal(compare(model, IDS, both).after.scores, compare(model, IDS, at_once).after.scores)


def test_a_t5_without_positions_can_be_sharper_too():
    model, inputs = made("t5")
    found = compare(model, inputs, together(no_positions(model), attention_temperature(model, 0.5, kind="encoder")))
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for name in ("encoder_bias", "decoder_bias"):
            changed.get_parameter(f"{name}.weight").zero_()
    for layer in range(2):
        attending(changed, "encoder", layer).scale = 2.0
    assert equal(found.after.scores, answer(changed, inputs))


def test_outcomes_hold_the_best_of_both_with_their_names(tmp_path):
    model = clearhead.load(tiny(tmp_path / "fill", task="fill"), device="cpu")
    found = compare(model, "the cat sat on the [MASK]", heads_off(model), count=2)
    assert found.place == 6 and 2 <= len(found.outcomes) <= 4
    first = found.outcomes[0]
    assert first.before == found.before.probabilities.max().item()
    assert first.name == clearhead.tokenizer(model).pieces([first.number])[0]
    assert first.difference == pytest.approx(found.difference[first.number].item())
    assert found.before.probabilities.sum().item() == pytest.approx(1.0)
    assert found.before.trace.about["tokens"][6] == "[MASK]"
    words = [one.number for one in found.outcomes]
    for answer in (found.before, found.after):
        assert set(answer.probabilities.topk(2).indices.tolist()) <= set(words)


def test_a_bert_without_a_task_is_compared_by_its_mean_vector(tmp_path):
    model = clearhead.load(tiny(tmp_path / "plain"), device="cpu")
    found = compare(model, "the cat sat", edit_token(model, 2, "dog"))
    vectors = clearhead.embed(model, ["the cat sat", "the dog sat"])
    assert found.cosine == pytest.approx((vectors[0] @ vectors[1]).item(), abs=1e-5)
    assert found.outcomes == () and found.difference.shape == (24,)


def test_a_model_that_measures_is_compared_by_its_number():
    model = create("bert-base", vocab=11, context=8, task="classify", num_classes=1, **SMALL)
    found = compare(model, IDS, heads_off(model))
    assert found.before.probabilities is None and found.difference.shape == (1,)


def test_nothing_changed_is_nothing_different():
    model, _ = made("gpt")
    found = compare(model, IDS, {})
    assert torch.equal(found.before.scores, found.after.scores)
    assert found.cosine == pytest.approx(1.0) and found.difference.abs().max() == 0


def test_bad_requests_are_refused_in_one_line():
    gpt, t5, vit = made("gpt")[0], made("t5")[0], made("vit")[0]
    trace = record(gpt, IDS)
    longer = record(gpt, torch.tensor([[1, 2, 3, 4, 5, 6]]))
    rotary = create("gpt2", vocab=11, context=8, positions="rotary", **SMALL)
    cases = [
        (lambda: heads_off(gpt, [3], layer=0), "there is no head 3: the layer has 3, from 0"),
        (lambda: heads_off(gpt, []), "no heads were given"),
        (lambda: heads_off(gpt, [0], layer=2), "there is no layer 2: the decoder has 2"),
        (lambda: heads_off(t5), "say which attention is meant: encoder, decoder, cross$"),
        (lambda: heads_off(gpt, kind="cross"), "say which attention is meant: decoder, not 'cross'"),
        (lambda: attention_temperature(gpt, 0), "a temperature is a number above 0, not 0"),
        (lambda: no_positions(rotary), "adds no position rows"),
        (lambda: edit_token(vit, 0, 1), "it has no tokens to edit"),
        (lambda: edit_token(gpt, 0, 11), "tokens are numbered 0 to 10: there is no 11"),
        (lambda: compare(gpt, IDS, edit_token(gpt, 5, 1)), "there is no place 5: the input has 5 tokens"),
        (lambda: patch(trace, "decoder.blocks.1.inputs"), "was not recorded; did you mean"),
        (lambda: patch(trace, "decoder.blocks.1.input", item=1), "there is no number 1"),
        (lambda: patch(trace, "decoder.blocks.1.input", places=[5]), r"has 5 rows of tokens: not all of \[5\]"),
        (lambda: compare(gpt, IDS, patch(longer, "decoder.blocks.1.input")), "another shape in the other pass"),
        (lambda: compare(gpt, IDS, patch(longer, "decoder.blocks.1.input", places=[5])), "can't be patched in"),
        (lambda: compare(gpt, IDS, heads_off(gpt), count=0), "at least one is asked for, not 0"),
        (lambda: compare(gpt, IDS, {"nothing": torch.zeros(1)}), "no site matches 'nothing'"),
    ]
    for call, message in cases:
        with pytest.raises(ClearheadError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
