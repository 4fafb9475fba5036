"""`clearhead export`: a model's forward pass as one file that other programs run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ClearheadError
from ..models import Model, create, names
from ..runs import load
from ..runs.export import check_target, export


def command(
    model: Annotated[str, typer.Argument(help="The folder of a trained ViT, BERT or GPT.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="FILE.onnx or FILE.pt2 (torch.export).")],
    int8: Annotated[bool, typer.Option("--int8", help="ONNX with weights of 8 bits, quantised dynamically.")] = False,
    random: Annotated[bool, typer.Option("--random", help="MODEL may be a name: its weights are random.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of random weights and of the input that it is checked with.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: files, inputs, outputs, the difference.")
    ] = False,
) -> None:
    """Write a forward pass as ONNX or as torch.export's .pt2, with free batch and length, and check it on the spot.

    A ViT takes images; a GPT takes ids; a BERT takes ids, the rows' lengths (padding is at the right) and segments.

    Example: `clearhead export path/to/minilm -o minilm.onnx --int8`
    """
    check_target(out, int8)
    built = _model(model, random, seed)
    done = export(built, out, int8=int8, seed=seed)
    about = {
        "model": str(built.origin),
        "random": built.origin.random,
        "int8": int8,
        "files": list(done.files),
        "bytes": done.nbytes,
        "inputs": done.inputs,
        "outputs": list(done.outputs),
        "difference": done.difference,
        "largest": done.largest,
        "checked": [list(shape) for shape in done.checked],
    }
    if as_json:
        print(json.dumps(about))
        return
    takes = ", ".join(f"{name} ({' x '.join(axes)})" for name, axes in done.inputs.items())
    tried = " and ".join(" x ".join(map(str, shape)) for shape in done.checked)
    print(f"{built.origin}: {', '.join(done.files)}, {done.nbytes / 1e6:,.1f} MB{', int8' if int8 else ''}")
    print(f"takes {takes}; gives {', '.join(done.outputs)}")
    print(f"largest difference from the model: {done.difference:.2e} of {done.largest:.3g}, on {tried} at random")


def _model(name: str, random: bool, seed: int) -> Model:
    known = name in names() and not Path(name).exists()
    if known and not random:
        raise ClearheadError(f"{name} is an architecture without trained weights: give a folder, or --random")
    if random and not known:
        raise ClearheadError(f"--random goes with a model's name, and {name} is none (`clearhead models` lists them)")
    return create(name, seed=seed, device="cpu") if known else load(name, device="cpu")
