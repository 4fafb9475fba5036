"""Many commands within a given time: stages, what is told of each in the end, and what is cut off."""

import json
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import together
from benchmarks.together import last_words, main, stages_of
from clearhead.errors import ClearheadError
from clearhead.recipes.start import named_run

PLANS = Path(together.__file__).with_name("plans")
SLEEP = 'timeit -n1 -r1 "import time; time.sleep(60)"'
OF_RECIPES = ("benchmarks.busy", "benchmarks.variants")
TINY = "fields.width=16 fields.heads=2 fields.layers=1 warmup=2 device=cpu"


def outcomes(capsys) -> dict[str, dict]:
    return {one["name"]: one for one in json.loads(capsys.readouterr().out)}


def test_a_plan_is_stages_of_named_commands():
    plan = (
        "# two beside each other\na: train vit-digits seed=1\nb: timeit 'x = 1'  # quick\n\n\n# alone\nc: timeit pass\n"
    )
    first, second = stages_of(plan)
    assert first == {"a": ["train", "vit-digits", "seed=1"], "b": ["timeit", "x = 1"]}
    assert second == {"c": ["timeit", "pass"]}


def test_what_all_lines_begin_with_is_said_once_until_it_is_said_anew():
    plan = "a: x\n*: train vit-digits\nb:\nc: seed=1\n\nd: seed=2\n*: timeit\ne: pass\n*:\nf: y z\n"
    first, second = stages_of(plan)
    assert first == {"a": ["x"], "b": ["train", "vit-digits"], "c": ["train", "vit-digits", "seed=1"]}
    assert second == {"d": ["train", "vit-digits", "seed=2"], "e": ["timeit", "pass"], "f": ["y", "z"]}


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ("a: timeit pass\na: timeit pass", "line 2 of the plan: 'a' is there before"),
        ("timeit pass", "line 1 of the plan: no `name: words`"),
        ("a:", "line 1 of the plan: no `name: words`"),
        ("*: timeit", "the plan is empty"),
        ("# nothing\n\n", "the plan is empty"),
        ("a: timeit 'pass", "line 1 of the plan: No closing quotation"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_before_anything_starts(tmp_path, capsys, plan, told):
    with pytest.raises(ClearheadError, match=told):
        stages_of(plan)
    (tmp_path / "plan").write_text(plan)
    assert main([str(tmp_path / "plan"), str(tmp_path / "out"), "--seconds", "9"]) == 1
    assert told in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_run_gives_its_figures_and_another_that_fails_does_not_stop_the_next_stage(tmp_path, capsys):
    plan, kept = tmp_path / "plan", tmp_path / "kept"
    plan.write_text(f"learns: train vit-digits {TINY} steps=2\nfails: no_such_module\n\nlast: timeit pass")
    words = [str(plan), str(tmp_path / "out"), "--seconds", "100", "--json", "--pack", str(kept)]
    assert main(words) == 1
    found = outcomes(capsys)
    assert json.loads(found["learns"]["last"])["steps"] == 2 and found["learns"]["end"] == 0
    assert found["fails"]["end"] == 1 and "no_such_module" in found["fails"]["last"]
    assert found["last"]["end"] == 0 and found["last"]["stage"] == 2 and "loop" in found["last"]["last"]
    with tarfile.open(kept / "learns.tgz") as archive:
        names = archive.getnames()
    assert "learns/model.safetensors" in names and not any("state" in name for name in names)
    assert main(words) == 1 and "is there already" in capsys.readouterr().err


def test_what_takes_longer_is_cut_off_and_what_comes_behind_it_is_not_started(tmp_path, capsys):
    (tmp_path / "plan").write_text(f"long: {SLEEP}\n\nbehind: timeit pass")
    assert main([str(tmp_path / "plan"), str(tmp_path / "out"), "--seconds", "1", "--json"]) == 1
    found = outcomes(capsys)
    assert found["long"]["end"] == "cut off" and 1 <= found["long"]["seconds"] < 10
    assert found["behind"]["end"] == "not started" and not (tmp_path / "out" / "behind.log").exists()


def test_of_a_stage_no_more_run_at_once_than_was_said(tmp_path, capsys):
    (tmp_path / "plan").write_text(f"first: timeit -n1 -r1 pass\nlong: {SLEEP}\nbehind: timeit pass")
    words = [str(tmp_path / "plan"), str(tmp_path / "out"), "--json", "--seconds"]
    assert main([*words, "5", "--at-once", "1"]) == 1
    found = outcomes(capsys)
    assert [one["end"] for one in found.values()] == [0, "cut off", "not started"]
    assert found["long"]["seconds"] < 5 and not (tmp_path / "out" / "behind.log").exists()
    assert main([*words, "5", "--at-once", "0"]) == 1
    assert "--at-once must be at least 1, not 0" in capsys.readouterr().err


@pytest.mark.parametrize("plan", sorted(PLANS.glob("*.plan")), ids=lambda plan: plan.stem)
def test_every_plan_that_lies_here_names_recipes_and_settings_that_there_are(plan):
    for name, words in ((name, words) for stage in stages_of(plan.read_text()) for name, words in stage.items()):
        if words[0] == "train":
            data = [word for word in words[2:] if "=" not in word]
            assert named_run(words[1], data, words[2 + len(data) :]).name == "-".join([words[1], *data])
        else:
            assert find_spec(words[0]), f"{name}: there is no {words[0]}"
            tried = [words[place + 1] for place, word in enumerate(words) if word == "--try"]
            of_all = [word for word in words[2:] if "=" in word and word not in tried]
            for changes in ([], *(one.split() for one in tried)) if words[0] in OF_RECIPES else ():
                assert named_run(words[1], [], [*of_all, *changes]).name == words[1]


def test_of_a_run_that_was_cut_off_the_last_figures_are_told(tmp_path):
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut.log").write_text("reading\nlearning\n")
    lines = ['{"step": 10, "valid/loss": 3.0}', '{"step": 15, "loss": 2.0}', '{"step": 20, "loss": 1.5}']
    (tmp_path / "cut" / "metrics.jsonl").write_text("\n".join(lines))
    assert last_words(tmp_path, "cut").splitlines() == [lines[0], lines[2]]
    assert last_words(tmp_path, "nobody") == ""


def test_the_service_that_shares_a_gpu_is_started_and_ended(tmp_path, capsys, monkeypatch):
    plan, program, told = tmp_path / "plan", tmp_path / "nvidia-cuda-mps-control", tmp_path / "told"
    plan.write_text("a: timeit pass")
    program.write_text(f'#!/bin/sh\nif [ "$1" = -d ]; then echo "$CUDA_MPS_PIPE_DIRECTORY"; else cat; fi >> {told}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert main([str(plan), str(tmp_path / "out"), "--seconds", "60", "--share"]) == 0
    assert told.read_text().split() == [str(tmp_path / "out" / "mps-pipe"), "quit"]
    program.write_text("#!/bin/sh\nexit 3\n")
    assert main([str(plan), str(tmp_path / "again"), "--seconds", "60", "--share"]) == 1
    assert "did not start" in capsys.readouterr().err and not (tmp_path / "again" / "a.log").exists()
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([str(plan), str(tmp_path / "third"), "--seconds", "60", "--share"]) == 1
    assert "which is not on this machine" in capsys.readouterr().err
