"""Training from the page: real processes that outlive the server, are stopped, gone on with, and found again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.errors import ClearheadError
from clearhead.studio import processes
from clearhead.studio.job_files import failure, metric_lines
from clearhead.studio.job_records import FOLDER, Record, read_record, write_record
from clearhead.studio.jobs import Jobs, wanted_run
from clearhead.studio.training_schema import JobWanted
from tests.unit.studio.asking import problem

SHORT = ["steps=3", "warmup=1", "validate_every=3", "log_every=1", "device=cpu"]
LONG = ["steps=100000", "validate_every=5", "log_every=1", "device=cpu"]
PATIENCE = 120


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def root(tmp_path):
    """A folder of runs, in which nothing is left running."""
    yield tmp_path / "runs"
    for record in Jobs(tmp_path / "runs").records():
        if processes.mark(record.pid) == record.mark:
            os.kill(record.pid, signal.SIGKILL)


@pytest.fixture
def client(studio, root):
    return studio(root=root)


def post(client, path, **body):
    answer = client.post(f"/api/jobs{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until(client, name, *states):
    """The job, once it is in one of these states; the log where it never is."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        job = client.get(f"/api/jobs/{name}").json()
        if job["state"] in states:
            return job
        assert job["state"] not in ("failed", "finished"), job
        time.sleep(0.1)
    raise AssertionError(job)


def until_step(client, name, step):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        job = client.get(f"/api/jobs/{name}").json()
        if (job["step"] or 0) >= step:
            return job
        time.sleep(0.05)
    raise AssertionError(job)


# ------------------------------------------------------------------------------------------ real processes


def test_a_recipe_trains_in_a_process_of_its_own_and_tells_its_figures(client, root):
    job = post(client, "", recipe="gpt-letters", changes=SHORT)
    assert job["name"] == "gpt-letters"
    assert job["state"] in ("starting", "running")
    assert job["steps"] == 3
    assert "-o" in job["command"]

    done = until(client, "gpt-letters", "finished")
    assert done["step"] == 3
    assert done["error"] is None
    assert done["model"] == "gpt-letters"
    assert any(line.startswith("step 3:") for line in done["log"])
    assert (root / "gpt-letters" / "report.html").is_file()

    told = client.get("/api/jobs/gpt-letters/metrics").json()
    written = (root / "gpt-letters" / "metrics.jsonl").read_text().splitlines()
    assert told["lines"] == [json.loads(line) for line in written]
    assert not told["again"]
    rest = client.get("/api/jobs/gpt-letters/metrics", params={"after": told["next"], "mark": told["mark"]}).json()
    assert rest == {"lines": [], "next": told["next"], "mark": told["mark"], "again": False, "more": False}

    shown = client.get("/api/jobs/gpt-letters/samples").json()
    assert shown["part"] == "valid"
    assert len(shown["samples"]) == 6
    assert all(one["truth"] == "".join(sorted(one["given"])) for one in shown["samples"])
    assert all(one["right"] == (one["said"] == one["truth"]) for one in shown["samples"])
    assert "nothing to stop" in problem(client.post("/api/jobs/gpt-letters/stop"), 400)
    assert "is finished" in problem(client.post("/api/jobs/gpt-letters/resume"), 400)


def test_a_job_outlives_its_server_is_found_again_stopped_and_gone_on_with(client, studio, root):
    post(client, "", recipe="gpt-letters", changes=LONG, name="long")
    until_step(client, "long", 6)
    refused = problem(client.post("/api/jobs", json={"recipe": "gpt-letters", "changes": SHORT}), 400)
    assert "one job runs at a time" in refused
    assert "long" in refused

    other = studio(root=root)  # as after a restart: it knows the files alone
    found = other.get("/api/jobs").json()
    assert [(job["name"], job["state"]) for job in found["jobs"]] == [("long", "running")]
    assert found["refusal"] == refused
    post(other, "/long/stop")
    job = until(other, "long", "interrupted")
    saved = max(int(place.name) for place in (root / "long" / "state").iterdir())
    assert job["step"] <= saved
    assert other.get("/api/jobs").json()["refusal"] is None

    before = other.get("/api/jobs/long/metrics").json()
    post(other, "/long/resume")
    job = until_step(other, "long", saved + 1)
    assert any(f"going on behind step {saved}" in line for line in job["log"])
    after = other.get("/api/jobs/long/metrics", params={"after": before["next"], "mark": before["mark"]}).json()
    assert after["again"]  # the file is a new one: all lines are told again
    assert [line["step"] for line in after["lines"]] == sorted(line["step"] for line in after["lines"])
    assert after["lines"][0] == before["lines"][0]
    post(other, "/long/stop")
    until(other, "long", "interrupted")


def test_a_killed_job_is_interrupted_and_goes_on_behind_its_last_state(client, root):
    post(client, "", recipe="gpt-letters", changes=LONG, name="killed")
    until_step(client, "killed", 11)
    os.kill(read_record(root, "killed").pid, signal.SIGKILL)
    job = until(client, "killed", "interrupted")
    assert job["error"] is None
    post(client, "/killed/resume")
    job = until(client, "killed", "running")
    states = [int(place.name) for place in (root / "killed" / "state").iterdir() if place.name.isdecimal()]
    assert max(states) >= 10
    post(client, "/killed/stop")
    post(client, "/killed/stop")  # a second time: at once, whatever it is doing
    until(client, "killed", "interrupted")


def test_a_job_that_fails_says_why_in_words_and_leaves_no_run_behind(client, root):
    post(client, "", recipe="gpt-letters", changes=["window=3"], name="wrong")
    end = time.monotonic() + PATIENCE
    while (job := client.get("/api/jobs/wrong").json())["state"] != "failed" and time.monotonic() < end:
        time.sleep(0.1)
    assert job["error"] == "the game of letters is settled: it takes no window"
    assert not (root / "wrong").exists()
    assert client.get("/api/jobs").json()["refusal"] is None


# ------------------------------------------------------------------------------------------ which process


def test_a_recycled_number_is_not_taken_for_the_job(root, client):
    """The test's own process has the number now: it is neither running as the job nor stopped in its place."""
    write_record(root, Record("old", "gpt-letters", (), False, pid=os.getpid(), mark="another boot 1", started=1.0))
    assert client.get("/api/jobs/old").json()["state"] == "interrupted"
    assert "nothing to stop" in problem(client.post("/api/jobs/old/stop"), 400)


def test_a_process_that_ended_and_was_not_waited_for_has_ended():
    child = subprocess.Popen([sys.executable, "-c", ""])
    end = time.monotonic() + PATIENCE
    while processes.mark(child.pid) is not None and time.monotonic() < end:
        time.sleep(0.05)
    assert processes.mark(child.pid) is None
    child.wait()


def test_a_process_has_one_mark_and_another_process_another():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert processes.mark(child.pid) == processes.mark(child.pid) != processes.mark(os.getpid())
    finally:
        child.kill()
        child.wait()


def test_where_there_is_no_proc_ps_is_asked(monkeypatch, tmp_path):
    if not Path("/bin/ps").exists() and not Path("/usr/bin/ps").exists():
        pytest.skip("this machine has no ps")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert processes.mark(os.getpid()) == processes.mark(os.getpid())
    assert processes.mark(2**22 + 1) is None


# ------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"recipe": "gpt-letter"}, "did you mean 'gpt-letters'"),
        ({"recipe": "gpt2"}, "no recipe"),
        ({"recipe": "../gpt-letters"}, "no recipe"),
        ({"recipe": "gpt-letters", "changes": ["stepps=3"]}, "no setting 'stepps'"),
        ({"recipe": "gpt-letters", "changes": ["steps=no"]}, "steps"),
        ({"recipe": "gpt-letters", "changes": ["/etc/passwd"]}, "not key=value"),
        ({"recipe": "gpt-letters", "changes": ["--out=/tmp/x"]}, "no setting '--out'"),
        ({"recipe": "gpt-letters", "changes": ["steps=3\n"]}, "key=value"),
        ({"recipe": "gpt-letters", "changes": ["a" * 300 + "=1"]}, "key=value"),
        ({"recipe": "gpt-letters", "changes": ["cache=/tmp/x"]}, "'cache' can't be changed"),
        ({"recipe": "gpt-letters", "changes": ["model=/etc"]}, "'model' can't be changed"),
        ({"recipe": "vit-digits", "changes": ["data=/etc"]}, "'data' can't be changed"),
        ({"recipe": "t5-dates", "changes": ["first.data=/etc"]}, "'data' can't be changed"),
        ({"recipe": "gpt-python", "changes": ["valid=/etc/passwd,"]}, "'valid' can't be changed"),
        ({"recipe": "vit-digits", "changes": ["options.path=/etc"]}, "'options' can't be changed"),
        ({"recipe": "gpt-letters", "quick": True}, "no quick version"),
        ({"recipe": "gpt-letters", "name": "../x"}, "can't be a run's name"),
        ({"recipe": "gpt-letters", "name": "A"}, "can't be a run's name"),
        ({"recipe": "gpt-letters", "name": "-x"}, "can't be a run's name"),
        ({"recipe": "gpt-letters", "name": ".jobs"}, "can't be a run's name"),
        ({"recipe": "gpt-letters", "name": ""}, "can't be a run's name"),
    ],
)
def test_what_is_no_recipe_change_or_name_is_refused_and_nothing_is_started(client, root, body, said):
    assert said in problem(client.post("/api/jobs", json=body), 400)
    assert not root.exists()


def test_a_name_that_is_taken_is_refused_and_a_free_one_is_found(root, monkeypatch):
    jobs = Jobs(root)
    (root / "gpt-letters").mkdir(parents=True)
    (root / "linked").symlink_to("/nowhere")
    with pytest.raises(ClearheadError, match="already"):
        jobs.start(JobWanted(recipe="gpt-letters", name="linked"))
    monkeypatch.setattr(jobs, "_launch", lambda record: record)
    assert jobs.start(JobWanted(recipe="gpt-letters")).name == "gpt-letters-2"


def test_a_stranger_can_not_start_stop_or_resume(client):
    for path in ("", "/x/stop", "/x/resume"):
        answer = client.post(f"/api/jobs{path}", json={"recipe": "gpt-letters"}, headers={"X-Clearhead-Token": ""})
        assert "token" in problem(answer, 403)


@pytest.mark.parametrize("name", ["none", "..", "%2e%2e%2fsecret", ".jobs"])
def test_a_job_that_is_not_there_is_404(client, name):
    assert client.get(f"/api/jobs/{name}/metrics").status_code == 404


def test_without_a_folder_for_runs_nothing_is_started(studio):
    client = studio()
    assert client.get("/api/jobs").json()["jobs"] == []
    assert "no folder for runs" in problem(client.post("/api/jobs", json={"recipe": "gpt-letters"}), 400)


def test_a_broken_record_is_passed_over(client, root):
    for name, text in (("a", "{"), ("b", "{}"), ("c", '{"name": "other"}')):
        (root / FOLDER / name).mkdir(parents=True)
        (root / FOLDER / name / "job.json").write_text(text)
    assert client.get("/api/jobs").json()["jobs"] == []


def test_a_job_whose_recipe_has_changed_since_is_still_listed(client, root):
    write_record(root, Record("old", "gone", ("x=1",), False, pid=1, mark="", started=1.0))
    assert client.get("/api/jobs").json()["jobs"][0]["steps"] is None
    assert "no recipe 'gone'" in problem(client.post("/api/jobs/old/resume"), 400)


def test_every_recipe_is_listed_with_cost_and_result(client):
    cards = client.get("/api/jobs").json()["recipes"]
    digits = next(card for card in cards if card["name"] == "vit-digits")
    assert "s on two cores" in digits["costs"]
    assert "test pictures" in digits["gives"]


def test_an_own_folder_of_data_goes_with_every_run_whose_set_lies_in_one(tmp_path):
    assert wanted_run("vit-mnist", (), False, tmp_path).spec.folder == str(tmp_path)  # pyright: ignore
    assert wanted_run("vit-digits", (), False, tmp_path).spec.folder is None  # pyright: ignore


# ------------------------------------------------------------------------------------------ files


def test_a_line_that_is_being_written_waits_and_a_shorter_file_is_told_from_its_beginning(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    told = metric_lines(tmp_path, 0, None, "1")
    assert [line["step"] for line in told.lines] == [1]
    with file.open("a") as opened:
        opened.write('ss": null}\n')
    rest = metric_lines(tmp_path, told.next, told.mark, "1")
    assert rest.lines == [{"step": 2, "loss": None}]
    assert not rest.again
    file.write_text('{"step": 1, "loss": 2.0}\n')
    assert metric_lines(tmp_path, rest.next, rest.mark, "1").again
    assert metric_lines(tmp_path, told.next, told.mark, "2").again  # another sitting
    assert metric_lines(tmp_path / "none", 5, "1.2", "1").lines == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["step 3: loss 1", "clearhead: the data is gone"], "the data is gone"),
        (
            ["Traceback (most recent call last):", '  File "x", line 1', "torch.cuda.OutOfMemoryError: no room"],
            "something went wrong inside: torch.cuda.OutOfMemoryError: no room",
        ),
        (["Traceback (most recent call last):", '  File "x", line 1', "KeyboardInterrupt"], None),
        (["interrupted behind step 3: the same command goes on from there"], None),
        ([], None),
    ],
)
def test_a_failure_is_told_in_a_line(lines, said):
    assert failure(lines) == said


def test_samples_wait_for_the_first_weights(client, root):
    write_record(root, Record("new", "gpt-letters", (), False, pid=1, mark="", started=1.0))
    told = client.get("/api/jobs/new/samples").json()
    assert told["samples"] == []
    assert "at step 400" in told["note"]
