"""Vision Transformers from scratch on small pictures."""

from ..train.average import Average
from ..train.loop import Run
from ..train.optimiser import Optimiser
from ..train.pictures import PictureSpec
from ..train.settings import Settings
from ..train.task import Batching


def vit_digits() -> Run:
    """A small ViT on scikit-learn's 1,797 handwritten digits: patches of 2 x 2, six layers, 96 wide.

    Command: clearhead train vit-digits
    Costs: about a minute on two cores
    Gives: to be measured
    """
    spec = PictureSpec(
        model="vit-ti16",
        fields={"width": 96, "layers": 6, "heads": 4, "patch": 2, "dropout": 0.0},
        data="digits",
        augmentation={"crop": 1, "ops": "trivial", "magnitude": 0.3},
        smoothing=0.1,
    )
    settings = Settings(
        epochs=60,
        batching=Batching(size=64),
        optimiser=Optimiser(rate=2e-3, weight_decay=0.05),
        warmup=60,
        average=Average(decay=0.99),
        validate_every=100,
        drop_path=0.1,
    )
    return Run("vit-digits", spec, settings)


RECIPES = (vit_digits,)
