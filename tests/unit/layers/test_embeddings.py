"""From ids and pixels to rows: lookups, patches in their order, positions added, heads that are the table again."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.layers import (
    FixedPositions,
    LearnedPositions,
    PatchInput,
    TextInput,
    TokenEmbedding,
    VocabularyHead,
    embeddings,
)
from clearhead.ops import one_hot, positions
from tests.support import equal


def tokens(vocab: int = 7, width: int = 6) -> TokenEmbedding:
    table = TokenEmbedding(vocab, width)
    torch.nn.init.normal_(table.weight)
    return table


def patch_input(patch, stride, *, class_token: bool = False, width: int = 9) -> PatchInput:
    made = PatchInput(patch, stride, 3, width, None, class_token=class_token)
    if made.class_token is not None:
        torch.nn.init.normal_(made.class_token)
    return made


def test_an_embedding_is_a_one_hot_row_times_the_table_and_as_a_head_the_table_transposed():
    table, ids = tokens(), torch.tensor([[4, 0, 4]])
    assert torch.equal(table(ids), one_hot(ids, 7) @ table.weight)
    hidden = torch.randn(2, 6)
    assert equal(table.logits(hidden), hidden @ table.weight.T)


def test_a_vocabulary_head_is_a_linear_layer():
    head, hidden = VocabularyHead(6, 11, bias=True), torch.randn(2, 6)
    assert equal(head(hidden), F.linear(hidden, head.weight, head.bias))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 6), (3, 6), (2, 5, 6), (600, 6)])
def test_an_odd_vocabulary_gives_the_same_words_however_a_gpu_multiplies_it(monkeypatch, shape, bias):
    monkeypatch.setattr(embeddings, "missing_rows", lambda weight: -len(weight) % 64)
    head, hidden = VocabularyHead(6, 11, bias=bias), torch.randn(*shape)
    expected = F.linear(hidden, head.weight, head.bias)
    with torch.no_grad():
        assert equal(head(hidden), expected) and head(hidden).shape == expected.shape
    assert equal(head(hidden), expected)


def test_a_text_input_adds_positions_and_segments_to_scaled_tokens():
    at, segments = FixedPositions(8, 6, lambda: positions.sinusoidal(8, 6)), tokens(2)
    given = TextInput(tokens(), at, scale=2.0, segments=segments)
    ids, second = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, 1]])
    expected = 2 * given.tokens.weight[ids] + positions.sinusoidal(3, 6) + segments.weight[second]
    assert equal(given(ids, segments=second), expected)
    assert equal(given(ids), 2 * given.tokens.weight[ids] + positions.sinusoidal(3, 6) + segments.weight[0])


def test_tokens_may_be_told_where_they_stand():
    learned = LearnedPositions(8, 6)
    torch.nn.init.normal_(learned.weight)
    at = torch.tensor([[5, 6], [0, 3]])
    for given in (learned, FixedPositions(*learned.weight.shape, lambda: learned.weight.detach())):
        assert torch.equal(given(2, at), learned.weight[at])
        assert torch.equal(given(3), learned.weight[:3])


def test_patches_come_row_by_row_each_flattened_channel_row_column():
    image = torch.arange(3 * 4 * 6.0).view(1, 3, 4, 6)
    patches = patch_input((2, 3), (2, 3)).patches(image)
    assert patches.shape == (1, 4, 18)
    assert torch.equal(patches[0, 1], image[0, :, 0:2, 3:6].flatten())
    assert torch.equal(patches[0, 2], image[0, :, 2:4, 0:3].flatten())


def test_projected_patches_are_a_convolution_whether_they_overlap_or_not():
    images = torch.randn(2, 3, 8, 12)
    for stride in ((4, 4), (2, 4), (1, 2)):
        given = patch_input((4, 4), stride)
        kernel = given.project.weight.view(9, 3, 4, 4)
        by_convolution = F.conv2d(images, kernel, given.project.bias, stride=stride).flatten(2).transpose(1, 2)
        assert equal(given(images), by_convolution)


def test_patches_of_an_image_that_is_not_contiguous_are_the_same():
    images = torch.randn(2, 3, 8, 8)
    given = patch_input((4, 4), (4, 4))
    assert torch.equal(given(images.contiguous(memory_format=torch.channels_last)), given(images))
    assert torch.equal(given(images.transpose(2, 3)), given(images.transpose(2, 3).contiguous()))


def test_the_class_token_stands_in_front_of_every_image():
    given = patch_input((4, 4), (4, 4), class_token=True)
    rows = given(torch.randn(3, 3, 8, 8))
    assert rows.shape == (3, 5, 9)
    assert torch.equal(rows[:, 0], given.class_token.expand(3, -1))


def test_autocast_casts_the_stream_once_behind_the_embedding():
    given, ids = TextInput(tokens(), None), torch.tensor([[1, 2]])
    assert given(ids).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert given(ids).dtype == torch.bfloat16
