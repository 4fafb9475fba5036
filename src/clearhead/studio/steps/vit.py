"""The table of a ViT: a picture as a sentence of patches, and the class that it shows."""

from ...models.vit import ViT
from ...tasks.classify import verdict
from ..schema import Node
from .block import blocks, last_norm
from .head import chosen, class_names, classes, is_measure, probabilities
from .making import Maker, Part
from .norm import norm
from .picture_input import picture_input
from .pooling import pooling
from .source import code, tapped


def parts(make: Maker) -> list[Part]:
    return [picture_input(make), *blocks(make, "encoder", "patches"), _head(make)]


def _head(make: Maker) -> Part:
    c = make.model.config
    steps = [*last_norm(make, "encoder", "head", "patches"), *pooling(make)]
    if c.final_norm == "pooled":
        steps.append(norm(make, "head", "pooled_norm", steps[-1].result, "z'", title="Norm behind the pooling"))
    logits = classes(make, "head", steps[-1].result, "output", tapped(ViT.head, "logits"), names=class_names(make))
    steps.append(logits)
    if not is_measure(make):
        steps.append(probabilities(make, "head", logits.result))
        says = (
            "The most probable class is the answer. "
            "How far its probability lies above the others says how sure the model is, not whether it is right."
        )
        steps.append(chosen(make, "head", "class", steps[-1].result, "class", says, code(verdict, "topk")))
    return Part(Node(id="head", title="Class", shape=f"{c.width} → {c.num_classes}", part="head"), steps)
