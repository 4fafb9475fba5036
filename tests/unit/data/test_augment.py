"""Augmentation: each operation against Pillow, identity to the last bit, seeds, and the statistics of what is drawn."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Generator, Tensor

from clearhead.data import augment_ops as ops
from clearhead.data.augment import Augmentation, Draws, apply, augment, draw
from clearhead.data.crops import box_mask, centre_box, flip, random_boxes, resized_crop, window
from clearhead.data.mix import Mixing, Pair, draw_mixing, mix
from clearhead.errors import ClearheadError
from tests.support import equal

EVERYTHING = Augmentation(
    crop=4, padding="reflect", flip=0.5, ops="trivial", ops_count=2, erase=0.25, mixup=0.3, cutmix=0.5
)
OFF = Draws(None, None, None, None, None, None, None)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def noise(batch: int = 5, channels: int = 3, height: int = 20, width: int = 28, seed: int = 0) -> Tensor:
    """Bytes with slopes and noise, and no channel that already reaches from black to white."""
    slope = torch.arange(width).view(1, 1, 1, -1) * 3.0 + torch.arange(height).view(1, 1, -1, 1) * 2.0
    grain = torch.rand(batch, channels, height, width, generator=seeded(seed)) * 60
    return (slope + grain + 20).to(torch.uint8)


def images(pixels: Tensor) -> list[Image.Image]:
    return [Image.fromarray(one.permute(1, 2, 0).numpy()) for one in pixels]


def stacked(pictures: list[Image.Image]) -> Tensor:
    return torch.from_numpy(np.stack([np.asarray(one) for one in pictures])).permute(0, 3, 1, 2)


def levels_apart(result: Tensor, pictures: list[Image.Image]) -> float:
    """The largest difference in bytes."""
    return (result * 255 - stacked(pictures)).abs().max().item()


ENHANCERS = {
    "brightness": (ops.brightness, ImageEnhance.Brightness),
    "contrast": (ops.contrast, ImageEnhance.Contrast),
    "colour": (ops.colour, ImageEnhance.Color),
    "sharpness": (ops.sharpness, ImageEnhance.Sharpness),
}


@pytest.mark.parametrize(("ours", "theirs"), ENHANCERS.values(), ids=ENHANCERS)
def test_enhancing_is_pillows_but_for_its_rounding(ours, theirs):
    pixels, factors = noise(), [0.1, 0.5, 1.0, 1.5, 1.9]
    expected = [theirs(image).enhance(factor) for image, factor in zip(images(pixels), factors, strict=True)]
    # Pillow rounds the grey or smoothed picture first (half a level, times the factor) and cuts the result off.
    assert levels_apart(ours(pixels / 255, torch.tensor(factors)), expected) <= 1.5


def test_posterize_drops_the_lowest_bits_as_pillow_does():
    pixels, dropped = noise(), torch.tensor([0.0, 1, 3, 4, 6])
    expected = [
        ImageOps.posterize(image, 8 - int(d)) for image, d in zip(images(pixels), dropped.tolist(), strict=True)
    ]
    assert levels_apart(ops.posterize(pixels / 255, dropped), expected) < 1e-3


def test_solarize_turns_bright_pixels_round_as_pillow_does():
    pixels, thresholds = noise(), [0, 60, 128, 200, 256]
    expected = [ImageOps.solarize(image, t) for image, t in zip(images(pixels), thresholds, strict=True)]
    assert levels_apart(ops.solarize(pixels / 255, torch.tensor(thresholds) / 255), expected) < 1e-3


def test_autocontrast_stretches_each_channel_as_pillow_does():
    pixels = noise()
    pixels[1, 2] = 77  # nothing to stretch
    assert levels_apart(ops.autocontrast(pixels / 255), [ImageOps.autocontrast(one) for one in images(pixels)]) <= 1


@pytest.mark.parametrize(("height", "width"), [(20, 28), (32, 32), (8, 8)])
def test_equalize_is_pillows_to_the_byte(height, width):
    pixels = noise(height=height, width=width)
    pixels[1, 2], pixels[2, 0], pixels[3] = 77, pixels[2, 0] // 64 * 64, (pixels[3].float() ** 2 / 255).to(torch.uint8)
    assert levels_apart(ops.equalize(pixels / 255), [ImageOps.equalize(one) for one in images(pixels)]) < 1e-3


def test_rotate_is_pillows():
    pixels, degrees = noise(), [0.0, 7.0, -30.0, 90.0, 135.0]
    expected = [
        image.rotate(angle, Image.Resampling.BILINEAR, fillcolor=(51, 51, 51))
        for image, angle in zip(images(pixels), degrees, strict=True)
    ]
    # On the very border of the picture rounding decides whether a point is inside.
    apart = (ops.warp(pixels / 255, *ops.rotation(torch.tensor(degrees)), 0.2) * 255 - stacked(expected)).abs().amax(1)
    assert apart[:4].max() <= 1 and (apart > 1).float().mean() < 0.002


@pytest.mark.parametrize("name", ["shear_x", "shear_y", "shift_x", "shift_y"])
def test_shears_and_shifts_are_pillows_affine_maps_about_the_middle(name):
    pixels, amounts = noise(), [0.0, 0.3, -0.3, 0.99, -7.5]
    expected = []
    for image, v in zip(images(pixels), amounts, strict=True):
        matrix = {
            "shear_x": (1, v, -v * image.height / 2, 0, 1, 0),
            "shear_y": (1, 0, 0, v, 1, -v * image.width / 2),
            "shift_x": (1, 0, v, 0, 1, 0),
            "shift_y": (1, 0, 0, 0, 1, v),
        }[name]
        size, kind = image.size, Image.Transform.AFFINE
        expected.append(image.transform(size, kind, matrix, Image.Resampling.BILINEAR, fillcolor=(0, 0, 0)))
    result = ops.warp(pixels / 255, *getattr(ops, name)(torch.tensor(amounts)), 0.0)
    assert levels_apart(result, expected) < 1.001


NOTHING = {
    **{name: (pair[0], torch.ones(5)) for name, pair in ENHANCERS.items()},
    "posterize": (ops.posterize, torch.zeros(5)),
    "solarize": (ops.solarize, torch.full((5,), 256 / 255)),
    **{
        make.__name__: (lambda pixels, amount, make=make: ops.warp(pixels, *make(amount), 0.5), torch.zeros(5))
        for make in (ops.rotation, ops.shear_x, ops.shear_y, ops.shift_x, ops.shift_y)
    },
}


@pytest.mark.parametrize(("operation", "parameter"), NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_parameter_that_means_nothing_changes_no_bit(operation, parameter, channels):
    pixels = torch.rand(5, channels, 7, 9, generator=seeded())
    assert torch.equal(operation(pixels, parameter), pixels)


def operated(name: str, pixels: Tensor, strength: Tensor, sign: Tensor, ranges: ops.Ranges) -> Tensor:
    if name in ops.COLOURS:
        return ops.COLOURS[name](pixels, strength, sign, ranges)
    return ops.warp(pixels, *ops.MAPS[name](strength, sign, ranges, *pixels.shape[2:]), 0.0)


def test_a_strength_of_nothing_changes_no_bit_in_any_operation_that_has_one():
    pixels = torch.rand(5, 3, 8, 8, generator=seeded())
    for name in ops.OPERATIONS:
        if name not in ("autocontrast", "equalize"):
            assert torch.equal(operated(name, pixels, torch.zeros(5), torch.ones(5), ops.WIDE), pixels), name


@pytest.mark.parametrize("batch", [1, 3, 14, 33])
def test_one_operation_each_is_the_operation_itself(batch):
    pixels = torch.rand(batch, 3, 8, 8, generator=seeded())
    count = ops.slots(batch)
    order = torch.randperm(count, generator=seeded(1))
    strength, sign = torch.rand(count, generator=seeded(2)), torch.ones(count)
    result = ops.one_each(pixels, order, strength, sign, ops.RAND, 0.0)
    for entry, picture in enumerate(order.tolist()):
        if picture < batch:
            name, at = ops.OPERATIONS[entry % len(ops.OPERATIONS)], slice(picture, picture + 1)
            assert equal(result[at], operated(name, pixels[at], strength[at], sign[at], ops.RAND))


def test_every_picture_meets_every_operation_equally_often():
    batch, count = 3, ops.slots(3)
    met = torch.zeros(batch, len(ops.OPERATIONS))
    for seed in range(1400):
        order = draw(torch.zeros(batch, 1, 2, 2), Augmentation(ops="rand"), seeded(seed)).orders
        assert order is not None and sorted(order[0].tolist()) == list(range(count))
        for entry, picture in enumerate(order[0].tolist()):
            if picture < batch:
                met[picture, entry % len(ops.OPERATIONS)] += 1
    assert met.min() > 60 and met.max() < 145  # 100 expected, 9.6 deviation


def test_randaugment_keeps_its_magnitude_and_others_stay_below_it():
    pixels = torch.zeros(700, 1, 2, 2)
    varied = draw(pixels, Augmentation(ops="varied", magnitude=0.6), seeded())
    assert varied.strengths is not None and varied.strengths.max() <= 0.6
    assert varied.strengths.mean().item() == pytest.approx(0.3, abs=0.03)
    rand = draw(pixels, Augmentation(ops="rand", ops_count=2, magnitude=0.3), seeded())
    trivial = draw(pixels, Augmentation(ops="trivial", magnitude=0.6), seeded())
    assert rand.strengths is not None and trivial.strengths is not None and rand.signs is not None
    assert rand.strengths.shape == (2, 700) and rand.strengths.unique().tolist() == [pytest.approx(0.3)]
    assert trivial.strengths.max() <= 0.6 and trivial.strengths.mean().item() == pytest.approx(0.3, abs=0.03)
    assert set(rand.signs.unique().tolist()) == {-1.0, 1.0} and abs(rand.signs.mean().item()) < 0.1


def test_varied_strengths_are_strengths_in_the_ranges_of_randaugment():
    pixels = torch.rand(14, 3, 8, 8, generator=seeded())
    settings = Augmentation(ops="varied", magnitude=0.8)
    draws = draw(pixels, settings, seeded())
    assert draws.orders is not None and draws.strengths is not None and draws.signs is not None
    expected = ops.one_each(pixels, draws.orders[0], draws.strengths[0], draws.signs[0], ops.RAND, 0.0)
    assert torch.equal(augment(pixels, settings, seeded()), expected)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_settings_that_do_nothing_change_no_bit(kind):
    pixels = noise() if kind == torch.uint8 else torch.rand(5, 3, 8, 8)
    assert augment(pixels, Augmentation(), seeded()) is pixels
    still = augment(pixels, Augmentation(ops="rand", magnitude=0.0), seeded())
    changed = {"autocontrast", "equalize"}  # have no strength
    same = [torch.equal(a, b) for a, b in zip(still, pixels, strict=True)]
    assert still.dtype == kind and same.count(False) <= len(changed)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_seed_gives_the_same_pictures_and_another_one_others(kind, channels):
    pixels = noise(16, channels) if kind == torch.uint8 else torch.rand(16, channels, 8, 8, generator=seeded())
    first, again, other = (augment(pixels, EVERYTHING, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert first.dtype == kind and first.shape == pixels.shape and first.float().min() >= 0
    assert first.max() <= (255 if kind == torch.uint8 else 1)


def test_drawing_reads_the_generator_and_nothing_else():
    pixels = torch.rand(16, 3, 8, 8, generator=seeded())
    torch.manual_seed(1)
    first = augment(pixels, EVERYTHING, seeded())
    torch.manual_seed(2)
    assert torch.equal(first, augment(pixels, EVERYTHING, seeded()))


def test_the_pure_half_is_traced_whole():
    """One graph without breaks is what makes it compile; the backend that runs it unfused is enough to see that."""
    pixels = torch.rand(16, 3, 8, 8, generator=seeded())
    draws = draw(pixels, EVERYTHING, seeded())
    traced = torch.compile(apply, backend="eager", fullgraph=True)
    assert torch.equal(traced(pixels, EVERYTHING, draws), apply(pixels, EVERYTHING, draws))


def test_the_pure_half_stays_on_the_pictures_device():
    """A tensor without content stands for any device but the CPU: mixing the two is an error."""
    pixels = torch.rand(16, 3, 8, 8, generator=seeded())
    draws = draw(pixels, EVERYTHING, seeded())
    elsewhere = Draws(*(one if one is None else one.to("meta") for one in draws))
    assert apply(pixels.to("meta"), EVERYTHING, elsewhere).shape == pixels.shape
    mixing = draw_mixing(16, 8, 8, (0.3, 0.8), (0.5, 1.0), seeded())
    mixed, pair = mix(pixels.to("meta"), torch.zeros(16, device="meta"), Mixing(*(one.to("meta") for one in mixing)))
    assert mixed.device == pair.weight.device == torch.device("meta")
    boxes = random_boxes(torch.rand(16, 4, device="meta"), 8, 8, (0.5, 1.0))
    assert resized_crop(pixels.to("meta"), boxes, 4).shape == (16, 3, 4, 4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_a_gpu_makes_the_same_pictures_from_the_same_numbers(kind):
    pixels = noise(64, height=32, width=32)
    pixels = pixels if kind == torch.uint8 else pixels / 255
    here, there = (augment(pixels.to(device), EVERYTHING, seeded()).cpu().float() for device in ("cpu", "cuda"))
    step = 1.0 if kind == torch.uint8 else 1 / 255
    assert ((here - there).abs() > 1.01 * step).float().mean() < 1e-3  # rounding may decide at borders and thresholds
    mixing = draw_mixing(64, 32, 32, (0.3, 0.8), (0.5, 1.0), Generator("cuda").manual_seed(0))
    floats, labels = torch.rand(64, 3, 32, 32, device="cuda"), torch.arange(64, device="cuda")
    assert mix(floats, labels, mixing)[1].soft(64).sum(1).sub(1).abs().max() < 1e-5


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
@pytest.mark.parametrize(("padding", "theirs"), [("fill", "constant"), ("reflect", "reflect")])
def test_a_crop_is_a_window_of_the_padded_picture(kind, padding, theirs):
    pixels = noise(3) if kind == torch.uint8 else torch.rand(3, 2, 6, 7, generator=seeded())
    top, left = torch.tensor([-4, 0, 3]), torch.tensor([2, 0, -4])
    result = window(pixels, top, left, padding, 0.2)
    value = {"constant_values": 51 if kind == torch.uint8 else np.float32(0.2)} if theirs == "constant" else {}
    padded = np.pad(pixels.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)), theirs, **value)
    height, width = pixels.shape[2:]
    for row, (t, w) in enumerate(zip(top.tolist(), left.tolist(), strict=True)):
        assert np.array_equal(result[row].numpy(), padded[row, :, 4 + t :, 4 + w :][:, :height, :width])


def test_crops_reach_every_place_equally_often():
    moves = draw(torch.zeros(7000, 1, 2, 2), Augmentation(crop=3), seeded()).moves
    assert moves is not None
    for axis in moves:
        counts = torch.bincount(axis + 3)
        assert len(counts) == 7 and counts.min() > 850 and counts.max() < 1150


def test_half_of_the_pictures_are_flipped():
    pixels = noise(2000, 1, 3, 4)
    result = augment(pixels, Augmentation(flip=0.5), seeded())
    flipped = (result == pixels.flip(3)).all(3).all(2).all(1)
    assert ((result == pixels).all(3).all(2).all(1) ^ flipped).all()
    assert flipped.float().mean().item() == pytest.approx(0.5, abs=0.04)
    assert torch.equal(flip(pixels[:2], torch.tensor([True, False])), torch.stack([pixels[0].flip(2), pixels[1]]))


def test_erased_boxes_have_the_size_and_the_frequency_they_should():
    pixels = torch.full((4000, 1, 32, 32), 2.0)  # no noise is 2
    erased = augment(pixels, Augmentation(erase=0.25), seeded()) != 2
    share = erased.float().mean((1, 2, 3))
    hit = share[share > 0]
    assert len(hit) / len(pixels) == pytest.approx(0.25, abs=0.03)
    assert (
        hit.min() >= 0.02 - 0.01 and hit.max() <= 1 / 3 + 0.02 and hit.mean().item() == pytest.approx(0.177, abs=0.01)
    )
    rows, columns = erased.any(3).float().sum((1, 2)), erased.any(2).float().sum((1, 2))
    assert torch.equal(rows * columns, erased.float().sum((1, 2, 3)))  # boxes, in one piece
    assert erased.float().mean(0).max() < 3 * erased.float().mean(0).mean()  # anywhere


def test_a_mask_is_true_inside_its_box_and_nowhere_else():
    mask = box_mask(torch.tensor([[1, 2, 2, 1], [-1, -1, 2, 3], [0, 0, 0, 0]]), 3, 4)
    expected = torch.zeros(3, 1, 3, 4, dtype=torch.bool)
    expected[0, 0, 1:3, 2:3] = True
    expected[1, 0, 0:1, 0:2] = True
    assert torch.equal(mask, expected)


def test_mixup_blends_pictures_and_targets_alike():
    pixels, labels = torch.rand(3, 1, 2, 2, generator=seeded()), torch.tensor([0, 1, 2])
    share = torch.tensor([0.25, 1.0, 0.5])
    result, pair = mix(pixels, labels, Mixing(share, torch.zeros(3, 4)))
    assert torch.equal(result[1], pixels[1])
    assert equal(result[0], 0.25 * pixels[0] + 0.75 * pixels[2]) and equal(result[2], (pixels[2] + pixels[1]) / 2)
    assert pair.second.tolist() == [2, 0, 1]
    assert equal(pair.soft(4), torch.tensor([[0.25, 0, 0.75, 0], [0, 1.0, 0, 0], [0, 0.5, 0.5, 0]]))


def test_a_cut_pictures_weight_is_the_area_that_is_left():
    batch = 500
    pixels = torch.arange(batch).view(-1, 1, 1, 1).expand(batch, 1, 8, 8).float()
    mixing = draw_mixing(batch, 8, 8, (0.0, 1.0), (0.7, 1.0), seeded())
    result, pair = mix(pixels, torch.arange(batch), mixing)
    own = (result == pixels).float().mean((1, 2, 3))
    assert torch.equal(own, pair.weight)
    assert torch.equal((result == pixels.roll(1, 0)).float().mean((1, 2, 3)), 1 - pair.weight)
    assert own.min() < 0.3 and (own < 1).float().mean().item() == pytest.approx(0.7, abs=0.08)


def test_mixup_weights_follow_their_beta_and_never_meet_a_cut():
    mixing = draw_mixing(20000, 8, 8, (0.4, 0.8), (0.3, 1.0), seeded())
    mixed, cut = mixing.share < 1, mixing.boxes.any(1)
    assert not (mixed & cut).any()
    assert mixed.float().mean().item() == pytest.approx(0.4, abs=0.02)
    share = mixing.share[mixed]
    assert share.mean().item() == pytest.approx(0.5, abs=0.02)
    assert share.var().item() == pytest.approx(1 / (4 * (2 * 0.8 + 1)), abs=0.005)  # of Beta(0.8, 0.8)


def test_alphas_may_be_whole_numbers():
    whole, same = (draw_mixing(50, 8, 8, (0.4, alpha), (0.3, alpha), seeded()) for alpha in (1, 1.0))
    assert torch.equal(whole.share, same.share) and torch.equal(whole.boxes, same.boxes)


def test_targets_as_a_pair_and_as_probabilities_have_the_same_cross_entropy():
    logits = torch.randn(6, 5, generator=seeded())
    pair = Pair(torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 1, 0, 4, 2, 3]), torch.rand(6, generator=seeded()))
    losses = [torch.nn.functional.cross_entropy(logits, one, reduction="none") for one in (pair.first, pair.second)]
    expected = (pair.weight * losses[0] + (1 - pair.weight) * losses[1]).mean()
    assert equal(torch.nn.functional.cross_entropy(logits, pair.soft(5)), expected)


@pytest.mark.parametrize("size", [7, 20, 48])
def test_a_resized_crop_is_pillows(size):
    pixels = noise()
    boxes = random_boxes(torch.rand(5, 4, generator=seeded()), 20, 28, (0.08, 1.0))
    expected = []
    for image, (top, left, tall, wide) in zip(images(pixels), boxes.tolist(), strict=True):
        box = (left, top, min(left + wide, 28), min(top + tall, 20))
        expected.append(image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    assert levels_apart(resized_crop(pixels / 255, boxes, size), expected) <= 1


def test_random_boxes_lie_in_the_picture_and_have_the_area_asked_for():
    boxes = random_boxes(torch.rand(2000, 4, generator=seeded()), 40, 60, (0.2, 0.5))
    top, left, tall, wide = boxes.unbind(1)
    assert top.min() >= 0 and left.min() >= 0 and (top + tall).max() <= 40.001 and (left + wide).max() <= 60.001
    share, aspect = tall * wide / 2400, wide / tall
    assert share.min() > 0.199 and share.max() < 0.501 and share.mean().item() == pytest.approx(0.35, abs=0.01)
    assert aspect.min() > 0.749 and aspect.max() < 1.334 and aspect.log().mean().abs() < 0.02


def test_the_middle_of_a_picture_is_cut_evenly():
    assert centre_box(20, 28) == (0, 4, 20, 20)
    assert centre_box(32, 16, 0.5) == (12, 4, 8, 8)
    pixels = noise()
    boxes = torch.tensor([centre_box(20, 28)]).expand(5, 4)
    assert equal(resized_crop(pixels / 255, boxes, 20), pixels[:, :, :, 4:24] / 255)


def refused(**settings: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        Augmentation.from_dict(settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_settings_come_from_a_run_and_unknown_ones_are_named():
    assert Augmentation.from_dict({"area": [0.1, 1], "flip": 0.5}) == Augmentation(area=(0.1, 1), flip=0.5)
    assert (
        refused(cutmixx=0.5)
        == "no augmentation is called 'cutmixx'; did you mean 'cutmix' or 'cutmix_alpha' or 'mixup'?"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flip": 1.5}, "flip must be from 0 to 1, not 1.5"),
        ({"erase": True}, "erase must be from 0 to 1, not True"),
        ({"magnitude": math.nan}, "magnitude must be from 0 to 1, not nan"),
        ({"mixup": "lots"}, "mixup must be from 0 to 1, not 'lots'"),
        ({"mixup_alpha": 0}, "mixup_alpha must be from 0.05 to 100, not 0"),
        ({"crop": -1}, "crop must be a whole number from 0, not -1"),
        ({"crop": 1.5}, "crop must be a whole number from 0, not 1.5"),
        ({"ops_count": 0}, "ops_count must be a whole number from 1, not 0"),
        ({"ops": "auto"}, "ops must be one of rand, varied, trivial, not 'auto'"),
        ({"padding": "edge"}, "padding must be one of fill, reflect, not 'edge'"),
        ({"mixup": 0.6, "cutmix": 0.6}, "mixup 0.6 and cutmix 0.6 are more than 1 together"),
        ({"area": [0.5, 0.2]}, "area must be two shares up to 1, not (0.5, 0.2)"),
        ({"area": [0.5]}, "area must be two shares up to 1, not (0.5,)"),
        ({"area": 0.5}, "area must be two shares up to 1, not 0.5"),
        ({"area": [0.5, 2]}, "area must be two shares up to 1, not (0.5, 2)"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(settings, message):
    assert refused(**settings) == message


def test_draws_of_nothing_are_nothing():
    assert draw(noise(), Augmentation(mixup=0.5), seeded()) == OFF
