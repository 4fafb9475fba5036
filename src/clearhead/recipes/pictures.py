"""Vision Transformers from scratch on small pictures. What changes within a run is a course: see train/phases.py."""

from ..train.average import Average
from ..train.loop import Run
from ..train.optimiser import Optimiser
from ..train.phases import Course
from ..train.pictures import PictureSpec
from ..train.settings import Settings
from ..train.task import Batching

FOR_DIGITS = Optimiser(name="muon", rate=3e-3, adam_rate=3e-3, weight_decay=0.05, muon_dtype="float32")


def vit_digits() -> Run:
    """A small ViT on scikit-learn's 1,797 handwritten digits: 2 x 2 patches, four layers, 64 wide.

    Positions start wide: as narrow as usual, a model this small needs ten times as long to tell one patch from another.

    Command: clearhead train vit-digits
    Costs: 44 s on two cores
    Gives: 98.5% of 360 test pictures (mean of seeds 0, 1, 2: 99.2, 98.1, 98.3); by writers, options.split=writers,
        95.6% (97.5, 93.9, 95.6)
    """
    spec = PictureSpec(
        model="vit-ti16",
        fields={"width": 64, "layers": 4, "heads": 4, "patch": 2, "position_std": 0.5},
        data="digits",
        augmentation={"crop": 1, "ops": "trivial", "magnitude": 0.3},
        smoothing=0.1,
    )
    settings = Settings(
        epochs=60,
        batching=Batching(size=64),
        optimiser=FOR_DIGITS,
        warmup=60,
        average=Average(decay=0.99),
        validate_every=300,
    )
    return Run("vit-digits", spec, settings)


def vit_mnist() -> Run:
    """A small ViT on MNIST's 60,000 handwritten digits: 7 x 7 patches, four layers, 128 wide.

    Command: clearhead train vit-mnist
    Costs: 10 min on two cores
    Gives: 99.37% of the test part (99.38, 99.37, 99.36 with seeds 0, 1, 2; the last two on one H200)
    """
    spec = PictureSpec(
        model="vit-ti16",
        fields={"width": 128, "layers": 4, "heads": 4, "patch": 7, "position_std": 0.5},
        data="mnist",
        augmentation={"crop": 2, "ops": "trivial", "magnitude": 0.3},
        smoothing=0.1,
    )
    settings = Settings(
        epochs=10,
        batching=Batching(size=128),
        optimiser=FOR_DIGITS,
        warmup=100,
        average=Average(decay=0.995),
    )
    return Run("vit-mnist", spec, settings)


def vit_mnist_gpu() -> Run:
    """A larger ViT on MNIST, for a GPU: 4 x 4 patches, six layers, 192 wide, three times as many epochs.

    Command: clearhead train vit-mnist-gpu
    Costs: 70 to 75 s on one H200, 22 to 25 of them compiling
    Gives: 99.63% of the test part (99.64, 99.61, 99.64 with seeds 0, 1, 2)
    """
    spec = PictureSpec(
        model="vit-ti16",
        fields={"width": 192, "layers": 6, "heads": 6, "patch": 4, "position_std": 0.5},
        data="mnist",
        augmentation={"crop": 3, "ops": "trivial", "magnitude": 0.3},
        smoothing=0.1,
    )
    settings = Settings(
        epochs=30,
        batching=Batching(size=256),
        optimiser=FOR_DIGITS,
        warmup=100,
        average=Average(decay=0.998),
        precision="bf16",
        compile="blocks",
        graph=True,
    )
    return Run("vit-mnist-gpu", spec, settings)


SMALL_PICTURES = {"activation": "gelu-tanh", "rotary_base": 100.0, "locality": 1.6}
STARTS_SMALL = {"start": "scaled", "position_std": 0.35}
MOVED = {"crop": 4, "padding": "reflect", "flip": 0.5, "fill": 0.47}
STRONG = MOVED | {"ops": "varied", "ops_count": 2, "magnitude": 0.9, "erase": 0.25, "mixup": 0.3, "cutmix": 0.5}
LIGHT = MOVED | {"ops": "rand", "ops_count": 2, "magnitude": 0.25, "cutmix": 0.5}
UNMIXED_AT_LAST = (1.0, 0.95, 0.0)


def vit_cifar10() -> Run:
    """A plain ViT (patches of 4, no convolution, 9.5M parameters) from scratch on CIFAR-10's 50,000 training pictures.

    For three quarters of the run 48 of 64 patches are computed, of the others the edges are to be told, and 15% of the
    rows go around each block; then all patches and 10%. Pictures are not mixed in the last twentieth. Nothing is held
    out: the test part is read once, at the end. Pilots hold out a tenth: held_out=0.1.

    Command: clearhead train vit-cifar10
    Costs: 491 s on one H200, 27 of them compiling
    Gives: 97.46% of the test part (seed 0)
    """
    spec = _with_most_patches("vit-c10", "cifar10", painting=5.0, paints="edges")
    return Run("vit-cifar10", spec, _long(640, rate=1.5e-3, adam_rate=8e-4, schedule="linear"))


def vit_cifar100() -> Run:
    """The same ViT on CIFAR-100, which paints the patches that it is not shown and learns from what it confuses.

    What differs from vit-cifar10 was chosen on 20,000 of the training pictures, judged on the others; the rates lie
    between those chosen there and CIFAR-10's, as there are more updates here.

    Command: clearhead train vit-cifar100
    Costs: 537 s on one H200, 43 of them compiling
    Gives: 82.37% of the test part (seed 0)
    """
    spec = _with_most_patches("vit-c100", "cifar100", painting=5.0, confusion=0.5)
    return Run("vit-cifar100", spec, _long(660, rate=1.5e-3, adam_rate=8e-4))


def vit_cifar10_fast() -> Run:
    """The plain ViT to 94% on CIFAR-10 as soon as it goes: half of the patches at first, and little regularisation.

    Chosen on a tenth of the training pictures held out, as long as 90 s after compilation allow; the test part is read
    once.

    Command: clearhead train vit-cifar10-fast
    Costs: 111 s on one H200: 69 s of training, 22 of compiling, the rest before and behind
    Gives: 94.69% of the test part (94.86, 94.64, 94.66, 94.59, 94.70 with seeds 0 to 4)
    """
    spec = PictureSpec(
        model="vit-c10",
        fields=SMALL_PICTURES | STARTS_SMALL,
        data="cifar10",
        held_out=0.0,
        augmentation=LIGHT,
        smoothing=0.1,
        mixing=UNMIXED_AT_LAST,
        kept_tokens=(32, 0.75, 64),
    )
    settings = _on_a_gpu(106, rate=1.5e-3, adam_rate=8e-4, decay=0.998)
    return Run("vit-cifar10-fast", spec, settings)


def cct_cifar10() -> Run:
    """CCT-7/3x1 (3.76M parameters: convolutional tokenizer, sequence pooling) from scratch on CIFAR-10.

    Unlike its authors' it has rotary positions beside the learned ones, which start as sinusoids: as many parameters. A
    quarter of the rows is computed for 60% of the run, then half, in the last tenth all. As in vit-cifar10 the edges of
    what is missing are to be told, here of whole squares of 8 x 8 pixels, from those of their 16 rows that are there.

    Command: clearhead train cct-cifar10
    Costs: planned for 9 min on one H200, not measured yet
    Gives: not measured yet
    """
    spec = PictureSpec(
        model="cct-7-3x1",
        fields={"activation": "gelu-tanh", "attention_dropout": 0.0, "rotary_base": 100.0} | STARTS_SMALL,
        data="cifar10",
        held_out=0.0,
        augmentation=STRONG,
        smoothing=0.1,
        mixing=UNMIXED_AT_LAST,
        kept_tokens=(64, 0.6, 128, 0.9, 256),
        painting=5.0,
        paints="edges",
        square=4,
    )
    settings = _on_a_gpu(500, rate=1.5e-3, adam_rate=8e-4, decay=0.9995, skip_rows=0.1, schedule="linear")
    return Run("cct-cifar10", spec, settings)


def _with_most_patches(
    model: str, data: str, painting: float, paints: str = "pixels", confusion: float = 0.0
) -> PictureSpec:
    return PictureSpec(
        model=model,
        fields=SMALL_PICTURES | STARTS_SMALL,
        data=data,
        held_out=0.0,
        augmentation=STRONG,
        smoothing=0.1,
        mixing=UNMIXED_AT_LAST,
        kept_tokens=(48, 0.75, 64),
        painting=painting,
        paints=paints,
        confusion=confusion,
    )


def _long(epochs: int, rate: float, adam_rate: float, schedule: str = "cosine") -> Settings:
    return _on_a_gpu(epochs, rate, adam_rate, decay=0.9995, skip_rows=(0.15, 0.75, 0.1), schedule=schedule)


def _on_a_gpu(
    epochs: int, rate: float, adam_rate: float, decay: float, skip_rows: Course = 0.0, schedule: str = "cosine"
) -> Settings:
    """Batches of 1,000 in bf16, blocks compiled and updates recorded; the host waits every hundredth update at most."""
    betas = (0.9, 0.99)
    return Settings(
        epochs=epochs,
        batching=Batching(size=1000),
        optimiser=Optimiser(name="muon", rate=rate, adam_rate=adam_rate, betas=betas, weight_decay=0.1, clip=1.0),
        schedule=schedule,
        warmup=500,
        average=Average(decay=decay, warmup=True),
        skip_rows=skip_rows,
        precision="bf16",
        compile="blocks",
        graph=True,
        validate_every=10_000,
        log_every=100,
    )


RECIPES = (vit_digits, vit_mnist, vit_mnist_gpu, vit_cifar10, vit_cifar10_fast, vit_cifar100, cct_cifar10)
