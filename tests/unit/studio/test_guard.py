"""Only a browser on this machine may ask, and only our own page may change something."""

import pytest

from clearhead.studio.guard import LARGEST_BODY, LARGEST_UPLOAD
from tests.unit.studio.asking import TOKEN, problem

WANTED = {"model": "random:deck", "inputs": {"text": "This is Class"}}


@pytest.fixture
def client(studio):
    return studio()


@pytest.mark.parametrize("host", ["127.0.0.1:8421", "localhost:1", "localhost", "127.0.0.1"])
def test_this_machine_is_answered_under_its_own_names(client, host):
    assert client.get("/api/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["example.com", "localhost.example.com", "127.0.0.1.nip.io", "0.0.0.0:8421", "localhost@evil", ""]
)
def test_a_foreign_name_that_points_here_is_refused(client, host):
    assert "localhost" in problem(client.get("/api/models", headers={"Host": host}), 403)


@pytest.mark.parametrize("origin", ["http://example.com", "null", "https://127.0.0.1:8421", "http://127.0.0.1:9999"])
def test_another_site_can_not_start_a_pass_even_with_the_token(client, origin):
    answer = client.post("/api/passes", json=WANTED, headers={"Origin": origin})
    assert "another site" in problem(answer, 403)


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], "ü"])
def test_without_the_token_nothing_is_started(client, token):
    answer = client.post("/api/passes", json=WANTED, headers={"X-Clearhead-Token": token.encode()})
    assert "token" in problem(answer, 403)


def test_our_own_page_and_a_program_with_the_token_may_start_a_pass(client):
    ours = {"Origin": "http://127.0.0.1:8421"}
    assert client.post("/api/passes", json=WANTED, headers=ours).status_code == 200
    assert client.post("/api/passes", json=WANTED).status_code == 200


def test_deleting_needs_the_token_too(client):
    assert "token" in problem(client.delete("/api/models", headers={"X-Clearhead-Token": ""}), 403)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client):
    text = "a" * (LARGEST_BODY + 1)
    answer = client.post("/api/passes", json={"model": "random:deck", "inputs": {"text": text}})
    assert "2 MB" in problem(answer, 413)


def test_a_body_that_does_not_say_its_size_is_bounded_too(client):
    chunks = (bytes(10**6) for _ in range(LARGEST_UPLOAD // 10**6 + 1))
    assert "25 MB" in problem(client.post("/api/pictures", content=chunks), 413)


def test_every_answer_tells_the_browser_to_load_nothing_from_elsewhere(client):
    for path in ("/", "/api/models", "/api/passes/none"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_a_failure_of_ours_is_told_in_words(client, monkeypatch):
    def broken():
        raise RuntimeError("no memory")

    monkeypatch.setattr(client.app.state.studio.shelf, "cards", broken)
    assert "no memory" in problem(client.get("/api/models"), 500)


def test_a_body_that_is_no_json_or_has_unknown_fields_is_refused_in_words(client):
    answer = client.post("/api/passes", content=b"{", headers={"Content-Type": "application/json"})
    assert "can't be read" in problem(answer, 422)
    extra = client.post("/api/passes", json=WANTED | {"secret": 1})
    assert "secret" in problem(extra, 422)
