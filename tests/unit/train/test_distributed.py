"""Several processes train what one would: gloo on the CPU, two at a time, started by fork and by torchrun itself."""

import contextlib
import gc
import io
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # with the next: what forked processes would each import anew
import torch.distributed as dist
import torch.utils.tensorboard
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import clearhead
from clearhead import ClearheadError
from clearhead.convert import open_weights
from clearhead.models import create
from clearhead.train import shard_files, sharded
from clearhead.train.average import Average
from clearhead.train.loop import Outcome, Run, Watch, train
from clearhead.train.metrics import read_metrics
from clearhead.train.optimiser import Optimiser
from clearhead.train.ranks import Ranks, ranks
from clearhead.train.saved import States
from clearhead.train.settings import Settings
from clearhead.train.task import Batching, Spec
from clearhead.train.translation import TranslationSpec
from tests.unit.train.toy import LENGTH, VOCAB, ToySpec, ToyTask

PLAIN = ToySpec(dropout=0.0)
RAGGED = ToySpec(dropout=0.0, ragged=True)
DROPS = ("dropout", "attention_dropout", "embedding_dropout")
EPS = 1e-5  # biases of keys have no gradient but rounding errors, which AdamW would blow up
LIMIT = 60.0  # seconds after which processes that wait for each other are given up


def run(spec: Spec = PLAIN, **settings: Any) -> Run:
    usual = {"steps": 8, "validate_every": 4, "log_every": 1, "device": "cpu", "compile": False, "warmup": 2}
    usual |= {"optimiser": Optimiser(rate=1e-2, clip=0.5, eps=EPS), "batching": Batching(size=10)}
    return Run("toy", spec, Settings(**usual | settings))


# ------------------------------------------------------------------------------------------ two processes


def together(folder: Path, call: Callable[..., Any], *given: Any, world: int = 2) -> list[Any]:
    """What `call(*given)` gives in each of `world` processes; an error in one of them is raised here."""
    context = multiprocessing.get_context("fork")
    store = folder / f"store-{time.monotonic_ns()}"
    pipes = [context.Pipe(duplex=False) for _ in range(world)]
    children = [
        context.Process(target=_one, args=(rank, world, store, pipes[rank][1], call, given)) for rank in range(world)
    ]
    for child, (_, writer) in zip(children, pipes, strict=True):
        child.start()
        writer.close()
    end, answers = time.monotonic() + LIMIT, []
    try:
        for reader, _ in pipes:
            assert reader.poll(max(0.0, end - time.monotonic())), "the processes wait for each other"
            with contextlib.suppress(EOFError):  # it is gone without a word
                answers.append(reader.recv())
    finally:
        for child in children:
            child.kill()
            child.join()
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if errors:  # the others lose their connection when one ends
        raise min(errors, key=lambda error: "by peer" in str(error))
    return answers


def _one(rank: int, world: int, store: Path, pipe: Any, call: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        pipe.send(call(*given))
        dist.barrier()
    except ClearheadError as problem:
        pipe.send(problem)
    except BaseException:
        pipe.send(AssertionError(traceback.format_exc()))
    finally:
        pipe.close()
        os._exit(0)


def sharded_run(job: Run, shard: bool = True) -> Run:
    return replace(job, settings=replace(job.settings, shard=shard))


def both_ways(job: Run, folder: Path) -> Outcome:
    """Trained with copies, then in pieces; what came of the pieces."""
    train(job, folder / "copies")
    return train(sharded_run(job), folder / "pieces")


def said_by(job: Run, folder: Path) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    return train(job, folder, Watch(said=said.append)), said


def sequence(folder: Path) -> dict[str, torch.Tensor]:
    """Every figure of the metrics, in order."""
    lines = read_metrics(folder)
    names = sorted({name for line in lines for name in line})
    return {name: torch.tensor([line[name] for line in lines if name in line], dtype=torch.float64) for name in names}


def agree(one: Path, other: Path) -> None:
    """The same lines, each figure to 1e-5, and the same weights to 1e-5."""
    ours, theirs = sequence(one), sequence(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(
            ours[name], theirs[name], atol=1e-5, rtol=1e-5, msg=lambda why, name=name: name + why
        )
    ours, theirs = weights(one), weights(other)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-5, rtol=0, msg=lambda why, name=name: name + why)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(clearhead.load(folder, device="cpu").state_dict())


def same(one: Path, other: Path) -> bool:
    ours, theirs = weights(one), weights(other)
    return read_metrics(one) == read_metrics(other) and all(torch.equal(ours[name], theirs[name]) for name in ours)


# ------------------------------------------------------------------------------------------ DDP

JOBS = {
    "even": run(),
    "ragged": run(RAGGED),
    "ragged, three batches an update": run(RAGGED, accumulate=3),
    "five rows for two": run(RAGGED, batching=Batching(size=5)),
    "averages": run(RAGGED, average=Average(decay=0.8), average_last=2),
}


@pytest.mark.parametrize("name", JOBS)
def test_two_processes_train_what_one_does_with_the_same_batches(tmp_path, name):
    alone = train(JOBS[name], tmp_path / "one")
    first, second = together(tmp_path, train, JOBS[name], tmp_path / "two")
    agree(tmp_path / "one", tmp_path / "two")
    assert first.steps == second.steps == alone.steps
    assert first.figures == second.figures
    assert first.figures["test"]["loss"] == pytest.approx(alone.figures["test"]["loss"], abs=1e-5)
    assert sequence(tmp_path / "one")["norm"].max() > 0.5, "nothing was clipped"


def test_the_first_process_alone_writes(tmp_path):
    together(tmp_path, _own_folder, run(average_last=2, average=Average()), tmp_path)
    assert (tmp_path / "rank 0" / "model.safetensors").exists()
    assert not (tmp_path / "rank 1").exists()


def _own_folder(job: Run, folder: Path) -> None:
    train(job, folder / f"rank {dist.get_rank()}")


def test_gradients_travel_once_an_update(tmp_path):
    """Three batches, and the first two wait."""
    assert together(tmp_path, _held_back, run(accumulate=3, steps=4), tmp_path / "run") == [8, 8]


def _held_back(job: Run, folder: Path) -> int:
    held, count = DistributedDataParallel.no_sync, 0

    def counted(self: DistributedDataParallel) -> Any:
        nonlocal count
        count += 1
        return held(self)

    DistributedDataParallel.no_sync = counted
    train(job, folder)
    return count


def test_weights_without_a_gradient_do_not_stop_several_processes(tmp_path):
    job = run(SpareSpec(dropout=0.0))
    train(job, tmp_path / "one")
    together(tmp_path, both_ways, job, tmp_path)
    agree(tmp_path / "one", tmp_path / "copies")
    agree(tmp_path / "one", tmp_path / "pieces")


class SpareSpec(ToySpec):
    def open(self) -> ToyTask:
        return SpareTask(self)


class SpareTask(ToyTask):
    """The model has an output layer of its own, and the loss does without it."""

    def model(self, seed: int) -> Any:
        size = {"vocab": VOCAB, "context": LENGTH, "width": 16, "layers": 2, "heads": 2}
        return create("gpt2", device="cpu", seed=seed, tied=False, **size, **dict.fromkeys(DROPS, 0.0))

    def losses(self, model: Any, batch: Any) -> Any:
        ids, _, _ = batch
        logits = model.input.tokens.logits(model.hidden(ids[:, :-1]))
        return {"loss": cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")}


def test_every_process_ends_when_one_is_interrupted_and_goes_on_to_the_same_bits(tmp_path):
    job = run(InterruptedSpec(ragged=True), average=Average(decay=0.9))
    calm = replace(job, spec=replace(job.spec, at=None))
    together(tmp_path, train, calm, tmp_path / "whole")
    stopped = together(tmp_path, _with_fingerprint_of, job, calm, tmp_path / "stopped")
    assert [(one.interrupted, one.steps) for one in stopped] == [(True, 7), (True, 7)]
    (_, said), _ = together(tmp_path, said_by, calm, tmp_path / "stopped")
    assert said == ["going on behind step 7 of 8"]
    assert same(tmp_path / "whole", tmp_path / "stopped")


@dataclass(frozen=True, kw_only=True)
class InterruptedSpec(ToySpec):
    """at: the number of the batch at which the second process gets a Ctrl-C."""

    at: int | None = 7

    def open(self) -> ToyTask:
        task = super().open()
        whole, drawn = task.batch, False

        def batch(number: int, *given: Any) -> Any:
            nonlocal drawn
            if number == self.at and dist.get_rank() == 1 and not drawn:
                drawn = True
                os.kill(os.getpid(), signal.SIGINT)
            return whole(number, *given)

        task.batch = batch  # pyright: ignore[reportAttributeAccessIssue]
        return task


def _with_fingerprint_of(job: Run, other: Run, folder: Path) -> Outcome:
    """The one run under the name of the other: its states are the other's."""
    print_of_other = other.fingerprint
    Run.fingerprint = property(lambda self: print_of_other)  # pyright: ignore
    return train(job, folder)


@pytest.mark.parametrize(("better", "steps"), [(0, 20), (1, 6)])
def test_processes_that_judge_differently_follow_the_first(tmp_path, better, steps):
    """Bits differ between devices: were best weights and patience each one's own, they would wait for each other."""
    job = run(TwoMindsSpec(dropout=0.0, better=better), steps=20, validate_every=2, patience=2)
    first, second = together(tmp_path, train, job, tmp_path / "run")
    assert first.steps == second.steps == steps
    assert first.figures == second.figures


@dataclass(frozen=True, kw_only=True)
class TwoMindsSpec(ToySpec):
    """One process finds every validation better than the last, the other one finds it worse."""

    better: int

    def open(self) -> ToyTask:
        task = super().open()
        count = 0

        def evaluate(*given: Any) -> dict[str, float]:
            nonlocal count
            count += 1
            return {"loss": float(-count if dist.get_rank() == self.better else count)}

        task.evaluate = evaluate  # pyright: ignore[reportAttributeAccessIssue]
        return task


# ------------------------------------------------------------------------------------------ FSDP2


MUON = Optimiser(name="muon", rate=1e-2, muon_dtype="float32", clip=0.5, eps=EPS)
SHARDED = {
    "even": run(),
    "ragged, three batches an update": run(RAGGED, accumulate=3),
    "five rows for two": run(RAGGED, batching=Batching(size=5)),
    "averages": run(RAGGED, average=Average(decay=0.8), average_last=2),
    "computed again": run(RAGGED, recompute=True),
    "frozen": run(freeze=("input.*", "decoder.blocks.0.*")),
    "muon": run(optimiser=MUON),
    "bf16": run(precision="bf16"),
}


@pytest.mark.parametrize("name", SHARDED)
def test_a_sharded_model_trains_as_a_copied_one_and_leaves_the_same_folder(tmp_path, name):
    job = SHARDED[name]
    first, second = together(tmp_path, both_ways, job, tmp_path)
    agree(tmp_path / "copies", tmp_path / "pieces")
    assert first.figures == second.figures and first.steps == second.steps == 8
    ours, theirs = open_weights(tmp_path / "pieces"), open_weights(tmp_path / "copies")
    assert list(ours) == list(theirs)
    assert all((ours.shape(key), ours.dtype(key)) == (theirs.shape(key), theirs.dtype(key)) for key in ours)
    assert (tmp_path / "pieces" / "config.json").read_bytes() == (tmp_path / "copies" / "config.json").read_bytes()


@pytest.mark.parametrize("model", ["transformer-tiny", "t5-small"])
def test_translation_in_batches_of_any_length_copied_and_sharded(tmp_path, model):
    """Encoder, decoder, and the writing that judges them; each process fills up its rows by itself."""
    job = run(counting(tmp_path, model), batching=Batching(size=120), accumulate=2, recompute=model == "t5-small")
    alone = train(job, tmp_path / "one")
    first, second = together(tmp_path, both_ways, job, tmp_path)
    agree(tmp_path / "one", tmp_path / "copies")
    agree(tmp_path / "one", tmp_path / "pieces")
    assert first.figures == second.figures
    assert first.figures["valid"] == pytest.approx(alone.figures["valid"], abs=1e-5)


def counting(folder: Path, model: str) -> TranslationSpec:
    """Numbers of many lengths, and their digits in words."""
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    numbers = [str(7**power)[: 1 + power % 9] for power in range(10, 110)]
    (folder / "numbers.txt").write_text("".join(f"{number}\n" for number in numbers))
    said = [" ".join(words[int(digit)] for digit in number) for number in numbers]
    (folder / "words.txt").write_text("".join(f"{line}\n" for line in said))
    fields = {"width": 16, "layers": 2, "heads": 2, "ff": 20, "dropout": 0.0}
    data = (str(folder / "numbers.txt"), str(folder / "words.txt"))
    return TranslationSpec(model=model, fields=fields, data=data, tokenizer="characters", smallest=2, written=4)


def test_each_process_keeps_half_of_everything(tmp_path):
    whole, *halves = together(tmp_path, _kept)[0]
    assert all(0.45 * whole < half < 0.6 * whole for half in halves), (whole, halves)


def _kept() -> list[int]:
    """Numbers in all weights; and those that this process keeps of weights, average and the optimiser's memory."""
    here = Ranks(dist.get_rank(), 2, torch.device("cpu"))
    task = PLAIN.open()
    work = sharded.Work(task.model(0), task, "fp32")
    whole = sum(weight.numel() for weight in work.model.parameters())
    shards = sharded.Shards(work, here, compiled=False)
    updater, average = shards.updater(Optimiser()), shards.average(Average())
    work(task.batch(0, Batching(size=4), here.rank, 2, here.device))["loss"].backward()
    updater.step()
    local: Any = list(work.model.parameters())
    moments: Any = [tensor for key, tensor in updater.state_dict().items() if key.endswith("exp_avg")]
    return [
        whole,
        sum(weight.to_local().numel() for weight in local),
        sum(weight.grad.to_local().numel() for weight in local),
        sum(tensor.to_local().numel() for tensor in moments),
        sum(weight.numel() for weight in average.weights.values()),
    ]


# ------------------------------------------------------------------------------------------ states in pieces


MOVES = {"2 -> 1": (2, True, 1, True), "1 -> 2": (1, True, 2, True), "copies, 2 -> 1": (2, False, 1, False)}
MOVES |= {"copies -> pieces": (2, False, 2, True), "pieces -> one whole": (2, True, 1, False)}


@pytest.mark.parametrize("move", MOVES)
def test_a_state_moves_between_numbers_of_processes_and_both_forms(tmp_path, move):
    before, was, after, becomes = MOVES[move]
    job = run(RAGGED, average=Average(decay=0.8), average_last=2)
    train(job, tmp_path / "whole")
    _on(before, tmp_path, sharded_run(job, was), tmp_path / "moved")
    shutil.rmtree(tmp_path / "moved" / "state" / "00000008")
    said = _on(after, tmp_path, sharded_run(job, becomes), tmp_path / "moved")
    told = f"{after} process{'es' * (after > 1)} now, {before} before"
    assert said[0] == "going on behind step 4 of 8"
    assert any(line.startswith(told) for line in said) == (before != after)
    agree(tmp_path / "whole", tmp_path / "moved")


def _on(world: int, store: Path, job: Run, folder: Path) -> list[str]:
    return (said_by(job, folder) if world == 1 else together(store, said_by, job, folder, world=world)[0])[1]


def test_a_sharded_run_goes_on_exactly_behind_a_harmed_state(tmp_path, caplog):
    job = sharded_run(run(ToySpec(ragged=True), average=Average(decay=0.9)))
    together(tmp_path, train, job, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "harmed")
    piece = tmp_path / "harmed" / "state" / "00000008" / "rank-00001.safetensors"
    piece.write_bytes(piece.read_bytes()[:-4])
    (_, said), _ = together(tmp_path, said_by, job, tmp_path / "harmed")
    assert said == ["going on behind step 4 of 8"]
    assert same(tmp_path / "whole", tmp_path / "harmed")


class Code:
    """Unpickled, it leaves a file behind: the sign that a stranger's code ran."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> Any:
        return Path.touch, (self.sign,)


def _pickled(sign: Path) -> bytes:
    return pickle.dumps(Code(sign))


def _torch_saved(sign: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"item": Code(sign)}, stream)
    return stream.getvalue()


HARMS = {
    "a pickle as the index": ("pieces.json", _pickled, "pieces.json"),
    "a pickle as pieces": ("rank-00000.safetensors", _pickled, "rank-00000"),
    "a byte item as pieces": ("rank-00000.safetensors", _torch_saved, "rank-00000"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_code_in_a_state_does_not_run_and_is_refused_in_one_line(tmp_path, caplog, harm):
    """The record is made to fit: whoever puts code into a state can compute checksums too."""
    job, sign = sharded_run(run()), tmp_path / "it ran"
    train(job, tmp_path / "run")
    name, made, told = HARMS[harm]
    for state in (tmp_path / "run" / "state").glob("0*"):
        (state / name).write_bytes(made(sign))
        (state / ".metadata").write_bytes(_pickled(sign))  # where the engine's own reader would look
        _mend_record(state, name)
    said: list[str] = []
    train(job, tmp_path / "run", Watch(said=said.append))
    assert not sign.exists() and not said
    refusals = [record.getMessage() for record in caplog.records if "state before it" in record.getMessage()]
    assert len(refusals) == 2 and all(told in line and "\n" not in line for line in refusals)
    pickle.loads(_pickled(sign))
    assert sign.exists(), "the harm was harmless"


def _mend_record(state: Path, name: str) -> None:
    record = json.loads((state / "state.json").read_text())
    raw = (state / name).read_bytes()
    record["files"][name] = {"bytes": len(raw), "crc32": zlib.crc32(raw)}
    (state / "state.json").write_text(json.dumps(record))


CHANGES = {
    "a byte item": lambda tensors: tensors.update({"optimiser/code": {"bytes": "gASVKAAAAAAAAACM"}}),
    "a file elsewhere": lambda tensors: _first(tensors)["pieces"][0].update(file="../../secret.safetensors"),
    "a missing piece": lambda tensors: _first(tensors)["pieces"].pop(),
    "a piece outside": lambda tensors: _first(tensors)["pieces"][0].update(at=[100, 0]),
    "a shape of text": lambda tensors: _first(tensors).update(shape="12"),
    "no such type": lambda tensors: _first(tensors).update(dtype="object"),
}


def _first(tensors: dict[str, Any]) -> dict[str, Any]:
    return tensors["model/input.tokens.weight"]


@pytest.mark.parametrize("change", CHANGES)
def test_an_index_that_does_not_fit_its_pieces_is_refused_in_one_line(tmp_path, change):
    together(tmp_path, _write, {"model/input.tokens.weight": torch.rand(12, 4)}, tmp_path)
    file = tmp_path / "pieces.json"
    content = json.loads(file.read_text())
    CHANGES[change](content["tensors"])
    file.write_text(json.dumps(content))
    with pytest.raises(ClearheadError) as refused:
        shard_files.open_shelf(tmp_path)
    assert "\n" not in str(refused.value)


def _write(tensors: dict[str, torch.Tensor], folder: Path) -> None:
    here = Ranks(dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
    mesh = init_device_mesh("cpu", (here.world,))
    cut = {
        key: distribute_tensor(tensor, mesh, [Shard(0)]) if tensor.ndim else tensor for key, tensor in tensors.items()
    }
    shard_files.write_shards(folder, cut, here)


@pytest.mark.parametrize("world", [2, 3])
def test_pieces_of_any_size_are_put_together_again(tmp_path, world):
    """A tensor of one row leaves some processes with nothing."""
    shapes = [(1, 1, 8), (5,), (), (3, 4), (12, 2)]
    tensors = {f"part/{number}": torch.rand(shape) for number, shape in enumerate(shapes)}
    tensors["part/half"] = torch.rand(7, 2).bfloat16()
    together(tmp_path, _write, tensors, tmp_path, world=world)
    found = shard_files.read_shards(shard_files.open_shelf(tmp_path), {}, Ranks(0, 1, torch.device("cpu")))
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[key], tensors[key]) for key in tensors)


def test_what_is_no_tensor_is_not_written(tmp_path):
    with pytest.raises(ClearheadError, match="'values' is not a tensor"):
        shard_files.write_shards(tmp_path, {"values": {"a": 1}}, Ranks(0, 1, torch.device("cpu")))  # pyright: ignore


def test_a_full_disk_in_one_process_is_told_by_all_and_the_state_before_is_intact(tmp_path):
    job = sharded_run(run(FullSpec(dropout=0.0)))
    with pytest.raises(ClearheadError, match="step 8 can't be written: process 1: .*No space left.* is intact"):
        together(tmp_path, train, job, tmp_path / "run")
    states = States(tmp_path / "run", job.fingerprint)
    assert [place.name for place in states.found()] == ["00000004"]
    assert states.newest({}) is not None


class FullSpec(ToySpec):
    """The second process's disk is full from the sixth batch on."""

    def open(self) -> ToyTask:
        task = super().open()
        whole = task.batch

        def full(*given: Any) -> None:
            raise OSError(28, "No space left on device")

        def batch(number: int, *given: Any) -> Any:
            if number == 6 and dist.get_rank() == 1:
                shard_files.write_safetensors = full
            return whole(number, *given)

        task.batch = batch  # pyright: ignore[reportAttributeAccessIssue]
        return task


def test_a_folder_that_one_process_can_not_see_is_said(tmp_path):
    together(tmp_path, train, run(), tmp_path / "rank 0")
    with pytest.raises(ClearheadError, match="not every process can see .* all must share one folder"):
        together(tmp_path, _own_folder, run(), tmp_path)


# ------------------------------------------------------------------------------------------ ends


@pytest.mark.parametrize("shard", [False, True])
def test_a_process_that_is_left_alone_says_so(tmp_path, shard):
    with pytest.raises(ClearheadError, match="another process ended at step 6, .*; the last good state is step 4"):
        together(tmp_path, train, sharded_run(run(LeavingSpec(dropout=0.0)), shard), tmp_path / "run")


class LeavingSpec(ToySpec):
    """The second process is gone at its seventh batch."""

    def open(self) -> ToyTask:
        task = super().open()
        whole = task.batch

        def batch(number: int, *given: Any) -> Any:
            if number == 6 and dist.get_rank() == 1:
                os._exit(1)
            return whole(number, *given)

        task.batch = batch  # pyright: ignore[reportAttributeAccessIssue]
        return task


# ------------------------------------------------------------------------------------------ torchrun

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from clearhead.train.loop import Run, train
from clearhead.train.settings import Settings
from tests.unit.train.toy import ToySpec, ToyTask

class Task(ToyTask):
    def batch(self, number, *given):
        if number == 6 and os.environ["RANK"] == "1":
            if sys.argv[2] == "killed":
                print("killed at", time.time(), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            print("under way", flush=True)
        return super().batch(number, *given)

class Spec(ToySpec):
    def open(self):
        return Task(self)

if sys.argv[2] == "killed":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's: the one that is left says its own word first
outcome = train(Run("toy", Spec(), Settings(steps=100_000, validate_every=100_000, device="cpu")), Path(sys.argv[1]))
print("interrupted" if outcome.interrupted else "done", flush=True)
"""


def _torchrun(folder: Path, fate: str) -> subprocess.Popen[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}:{root}", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, str(folder / "run"), fate], env=environment, **pipes)


def test_a_process_that_dies_ends_the_job_with_an_error(tmp_path):
    job = _torchrun(tmp_path, "killed")
    output, _ = job.communicate(timeout=LIMIT)
    at = float(re.search(r"killed at (\S+)", output)[1])  # pyright: ignore[reportOptionalSubscript]
    assert time.time() - at < 20, "it hung"
    assert job.returncode != 0
    assert "SIGKILL" in output
    assert "another process ended at step" in output
    assert "done" not in output


def test_ctrl_c_reaches_every_process_under_torchrun_and_the_state_is_saved(tmp_path):
    job = _torchrun(tmp_path, "told")
    assert job.stdout is not None
    while "under way" not in (line := job.stdout.readline()):
        assert line, "it ended too early"
    job.send_signal(signal.SIGINT)
    output, _ = job.communicate(timeout=LIMIT)
    assert output.count("interrupted") == 2
    assert list((tmp_path / "run" / "state").glob("0*/state.json"))


def test_processes_join_by_the_variables_that_torchrun_sets_and_leave_again(tmp_path):
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_join, args=(rank, port, tmp_path)) for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(LIMIT)
    assert [child.exitcode for child in children] == [0, 0]
    assert (tmp_path / "run" / "result.json").exists()


def _join(rank: int, port: str, folder: Path) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    leave, left = dist.destroy_process_group, []

    def leaving() -> None:
        """Whoever outlives the connections closes them under Python's lock, and hangs one time in ten."""
        left.extend(one for one in gc.get_objects() if isinstance(one, DistributedDataParallel))
        leave()

    dist.destroy_process_group = leaving
    train(run(), folder / "run")
    assert not dist.is_initialized() and not left


@pytest.mark.parametrize(
    ("variables", "device", "told"),
    [
        ({"WORLD_SIZE": "2"}, "cpu", "RANK is not set: start several processes by torchrun"),
        ({"WORLD_SIZE": "two"}, "cpu", "WORLD_SIZE must be a whole number, not 'two'"),
        (
            {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
            "mps",
            "not on mps: give device=cpu",
        ),
        (
            {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "1", "LOCAL_RANK": "99"},
            "cuda",
            "no GPU",
        ),
    ],
)
def test_processes_that_can_not_work_together_are_refused(monkeypatch, variables, device, told):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ClearheadError, match=told), ranks(torch.device(device)):
        raise AssertionError("they joined")
