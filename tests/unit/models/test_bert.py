"""BERT's config, counts and outputs; its numbers are compared with other people's in tests/parity."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.models import create, find
from clearhead.models.bert import BERT, FAMILY, PARTS, TASKS, BERTConfig
from clearhead.ops import init

SMALL = {"vocab": 101, "context": 12, "width": 24, "layers": 2, "heads": 3}
CLASSES = {"classify": {"num_classes": 5}, "tag": {"num_classes": 5}}


def small(task: str | None = None, **changes: object) -> BERT:
    model = create("bert-base", **SMALL, task=task, **CLASSES.get(task, {}), seed=0, **changes)
    assert isinstance(model, BERT)
    return model


def refused(**changes: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        create("bert-base", device="meta", **changes)
    message = str(caught.value)
    assert "\n" not in message
    return message


COUNTS = {"bert-base": 109_482_240, "bert-large": 335_141_888, "minilm-l6": 22_713_216}


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_a_published_size_has_exactly_its_parameters_with_a_pooler_and_no_head(name, count):
    assert create(name, device="meta").parameter_count == count


def test_the_paper_rounds_the_two_sizes_it_has():
    assert FAMILY.paper == {"bert-base": "110M", "bert-large": "340M"}


def test_each_head_adds_its_own_parameters_and_shares_the_token_table():
    width, vocab = 768, 30522
    pooler = width * width + width
    words = width * width + width + 2 * width + vocab
    expected = {
        "fill": words - pooler,
        "pretrain": words + 2 * width + 2,
        "next-sentence": 2 * width + 2,
        "classify": 5 * width + 5,
        "tag": 5 * width + 5 - pooler,
        "answer": 2 * width + 2 - pooler,
    }
    assert set(expected) == set(TASKS)
    for task, more in expected.items():
        changes = {"task": task, **CLASSES.get(task, {})}
        assert create("bert-base", device="meta", **changes).parameter_count == COUNTS["bert-base"] + more, task
    untied = create("bert-base", device="meta", task="fill", tied=False).parameter_count
    assert untied == COUNTS["bert-base"] + expected["fill"] + vocab * width


SHAPES = {
    None: [(2, 12, 24), (2, 24)],
    "fill": [(2, 12, 101)],
    "pretrain": [(2, 12, 101), (2, 2)],
    "next-sentence": [(2, 2)],
    "classify": [(2, 5)],
    "tag": [(2, 12, 5)],
    "answer": [(2, 12, 2)],
}


@pytest.mark.parametrize("task", PARTS)
def test_a_task_returns_what_the_config_says(task):
    model = small(task)
    output = model(*model.example())
    outputs = [output] if isinstance(output, torch.Tensor) else list(output)
    assert [tuple(out.shape) for out in outputs] == SHAPES[task]
    assert [name for name, _ in model.named_children()][2:] == list(PARTS[task])


IMPOSSIBLE = {
    "an unknown task": ({"task": "chat"}, "task must be one of fill, pretrain, next-sentence, classify, tag, answer"),
    "classes without a number": ({"task": "classify"}, "task 'classify' needs num_classes"),
    "tags without a number": ({"task": "tag"}, "task 'tag' needs num_classes"),
    "a number without classes": ({"num_classes": 3}, "num_classes goes with task 'classify' or 'tag' alone"),
    "no class at all": ({"task": "tag", "num_classes": 0}, "num_classes must be a whole number from 1"),
    "heads that don't divide": ({"heads": 7}, "7 heads don't divide a width of 768"),
    "no segment": ({"segments": 0}, "segments must be a whole number from 1"),
    "no epsilon": ({"norm_eps": 0.0}, "norm_eps must be above 0"),
    "an unknown activation": ({"activation": "gelo"}, "activation must be one of"),
    "a dropout of all": ({"head_dropout": 1.0}, "head_dropout must be at least 0 and below 1"),
    "a field it lacks": ({"positions": "rotary"}, "BERTConfig has no field 'positions'"),
}


@pytest.mark.parametrize(("changes", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_config_is_refused_in_one_line(changes, message):
    assert message in refused(**changes)


def test_changing_to_a_task_without_classes_takes_their_number_away():
    classes = BERTConfig(task="classify", num_classes=3)
    assert classes.with_changes(task=None) == BERTConfig()
    assert classes.with_changes(task="tag").num_classes == 3
    with pytest.raises(ClearheadError, match="goes with task"):
        classes.with_changes(task="fill", num_classes=3)


def test_more_tokens_than_the_context_are_refused():
    with pytest.raises(ClearheadError, match="13 tokens don't fit the model's context of 12"):
        small()(torch.zeros(1, 13, dtype=torch.long))


def test_padding_changes_nothing_for_the_tokens_before_it():
    model, (ids, lengths, segments) = small("pretrain"), small("pretrain").example(4)
    together, follows = model(ids, lengths, segments)
    for row, length in enumerate(lengths.tolist()):
        words, alone = model(ids[row : row + 1, :length], None, segments[row : row + 1, :length])
        assert torch.allclose(together[row, :length], words[0], atol=1e-5)
        assert torch.allclose(follows[row], alone[0], atol=1e-5)


def test_without_segments_all_tokens_are_the_first_sentences():
    model, (ids, lengths, segments) = small("fill"), small("fill").example()
    assert torch.equal(model(ids, lengths), model(ids, lengths, torch.zeros_like(segments)))
    assert not torch.allclose(model(ids, lengths), model(ids, lengths, segments))


def test_words_are_scored_by_the_token_table_itself_unless_untied():
    tied, untied = small("fill"), small("fill", tied=False)
    hidden = torch.randn(1, 3, 24)
    with torch.no_grad():
        before = tied.head(hidden), untied.head(hidden)
        for model in (tied, untied):
            model.input.tokens.weight.mul_(2)
    assert torch.allclose(tied.head(hidden), 2 * before[0], atol=1e-5)
    assert torch.equal(untied.head(hidden), before[1])


def test_the_classifiers_dropout_is_its_own_where_given():
    model = small("classify", dropout=0.0, attention_dropout=0.0, head_dropout=0.5).train()
    inputs = model.example()
    assert not torch.equal(model(*inputs), model(*inputs))
    plain = small("classify", dropout=0.0, attention_dropout=0.0).train()
    assert torch.equal(plain(*inputs), plain(*inputs))
    spans = small("answer", dropout=0.0, attention_dropout=0.0, head_dropout=0.5).train()
    assert torch.equal(spans(*inputs), spans(*inputs))


def test_weights_start_as_a_cut_normal_norms_at_one_and_biases_at_zero():
    model = create("bert-base", vocab=4001, width=96, layers=1, heads=3, task="pretrain", seed=0)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            assert not weight.any(), name
        elif "norm" in name:
            assert (weight == 1).all(), name
        else:
            assert weight.abs().max() <= 0.04, name
    table = model.input.tokens.weight
    assert table.std().item() == pytest.approx(0.02 * 0.8796, rel=0.01)
    assert table.mean().item() == pytest.approx(0.0, abs=1e-4)


def test_a_cut_normal_is_the_middle_of_a_normal():
    drawn = init.truncated_normal(torch.empty(400_000), 1.0, torch.Generator().manual_seed(0))
    normal = torch.randn(400_000, generator=torch.Generator().manual_seed(1))
    middle = normal[normal.abs() <= 2]
    at = torch.linspace(0.01, 0.99, 50)
    assert torch.allclose(drawn.quantile(at), middle.quantile(at), atol=0.015)
    assert drawn.abs().max() <= 2
    half = init.truncated_normal(torch.empty(10_000, dtype=torch.bfloat16), 0.02, torch.Generator().manual_seed(0))
    assert len(half.unique()) > 500


def test_the_encoder_compiles_as_one_graph_with_and_without_lengths():
    torch._dynamo.reset()  # it counts recompilations of a function, whatever model they were for
    model = create("bert-base", **SMALL | {"layers": 1}, seed=0)
    compiled = torch.compile(model.hidden, fullgraph=True, backend="eager")
    for inputs in (model.example()[:1], model.example()):
        assert torch.allclose(compiled(*inputs), model.hidden(*inputs), atol=1e-6)


@pytest.mark.parametrize("task", PARTS)
def test_every_head_compiles_as_one_graph(task):
    torch._dynamo.reset()
    model, hidden = small(task), torch.randn(2, 5, 24)
    outputs = model.head(hidden), torch.compile(model.head, fullgraph=True, backend="eager")(hidden)
    for a, b in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in outputs), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_autocast_keeps_the_stream_in_bfloat16_and_stays_near():
    model = small("classify")
    exact = model(*model.example(random=torch.Generator().manual_seed(0)))
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(*model.example(random=torch.Generator().manual_seed(0)))
    assert rough.dtype == torch.bfloat16
    assert torch.allclose(rough.float(), exact, atol=0.05)


def test_a_name_finds_the_family():
    assert find("minilm-l6")[0] is FAMILY
