"""What 8 bits cost is measured, not assumed."""

import copy

import torch
from PIL import Image

import clearhead
from clearhead.data import Preprocessor
from clearhead.layers import quantise
from clearhead.tasks.precision import compared, measured_loss

GPT = {"layers": 2, "width": 96, "heads": 4, "vocab": 300, "context": 32}
ROWS = [[1, 2, 3, 4, 5], [7, 8, 9]]


def both(name: str, **fields: object):
    model = clearhead.create(name, device="cpu", seed=0, **fields)
    return model, quantise(copy.deepcopy(model))


def test_a_model_beside_itself_loses_nothing():
    model, _ = both("gpt2", **GPT)
    loss = measured_loss(model, model, ROWS)
    assert (loss.places, loss.agreement, loss.error) == (8, 1.0, 0.0)
    assert abs(loss.divergence) < 1e-6


def test_the_figures_are_those_of_the_logits():
    model, light = both("gpt2", **GPT)
    loss = measured_loss(model, light, ROWS)
    with torch.inference_mode():
        before, after = (torch.cat([m(torch.tensor([row]))[0] for row in ROWS]) for m in (model, light))
    agreement = (before.argmax(-1) == after.argmax(-1)).float().mean()
    divergence = torch.nn.functional.kl_div(after.log_softmax(-1), before.softmax(-1), reduction="batchmean")
    assert abs(loss.agreement - float(agreement)) < 1e-6
    assert abs(loss.divergence - float(divergence)) < 1e-6
    assert abs(loss.error - float((before - after).norm() / before.norm())) < 1e-5
    assert loss.bytes_after < 0.4 * loss.bytes_before
    assert "int8" in str(loss) and "8 places" in str(loss)


def test_an_encoder_decoder_is_compared_on_what_it_writes_itself():
    model, light = both("t5-small", layers=1, vocab=300)
    assert measured_loss(model, light, ROWS).places == 32


def test_models_that_do_not_write_are_compared_on_their_answers():
    model, light = both("vit-ti16", layers=1, image=32)
    assert compared(model, light, [model.example(3)]).places == 3


def test_commands_that_judge_say_what_8_bits_cost(tmp_path, capsys):
    from clearhead.cli import classify as classifies
    from clearhead.cli import embed as embeds
    from tests.minilm import tiny

    folder = tiny(tmp_path)
    embeds.command(str(folder), text=["the cat sat", "a dog"], device="cpu", int8=True)
    assert "least cosine with the full vectors is 0.9" in capsys.readouterr().err
    model = clearhead.create("vit-ti16", device="cpu", seed=0, layers=1, image=32, num_classes=3)
    torch.nn.init.normal_(model.output.weight)
    clearhead.save(model, tmp_path / "vit", preprocessor=Preprocessor(resize=(32, 32)))
    Image.new("RGB", (32, 32), (200, 30, 90)).save(tmp_path / "picture.png")
    classifies.command(str(tmp_path / "vit"), files=[tmp_path / "picture.png"], device="cpu", int8=True)
    assert "the class is the same for 1 of 1 inputs" in capsys.readouterr().err
