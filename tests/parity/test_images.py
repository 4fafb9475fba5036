"""Our pixels are those of transformers' ViTImageProcessorPil and of timm's evaluation transform, bit for bit."""

import json
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from clearhead.data import Preprocessor, from_timm_config, read_preprocessor
from tests.support import peer


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    pixels = np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return pixels[..., 0] if channels == 1 else pixels


def transparent_palette() -> Image.Image:
    image = Image.fromarray(noise(40, 30)).quantize(16)
    image.info["transparency"] = bytes([0, 128, 255] * 5)
    return image


PICTURES = {
    "wide": (Image.fromarray(noise(61, 143)), "png"),
    "tall": (Image.fromarray(noise(299, 87)), "png"),
    "square": (Image.fromarray(noise(64, 64)), "png"),
    "jpeg": (Image.fromarray(noise(90, 120)), "jpg"),
    "grey": (Image.fromarray(noise(50, 70, 1)), "png"),
    "black and white": (Image.fromarray(noise(50, 70, 1)).convert("1"), "png"),
    "transparent": (Image.fromarray(noise(33, 44, 4)), "png"),
    "palette with transparency": (transparent_palette(), "png"),
    "cmyk": (Image.fromarray(noise(45, 55)).convert("CMYK"), "jpg"),
    "16 bits": (Image.fromarray(noise(40, 41, 1).astype(np.uint16) * 3), "png"),
    "one pixel wide": (Image.fromarray(noise(25, 1)), "png"),
    "one pixel": (Image.fromarray(noise(1, 1)), "png"),
}
CONFIGS = {
    "the default": {},
    "bicubic": {"resample": 3, "size": {"height": 48, "width": 32}},
    "nearest": {"resample": 0, "size": {"height": 17, "width": 19}, "image_mean": [0.1, 0.2, 0.3]},
    "lanczos": {"resample": 1, "size": [31, 29], "image_std": [0.9, 0.8, 0.7]},
    "an old file": {"size": 40, "feature_extractor_type": "ViTFeatureExtractor", "resample": 2, "image_mean": 0.4},
    "shortest edge, hamming": {"size": {"shortest_edge": 37}, "resample": 5},
    "a number for the shortest edge, box": {"size": 33, "default_to_square": False, "resample": 4},
    "cropped": {"size": {"shortest_edge": 41}, "do_center_crop": True, "crop_size": {"height": 32, "width": 30}},
    "cropped beyond its edge": {"size": 20, "do_center_crop": True, "crop_size": {"height": 31, "width": 26}},
    "not resized": {"do_resize": False},
    "not rescaled": {"do_rescale": False, "size": 16, "image_mean": [127.5, 120, 110], "image_std": 60.0},
    "not normalised": {"do_normalize": False, "size": 16, "rescale_factor": 1 / 127.5},
    "neither": {"do_rescale": False, "do_normalize": False, "size": 16},
    "steps set to null": {"do_rescale": None, "do_normalize": None, "do_center_crop": None, "size": 16},
    "a null for the square": {"default_to_square": None, "size": 16},
}


@pytest.fixture(params=PICTURES)
def picture(request, tmp_path):
    """A picture's file and, as everybody converts it, its RGB image."""
    image, ending = PICTURES[request.param]
    path = tmp_path / f"picture.{ending}"
    image.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of clipped values, and Pillow's own of palettes
        yield path, Image.open(path).convert("RGB")


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_pixels_equal_those_of_vit_image_processor_pil(picture, config, tmp_path):
    path, image = picture
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": "ViTImageProcessor"} | config)
    )
    theirs = peer("transformers").ViTImageProcessorPil.from_pretrained(tmp_path)
    ours = read_preprocessor(tmp_path)

    from_path = theirs(str(path), return_tensors="pt")["pixel_values"][0]
    from_image = theirs(image, return_tensors="pt")["pixel_values"][0]
    assert ours(path).equal(from_path.float())
    assert ours(image).equal(from_image.float())
    assert ours(np.asarray(image)).equal(from_image.float())


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("crop", [0.9, 1.0])
@pytest.mark.parametrize("mode", ["center", "squash"])
def test_pixels_equal_those_of_timms_evaluation_transform(picture, interpolation, crop, mode):
    config = {
        "input_size": (3, 48, 48) if mode == "center" else (3, 48, 40),
        "crop_pct": crop,
        "crop_mode": mode,
        "interpolation": interpolation,
        "mean": (0.5, 0.4, 0.3),
        "std": (0.2, 0.3, 0.4),
        "num_classes": 7,
    }
    path, image = picture
    assert from_timm_config(config)(path).equal(timm_transform(config)(image))


@pytest.mark.parametrize(
    "config",
    [
        {"num_classes": 3},
        {"input_size": [3, 40, 40], "crop_pct": None},
        {"interpolation": "lanczos"},
        {"crop_pct": 0.95},
    ],
)
def test_what_a_timm_config_does_not_say_has_timms_default(config):
    image = Image.fromarray(noise(70, 55))
    assert from_timm_config(config)(image).equal(timm_transform(config)(image))


def test_the_crop_is_timms_for_every_odd_and_even_margin():
    config = {"input_size": (3, 16, 16), "crop_pct": 1.0}
    for width in range(16, 32):
        image = Image.fromarray(noise(16, width))
        assert from_timm_config(config)(image).equal(timm_transform(config)(image)), width


def timm_transform(config):
    data = peer("timm.data")
    return data.create_transform(**data.resolve_data_config(pretrained_cfg=config), is_training=False)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_base_patch32_384"])
def test_a_timm_folder_is_read(name, tmp_path):
    model_config = peer("timm").get_pretrained_cfg(name).to_dict()
    (tmp_path / "config.json").write_text(json.dumps({"architecture": name, "pretrained_cfg": model_config}))
    image = Image.fromarray(noise(400, 500))
    assert read_preprocessor(tmp_path)(image).equal(timm_transform(model_config)(image))


@pytest.mark.parametrize(
    "ours",
    [
        Preprocessor(),
        Preprocessor(resize=50, resample="bicubic", crop=(32, 40), mean=(0.1, 0.2, 0.3), std=(1, 2, 3)),
        Preprocessor(resize=None, scale=1.0),
    ],
)
def test_a_file_that_we_write_gives_the_same_pixels_in_transformers(ours, tmp_path):
    ours.save(tmp_path)
    transformers = peer("transformers")
    theirs = transformers.ViTImageProcessorPil.from_pretrained(tmp_path)
    image = Image.fromarray(noise(77, 91))

    assert theirs(image, return_tensors="pt")["pixel_values"][0].equal(ours(image))
    assert isinstance(transformers.AutoImageProcessor.from_pretrained(tmp_path), transformers.ViTImageProcessor)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_counts_for_a_file_and_not_for_an_image_as_in_transformers(orientation, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "photo.jpg"
    Image.fromarray(noise(20, 30)).save(path, exif=exif)
    ours, theirs = Preprocessor(resize=None), peer("transformers").ViTImageProcessorPil(do_resize=False)

    pixels = {}
    for given in (str(path), Image.open(path)):
        pixels[type(given)] = ours(given)
        assert ours(given).equal(theirs(given, return_tensors="pt")["pixel_values"][0])
    assert torch.equal(*pixels.values()) == (orientation == 1)
