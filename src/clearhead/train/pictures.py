"""Pictures with classes: a ViT learns them, from a checkpoint or from nothing.

What `classify` will do to a picture is settled when the data is opened, and saved: a new model gets the mean and
deviation of its training pictures, a checkpoint keeps its own preprocessor. A part whose pictures have the model's size
is evaluated from memory, which gives the same pixels; any other goes through that preprocessor, picture by picture. In
training, pictures of another size are resized on the device (bilinear, the middle square or a random crop).

Figures: accuracy, with ten classes or more the share whose class is among the five best, and the plain loss.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ..data import Preprocessor
from ..data.augment import Augmentation
from ..data.image_archives import in_threads
from ..data.image_folder import image_folder
from ..data.kinds import Dataset, Pictures
from ..data.picture_batches import PictureBatches, channel_statistics
from ..data.picture_splits import with_validation
from ..data.sets import open_set
from ..data.text_files import all_facts
from ..errors import ClearheadError, near
from ..models import Model, create, find, names
from ..models.vit import ViT, ViTConfig
from ..runs import load, preprocessor
from ..runs.labels import name_classes
from .companions import accompany, companion
from .confused import Confused
from .labelled import fields_of, outline
from .painted import PAINTS, Painter
from .phases import Course, check_course, value_at, values_of
from .scores import accuracy, among_best
from .task import Batching, Progress, Spec, evaluating, quiet

CENTRE = 0.875  # the share of a photograph's middle that a new model sees
SAMPLED = 512  # photographs from which a new model's mean and deviation are taken
EVALUATED = 256  # pictures that are evaluated at once
ON_A_CPU = 4096  # patches of them there: tensors of tens of megabytes are given back to the system after each use
LEAST_DEVIATION = 1 / 255  # of pictures that are all the same
MANY_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class PictureSpec(Spec):
    """data          a named set (digits, mnist, cifar10 ...), or a folder with a folder of pictures for each class
    folder        where named sets lie; the one that CLEARHEAD_DATA names unless given
    options       of the set's reader, such as split="writers"
    held_out      share of the training part to validate on, where the set has no part for that; 0: none, then the
                  last weights are kept
    split_seed    of what is held out
    augmentation  what is done to pictures in training: see data/augment.py
    smoothing     of labels
    mixing        mixup and cutmix are as frequent as `augmentation` says, times this; may change on the way
    strength      its operations are as strong, and boxes erased as often, as it says, times this; may change on the
                  way too. With 0 there are none
    kept_tokens   patches of each picture that are computed in training, others every time; may change on the way
                  (phases.py); None: all
    painting      how much it counts that patches which are left out are painted from the others (painted.py)
    paints        what is painted of them: pixels, or edges
    square        so many by so many patches are painted as one
    confusion     share of the targets that are what the model says of each class itself (confused.py)

    A new model takes the size and channels of pictures that are smaller than it reads, with patches to fit; larger
    ones are resized to its own size. `fields` may say otherwise.
    """

    kind: ClassVar[str] = "pictures"
    data: str
    folder: str | None = None
    options: Mapping[str, Any] | None = None
    held_out: float = 0.1
    split_seed: int = 0
    augmentation: Mapping[str, Any] | None = None
    smoothing: float = 0.0
    mixing: Course = 1.0
    strength: Course = 1.0
    kept_tokens: int | tuple[float, ...] | None = None
    painting: float = 0.0
    paints: str = "pixels"
    square: int = 1
    confusion: float = 0.0

    def check(self) -> None:
        self.require_probabilities("smoothing", "held_out", "confusion")
        self.require_weights("painting")
        self.require_choice("paints", PAINTS)
        self.require(
            self.painting > 0 or self.paints == "pixels", f"paints={self.paints} is for painting: set that too"
        )
        self.require_sizes("square")
        self.require(self.painting > 0 or self.square == 1, f"square={self.square} is for painting: set that too")
        Augmentation.from_dict(self.augmentation or {})
        for name in ("mixing", "strength", "kept_tokens"):
            check_course(self, name)
        for name in ("mixing", "strength"):
            for value in values_of(getattr(self, name)):
                good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
                self.require(good, f"{name} must be from 0 to 1, not {value!r}")
        for value in values_of(self.kept_tokens):
            whole = value is None or (type(value) is int and value > 0)
            self.require(whole, f"kept_tokens must be whole numbers from 1, not {value!r}")

    def open(self) -> "PictureTask":
        if self.data in all_facts():
            dataset = open_set(self.data, self.folder, **(self.options or {}))
        elif Path(self.data).is_dir():
            self.require(not self.options, "a folder of pictures has no options")
            dataset = image_folder(self.data, self.split_seed)
        else:
            raise ClearheadError(f"{self.data!r} is no named set and no folder{near(self.data, all_facts())}")
        if dataset.kind != "pictures":
            raise ClearheadError(f"{self.data} holds {dataset.kind}, not pictures with classes")
        kept = with_validation(dataset, self.held_out, self.split_seed) if self.held_out else dataset
        return PictureTask(self, kept)


class PictureBatch(NamedTuple):
    """pixels (B,C,H,W); targets are classes (B,), or where pictures are mixed probabilities (B, classes)."""

    pixels: Tensor
    targets: Tensor


class PictureTask:
    metric = "accuracy"
    higher_is_better = True

    def __init__(self, spec: PictureSpec, dataset: Dataset[Pictures]) -> None:
        self.spec, self.classes = spec, dataset.classes
        self.parts = tuple(name for name in dataset.parts if name != "train")
        self.augmentation = Augmentation.from_dict(spec.augmentation or {})
        self.new = spec.model in names()
        train = dataset.parts["train"]
        sizes = fitting_fields(spec, train) if self.new else {}
        self.changes: dict[str, Any] = {"num_classes": len(self.classes)} | sizes | fields_of(spec)
        model, _ = outline(spec, "vit", self.changes)
        self.config: ViTConfig = model.config
        self.data = {name: fitted(part, self.config) for name, part in dataset.parts.items()}
        self.preprocessor = new_preprocessor(self.data["train"], self.config) if self.new else preprocessor(model)
        self._check_shapes()
        self.notes = (str(dataset), *dataset.notes, self._described())
        self._augmentation = self._augmented_at(0.0)
        self._batches: tuple[Any, PictureBatches] | None = None
        self._resident: tuple[torch.device, Pictures] | None = None

    def _check_shapes(self) -> None:
        (height, width), train = self._image, self.data["train"]
        if height != width and (not self._fits(train) or self.augmentation.area):
            raise ClearheadError(
                f"pictures are cut square, and the model takes {height} x {width}: set image to one number"
            )
        most = max((value for value in values_of(self.spec.kept_tokens) if value is not None), default=0)
        if most > self.config.patches:
            raise ClearheadError(f"a picture has {self.config.patches} patches: kept_tokens can't be {most}")
        if self.spec.painting:
            kept, side_by_side = values_of(self.spec.kept_tokens), self.config.step == self.config.patch
            if not any(value is not None and value < self.config.patches for value in kept):
                raise ClearheadError("painting is for patches that are left out: set kept_tokens")
            if not side_by_side:
                raise ClearheadError("painting is for patches that don't overlap: leave stride out")
            (rows, columns), square = self.config.grid, self.spec.square
            if rows % square or columns % square:
                raise ClearheadError(f"{rows} x {columns} patches can't be painted in squares of {square} x {square}")

    @property
    def _image(self) -> tuple[int, int]:
        return self.config.image  # pyright: ignore[reportReturnType]

    def _fits(self, part: Pictures) -> bool:
        return isinstance(part.pixels, Tensor) and tuple(part.pixels.shape[2:]) == self._image

    def _described(self) -> str:
        (height, width), (rows, columns) = self._image, self.config.grid
        colours = "grey" if self.config.channels == 1 else "in colour"
        return f"pictures of {height} x {width}, {colours}, as {rows} x {columns} patches"

    def model(self, seed: int) -> Model:
        if self.new:
            made = create(self.spec.model, device="cpu", seed=seed, **self.changes)
        else:
            made = load(self.spec.model, device="cpu", **self.changes)
        assert isinstance(made, ViT)
        name_classes(made, self.classes, "single_label_classification")
        if self.spec.painting:
            accompany(made, Painter(self.config, Generator().manual_seed(seed), self.spec.paints, self.spec.square))
        if self.spec.confusion:
            accompany(made, Confused(len(self.classes)))
        return made

    def batches_per_epoch(self, batching: Batching) -> float:
        return len(self.data["train"]) / batching.size

    def enter(self, model: Model, progress: float) -> int | None:
        """How many patches are computed and what is done to pictures from here on."""
        self._augmentation = self._augmented_at(progress)
        kept = value_at(self.spec.kept_tokens, progress)
        if self.spec.kept_tokens is not None:
            assert isinstance(model, ViT)
            model.keep_tokens(kept)
        return kept

    def batch(self, number: int, batching: Batching, rank: int, world: int, device: torch.device) -> PictureBatch:
        """Where pictures are ever mixed, targets are probabilities throughout: one shape, one compiled loss."""
        key = batching, device, self._augmentation
        if self._batches is None or self._batches[0] != key:
            self._batches = key, self._source(self._on(device), batching, device, self._augmentation)
        pixels, targets = self._batches[1].batch(number, rank, world)
        if self.augmentation.mixes and targets.ndim == 1:
            targets = F.one_hot(targets, len(self.classes)).float()
        return PictureBatch(self._coloured(pixels), targets)

    def _augmented_at(self, progress: float) -> Augmentation:
        whole, spec = self.augmentation, self.spec
        mixing, strength = (float(value_at(course, progress)) for course in (spec.mixing, spec.strength))
        return replace(
            whole,
            ops=whole.ops if strength else None,
            magnitude=whole.magnitude * strength,
            erase=whole.erase * strength,
            mixup=whole.mixup * mixing,
            cutmix=whole.cutmix * mixing,
        )

    def _on(self, device: torch.device) -> Pictures:
        """The training part; pictures in memory lie on the device once, however often batches are made anew."""
        train = self.data["train"]
        if not isinstance(train.pixels, Tensor):
            return train
        if self._resident is None or self._resident[0] != device:
            self._resident = device, Pictures(train.pixels.to(device), train.labels)
        return self._resident[1]

    def _source(
        self, part: Pictures, batching: Batching, device: torch.device, augmentation: Augmentation | None
    ) -> PictureBatches:
        prepare, alone = self.preprocessor, isinstance(part.pixels, Tensor) and part.pixels.shape[1] == 1
        mean, std = (values[:1] if alone else values for values in (prepare.mean, prepare.std))
        centre = 1.0 if prepare.crop is None or type(prepare.resize) is not int else prepare.crop[0] / prepare.resize
        return PictureBatches(
            part,
            batching.size,
            batching.seed,
            device,
            augmentation,
            mean,
            std,
            classes=len(self.classes),
            size=None if self._fits(part) else self._image[0],
            centre=min(1.0, centre),
            compiled=device.type == "cuda" and augmentation is not None and augmentation.ops is not None,
        )

    def _coloured(self, pixels: Tensor) -> Tensor:
        """As `classify` does it: a model of one channel sees the mean of the colours."""
        return pixels.mean(1, keepdim=True) if self.config.channels == 1 and pixels.shape[1] > 1 else pixels

    def weight(self, batch: PictureBatch) -> int:
        return len(batch.targets)

    def losses(self, model: Model, batch: PictureBatch) -> dict[str, Tensor]:
        hidden, more = self._read(model, batch.pixels)
        scores, targets = model.head(hidden).float(), batch.targets
        loss = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=self.spec.smoothing)
        if confused := companion(model, Confused):
            as_said = F.cross_entropy(scores, confused.soft(targets, scores), reduction="sum")
            loss = torch.lerp(loss, as_said, self.spec.confusion)
        if more:
            loss = loss + self.spec.painting * more["unlike"]
        if targets.ndim == 1:
            more["accuracy"] = (scores.argmax(-1) == targets).sum().float()
        return {"loss": loss} | more

    def _read(self, model: Model, pixels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """What the head reads of pictures; and where patches are left out and painted, how far off those are."""
        painter = companion(model, Painter)
        assert isinstance(model, ViT)
        if painter is None or model.kept_tokens is None:
            return model.hidden(pixels), {}
        hidden, rows, at = model.halfway(pixels, painter.layer)
        return hidden, {"unlike": painter(rows, at, pixels).sum()}

    def predicted(
        self, model: Model, part: str, device: torch.device, progress: Progress = quiet
    ) -> tuple[Tensor, Tensor]:
        """Scores (N, classes) for every picture of a part, in its order, and the truths (N,). On the CPU."""
        data, scores, done = self.data[part], [], 0
        # shapes that are met once are not worth compiling blocks for
        with evaluating(model), torch.compiler.set_stance("force_eager"):
            for pixels in self._in_order(data, device):
                scores.append(model.head(model.hidden(pixels)).float().cpu())
                done += len(pixels)
                progress(done, len(data))
        return torch.cat(scores), data.labels.cpu()

    def _in_order(self, data: Pictures, device: torch.device) -> Iterator[Tensor]:
        at_once = max(1, min(EVALUATED, ON_A_CPU // self.config.patches)) if device.type == "cpu" else EVALUATED
        if self._fits(data):
            for pixels, _ in self._source(data, Batching(size=at_once), device, None).ordered():
                yield self._coloured(pixels)
            return
        for start in range(0, len(data), at_once):
            some = data.pixels[start : start + at_once]
            pictures = [pixels.permute(1, 2, 0).numpy() for pixels in some] if isinstance(some, Tensor) else some
            pixels = torch.stack(in_threads(self.preprocessor, map(_without_single_channel, pictures)))
            yield self._coloured(pixels).to(device)

    def evaluate(self, model: Model, part: str, device: torch.device, progress: Progress = quiet) -> dict[str, float]:
        scores, truths = self.predicted(model, part, device, progress)
        loss = F.cross_entropy(scores.double(), truths).item()
        figures = {"accuracy": accuracy(scores.argmax(-1), truths), "loss": loss}
        return figures | ({"top5": among_best(scores, truths, 5)} if len(self.classes) >= MANY_CLASSES else {})

    def save(self, folder: Path) -> None:
        self.preprocessor.save(folder)


def _without_single_channel(picture: Any) -> Any:
    return (
        np.ascontiguousarray(picture[:, :, 0]) if isinstance(picture, np.ndarray) and picture.shape[2] == 1 else picture
    )


def fitting_fields(spec: Spec, train: Pictures) -> dict[str, Any]:
    """Image, patch and channels of a new model for these pictures, as far as `fields` does not say."""
    config = find(spec.model)[1]
    if not isinstance(config, ViTConfig):
        return {}  # not a ViT: `outline` says so
    if not isinstance(train.pixels, Tensor):
        return {"channels": 3}
    channels, *edges = train.pixels.shape[1:]
    given, own = fields_of(spec), config.image[0]  # pyright: ignore[reportIndexIssue]
    image = given.get("image", min(*edges, own))
    sizes = {"channels": channels, "image": image}
    if isinstance(image, int) and image != own and "patch" not in given:
        sizes["patch"] = fitting_patch(image, config.patch[0])  # pyright: ignore[reportIndexIssue]
    return sizes


def fitting_patch(edge: int, largest: int) -> int:
    """The largest patch that divides an edge into seven or more, of tiny pictures into four or more."""
    least = 7 if edge >= 24 else 4
    return max((size for size in range(1, largest + 1) if edge % size == 0 and edge // size >= least), default=1)


def fitted(part: Pictures, config: ViTConfig) -> Pictures:
    """Pictures in memory cut to their middle square, unless they fit as they are, and grey ones in three channels."""
    pixels = part.pixels
    if not isinstance(pixels, Tensor):
        return part
    height, width = pixels.shape[2:]
    if (height, width) != config.image and height != width:
        edge = min(height, width)
        top, left = (height - edge) // 2, (width - edge) // 2
        pixels = pixels[:, :, top : top + edge, left : left + edge].contiguous()
    if pixels.shape[1] == 1 and config.channels == 3:
        pixels = pixels.expand(-1, 3, -1, -1)
    return Pictures(pixels, part.labels)


def new_preprocessor(train: Pictures, config: ViTConfig) -> Preprocessor:
    """For a new model: its size from the picture's middle, and the training pictures' mean and deviation."""
    height, width = config.image  # pyright: ignore[reportGeneralTypeIssues]
    if isinstance(train.pixels, Tensor):
        resize, (mean, std) = min(height, width), channel_statistics(train)
        plain = Preprocessor(resize=resize if height == width else (height, width), crop=(height, width))
    else:
        plain = Preprocessor(resize=math.floor(min(height, width) / CENTRE), crop=(height, width))
        mean, std = _sampled_statistics(train, plain)
    mean, std = (values * 3 if len(values) == 1 else values for values in (mean, std))
    return replace(plain, mean=mean, std=tuple(max(value, LEAST_DEVIATION) for value in std))


def _sampled_statistics(train: Pictures, plain: Preprocessor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel over photographs taken evenly from the part."""
    count = min(SAMPLED, len(train))
    chosen = [train.pixels[place * len(train) // count] for place in range(count)]
    raw = replace(plain, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    moments = torch.stack(in_threads(lambda file: _moments(raw(file)), chosen)).mean(0)  # pyright: ignore
    mean, square = moments.unbind(0)
    return tuple(mean.tolist()), tuple((square - mean**2).clamp(min=0).sqrt().tolist())


def _moments(pixels: Tensor) -> Tensor:
    """The mean of each channel and of its squares, (2, channels)."""
    flat = pixels.double().flatten(1)
    return torch.stack([flat.mean(1), (flat**2).mean(1)])
