"""Pictures: losses by hand, pure batches, models that fit their data, and the same pixels in training and in use."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

import clearhead
from clearhead.data import read_preprocessor
from clearhead.data.kinds import Pictures
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.runs import preprocessor
from clearhead.tasks.classify import classify
from clearhead.train.pictures import PictureSpec, fitting_fields, fitting_patch
from clearhead.train.task import Batching
from tests.support import equal

CPU = torch.device("cpu")
SMALL = {"width": 24, "heads": 3, "layers": 1}
TALL, WIDE = (20, 28), (28, 20)  # (width, height)


def photos(folder, sizes=((12, 12),), each=10):
    """Pictures of two classes, dark red and bright blue with noise, of these sizes in turn."""
    random = np.random.default_rng(0)
    for name, colour in (("blue", (60, 90, 200)), ("red", (120, 20, 40))):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            width, height = sizes[number % len(sizes)]
            pixels = np.array(colour) + random.integers(-20, 55, (height, width, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name / f"{number}.png")
    return str(folder)


def digits(**changes):
    fields = SMALL | changes.pop("fields", {})
    return PictureSpec(**{"model": "vit-ti16", "data": "digits", "fields": fields} | changes).open()


def test_a_new_model_fits_the_digits():
    task = digits()
    config = task.model(0).config
    assert (config.image, config.patch, config.channels, config.num_classes) == ((8, 8), (2, 2), 1, 10)
    assert task.parts == ("valid", "test") and task.metric == "accuracy"


@pytest.mark.parametrize(
    ("model", "shape", "image", "patch"),
    [
        ("vit-ti16", (1, 28, 28), 28, 4),  # MNIST
        ("vit-ti16", (3, 32, 32), 32, 4),  # CIFAR
        ("vit-c10", (3, 32, 32), 32, None),  # made for it: its own patches stay
        ("vit-ti16", (3, 64, 64), 64, 8),
        ("vit-c10", (3, 64, 64), 32, None),  # larger ones are resized to the model
        ("vit-c10", (1, 28, 28), 28, 4),
        ("vit-ti16", (3, 48, 64), 48, 6),  # the middle square
    ],
)
def test_sizes_follow_the_pictures(model, shape, image, patch):
    part = Pictures(torch.zeros(2, *shape, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    found = fitting_fields(PictureSpec(model=model, data="digits"), part)
    assert (found["channels"], found["image"], found.get("patch")) == (shape[0], image, patch)
    create(model, device="meta", **found)


def test_patches_divide_their_picture():
    for edge in range(4, 200):
        patch = fitting_patch(edge, 16)
        assert edge % patch == 0 and edge // patch >= 4


def test_fields_come_before_what_would_fit():
    task = digits(fields={"patch": 4, "image": 16, "channels": 3})
    assert task.model(0).config.grid == (4, 4)
    pixels = task.batch(0, Batching(size=4), 0, 1, CPU).pixels
    assert pixels.shape == (4, 3, 16, 16) and torch.equal(pixels[:, 0], pixels[:, 1])


def test_the_loss_is_the_sum_of_cross_entropies():
    task = digits(smoothing=0.1)
    model, batch = moved(task.model(0)), task.batch(0, Batching(size=8), 0, 1, CPU)
    scores = model(batch.pixels).log_softmax(-1)
    by_hand = -(0.9 * scores.gather(1, batch.targets[:, None])[:, 0] + 0.1 * scores.mean(1)).sum()
    losses = task.losses(model, batch)
    assert task.weight(batch) == 8 and equal(losses["loss"], by_hand)
    assert losses["accuracy"] == (scores.argmax(1) == batch.targets).sum()


def test_mixed_pictures_are_learnt_with_mixed_targets():
    task = digits(augmentation={"mixup": 0.5, "cutmix": 0.5}, smoothing=0.1)
    model, batch = moved(task.model(0)), task.batch(0, Batching(size=8), 0, 1, CPU)
    assert batch.targets.shape == (8, 10) and equal(batch.targets.sum(1), torch.ones(8))
    assert ((batch.targets > 0).sum(1) > 1).any()
    soft = 0.9 * batch.targets + 0.1 / 10
    losses = task.losses(model, batch)
    assert equal(losses["loss"], -(soft * model(batch.pixels).log_softmax(-1)).sum()) and losses.keys() == {"loss"}


@torch.no_grad()
def moved(model):
    """A new ViT's head is zeros: draw one."""
    model.output.weight.normal_(generator=torch.Generator().manual_seed(1))
    return model


def test_a_batch_depends_on_its_number_alone():
    settings = {"crop": 1, "flip": 0.5, "ops": "trivial", "erase": 0.5, "mixup": 0.5}
    first, second = (digits(augmentation=settings) for _ in range(2))
    for number in (5, 0):
        second.batch(number, Batching(size=8), 0, 1, CPU)
    second.batch(9, Batching(size=16), 0, 1, CPU)
    one, other = (task.batch(9, Batching(size=8), 0, 1, CPU) for task in (first, second))
    assert torch.equal(one.pixels, other.pixels) and torch.equal(one.targets, other.targets)


def test_the_shares_of_all_processes_are_the_batch():
    task = digits()
    whole = task.batch(3, Batching(size=8), 0, 1, CPU)
    shares = [task.batch(3, Batching(size=8), rank, 4, CPU) for rank in range(4)]
    assert torch.equal(torch.cat([share.pixels for share in shares]), whole.pixels)
    assert torch.equal(torch.cat([share.targets for share in shares]), whole.targets)
    assert task.batches_per_epoch(Batching(size=8)) == 1293 / 8


def test_new_pixels_have_mean_nought_and_deviation_one_over_the_training_part():
    task = digits()
    pixels = torch.cat([task.batch(n, Batching(size=431), 0, 1, CPU).pixels for n in range(3)])
    assert len(pixels) == len(task.data["train"])
    assert abs(pixels.mean()) < 1e-4 and abs(pixels.std() - 1) < 1e-4


def test_evaluation_is_a_direct_computation_over_every_picture():
    task = digits()
    model = moved(task.model(0)).train()
    seen: list[tuple[int, int]] = []
    figures = task.evaluate(model, "test", CPU, lambda done, of: seen.append((done, of)))
    assert model.training and seen[-1] == (360, 360)
    part, prepare = task.data["test"], task.preprocessor
    assert isinstance(part.pixels, Tensor)
    model.eval()
    with torch.no_grad():
        logits = model(torch.stack([prepare(one.numpy()[0]) for one in part.pixels]).mean(1, keepdim=True))
    assert figures["accuracy"] == (logits.argmax(1) == part.labels).double().mean().item()
    assert figures["loss"] == pytest.approx(F.cross_entropy(logits, part.labels).item(), abs=1e-5)
    best = logits.topk(5).indices
    assert figures["top5"] == (best == part.labels[:, None]).any(1).double().mean().item() > figures["accuracy"]


def learnt(task, updates=30, size=16):
    model = task.model(0).train()
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for number in range(updates):
        batch = task.batch(number, Batching(size=size), 0, 1, CPU)
        loss = task.losses(model, batch)["loss"] / task.weight(batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval(), loss.item()


@pytest.mark.parametrize("sizes", [((12, 12),), ((13, 10),), (TALL, WIDE)])
def test_a_users_folder_is_learnt_and_a_saved_run_sees_the_same_pixels(tmp_path, sizes):
    """Small squares and rectangles live in memory, pictures of several sizes stay files."""
    data = photos(tmp_path / "photos", sizes)
    fields = SMALL | ({"image": 16, "patch": 4} if len(sizes) > 1 else {})
    task = PictureSpec(model="vit-ti16", data=data, fields=fields).open()
    model, loss = learnt(task)
    assert loss < 0.1
    run = clearhead.save(model, tmp_path / "run")
    task.save(run)
    loaded = clearhead.load(run, device="cpu")
    files = sorted((tmp_path / "photos").glob("*/*.png"))
    verdicts = classify(loaded, files)
    assert [verdict.classes[0].name for verdict in verdicts] == [file.parent.name for file in files]
    held = {part: torch.cat(list(task._in_order(task.data[part], CPU))) for part in ("train", "valid", "test")}
    ours = {pixels.numpy().tobytes() for part in held.values() for pixels in part}
    assert ours == {preprocessor(loaded)(file).numpy().tobytes() for file in files}
    figures = task.evaluate(model, "valid", CPU)
    assert figures["accuracy"] == 1 and "top5" not in figures


def test_training_pictures_are_near_to_those_in_use_when_they_are_resized(tmp_path):
    task = PictureSpec(
        model="vit-ti16", data=photos(tmp_path / "photos", (TALL, WIDE)), fields=SMALL | {"image": 16, "patch": 4}
    ).open()
    train = torch.cat([task.batch(n, Batching(size=8), 0, 1, CPU).pixels for n in range(2)])
    used = torch.cat(list(task._in_order(task.data["train"], CPU)))
    assert len(train) == len(used) == 16
    nearest = torch.cdist(train.flatten(1), used.flatten(1)).min(1).values / train[0].numel() ** 0.5
    assert nearest.max() < 0.3, "each is one of them but for how it was resized"


def test_a_checkpoint_keeps_its_own_preprocessor_and_gets_a_new_head(tmp_path):
    first = PictureSpec(model="vit-ti16", data=photos(tmp_path / "a"), fields=SMALL).open()
    model, _ = learnt(first)
    run = clearhead.save(model, tmp_path / "run")
    first.save(run)
    data = photos(tmp_path / "b", ((24, 24),))
    (tmp_path / "b" / "green").mkdir()
    for number in range(4):
        Image.new("RGB", (24, 24), (0, 200, number)).save(tmp_path / "b" / "green" / f"{number}.png")
    task = PictureSpec(model=str(run), data=data).open()
    task.save(tmp_path / "second")
    assert read_preprocessor(tmp_path / "second") == read_preprocessor(run) == first.preprocessor
    fine = task.model(0)
    assert fine.config.num_classes == 3 and fine.config.image == (12, 12)
    assert torch.equal(fine.encoder.blocks[0].feed_forward.up.weight, model.encoder.blocks[0].feed_forward.up.weight)
    assert task.batch(0, Batching(size=4), 0, 1, CPU).pixels.shape == (4, 3, 12, 12)
    assert task.evaluate(fine, "valid", CPU)["loss"] == pytest.approx(np.log(3), abs=1e-5)  # a head of zeros


def test_a_model_of_one_channel_sees_colours_as_their_mean(tmp_path):
    data = photos(tmp_path / "photos")
    task = PictureSpec(model="vit-ti16", data=data, fields=SMALL | {"channels": 1}).open()
    model = moved(task.model(0))
    run = clearhead.save(model, tmp_path / "run")
    task.save(run)
    pixels = task.batch(0, Batching(size=4), 0, 1, CPU).pixels
    assert pixels.shape == (4, 1, 12, 12)
    scores, truths = task.predicted(model, "valid", CPU)
    files = sorted((tmp_path / "photos").glob("*/*.png"))
    verdicts = classify(clearhead.load(run, device="cpu"), files)
    known = {round(one.probability, 5) for verdict in verdicts for one in verdict.classes if one.number == 0}
    assert {round(value, 5) for value in scores.softmax(-1)[:, 0].tolist()} <= known and len(truths) == 2


def test_the_loss_compiles_without_a_break():
    task = digits(augmentation={"mixup": 1.0})
    model, batch = moved(task.model(0)).train(), task.batch(0, Batching(size=4), 0, 1, CPU)
    compiled = torch.compile(lambda given: task.losses(model, given)["loss"], fullgraph=True, backend="eager")
    assert torch.equal(compiled(batch), task.losses(model, batch)["loss"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "digit"}, "no named set and no folder; did you mean 'digits'"),
        ({"data": "letters"}, "letters holds parallel, not pictures"),
        ({"model": "minilm-l6", "fields": {}}, "learnt by a vit, and minilm-l6 is a bert"),
        ({"augmentation": {"mixupp": 1.0}}, "'mixupp'; did you mean 'mixup'"),
        ({"options": {"split": "odd"}}, "'odd'"),
        ({"fields": {"image": (8, 4), "patch": 2}}, "cut square"),
    ],
)
def test_a_mistake_is_told_in_one_line(changes, message):
    with pytest.raises(ClearheadError, match=message):
        PictureSpec(**{"model": "vit-ti16", "data": "digits", "fields": SMALL} | changes).open()
