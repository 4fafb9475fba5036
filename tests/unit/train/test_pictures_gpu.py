"""The recipes for small pictures on a GPU: no break in a graph, no wait in a step, bf16 near fp32."""

from dataclasses import replace

import pytest
import torch

from clearhead.data.kinds import Dataset, Pictures
from clearhead.layers.stack import compile_blocks, set_row_skipping
from clearhead.models import create
from clearhead.recipes import RECIPES
from clearhead.train import pictures
from clearhead.train.loop import Trainer, Watch
from clearhead.train.painted import PAINTS
from clearhead.train.ranks import Ranks
from tests.support import equal

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
NAMES = ("vit-cifar10", "vit-cifar10-fast", "vit-cifar100", "cct-cifar10")


@pytest.fixture
def noise(monkeypatch):
    """A set of random pictures in place of CIFAR."""

    def opened(name: str, *_: object, **__: object) -> Dataset:
        classes = 100 if name == "cifar100" else 10
        parts = {
            part: Pictures(torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8), torch.arange(count) % classes)
            for part, count in (("train", 2000), ("test", 300))
        }
        return Dataset(name, "pictures", parts, classes=tuple(map(str, range(classes))))

    monkeypatch.setattr(pictures, "open_set", opened)


MORE = {"painting": 5.0, "confusion": 0.5}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, {}) for name in NAMES),
        *(("vit-cifar10", MORE | {"paints": paints}) for paints in PAINTS),
        ("cct-cifar10", MORE),
    ],
)
def test_a_training_step_never_waits_for_the_device(name, more, noise, tmp_path):
    run = RECIPES[name].make()
    spec, settings = replace(run.spec, **more), replace(run.settings, epochs=None, steps=400)
    run = replace(run, spec=spec, settings=settings)
    trainer = Trainer(run, tmp_path, Ranks(0, 1, torch.device("cuda")), Watch(), run.spec.open())
    for at in (0, 300, 390):  # a step of each phase; the first of them compiles
        trainer.step = at
        trainer.update()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            trainer.update()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert all(value.isfinite() for value in trainer._figures[0].values())


@pytest.mark.parametrize("kept", [48, 64])
def test_blocks_compile_whole_and_give_the_same_in_bf16(kept):
    fields = {"layers": 3, "rotary_base": 100.0, "locality": 1.6, "start": "scaled", "activation": "gelu-tanh"}
    plain = create("vit-c10", device="cuda", seed=0, **fields).train()
    torch.nn.init.normal_(plain.output.weight, std=0.05)
    compiled = create("vit-c10", device="cuda", seed=0, **fields).train()
    compiled.load_state_dict(plain.state_dict())
    compile_blocks(compiled)
    images, outputs = torch.randn(64, 3, 32, 32, device="cuda"), []
    for model in (plain, compiled):
        model.keep_tokens(kept)
        set_row_skipping(model, 0.15)
        torch.manual_seed(0)
        with torch.autocast("cuda", torch.bfloat16):
            outputs.append(model(images).float())
        outputs[-1].sum().backward()
    exact = plain
    torch.manual_seed(0)
    outputs.append(exact(images))
    assert equal(outputs[1], outputs[0], 3e-2) and equal(outputs[0], outputs[2], 3e-2)
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.parametrize("name", ["vit-c10", "cct-7-3x1"])
def test_a_whole_training_pass_compiles_without_a_break(name):
    model = create(name, device="cuda", seed=0, layers=2).train()
    model.keep_tokens(48)
    set_row_skipping(model, 0.15)
    images = torch.randn(32, 3, 32, 32, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.compile(model, fullgraph=True, dynamic=False)(images).float().square().mean()
    loss.backward()
    assert loss.isfinite() and all(weight.grad is not None for weight in model.parameters())
