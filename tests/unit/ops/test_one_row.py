"""Layers in one kernel are the layers: phase by phase in Triton's interpreter; in one launch and in graphs on a GPU."""

import copy
import multiprocessing
from multiprocessing.connection import wait
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.decode.captured import Captured
from clearhead.layers import (
    Cache,
    FeedForward,
    GatedFeedForward,
    Heads,
    LayerNorm,
    Pass,
    PreNormBlock,
    SelfAttention,
    Stack,
)
from clearhead.layers import one_row as chooser
from clearhead.ops import kernels
from clearhead.trace import Recorder

pytest.importorskip("triton", reason="needs Triton, whose interpreter runs the kernel here")
ON = "cuda" if torch.cuda.is_available() else "cpu"
NEAR = 1e-4 if ON == "cuda" else 1e-5  # in fp32
on_gpu = pytest.mark.skipif(ON == "cpu", reason="needs a CUDA device")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its file. In the interpreter every program costs time: there are few, and the last of them has no head."""
    assert kernels.has_kernel("one_row")
    from clearhead.ops import one_row

    if ON == "cpu":
        monkeypatch.setattr(one_row, "plan", one_row.Plan(programs=9, warps=64))
    return one_row


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> None:
    """The kernel serves tensors of a CPU and of fp32 too."""
    monkeypatch.setattr(chooser, "_is_one_row", lambda x: x.shape[:2] == (1, 1))
    monkeypatch.setattr(chooser, "_has_room", lambda gpu, width: True)


def block_of(width: int, heads: int, activation: str = "gelu-tanh", **options: Any) -> PreNormBlock:
    attention = SelfAttention(width, Heads.of(width, heads), causal=True, **options)
    block = PreNormBlock(attention, FeedForward(width, 4 * width, activation), lambda: LayerNorm(width))
    with torch.no_grad():
        for weight in block.parameters():
            weight.normal_(0, 0.3 if weight.dim() == 1 else width**-0.5)
    return block.eval().to(ON)


def cache_of(
    width: int, heads: int, length: int, slots: int, dtype: torch.dtype = torch.float32, layers: int = 1
) -> Cache:
    """Behind the row lies NaN: nobody looks there."""
    cache = Cache.empty(layers, 1, slots, heads, (width // heads,) * 2, torch.device(ON), dtype, bucket=slots)
    for store in (*cache.keys, *cache.values):
        store[:, :length] = torch.randn(length, *store.shape[2:])
        store[:, length:] = torch.nan
    cache.lengths.fill_(length)
    cache.used = length
    cache.begin(1)
    return cache


def expected_of(blocks: Any, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
    """What the layers one by one give, and the cache that they leave. There a masked NaN would count."""
    stores = [[store.nan_to_num() for store in side] for side in (cache.keys, cache.values)]
    after = Cache(*stores, cache.lengths, cache.used, bucket=cache.bucket, seen=cache.seen)
    for layer, block in enumerate(blocks if isinstance(blocks, list) else [blocks]):
        x = block(x, Pass(mask=after.mask(1), cache=after), layer)
    return x, after


def found_of(blocks: Any, x: Tensor, cache: Cache) -> Tensor:
    """What a stack of them gives, which asks the kernel."""
    return Stack(blocks if isinstance(blocks, list) else [blocks])(x, Pass(cache=cache))


def written_alone(cache: Cache, before: Cache, expected: Cache, length: int, atol: float) -> bool:
    """Whether the new slot has what it should and every other one what it had."""
    others = torch.arange(cache.size) != length
    return all(
        torch.equal(store[:, others].nan_to_num(), old[:, others].nan_to_num())
        and torch.allclose(store[:, length].float(), right[:, length].float(), atol=atol)
        for store, old, right in zip(*([*c.keys, *c.values] for c in (cache, before, expected)), strict=True)
    )


def copied(cache: Cache) -> Cache:
    keys, values = ([store.clone() for store in side] for side in (cache.keys, cache.values))
    return Cache(keys, values, cache.lengths, cache.used, bucket=cache.bucket)


@torch.no_grad()
@pytest.mark.parametrize(
    ("width", "heads", "length", "slots"),
    [(128, 2, 0, 24), (128, 2, 1, 24), (128, 2, 17, 24), (128, 2, 23, 24), (128, 2, 700, 704), (768, 12, 95, 96)],
)
def test_it_gives_what_the_layers_give_and_writes_one_slot(kernel, anywhere, width, heads, length, slots):
    block, x, cache = block_of(width, heads), torch.randn(1, 1, width).to(ON), cache_of(width, heads, length, slots)
    before, (expected, after) = copied(cache), expected_of(block, x, cache)
    found = found_of(block, x, cache)
    assert torch.allclose(found, expected, atol=NEAR)
    assert written_alone(cache, before, after, length, NEAR)


@torch.no_grad()
@pytest.mark.parametrize("layers", [2, 3])
def test_one_call_goes_through_all_layers(kernel, anywhere, layers):
    blocks, x = [block_of(64, 1) for _ in range(layers)], torch.randn(1, 1, 64).to(ON)
    cache = cache_of(64, 1, 5, 8, layers=layers)
    before, (expected, after) = copied(cache), expected_of(blocks, x, cache)
    assert torch.allclose(found_of(blocks, x, cache), expected, atol=NEAR)
    assert written_alone(cache, before, after, 5, NEAR)


def test_layers_that_differ_go_one_by_one(kernel, anywhere):
    x, cache = torch.randn(1, 1, 64).to(ON), cache_of(64, 1, 5, 8, layers=2)
    with torch.no_grad():
        assert chooser.serves([block_of(64, 1), block_of(64, 1)], x, Pass(cache=cache))
        for other in (block_of(64, 1, "relu"), block_of(64, 2), block_of(64, 1, scale=0.3)):
            assert not chooser.serves([block_of(64, 1), other], x, Pass(cache=cache))
        assert not chooser.serves([], x, Pass(cache=cache))


def test_a_gpu_must_run_all_programs_at_once(kernel, monkeypatch):
    monkeypatch.setattr(kernel, "plan", kernel.Plan())
    for processors, served in ((40, (False, False)), (108, (True, False)), (132, (True, True))):
        found = SimpleNamespace(multi_processor_count=processors)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda gpu, found=found: found)
        assert (chooser._has_room(0, 768), chooser._has_room(0, 1024)) == served


@torch.no_grad()
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_it_knows_other_activations_and_takes_a_scale(kernel, anywhere, activation):
    block, x, cache = block_of(64, 1, activation, scale=0.3), torch.randn(1, 1, 64).to(ON), cache_of(64, 1, 5, 8)
    expected, _ = expected_of(block, x, cache)
    assert torch.allclose(found_of(block, x, cache), expected, atol=NEAR)


@torch.no_grad()
def test_in_bf16_it_differs_by_no_more_than_rounding(kernel, anywhere):
    """Triton's interpreter cuts off where a GPU rounds: half of a step of bf16 more at each."""
    block, x = block_of(128, 2).bfloat16(), torch.randn(1, 1, 128).to(ON).bfloat16()
    cache = cache_of(128, 2, 17, 24, torch.bfloat16)
    before, (expected, after) = copied(cache), expected_of(block, x, cache)
    found = found_of(block, x, cache)
    assert found.dtype == torch.bfloat16 and torch.allclose(found.float(), expected.float(), atol=0.05)
    assert written_alone(cache, before, after, 17, 0.02)


@torch.no_grad()
def test_every_phase_launched_alone_leaves_what_the_layers_have_at_that_place(kernel):
    block, x, cache = block_of(128, 2), torch.randn(1, 1, 128).to(ON), cache_of(128, 2, 17, 24)
    with Recorder(block) as seen:
        expected, after = expected_of(block, x, cache)
    given, sizes = launch_of(kernel, [block], x, cache, programs=9)
    query, found, shares = (given[name] for name in ("query", "found", "sizes"))
    middle, sums = (given[name][:128] for name in ("middle", "sums"))
    columns = torch.zeros_like(block.feed_forward.down.weight)

    def run(phase: int) -> None:
        kernel._layers[(9,)](**given, **sizes, FIRST=phase, LAST=phase, num_warps=8)

    def is_near(left: Tensor, site: str, part: slice = slice(None)) -> bool:
        return torch.allclose(left, seen[site].flatten()[part], atol=NEAR)

    run(1)
    assert is_near(query, "attention.query")
    assert torch.allclose(cache.keys[0][0, 17], after.keys[0][0, 17], atol=NEAR)
    assert torch.allclose(cache.values[0][0, 17], after.values[0][0, 17], atol=NEAR)
    assert not sums.any()
    run(2)
    assert is_near((shares.softmax(0).repeat_interleave(64, 1) * found).sum(0), "attention.concat")
    run(3)
    assert is_near(middle, "after_attention")
    run(4)
    assert is_near(sums / kernel.UNITS.value + block.feed_forward.down.bias, "feed_forward.output")
    assert torch.allclose(given["after"], expected.flatten(), atol=NEAR)
    for part in (slice(start, start + 128) for start in range(0, 512, 128)):  # a weight that shows the features as sums
        given["table"] = given["table"].clone()
        given["table"][0, kernel.DOWN.value] = columns.data_ptr()
        columns.zero_()[:, part] = torch.eye(128)
        sums.zero_()
        run(4)
        assert is_near(sums / kernel.UNITS.value, "feed_forward.hidden", part)


@torch.no_grad()
@pytest.mark.skipif(ON == "cuda", reason="needs Triton's interpreter")
def test_not_a_bit_depends_on_the_order_in_which_programs_come(kernel, monkeypatch):
    """Of sums in fp32 some would. Launch follows launch: nobody else zeroes the sums or knows who will come last."""
    builder = interpreter_of_programs()
    block, x, cache = block_of(64, 1), torch.randn(1, 1, 64), cache_of(64, 1, 17, 24)
    given, sizes = launch_of(kernel, [block], x, cache, programs=5)
    found = []
    for order in [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)]:

        def comes_next(number: int, *_: int, order: tuple[int, ...] = order) -> None:
            builder.grid_idx = (order[number], 0, 0)

        monkeypatch.setattr(builder, "set_grid_idx", comes_next)
        given["after"] = torch.full_like(x.flatten(), torch.nan)
        for phase in range(1, kernel.PHASES + 1):
            kernel._layers[(5,)](**given, **sizes, FIRST=phase, LAST=phase, num_warps=8)
        found.append((given["after"], given["sums"][:64].clone()))
    assert found[0][0].isfinite().all() and found[0][1].any()
    assert all(torch.equal(*pair) for other in found[1:] for pair in zip(found[0], other, strict=True))


@torch.no_grad()
@pytest.mark.skipif(ON == "cuda", reason="needs Triton's interpreter")
@pytest.mark.parametrize("sign", [0, -(2**31)], ids=["at first", "when the sign has turned"])
def test_programs_that_run_at_once_meet_between_the_phases(kernel, sign):
    """Every program of the one launch is a process here, in shared memory. A second launch finds all as it was left."""
    blocks, caches = (
        [block_of(128, 2) for _ in range(3)],
        [cache_of(128, 2, length, 24, layers=3) for length in (17, 3)],
    )
    inputs = [torch.randn(1, 1, 128) for _ in caches]
    expected = [expected_of(blocks, x, cache)[0].flatten() for x, cache in zip(inputs, caches, strict=True)]
    shared = [*(weight for block in blocks for weight in block.parameters())]
    for tensor in [*shared, *(store for cache in caches for store in (*cache.keys, *cache.values))]:
        tensor.share_memory_()  # before the table says where it lies
    launches = [launch_of(kernel, blocks, x, cache, programs=3) for x, cache in zip(inputs, caches, strict=True)]
    launches[0][0]["meeting"].fill_(sign)
    launches[1][0].update({name: launches[0][0][name] for name in ("meeting", "sums")})
    for given, _ in launches:
        for tensor in given.values():
            if isinstance(tensor, Tensor):
                tensor.share_memory_()
    forked = multiprocessing.get_context("fork")
    end_of_launch = forked.Barrier(3)
    programs = [forked.Process(target=run_program, args=(kernel, n, launches, end_of_launch)) for n in range(3)]
    for program in programs:
        program.start()
    wait([program.sentinel for program in programs], 30)  # one that fails leaves the others waiting for ever
    for program in programs:
        program.join(5)
        program.kill()
    assert [program.exitcode for program in programs] == [0] * 3
    assert launches[0][0]["meeting"].item() == sign  # which has turned four times for each layer of a launch
    for (given, _), right in zip(launches, expected, strict=True):
        assert torch.allclose(given["after"], right, atol=NEAR)


def run_program(kernel: Any, number: int, launches: list[Any], end_of_launch: Any) -> None:
    """One program of each launch: the interpreter would run them one behind the other."""
    builder = interpreter_of_programs()
    builder.set_grid_idx = lambda *_: setattr(builder, "grid_idx", (number, 0, 0))
    for given, sizes in launches:
        kernel._layers[(1,)](**given, **sizes, FIRST=1, LAST=kernel.PHASES, num_warps=8)
        end_of_launch.wait(30)


def interpreter_of_programs() -> Any:
    """What knows the number of the program that runs."""
    from triton.runtime.interpreter import interpreter_builder

    return interpreter_builder


def launch_of(
    kernel: Any, blocks: list[Any], x: Tensor, cache: Cache, programs: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a launch is given, with memory for all that is passed from phase to phase; and its sizes."""
    width, heads = x.shape[-1], blocks[0].attention.heads.count
    splits = 1 << (programs // heads).bit_length() - 1
    given: dict[str, Any] = {name: x.new_zeros(size) for name, size in (("query", width), ("after", width))}
    given["middle"] = x.new_zeros(2 * width)
    given |= {name: torch.zeros(splits, size, device=ON) for name, size in (("found", width), ("sizes", heads))}
    given["sums"] = torch.full((2 * width,), 123456789, device=ON)  # as new memory is: full of something else
    weights = [weight for block in blocks for part in chooser._parts(block) for weight in (part.weight, part.bias)]
    given |= {"x": x, "table": kernel.table_of(weights, cache.keys, cache.values), "lengths": cache.lengths}
    given |= {"scale": (width // heads) ** -0.5, "eps": 1e-5, "meeting": torch.zeros(1, dtype=torch.int32, device=ON)}
    given |= {"start": 0, "end": len(blocks), "layers": len(blocks)}
    sizes = {"WIDTH": width, "FF": 4 * width, "HEADS": heads, "SPLITS": splits, "SLOTS": 8, "PROGRAMS": programs}
    return given, {**sizes, "STEP": 8, "ACTIVATION": "gelu-tanh"}


@torch.no_grad()
@pytest.mark.parametrize(
    "odd",
    ["nothing", "training", "gradients", "recorded", "window", "reference", "uncached", "dynamic", "scaled", "gated"],
)
def test_it_serves_nobody_who_asks_for_more_than_it_does(anywhere, odd):
    block, x, cache = block_of(32, 2), torch.randn(1, 1, 32), cache_of(32, 2, 3, 8)
    shared = Pass(cache=cache, scale=0.5 if odd == "scaled" else 1.0)
    if odd == "training":
        block.train()
    if odd == "window":
        block.attention.window = 4
    if odd == "reference":
        block.attention.path = "reference"
    if odd == "uncached":
        shared.cache = None
    if odd == "dynamic":
        cache.bucket = None
    if odd == "gated":
        block.feed_forward = GatedFeedForward(32, 64, "gelu")
    if odd == "recorded":
        with Recorder(block, sites=[]):
            assert not chooser.serves([block], x, shared)
    elif odd == "gradients":
        with torch.enable_grad():
            assert not chooser.serves([block], x, shared)
    else:
        assert chooser.serves([block], x, shared) == (odd == "nothing")


@torch.no_grad()
def test_the_compiler_takes_it_as_it_is_and_knows_what_it_writes(kernel, anywhere):
    block, x, cache = block_of(32, 2), torch.randn(1, 1, 32).to(ON), cache_of(32, 2, 3, 8)
    before, (expected, after) = copied(cache), expected_of(block, x, cache)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(x: Tensor, cache: Cache) -> Tensor:
        return found_of(block, x, cache)

    assert torch.allclose(step(x, cache), expected, atol=NEAR)
    assert written_alone(cache, before, after, 3, NEAR)


def gpt2_block() -> tuple[PreNormBlock, Tensor, Cache]:
    x = torch.randn(1, 1, 768, device=ON, dtype=torch.bfloat16)
    return block_of(768, 12).bfloat16(), x, cache_of(768, 12, 130, 192, torch.bfloat16)


@on_gpu
@pytest.mark.gpu
@torch.inference_mode()
@pytest.mark.parametrize("together", [True, False], ids=["one launch", "a launch for each phase"])
@pytest.mark.parametrize("programs", [128, 96])
def test_on_a_gpu_it_gives_what_the_layers_give(kernel, monkeypatch, together, programs):
    monkeypatch.setattr(kernel, "plan", kernel.Plan(together=together, programs=programs))
    block, x, cache = gpt2_block()
    before, (expected, after) = copied(cache), expected_of(block, x, cache)
    assert chooser.serves([block], x, Pass(cache=cache))
    found = [found_of(block, x, cache) for _ in range(3)]
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    assert written_alone(cache, before, after, 130, 0.04)
    exact, _ = expected_of(copy.deepcopy(block).float(), x.float(), in_fp32(before))
    ours, theirs = ((output.float() - exact).abs().max() for output in (found[0], expected))
    assert ours <= 1.5 * theirs + 0.02


def in_fp32(cache: Cache) -> Cache:
    keys, values = ([store.float() for store in side] for side in (cache.keys, cache.values))
    return Cache(keys, values, cache.lengths, cache.used, bucket=cache.bucket, seen=cache.size)


@on_gpu
@pytest.mark.gpu
@torch.inference_mode()
def test_replayed_a_hundred_times_it_gives_the_same(kernel):
    """Twelve layers, four times in a row: whoever does not wait for the others is caught."""
    blocks, x = [block_of(768, 12).bfloat16() for _ in range(12)], torch.randn(1, 1, 768, device=ON).bfloat16()
    cache = cache_of(768, 12, 130, 192, torch.bfloat16, layers=12)
    with torch.no_grad():
        for weight in (weight for block in blocks for weight in block.parameters()):
            weight.mul_(0.5)

    def many() -> Tensor:
        y = x
        for _ in range(4):
            y = found_of(blocks, y, cache)
        return y

    expected = many().clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = many()
    for _ in range(100):
        found.zero_()
        graph.replay()
        assert torch.equal(found, expected)


@on_gpu
@pytest.mark.gpu
@torch.inference_mode()
def test_on_a_gpu_a_text_goes_on_as_without_it_up_to_near_ties(kernel):
    model = clearhead.create("gpt2", device=ON, dtype=torch.bfloat16, seed=0, layers=3)
    prompt = torch.randint(50257, (1, 90), device=ON)
    captured = Captured(model)
    state, plain = captured.start(prompt, room=150), model.start(prompt, room=150)
    token = plain.logits.argmax(-1)
    for (chosen,) in captured.ahead(token, state, 40).read()[0]:
        scores = model.step(token, plain)[0].float()
        assert scores.max() - scores[chosen] < 0.1
        token = torch.tensor([chosen], device=ON)
