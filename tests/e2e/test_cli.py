"""The command line as a person uses it: what it prints, what it keeps, and how it fails."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.cli import main
from clearhead.data import word_tokenizer
from clearhead.models import FAMILIES, list_models
from tests.unit.runs import official
from tests.unit.runs.official import GPT2_CONFIG, drawn, write_folder

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "This is Computer Vision Class"
LOVE = "I love artificial intelligence"
# What a machine may lack that has torch, numpy, safetensors, tokenizers, typer and rich alone.
ABSENT = ("PIL", "yaml", "sklearn", "scipy", "babel", "transformers", "timm", "torchvision", "keras", "huggingface_hub")


@dataclass
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.fixture
def cli(monkeypatch, capsys) -> Callable[..., Result]:
    """Run a command in this process, which spares it the import of torch."""

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["clearhead", *arguments])
        monkeypatch.setenv("COLUMNS", "100")
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run


MODULE = [sys.executable, "-m", "clearhead.cli"]


def started(*arguments: str, command: Sequence[str | Path] = MODULE) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, from the source folder alone."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
    return subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def deck_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "deck"
    return clearhead.save(clearhead.create("deck", seed=3), folder, tokenizer=clearhead.tokenizer("deck"))


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory) -> Path:
    sizes = {"width": 16, "layers": 1, "heads": 2, "ff": 32, "context": 16}
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "a", "dog")
    model = clearhead.create("bert-base", vocab=len(words), task="fill", seed=0, device="cpu", **sizes)
    folder = clearhead.save(model, tmp_path_factory.mktemp("runs") / "bert")
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def picture(tmp_path_factory) -> Path:
    image = pytest.importorskip("PIL.Image", reason="writes a picture with Pillow, which is not installed")
    path = tmp_path_factory.mktemp("pictures") / "red.png"
    image.fromarray(np.full((30, 40, 3), (200, 10, 10), np.uint8)).save(path)
    return path


# What it prints


def processor_seconds(*arguments: str, **command: Sequence[str]) -> tuple[float, str]:
    """What a command costs, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = started(*arguments, **command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def test_a_command_starts_runs_and_ends_for_less_than_three_times_what_importing_torch_costs():
    """Seconds depend on the machine and on what else runs there; this is 1.6 times where nothing does."""
    torch_alone, _ = processor_seconds("-c", "import torch", command=[sys.executable])
    seconds, printed = processor_seconds("trace", "deck")
    assert SENTENCE in printed and seconds < 3 * torch_alone


def test_models_lists_every_name_with_its_count_and_the_papers_figure(cli):
    printed = cli("models").out
    for entry in list_models():
        [line] = [line for line in printed.splitlines() if f" {entry.name} " in line]
        assert f"{entry.params:,}" in line
        assert entry.paper is None or entry.paper in line


def test_models_as_json_is_a_list_of_objects(cli):
    entries = {entry["name"]: entry for entry in cli("models", "--json").json()}
    assert len(entries) == sum(len(family.sizes) for family in FAMILIES.values())
    assert entries["gpt2"] == {"name": "gpt2", "family": "gpt", "params": 124_439_808, "paper": "117M"}
    assert entries["vit-ti16"] == {"name": "vit-ti16", "family": "vit", "params": 5_717_416}


def test_the_published_tables_are_printed_and_valid_json(cli):
    assert "88.55" in cli("models", "--published").out
    tables = cli("models", "--published", "--json").json()
    assert all(table["title"] and table["source"] and table["rows"] for table in tables)


def test_trace_prints_every_site_with_its_shape_and_says_that_weights_are_random(cli):
    result = cli("trace", "deck")
    recorded = clearhead.record(clearhead.create("deck", seed=0), SENTENCE)
    first, *lines = result.out.splitlines()
    assert first == "deck (random weights, seed 0), 1,286 parameters, reference path"
    assert lines[0] == f"text: {SENTENCE}"
    shown = [line.split("  ")[:2] for line in lines if line.split("  ")[0] in recorded]
    assert shown == [[site, " x ".join(map(str, value.shape))] for site, value in recorded.items()]


def test_trace_prints_the_numbers_that_were_computed_in_rows_named_by_tokens(cli):
    lines = cli("trace", "deck", "--text", LOVE, "--site", "*.attention.weights").out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("decoder.blocks.0.attention.weights"))
    weights = clearhead.record(clearhead.create("deck", seed=0), LOVE)["decoder.blocks.0.attention.weights"][0, 0]
    rows = [line.split() for line in lines[start + 1 : start + 5]]
    assert [row[0] for row in rows] == LOVE.split()
    assert [[float(cell) for cell in row[1:]] for row in rows] == [
        [float(f"{value:.3g}") for value in row] for row in weights.tolist()
    ]


def test_trace_as_json_holds_every_number_and_no_infinity(cli):
    shown = cli("trace", "deck", "--json", "--seed", "5").json()
    trace = clearhead.record(clearhead.create("deck", seed=5), SENTENCE)
    assert (shown["model"], shown["random"], shown["seed"]) == ("deck", True, 5)
    assert shown["tokens"] == SENTENCE.split()
    sites = {entry["site"]: entry for entry in shown["sites"]}
    assert list(sites) == list(trace)
    for name, value in trace.items():
        values = torch.tensor(np.array(sites[name]["values"]).astype(np.float64))
        assert torch.equal(values, value.double()), name
    assert sites["decoder.blocks.0.attention.masked"]["values"][0][0][0][1] == "-inf"


def test_trace_as_json_sums_up_what_is_large_and_stays_valid(cli, picture: Path):
    shown = cli("trace", "vit-c10", "--image", str(picture), "--json", "--site", "*.0.*").json()
    large = [entry for entry in shown["sites"] if "summed_up" in entry]
    assert large and all(entry["summed_up"].keys() == {"min", "mean", "max"} for entry in large)


def test_trace_takes_a_folder_and_a_text(cli, deck_folder: Path):
    result = cli("trace", str(deck_folder), "--text", LOVE, "--site", "logits", "--json").json()
    logits = clearhead.record(clearhead.load(deck_folder), LOVE)["logits"]
    assert torch.equal(torch.tensor(result["sites"][0]["values"]), logits)
    assert result["folder"] == str(deck_folder)
    assert "random" not in result
    assert cli("trace", str(deck_folder), "--text", LOVE).out.startswith(f"{deck_folder}, 1,286 parameters")


def test_trace_takes_a_second_sentence_for_a_bert(cli, bert_folder: Path):
    asked = ("--text", "the cat sat", "--second", "a dog", "--site", "input.*")
    result = cli("trace", str(bert_folder), *asked, "--json").json()
    assert (result["text"], result["second"]) == ("the cat sat", "a dog")
    assert result["tokens"] == ["[CLS]", "the", "cat", "sat", "[SEP]", "a", "dog", "[SEP]"]
    sites = {one["site"]: one["values"] for one in result["sites"]}
    table = clearhead.load(bert_folder, device="cpu").get_parameter("input.segments.weight")
    assert np.allclose(sites["input.segments"][0], table[[0] * 5 + [1] * 3].detach().numpy())
    assert "second: a dog" in cli("trace", str(bert_folder), *asked).out


def test_trace_takes_a_picture(cli, picture: Path):
    result = cli(
        "trace", "vit-c10", "--image", str(picture), "--site", "input.image", "--site", "logits", "--json"
    ).json()
    assert [entry["site"] for entry in result["sites"]] == ["input.image", "logits"]
    assert result["image"] == str(picture)
    red = result["sites"][0]["values"][0][0]
    assert red[0][0] == pytest.approx(200 / 255 * 2 - 1, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "site", "meaning"),
    [
        ("vit-c10", "input.projected", "each patch times the projection"),
        ("cct-7-3x1", "input.projected", "the largest of 3 x 3 at every second pixel"),
        ("cct-7-3x1", "pooling.weights", "softmax over the rows: how much of each goes into the mean"),
        ("cct-7-3x1", "encoder.blocks.0.after_feed_forward", "the normed rows plus what the feed-forward layer added"),
    ],
)
def test_trace_says_what_a_site_is_in_this_very_model(cli, picture: Path, model: str, site: str, meaning: str):
    assert meaning in cli("trace", model, "--image", str(picture), "--site", site).out


def test_trace_says_what_a_part_is_that_only_another_catalogue_has(cli, picture: Path, tmp_path: Path):
    sizes = {"width": 16, "layers": 1, "heads": 2, "image": 32, "patch": 8, "pooling": "sequence"}
    clearhead.save(clearhead.create("vit-ti16", device="cpu", seed=0, **sizes), tmp_path)
    said = cli("trace", str(tmp_path), "--image", str(picture)).out
    assert "each patch times the projection" in said and "a learned score for every row" in said


def test_trace_keeps_the_whole_trace_in_a_file(cli, tmp_path: Path):
    kept = tmp_path / "trace.safetensors"
    assert f"the whole trace is in {kept}" in cli("trace", "deck", "-o", str(kept)).out.replace("\n", "")
    trace, again = clearhead.record(clearhead.create("deck", seed=0), SENTENCE), clearhead.Trace.load(kept)
    assert list(again) == list(trace)
    assert all(torch.equal(again[site], value) for site, value in trace.items())
    assert again.about == trace.about


def test_sites_are_chosen_by_globs_of_which_there_may_be_several(cli):
    result = cli("trace", "deck", "--site", "*.attention.q*", "--site", "logits", "--json").json()
    assert [entry["site"] for entry in result["sites"]] == ["decoder.blocks.0.attention.query", "logits"]


def test_what_does_not_fit_is_left_out_and_named(cli):
    result = cli("trace", "deck", "--max-gb", "0.000001")
    assert "left out: logits, shape (1, 5, 30) (--max-gb)" in result.out


@pytest.mark.parametrize("command", ["models", "trace"])
def test_help_shows_an_example(cli, command: str):
    result = cli(command, "--help")
    assert result.code == 0
    assert "Example: clearhead" in " ".join(result.out.split())


# How it fails


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decc"], "there is no folder, file or model 'decc'; did you mean 'deck'?"),
        (["nowhere/model"], "there is no folder, file or model 'nowhere/model'"),
        (["deck", "--site", "*.attention.weight"], "no site matches '*.attention.weight'; did you mean"),
        (["deck", "--site", "["], "no site matches '['"),
        (["vit-c10", "--text", "hello"], "a vit model takes --image, not --text"),
        (["deck", "--image", "a.png"], "a gpt model takes --text, not --image"),
        (["deck", "--text", "is", "--second", "is"], "a gpt model takes --text, not --second"),
        (["minilm-l6", "--second", "is"], "a bert model takes --text and --second together: give both"),
        (["vit-c10", "--image", "nowhere.png"], "nowhere.png can't be read as a picture: No such file or directory"),
        (["deck", "--text", ""], "the text is empty"),
        (["deck", "--text", " \n"], "the text is empty"),
        (["deck", "--text", "is " * 17], "17 tokens don't fit the model's context of 16"),
        (["gpt-nano", "--text", "ABD"], "'D' is not in this vocabulary of 3"),
        (["deck", "--device", "gpu"], "there is no device 'gpu': use auto, cpu, cuda, cuda:N or mps"),
        (["deck", "--device", "cuda:99"], "this machine has no device 'cuda:99'"),
        (["deck", "-o", "nowhere/trace.safetensors"], "the trace can't be written to nowhere/trace.safetensors"),
        (["gpt3"], "gpt3 needs 698.4 GB for its weights"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value)[:40],
)
def test_a_mistake_is_told_in_one_line_on_stderr_with_exit_code_two(arguments: list[str], message: str, cli):
    result = cli("trace", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("clearhead: ") and message in result.err
    assert result.err.count("\n") == 1


def test_a_folder_without_a_vocabulary_says_what_was_looked_for(cli, tmp_path: Path):
    clearhead.save(clearhead.create("deck", seed=3), tmp_path)
    result = cli("trace", str(tmp_path), "--text", LOVE)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "has no tokenizer: looked for tokenizer.json" in result.err


def test_a_mistake_shows_no_traceback_in_a_process_of_its_own():
    installed = Path(sys.executable).with_name("clearhead")
    done = started("trace", "decc", command=[installed] if installed.exists() else MODULE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "clearhead: there is no folder, file or model 'decc'; did you mean 'deck'?\n"


def test_a_reader_that_has_seen_enough_hears_no_complaint():
    done = started(command=["bash", "-c", f"'{sys.executable}' -m clearhead.cli trace deck | head -n 1"])
    assert done.stderr == ""
    assert done.stdout.startswith("deck (random weights")


# With the six packages alone

WITHOUT = f"""
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys({ABSENT!r}))
from clearhead.cli import main

def run(*arguments):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["clearhead", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()

print(json.dumps([run(*arguments) for arguments in json.loads(sys.argv[1])]))
"""


@pytest.fixture(scope="module")
def without(deck_folder: Path, tmp_path_factory) -> dict[str, Result]:
    """Several commands in one process that finds none of the other packages."""
    folder = write_folder(tmp_path_factory.mktemp("runs") / "gpt2", GPT2_CONFIG, drawn(official.gpt2()))
    word_tokenizer(vocabulary=[f"w{number}" for number in range(official.VOCAB)]).save(folder)
    kept = tmp_path_factory.mktemp("traces") / "trace.safetensors"
    commands = {
        "models": ["models", "--json"],
        "published": ["models", "--published"],
        "name": ["trace", "deck", "--json"],
        "folder": ["trace", str(deck_folder), "--text", LOVE, "-o", str(kept)],
        "left-overs": ["trace", str(folder), "--text", "w1 w2", "--json"],
        "picture": ["trace", "vit-c10", "--image", "picture.png"],
        "sample": ["trace", "vit-c10"],
        "hub": ["trace", "hf:owner/name"],
    }
    done = started(json.dumps(list(commands.values())), command=[sys.executable, "-c", WITHOUT])
    assert done.returncode == 0, done.stderr
    results = (Result(*result) for result in json.loads(done.stdout))
    return dict(zip(commands, results, strict=True))


@pytest.mark.parametrize("command", ["models", "published", "name", "folder"])
def test_words_need_nothing_but_the_six_packages(command: str, without: dict[str, Result]):
    result = without[command]
    assert (result.code, result.err) == (0, "")
    assert result.out


@pytest.mark.parametrize(
    ("command", "missing"),
    [("picture", "pip install Pillow"), ("sample", "scikit-learn"), ("hub", "pip install huggingface_hub")],
)
def test_what_is_missing_is_named_in_one_line_by_the_command_that_needs_it(command, missing, without):
    result = without[command]
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("clearhead: ") and missing in result.err
    assert result.err.count("\n") == 1


def test_left_overs_in_a_file_are_said_beside_the_output(without: dict[str, Result]):
    result = without["left-overs"]
    assert json.loads(result.out)["tokens"] == ["w1", "w2"]
    assert result.err.endswith("gpt2: dropped what this model has no use for: h.0.attn.bias and 1 more like it\n")
