"""`clearhead train`: a recipe, or a model on data of one's own; `finetune`: a checkpoint; `eval`: a run."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..errors import ClearheadError

Words = Annotated[list[str] | None, typer.Argument(help="Data (for a model), and key=value changes, in any order.")]
Out = Annotated[Path | None, typer.Option("-o", "--out", help="The run's folder; runs/NAME unless given.")]
DataFolder = Annotated[str | None, typer.Option("--data", help="Where named sets lie; CLEARHEAD_DATA unless given.")]
Json = Annotated[bool, typer.Option("--json", help="End with one line of JSON: the final figures.")]
MOST_COLUMNS = 6  # figures that stand side by side in a terminal


def train(
    what: Annotated[str | None, typer.Argument(help="A recipe, or a model's name.")] = None,
    words: Words = None,
    out: Out = None,
    folder: DataFolder = None,
    quick: Annotated[bool, typer.Option("--quick", help="A recipe's short version, for two cores.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Show every recipe with its cost and result.")] = False,
    as_json: Json = False,
) -> None:
    """Train a recipe, or a model on your own data: a folder of pictures by class, a CSV, TSV or JSONL, a text, or two
    parallel texts. The same command again goes on with a run that was interrupted.

    Example: `clearhead train vit-digits`, `clearhead train vit-ti16 photos epochs=20`
    """
    from ..recipes.start import named_run

    if listed:
        _list(as_json)
        return
    if what is None:
        raise ClearheadError("name a recipe or a model; `clearhead train --list` shows the recipes")
    data, keys = _sorted_words(words or [])
    _run(named_run(what, data, keys, folder, quick), out, as_json)


def finetune(
    checkpoint: Annotated[str, typer.Argument(help="The folder of a trained model, or hf:owner/name.")],
    words: Words = None,
    out: Out = None,
    folder: DataFolder = None,
    as_json: Json = False,
) -> None:
    """Go on training a checkpoint on your own data, with the head that the data needs.

    Example: `clearhead finetune path/to/minilm reviews.csv epochs=3 -o runs/reviews`
    """
    from ..recipes.own import own_run
    from ..recipes.start import changed, where
    from ..runs.places import located

    data, keys = _sorted_words(words or [])
    if not located(checkpoint).is_dir():
        raise ClearheadError(f"there is no folder {checkpoint}: a checkpoint is the folder of a trained model")
    run = own_run(checkpoint, data, folder)
    _run(changed(run, [*where(run, folder), *keys]), out, as_json)


def evaluate(
    place: Annotated[Path, typer.Argument(help="The folder of a run.")],
    words: Annotated[list[str] | None, typer.Argument(help="Parts to judge, all unless given.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a run's weights again on the parts of its data.

    Example: `clearhead eval runs/vit-digits test`
    """
    from ..models.registry import as_device
    from ..runs import load
    from ..train.records import read_run

    run = read_run(place)
    task = run.spec.open()
    wanted = words or list(task.parts)
    for part in wanted:
        if part not in task.parts:
            raise ClearheadError(f"the run's data has no part '{part}': it has {', '.join(task.parts)}")
    device = as_device(run.settings.device)
    model = load(place, device=device)
    with _bar() as (progress, _), torch.no_grad():
        figures = {part: task.evaluate(model, part, device, progress) for part in wanted}
    _print_figures(figures)
    if as_json:
        print(json.dumps({"run": str(place), **_flat(figures)}))


def _sorted_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Data and key=value, told apart by the equals sign; a file whose name holds one is a file."""
    keys = [word for word in words if "=" in word and not Path(word).exists()]
    return [word for word in words if word not in keys], keys


def _run(run: Any, out: Path | None, as_json: bool) -> None:
    """Train and report, a first stage before."""
    from ..recipes.start import stages

    place = out or Path("runs") / run.name
    for stage, at, task in stages(run, place):
        _run_stage(stage, at, task, as_json and at == place)


def _run_stage(run: Any, place: Path, task: Any, as_json: bool) -> None:
    """Of several processes the first one alone writes and speaks."""
    from ..train.loop import Watch, train

    first, console = os.environ.get("RANK", "0") == "0", Console(stderr=True)
    if first:
        for note in task.notes:
            console.print(note, style="dim", highlight=False, markup=False)
    begun = time.perf_counter()
    with _bar(_meter(run, task) if first and console.is_terminal else None) as (evaluating, updated):
        watch = Watch(said=console.print, updated=updated, validated=_say_validated(console), evaluating=evaluating)
        outcome = train(run, place, watch, task)
    if outcome.interrupted:
        if first:
            console.print(f"interrupted behind step {outcome.steps}: the same command goes on from there")
        raise KeyboardInterrupt
    if first:
        _report(place, task, outcome, as_json, time.perf_counter() - begun, console)


def _report(place: Path, task: Any, outcome: Any, as_json: bool, seconds: float, console: Console) -> None:
    from ..report import show_samples
    from ..report.of_run import report_run
    from ..runs import load

    page, samples = report_run(place, task, load(place))
    if console.is_terminal:
        show_samples(samples, console)
    _print_figures(outcome.figures)
    spent = f"{outcome.seconds:.0f} s of training"
    if outcome.preparing is not None:
        spent += f", {outcome.preparing:.0f} s of them compiling and recording"
    console.print(f"{place}: {outcome.steps} steps, {spent}; {page.name}", highlight=False)
    if as_json:
        final = {"run": str(place), "seconds": round(seconds, 1), "steps": outcome.steps, "report": str(page)}
        if outcome.preparing is not None:
            final["preparing_seconds"] = round(outcome.preparing, 1)
        print(json.dumps(final | _flat(outcome.figures)))


def _say_validated(console: Console) -> Any:
    def say(step: int, figures: Mapping[str, float]) -> None:
        spoken = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        console.print(f"step {step}: {spoken}", highlight=False)

    return say


def _meter(run: Any, task: Any) -> Any:
    """What an update costs on this device, for the bar."""
    from ..models.registry import as_device
    from ..train.speed import Meter, batch_operations, peak

    device = as_device(run.settings.device)
    batch = task.batch(0, run.settings.batching, 0, 1, torch.device("cpu"))
    return Meter(batch_operations(task, batch) * run.settings.accumulate, peak(device, run.settings.precision))


@contextmanager
def _bar(meter: Any = None) -> Iterator[tuple[Any, Any]]:
    """A bar with loss, rate, MFU and time left on stderr, where somebody can see it, and the two who move it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def evaluating(done: int, of: int) -> None:
            progress.update(task, description=f"evaluating {done:,} of {of:,}")

        def updated(step: int, steps: int, figures: Mapping[str, float]) -> None:
            spoken = f"step {step:,} of {steps:,}, loss {figures['loss']:.4f}, rate {figures['rate']:.2g}"
            share = None if meter is None else meter.share(step, time.perf_counter())
            spoken += "" if share is None else f", MFU {share:.0%}"
            progress.update(task, total=steps, completed=step, description=spoken)

        yield evaluating, updated


def _print_figures(figures: Mapping[str, Mapping[str, float]]) -> None:
    """A row for each part; where there are many figures, a row for each of these."""
    names = list(dict.fromkeys(name for part in figures.values() for name in part))
    cells = {(part, name): f"{value:.4f}" for part, values in figures.items() for name, value in values.items()}
    lying = len(names) > MOST_COLUMNS
    table = Table(box=None, pad_edge=False)
    table.add_column("figure" if lying else "part")
    for title in figures if lying else names:
        table.add_column(title, justify="right")
    for name in names if lying else ():
        table.add_row(name, *(cells.get((part, name), "") for part in figures))
    for part in () if lying else figures:
        table.add_row(part, *(cells.get((part, name), "") for name in names))
    Console(stderr=True).print(table)


def _flat(figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {f"{part}_{name}": value for part, values in figures.items() for name, value in values.items()}


def _list(as_json: bool) -> None:
    from ..recipes import RECIPES

    if as_json:
        print(
            json.dumps(
                [{"name": r.name, "title": r.title, "costs": r.costs, "gives": r.gives} for r in RECIPES.values()]
            )
        )
        return
    table = Table(box=None, pad_edge=False)
    for name in ("recipe", "what it is", "costs", "gives"):
        table.add_column(name)
    for recipe in RECIPES.values():
        table.add_row(recipe.name, recipe.title, recipe.costs, recipe.gives)
    Console().print(table)
