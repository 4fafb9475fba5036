"""The preprocessor and the opening of pictures: what they promise, and what they refuse."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
import torch
from PIL import Image

from clearhead.data import Preprocessor, from_timm_config, open_picture, read_preprocessor
from clearhead.errors import ClearheadError


def encoded(image: Image.Image, kind: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def image() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))


def test_pixels_are_rescaled_and_normalised_channel_by_channel():
    pixels = np.array([[[0, 51, 255], [102, 204, 153]]], dtype=np.uint8)
    result = Preprocessor(resize=None, mean=(0.0, 0.2, 0.5), std=(1.0, 0.1, 0.5))(pixels)

    assert result.dtype == torch.float32
    assert result.is_contiguous()
    expected = torch.tensor([[[0.0, 0.4]], [[0.0, 6.0]], [[1.0, 0.2]]])
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("preprocessor", "shape"),
    [
        (Preprocessor(), (224, 224)),
        (Preprocessor(resize=(10, 20)), (10, 20)),
        (Preprocessor(resize=30, crop=(16, 18)), (16, 18)),
        (Preprocessor(resize=30), None),
        (Preprocessor(resize=None), None),
    ],
)
def test_the_shape_of_the_result_is_known_beforehand_where_it_can_be(preprocessor, shape, image):
    assert preprocessor.shape == shape
    if shape:
        assert preprocessor(image).shape == (3, *shape)


def test_the_shortest_edge_keeps_the_proportions(image):
    assert Preprocessor(resize=20)(image).shape == (3, 20, 30)
    assert Preprocessor(resize=20)(image.rotate(90, expand=True)).shape == (3, 30, 20)


def test_a_batch_is_its_pictures_one_by_one(image, tmp_path):
    image.save(tmp_path / "a.png")
    preprocessor = Preprocessor(resize=(8, 8))
    batch = preprocessor.batch([image, tmp_path / "a.png", str(tmp_path / "a.png"), np.asarray(image)])

    assert batch.shape == (4, 3, 8, 8)
    assert all(row.equal(preprocessor(image)) for row in batch)


@pytest.mark.parametrize("sizes", [[(4, 4), (4, 5)], []])
def test_a_batch_of_no_or_several_shapes_is_refused(sizes):
    with pytest.raises(ClearheadError, match="a batch needs pictures of one shape"):
        Preprocessor(resize=None).batch([Image.new("RGB", size) for size in sizes])


@pytest.mark.parametrize(
    "preprocessor",
    [
        Preprocessor(),
        Preprocessor(resize=31, resample="hamming", crop=(9, 7), scale=0.5, mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0)),
        Preprocessor(resize=None),
        from_timm_config({"crop_pct": 0.9}),
        from_timm_config({"crop_pct": 0.9, "crop_mode": "squash", "input_size": [3, 64, 48]}),
    ],
)
def test_written_and_read_it_is_the_same_preprocessor(preprocessor, tmp_path):
    preprocessor.save(tmp_path)
    assert read_preprocessor(tmp_path) == preprocessor
    assert read_preprocessor(tmp_path / "preprocessor_config.json") == preprocessor


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"do_pad": True, "pad_size": {"height": 9, "width": 9}}, "do_pad is set"),
        ({"image_processor_type": "CLIPImageProcessor"}, "'CLIPImageProcessor' is not one that is read here"),
        ({"do_flip_channel_order": True}, "do_flip_channel_order = True is not understood"),
        ({"siez": 224}, "siez = 224 is not understood and may change pixels; did you mean 'size'"),
        ({"size": {"longest_edge": 50}}, "size .*longest_edge.* is not understood"),
        ({"size": {"shortest_edge": 50, "longest_edge": 60}}, "size .* is not understood"),
        ({"size": 10**9}, "between 1 and 8192"),
        ({"size": 0}, "between 1 and 8192"),
        ({"size": {"height": "a", "width": 5}}, "between 1 and 8192"),
        ({"do_center_crop": True}, "crop_size None is not understood"),
        ({"resample": 7}, "resample must be Pillow's number"),
        ({"do_resize": "false"}, "do_resize must be true or false"),
        ({"image_mean": [0.5, 0.5]}, "mean .* for each of 3 channels"),
        ({"image_std": [0.5, 0, 0.5]}, "std .* has a zero"),
        ({"rescale_factor": float("nan")}, "scale .* is not a number of ordinary size"),
        ({"clearhead": {"crop_rounding": "up"}}, "crop_rounding must be 'down' or 'even'"),
        ({"clearhead": {"newer": 1}}, "a newer version may have written it"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_refused_by_name(config, message, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(ClearheadError, match=message) as caught:
        read_preprocessor(tmp_path)
    assert "preprocessor_config.json: " in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"input_size": [1, 28, 28]}, "input_size must be 3 channels"),
        ({"input_size": [3, 32, 48]}, "crop_mode 'center' of"),
        ({"crop_mode": "border"}, "crop_mode 'border' of"),
        ({"crop_pct": 0}, "crop_pct must be a number from 0.01 to 1"),
        ({"interpolation": "random"}, "no filter 'random'"),
        ({"input_size": [3, 10**9, 10**9]}, "between 1 and 8192"),
    ],
)
def test_a_timm_config_that_cannot_be_honoured_is_refused_by_name(config, message, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"pretrained_cfg": config}))
    with pytest.raises(ClearheadError, match=message) as caught:
        read_preprocessor(tmp_path)
    assert "config.json: " in str(caught.value)


def test_a_folder_without_a_preprocessor_is_named(tmp_path):
    with pytest.raises(ClearheadError, match="has no preprocessor_config.json"):
        read_preprocessor(tmp_path)
    with pytest.raises(ClearheadError, match="missing is missing"):
        read_preprocessor(tmp_path / "missing")


PNG = encoded(Image.new("RGB", (50, 50), "red"), "PNG")
JPEG = encoded(Image.effect_noise((50, 50), 90).convert("RGB"), "JPEG")


BROKEN = {
    "half a PNG": (PNG[: len(PNG) // 2], "can't be read as a picture"),
    "half a JPEG": (JPEG[: len(JPEG) // 2], "can't be read as a picture: image file is truncated"),
    "a PNG's header": (PNG[:40], "is broken, or no picture"),
    "nothing": (b"", "is broken, or no picture"),
    "text": (b"hello, I am text\n" * 20, "is broken, or no picture"),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "is broken, or no picture"),
    "no pixels": (b"P6\n0 5\n255\n", "is broken, or no picture"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_sound_picture_is_refused_in_one_line_that_names_it(content, message, tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(ClearheadError, match=message) as caught:
        open_picture(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning", "ignore::UserWarning")
def test_files_mangled_at_random_are_opened_or_refused_and_nothing_else(tmp_path):
    generator = np.random.default_rng(0)
    sources = [encoded(Image.effect_noise((9, 7), 90), kind) for kind in ("PNG", "GIF", "BMP", "PPM", "WEBP", "JPEG")]
    refused = 0
    for round_ in range(300):
        content = bytearray(sources[round_ % len(sources)])
        for place in generator.integers(0, min(len(content), 80), 3):
            content[place] = generator.integers(256)
        (tmp_path / "mangled").write_bytes(content[: generator.integers(1, len(content) + 1)])
        try:
            assert open_picture(tmp_path / "mangled").mode == "RGB"
        except ClearheadError as error:
            refused += "\n" not in str(error)
    assert refused > 100


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ClearheadError, match="nothing.png can't be read as a picture: No such file"):
        open_picture(tmp_path / "nothing.png")


def test_a_picture_with_more_pixels_than_pillow_unpacks_is_refused(tmp_path, image, monkeypatch):
    image.save(tmp_path / "bomb.png")
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ClearheadError, match="bomb.png has more pixels than Pillow agrees to unpack"):
        open_picture(tmp_path / "bomb.png")


def test_a_picture_too_narrow_to_be_resized_is_refused_before_it_is_enlarged():
    with pytest.raises(ClearheadError, match="a picture of 1 x 20000 is too narrow"):
        Preprocessor(resize=224, crop=(224, 224))(Image.new("RGB", (1, 20000)))


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((0, 5, 3), np.uint8),
        np.zeros((5, 5, 4), np.uint8),
        np.zeros((3, 5, 5), np.uint8),
        np.zeros(5, np.uint8),
        np.zeros((5, 5, 3), np.float32),
    ],
)
def test_an_array_that_is_no_picture_is_refused(picture):
    with pytest.raises(ClearheadError, match="an array of pixels must be uint8"):
        open_picture(picture)


def test_an_empty_image_is_refused():
    with pytest.raises(ClearheadError, match="the picture is empty: 0 x 4 pixels"):
        open_picture(Image.new("RGB", (0, 4)))


def test_values_beyond_eight_bits_are_clipped_with_a_warning(tmp_path):
    Image.fromarray(np.array([[0, 255, 256, 65535]], np.uint16)).save(tmp_path / "deep.png")
    with pytest.warns(UserWarning, match="deep.png has values from 0 to 65535: clipped"):
        opened = open_picture(tmp_path / "deep.png")
    assert np.asarray(opened)[0, :, 0].tolist() == [0, 255, 255, 255]


def test_without_pillow_the_package_imports_and_a_picture_says_what_to_install():
    program = """
import sys
sys.modules["PIL"] = None
from clearhead.data import Preprocessor, deck_tokenizer
from clearhead.errors import ClearheadError
assert deck_tokenizer().size == 30
try:
    Preprocessor()("picture.png")
except ClearheadError as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "pictures need Pillow, which is not installed: pip install Pillow\n"
