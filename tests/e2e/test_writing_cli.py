"""Writing commands as processes of their own: pipes, Ctrl-C, and a reader that has seen enough."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.writers import letters, trained_translator

ROOT = Path(__file__).resolve().parents[2]
MODULE = [sys.executable, "-m", "clearhead.cli"]
PATIENCE = 60


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("writers")
    return {
        "endless": letters(place / "endless", end=False),
        "translator": trained_translator(place / "translator"),
    }


def begun(*words: object, **options) -> subprocess.Popen:
    """A command under way. It may be interrupted, even where whoever runs the tests ignores interruptions."""
    return subprocess.Popen(
        [*MODULE, *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        bufsize=0,  # so that nothing is lost between a read here and the rest later
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **options,
    )


def interrupted(process: subprocess.Popen) -> tuple[int, str, str]:
    """Ctrl-C as soon as a little was printed: (exit code, stdout, stderr)."""
    first = b""
    while len(first) < 30 and (new := process.stdout.read(30)):
        first += new
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=PATIENCE)
    return process.returncode, (first + rest).decode(), err.decode()


def test_ctrl_c_ends_generating_with_what_was_written(folders):
    code, out, err = interrupted(begun("generate", folders["endless"], "-p", "abc", "--window", "-l", 10**6))
    assert code == 130 and len(out) > 30 and out == ("abcdefgh" * len(out))[: len(out) - 1] + "\n"
    assert err.endswith("tokens/s\n") and len(err.splitlines()) == 1


def test_ctrl_c_ends_translating_with_the_lines_that_are_done(folders, tmp_path):
    (tmp_path / "long.txt").write_text("the cat sees a dog\n" * 20_000)
    code, out, err = interrupted(begun("translate", folders["translator"], tmp_path / "long.txt"))
    lines = out.splitlines()
    assert code == 130 and set(lines) == {"das Katze sieht ein Hund"} and len(lines) < 20_000
    assert err.endswith("tokens/s\n") and len(err.splitlines()) == 1


def test_lines_go_through_a_pipe_and_a_reader_may_leave_early(folders):
    process = begun("translate", folders["translator"], stdin=subprocess.PIPE)
    out, err = process.communicate(b"a house\n\ndog\n", timeout=PATIENCE)
    assert (process.returncode, out.decode()) == (0, "ein Haus\n\nHund\n") and b"tokens/s" in err
    process = begun("generate", folders["endless"], "-p", "abc", "--window", "-l", 10**6)
    assert process.stdout.read(3) == b"abc"
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(timeout=PATIENCE) in (0, 1)
    process.stderr.close()
