"""Every step of every family, walked: its cells follow from its operands, none is missing, its code line is right."""

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.layers import RelativeBias
from clearhead.models import create
from clearhead.models.registry import FAMILIES
from clearhead.ops.positions import relative_buckets
from clearhead.runs.labels import name_classes
from clearhead.studio.schema import Matrix, Step
from clearhead.studio.steps import Matrices, table
from clearhead.studio.steps.buckets import buckets, in_words
from clearhead.tasks.record import record
from clearhead.trace import SITES
from clearhead.trace.sites import VARIANTS as CATALOGUED
from tests.support import TOLERANCE

MULTI = "multi_label_classification"

# For every family what its config allows: each is a small model of its own below, two blocks deep unless it says so.
VARIANTS = {
    "transformer": {
        "pre": {},
        "post": {"norm": "post"},
        "marian": {"norm": "post", "half_split": True, "output_bias": True, "activation": "silu"},
        "learned, untied": {"positions": "learned", "tied": "none", "target_vocab": 53, "embedding_scaled": False},
        "deeper decoder": {"decoder_layers": 3, "decoder_heads": 4, "decoder_ff": 30, "tied": "decoder"},
    },
    "gpt": {
        "gpt2": {},
        "gpt1": {"norm": "post", "final_norm": False},
        "sinusoidal, untied": {"positions": "sinusoidal", "tied": False, "activation": "relu"},
        "rotary, grouped": {"positions": "rotary", "heads": 4, "head_width": 6, "kv_heads": 2, "value_width": 5},
        "no positions, one head": {"positions": "none", "heads": 1, "activation": "quick-gelu"},
        "band, layers scaled": {"band": 3, "layer_scaled": True},
        "unscaled": {"scores_scaled": False},
    },
    "bert": {
        "pretrain": {},
        "no task": {"task": None},
        "fill, untied": {"task": "fill", "tied": False, "activation": "gelu-tanh"},
        "next sentence": {"task": "next-sentence"},
        "classify": {"task": "classify", "num_classes": 4},
        "several classes": {"task": "classify", "num_classes": 4},
        "measure": {"task": "classify", "num_classes": 1},
        "tag": {"task": "tag", "num_classes": 5},
        "answer": {"task": "answer"},
    },
    "t5": {
        "v1.1": {},
        "v1.0": {"activation": "relu", "gated": False, "tied": True, "output_scaled": True},
        "deeper decoder": {"layers": 1, "decoder_layers": 2},
    },
    "vit": {
        "cls": {},
        "mean, overlapping": {"pooling": "mean", "stride": 2, "final_norm": "pooled"},
        "no positions, post": {"positions": "none", "norm": "post", "qkv_bias": False},
        "nothing added": {"positions": "none", "pooling": "mean", "channels": 1},
        "sinusoidal": {"positions": "sinusoidal"},
        "sinusoidal-2d": {"positions": "sinusoidal-2d"},
        "rotary": {"rotary_base": 100.0},
        "cct": {"tokenizer": "convolution", "patch": 2, "norm": "compact", "pooling": "sequence", "qkv_bias": False},
        "convolution, mean": {"tokenizer": "convolution", "patch": 2, "pooling": "mean", "positions": "none"},
        "patches, weighed": {"pooling": "sequence", "final_norm": "pooled", "channels": 1},
    },
}
ALL = [(family, variant) for family, variants in VARIANTS.items() for variant in variants]


@cache
def passed(family: str, variant: str):
    """A small model with every weight random (biases and gains too), a recorded pass, and its table."""
    entry = FAMILIES[family]
    config = entry.shrunken.with_changes(**VARIANTS[family][variant])
    random = torch.Generator().manual_seed(3)
    model = entry.model(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(generator=random).mul_(0.4).add_(float("norm" in name and name.endswith("weight")))
    if variant == "several classes":
        name_classes(model, ["a", "b", "c", "d"], MULTI)
    trace = record(model, model.example(2, random))
    nodes, steps = table(model, trace)
    return model, trace, nodes, steps


# What each operation does to a cell, once more and in float64: (step, matrices of the operands, i, j) -> the cell.
def product(step: Step, at: list[Tensor], i: int, j: int) -> float:
    bias = at[2][0, j] if len(at) > 2 else 0.0
    return float(at[0][i] @ at[1][:, j] + bias)


def added(step: Step, at: list[Tensor], i: int, j: int) -> float:
    return sum(float(x[i if len(x) > 1 else 0, j]) for x in at)


def masked(step: Step, at: list[Tensor], i: int, j: int) -> float:
    return float(at[0][i, j]) if at[1][i, j] else -float("inf")


def normed(step: Step, at: list[Tensor], i: int, j: int) -> float:
    x, gain, bias = at
    row = x[i]
    variance = (row - row.mean()).square().mean()
    return float((row[j] - row.mean()) / (variance + step.epsilon).sqrt() * gain[0, j] + bias[0, j])


def rms(step: Step, at: list[Tensor], i: int, j: int) -> float:
    x, gain = at
    return float(x[i, j] / (x[i].square().mean() + step.epsilon).sqrt() * gain[0, j])


FUNCTIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "tanh": torch.tanh,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
}


def activated(step: Step, at: list[Tensor], i: int, j: int) -> float:
    return float(FUNCTIONS[step.function](at[0][i, j]) * (at[1][i, j] if len(at) > 1 else 1))


def pooled(step: Step, at: list[Tensor], i: int, j: int) -> float:
    return float({"first": at[0][0], "mean": at[0].mean(0)}[step.function][j])


OPERATIONS = {
    "lookup": lambda step, at, i, j: float(at[1][int(at[0][i, 0]), j]),
    "pixels": lambda step, at, i, j: float(at[0][i, j]),
    "product": product,
    "scale": lambda step, at, i, j: float(at[0][i, j] * step.factor),
    "add": added,
    "mask": masked,
    "softmax": lambda step, at, i, j: float(at[0][i, j].exp() / at[0][i].exp().sum()),
    "norm": normed,
    "rms": rms,
    "activation": activated,
    "join": lambda step, at, i, j: float(torch.cat(at)[i, j]),
    "pool": pooled,
    "choose": lambda step, at, i, j: float(at[0][i].argmax()),
}


def cells(shape: tuple[int, int]) -> list[tuple[int, int]]:
    rows, columns = shape
    return [(0, columns - 1), (rows // 2, columns // 2), (rows - 1, 0)]


def expected(step: Step, matrices: Matrices, at: list[Tensor], i: int, j: int) -> float:
    """The cell as its operands give it. Two operations look at more than a row, a column or a cell of a head."""
    if step.operation == "concat":
        width = step.operands[0].columns.size
        return float(matrices.get(step.operands[0].key, j // width)[i, j % width])
    if step.window is not None:
        return within_window(step, at[0], i, j)
    if step.operation == "patches":
        c = matrices.model.config
        channel, y, x = j // (c.patch[0] * c.patch[1]), j // c.patch[1] % c.patch[0], j % c.patch[1]
        down, across = divmod(i, c.grid[1])
        return float(at[0][channel * c.image[0] + down * c.step[0] + y, across * c.step[1] + x])
    return OPERATIONS[step.operation](step, at, i, j)


def within_window(step: Step, x: Tensor, i: int, j: int) -> float:
    """A pixel of a window, zero beyond the edge; or the largest of those that are within."""
    (high, wide), size, stride, padding = step.window.grid, step.window.size, step.window.stride, step.window.padding
    across = (wide + 2 * padding - size) // stride + 1
    top, left = (place * stride - padding for place in divmod(i, across))
    if step.operation == "pool":
        rows, columns = (range(max(at, 0), min(at + size, end)) for at, end in ((top, high), (left, wide)))
        return max(float(x[row * wide + column, j]) for row in rows for column in columns)
    channel, row, column = j // size**2, top + j // size % size, left + j % size
    return float(x[channel * high + row, column]) if 0 <= row < high and 0 <= column < wide else 0.0


@pytest.mark.parametrize(("family", "variant"), ALL)
def test_three_cells_of_every_result_follow_from_the_operands(family: str, variant: str) -> None:
    model, trace, _, steps = passed(family, variant)
    matrices = Matrices(model, trace)
    pairs = [(step, head) for step in steps if step.operands for head in {0, step.result.heads - 1}]
    for step, head in pairs:
        result = matrices.get(step.result.key, head)
        operands = [matrices.get(operand.key, head).double() for operand in step.operands]
        largest = max(1.0, result[torch.isfinite(result)].abs().max().item())
        for i, j in cells(tuple(result.shape)):
            found, wanted = result[i, j].item(), expected(step, matrices, operands, i, j)
            assert found == wanted or abs(found - wanted) <= TOLERANCE * largest, (step.id, head, i, j)


def attention(*between: str, masked: bool = False) -> list[str]:
    scores = ["scores", "scaled", *between, *(["masked"] if masked else [])]
    return ["query", "key", "value", *scores, "softmax", "weighted", "concat", "projected"]


def part(name: str, steps: list[str], norm: str) -> list[str]:
    around = {"pre": ["norm", *steps, "residual"], "post": [*steps, "residual", "norm"]}[norm]
    return [f"{name}.{step}" for step in around]


def within(name: str, *steps: str) -> list[str]:
    return [f"{name}.{step}" for step in steps]


FF, GATED = ["expanded", "hidden", "output"], ["gate", "expanded", "hidden", "output"]
TEXT = ("tokens", "one_hot", "embedding")
PICTURE = ("picture", "patches", "flattened", "projected")
CONVOLUTION = ("picture", "windows", "convolved", "rectified", "largest")
WRITES = ("logits", "probabilities", "next")
HIDING = attention(masked=True)


def stack(
    name: str, layers: int, norm: str, looks: list[str], ff: list[str], cross: list[str] | None = None
) -> list[str]:
    return [
        step
        for n in range(layers)
        for step in (
            *part(f"{name}.{n}.attention", looks, norm),
            *(part(f"{name}.{n}.cross", cross, norm) if cross else []),
            *part(f"{name}.{n}.feed_forward", ff, norm),
        )
    ]


def encoder_decoder(
    text: tuple[str, ...], norm: str, last: bool, looks: list[str], ff: list[str], head: tuple[str, ...]
):
    return [
        *within("source", *text),
        *stack("encoder", 2, norm, looks, ff),
        *(["encoder.norm.norm"] if last else []),
        *within("target", *text),
        *stack("decoder", 2, norm, looks, ff, HIDING),
        *within("head", *(["norm"] if last else []), *head),
    ]


# The examples are batches of rows of several lengths, so that padding is masked in every text model's pass.
PLACED = (*TEXT, "scaled", "positions", "sum")
TURNED = ["query", "key", "value", "turned_query", "turned_key", *HIDING[3:]]
BERT_READS = [*within("input", *TEXT, "positions", "segments", "sum", "norm"), *stack("encoder", 2, "post", HIDING, FF)]
BIASED = attention("biased", masked=True)
POOLER = within("pooler", "first", "product", "pooled")
FILLS = within("masked_words", "projected", "hidden", "norm", "logits", "probabilities", "filler")
FOLLOWS = within("next_sentence", "logits", "probabilities", "answer")
CLASS = within("head", "logits", "probabilities", "class")

EXPECTED = {
    ("transformer", "pre"): encoder_decoder(PLACED, "pre", True, HIDING, FF, WRITES),
    ("transformer", "post"): encoder_decoder(PLACED, "post", False, HIDING, FF, WRITES),
    ("transformer", "marian"): encoder_decoder(PLACED, "post", False, HIDING, FF, WRITES),
    ("transformer", "learned, untied"): encoder_decoder((*TEXT, "positions", "sum"), "pre", True, HIDING, FF, WRITES),
    ("gpt", "gpt2"): [
        *within("input", *TEXT, "positions", "sum"),
        *stack("decoder", 2, "pre", HIDING, FF),
        *within("head", "norm", *WRITES),
    ],
    ("gpt", "gpt1"): [
        *within("input", *TEXT, "positions", "sum"),
        *stack("decoder", 2, "post", HIDING, FF),
        *within("head", *WRITES),
    ],
    ("gpt", "rotary, grouped"): [
        *within("input", *TEXT, "sum"),
        *stack("decoder", 2, "pre", TURNED, FF),
        *within("head", "norm", *WRITES),
    ],
    ("gpt", "no positions, one head"): [
        *within("input", *TEXT, "sum"),
        *stack("decoder", 2, "pre", HIDING, FF),
        *within("head", "norm", *WRITES),
    ],
    ("bert", "pretrain"): [*BERT_READS, *FILLS, *POOLER, *FOLLOWS],
    ("bert", "no task"): [*BERT_READS, *POOLER],
    ("bert", "fill, untied"): [*BERT_READS, *FILLS],
    ("bert", "next sentence"): [*BERT_READS, *POOLER, *FOLLOWS],
    ("bert", "classify"): [*BERT_READS, *POOLER, *CLASS],
    ("bert", "several classes"): [*BERT_READS, *POOLER, *CLASS],
    ("bert", "measure"): [*BERT_READS, *POOLER, "head.logits"],
    ("bert", "tag"): [*BERT_READS, *CLASS],
    ("bert", "answer"): [*BERT_READS, *within("head", "logits", "probabilities", "span")],
    ("t5", "v1.1"): encoder_decoder((*TEXT, "sum"), "pre", True, BIASED, GATED, WRITES),
    ("t5", "v1.0"): encoder_decoder((*TEXT, "sum"), "pre", True, BIASED, FF, ("scaled", *WRITES)),
    ("vit", "cls"): [
        *within("input", *PICTURE, "joined", "positions", "sum"),
        *stack("encoder", 2, "pre", attention(), FF),
        *within("head", "norm", "pooled", "logits", "probabilities", "class"),
    ],
    ("vit", "rotary"): [
        *within("input", *PICTURE, "joined", "positions", "sum"),
        *stack("encoder", 2, "pre", ["query", "key", "value", "turned_query", "turned_key", *attention()[3:]], FF),
        *within("head", "norm", "pooled", "logits", "probabilities", "class"),
    ],
    ("vit", "mean, overlapping"): [
        *within("input", *PICTURE, "positions", "sum"),
        *stack("encoder", 2, "pre", attention(), FF),
        *within("head", "pooled", "norm", "logits", "probabilities", "class"),
    ],
    ("vit", "cct"): [
        *within("input", *CONVOLUTION, "positions", "sum"),
        *stack("encoder", 2, "pre", attention(), FF),
        *within("head", "norm", "scores", "shares", "pooled", "logits", "probabilities", "class"),
    ],
    ("vit", "convolution, mean"): [
        *within("input", *CONVOLUTION),
        *stack("encoder", 2, "pre", attention(), FF),
        *within("head", "norm", "pooled", "logits", "probabilities", "class"),
    ],
    ("vit", "no positions, post"): [
        *within("input", *PICTURE, "joined"),
        *stack("encoder", 2, "post", attention(), FF),
        *within("head", "norm", "pooled", "logits", "probabilities", "class"),
    ],
}


@pytest.mark.parametrize(("family", "variant"), EXPECTED)
def test_no_step_is_missing_and_they_stand_in_the_order_of_the_pass(family: str, variant: str) -> None:
    assert [step.id for step in passed(family, variant)[3]] == EXPECTED[family, variant]


def shown(steps: list[Step]) -> set[str]:
    matrices = [matrix for step in steps for matrix in (*step.operands, step.result)]
    return {matrix.site for matrix in matrices if matrix.kind == "site"}


@pytest.mark.parametrize(("family", "variant"), ALL)
def test_every_recorded_site_is_shown_in_some_step(family: str, variant: str) -> None:
    _, trace, _, steps = passed(family, variant)
    assert set(trace) <= shown(steps)


@pytest.mark.parametrize("family", VARIANTS)
def test_every_catalogued_site_is_shown_by_some_variant(family: str) -> None:
    seen = {site for variant in VARIANTS[family] for site in shown(passed(family, variant)[3])}
    missing = [site.name for site in SITES[family] if not any(fnmatchcase(name, site.name) for name in seen)]
    assert not missing


def test_every_catalogued_site_of_a_cct_is_shown() -> None:
    seen = shown(passed("vit", "cct")[3])
    assert not [site.name for site in CATALOGUED["cct"] if not any(fnmatchcase(name, site.name) for name in seen)]


def test_the_published_cct_has_a_table() -> None:
    model = create("cct-7-3x1", seed=0, device="cpu")
    steps = {step.id: step for step in table(model, record(model, model.example(1)))[1]}
    assert len([name for name in steps if name.endswith(".softmax")]) == 7
    kernel = steps["input.convolved"].operands[1]
    assert (kernel.rows.size, kernel.columns.size) == (27, 256)
    assert (steps["input.largest"].result.rows.size, steps["head.shares"].result.columns.size) == (256, 256)


# Where a step points at what computes its numbers, and not at the tap that shows them.
COMPUTED = {
    "one_hot": "F.embedding",
    "positions": "def sinusoidal",
    "patches": ("images.view", "F.unfold"),
    "windows": "self.windows",
    "largest": "F.max_pool2d",
    "query": "self.qkv",
    "key": "self.qkv",
    "first": "hidden[:, 0]",
    "product": "self.pooler",
    "scaled": "**-0.5",
    "probabilities": (".softmax(-1)", ".sigmoid()"),
    "next": "argmax",
    "answer": "argmax",
    "filler": "topk",
    "class": "topk",
    "span": "argsort",
}


@pytest.mark.parametrize(("family", "variant"), ALL)
def test_a_step_points_at_the_line_that_makes_its_numbers(family: str, variant: str) -> None:
    package = Path(clearhead.__file__).parent
    for step in passed(family, variant)[3]:
        line = (package / step.code.file).read_text(encoding="utf-8").splitlines()[step.code.line - 1]
        wanted = COMPUTED.get(step.id.rpartition(".")[2], ())
        tap = f'"{step.result.site.rpartition(".")[2]}"'
        assert tap in line or any(words in line for words in ([wanted] if isinstance(wanted, str) else wanted)), step.id


@pytest.mark.parametrize(("family", "variant"), ALL)
def test_every_step_explains_itself_and_leads_to_the_next(family: str, variant: str) -> None:
    _, _, nodes, steps = passed(family, variant)
    assert len({step.id for step in steps}) == len(steps)
    assert all(len(step.says.split(". ")) >= 2 and step.says.endswith(".") for step in steps)
    assert all(step.next and step.next.startswith("Next ") for step in steps[:-1]) and steps[-1].next is None
    assert all(step.formula.count("{") == step.formula.count("}") for step in steps)
    leaves = [leaf.part for node in nodes for leaf in (node.parts or [node])]
    ribbons = list(dict.fromkeys(step.part for step in steps))
    assert leaves == ribbons


@pytest.mark.parametrize(("family", "variant"), ALL)
def test_a_matrix_says_its_true_shape_and_where_it_is_from(family: str, variant: str) -> None:
    model, trace, _, steps = passed(family, variant)
    matrices, weights = Matrices(model, trace), {name for name, _ in model.named_parameters()}
    for matrix in {m.key: m for step in steps for m in (*step.operands, step.result)}.values():
        value = matrices.get(matrix.key, matrix.heads - 1)
        assert tuple(value.shape) == (matrix.rows.size, matrix.columns.size) == matrices.shape(matrix.key)
        assert value.dtype == torch.float32
        assert matrix.kind != "site" or matrix.site in trace
        assert matrix.kind != "weight" or matrix.site in weights or is_computed_table(matrix), matrix.site


def is_computed_table(matrix: Matrix) -> bool:
    return matrix.key.endswith(".positions")


def departures(family: str, variant: str) -> str:
    return " | ".join(line for step in passed(family, variant)[3] for line in step.departs)


def test_departures_from_the_paper_follow_from_the_config() -> None:
    published = departures("transformer", "post")
    assert set(published.split(" | ")) == {"a bias is added: the paper writes none in attention"}
    for word in ("norm stands before", "learned positions", "GELU", "no encoder", "one more norm"):
        assert word in departures("gpt", "gpt2")
    for word in ("root-mean-square", "not scaled", "gated", "added to the scores", "no bias", "a matrix of its own"):
        assert word in departures("t5", "v1.1")
    assert "all sines stand before" in departures("transformer", "marian")
    assert "2 heads share one set" in departures("gpt", "rotary, grouped")
    assert "the last 3 tokens" in departures("gpt", "band, layers scaled")
    assert "the factor is" in departures("gpt", "band, layers scaled")
    assert "added to the normed rows" in departures("vit", "cct")
    assert "a convolution makes the rows" in departures("vit", "cct")


def test_the_decks_slips_are_said_where_they_belong() -> None:
    def slip(family: str, variant: str, step: str) -> str:
        return next(one.slip for one in passed(family, variant)[3] if one.id == step) or ""

    assert "the other way round" in slip("transformer", "post", "decoder.0.cross.query")
    assert "7 x 9" in slip("gpt", "gpt2", "decoder.0.attention.concat")
    assert "projected whole" in slip("gpt", "gpt2", "decoder.0.attention.query")
    assert "pos = 0 ... n-1" in slip("transformer", "post", "source.positions")
    assert "sums to 1.1" in slip("bert", "pretrain", "encoder.0.attention.softmax")
    assert "n x d_v" in slip("vit", "cls", "encoder.1.attention.value")
    assert "index 5" in slip("gpt", "gpt2", "input.one_hot")
    assert "ICLR 2021" in slip("vit", "cls", "input.patches")
    assert "MNIST" in slip("vit", "cls", "input.picture")


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("count", "far"), [(32, 128), (8, 16), (16, 20)])
def test_every_distance_lies_in_the_bucket_that_the_model_counts_with(
    count: int, far: int, bidirectional: bool
) -> None:
    bias = RelativeBias(2, buckets=count, max_distance=far, bidirectional=bidirectional)
    how = {"buckets": count, "max_distance": far, "bidirectional": bidirectional}
    for behind in (False, True):
        ranges = buckets(bias, behind)
        for distance in range(int(behind), 3 * far):
            (own,) = [one for one in ranges if one.first <= distance and (one.last is None or distance <= one.last)]
            assert own.number == relative_buckets(torch.tensor(distance if behind else -distance), **how)


def test_the_bias_of_a_t5_tells_its_buckets() -> None:
    told = in_words(RelativeBias(2))
    assert "query: 0 to 7 for 0 to 7, a distance each; 8: 8–11, 9: 12–15, 10: 16–22, 11: 23–31, 12: 32–45" in told
    assert "15: 91 and more. Behind it: 17 to 23 for 1 to 7, a distance each; 24: 8–11" in told
    assert in_words(RelativeBias(2, bidirectional=False)).endswith("31: 113 and more. Behind it: 0: 1 and more.")
    steps = {step.id: step for step in passed("t5", "v1.1")[3]}
    assert "Buckets of keys before the query: 0" in steps["encoder.1.attention.biased"].says
    assert "Behind it: 0: 1 and more." in steps["decoder.0.attention.biased"].says
