"""A forward pass as one file that other programs run: ONNX (fp32 or int8) or torch.export's .pt2.

The file is tried before it is there: it must give the model's own numbers for batches and lengths that it was not
traced with. Batch and length are free; a picture's size is not. Padding is at the right: BERT takes the rows' lengths,
GPT needs none, as no token sees what follows it.
"""

import importlib.util
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from torch.export import Dim, ExportedProgram

from ..errors import ClearheadError
from ..models import Model
from ..models.bert import BERT
from ..models.gpt import GPT
from ..models.vit import ViT

SUFFIXES = (".onnx", ".pt2")
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
LARGEST_ONNX = 1_900_000_000  # a protobuf ends at 2 GiB: larger weights go into FILE.onnx.data beside it
TOLERANCE = 1e-4  # relative to the largest number of the answer; int8 has no limit, its difference is only said
TRACED = (2, 12)  # batch and length
SHORTEST_CONTEXT = 4

Runner = Callable[[Sequence[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Exported:
    """What was written and how near it comes: the largest |file - model| beside the largest |model|."""

    files: tuple[str, ...]
    nbytes: int
    inputs: dict[str, list[str]]
    outputs: tuple[str, ...]
    difference: float
    largest: float
    checked: tuple[tuple[int, ...], ...]


def export(model: Model, path: str | os.PathLike[str], *, int8: bool = False, seed: int = 0) -> Exported:
    """Write FILE.onnx or FILE.pt2 and compare it with the model on fresh random input. The suffix says which."""
    place = Path(path)
    check_target(place, int8)
    names = _names(model)
    model = model.to("cpu", torch.float32).eval()
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent))
    except OSError as problem:
        raise ClearheadError(f"{place} could not be written: {problem.strerror}") from None
    try:
        program = _traced(model)
        write = _write_onnx if place.suffix == ".onnx" else _write_pt2
        run = write(program, aside / place.name, names, int8)
        difference, largest, checked = _compared(model, run, seed)
        if not int8 and not difference <= TOLERANCE * max(1.0, largest):
            raise ClearheadError(f"the exported file differs from the model by {difference:.1e}: nothing was written")
        files = sorted(aside.iterdir(), reverse=True)  # the weights beside FILE.onnx before FILE.onnx itself
        nbytes = sum(file.stat().st_size for file in files)
        written = tuple(str(file.replace(place.parent / file.name)) for file in files)
    except OSError as problem:
        raise ClearheadError(f"{place} could not be written: {problem.strerror or problem}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Exported(written[::-1], nbytes, names[0], names[1], difference, largest, checked)


def check_target(place: Path, int8: bool) -> None:
    """Whether FILE can be written at all: asked before a model is loaded for it."""
    if place.suffix not in SUFFIXES:
        raise ClearheadError(f"-o takes a file named *.onnx or *.pt2, not {place}")
    if not place.parent.is_dir() or place.is_dir():
        raise ClearheadError(f"{place} can't be written: {'it is a folder' if place.is_dir() else 'no such folder'}")
    if place.suffix == ".pt2" and int8:
        raise ClearheadError("--int8 goes with *.onnx: a .pt2 file keeps the weights' own type")
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if place.suffix == ".onnx" and missing:
        raise ClearheadError(f"ONNX needs {', '.join(missing)}: pip install 'clearhead[export]'")


def _names(model: Model) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """What the file takes, with its axes, and what it gives."""
    match model:
        case ViT():
            c = model.config
            return {"images": ["batch", str(c.channels), *map(str, c.image)]}, ("logits",)  # pyright: ignore
        case BERT():
            tokens = ["batch", "length"]
            answers = {None: ("hidden", "pooled"), "pretrain": ("logits", "next_sentence")}
            outputs = answers.get(model.config.task, ("logits",))
            return {"ids": tokens, "lengths": ["batch"], "segments": tokens}, outputs
        case GPT():
            return {"ids": ["batch", "length"]}, ("logits",)
    raise ClearheadError(f"a {model.family} model can't be exported, only vit, bert and gpt")


def _inputs(model: Model, batch: int, length: int, random: Generator) -> tuple[Tensor, ...]:
    c = model.config
    if isinstance(model, ViT):
        return model.example(batch, random)
    ids = torch.randint(c.vocab, (batch, length), generator=random)
    if isinstance(model, GPT):
        return (ids,)
    lengths = torch.randint(1, length + 1, (batch,), generator=random)
    return ids, lengths, torch.randint(c.segments, (batch, length), generator=random)


def _free_axes(inputs: dict[str, list[str]]) -> tuple[dict[int, str], ...]:
    """The axes of each input that have a name, and not a size."""
    return tuple({place: name for place, name in enumerate(axes) if name.isalpha()} for axes in inputs.values())


def _traced(model: Model) -> ExportedProgram:
    batch, length = TRACED
    context = getattr(model.config, "context", None)
    if context is not None and context < SHORTEST_CONTEXT:
        raise ClearheadError(f"a context of {context} tokens leaves no length to vary: it can't be exported")
    length = min(length, context or length)
    free = {"batch": Dim("batch", min=1), "length": Dim("length", min=1, max=context)}
    axes = tuple({place: free[name] for place, name in shape.items()} for shape in _free_axes(_names(model)[0]))
    example = _inputs(model, batch, length, Generator().manual_seed(0))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # strict: len() of a tensor stays free; the plain tracer takes the example's batch for the only one
        return torch.export.export(model, example, dynamic_shapes=(axes,), strict=True)


def _write_pt2(program: ExportedProgram, path: Path, names: Any, int8: bool) -> Runner:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)
        again = torch.export.load(path).module()
    return lambda inputs: _as_list(again(*inputs))


def _write_onnx(program: ExportedProgram, path: Path, names: Any, int8: bool) -> Runner:
    import onnxruntime

    inputs, outputs = names
    large = sum(tensor.nbytes for tensor in program.state_dict.values()) > LARGEST_ONNX
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            program,
            f=path,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=_free_axes(inputs),  # names, so that the file's axes bear them
            external_data=large,
            verbose=False,
        )
    if int8:
        _quantise(path, large)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # its warnings are about its own graph, which nobody here can mend
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(given: Sequence[Tensor]) -> list[Tensor]:
        fed = {name: value.numpy() for name, value in zip(inputs, given, strict=True)}
        return [torch.from_numpy(array) for array in session.run(list(outputs), fed)]

    return run


def _quantise(path: Path, large: bool) -> None:
    """Weights to int8 where they stand, numbers that flow quantised as they come (dynamic)."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(path)
    graph.graph.ClearField("value_info")  # the shapes noted there are those before quantisation
    for file in path.parent.iterdir():
        file.unlink()
    with _root_logger_kept():
        quantize_dynamic(graph, path, weight_type=QuantType.QInt8, per_channel=True, use_external_data_format=large)


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """The quantiser talks through the root logger, which gives it a handler for good unless it has one."""
    quiet = logging.NullHandler()
    logging.getLogger().addHandler(quiet)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(quiet)


def _compared(model: Model, run: Runner, seed: int) -> tuple[float, float, tuple[tuple[int, ...], ...]]:
    """The largest difference, the largest number, and the shapes of the first input that were tried."""
    random, (batch, length) = Generator().manual_seed(seed), TRACED
    context = getattr(model.config, "context", length + 7)
    tries = [(1, max(1, min(length, context) - 5)), (batch + 1, min(context, length + 7))]
    difference = largest = 0.0
    shapes = []
    for rows, count in tries:
        given = _inputs(model, rows, count, random)
        with torch.no_grad():
            ours = _as_list(model(*given))
        for mine, theirs in zip(ours, run(given), strict=True):
            difference = max(difference, _finite((mine - theirs).abs().max().item()))
            largest = max(largest, mine.abs().max().item())
        shapes.append(tuple(given[0].shape))
    return difference, largest, tuple(shapes)


def _finite(value: float) -> float:
    return value if value == value else float("inf")  # NaN would be lost in a max


def _as_list(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)
