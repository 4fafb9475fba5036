"""A pass as one file: every number in it is the trace's own, it loads nothing, and it says what it left out."""

import base64
import functools
import gzip
import json
import re

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from typer.testing import CliRunner

from clearhead.cli import explain
from clearhead.data import word_tokenizer
from clearhead.errors import ClearheadError
from clearhead.models import create
from clearhead.runs import save
from clearhead.runs.places import MINILM, located
from clearhead.studio import core, share, share_page
from clearhead.studio.core import Settings, Studio
from clearhead.studio.schema import Inputs, PassWanted
from clearhead.studio.share import AROUND, BETWEEN, INSIDE, LOOKS, WEIGHTS, WIDE, document, wanted_of
from tests.unit.studio.asking import matrix, passed, problem

INDEX = """<!doctype html><html><head><meta charset="utf-8"><title>studio</title><link rel="icon" href="data:," />
<link rel="modulepreload" href="./assets/app.js"><script type="module" crossorigin src="./assets/app.js"></script>
<link rel="stylesheet" crossorigin href="./assets/app.css"></head><body><div id="app"></div></body></html>"""
CODE = 'const end = "</script><!-- </body> -->"; document.title = end;'
STYLE = (
    "@font-face { src: url('./font.woff2?v=1#x') } p { fill: url(#spot); background: url(data:image/png;base64,AA) }"
)


@pytest.fixture
def page(tmp_path):
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "app.js").write_text(CODE)
    (folder / "assets" / "app.css").write_text(STYLE)
    (folder / "assets" / "font.woff2").write_bytes(b"font")
    return folder


def inside(text):
    """The document that a page carries, as a browser would find it."""
    found = re.search(r'<script type="application/json" id="clearhead-shared">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


def unpacked(entry):
    of = {"float32": "<f4", "float16": "<f2"}[entry["dtype"]]
    values = np.frombuffer(gzip.decompress(base64.b64decode(entry["data"])), of).astype(np.float32)
    return torch.from_numpy(values.reshape(entry["rows"], entry["columns"]))


def keys(said):
    return {
        (one["key"].removesuffix(".T"), head)
        for step in said["steps"]
        for one in (*step["operands"], step["result"])
        for head in range(one["heads"])
    }


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        ("random:deck", {"text": "This is Computer Vision Class"}),
        ("random:transformer-mini", {"source": "I love you", "target": "<script> </script>"}),
        ("random:vit-mini", {"picture": "digits/test/3"}),
        ("random:t5-mini", {"source": "I love", "target": "you"}),
    ],
)
def test_every_matrix_of_the_table_is_in_the_page_bit_by_bit(studio, page, model, inputs):
    client = studio(page=page)
    said = passed(client, model, **inputs)
    answer = client.get(f"/api/passes/{said['id']}/share")
    assert "attachment" in answer.headers["content-disposition"]
    told = inside(answer.text)
    assert told["pass"] == said | {"model": said["model"] | {"folder": None}}
    assert (told["left_out"], told["digits"], told["format"]) == ([], "float32", 1)
    assert {tuple(name.rsplit("|", 1)) for name in told["matrices"]} == {(key, str(n)) for key, n in keys(said)}
    for name, entry in told["matrices"].items():
        key, head = name.rsplit("|", 1)
        assert torch.equal(unpacked(entry), matrix(client, said["id"], key, head=head)), name
    assert (told["picture"] is None) == ("picture" not in inputs)


def test_the_page_has_its_scripts_styles_and_fonts_inside_and_may_load_nothing(studio, page):
    client = studio(page=page)
    said = passed(client, "random:deck", text="This is Class")
    text = client.get(f"/api/passes/{said['id']}/share").text
    assert 'src="' not in text
    assert not re.search(r"(?:src|href)=\"(?!data:)", text)
    assert "connect-src" not in share_page.ALONE
    assert f'http-equiv="Content-Security-Policy" content="{share_page.ALONE}"' in text
    assert 'const end = "<\\/script><\\!-- </body> -->"' in text
    assert f"url(data:font/woff2;base64,{base64.b64encode(b'font').decode()})" in text
    assert "url(#spot)" in text
    assert "<title>deck: a pass in clearhead</title>" in text
    assert text.index('id="clearhead-shared"') < text.index("const end")
    assert "deck are random" in text.partition('id="clearhead-shared-notes"')[2].partition("</aside>")[0]


def test_a_page_that_is_not_built_says_how_in_one_line(studio, tmp_path):
    client = studio(page=tmp_path / "none")
    said = passed(client, "random:deck", text="This is Class")
    assert "npm run build" in problem(client.get(f"/api/passes/{said['id']}/share"), 400)
    assert problem(client.get("/api/passes/none/share"), 404)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("index.html", "<html><head></head><body></body></html>", "not the studio's page"),
        ("index.html", INDEX.replace("./assets/app.js", "../secret.js"), "not in it"),
        ("assets/app.css", "p { background: url(../../secret.png) }", "not in it"),
        ("assets/app.js", 'import("./other.js")', "several scripts"),
    ],
)
def test_a_bundle_that_is_not_whole_is_refused(page, file, text, said):
    (page.parent / "secret.js").write_text("1")
    (page.parent / "secret.png").write_text("1")
    (page / file).write_text(text)
    with pytest.raises(ClearheadError, match=said):
        share_page.bundle(page)


# ------------------------------------------------------------------------------------------ too large


@pytest.fixture(scope="module")
def kept():
    """A GPT of two layers, whose pass takes about 600 kB."""
    studio = Studio(Settings())
    said = studio.passes.make(PassWanted(model="random:gpt-mini", inputs=Inputs(text="I love you " * 20)))
    return studio.passes.get(said.id), studio.passes.matrices(said.id)


def order(kept):
    return {one.key: one.order for one in wanted_of(kept[0].said)}


def gone(told):
    return [one["key"] for one in told["left_out"]]


def test_weights_go_first_the_largest_of_them(kept):
    whole = len(json.dumps(document(*kept, 10**7)))
    told = document(*kept, whole - 10_000)
    assert told["digits"] == "float32"
    assert {key.partition(":")[0] for key in gone(told)} == {"weight"}
    sizes = {one.key: one.cells for one in wanted_of(kept[0].said) if one.kind == "weight"}
    kept_weights = {name.rpartition("|")[0] for name in told["matrices"]} & sizes.keys()
    assert min(sizes[key] for key in gone(told)) >= max(sizes[key] for key in kept_weights)
    assert any(line.startswith(f"Weights left out ({len(gone(told))}): ") for line in told["notes"])
    assert any("more than 10 MB" in line for line in told["notes"])


def test_then_digits_then_scores_of_later_layers_and_every_page_is_as_small_as_asked(kept):
    places, whole = order(kept), len(json.dumps(document(*kept, 10**7)))
    least = len(kept[0].said.model_dump_json()) * 5 // 4
    seen = []
    for room in range(whole, least + 20_000, -25_000):
        told = document(*kept, room)
        assert len(json.dumps(told, separators=(",", ":"))) <= room + 20_000  # beside the document: what is left out
        missing = {places[key][0] for key in gone(told)}
        seen.append((told["digits"], frozenset(missing)))
        if told["digits"] == "float16":
            assert "16 bits" in told["notes"][0]
            assert {entry["dtype"] for entry in told["matrices"].values()} == {"float16"}
        if LOOKS in missing:
            assert {INSIDE, BETWEEN, WIDE, WEIGHTS} <= missing
        scores = [places[key][1] for key in gone(told) if places[key][0] == BETWEEN]
        if scores and INSIDE not in missing:
            assert max(scores) == kept[0].said.model.layers - 1
    digits = [one for one, _ in seen]
    assert set(digits) == {"float32", "float16"}
    assert digits == sorted(digits, reverse=True)  # once they have 16 bits, they keep them
    assert any(BETWEEN in missing and INSIDE not in missing for _, missing in seen)
    assert any(INSIDE in missing for _, missing in seen)
    assert not any(AROUND in missing for _, missing in seen)


def test_what_stays_in_16_bits_is_the_traces_number_rounded(kept):
    least = len(kept[0].said.model_dump_json()) * 5 // 4
    told = document(*kept, least + 150_000)
    assert told["digits"] == "float16"
    for name, entry in told["matrices"].items():
        key, _, head = name.rpartition("|")
        assert torch.equal(unpacked(entry), kept[1].get(key, int(head)).half().float())


def test_numbers_that_16_bits_can_not_hold_keep_32_and_infinities_stay():
    large = share._entry(torch.tensor([[1e6, float("-inf")]]), "float16")
    assert large["dtype"] == "float32"
    assert torch.equal(unpacked(large), torch.tensor([[1e6, float("-inf")]]))
    small = share._entry(torch.tensor([[1.0, float("-inf")]]), "float16")
    assert small["dtype"] == "float16"
    assert torch.equal(unpacked(small), torch.tensor([[1.0, float("-inf")]]))


def test_a_page_too_small_for_one_step_is_refused(kept):
    with pytest.raises(ClearheadError, match="shorten the input"):
        document(*kept, 100)


def test_what_the_trace_itself_left_out_is_said(page):
    studio = Studio(Settings(page=page, trace_bytes=200_000))
    said = studio.passes.make(PassWanted(model="random:gpt-mini", inputs=Inputs(text="I love you " * 20)))
    assert said.left_out
    _, told = share_page.shared_page(studio.passes, said.id, page)
    assert {f"site:{site}" for site in said.left_out} & set(gone(told))
    assert any("to save memory" in line for line in told["notes"])


def test_a_large_model_makes_a_page_below_ten_megabytes(page, tmp_path):
    tok = word_tokenizer([" ".join(f"w{n}" for n in range(5000))])
    sizes = {"width": 256, "layers": 6, "heads": 8, "vocab": tok.size, "context": 256}
    folder = save(create("gpt2", seed=0, device="cpu", **sizes), tmp_path / "large", tokenizer=tok)
    studio = Studio(Settings(runs=(str(folder),), page=page))
    said = studio.passes.make(PassWanted(model="large", inputs=Inputs(text="w1 w2 " * 60)))
    text, told = share_page.shared_page(studio.passes, said.id, page)
    assert 5e6 < len(text.encode()) <= 10e6
    assert told["left_out"]


# ------------------------------------------------------------------------------------------ the command


@pytest.fixture
def run(monkeypatch, page):
    monkeypatch.setattr(core, "Settings", functools.partial(Settings, page=page))
    cli = typer.Typer()
    cli.command()(explain.command)

    def call(*words):
        return CliRunner().invoke(cli, list(map(str, words)))

    return call


def test_explain_writes_one_page(run, tmp_path, letters_run):
    out = tmp_path / "out" / "page.html"
    done = run(letters_run, "abc", "-o", out)
    assert done.exit_code == 0, done.output
    told = inside(out.read_text())
    assert [token["shown"] for token in told["pass"]["tokens"]["tokens"]] == ["a", "b", "c"]
    assert told["pass"]["model"]["random"] is False
    assert "MB" in done.output


def test_explain_takes_pairs_pictures_and_examples(run, tmp_path, translator_run, vit_run):
    out = tmp_path / "page.html"
    assert run(translator_run, "the cat", "--target", "das Katze", "-o", out).exit_code == 0
    assert inside(out.read_text())["pass"]["inputs"]["target"] == "das Katze"
    Image.new("RGB", (20, 20), "red").save(tmp_path / "red.png")
    assert run(vit_run, tmp_path / "red.png", "-o", out).exit_code == 0
    assert inside(out.read_text())["picture"].startswith("data:image/png")
    done = run("deck", "-o", out)
    assert done.exit_code == 0, done.output
    assert "random" in done.output


def test_explain_as_json_is_one_line_that_tells_the_file_and_what_is_missing_in_it(run, tmp_path, letters_run):
    out = tmp_path / "page.html"
    done = run(letters_run, "abc", "-o", out, "--json")
    assert (done.exit_code, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    said, told = json.loads(done.stdout), inside(out.read_text())
    assert (said["file"], said["bytes"]) == (str(out), out.stat().st_size)
    assert (said["steps"], said["random"]) == (len(told["pass"]["steps"]), False)
    assert (said["left_out"], said["notes"], said["digits"]) == (told["left_out"], told["notes"], told["digits"])


def test_explain_as_json_names_every_matrix_that_did_not_fit(run, tmp_path, letters_run, monkeypatch):
    monkeypatch.setattr(share_page, "LARGEST_PAGE", 80_000)
    said = json.loads(run(letters_run, "abcdefgh", "-o", tmp_path / "page.html", "--json").stdout)
    assert said["bytes"] <= 80_000
    assert {one["why"] for one in said["left_out"]} == {share.ROOM}
    assert all(one["key"].startswith(("weight:", "site:", "derived:")) for one in said["left_out"])


def test_explain_says_what_it_is_doing_where_somebody_sees_it_and_nothing_beside_json(
    run, tmp_path, letters_run, monkeypatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, a terminal
    out = tmp_path / "page.html"
    done = run(letters_run, "abc", "-o", out)
    assert "writing" in done.stderr  # what it does last is drawn in any case, what is over sooner need not be
    assert "writing" not in done.stdout and "MB" in done.stdout
    assert run(letters_run, "abc", "-o", out, "--json").stderr == ""


def test_where_the_checkpoint_lies_on_this_machine_is_not_told(run, tmp_path, letters_run):
    out = tmp_path / "page.html"
    assert run(letters_run, "abc", "-o", out).exit_code == 0
    assert inside(out.read_text())["pass"]["model"]["folder"] is None
    assert str(letters_run.parent) not in out.read_text()


def test_weights_that_a_package_carries_go_by_their_name(run, tmp_path):
    try:
        located(MINILM)
    except ClearheadError as missing:
        pytest.skip(str(missing))
    done = run(MINILM, "It was tired.", "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert f"steps of {MINILM}; open it in a browser" in done.output
    assert inside((tmp_path / "page.html").read_text())["pass"]["model"]["name"] == MINILM


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "no folder and no model called 'nothing': `clearhead models` lists"),
        (["gpt-min"], "did you mean 'gpt-mini'"),
        (["deck", "--target", "x"], "go with an INPUT"),
        (["deck", "I", "--target", "x"], "not a target"),
        (["vit-ti16", "none.png"], "takes a picture, and there is no file none.png"),
        (["deck", ""], "empty"),
    ],
)
def test_what_explain_can_not_do_it_says_in_one_line_and_writes_nothing(run, tmp_path, words, said):
    done = run(*words, "-o", tmp_path / "page.html")
    assert isinstance(done.exception, ClearheadError)
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "page.html").exists()
