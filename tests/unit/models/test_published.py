"""The published tables hold what the papers and the decks print, cell by cell."""

import dataclasses

import pytest

from clearhead.models.published import PublishedTable, tables

VIT_RESULTS = """
                | ViT-H/14 JFT | ViT-L/16 JFT | ViT-L/16 I21k | BiT-L R152x4 | Noisy Student
ImageNet        | 88.55 ± 0.04 | 87.76 ± 0.03 | 85.30 ± 0.02  | 87.54 ± 0.02 | 88.4/88.5
ImageNet ReaL   | 90.72        | 90.54        | 88.62         | 90.54        | 90.55
CIFAR-10        | 99.50        | 99.42        | 99.15         | 99.37        | -
CIFAR-100       | 94.55        | 93.90        | 93.25         | 93.51        | -
Pets            | 97.56        | 97.32        | 94.67         | 96.62        | -
Flowers         | 99.68        | 99.74        | 99.61         | 99.63        | -
VTAB            | 77.63        | 76.28        | 72.72         | 76.29        | -
TPUv3 core-days | 2.5k         | 0.68k        | 0.23k         | 9.9k         | 12.3k
"""

STAND_ALONE = {
    "baseline": "4.7 13.7 74.5 6.5 19.6 76.2 8.2 25.6 76.9",
    "conv stem + attention": "4.5 10.3 75.8 5.7 14.1 77.1 7.0 18.0 77.4",
    "full attention": "4.7 10.3 74.8 6.0 14.1 76.9 7.2 18.0 77.6",
}


def table(name: str) -> PublishedTable:
    return next(found for found in tables() if found.name == name)


@pytest.mark.parametrize("published", tables(), ids=lambda published: published.name)
def test_every_row_is_as_long_as_the_columns_and_no_cell_is_empty(published):
    assert published.rows
    for row in published.rows:
        assert len(row) == len(published.columns)
        assert all(isinstance(cell, str) and cell.strip() == cell and cell for cell in row)


@pytest.mark.parametrize("published", tables(), ids=lambda published: published.name)
def test_every_column_but_a_corner_is_named_and_names_differ(published):
    assert all(published.columns[1:])
    assert len(set(published.columns)) == len(published.columns)


def test_table_names_differ():
    names = [published.name for published in tables()]
    assert len(set(names)) == len(names)


def test_figures_without_a_paper_are_marked_as_the_decks_own():
    without_paper = {published.name for published in tables() if published.paper is None}
    assert without_paper == {"gpt-size", "nano-gpt-size", "vit-training-cost"}
    assert {table(name).origin for name in without_paper} == {"lecture decks"}


def test_the_origin_names_paper_year_venue_and_table():
    title = "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale"
    assert table("vit-results").origin == f"Dosovitskiy et al. 2021, {title} (ICLR), Table 2"


def test_a_table_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        table("wmt14").title = "mine"  # pyright: ignore[reportAttributeAccessIssue]


def test_the_vit_results_are_the_published_ones_in_every_cell():
    header, *rows = [[cell.strip() for cell in line.split("|")] for line in VIT_RESULTS.strip("\n").splitlines()]
    published = table("vit-results")
    assert list(published.columns) == header
    assert [list(row) for row in published.rows] == rows


def test_the_vit_variants_are_the_published_ones():
    published = table("vit-variants")
    assert published.columns == ("variant", "layers", "hidden", "MLP", "heads", "params")
    assert published.rows == (
        ("ViT-Base", "12", "768", "3072", "12", "86M"),
        ("ViT-Large", "24", "1024", "4096", "16", "307M"),
        ("ViT-Huge", "32", "1280", "5120", "16", "632M"),
    )


def test_stand_alone_attention_is_the_published_table_in_every_cell():
    assert {row[0]: " ".join(row[1:]) for row in table("stand-alone-attention").rows} == STAND_ALONE


def test_the_translation_headline_is_28_4_and_41_8_bleu():
    assert table("wmt14").rows == (("Transformer (big)", "28.4", "41.8", "3.5 days on 8 GPUs"),)
    assert [row[-1] for row in table("transformer-sizes").rows] == ["65M", "213M"]


def test_gpt2_shows_the_papers_count_beside_the_official_weights():
    assert [row[1:] for row in table("gpt2-sizes").rows] == [
        ("768", "117M", "124M"),
        ("1024", "345M", "355M"),
        ("1280", "762M", "774M"),
        ("1600", "1542M", "1558M"),
    ]


def test_gpt_117m_nano_gpt_85584_and_gpt3_175b_are_listed():
    assert table("gpt-size").rows == (("GPT", "117M"),)
    assert table("nano-gpt-size").rows == (("nano-gpt", "85,584"),)
    assert table("gpt3-size").rows == (("GPT-3 175B", "96", "12288", "96", "175.0B"),)


def test_bert_and_t5_sizes_are_the_published_ones():
    assert [row[-1] for row in table("bert-sizes").rows] == ["110M", "340M"]
    assert dict(table("t5-sizes").rows) == {"small": "60M", "base": "220M", "large": "770M", "3B": "3B", "11B": "11B"}
