"""The page: what a run's folder says is on it, escaped, and nothing is fetched from anywhere."""

import json
import re
from html.parser import HTMLParser

import pytest
import torch

from clearhead.analyse import AttentionMap, AttentionRow
from clearhead.errors import ClearheadError
from clearhead.models.vit import ViTConfig
from clearhead.report import write_report
from clearhead.report.sample_kinds import (
    LanguageSample,
    MaskedSample,
    PictureSample,
    QuestionSample,
    TextSample,
    TranslationSample,
)
from clearhead.tasks import Alignment, Filled, Guess, Span
from clearhead.train.loop import Run, train
from clearhead.train.settings import Settings
from clearhead.train.task import Batching
from tests.unit.train.toy import ToySpec

EVIL = '<script>alert("&")</script>'
VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Every tag is closed in order; tags and their attributes are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def folder_of(place, **files):
    place.mkdir(exist_ok=True)
    for name, content in files.items():
        (place / name.replace("_", ".")).write_text(content)
    return place


def look(*tokens: str) -> AttentionRow:
    weights = torch.arange(1.0, 2 * len(tokens) + 1).reshape(2, -1)
    return AttentionRow(tokens[0], tokens, weights / weights.sum(1, keepdim=True), "encoder.blocks.1.attention.weights")


def every_sample(text: str) -> list:
    attention = torch.rand(2, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    config = ViTConfig(image=8, patch=4, width=12, heads=3, channels=1)
    map_ = AttentionMap("decoder.blocks.0.attention.weights", 0, torch.full((2, 2, 2), 0.5), (text, "b"), (text, "b"))
    return [
        PictureSample(torch.zeros(1, 8, 8, dtype=torch.uint8), text, "b", 0.5, attention, config),
        TextSample((text, "second"), text, "b", 0.25, look("[CLS]", text)),
        TextSample(text, "3.1", "2.9", None, look("[CLS]", text)),
        LanguageSample(text, text, text, map_, text),
        TranslationSample(text, text, text, Alignment((text,), ("b",), torch.ones(1, 1))),
        MaskedSample(text, (text,), Filled(text, ((Guess(text, (1,), 0.5),),)), (look(text, "b"),)),
        QuestionSample(text, text * 2, (text,), Span(text, 0, len(text), 0.5, 1.0), True, 1.0, look(text, "b")),
        QuestionSample(text, text * 2, (text,), Span(text, 0, len(text), 0.5, 1.0), False, 0.5, None),
    ]


def test_a_run_of_the_loop_has_curves_figures_settings_and_threads_on_its_page(tmp_path):
    run = Run("toy", ToySpec(), Settings(steps=30, batching=Batching(size=8), device="cpu", log_every=2))
    outcome = train(run, tmp_path)
    page = write_report(tmp_path).read_text()
    checker = checked(page)
    for part, figures in outcome.figures.items():
        assert part in checker.text
        for name, value in figures.items():
            assert name in checker.text and f"{value:.4f}" in checker.text and repr(value) in page
    labels = [attributes.get("aria-label") for tag, attributes in checker.seen if tag == "svg"]
    assert {"loss over steps", "rate over steps", "norm over steps"} <= set(labels)
    for line in map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines()):
        if "valid/loss" in line:
            assert f"valid at step {line['step']}: " in page
    told = json.loads((tmp_path / "result.json").read_text())["machine"]
    assert set(told) <= set(checker.text) and {str(value) for value in told.values()} <= set(checker.text)
    assert "machine" not in checker.text  # it is no part of the data


def test_a_run_that_is_not_finished_has_the_threads_and_processes_of_its_last_state(tmp_path):
    record = tmp_path / "state" / "00000010" / "state.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"values": {"threads": 17, "world": 5}}))
    text = checked(write_report(folder_of(tmp_path, run_yaml="name: x\n")).read_text()).text
    assert text[text.index("threads") + 1] == "17" and text[text.index("processes") + 1] == "5"


def test_the_configuration_is_a_table_of_what_run_yaml_holds(tmp_path):
    yaml = "name: mine\ntask: {kind: pictures, fields: {width: 48}}\nsettings:\n  optimiser: {betas: [0.9, 0.999]}\n"
    page = write_report(folder_of(tmp_path, run_yaml=yaml)).read_text()
    text = checked(page).text
    for key, value in (("fields.width", "48"), ("optimiser.betas", "[0.9, 0.999]"), ("kind", "pictures")):
        assert text[text.index(key) + 1] == value
    assert "not finished: 0 steps so far" in page


def test_nothing_is_fetched_and_nothing_runs(tmp_path):
    result = json.dumps({"run": "r", "steps": 3, "seconds": 1.5, "test": {"accuracy": 1.0}})
    page = write_report(folder_of(tmp_path, result_json=result), every_sample("plain")).read_text()
    checker = checked(page)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in checker.seen}
    addresses = [v for _, a in checker.seen for k, v in a.items() if k in ("src", "href", "xlink:href")]
    assert addresses and all(str(address).startswith("data:image/png;base64,") for address in addresses)
    assert "http:" not in page and "https:" not in page and "@import" not in page
    assert not [k for _, a in checker.seen for k in a if k.startswith("on")]
    assert "default-src 'none'" in page and "prefers-color-scheme:dark" in page
    assert set(re.findall(r"url\(([^)]*)\)", page)) == {"#hatch"}


def test_text_from_data_names_and_files_is_escaped(tmp_path):
    quoted = json.dumps(EVIL)
    files = {
        "run_yaml": f"name: {quoted}\ntask: {{kind: {quoted}, {quoted}: {quoted}}}\n",
        "metrics_jsonl": json.dumps({"step": 1, EVIL: 1.0}) + "\n" + json.dumps({"step": 2, EVIL: 2.0}) + "\n",
        "result_json": json.dumps({"run": EVIL, EVIL: EVIL, "part": {EVIL: EVIL}}),
    }
    page = write_report(folder_of(tmp_path, **files), every_sample(EVIL)).read_text()
    checker = checked(page)
    assert "<script" not in page and "script" not in {tag for tag, _ in checker.seen}
    assert EVIL in "".join(checker.text)


def test_every_kind_of_sample_is_on_the_page_with_its_numbers(tmp_path):
    page = write_report(folder_of(tmp_path, run_yaml="name: x\n"), every_sample("word")).read_text()
    text = "".join(checked(page).text)
    assert "b, 50.0%" in text and "truly word" in text  # the picture
    assert "attention of the last of 2 layers, mean of its 3 heads" in text and "layer 2" in text and "head 3" in text
    assert "b, 25.0%" in text and "word | second" in text
    assert "where the model looked when it chose its last token" in text
    assert "Each written token and where it looked in the source" in text
    assert "word 50.0%" in text
    assert "<mark>word</mark>word" in page and "F1 0.5" in text and "Read in several windows" in text
    assert "7 predictions, 3 of them wrong, these first." in text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (("[CLS]", "play", "##ing", "."), "[CLS] playing ."),
        (("The", " cat", "\n", "sat"), "The cat\nsat"),
        (("A", "B", "C"), "ABC"),
    ],
)
def test_a_text_under_attention_reads_as_it_is_written(tmp_path, tokens, text):
    sample = TextSample("x", "a", "b", 0.5, look(*tokens))
    page = write_report(folder_of(tmp_path, run_yaml="name: x\n"), [sample]).read_text()
    strip = page[page.index('<p class="strip">') :]
    assert "".join(checked(strip[: strip.index("</p>") + 4]).text) == text


def test_figures_that_never_change_are_said_in_a_line_and_not_drawn(tmp_path):
    lines = [{"step": n, "loss": 1.0 / n, "valid/tokens": 512.0} for n in (1, 2, 3)]
    page = write_report(folder_of(tmp_path, metrics_jsonl="".join(json.dumps(x) + "\n" for x in lines))).read_text()
    assert "The same throughout: tokens 512." in page and "tokens over steps" not in page


def test_figures_that_were_no_numbers_leave_a_gap_and_a_line_that_was_cut_is_left_out(tmp_path):
    lines = '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": null}\n{"step": 3, "loss": 1.0}\n{"step": 4, "lo'
    page = write_report(folder_of(tmp_path, metrics_jsonl=lines)).read_text()
    assert "not finished: 3 steps so far" in page and "nan" not in page.lower().replace("nanum", "")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is not the folder of a run"),
        ({"run_yaml": "a: [1"}, "not valid YAML"),
        ({"run_yaml": "- 1\n"}, "does not describe a run"),
        ({"result_json": "[]"}, "must hold a JSON object"),
        ({"metrics_jsonl": '{"step": }\n'}, "a line of it is no JSON"),
        ({"metrics_jsonl": '{"loss": 1}\n'}, "without a step"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_line_and_nothing_is_written(tmp_path, files, message):
    with pytest.raises(ClearheadError, match=message) as problem:
        write_report(folder_of(tmp_path / "run", **files))
    assert "\n" not in str(problem.value)
    assert not list((tmp_path / "run").glob("*report*"))


def test_writing_again_replaces_the_page_and_gives_the_same_bytes(tmp_path):
    place = folder_of(tmp_path, run_yaml="name: x\n")
    first = write_report(place, every_sample("a")).read_bytes()
    assert write_report(place, every_sample("a")).read_bytes() == first
    assert write_report(place, every_sample("b")).read_bytes() != first
    assert sorted(file.name for file in place.iterdir()) == ["report.html", "run.yaml"]
