"""The race to nanoGPT's loss, at toy size on a text of our own: both contestants learn, and the table says when."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from benchmarks import shakespeare
from clearhead.recipes.start import named_run
from clearhead.train.language import Language
from tests.support import peer


@pytest.fixture
def text(tmp_path: Path) -> str:
    file = tmp_path / "text.txt"
    file.write_text("".join(f"line {number} of a text that repeats itself\n" for number in range(400)))
    return str(file)


def test_both_contestants_run_and_the_race_is_told(text, capsys):
    shakespeare.main(["--quick", f"data={text}", "--json"])
    told = json.loads(capsys.readouterr().out)
    theirs, own = told["peer"], told["clearhead"]
    assert [step for step, _, _ in theirs["curve"]] == [0, 4, 8, 12] and [s for s, _, _ in own["curve"]] == [4, 8, 12]
    assert theirs["step"] == 12 and theirs["loss"] < theirs["curve"][0][2]
    assert own["curve"][-1][2] < own["curve"][0][2] and own["reading_seconds"] < own["curve"][0][1]
    assert all(a[1] < b[1] for curve in (theirs["curve"], own["curve"]) for a, b in pairwise(curve))
    lines = shakespeare.told(theirs | {"loss": own["curve"][1][2]}, own).split("\n")
    assert lines[3].split()[-3:-1] == [f"{own['curve'][1][1]:.1f}", "8"]
    assert "never" in shakespeare.told(theirs | {"loss": 0.0}, own)


def test_the_peer_is_gpt2_without_biases_and_our_evaluator_scores_it_as_anyone_would(text):
    transformers = peer("transformers")
    task = named_run("gpt-shakespeare", keys=[*shakespeare.QUICK, f"data={text}"]).spec.open()
    assert isinstance(task, Language)
    torch.manual_seed(0)
    model, sizes = shakespeare.Peer(task.tokenizer.size, shakespeare.SMALL).eval(), shakespeare.SMALL
    config = transformers.GPT2Config(
        vocab_size=task.tokenizer.size,
        n_positions=sizes.window,
        n_embd=sizes.width,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        activation_function="gelu",
        bos_token_id=0,
        eos_token_id=0,
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            weight.zero_() if name.endswith("bias") else None
        theirs.transformer.wte.weight.copy_(model.tokens.weight)
        theirs.transformer.wpe.weight.copy_(model.positions.weight)
        for block, other in zip(model.blocks, theirs.transformer.h, strict=True):
            pairs = ((block.qkv, other.attn.c_attn), (block.out, other.attn.c_proj), (block.up, other.mlp.c_fc))
            for ours, its in (*pairs, (block.down, other.mlp.c_proj)):
                its.weight.copy_(ours.weight.T)
        ids = torch.randint(task.tokenizer.size, (2, 33))
        logits = theirs(ids[:, :-1]).logits.flatten(0, 1)
        assert torch.allclose(model(ids[:, :-1], ids[:, 1:]), F.cross_entropy(logits, ids[:, 1:].flatten()), atol=1e-5)
    loss = task.evaluate(model, "valid", torch.device("cpu"))["loss"]
    assert loss == pytest.approx(math.log(task.tokenizer.size), abs=0.5)


def test_the_published_model_has_nano_gpts_size_and_the_rate_its_course():
    sizes = shakespeare.Published()
    model = shakespeare.Peer(65, sizes)
    count = sum(weight.numel() for weight in model.parameters())
    assert count - model.positions.weight.numel() == 10_646_784  # 10.65M, as nanoGPT counts: without positions
    assert [sizes.rate_at(step) for step in (100, 5000)] == pytest.approx([1e-3, 1e-4])
    assert sizes.rate_at(0) == pytest.approx(1e-3 / 101) and sizes.rate_at(2550) == pytest.approx(5.5e-4)
