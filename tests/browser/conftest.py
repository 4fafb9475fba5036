"""A browser, a studio over briefly trained runs, and tabs on it. Tests of one xdist group share them.

CLEARHEAD_CHROMIUM  the browser's program, where it is neither on the PATH nor Playwright's own
CLEARHEAD_PAGE      a folder with another build of the page
CLEARHEAD_RUNS      a folder of trained runs, for the lectures' pictures that need them: see test_presets.py
Pictures of what was seen are kept in build/screenshots.
"""

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

pytest.importorskip("fastapi", reason="the studio is an optional extra: pip install 'clearhead[studio]'")
pytest.importorskip("playwright", reason="Playwright drives the browser: pip install playwright")

import uvicorn
from _pytest.runner import runtestprotocol
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from clearhead.studio.app import create_app
from clearhead.studio.core import PAGE, Settings
from clearhead.studio.serve import HOST, listening
from tests.browser.runs import Trained, trained_runs

ROOT = Path(__file__).resolve().parents[2]
expect.set_options(timeout=20_000)  # other tests run meanwhile
SCREENSHOTS = ROOT / "build" / "screenshots"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
INSTALL = "apt-get install -y --no-install-recommends chromium fonts-dejavu-core fonts-noto-core"
WIDE, TABLET = (1280, 800), (1024, 768)


@dataclass(frozen=True)
class Served:
    """A studio that runs on a port of this machine, in a thread of this process."""

    address: str
    runs: dict[str, Trained]

    def at(self, **spot: Any) -> str:
        """The address of a place: its parts by the names that the page gives them."""
        return f"{self.address}#{urlencode({name: value for name, value in spot.items() if value is not None})}"

    def of(self, family: str, **spot: Any) -> str:
        """The address of a place in a family's pass."""
        run = self.runs[family]
        return self.at(model=run.id, **run.inputs, **spot)


def _program(playwright: Any) -> str:
    """The browser's program, or a skip that says what to install."""
    told = os.environ.get("CLEARHEAD_CHROMIUM")
    known = [told] if told else [shutil.which("chromium"), shutil.which("chromium-browser")]
    for place in (*known, *([] if told else [playwright.chromium.executable_path])):
        if place and Path(place).is_file():
            return place
    wanted = f"CLEARHEAD_CHROMIUM={told} is no file" if told else "there is no chromium here"
    pytest.skip(f"{wanted}: {INSTALL}, or playwright install chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=_program(playwright), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def built_page() -> Path:
    place = Path(os.environ.get("CLEARHEAD_PAGE") or PAGE)
    if not (place / "index.html").is_file():
        pytest.skip("the studio's page is not built: `make test` builds it, or pip install -e .")
    return place


@pytest.fixture(scope="session")
def runs(browser: Browser, built_page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    """One of each family. A browser and a page are asked for first: without them nothing is trained."""
    return trained_runs(tmp_path_factory.mktemp("runs"))


@contextmanager
def serving(page: Path, root: Path, *runs: Path | str, **settings: Any) -> Iterator[str]:
    """A studio on a free port, in a thread of this process: its address. Settings as the studio's own."""
    app = create_app(Settings(runs=tuple(map(str, runs)), root=root, page=page, **settings))
    with listening(None) as open_socket:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [open_socket]}, daemon=True)
        thread.start()
        end = time.monotonic() + 30
        while not server.started and time.monotonic() < end:
            time.sleep(0.02)
        assert server.started, "the studio did not start within 30 s"
        try:
            yield f"http://{HOST}:{open_socket.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture(scope="session")
def studio(built_page: Path, runs: dict[str, Trained], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A studio over one run of each family."""
    folders = [run.folder for run in runs.values()]
    with serving(built_page, tmp_path_factory.mktemp("root"), *folders) as address:
        yield Served(address, runs)


def pytest_runtest_protocol(item: Any, nextitem: Any) -> bool | None:
    """A browser on a busy machine may be late: a test that fails is tried once more, and the summary says so."""
    if Path(__file__).parent not in item.path.parents:  # pytest asks every conftest about every test
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        item._initrequest()
        item.warn(pytest.PytestWarning(f"{item.name} failed and was tried once more"))
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class Watched:
    """What a page said or asked for that it should not have."""

    def __init__(self, context: BrowserContext) -> None:
        self.mistakes: list[str] = []
        context.on("page", self._follow)
        context.on("request", self._asked)

    def _follow(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.mistakes.append(f"error: {error}"))
        page.on("console", self._said)

    def _said(self, message: Any) -> None:
        # a refusal is shown in words: other tests look at it
        harmless = re.match(r"Failed to load resource: the server responded with a status of 4\d\d", message.text)
        if message.type in ("error", "warning") and not harmless:
            self.mistakes.append(f"console {message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        there = urlsplit(request.url)
        if there.scheme not in ("data", "blob", "file") and there.hostname != HOST:
            self.mistakes.append(f"asked another host: {request.url}")


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens an empty tab of a size and a theme. At the end: no error was told, and no other host was asked."""
    opened: list[tuple[BrowserContext, Watched]] = []

    def make(size: tuple[int, int] = WIDE, theme: str = "light", **options: Any) -> Page:
        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, color_scheme=theme, reduced_motion="reduce", **options)  # pyright: ignore
        context.set_default_timeout(20_000)
        opened.append((context, Watched(context)))
        return context.new_page()

    yield make
    for context, _ in opened:
        context.close()
    assert [mistake for _, watched in opened for mistake in watched.mistakes] == []


@pytest.fixture
def keep(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Keeps a picture of a page under build/screenshots."""

    def picture(page: Page, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{re.sub(r'[^a-z0-9.-]+', '-', name.lower())}.png")

    return picture
