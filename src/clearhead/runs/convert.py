"""One folder or file of weights into a folder of another form, without a number changed on the way.

Tensors keep the file's own types. They are views of the source where its format allows it, and are written one at a
time. The folder is made aside and renamed: at DST there is the old folder, the whole new one, or none.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..convert import described, hugging_face_format, open_weights, read_json, read_state, write_safetensors
from ..convert.fields import IGNORED
from ..convert.formats import FORMAT_VERSION, OWN
from ..convert.rules import Dialect
from ..data import read_preprocessor
from ..errors import ClearheadError, near
from ..models import Model, names
from ..models.vit import ViTConfig
from .adapt import adapted
from .bare_file import named
from .folder import config_of
from .labels import class_count, read_labels
from .places import located
from .skeleton import skeleton

FORMS = ("hf", "clearhead")

# Files that go along as they are: what turns words and pictures into numbers, and how an answer is decoded.
COMPANIONS = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "vocab.txt", "encoder.json", "vocab.bpe"),
    *("spiece.model", "sentencepiece.bpe.model", "source.spm", "target.spm", "target_vocab.json"),
    *(f"target/{name}" for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")),
    *("generation_config.json", "chat_template.jinja", "preprocessor_config.json", "processor_config.json"),
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json"),
)
# What a config.json says beside the architecture is kept (labels, token numbers), but for who wrote it and where.
CARRIED = (
    IGNORED - {"architectures", "model_type", "clearhead", "_name_or_path", "name_or_path"} - {"transformers_version"}
)

Progress = Callable[[int, int], None]  # bytes written, bytes in all


@dataclass(frozen=True)
class Converted:
    """What was written: `form` is the config's model_type, `notes` what there is to say about it."""

    folder: Path
    family: str
    form: str
    parameters: int
    tensors: int
    nbytes: int
    dtypes: tuple[str, ...]
    copied: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """A model without memory, its weights by our names, and what stood beside them."""

    model: Model
    state: dict[str, Tensor]
    notes: tuple[str, ...]
    folder: Path | None
    values: dict[str, Any]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str = "hf",
    arch: str | None = None,
    force: bool = False,
    progress: Progress = lambda done, total: None,
) -> Converted:
    """Write what `load` reads at `source` as a folder in Hugging Face's form ("hf") or in our own names ("clearhead").

    arch   what a bare weights file is (timm's, Google's ViT .npz, ours)
    force  an old folder of a model at `target` is replaced, when the new one is whole
    """
    if to not in FORMS:
        raise ClearheadError(f"there is no form '{to}' to convert to: use {' or '.join(FORMS)}")
    place = _existing(source)
    final = Path(target).resolve()
    _check_target(final, place.resolve(), force)
    read = _read(place, arch)
    values, dialect = _form(read.model, to)
    values |= {name: value for name, value in read.values.items() if name in CARRIED}
    classes, wrong = read_labels(read.values, class_count(read.model.config))
    values |= classes.to_config() if classes else {}
    tensors = _Reported(_written(read.state, dialect), progress)
    aside = final.with_name(f".{final.name}.{secrets.token_hex(4)}.part")
    try:
        aside.mkdir(parents=True)
        write_safetensors(aside / "model.safetensors", tensors, {"format": "pt"})
        (aside / "config.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        copied = _copy_companions(read, aside)
        _put_in_place(aside, final)
    except OSError as problem:
        raise ClearheadError(f"{final} could not be written: {problem.strerror or problem}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Converted(
        folder=final,
        family=read.model.family,
        form=values["model_type"],
        parameters=read.model.parameter_count,
        tensors=len(tensors),
        nbytes=tensors.nbytes,
        dtypes=tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors.tensors.values()})),
        copied=copied,
        notes=(*read.notes, *wrong),
    )


def _existing(source: str | os.PathLike[str]) -> Path:
    place = located(source)
    if not os.path.exists(place):
        known = " (that is a model's name, without weights)" if str(source) in names() else ""
        raise ClearheadError(f"there is no folder or file '{source}'{known or near(str(source), names())}")
    return place


def _check_target(final: Path, source: Path, force: bool) -> None:
    """What stands at the target stays unless it is a model's folder, another one than the source, and `force`."""
    if source.is_relative_to(final):
        raise ClearheadError(f"{final} holds what is to be converted: give another folder")
    if not final.exists():
        return
    if not force:
        raise ClearheadError(f"{final} exists: give another folder, or --force to replace it")
    if not final.is_dir() or (any(final.iterdir()) and not (final / "config.json").is_file()):
        raise ClearheadError(f"{final} is not a model's folder (it has no config.json), so --force does not replace it")


def _read(place: Path, arch: str | None) -> _Source:
    weights = open_weights(place)
    folder = place if place.is_dir() else place.parent if arch is None else None
    family, config, dialect = config_of(place, weights) if arch is None else named(arch, weights, {})
    model = skeleton(family, config)
    state, notes = read_state(weights, dialect, model)
    if isinstance(config, ViTConfig) and "output.weight" not in state:
        raise ClearheadError(f"{place} has no classification head, which a ViT's folder holds: load it with a new one")
    state, more = adapted(state, config, model, {})
    values = read_json(folder / "config.json") if folder is not None and (folder / "config.json").exists() else {}
    return _Source(model, state, (*notes, *more), folder, values)


def _form(model: Model, to: str) -> tuple[dict[str, Any], Dialect]:
    """config.json and the tensors' names in the form asked for."""
    if to == "clearhead":
        own = OWN[model.family]
        about = {"format_version": FORMAT_VERSION, "config": model.config.to_dict()}
        return {"model_type": own.type, "clearhead": about}, own.dialect(model.config)
    theirs, field = hugging_face_format(model)
    if theirs is None:
        value = getattr(model.config, field) if field else None
        raise ClearheadError(
            f"Hugging Face's form of a {model.family} can't say {field} = {value!r}: use --to clearhead"
        )
    return described(model)


def _written(state: Mapping[str, Tensor], dialect: Dialect) -> dict[str, Tensor]:
    """Their tensors as views of ours."""
    pairs = ((rule, rule.write(state[rule.ours])) for rule in dialect.rules)
    return {name: part for rule, parts in pairs for name, part in zip(rule.theirs, parts, strict=True)}


class _Reported(Mapping[str, Tensor]):
    """Tensors that say how many bytes were asked for. A description of all of them (`items`) asks for none."""

    def __init__(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        self.tensors, self.progress, self.done = tensors, progress, 0
        self.nbytes = sum(tensor.nbytes for tensor in tensors.values())

    def __getitem__(self, name: str) -> Tensor:
        self.progress(self.done, self.nbytes)
        self.done += self.tensors[name].nbytes
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def items(self) -> Any:
        return self.tensors.items()

    def __contains__(self, name: object) -> bool:
        return name in self.tensors


def _copy_companions(read: _Source, aside: Path) -> tuple[str, ...]:
    """Byte for byte. timm keeps its preprocessing in config.json: it is written as a file of its own."""
    if read.folder is None:
        return ()
    found = tuple(name for name in COMPANIONS if (read.folder / name).is_file())
    for name in found:
        (aside / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(read.folder / name, aside / name)
    if "pretrained_cfg" in read.values and "preprocessor_config.json" not in found:
        made = read_preprocessor(read.folder)
        same_size = made.shape == read.model.config.image
        (made if same_size else replace(made, resize=read.model.config.image, crop=None)).save(aside)
    return found


def _put_in_place(aside: Path, final: Path) -> None:
    """Two renames where an old folder stands there; if the second fails, the first is taken back."""
    if not final.exists():
        aside.rename(final)
        return
    old = aside.with_suffix(".old")
    final.rename(old)
    try:
        aside.rename(final)
    except OSError:
        old.rename(final)
        raise
    shutil.rmtree(old, ignore_errors=True)
