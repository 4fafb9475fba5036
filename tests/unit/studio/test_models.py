"""The list of models: run folders given and found, small random architectures, and what can't be opened."""

import json
import pickle

import clearhead
from clearhead.models import create
from clearhead.runs.places import CARRIED
from clearhead.studio.shelf import ARCHITECTURES, KEPT
from tests.unit.studio.asking import passed, problem, refused
from tests.writers import letters


def cards(client) -> dict[str, dict]:
    return {card["id"]: card for card in client.get("/api/models").json()}


def test_random_architectures_of_every_family_are_offered_and_marked(studio):
    offered = cards(studio())
    offered = {id: card for id, card in offered.items() if id not in CARRIED}
    assert list(offered) == [f"random:{name}" for name in ARCHITECTURES]
    assert {card["family"] for card in offered.values()} == {"transformer", "gpt", "bert", "t5", "vit"}
    assert all(card["random"] and card["seed"] == 0 and card["folder"] is None for card in offered.values())


def test_every_offered_example_runs(studio):
    client = studio()
    for id, card in cards(client).items():
        inputs = {name: value for name, value in card["example"].items() if value is not None}
        assert passed(client, id, **inputs)["model"] == card


def test_a_run_that_was_given_comes_first_with_its_size_and_figures(studio, letters_run):
    (letters_run / "result.json").write_text(
        json.dumps({"steps": 3, "machine": {"threads": 2}, "test": {"accuracy": 0.5, "n": None}})
    )
    client = studio(letters_run)
    first = client.get("/api/models").json()[0]
    model = clearhead.load(letters_run, device="cpu")
    assert (first["id"], first["family"], first["random"]) == ("letters", "gpt", False)
    assert (first["parameters"], first["context"]) == (model.parameter_count, 16)
    assert first["figures"] == {"test/accuracy": 0.5}


def test_runs_below_the_folder_of_runs_are_found_also_deeper(studio, tmp_path):
    letters(tmp_path / "runs" / "one")
    letters(tmp_path / "runs" / "study" / "two")
    (tmp_path / "runs" / "unfinished").mkdir()
    found = [id for id in cards(studio(root=tmp_path / "runs")) if not id.startswith("random:") and id not in CARRIED]
    assert found == ["one", "two"]


def test_a_link_out_of_the_folder_of_runs_is_not_followed(studio, tmp_path):
    letters(tmp_path / "elsewhere")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    assert "link" not in cards(studio(root=tmp_path / "runs"))


def test_two_folders_of_one_name_have_two_ids(studio, tmp_path):
    places = [letters(tmp_path / part / "run") for part in "ab"]
    ids = [id for id in cards(studio(*places)) if not id.startswith("random:") and id not in CARRIED]
    assert ids[0] == "run"
    assert ids[1].startswith("run~")
    assert len(ids) == 2


def test_a_checkpoint_of_an_unknown_kind_is_listed_with_its_problem_and_opens_with_words(studio, tmp_path):
    place = letters(tmp_path / "odd")
    (place / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    client = studio(place)
    card = cards(client)["odd"]
    assert card["family"] == "unknown"
    assert "mamba" in card["problem"]
    assert "mamba" in refused(client, 400, "odd", text="abc")


def test_a_broken_folder_does_not_hide_the_others(studio, tmp_path, letters_run):
    empty = tmp_path / "empty"
    empty.mkdir()
    offered = cards(studio(empty, letters_run))
    assert offered["empty"]["problem"]
    assert offered["letters"]["problem"] is None


def test_a_pickle_in_a_checkpoints_place_is_not_run(studio, tmp_path):
    place = letters(tmp_path / "evil")
    (place / "model.safetensors").unlink()

    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "was-run"), "w")

    (place / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    client = studio(place)
    assert cards(client)["evil"]["problem"]
    refused(client, 400, "evil", text="abc")
    assert not (tmp_path / "was-run").exists()


def test_an_architectures_name_is_opened_with_random_weights(studio):
    offered = cards(studio("vit-c10"))
    assert next(iter(offered)) == "random:vit-c10"
    assert offered["random:vit-c10"]["parameters"] == create("vit-c10", device="meta").parameter_count


def test_a_model_is_looked_up_never_used_as_a_path(studio, letters_run):
    client = studio(letters_run)
    for id in (str(letters_run), "../letters", "random:../../x", "letters/", "hf:owner/name", "\0"):
        assert "no model" in refused(client, 404, id, text="abc")


def test_a_checkpoint_that_was_trained_on_is_read_again(studio, tmp_path):
    place = letters(tmp_path / "run")
    client = studio(place)
    before = passed(client, "run", text="abc")
    letters(tmp_path / "run", "abcdefhg")
    after = passed(client, "run", text="abc")
    assert before["id"] == after["id"]
    assert before["predictions"][-1]["top"][0]["text"] == "d"
    letters(tmp_path / "run", "abcedfhg")
    assert passed(client, "run", text="abc")["predictions"][-1]["top"][0]["text"] == "e"


def test_matrices_of_a_pass_whose_checkpoint_has_changed_are_refused(studio, tmp_path):
    place = letters(tmp_path / "run")
    client = studio(place)
    id = passed(client, "run", text="abc")["id"]
    letters(tmp_path / "run", "abcedfhg")
    answer = client.get(f"/api/passes/{id}/matrix", params={"key": "weight:input.tokens"})
    assert "changed" in problem(answer, 404)


def test_only_so_many_models_stay_loaded(studio):
    client = studio()
    for id in list(cards(client))[: KEPT + 2]:
        client.app.state.studio.shelf.open(id)
    assert len(client.app.state.studio.shelf._opened) == KEPT
