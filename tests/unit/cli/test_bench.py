"""`clearhead bench`: a row of the speed table in a checkout, and one line elsewhere."""

import pytest
from typer.testing import CliRunner

from benchmarks import gpu
from clearhead import ClearheadError
from clearhead.cli import bench
from clearhead.cli.app import app


def call(*words: str):
    return CliRunner().invoke(app, ["bench", *words], standalone_mode=False)


def test_it_is_the_tables_script_with_one_row(monkeypatch):
    asked = []
    monkeypatch.setattr(gpu, "main", lambda words: asked.append(words) or 0)
    for words in (("gpt-train", "--json"), ("--graph",), ("translate", "--quick")):
        assert call(*words).exception is None
    assert asked == [["--rows=gpt-train", "--json"], ["--graph"], ["--rows=translate", "--quick"]]


def test_a_contestant_that_failed_is_an_exit_code(monkeypatch):
    monkeypatch.setattr(gpu, "main", lambda words: 1)
    assert call("gpt-train").return_value == 1


def test_an_unknown_row_is_told_in_one_line():
    result = call("gpt-fly", "--quick")
    assert isinstance(result.exception, ClearheadError) and "there is no row 'gpt-fly'" in str(result.exception)


def test_outside_a_checkout_one_line_says_where_benchmarks_are(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)
    with pytest.raises(ClearheadError, match="benchmarks live in a checkout") as caught:
        CliRunner().invoke(app, ["bench", "gpt-train"], standalone_mode=False, catch_exceptions=False)
    assert "\n" not in str(caught.value)
