"""Batches of pictures: every epoch whole, a pure function of seed and step, resumed exactly, shared by processes."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from clearhead.data import picture_sources
from clearhead.data.augment import Augmentation
from clearhead.data.images import Preprocessor
from clearhead.data.kinds import Pictures
from clearhead.data.picture_batches import PictureBatches, channel_statistics, number
from clearhead.errors import ClearheadError
from tests.support import equal

STRONG = Augmentation(
    area=(0.3, 1.0), crop=2, flip=0.5, ops="trivial", ops_count=2, erase=0.25, mixup=0.3, cutmix=0.5, padding="reflect"
)


def in_memory(count: int = 23, channels: int = 3, edge: int = 8) -> Pictures:
    """Every picture's first pixel is its number."""
    pixels = torch.randint(0, 256, (count, channels, edge, edge), generator=torch.Generator().manual_seed(0))
    pixels[:, :, 0, 0] = torch.arange(count)[:, None]
    return Pictures(pixels.to(torch.uint8), torch.arange(count) % 5)


def as_files(folder: Path, count: int = 11) -> Pictures:
    """Flat pictures of different sizes, each of its own grey."""
    files = []
    for index in range(count):
        files.append(folder / f"{index}.png")
        Image.new("RGB", (20 + index, 30 - index), (20 * index,) * 3).save(files[-1])
    return Pictures(files, torch.arange(count) % 3)


@pytest.fixture(params=["memory", "files"])
def part(request, tmp_path) -> Pictures:
    return in_memory() if request.param == "memory" else as_files(tmp_path)


def first_pixels(pixels: torch.Tensor) -> list[int]:
    return (pixels[:, 0, 0, 0] * 255).round().int().tolist()


def same(a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]) -> bool:
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


def refused(call, *arguments: object, **options: object) -> str:
    with pytest.raises(ClearheadError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("batch", [1, 4, 10, 23, 50])
def test_an_epoch_has_every_picture_once_in_an_order_of_its_own(batch):
    batches = PictureBatches(in_memory(), batch)
    seen = [n for step in range(batches.steps(3)) for n in first_pixels(batches.batch(step)[0])]
    epochs = [seen[start : start + 23] for start in (0, 23, 46)]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_steps_count_the_batches_of_so_many_epochs():
    batches = PictureBatches(in_memory(), 10)
    assert [batches.steps(epochs) for epochs in (0, 0.5, 1, 2, 10)] == [0, 2, 3, 5, 23]


def test_pixels_and_labels_belong_together_and_are_normalised():
    pictures = in_memory()
    batches = PictureBatches(pictures, 6, 3, mean=(0.1, 0.2, 0.3), std=0.5)
    pixels, labels = batches.batch(1)
    restored = (pixels * 0.5 + torch.tensor([0.1, 0.2, 0.3])[:, None, None]) * 255
    rows = restored[:, 0, 0, 0].round().long()
    assert pixels.dtype == torch.float32 and equal(restored, pictures.pixels[rows].float(), 1e-5)
    assert torch.equal(labels, pictures.labels[rows])


def test_a_batch_depends_on_seed_and_step_alone(part):
    def fresh(seed: int = 1) -> PictureBatches:
        return PictureBatches(part, 5, seed, augmentation=STRONG, size=8)

    straight = fresh()
    row = [straight.batch(step) for step in range(7)]
    backwards = fresh()
    assert all(same(backwards.batch(step), row[step]) for step in (6, 0, 3, 3, 2, 5))
    torch.manual_seed(99)
    assert same(fresh().batch(4), row[4])  # resumed there
    assert not same(fresh(2).batch(4), row[4]) and not same(row[3], row[4])


def test_resuming_goes_on_exactly_as_an_uninterrupted_run(part):
    whole = PictureBatches(part, 4, 7, augmentation=STRONG, size=8)
    expected = [whole.batch(step) for step in range(12)]
    for stop in (1, 5, 11):
        resumed = PictureBatches(part, 4, 7, augmentation=STRONG, size=8)
        assert all(same(resumed.batch(step), expected[step]) for step in range(stop, 12))


@pytest.mark.parametrize("world", [1, 2, 3])
def test_processes_share_out_the_same_batch(part, world):
    whole = PictureBatches(part, 6, size=8)
    for step in range(5):
        pieces = [PictureBatches(part, 6, size=8).batch(step, rank, world) for rank in range(world)]
        assert same((torch.cat([p for p, _ in pieces]), torch.cat([t for _, t in pieces])), whole.batch(step))


def test_processes_augment_differently():
    plain, flips = (PictureBatches(in_memory(1), 16, augmentation=Augmentation(flip=f)) for f in (0.0, 0.5))
    assert torch.equal(plain.batch(0, 0, 2)[0], plain.batch(0, 1, 2)[0])
    assert not torch.equal(flips.batch(0, 0, 2)[0], flips.batch(0, 1, 2)[0])


def test_mixed_pictures_have_a_probability_for_each_class():
    settings = Augmentation(mixup=0.5, cutmix=0.5)
    pixels, targets = PictureBatches(in_memory(), 16, augmentation=settings, classes=7).batch(0)
    assert targets.shape == (16, 7) and targets[:, 5:].sum() == 0
    assert equal(targets.sum(1), torch.ones(16)) and (targets.max(1).values < 1).any()
    assert PictureBatches(in_memory(), 16, augmentation=settings).batch(0)[1].shape == (16, 5)
    assert pixels.min() >= 0 and pixels.max() <= 1


def test_evaluation_takes_every_picture_in_order_and_as_it_is(part):
    batches = PictureBatches(part, 4, 5, augmentation=STRONG, size=8)
    plain = PictureBatches(part, 4, 6, size=8)
    ordered = list(batches.ordered())
    assert [len(labels) for _, labels in ordered] == [4] * (len(part) // 4) + [len(part) % 4]
    assert torch.equal(torch.cat([labels for _, labels in ordered]), part.labels)
    assert all(same(a, b) for a, b in zip(ordered, plain.ordered(), strict=True))
    pixels = torch.cat([pixels for pixels, _ in ordered])
    expected = part.pixels / 255 if isinstance(part.pixels, torch.Tensor) else torch.arange(len(part)) * 20 / 255
    assert equal(pixels if pixels.ndim == expected.ndim else pixels[:, 0, 4, 4], expected)


def test_evaluation_batches_are_dealt_out_to_processes(part):
    batches = PictureBatches(part, 2, size=8)
    whole = list(batches.ordered())
    dealt = [list(batches.ordered(rank, 3)) for rank in range(3)]
    for index, one in enumerate(whole):
        assert same(dealt[index % 3][index // 3], one)
    assert sum(map(len, dealt)) == len(whole)


def test_files_are_cut_as_the_models_preprocessor_would(tmp_path):
    grain = np.random.default_rng(0).integers(0, 256, (48, 48, 3), dtype=np.uint8)
    Image.fromarray(grain).save(tmp_path / "a.png")
    part = Pictures([tmp_path / "a.png"], torch.zeros(1, dtype=torch.long))
    ((pixels, _),) = PictureBatches(part, 1, size=16, centre=1.0, mean=0.5, std=0.5).ordered()
    assert equal(pixels[0], Preprocessor(resize=(16, 16))(tmp_path / "a.png"), 1e-5)
    ((middle, _),) = PictureBatches(part, 1, size=24, centre=0.5).ordered()
    assert equal(middle[0], torch.from_numpy(grain[12:36, 12:36]).permute(2, 0, 1) / 255)


def test_pictures_in_memory_are_resized_where_a_size_is_asked_for():
    part = in_memory(edge=16)
    pixels, _ = PictureBatches(part, 4, size=8).batch(0)
    assert pixels.shape == (4, 3, 8, 8)
    ((whole, _),) = PictureBatches(part, 23, size=8).ordered()
    image = Image.fromarray(part.pixels[3].permute(1, 2, 0).numpy())
    expected = torch.from_numpy(np.array(image.resize((8, 8), Image.Resampling.BILINEAR))).permute(2, 0, 1)
    assert (whole[3] * 255 - expected).abs().max() <= 1
    assert PictureBatches(part, 4, augmentation=Augmentation(area=(0.5, 1))).batch(0)[0].shape == (4, 3, 16, 16)


def test_small_pictures_are_enlarged_behind_all_that_is_done_to_them():
    uncut = replace(STRONG, area=None)
    small, large = (PictureBatches(in_memory(), 5, 1, augmentation=uncut, size=size) for size in (None, 16))
    pixels, targets = small.batch(2)
    twice = torch.nn.functional.interpolate(pixels, scale_factor=2, mode="bilinear")
    assert same(large.batch(2), (twice, targets))
    whole = Pictures(torch.full((2, 3, 8, 8), 51, dtype=torch.uint8), torch.tensor([0, 1]))
    (pixels, _), *_ = PictureBatches(whole, 2, size=20).ordered()
    assert equal(pixels, torch.full((2, 3, 20, 20), 0.2))


def test_grey_pictures_stay_grey():
    batches = PictureBatches(in_memory(channels=1), 16, augmentation=STRONG, mean=0.5, std=0.25)
    assert batches.batch(0)[0].shape == (16, 1, 8, 8)


def test_files_are_decoded_ahead_by_threads(tmp_path, monkeypatch):
    opened, threads = [], set()

    def noted(path):
        opened.append(path)
        threads.add(threading.current_thread().name)
        return Image.open(path)

    monkeypatch.setattr(picture_sources, "open_picture", noted)
    batches = PictureBatches(as_files(tmp_path, 12), 2, size=4, workers=2)
    batches.batch(0)
    deadline = time.monotonic() + 10
    while len(opened) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(opened) == 2 * (1 + picture_sources.AHEAD) and len(threads) <= 2
    assert all(name.startswith("pictures") for name in threads)
    for step in range(1, 4):
        batches.batch(step)
    assert len(set(opened)) == len(opened)  # none was decoded twice


def test_a_file_that_is_gone_is_named_and_the_next_batches_still_come(tmp_path):
    part = as_files(tmp_path, 6)
    batches = PictureBatches(part, 1, size=4)
    lost = batches._rows(3, 0, 1).item()
    part.pixels[lost].unlink()  # type: ignore[union-attr]
    assert f"{lost}.png can't be read as a picture" in refused(batches.batch, 3)
    assert batches.batch(4)[0].shape == (1, 3, 4, 4)


def test_statistics_are_those_of_the_pixels():
    part = in_memory()
    mean, std = channel_statistics(part)
    pixels = part.pixels.double() / 255
    assert mean == pytest.approx(pixels.mean((0, 2, 3)).tolist())
    assert std == pytest.approx(pixels.std((0, 2, 3), unbiased=False).tolist())


def test_seeds_of_different_things_are_unrelated():
    seeds = {number(seed, what, step) for seed in range(5) for what in ("order", "cut") for step in range(50)}
    assert len(seeds) == 500 and all(0 <= seed < 2**63 for seed in seeds)
    assert number(1, "order", 2) == number(1, "order", 2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_pictures_in_the_same_order_and_repeats_itself(part):
    here, there = (PictureBatches(part, 4, device=device, size=8) for device in ("cpu", "cuda"))
    for step in range(4):
        (a, x), (b, y) = here.batch(step), there.batch(step)
        assert equal(a, b.cpu()) and torch.equal(x, y.cpu())
    first, again = (PictureBatches(part, 5, device="cuda", augmentation=STRONG, size=8) for _ in range(2))
    assert all(same(first.batch(step), again.batch(step)) for step in (0, 3, 1))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_compiled_augmentation_is_the_same():
    part = in_memory(64, edge=32)
    plain, compiled = (PictureBatches(part, 64, 0, "cuda", STRONG, compiled=flag) for flag in (False, True))
    (a, x), (b, y) = plain.batch(2), compiled.batch(2)
    assert ((a - b).abs() > 1.01 / 255).float().mean() < 1e-3 and equal(x, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be a whole number from 1, not 0"),
        ({"batch": 2.0}, "batch must be a whole number from 1, not 2.0"),
        ({"classes": 3}, "a label is beyond the 3 classes"),
        ({"mean": (0.1, 0.2)}, "2 numbers for mean or std don't fit 3 channels"),
        ({"std": (0.1, 0.0, 0.2)}, "std must be above 0, not (0.1, 0.0, 0.2)"),
        ({"size": 0}, "size must be a whole number from 1, not 0"),
        ({"centre": 0}, "centre must be above 0 and at most 1, not 0"),
    ],
)
def test_impossible_batches_are_refused_in_one_line(options, message):
    assert refused(PictureBatches, in_memory(), **{"batch": 4, **options}) == message


def test_parts_that_make_no_batches_are_refused(tmp_path):
    files = as_files(tmp_path)
    assert refused(PictureBatches, files, 4).startswith("pictures that are files need a size")
    assert "give them for files" in refused(channel_statistics, files)
    assert "there are no pictures" in refused(PictureBatches, Pictures([], torch.zeros(0)), 4)
    floats = Pictures(torch.rand(2, 3, 4, 4), torch.zeros(2, dtype=torch.long))
    assert "are bytes (N,C,H,W), not torch.float32 (2, 3, 4, 4)" in refused(PictureBatches, floats, 4)


def test_steps_and_processes_that_cant_be_are_refused():
    batches = PictureBatches(in_memory(), 4)
    assert refused(batches.batch, -1) == "steps are counted from 0, not -1"
    assert refused(batches.batch, 0, 2, 2) == "process 2 is not one of 2"
    assert refused(batches.batch, 0, 0, 3) == "a batch of 4 can't be shared among 3 processes"
