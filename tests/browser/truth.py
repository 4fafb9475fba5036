"""What a matrix of the page has to say, read from parameters and from `record`, without the studio's code."""

from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

import clearhead
from clearhead.data.sets import open_set
from clearhead.layers import CrossAttention, FixedPositions, SelfAttention
from clearhead.models import Model
from clearhead.runs import preprocessor
from clearhead.trace import Trace
from tests.browser.runs import Trained

PARTS = ("query", "key", "value")


@dataclass(frozen=True)
class Truth:
    model: Model
    trace: Trace
    segments: list[int]

    @classmethod
    def of(cls, run: Trained) -> "Truth":
        model = clearhead.load(run.folder, device="cpu")
        given: Any = tuple(run.inputs.values())
        if "picture" in run.inputs:
            name, part, number = run.inputs["picture"].split("/")
            pixels: Tensor = open_set(name).parts[part].pixels[int(number)]  # pyright: ignore
            image = Image.fromarray(pixels[0].numpy()).convert("RGB")
            given = (preprocessor(model)(image).mean(0, keepdim=True)[None],)
        if "second" in run.inputs:  # `record` also tells the row's length, which is a mask that hides nothing
            ids, segments = clearhead.tokenizer(model).pair(*given)
            with torch.no_grad(), clearhead.Recorder(model) as trace:
                model(torch.tensor([ids]), segments=torch.tensor([segments]))
            return cls(model, trace, segments)
        return cls(model, clearhead.record(model, given if len(given) > 1 else given[0]), [])

    def matrix(self, key: str, head: int = 0) -> Tensor:
        """(rows, columns) of what the page calls `key`."""
        kind, _, name = key.partition(":")
        if name.endswith(".T"):
            return self.matrix(key.removesuffix(".T"), head).T
        return {"site": self.site, "weight": self.weight, "derived": self.derived}[kind](name, head)

    def site(self, name: str, head: int) -> Tensor:
        value, last = self.trace[name], name.rpartition(".")[2]
        if last == "ids":
            return value[0][:, None].float()
        if last == "image":
            return value[0].flatten(0, 1)  # the channels one below the other
        if value.ndim == 4:
            return value[0, head]
        if value.ndim == 2:
            return value if last == "positions" else value[:1]
        return value[0]

    def weight(self, name: str, head: int) -> Tensor:
        """As (inputs, outputs); tables as they are stored, vectors as one row."""
        weights = dict(self.model.named_parameters(remove_duplicate=False))
        path, field = (name.removesuffix(".bias"), "bias") if name.endswith(".bias") else (name, "weight")
        owner, _, part = path.rpartition(".")
        around = self.model.get_submodule(owner)
        if part in PARTS and isinstance(around, SelfAttention | CrossAttention):
            packed = isinstance(around, SelfAttention)
            value = weights[f"{owner}.qkv.{field}"] if packed else weights[f"{path}.{field}"]
            value = value.chunk(3)[PARTS.index(part)] if packed else value
            own = value.unflatten(0, (around.heads.count, -1))[head]
            return own[None] if field == "bias" else own.T
        if name in weights:
            value, module = weights[name], None
        else:
            module = self.model.get_submodule(path)
            value: Tensor = module.get_buffer("table") if isinstance(module, FixedPositions) else getattr(module, field)
        if value.ndim == 1:
            return value[None]
        return value.T if isinstance(module, nn.Linear) else value

    def derived(self, name: str, head: int) -> Tensor:
        """What a pass computes without naming it, computed once more."""
        at, _, rule = name.rpartition(".")
        return getattr(self, f"_{rule}")(at, head).float()

    def _one_hot(self, at: str, head: int) -> Tensor:
        return nn.functional.one_hot(self.trace[f"{at}.ids"][0].long(), len(self.weight(f"{at}.tokens", 0)))

    def _places(self, at: str, head: int) -> Tensor:
        return torch.arange(len(self.site(f"{at}.positions", 0)))[:, None]

    def _segment_ids(self, at: str, head: int) -> Tensor:
        return torch.tensor(self.segments)[:, None]

    def _position_bias(self, at: str, head: int) -> Tensor:
        first = f"{at}.blocks.0.attention"
        return self.site(f"{first}.biased", head).double() - self.site(f"{first}.scaled", head).double()

    def _allowed(self, at: str, head: int) -> Tensor:
        return torch.isfinite(self.site(f"{at}.masked", head))

    def _first(self, at: str, head: int) -> Tensor:
        return self.trace[f"{at}.blocks.1.feed_forward_norm.normed"][0, :1]

    def _product(self, at: str, head: int) -> Tensor:
        return self._first("encoder", 0) @ self.weight(at, 0) + self.weight(f"{at}.bias", 0)

    def _scaled(self, at: str, head: int) -> Tensor:
        return self.trace[f"{at}.norm.normed"][0] * self.model.config.width**-0.5

    def _probabilities(self, at: str, head: int) -> Tensor:
        return self.site(at, 0).double().softmax(-1)

    def _chosen(self, at: str, head: int) -> Tensor:
        return self.site(at, 0).argmax(-1, keepdim=True)
