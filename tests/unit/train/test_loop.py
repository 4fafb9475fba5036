"""The loop: it learns, it stops, it goes on after anything exactly where it was."""

import importlib.util
import json
import multiprocessing
import os
import platform
import random
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import clearhead
from clearhead import ClearheadError
from clearhead.layers import Block
from clearhead.train import work
from clearhead.train.average import Average
from clearhead.train.loop import Run, Watch, train
from clearhead.train.lora import LoRA
from clearhead.train.metrics import read_metrics
from clearhead.train.optimiser import Optimiser
from clearhead.train.settings import Settings
from clearhead.train.task import Batching
from tests.unit.train.toy import ToySpec

KILLS = 20


def run(spec: ToySpec | None = None, **settings: Any) -> Run:
    usual = {"steps": 40, "validate_every": 10, "log_every": 1, "device": "cpu", "compile": False, "warmup": 5}
    usual |= {"optimiser": Optimiser(rate=1e-2), "batching": Batching(size=16)}
    return Run("toy", spec or ToySpec(), Settings(**usual | settings))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(clearhead.load(folder, device="cpu").state_dict())


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_and_leaves_a_folder_that_load_reads(tmp_path):
    outcome = train(run(steps=150), tmp_path)
    lines = read_metrics(tmp_path)
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[0] > 2.3 and losses[-1] < 1.3
    assert outcome.figures["test"]["loss"] < 1.3
    assert json.loads((tmp_path / "result.json").read_text())["test"] == outcome.figures["test"]
    assert clearhead.load(tmp_path, device="cpu").config.vocab == 12
    assert clearhead.tokenizer(tmp_path).ids("w3 w1") == [3, 1]


def test_nothing_is_compiled_to_evaluate(tmp_path, monkeypatch):
    counter, counts = CompileCounter(), []

    def compile_blocks(model: Any, dynamic: bool) -> None:
        for module in model.modules():
            if isinstance(module, Block):
                module.compile(backend=counter, dynamic=False)

    torch.compiler.reset()
    plain = train(run(steps=4, validate_every=2), tmp_path / "plain")
    monkeypatch.setattr(work, "compile_blocks", compile_blocks)
    watch = Watch(updated=lambda *_: counts.append(counter.frame_count))
    outcome = train(run(steps=4, validate_every=2, compile="blocks"), tmp_path / "compiled", watch)
    assert counter.frame_count == counts[0] > 0
    assert outcome.figures["test"] == pytest.approx(plain.figures["test"], rel=1e-4)
    torch.compiler.reset()


def test_the_result_says_what_it_cost_on_which_machine(tmp_path):
    outcome = train(run(steps=10), tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["steps"] == 10 and result["seconds"] == outcome.seconds < result["wall_seconds"]
    told = result["machine"]
    assert told["torch"] == torch.__version__ and told["precision"] == "fp32" and told["processes"] == 1
    assert told["threads"] == torch.get_num_threads()
    facts = Path("/proc/cpuinfo")
    assert told["device"] in (facts.read_text() if facts.exists() else platform.processor() or platform.machine())


def test_that_tensorboard_is_not_installed_is_said_once(tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboard" else found(name))
    said: list[str] = []
    train(run(steps=20), tmp_path, Watch(said=said.append))
    assert said == ["TensorBoard is not installed: no event files are written (pip install tensorboard)"]
    assert not (tmp_path / "events").exists() and len(read_metrics(tmp_path)) > 20


def test_with_tensorboard_event_files_are_written_and_nothing_is_said(tmp_path):
    pytest.importorskip("tensorboard", reason="writes TensorBoard's event files, and it is not installed")
    said: list[str] = []
    train(run(steps=10), tmp_path, Watch(said=said.append))
    assert said == [] and list((tmp_path / "events").glob("events.*"))


def test_the_same_run_twice_gives_the_same_bits(tmp_path):
    for name in ("one", "two"):
        train(run(), tmp_path / name)
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"))
    assert read_metrics(tmp_path / "one") == read_metrics(tmp_path / "two")


@pytest.mark.parametrize("change", [{"seed": 1}, {"batching": Batching(size=16, seed=1)}, {"warmup": 0}])
def test_another_seed_order_or_schedule_gives_other_weights(tmp_path, change):
    train(run(), tmp_path / "one")
    train(run(**change), tmp_path / "two")
    assert not same(weights(tmp_path / "one"), weights(tmp_path / "two"))


def test_accumulating_batches_is_one_large_batch(tmp_path):
    """Rows of different lengths: the mean is over all tokens of an update, not a mean of means."""
    spec = ToySpec(dropout=0.0, ragged=True)
    whole = run(spec, steps=5, batching=Batching(size=16))
    parts = run(HalfSpec(dropout=0.0, ragged=True), steps=5, batching=Batching(size=16), accumulate=2)
    for name, which in (("whole", whole), ("parts", parts)):
        train(which, tmp_path / name)
    losses = [[line["loss"] for line in read_metrics(tmp_path / name) if "loss" in line] for name in ("whole", "parts")]
    assert torch.allclose(*(torch.tensor(values) for values in losses), atol=1e-5)


class HalfSpec(ToySpec):
    """The same batches cut in two."""

    def open(self):
        task = super().open()
        whole = task.batch

        def half(number: int, batching: Batching, rank: int, world: int, device: torch.device) -> Any:
            ids, lengths, factor = whole(number // 2, batching, 0, 1, device)
            cut = slice(8) if number % 2 == 0 else slice(8, None)
            return ids[cut], lengths[cut], factor

        task.batch = half  # pyright: ignore[reportAttributeAccessIssue]
        return task


def test_the_best_weights_are_kept_not_the_last(tmp_path):
    outcome = train(run(steps=40, optimiser=Optimiser(rate=3.0, clip=None), warmup=35), tmp_path)
    valid = {line["step"]: line["valid/loss"] for line in read_metrics(tmp_path) if "valid/loss" in line}
    assert valid[40] > min(valid.values())
    assert outcome.figures["valid"]["loss"] == pytest.approx(min(valid.values()), abs=1e-6)


def test_patience_ends_a_run_that_gets_no_better(tmp_path):
    outcome = train(run(steps=400, optimiser=Optimiser(rate=3.0, clip=None), patience=2), tmp_path)
    assert outcome.steps < 400


def test_the_running_average_is_what_is_judged_and_saved(tmp_path):
    train(run(), tmp_path / "plain")
    train(run(average=Average(decay=0.9)), tmp_path / "averaged")
    assert not same(weights(tmp_path / "plain"), weights(tmp_path / "averaged"))


def test_the_mean_of_the_last_validations_is_saved_where_asked_for(tmp_path):
    train(run(average_last=2), tmp_path)
    states = [weights(tmp_path / "state" / f"snapshot-{step:08d}") for step in (30, 40)]
    for name, tensor in weights(tmp_path).items():
        assert torch.allclose(tensor, (states[0][name] + states[1][name]) / 2, atol=1e-6)


def test_frozen_weights_do_not_move_by_a_bit(tmp_path):
    job = run(freeze=("input.*",), optimiser=Optimiser(rate=1e-2, weight_decay=0.5))
    before = job.spec.open().model(job.settings.seed).state_dict()
    train(job, tmp_path)
    after = weights(tmp_path)
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert moved and not any(name.startswith("input.") for name in moved)


def test_lora_moves_its_layers_alone_and_is_merged_into_what_is_saved(tmp_path):
    job = run(lora=LoRA(rank=2, targets=("*.attention.*",)), unfreeze=("input.tokens.*",))
    before = job.spec.open().model(job.settings.seed).state_dict()
    outcome = train(job, tmp_path)
    after = weights(tmp_path)
    assert after.keys() == before.keys()
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert moved and all(".attention." in name or name.startswith("input.tokens") for name in moved)
    change = after["decoder.blocks.0.attention.qkv.weight"] - before["decoder.blocks.0.attention.qkv.weight"]
    assert int(torch.linalg.matrix_rank(change, atol=1e-5)) <= 2
    again = clearhead.load(tmp_path, device="cpu")
    with torch.no_grad():
        judged = job.spec.open().evaluate(again, "valid", torch.device("cpu"))
    assert judged == outcome.figures["valid"]


def test_lora_goes_on_exactly_after_an_interruption(tmp_path):
    job = run(lora=LoRA(rank=2))
    train(job, tmp_path / "whole")

    def stop(step: int, steps: int, figures: Any) -> None:
        if step == 13:
            os.kill(os.getpid(), signal.SIGINT)

    assert train(job, tmp_path / "stopped", Watch(updated=stop)).interrupted
    train(job, tmp_path / "stopped")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))


def test_a_loss_that_is_no_number_ends_the_run_and_leaves_the_last_state_good(tmp_path):
    with pytest.raises(ClearheadError, match="not a number at step 26.*last good state is step 20"):
        train(run(ToySpec(poison=25)), tmp_path)
    assert [int(place.name) for place in (tmp_path / "state").iterdir() if place.name.isdecimal()] == [10, 20]


def test_a_folder_of_another_run_is_not_gone_on_with(tmp_path, caplog):
    train(run(), tmp_path)
    said: list[str] = []
    train(run(seed=3), tmp_path, Watch(said=said.append))
    assert "belongs to another run" in caplog.text
    assert not any("going on" in line for line in said)


def test_interrupted_it_saves_and_goes_on_to_the_same_weights(tmp_path):
    train(run(), tmp_path / "whole")

    def stop_at_17(step: int, steps: int, figures: Any) -> None:
        if step == 17:
            os.kill(os.getpid(), signal.SIGINT)

    first = train(run(), tmp_path / "stopped", Watch(updated=stop_at_17))
    assert first.interrupted and first.steps == 17
    said: list[str] = []
    train(run(), tmp_path / "stopped", Watch(said=said.append))
    assert said == ["going on behind step 17 of 40"]
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))
    assert read_metrics(tmp_path / "whole") == read_metrics(tmp_path / "stopped")


@pytest.mark.parametrize("harm", ["truncated", "damaged", "no record", "half written"])
def test_a_bad_state_is_refused_aloud_and_the_one_before_it_is_used(tmp_path, caplog, harm):
    train(run(), tmp_path / "whole")
    train(run(), tmp_path / "harmed", Watch())
    newest = sorted((tmp_path / "harmed" / "state").glob("0*"))[-1]
    tensors = newest / "tensors.safetensors"
    if harm == "truncated":
        tensors.write_bytes(tensors.read_bytes()[:-100])
    elif harm == "damaged":
        raw = bytearray(tensors.read_bytes())
        raw[-5] ^= 255
        tensors.write_bytes(bytes(raw))
    elif harm == "no record":
        (newest / "state.json").unlink()
    else:
        (newest / "state.json").write_text("{")
    said: list[str] = []
    train(run(), tmp_path / "harmed", Watch(said=said.append))
    assert said == ["going on behind step 30 of 40"]
    assert "the state before it is used" in caplog.text
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "harmed"))


def test_another_number_of_threads_is_said(tmp_path):
    train(run(steps=20), tmp_path)
    record = next((tmp_path / "state" / "00000020").glob("state.json"))
    values = json.loads(record.read_text())
    values["values"]["threads"] += 3
    record.write_text(json.dumps(values))
    said: list[str] = []
    train(run(steps=20), tmp_path, Watch(said=said.append))
    assert any("threads now" in line for line in said)


def test_killed_twenty_times_at_any_moment_it_ends_with_the_same_bits(tmp_path):
    """kill -9 while it computes, validates, and writes; the same command again each time, with dropout and averages."""
    job = run(steps=60, save_every=1, average=Average(decay=0.95))
    train(job, tmp_path / "whole")
    begun = time.perf_counter()
    train(job, tmp_path / "timed")
    whole, chance, kills = time.perf_counter() - begun, random.Random(0), 0
    context = multiprocessing.get_context("fork")
    for _ in range(400):
        child = context.Process(target=train, args=(job, tmp_path / "killed"))
        child.start()
        child.join(chance.uniform(0.02, 0.1) * whole)
        if child.exitcode == 0:
            break
        assert child.exitcode is None, "the run failed by itself"
        child.kill()
        child.join()
        kills += 1
        if kills >= KILLS and chance.random() < 0.2:
            train(job, tmp_path / "killed")
            break
    assert kills >= KILLS
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
    assert read_metrics(tmp_path / "whole") == read_metrics(tmp_path / "killed")


@pytest.mark.parametrize("call", range(6))
def test_killed_inside_the_writing_of_a_state_it_loses_nothing(tmp_path, call):
    job = run(steps=20, validate_every=5)
    train(job, tmp_path / "whole")
    child = multiprocessing.get_context("fork").Process(target=_die_in_rename, args=(job, tmp_path / "killed", call))
    child.start()
    child.join()
    assert child.exitcode == 9
    train(job, tmp_path / "killed")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
    assert read_metrics(tmp_path / "whole") == read_metrics(tmp_path / "killed")


def _die_in_rename(job: Run, folder: Path, call: int) -> None:
    """The process is gone the moment before its n-th renaming: everything up to there was written, nothing is named."""
    count = 0
    rename, replaces = Path.rename, os.replace

    def counted(*arguments: Any, how: Any) -> Any:
        nonlocal count
        count += 1
        if count > call + 2:
            os._exit(9)
        return how(*arguments)

    Path.rename = lambda *arguments: counted(*arguments, how=rename)  # pyright: ignore
    os.replace = lambda *arguments: counted(*arguments, how=replaces)  # pyright: ignore
    train(job, folder)


def test_a_full_disk_is_said_and_the_state_before_is_intact(tmp_path, monkeypatch):
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    def fill(step: int, steps: int, figures: Any) -> None:
        if step == 25:
            monkeypatch.setattr("clearhead.train.saved.write_safetensors", full)

    with pytest.raises(ClearheadError, match="step 30 can't be written: No space left.*one before it is intact"):
        train(run(), tmp_path, Watch(updated=fill))
    monkeypatch.undo()
    train(run(), tmp_path / "whole")
    train(run(), tmp_path)
    assert same(weights(tmp_path / "whole"), weights(tmp_path))


def test_running_out_of_memory_is_told_with_what_to_do(tmp_path, monkeypatch):
    def full(step: int, steps: int, figures: Any) -> None:
        if step == 15:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(
        ClearheadError, match="out of memory at step 15: make the batch smaller.*last good state is step 10"
    ):
        train(run(), tmp_path, Watch(updated=full))


def test_settings_refuse_what_can_not_be(tmp_path):
    for wrong in ({"steps": None}, {"epochs": 2.0}, {"precision": "fp16"}, {"accumulate": 0}, {"schedule": "none"}):
        with pytest.raises(ClearheadError):
            run(**wrong)
    assert replace(run().settings, steps=None, epochs=2.0).updates(10) == 20
