"""A pass has the numbers that `record` has; passes don't mix, are bounded, and what was dropped is said."""

import threading

import pytest
import torch

import clearhead
from clearhead.models import create
from clearhead.studio.passes import THUMBNAIL
from clearhead.tasks import record
from tests.support import difference
from tests.unit.studio.asking import matrix, numbers, passed, problem, refused

SENTENCE = "This is Computer Vision Class"
EXAMPLES = {
    "random:deck": {"text": SENTENCE},
    "random:gpt-mini": {"text": "The animal didn't cross"},
    "random:bert-mini": {"text": "This is [MASK]", "second": "it was tired"},
    "random:transformer-mini": {"source": "how are you", "target": "I love it"},
    "random:t5-mini": {"source": "how are you", "target": "I love it"},
    "random:vit-mini": {"picture": "digits/test/3"},
}


def test_a_text_gives_the_numbers_of_record_bit_for_bit(studio, letters_run):
    client, trace = studio(letters_run), record(clearhead.load(letters_run, device="cpu"), "abcd")
    said = passed(client, "letters", text="abcd")
    for site, value in trace.items():
        rows = value[0] if value.ndim > 2 else value
        if value.ndim == 4:
            for head, expected in enumerate(rows):
                assert torch.equal(matrix(client, said["id"], f"site:{site}", head=head), expected)
        elif value.ndim == 3:
            assert torch.equal(matrix(client, said["id"], f"site:{site}"), rows)
    assert said["path"] == "reference"
    assert (said["left_out"], said["cut"], said["dropped"], said["notes"]) == ([], None, [], [])


def test_a_pair_and_a_picture_give_the_numbers_of_record(studio, translator_run, vit_run, tmp_path):
    client = studio(translator_run, vit_run)
    said = passed(client, "translator", source="the cat sees", target="das Katze")
    trace = record(clearhead.load(translator_run, device="cpu"), ("the cat sees", "das Katze"))
    assert torch.equal(matrix(client, said["id"], "site:logits"), trace["logits"][0])
    picture = _picture(tmp_path)
    sent = client.post("/api/pictures", content=picture.read_bytes()).json()
    said = passed(client, "vit", picture=sent["picture"])
    trace = record(clearhead.load(vit_run, device="cpu"), picture)
    assert torch.equal(matrix(client, said["id"], "site:encoder.norm.normed"), trace["encoder.norm.normed"][0])
    assert torch.equal(matrix(client, said["id"], "site:logits"), trace["logits"])


def _picture(folder):
    from PIL import Image

    pixels = torch.randint(256, (20, 30, 3), dtype=torch.uint8).numpy()
    Image.fromarray(pixels).save(folder / "picture.png")
    return folder / "picture.png"


@pytest.mark.parametrize(("model", "inputs"), EXAMPLES.items())
def test_every_matrix_of_every_step_can_be_read_and_has_the_shape_that_is_told(studio, model, inputs):
    client = studio()
    said = passed(client, model, **inputs)
    matrices = {one["key"]: one for step in said["steps"] for one in (*step["operands"], step["result"])}
    assert matrices
    for key, told in matrices.items():
        values = matrix(client, said["id"], key, head=told["heads"] - 1)
        assert tuple(values.shape) == (told["rows"]["size"], told["columns"]["size"])
    assert said["nodes"]
    assert said["equal_to_fused"] < 1e-5


def test_a_slice_holds_those_rows_and_columns_and_the_range_is_of_the_whole(studio):
    client = studio()
    id, key = passed(client, "random:deck", text=SENTENCE)["id"], "site:decoder.blocks.0.attention.masked"
    whole = matrix(client, id, key)
    answer = client.get(f"/api/passes/{id}/matrix", params={"key": key, "rows": "1:4", "columns": "2:5"})
    assert torch.equal(numbers(answer, [3, 3]), whole[1:4, 2:5])
    finite = whole[whole.isfinite()]
    assert answer.headers["x-shape"] == "5,5"
    assert answer.headers["x-slice"] == "1,4,2,5"
    assert [float(end) for end in answer.headers["x-range"].split(",")] == [finite.min().item(), finite.max().item()]
    assert answer.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rows": "0:6"}, "within the 5"),
        ({"rows": "3:3"}, "within the 5"),
        ({"columns": "-1:2"}, "a:b"),
        ({"columns": "all"}, "a:b"),
        ({"rows": "0:99999999999"}, "a:b"),
        ({"head": 7, "key": "site:decoder.blocks.0.attention.query"}, "no head 7"),
        ({"head": -1, "key": "site:decoder.blocks.0.attention.query"}, "no head -1"),
        ({"key": "site:nowhere"}, "not recorded"),
        ({"key": "file:/etc/passwd"}, "site:"),
        ({"key": "weight:../x"}, "no matrix"),
        ({"key": "weight:__class__"}, "__class__"),
    ],
)
def test_a_matrix_that_there_is_not_is_refused_in_one_line(studio, asked, said):
    client = studio()
    id = passed(client, "random:gpt-mini", text=SENTENCE)["id"]
    answer = client.get(f"/api/passes/{id}/matrix", params={"key": "site:decoder.blocks.0.attention.scores"} | asked)
    assert said in problem(answer, 400)


def test_more_than_one_answer_holds_is_asked_for_in_parts(studio, monkeypatch):
    client = studio()
    id = passed(client, "random:deck", text=SENTENCE)["id"]
    monkeypatch.setattr("clearhead.studio.binary.LARGEST", 20)
    asked = {"key": "site:decoder.blocks.0.attention.scores"}
    assert "fewer rows" in problem(client.get(f"/api/passes/{id}/matrix", params=asked), 400)
    assert matrix(client, id, asked["key"], rows="0:4").shape == (4, 5)


def test_the_same_input_is_the_same_pass_and_a_link_finds_it_again(studio):
    client = studio()
    first, again = (passed(client, "random:deck", text=SENTENCE) for _ in range(2))
    assert first == again
    assert client.get(f"/api/passes/{first['id']}").json() == first
    assert passed(studio(), "random:deck", text=SENTENCE)["id"] == first["id"]
    assert passed(client, "random:deck", text=SENTENCE + " Class")["id"] != first["id"]


def test_the_recorded_path_differs_from_the_fast_one_by_as_much_as_is_told(studio, letters_run):
    said = passed(studio(letters_run), "letters", text="abcdefg")
    model = clearhead.load(letters_run, device="cpu")
    trace = record(model, "abcdefg")
    with torch.no_grad():
        fast = model(trace["input.ids"])
    assert said["equal_to_fused"] == (trace["logits"] - fast).abs().max().item()


def test_kept_traces_are_bounded_in_bytes_and_what_was_dropped_is_said(studio):
    size = record(create("deck", seed=0, device="cpu"), SENTENCE).nbytes
    client = studio(trace_bytes=int(2.5 * size))
    texts = (SENTENCE, "This is Computer Vision it", "This is Computer Vision was")
    first, second, third = (passed(client, "random:deck", text=text) for text in texts)
    assert (first["dropped"], second["dropped"], third["dropped"]) == ([], [], [first["id"]])
    assert "forgotten" in problem(client.get(f"/api/passes/{first['id']}"), 404)
    asked = {"key": "site:logits"}
    assert "forgotten" in problem(client.get(f"/api/passes/{first['id']}/matrix", params=asked), 404)
    assert client.app.state.studio.passes.nbytes <= 2.5 * size
    back = passed(client, "random:deck", text=SENTENCE)
    assert back["id"] == first["id"]
    assert back["dropped"] == [second["id"]]


def test_a_pass_that_was_looked_at_lately_is_not_the_one_that_is_dropped(studio):
    size = record(create("deck", seed=0, device="cpu"), SENTENCE).nbytes
    client = studio(trace_bytes=int(2.5 * size))
    first, second = (passed(client, "random:deck", text=f"This is Computer Vision {word}") for word in ("Class", "it"))
    client.get(f"/api/passes/{first['id']}")
    assert passed(client, "random:deck", text="This is Computer Vision was")["dropped"] == [second["id"]]


def test_a_trace_that_does_not_fit_says_what_was_left_out(studio):
    client = studio(trace_bytes=4000)
    said = passed(client, "random:deck", text=SENTENCE)
    whole = record(create("deck", seed=0, device="cpu"), SENTENCE, max_bytes=4000)
    assert said["left_out"] == list(whole.left_out)
    assert said["left_out"]
    answer = client.get(f"/api/passes/{said['id']}/matrix", params={"key": f"site:{said['left_out'][0]}"})
    assert "left out" in problem(answer, 400)
    assert said["predictions"]


def test_a_pass_that_never_was_is_told_apart_from_one_that_was_dropped(studio):
    assert "no such pass" in problem(studio().get("/api/passes/0123456789"), 404)


def test_passes_of_two_tabs_at_once_do_not_mix(studio):
    client = studio()
    texts = ["This is Class", "I love you", "The animal was too tired", "how are you"] * 2
    alone = {text: record(create("deck", seed=0, device="cpu"), text)["logits"][0] for text in texts}
    found: dict[int, torch.Tensor] = {}
    together = threading.Barrier(len(texts))

    def tab(number: int) -> None:
        together.wait()
        said = passed(client, "random:deck", text=texts[number])
        found[number] = matrix(client, said["id"], "site:logits")

    tabs = [threading.Thread(target=tab, args=(number,)) for number in range(len(texts))]
    for one in tabs:
        one.start()
    for one in tabs:
        one.join()
    assert all(torch.equal(found[number], alone[text]) for number, text in enumerate(texts))


def test_thumbnails_of_a_short_text_are_the_attention_itself(studio):
    client, source = studio(), "how are you"
    said = passed(client, "random:transformer-mini", source=source, target="I love it")
    assert [kind["kind"] for kind in said["attention"]] == ["encoder", "decoder", "cross"]
    for kind in said["attention"]:
        answer = client.get(f"/api/attention/{said['id']}", params={"kind": kind["kind"]})
        shape = [kind["layers"], kind["heads"], kind["rows"]["size"], kind["columns"]["size"]]
        assert answer.headers["x-shape"] == ",".join(map(str, shape))
        part = "decoder.blocks.1.cross" if kind["kind"] == "cross" else f"{kind['kind']}.blocks.1.attention"
        assert torch.equal(numbers(answer, shape)[1, 1], matrix(client, said["id"], f"site:{part}.weights", head=1))


def test_thumbnails_of_a_long_text_are_averages(studio):
    client = studio()
    said = passed(client, "random:gpt-mini", text="it was " * 32)
    answer = client.get(f"/api/attention/{said['id']}", params={"kind": "decoder"})
    small = numbers(answer, [2, 2, THUMBNAIL, THUMBNAIL])
    whole = matrix(client, said["id"], "site:decoder.blocks.0.attention.weights")
    assert difference(small[0, 0], whole.unflatten(1, (32, 2)).mean(-1).unflatten(0, (32, 2)).mean(1)) < 1e-6


def test_thumbnails_of_what_was_left_out_are_no_numbers(studio):
    client = studio(trace_bytes=1000)
    said = passed(client, "random:deck", text=SENTENCE)
    assert "decoder.blocks.0.attention.weights" in said["left_out"]
    answer = client.get(f"/api/attention/{said['id']}", params={"kind": "decoder"})
    assert numbers(answer, [1, 1, 5, 5]).isnan().all()


def test_attention_that_a_pass_does_not_have_is_refused(studio):
    client = studio()
    id = passed(client, "random:deck", text=SENTENCE)["id"]
    assert "decoder" in problem(client.get(f"/api/attention/{id}", params={"kind": "cross"}), 404)
    assert "kind" in problem(client.get(f"/api/attention/{id}", params={"kind": "all"}), 422)


def test_a_text_has_no_picture(studio):
    client = studio()
    id = passed(client, "random:deck", text=SENTENCE)["id"]
    assert "no picture" in problem(client.get(f"/api/passes/{id}/picture"), 404)


def test_an_unknown_model_is_refused_with_the_nearest(studio):
    assert "random:deck" in refused(studio(), 404, "random:dek", text=SENTENCE)
