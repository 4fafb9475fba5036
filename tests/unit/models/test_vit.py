"""What a ViT can be beside the published one: turned by its place in 2-D, drawn to what is near, seen in part."""

import cmath
import math

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.layers import GridRotary
from clearhead.layers.stack import set_row_skipping
from clearhead.models import create
from clearhead.models.vit import STARTS
from clearhead.runs import convert
from clearhead.trace import Recorder
from tests.support import equal

SMALL = {"image": (16, 12), "patch": 4, "width": 24, "heads": 3, "layers": 2, "num_classes": 5}


def small(**changes):
    made = create("vit-c10", device="cpu", seed=0, **SMALL | changes)
    torch.nn.init.normal_(made.output.weight)
    return made


def turned(x, row: int, column: int, base: float):
    """One query or key, its pairs as complex numbers: the first half of them by the row, the others by the column."""
    pairs = len(x) // 2
    x = x.detach()
    out = list(x.tolist())
    for pair in range(pairs):
        place, number = (row, pair) if pair < pairs // 2 else (column, pair - pairs // 2)
        angle = place * base ** (-number / (pairs // 2))
        z = complex(x[pair], x[pair + pairs]) * cmath.exp(1j * angle)
        out[pair], out[pair + pairs] = z.real, z.imag
    return torch.tensor(out)


def test_rotary_positions_turn_by_row_and_column_as_complex_numbers_do():
    rotary, x = GridRotary(4, 3, 8, 100.0), torch.randn(2, 3, 12, 8)
    ours = rotary(x)
    for head, patch in ((0, 0), (1, 4), (2, 11)):
        assert equal(ours[1, head, patch], turned(x[1, head, patch], patch // 3, patch % 3, 100.0))


def test_rotary_positions_follow_the_patches_and_leave_the_class_token():
    rotary, x = GridRotary(4, 3, 8, 100.0, prefix=1), torch.randn(2, 3, 13, 8)
    whole = rotary(x)
    assert torch.equal(whole[:, :, 0], x[:, :, 0]) and torch.equal(whole[:, :, 1], x[:, :, 1])
    at = torch.tensor([[0, 7, 2], [0, 12, 5]])
    some = torch.stack([x[n][:, at[n]] for n in range(2)])
    assert torch.equal(rotary(some, at), torch.stack([whole[n][:, at[n]] for n in range(2)]))


def test_rotary_positions_of_a_finer_grid_with_the_same_span_lie_between_those_of_the_coarse_one():
    coarse, fine = GridRotary(4, 4, 8, 100.0), GridRotary(8, 8, 8, 100.0, span=4)
    x = torch.randn(8)
    for row, column in ((0, 3), (2, 1)):
        there = fine(x.expand(1, 1, 64, 8))[0, 0].view(8, 8, 8)
        assert equal(there[2 * row, 2 * column], coarse(x.expand(1, 1, 16, 8))[0, 0, 4 * row + column])
        assert equal(there[2 * row + 1, column], turned(x, row + 0.5, column / 2, 100.0))


def test_rotary_positions_keep_their_precision_in_a_model_of_bfloat16():
    rotary, x = GridRotary(4, 3, 8, 100.0), torch.randn(2, 3, 12, 8)
    whole = rotary(x)
    assert torch.equal(rotary.bfloat16()(x), whole) and rotary(x.bfloat16()).dtype == torch.bfloat16
    assert not rotary.state_dict()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_model_with_rotary_positions_alone_sees_the_order_of_its_patches(pooling):
    images = torch.randn(1, 3, 16, 12)
    swapped = torch.cat([images[:, :, 8:], images[:, :, :8]], 2)
    seen = {}
    for base in (None, 100.0):
        model = small(positions="none", pooling=pooling, rotary_base=base)
        with torch.no_grad():
            seen[base] = model.hidden(images), model.hidden(swapped)
    assert equal(*seen[None]) and not equal(*seen[100.0], tolerance=1e-3)


def test_queries_and_keys_of_a_pass_are_the_turned_ones():
    model, images = small(rotary_base=100.0), torch.randn(1, 3, 16, 12)
    with Recorder(model) as trace:
        model(images)
    block = model.encoder.blocks[0]
    straight = block.attention.qkv(trace["encoder.blocks.0.attention_norm.normed"])[0, 7, 24 + 8 : 24 + 16]
    assert equal(trace["encoder.blocks.0.attention.key"][0, 1, 7], turned(straight, 2, 1, 100.0))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_recorded_and_fast_are_the_same_with_rotary_positions(pooling):
    model = small(rotary_base=100.0, pooling=pooling)
    images = model.example(2)
    fast = model(*images)
    with Recorder(model):
        assert equal(model(*images), fast)


def test_a_new_model_prefers_near_patches_head_by_head():
    """With no weights but the biases a score is a sum of cosines, largest where patches stand together."""
    model = small(rotary_base=100.0, locality=1.6, positions="none")
    with torch.no_grad():
        model.encoder.blocks[0].attention.qkv.weight.zero_()
    with Recorder(model, ["encoder.blocks.0.attention.scores"]) as trace:
        model(*model.example(1))
    scores = trace["encoder.blocks.0.attention.scores"][0]
    for head, constant in enumerate((0.0, 0.8, 1.6)):
        for one, other in ((0, 0), (4, 5), (0, 11), (2, 9)):
            rows, columns = one // 3 - other // 3, one % 3 - other % 3
            angles = [away * 100.0 ** (-n / 2) for away in (rows, columns) for n in range(2)]
            assert scores[head, one, other].item() == pytest.approx(constant**2 * sum(map(math.cos, angles)), abs=1e-5)
    assert scores[2, 0, 0] > scores[2, 0, 1] > scores[2, 0, 11]


def test_values_and_the_second_half_of_queries_and_keys_start_without_a_bias():
    bias = small(rotary_base=100.0, locality=1.6).encoder.blocks[1].attention.qkv.bias.view(3, 3, 8)
    assert not bias[2].any() and not bias[:2, :, 4:].any() and bias[1, 2, :4].tolist() == pytest.approx([1.6] * 4)


@pytest.mark.parametrize("changes", [{}, {"rotary_base": 100.0}, {"pooling": "cls", "rotary_base": 100.0}], ids=str)
def test_in_training_some_patches_are_computed_as_if_the_others_were_not_there(changes):
    """Independently: every other patch is hidden from all by a mask, and left out of the mean."""
    model = small(**changes)
    model.keep_tokens(5)
    images, prefix = model.example(3)[0], model.config.prefix
    torch.manual_seed(4)
    ours = model.train().hidden(images)
    torch.manual_seed(4)
    chosen = torch.rand(3, 12).topk(5, 1).indices
    there = torch.zeros(3, 12, dtype=torch.bool).scatter(1, chosen, True)
    looks = torch.cat([torch.ones(3, prefix, dtype=torch.bool), there], 1)
    x = model.eval().input(images)
    for block in model.encoder.blocks:
        x = x + block.attention(block.attention_norm(x), mask=looks[:, None, None, :])
        x = x + block.feed_forward(block.feed_forward_norm(x))
    x = model.encoder.norm(x)
    expected = x[:, 0] if prefix else (x * there[..., None]).sum(1) / 5
    assert equal(ours, expected)
    assert not equal(ours, model.hidden(images), tolerance=1e-3), "evaluation sees every patch"


def test_other_patches_are_drawn_for_every_picture_and_every_pass():
    model = small().train()
    model.keep_tokens(5)
    images = model.example(1)[0].expand(2, -1, -1, -1)
    hidden = model.hidden(images)
    assert not equal(hidden[0], hidden[1], tolerance=1e-4)
    assert not equal(model.hidden(images), hidden, tolerance=1e-4)


def test_all_patches_are_kept_again():
    model = small().train()
    images = model.example(2)[0]
    whole = model.hidden(images)
    model.keep_tokens(5)
    model.keep_tokens(12)
    before = torch.get_rng_state()
    assert torch.equal(model.hidden(images), whole) and torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("count", [0, 13])
def test_more_patches_than_there_are_can_not_be_kept(count):
    with pytest.raises(ClearheadError, match=f"has 12 patches: from 1 to all of them can be kept, not {count}"):
        small().keep_tokens(count)


def test_a_training_pass_with_every_option_compiles_without_a_break_for_each_phase():
    model = small(rotary_base=100.0, locality=1.6, start="scaled").train()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=False)
    for kept, rate in ((9, 0.15), (12, 0.1)):
        model.keep_tokens(kept)
        set_row_skipping(model, rate)
        images = model.example(20)
        torch.manual_seed(0)
        ours = compiled(*images)
        ours.sum().backward()
        torch.manual_seed(0)
        assert equal(ours, model(*images))


def test_every_start_fills_every_weight_and_a_seed_repeats_it():
    for start in STARTS:
        first, again = (create("vit-c10", device="cpu", seed=3, **SMALL | {"start": start}) for _ in range(2))
        for (name, weight), other in zip(first.named_parameters(), again.parameters(), strict=True):
            assert torch.equal(weight, other) and torch.isfinite(weight).all(), name


def test_a_scaled_start_adds_little_and_has_sinusoids_for_positions():
    model = create("vit-c10", device="cpu", seed=0, layers=2, start="scaled", position_std=0.35)
    stds = {name: weight.std().item() for name, weight in model.named_parameters() if weight.ndim == 2}
    block = "encoder.blocks.1"
    assert stds[f"{block}.attention.qkv.weight"] == pytest.approx(1 / 16, rel=0.02)
    assert stds[f"{block}.feed_forward.up.weight"] == pytest.approx(1 / 16, rel=0.02)
    assert stds[f"{block}.attention.out.weight"] == pytest.approx(1 / 32, rel=0.02)
    assert stds[f"{block}.feed_forward.down.weight"] == pytest.approx(1 / 64, rel=0.02)
    places = model.input.positions.weight
    assert places.square().mean().sqrt().item() == pytest.approx(0.35, rel=1e-3)
    assert not model.output.weight.any()


def test_what_is_loaded_again_goes_on_training_with_the_same_bits(tmp_path):
    model = small(rotary_base=100.0, locality=1.6, start="scaled")
    clearhead.save(model, tmp_path)
    again = clearhead.load(tmp_path, device="cpu")
    assert again.config == model.config
    outputs = []
    for one in (model, again):
        one.train().keep_tokens(5)
        set_row_skipping(one, 0.3)
        torch.manual_seed(1)
        outputs.append(one(*one.example(6, torch.Generator().manual_seed(0))))
    assert torch.equal(*outputs)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"pooling": "cls", "rotary_base": 100.0}, "rotary_base = 100.0"),
        ({"tokenizer": "convolution", "patch": 2}, "tokenizer = 'convolution'"),
        ({"pooling": "sequence"}, "pooling = 'sequence'"),
        ({"pooling": "cls", "norm": "compact"}, "norm = 'compact'"),
    ],
)
def test_what_hugging_faces_form_cannot_say_is_named(tmp_path, changes, field):
    clearhead.save(small(**changes), tmp_path / "own")
    with pytest.raises(ClearheadError, match=f"can't say {field}"):
        convert.convert(tmp_path / "own", tmp_path / "theirs", to="hf")
    convert.convert(tmp_path / "own", tmp_path / "ours", to="clearhead")
    assert clearhead.load(tmp_path / "ours", device="cpu").config == small(**changes).config


def test_a_cct_is_loaded_for_another_number_of_classes(tmp_path):
    sizes = {"image": 16, "width": 24, "layers": 1, "heads": 3}
    clearhead.save(create("cct-7-3x1", device="cpu", seed=0, **sizes), tmp_path)
    assert clearhead.load(tmp_path, device="cpu", num_classes=3, image=20).config.grid == (10, 10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rotary_base": 1.0}, "rotary_base must be a number above 1, or none, not 1.0"),
        ({"rotary_base": 100.0, "rotary_span": 0}, "rotary_span must be a number above 0, or none, not 0"),
        ({"rotary_span": 8}, "rotary_span needs rotary_base"),
        ({"rotary_base": 100.0, "width": 18}, "heads of a width that 4 divides, not 6"),
        ({"locality": 1.0}, "locality needs rotary_base and qkv_bias"),
        ({"rotary_base": 100.0, "locality": 1.0, "qkv_bias": False}, "locality needs rotary_base and qkv_bias"),
        ({"rotary_base": 100.0, "locality": -1.0}, "locality must be 0 or more, not -1.0"),
        ({"tokenizer": "convolution"}, "a row for 2 x 2 pixels: set patch to 2"),
        ({"tokenizer": "convolution", "patch": 2, "pooling": "cls"}, "has no .CLS. in front"),
        ({"tokenizer": "words"}, "tokenizer must be one of patches, convolution"),
        ({"start": "cold"}, "start must be one of vit, cct, scaled"),
        ({"pooling": "max"}, "pooling must be one of cls, mean, sequence"),
    ],
)
def test_what_can_not_be_built_is_refused_in_one_line(changes, message):
    with pytest.raises(ClearheadError, match=message):
        small(**changes)
