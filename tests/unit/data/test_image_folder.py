"""A user's own folder of pictures: its layouts, how it is split, and everything in it that is not as it should be."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from clearhead.data import image_folder as module
from clearhead.data.image_folder import image_folder
from clearhead.errors import ClearheadError


def picture(file: Path, colour: int, size: tuple[int, int] = (6, 5), **options: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (colour, 10, 200)).save(file, **options)
    return file


def folder(root: Path, size: tuple[int, int] = (6, 5), **counts: int) -> Path:
    """One folder for each class; every picture has a colour of its own."""
    for place, (name, count) in enumerate(counts.items()):
        for number in range(count):
            picture(root / name.replace("__", "/") / f"{number:02d}.png", 60 * place + number, size)
    return root


def refused(path: Path) -> str:
    with pytest.raises(ClearheadError) as caught:
        image_folder(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def colours(part) -> list[int]:
    return part.pixels[:, 0, 0, 0].tolist()


def test_a_folder_by_class_is_split_by_class(tmp_path):
    dataset = image_folder(folder(tmp_path / "photos", cat=20, dog=10, eel=3, fox=2))
    assert str(dataset) == "photos: pictures, 4 classes (train 26, valid 4, test 5)"
    assert dataset.classes == ("cat", "dog", "eel", "fox") and dataset.notes == ()
    parts = dataset.parts
    assert parts["test"].labels.tolist() == [0, 0, 1, 2, 3] and parts["valid"].labels.tolist() == [0, 0, 1, 2]
    for part in parts.values():
        assert [colour // 60 for colour in colours(part)] == part.labels.tolist()
    everything = [colour for part in parts.values() for colour in colours(part)]
    assert len(everything) == len(set(everything)) == 35


def test_the_split_is_the_same_every_time_and_another_seed_gives_another(tmp_path):
    root = folder(tmp_path, cat=30, dog=30)
    first, again, other = (colours(image_folder(root, seed).parts["test"]) for seed in (0, 0, 1))
    assert first == again != other


def test_small_pictures_of_one_size_live_in_memory(tmp_path):
    part = image_folder(folder(tmp_path, cat=4, dog=4)).parts["train"]
    assert isinstance(part.pixels, torch.Tensor)
    assert part.pixels.dtype == torch.uint8 and part.pixels.shape == (4, 3, 5, 6)
    assert part.pixels[0, :, 2, 2].tolist()[1:] == [10, 200]


@pytest.mark.parametrize("size", [(7, 5), (200, 5)])
def test_other_pictures_stay_files(tmp_path, size):
    root = folder(tmp_path, cat=4, dog=4) if size[0] == 7 else folder(tmp_path, size, cat=4, dog=4)
    picture(root / "dog" / "odd.png", 3, size)
    dataset = image_folder(root)
    files = [file for part in dataset.parts.values() for file in part.pixels]
    assert sorted(files) == sorted(root.glob("*/*.png"))
    assert all(isinstance(part.pixels, list) for part in dataset.parts.values())


def test_a_set_that_is_too_large_for_memory_stays_files(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SMALL_SET", 3 * 6 * 5 * 8 - 1)
    assert isinstance(image_folder(folder(tmp_path, cat=4, dog=4)).parts["train"].pixels, list)


@pytest.mark.parametrize(("train", "val", "test"), [("train", "val", "test"), ("Training", "validation", "Testing")])
def test_given_parts_are_taken_as_they_are(tmp_path, train, val, test):
    counts = {f"{train}__cat": 3, f"{train}__dog": 2, f"{val}__dog": 1, f"{test}__cat": 2}
    dataset = image_folder(folder(tmp_path, **counts))
    assert [(name, part.labels.tolist()) for name, part in dataset.parts.items()] == [
        ("train", [0, 0, 0, 1, 1]),
        ("valid", [1]),
        ("test", [0, 0]),
    ]


def test_validation_is_held_back_where_it_is_not_given(tmp_path):
    parts = image_folder(folder(tmp_path, train__cat=9, train__dog=9, test__cat=1)).parts
    assert {name: part.labels.tolist() for name, part in parts.items()} == {
        "train": [0] * 8 + [1] * 8,
        "valid": [0, 1],
        "test": [0],
    }
    (tmp_path / "test").rename(tmp_path / "val")
    assert list(image_folder(tmp_path).parts) == ["train", "valid"]
    for file in (tmp_path / "val/cat").iterdir():
        file.unlink()
    (tmp_path / "val/cat").rmdir()
    (tmp_path / "val").rmdir()
    assert list(image_folder(tmp_path).parts) == ["train", "valid", "test"]


def test_what_cant_be_decoded_is_left_out_counted_and_named(tmp_path, caplog):
    root = folder(tmp_path, cat=4, dog=4)
    whole = picture(root / "cat" / "cut.jpg", 5, (64, 64), quality=95).read_bytes()
    (root / "cat" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "dog" / "notes.txt").write_text("not a picture")
    (root / "dog" / "empty.png").write_bytes(b"")
    (root / "readme.txt").write_text("beside the classes")
    folder(root, dog__deeper=2)
    (root / "dog" / ".DS_Store").write_bytes(b"hidden")
    dataset = image_folder(root)
    assert sum(map(len, dataset.parts.values())) == 8 and len(dataset.notes) == 1
    note = dataset.notes[0]
    assert note in caplog.text and f"{root}: 5 of 13 files left out: " in note
    assert "readme.txt: it lies beside the folders of the classes" in note
    assert "dog/deeper: a folder inside a class is not read" in note
    assert "cat/cut.jpg: can't be read as a picture" in note and "dog/notes.txt: is broken, or no picture" in note
    assert "DS_Store" not in note and isinstance(dataset.parts["train"].pixels, torch.Tensor)


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path):
    root, outside = folder(tmp_path / "photos", cat=4, dog=4), folder(tmp_path / "secret", eel=4)
    (root / "cat" / "link.png").symlink_to(outside / "eel" / "00.png")
    (root / "eel").symlink_to(outside / "eel")
    (root / "cat" / "within.png").symlink_to(root / "dog" / "00.png")
    dataset = image_folder(root)
    assert dataset.classes == ("cat", "dog") and sum(map(len, dataset.parts.values())) == 9
    assert dataset.notes[0].count("a link that leads out of the folder") == 2


def test_a_folder_beside_the_parts_is_named(tmp_path):
    dataset = image_folder(folder(tmp_path, train__cat=3, test__cat=1, extra__cat=2))
    assert "extra: a folder beside train, val and test is not read" in dataset.notes[0]


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("below", ["", "train__"])
def test_a_class_of_fewer_than_two_pictures_is_refused(tmp_path, count, below):
    root = folder(tmp_path, **{f"{below}cat": 4, f"{below}dog": count})
    (root / below.replace("__", "/") / "dog").mkdir(exist_ok=True)
    (root / below.replace("__", "/") / "dog" / "broken.png").write_bytes(b"\x89PNG")
    message = refused(root)
    assert "a class needs two pictures that can be read, and 'dog' has fewer" in message
    assert message.endswith("add pictures or take the folder away")


def test_folders_that_make_no_data_set_are_refused(tmp_path):
    assert "is no folder: give one that holds" in refused(tmp_path / "nowhere")
    assert "holds no folders of pictures: make one for each class" in refused(tmp_path)
    assert "has a folder for valid but none called 'train'" in refused(folder(tmp_path / "a", val__cat=2))
    both = folder(tmp_path / "b", train__cat=2, val__cat=2, validation__cat=2)
    assert "has the same part under two names, 'val', 'validation'" in refused(both)
    strange = folder(tmp_path / "c", train__cat=2, test__emu=2)
    assert "the class 'emu' of 'test' has no pictures in 'train'" in refused(strange)
    hollow = folder(tmp_path / "d", train__cat=2)
    (hollow / "test/cat").mkdir(parents=True)
    assert "the part 'test' has no picture that can be read" in refused(hollow)


def test_a_folder_that_cant_be_read_is_told(tmp_path, monkeypatch):
    root, scandir = folder(tmp_path, cat=2), os.scandir

    def guarded(path):
        if Path(path).name == "cat":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert "cat can't be read: Permission denied" in refused(root)


def test_pictures_of_any_kind_become_rgb_and_upright(tmp_path):
    root = folder(tmp_path, cat=3, dog=3)
    turned = Image.fromarray(np.arange(30, dtype=np.uint8).reshape(6, 5))
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(root / "dog" / "grey.png", exif=exif)
    dataset = image_folder(root)
    assert isinstance(dataset.parts["train"].pixels, torch.Tensor)  # 5 x 6 on its side is 6 x 5 like the others
