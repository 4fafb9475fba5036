"""A ViT small enough to look into, from its folder, and pictures for it."""

import torch

import clearhead
from clearhead.data import Preprocessor
from clearhead.models import create
from clearhead.runs.labels import name_classes


def vit(folder, **changes):
    sizes = {"image": 8, "patch": 4, "channels": 1, "width": 12, "heads": 3, "layers": 2, "num_classes": 3}
    model = create("vit-ti16", **sizes | changes, seed=0, device="cpu")
    with torch.no_grad():
        model.output.weight.normal_(generator=torch.Generator().manual_seed(1))
    name_classes(model, ("ant", "bee", "<cow>"))
    prepare = Preprocessor(resize=8, crop=(8, 8), mean=(0.3, 0.3, 0.3), std=(0.4, 0.4, 0.4))
    return clearhead.load(clearhead.save(model, folder, preprocessor=prepare), device="cpu")


def pictures(count: int, channels: int = 1) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, 8, 8), dtype=torch.uint8, generator=random)
