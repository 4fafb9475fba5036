"""The page, the source that it links to, the contract that it is built from, and the port that it is served on."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import clearhead
from clearhead.cli import main
from clearhead.errors import ClearheadError
from clearhead.studio.openapi import schema
from clearhead.studio.serve import PORT, has_screen, listening
from tests.unit.studio.asking import TOKEN, problem

PACKAGE = Path(clearhead.__file__).parent


def test_a_page_that_is_not_built_says_how_to_build_it(studio, tmp_path):
    answer = studio(page=tmp_path / "page").get("/")
    assert answer.status_code == 200
    assert "npm run build" in answer.text


def test_the_built_page_carries_the_token_and_its_files_are_served(studio, tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<html><head><title>x</title></head></html>")
    (tmp_path / "assets" / "app.js").write_text("1")
    client = studio(page=tmp_path)
    for path in ("/", "/index.html"):
        assert f'<meta name="clearhead-token" content="{TOKEN}">' in client.get(path).text
    assert client.get("/assets/app.js").text == "1"


@pytest.mark.parametrize("path", ["/../secret", "/..%2fsecret", "/assets/..%2f..%2fsecret", "/%2e%2e/secret", "/link"])
def test_nothing_outside_the_pages_folder_is_served(studio, tmp_path, path):
    (tmp_path / "page").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "page" / "link").symlink_to(tmp_path / "secret")
    assert "nothing at" in problem(studio(page=tmp_path / "page").get(path), 404)


def test_the_source_of_a_step_is_the_packages_own(studio):
    answer = studio().get("/api/source", params={"file": "ops/attention.py"})
    assert answer.text == (PACKAGE / "ops" / "attention.py").read_text()
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "file",
    [
        "../../pyproject.toml",
        "ops/../../../README.md",
        "/etc/passwd",
        "ops/./attention.py",
        "data/sets.json",
        "",
        "a\0b",
        "x" * 5000,
    ],
)
def test_nothing_but_the_packages_source_is_read(studio, file):
    assert "no file" in problem(studio().get("/api/source", params={"file": file}), 404)


def test_the_contract_is_the_same_text_every_time_and_names_every_route(studio):
    said = json.loads(schema())
    assert schema() == json.dumps(said, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert said == studio().get("/api/openapi.json").json()
    assert set(said["paths"]) >= {
        "/api/models",
        "/api/passes",
        "/api/passes/{id}",
        "/api/passes/{id}/matrix",
        "/api/passes/{id}/picture",
        "/api/pictures",
        "/api/attention/{id}",
        "/api/source",
    }
    refusal = said["paths"]["/api/passes"]["post"]["responses"]["422"]["content"]["application/json"]["schema"]
    assert refusal == {"$ref": "#/components/schemas/Problem"}


def test_the_contract_is_written_by_a_command(tmp_path):
    command = [sys.executable, "-m", "clearhead.studio.openapi", str(tmp_path / "openapi.json")]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"})
    assert (tmp_path / "openapi.json").read_text() == schema()


def test_the_studio_listens_on_this_machine_alone():
    with listening(None) as made:
        assert made.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_an_error_where_it_was_asked_for():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ClearheadError, match="give another --port"):
            listening(taken.getsockname()[1])
    with pytest.raises(ClearheadError, match="1 to 65535"):
        listening(70000)


def test_the_usual_port_may_be_taken(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr("clearhead.studio.serve.PORT", taken.getsockname()[1])
        with listening(None) as made:
            assert made.getsockname()[1] not in (taken.getsockname()[1], PORT)


def test_a_linux_without_a_display_has_no_screen(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not has_screen()
    monkeypatch.setenv("DISPLAY", ":0")
    assert has_screen()


def run(monkeypatch, capsys, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["clearhead", "studio", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"clearhead: [^\n]+\n", error)
    return error


def test_a_missing_extra_is_named_in_one_line():
    program = (
        "import sys; sys.modules['fastapi'] = sys.modules['uvicorn'] = None; from clearhead.cli import main; main()"
    )
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, "studio"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'clearhead[studio]'" in done.stderr


def test_a_run_that_there_is_not_is_refused(monkeypatch, capsys):
    assert "gpt2" in run(monkeypatch, capsys, "gpt22", "--no-browser")


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    """A real server in a process of its own: the address is printed, it answers, and Ctrl-C ends it in order."""
    command = [sys.executable, "-m", "clearhead", "studio", "deck", "--no-browser"]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
            assert address is not None
            with urllib.request.urlopen(f"{address[0]}api/models", timeout=30) as answer:
                assert json.load(answer)[0]["id"] == "random:deck"
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
