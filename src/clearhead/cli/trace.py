"""`clearhead trace`: one pass, every step as a small matrix with the numbers that were really computed."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..errors import ClearheadError
from ..models import Model, create, names
from ..runs import load
from ..tasks import record, row_tokens
from ..trace import Trace
from .matrix import as_json_values, drawn, meaning_of

FULL = 10_000  # a site of more numbers than this is summed up in --json: -o keeps it whole


def command(
    model: Annotated[
        str, typer.Argument(help="A model's name (random weights), a run folder or a Hugging Face folder.")
    ],
    text: Annotated[
        str | None, typer.Option(help="The text to run, or the source of a pair; the decks' sentence unless given.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The target that an encoder-decoder is given beside --text.")
    ] = None,
    second: Annotated[str | None, typer.Option(help="A second sentence beside --text, for a BERT.")] = None,
    image: Annotated[
        Path | None, typer.Option(help="The picture to run, for a ViT; a sample photograph unless given.")
    ] = None,
    site: Annotated[
        list[str] | None, typer.Option(help="Glob of sites to show, such as '*.attention.weights'. May be repeated.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: model, input, sites with shapes and values.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Keep the whole trace in this file (safetensors).")
    ] = None,
    arch: Annotated[str | None, typer.Option(help="The architecture of a weights file without config.json.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random weights, when MODEL is a name.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    max_gb: Annotated[float, typer.Option(help="Keep at most this much; what is left out is named.")] = 2.0,
) -> None:
    """Run a model once and print every step of the pass, with real numbers and their shapes.

    Example: `clearhead trace deck --text "This is Computer Vision Class" --site '*.attention.*'`
    """
    if not max_gb > 0:
        raise ClearheadError(f"--max-gb must be above 0, not {max_gb}")
    built = _model(model, arch, seed, device)
    given = _input(built, {"--text": text, "--target": target, "--second": second, "--image": image})
    trace = record(built, given, sites=site or "*", max_bytes=int(max_gb * 1e9))
    if out is not None:
        trace.save(out)
    if as_json:
        print(json.dumps(_as_json(trace), ensure_ascii=False))
    else:
        _print(built, trace, out)


def _model(name: str, arch: str | None, seed: int, device: str) -> Model:
    if device == "meta":
        raise ClearheadError("the meta device computes nothing: use auto or cpu")
    if name in names() and not Path(name).exists():
        return create(name, seed=seed, device=device)
    return load(name, arch=arch, device=device)


OPTIONS = {"text": "--text", "source": "--text", "target": "--target", "image": "--image"}


def _input(model: Model, given: dict[str, Any]) -> Any:
    """The options that the model takes, all or none of them, and a BERT's second sentence; another one is an error."""
    wanted = [OPTIONS[part] for part in model.takes]
    second = ["--second"] if model.family == "bert" and given["--second"] is not None else []
    values = tuple(given[option] for option in (*wanted, *second))
    for option, value in given.items():
        if value is not None and option not in (*wanted, *second):
            raise ClearheadError(f"a {model.family} model takes {' and '.join(wanted)}, not {option}")
    if values.count(None) == len(values):
        return None
    if None in values:
        both = " and ".join((*wanted, *second))
        raise ClearheadError(f"a {model.family} model takes {both} together: give both")
    return values[0] if len(values) == 1 else values


def _print(model: Model, trace: Trace, out: Path | None) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{model.origin}[/bold], {model.parameter_count:,} parameters, {trace.about['path']} path")
    for key in ("text", "second", "source", "target", "image", "note"):
        if key in trace.about:
            console.print(f"{key}: {escape(str(trace.about[key]))}")
    for name, value in trace.items():
        shape = " x ".join(map(str, value.shape))
        console.print(f"\n[bold cyan]{name}[/bold cyan]  {shape}  [dim]{meaning_of(model, name)}[/dim]")
        for line in drawn(value, row_tokens(trace.about, name), console.width - 2):
            console.print("  " + line, markup=False)
    for name, shape in trace.left_out.items():
        console.print(f"left out: {name}, shape {shape} (--max-gb)")
    if out is not None:
        console.print(f"\nthe whole trace is in {out}")


def _as_json(trace: Trace) -> dict[str, Any]:
    sites = [
        {"site": name, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        | ({"values": as_json_values(value)} if value.numel() <= FULL else {"summed_up": _summary(value)})
        for name, value in trace.items()
    ]
    return {**trace.about, "sites": sites, "left_out": {name: list(shape) for name, shape in trace.left_out.items()}}


def _summary(value: Any) -> dict[str, float]:
    finite = value.float()[value.float().isfinite()]
    return {"min": finite.min().item(), "mean": finite.mean().item(), "max": finite.max().item()}
