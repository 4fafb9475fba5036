"""Loading a folder of 440 MB: time and peak memory, beside transformers on the same files.

    python -m benchmarks.loading [--rounds N] [--json]

A `bert-base` with random weights is written once; then each contestant loads it in a fresh process, in turns. The
clock starts when its library is imported and stops when every weight was read once (their sum is taken, so that a
mapped file counts too). `peak` is by how much resident memory rose, `file` the size of the weights file. The file is
in the system's cache for both.

Then CIFAR-10, from its files to the first augmented batch, in fresh processes that start, import and open the set as a
training run does: it should take less than 5 s. It needs the set itself (`CLEARHEAD_DATA`), and says so without it.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

import clearhead
from clearhead.train.pictures import PictureSpec
from clearhead.train.task import Batching

from . import peers, table
from .rounds import median_ratio

THREADS = 2
CIFAR_LIMIT = 5.0  # seconds


def ours(folder: str) -> torch.nn.Module:
    return clearhead.load(folder, device="cpu")


def theirs(folder: str) -> torch.nn.Module:
    peers.declare_vision_operators()
    from transformers import BertModel  # pyright: ignore[reportMissingImports]

    return BertModel.from_pretrained(folder)


LOADERS: dict[str, Callable[[str], torch.nn.Module]] = {"clearhead": ours, "transformers": theirs}


def measured(name: str, folder: str) -> tuple[float, float, float]:
    """Seconds and MiB of one load in this process, and the sum of the weights."""
    torch.set_num_threads(THREADS)
    if name == "transformers":
        peers.declare_vision_operators()
        import transformers  # pyright: ignore[reportMissingImports] # noqa: F401 (not part of the load)
        from transformers import BertModel  # pyright: ignore[reportMissingImports] # noqa: F401
    before, begun = resident("VmRSS"), time.perf_counter()
    model = LOADERS[name](folder)
    total = sum(float(weight.detach().double().sum()) for weight in model.parameters())
    return time.perf_counter() - begun, resident("VmHWM") - before, total


def resident(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def first_batch() -> tuple[int, ...]:
    """The shape of the first batch that a run on CIFAR-10 would learn from."""
    torch.set_num_threads(THREADS)
    augmentation = {"crop": 4, "flip": 0.5, "ops": "trivial"}
    task = PictureSpec(model="vit-c10", data="cifar10", augmentation=augmentation).open()
    return tuple(task.batch(0, Batching(size=128), 0, 1, torch.device("cpu")).pixels.shape)


def cifar_seconds(rounds: int) -> list[float] | None:
    """Seconds of whole processes, the first left out; None where the set is not there."""
    seconds = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            try:
                shape = process.submit(first_batch).result()
            except clearhead.ClearheadError as problem:
                print(f"CIFAR-10 was NOT MEASURED: {problem}", file=sys.stderr)
                return None
        seconds.append(time.perf_counter() - begun)
        assert shape == (128, 3, 32, 32)
    return seconds[1:]


def cifar_verdict(seconds: list[float]) -> str:
    middle = statistics.median(seconds)
    spoken = "under" if middle < CIFAR_LIMIT else "NOT UNDER"
    return f"CIFAR-10 to the first augmented batch: {middle:.2f} s, {spoken} {CIFAR_LIMIT:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clearhead.save(clearhead.create("bert-base", device="cpu", seed=0), folder)
        size = (Path(folder) / "model.safetensors").stat().st_size / 2**20
        results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in LOADERS}
        for turn in range(options.rounds + 1):
            for name in LOADERS:
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                    result = process.submit(measured, name, folder).result()
                if turn:  # the first round fills the system's cache
                    results[name].append(result)
    check_same(results)
    seconds = {name: [result[0] for result in rows] for name, rows in results.items()}
    peaks = {name: statistics.median(result[1] for result in rows) for name, rows in results.items()}
    speed = median_ratio(seconds["transformers"], seconds["clearhead"])
    cifar = cifar_seconds(options.rounds)
    if options.json:
        figures = {"seconds": seconds, "peak_mib": peaks, "file_mib": size, "speed": str(speed), "cifar10": cifar}
        print(json.dumps(figures))
        return
    lines = [[name, f"{statistics.median(seconds[name]):.3f}", f"{peaks[name]:.0f}"] for name in LOADERS]
    print(table([f"loading bert-base, file {size:.0f} MiB", "s", "peak MiB"], lines))
    print(f"transformers takes {speed} times as long")
    if cifar is not None:
        print(cifar_verdict(cifar))


def check_same(results: dict[str, list[tuple[float, float, float]]]) -> None:
    sums = {round(row[2], 3) for rows in results.values() for row in rows}
    if len(sums) > 1:
        raise SystemExit(f"the contestants didn't load the same weights: {sums}")


if __name__ == "__main__":
    main()
