"""Training from the page: a job that lives without the page, runs on one graph, one update recomputed, no strangers."""

import json
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from clearhead.convert import open_weights
from clearhead.recipes.start import train
from clearhead.studio import processes
from clearhead.studio.jobs import Jobs
from tests.browser.conftest import Served, serving
from tests.browser.numbers import number, rows

pytestmark = pytest.mark.xdist_group("browser-walk")

PATIENCE = 90_000  # milliseconds: a process has to start, which imports torch
STEPS = 700  # some seconds: enough to be watched, left, found again and stopped
JOB = f"steps={STEPS} validate_every=20 log_every=1 device=cpu"
WEIGHT = "decoder.blocks.0.feed_forward.up.weight"
SHORT = {"steps": 4, "warmup": 0, "validate_every": 2, "save_every": 1, "log_every": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def root(browser, built_page, tmp_path_factory) -> Path:
    """A folder with two short runs."""
    folder = tmp_path_factory.mktemp("training") / "runs"
    for seed in (0, 1):
        train("gpt-letters", out=folder / f"short-{seed}", seed=seed, **SHORT)
    return folder


@pytest.fixture(scope="module")
def training(built_page, root) -> Iterator[Served]:
    with serving(built_page, root) as address:
        yield Served(address, {})


@pytest.fixture
def job(root) -> Iterator[str]:
    """The name of a job that there is none of yet. Before and behind it nothing runs: one job runs at a time."""
    end_all(root)
    yield f"from-the-page-{len(Jobs(root).records())}"
    end_all(root)


def end_all(root: Path) -> None:
    for record in Jobs(root).records():
        if processes.mark(record.pid) == record.mark:
            os.kill(record.pid, signal.SIGKILL)


def alive(root: Path) -> list[str]:
    return [record.name for record in Jobs(root).records() if processes.mark(record.pid) == record.mark]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def figures(folder: Path, name: str) -> dict[int, float]:
    """A figure of a run by its step, as the run wrote it."""
    return {line["step"]: line[name] for line in lines(folder) if name in line}


# ------------------------------------------------------------------------------------------------------------ a job


def test_a_job_is_started_watched_left_found_again_stopped_resumed_and_finished(training, root, job, tab, keep):
    page = tab()
    page.goto(training.at(tab="training"))
    started(page, job)
    head = page.locator(f"header[data-job={job}]")
    expect(head).to_have_attribute("data-state", "running", timeout=PATIENCE)
    curve_grows(page)
    answers_change(page)
    keep(page, "training-live")
    page.close()

    goes_on_alone(root / job)
    page = tab()
    page.goto(training.at(tab="training"))
    row = page.locator(f"li[data-job={job}]")
    expect(row).to_have_attribute("data-state", "running")
    expect(page.locator("[data-refusal]")).to_contain_text(f"{job} is running")
    expect(page.locator("[data-action=start]")).to_be_disabled()
    row.locator("button").click()
    page.locator("[data-action=stop]").click()
    head = page.locator(f"header[data-job={job}]")
    expect(head).to_have_attribute("data-state", "interrupted", timeout=PATIENCE)
    stopped = len(figures(root / job, "loss"))
    assert 0 < stopped < STEPS
    assert alive(root) == []
    keep(page, "training-stopped")

    page.locator("[data-action=resume]").click()
    expect(head).to_have_attribute("data-state", "finished", timeout=PATIENCE)
    told_whole(page, root / job)
    keep(page, "training-finished")
    page.locator("[data-action=open]").click()
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
    assert f"model={job}" in page.url


def started(page: Page, job: str) -> None:
    page.locator("[data-recipe=gpt-letters] button").click()
    page.locator("#start-changes").fill(JOB)
    page.locator("#start-name").fill(job)
    expect(page.locator("[data-form=start] code")).to_have_text(f"clearhead train gpt-letters {JOB}")
    page.locator("[data-action=start]").click()


def curve_grows(page: Page) -> None:
    """The loss gets points while it is looked at, nobody doing anything."""
    curve = page.locator("[data-chart=loss] [data-series=loss]")
    expect(curve).to_be_visible(timeout=PATIENCE)
    before = int(number(curve, "points"))
    page.wait_for_function(
        "(n) => Number(document.querySelector('[data-chart=loss] [data-series=loss]').dataset.points) > n + 2",
        arg=before,
        timeout=PATIENCE,
    )


def answers_change(page: Page) -> None:
    """The same examples in every column, and not the same said of them."""
    page.wait_for_function(
        "() => Number(document.querySelector('[data-answers]')?.dataset.answers) >= 2", timeout=PATIENCE
    )
    samples = page.locator("[data-sample]").all()
    said = [rows(one.locator("[data-said]"), "said", "probability") for one in samples]
    assert len(said) == 6
    assert any(one != told[0] for told in said for one in told), said


def goes_on_alone(folder: Path) -> None:
    """No page looks at it, and it makes updates all the same."""
    before, end = len(lines(folder)), time.monotonic() + PATIENCE / 1000
    while len(lines(folder)) <= before and time.monotonic() < end:
        time.sleep(0.05)
    assert len(lines(folder)) > before


def told_whole(page: Page, folder: Path) -> None:
    """One curve over both sittings, without a gap or a step twice; its values are those of the file."""
    expect(page.locator(f"header[data-job={folder.name}]")).to_have_attribute("data-step", str(STEPS))
    curve = page.locator("[data-chart=loss] [data-series=loss]")
    expect(curve).to_have_attribute("data-points", str(STEPS))
    losses = figures(folder, "loss")
    assert list(losses) == list(range(1, STEPS + 1))
    assert number(curve, "value") == losses[STEPS]
    page.locator("[data-chart=loss] svg[role=slider]").press("Home")
    for step in (1, 2, 3):
        assert (number(curve, "step"), number(curve, "value")) == (step, losses[step])
        page.keyboard.press("ArrowRight")
    accuracy = figures(folder, "valid/accuracy")
    assert number(page.locator("[data-figure='valid/accuracy']"), "value") == accuracy[STEPS]
    expect(page.locator("[data-log]")).to_contain_text("going on behind step")


# -------------------------------------------------------------------------------------------------- runs on one graph


def test_two_runs_stand_on_one_graph_and_every_value_is_that_of_their_files(training, root, tab, keep):
    page = tab()
    page.goto(training.at(tab="compare", runs="0:short-0"))
    page.locator("input[data-run=short-1]").check()
    chart = page.locator("[data-chart=loss]")
    for run in ("short-0", "short-1"):
        expect(chart.locator(f"[data-series='{run} loss']")).to_have_attribute("data-points", "4")
        expect(chart.locator(f"[data-series='{run} valid/loss']")).to_have_attribute("data-points", "2")
    keep(page, "compare-runs")
    strokes = chart.locator("svg[role=slider] path").evaluate_all(
        "(all) => all.map((one) => one.attributes.stroke.value)"
    )
    assert len(set(strokes)) == 2
    chart.locator("svg[role=slider]").press("Home")
    for step in range(1, 5):
        for run in ("short-0", "short-1"):
            shown = chart.locator(f"[data-series='{run} loss']")
            loss = figures(root / run, "loss")[step]
            assert (number(shown, "step"), number(shown, "value")) == (step, loss)
        page.keyboard.press("ArrowRight")
    assert figures(root / "short-0", "loss") != figures(root / "short-1", "loss")


# ---------------------------------------------------------------------------------------------------------- one update


def test_one_weights_update_follows_from_the_numbers_that_are_shown(training, root, tab, keep):
    """By Loshchilov and Hutter's formula; the weight before and behind it is that of the states that the run saved."""
    page = tab()
    page.goto(training.at(tab="training", update="short-0", at=3, weight=WEIGHT))
    moved = page.locator(".moved[data-cell]")
    expect(moved).to_be_visible(timeout=PATIENCE)
    head = page.locator("header[data-loss]")
    assert head.get_attribute("data-own") == "true"
    assert number(head, "loss") == figures(root / "short-0", "loss")[4]
    before, after = (
        open_weights(root / "short-0" / "state" / f"{step:08d}" / "tensors.safetensors")[f"model/{WEIGHT}"]
        for step in (3, 4)
    )
    for row, column in ((0, 0), (3, 5), (9, 2)):
        page.locator(f"figure[data-as=gradient] [data-row='{row}'][data-column='{column}']").click()
        expect(moved).to_have_attribute("data-cell", f"{row},{column}")
        told = cell_of(moved)
        assert told["before"] == pytest.approx(before[row, column].item(), rel=1e-6)
        assert told["after"] == pytest.approx(after[row, column].item(), rel=1e-6)
        assert stepped(told) == pytest.approx(told["after"], abs=1e-7)
        assert told["update"] == pytest.approx(told["after"] - told["before"], abs=1e-7)
        assert told["given"] == pytest.approx(told["gradient"] * number(head, "clipped"), rel=1e-6)
    keep(page, "training-update")


def test_at_the_first_update_the_memory_holds_this_gradient_alone(training, tab):
    page = tab()
    page.goto(training.at(tab="training", update="short-0", at=0, weight=WEIGHT))
    moved = page.locator(".moved[data-cell]")
    expect(moved).to_be_visible(timeout=PATIENCE)
    told = cell_of(moved)
    first, second = told["adam-betas"]
    assert told["adam-count"] == 1 and told["given"] != 0
    assert told["adam-first"] == pytest.approx((1 - first) * told["given"], rel=1e-5)
    assert told["adam-second"] == pytest.approx((1 - second) * told["given"] ** 2, rel=1e-4)
    assert stepped(told) == pytest.approx(told["after"], abs=1e-7)


def cell_of(moved: Locator) -> dict[str, Any]:
    """What the page says of one cell, every number in full."""
    said = moved.evaluate("(e) => Object.fromEntries([...e.attributes].map((one) => [one.name, one.value]))")
    plain = {name.removeprefix("data-"): value for name, value in said.items() if name.startswith("data-")}
    pair = tuple(map(float, plain.pop("adam-betas").split(",")))
    return {"adam-betas": pair} | {name: float(value) for name, value in plain.items() if name != "cell"}


def stepped(told: dict[str, Any]) -> float:
    """The weight behind the update, from what is shown alone."""
    count, (first, second) = told["adam-count"], told["adam-betas"]
    mean = told["adam-first"] / (1 - first**count)
    square = told["adam-second"] / (1 - second**count)
    step = mean / (math.sqrt(square) + told["adam-eps"]) + told["decay"] * told["before"]
    return told["before"] - told["rate"] * step


# --------------------------------------------------------------------------------------------------------- strangers

ORDER = '{"recipe": "gpt-letters", "changes": ["steps=1"], "name": "stolen", "quick": false}'
STRANGER = """<!doctype html><meta charset="utf-8"><title>another site</title>
<form method="post" enctype="text/plain" action="{address}api/jobs"><input name='{begin}' value='{end}'></form>"""
ATTEMPTS = """async ([address, body]) => {
  const tried = {};
  const attempt = async (name, init) => {
    try { tried[name] = (await fetch(`${address}api/jobs`, { method: "POST", body, ...init })).status; }
    catch (error) { tried[name] = error.name; }
  };
  await attempt("blind", { mode: "no-cors", headers: { "Content-Type": "text/plain" } });
  await attempt("json", { headers: { "Content-Type": "application/json" } });
  await attempt("guessed", { headers: { "Content-Type": "application/json", "X-Clearhead-Token": "guessed" } });
  try { tried.token = (await (await fetch(address)).text()).includes("clearhead-token"); }
  catch (error) { tried.token = error.name; }
  return tried;
}"""
FROM_THE_PAGE = """async ([body, token]) => {
  const headers = { "Content-Type": "application/json", ...(token === null ? {} : { "X-Clearhead-Token": token }) };
  const answer = await fetch("api/jobs", { method: "POST", headers, body });
  return [answer.status, (await answer.json()).problem];
}"""


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """A site of this machine that is not the studio: the same host, another port, so another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_another_site_can_not_start_a_job_nor_read_the_token(browser, training, root):
    before = [record.name for record in Jobs(root).records()]
    begin, end = ORDER[:-1] + ', "x": "', '"}'  # a form puts `=` between them: JSON all the same
    context = browser.new_context()  # its console tells what the browser refused: that is expected here
    page = context.new_page()
    with another_site(STRANGER.format(address=training.address, begin=begin, end=end)) as address:
        page.goto(address)
        tried = page.evaluate(ATTEMPTS, [training.address, ORDER])
        assert tried == {"blind": "TypeError", "json": "TypeError", "guessed": "TypeError", "token": "TypeError"}
        with page.expect_navigation():
            page.evaluate("document.forms[0].submit()")
        assert "another site sent this request" in page.inner_text("body")
    context.close()
    assert [record.name for record in Jobs(root).records()] == before
    assert not (root / "stolen").exists()


def test_without_its_token_the_pages_own_address_starts_nothing(training, root, tab):
    page = tab()
    page.goto(training.at(tab="training"))
    expect(page.locator("[data-form=start]")).to_be_visible()
    for token in (None, "", "guessed"):
        status, problem = page.evaluate(FROM_THE_PAGE, [ORDER, token])
        assert status == 403 and "lacks this studio's token" in problem
    token = page.locator("meta[name=clearhead-token]").get_attribute("content")
    status, problem = page.evaluate(FROM_THE_PAGE, [ORDER.replace("gpt-letters", "no-recipe"), token])
    assert status == 400 and "there is no recipe" in problem  # with it, it is read
    assert not (root / "stolen").exists()
