"""Pictures to choose from and pictures that are sent: bounded, unpacked with care, and seen as the model sees them."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from clearhead.data.sets import open_set
from clearhead.studio import pictures as album
from tests.unit.studio.asking import passed, problem, refused


def png(width: int = 12, height: int = 8, seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    return written.getvalue()


def claimed(width: int, height: int) -> bytes:
    """A PNG that says it is this large and has nothing in it."""
    parts = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(b""))
    chunks = (struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def opened(answer) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/png"
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def test_a_sets_pictures_are_offered_with_their_labels(studio):
    offered = studio().get("/api/pictures", params={"set": "digits", "count": 3, "offset": 5}).json()
    labels = open_set("digits").parts["test"].labels[5:8].tolist()
    assert offered == [
        {"picture": f"digits/test/{5 + place}", "label": str(label)} for place, label in enumerate(labels)
    ]


def test_a_sets_picture_is_the_sets_own(studio):
    shown = opened(studio().get("/api/pictures/digits/valid/7"))
    assert np.array_equal(shown[..., 0], open_set("digits").parts["valid"].pixels[7, 0].numpy())


def test_the_sets_that_are_there_are_listed(studio, tmp_path):
    assert [one["name"] for one in studio(data=tmp_path).get("/api/sets").json()] == ["digits", "photographs"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/pictures?set=digit", "digits"),
        ("/api/pictures?set=cifar10", "no set of pictures"),
        ("/api/pictures?set=digits&part=all", "train, valid, test"),
        ("/api/pictures/digits/test/360", "360 pictures"),
        ("/api/pictures/photographs/sample/2", "2 photographs"),
        ("/api/pictures/upload/none", "send it again"),
        ("/api/pictures/..%2f..%2fetc/passwd/0", "nothing at"),
        ("/api/pictures/../../etc/passwd", "nothing at"),
    ],
)
def test_a_picture_that_there_is_not_is_refused(studio, tmp_path, path, said):
    assert said in problem(studio(data=tmp_path).get(path), 404)


@pytest.mark.parametrize("asked", ["count=0", "count=100000", "offset=-1"])
def test_so_many_pictures_are_not_offered_at_a_time(studio, asked):
    assert "at a time" in problem(studio().get(f"/api/pictures?set=digits&{asked}"), 400)


@pytest.mark.parametrize(
    "name", ["../../secret.png", "digits/test/x", "digits/test/-1", "/etc/passwd", "a/b/1", "²/²/²"]
)
def test_a_pass_on_a_picture_that_there_is_not_is_refused(studio, name):
    refused(studio(), 404, "random:vit-mini", picture=name)


def test_a_picture_that_was_sent_can_be_looked_at_and_run(studio):
    client, raw = studio(), png()
    sent = client.post("/api/pictures", content=raw, headers={"X-Name": "m%C3%A4h.png"}).json()
    assert (sent["name"], sent["width"], sent["height"]) == ("mäh.png", 12, 8)
    assert np.array_equal(
        opened(client.get(f"/api/pictures/{sent['picture']}")), np.asarray(Image.open(io.BytesIO(raw)))
    )
    seen = passed(client, "random:vit-mini", picture=sent["picture"])["picture"]
    assert seen["class_token"]
    assert seen["name"] == "mäh.png"
    assert client.post("/api/pictures", content=raw).json()["picture"] == sent["picture"]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "broken, or no picture"),
        (b"GIF89a" + bytes(40), "picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no picture of a kind"),
        (png()[:80], "can't be read"),
        (claimed(9000, 9000), "more than 50,000,000"),
        (claimed(60000, 60000), "make it smaller"),
        (b"\x80\x04\x95", "no picture"),
    ],
    ids=["empty", "gif", "eps", "cut off", "81 megapixels", "bomb", "pickle"],
)
def test_a_broken_or_huge_picture_is_refused_in_one_line(studio, raw, said):
    assert said in problem(studio().post("/api/pictures", content=raw), 400)


def test_pictures_that_were_sent_are_bounded_and_the_oldest_is_forgotten(studio, monkeypatch):
    client = studio()
    monkeypatch.setattr(album, "KEPT_BYTES", 2 * len(png()) + 100)
    first, *_ = [client.post("/api/pictures", content=png(seed=seed)).json()["picture"] for seed in range(3)]
    assert "send it again" in refused(client, 404, "random:vit-mini", picture=first)


def test_the_picture_of_a_pass_is_what_the_model_sees(studio, vit_run):
    client, raw = studio(vit_run), png(8, 12)
    name = client.post("/api/pictures", content=raw).json()["picture"]
    said = passed(client, "vit", picture=name)
    size = {"width": 8, "height": 12, "grid": [3, 2], "patch": [4, 4]}
    assert said["picture"] == size | {"class_token": True, "name": None}
    seen = opened(client.get(f"/api/passes/{said['id']}/picture"))
    assert np.array_equal(seen, np.asarray(Image.open(io.BytesIO(raw))))


def test_a_grey_picture_is_seen_grey(studio):
    client = studio()
    said = passed(client, "random:vit-mini", picture="digits/test/11")
    seen = opened(client.get(f"/api/passes/{said['id']}/picture"))
    assert np.array_equal(seen, open_set("digits").parts["test"].pixels[11, 0].numpy())


def test_a_picture_that_lies_on_its_side_is_turned_as_record_turns_it(studio, vit_run, tmp_path):
    image = Image.open(io.BytesIO(png(12, 8)))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.png", exif=exif)
    client = studio(vit_run)
    name = client.post("/api/pictures", content=(tmp_path / "turned.png").read_bytes()).json()["picture"]
    said = passed(client, "vit", picture=name)
    seen = opened(client.get(f"/api/passes/{said['id']}/picture"))
    assert np.array_equal(seen, np.rot90(np.asarray(image), 3))
