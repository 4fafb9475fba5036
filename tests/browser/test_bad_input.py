"""Bad and strange input: what happened and what to do, in words; nothing breaks, and the next input works."""

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.xdist_group("browser-views")

STRANGE = {
    "emoji": "The 🐈‍⬛ sees the 🐕 [MASK] 👩🏽‍🚀",
    "right to left": "القطة ترى [MASK] الكلب",
    "mixed": "The cat יושבת on [MASK] नमस्ते",
}


def run(page: Page, field: str, text: str) -> None:
    page.locator(f"input[name={field}]").fill(text)
    page.get_by_role("button", name="Run").click()


def problem(page: Page) -> str:
    shown = page.locator("[data-problem]")
    expect(shown).to_be_visible()
    return shown.inner_text()


def opened(studio, tab, family: str) -> Page:
    page = tab()
    page.goto(studio.of(family))
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
    return page


@pytest.mark.parametrize(("family", "field"), [("gpt", "text"), ("transformer", "source"), ("bert", "text")])
@pytest.mark.parametrize("nothing", ["", "   "])
def test_an_empty_input_is_refused_in_words_and_the_next_one_works(family, field, nothing, studio, tab, keep):
    page = opened(studio, tab, family)
    run(page, field, nothing)
    assert "is empty: type a sentence" in problem(page)
    keep(page, f"empty-{family}")
    run(page, field, studio.runs[family].inputs[field])
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()


def test_of_ten_thousand_words_the_page_says_how_many_were_read(studio, tab, keep):
    page = opened(studio, tab, "bert")
    run(page, "text", "the cat sees the dog " * 2000)
    expect(page.locator("[data-notes]")).to_contain_text(re.compile(r"10,0\d\d tokens, of which 32 are read"))
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
    keep(page, "ten-thousand-words")


@pytest.mark.parametrize("kind", STRANGE)
def test_emoji_and_right_to_left_text_walk_like_any_other(kind, studio, tab, keep):
    page = opened(studio, tab, "bert")
    run(page, "text", STRANGE[kind])
    for step in ("input.tokens", "encoder.0.attention.softmax", "masked_words.filler"):
        page.goto(studio.at(model=studio.runs["bert"].id, text=STRANGE[kind], step=step))
        expect(page.locator("[data-stage]")).to_have_attribute("data-stage", step)
        expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    keep(page, f"strange-{kind}")


def test_a_letter_that_the_vocabulary_does_not_know_is_said(studio, tab):
    page = opened(studio, tab, "gpt")
    run(page, "text", "ABXYZ")
    assert problem(page).count("\n") <= 2
    run(page, "text", "ABC")
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()


@pytest.mark.parametrize(
    ("name", "content"),
    [("broken.png", b"\x89PNG\r\n\x1a\n" + b"no picture" * 9), ("text.jpg", b"words"), ("empty.png", b"")],
)
def test_a_broken_picture_is_refused_in_words_and_a_good_one_works(name, content, studio, tab, keep):
    page = opened(studio, tab, "vit")
    page.get_by_role("button", name="choose a picture").click()
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "image/png", "buffer": content})
    assert len(problem(page)) > 40
    keep(page, f"picture-{name}")
    page.locator("[data-picture]").first.click()
    expect(page.locator("[data-problem]")).to_have_count(0)
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()


def test_a_model_that_is_not_there_is_said_and_another_can_be_chosen(studio, tab):
    page = tab()
    page.goto(studio.at(model="../../etc", text="A"))
    assert "no model called" in problem(page)
    page.get_by_role("button", name="choose a model").click()
    page.locator(f"[data-model={studio.runs['gpt'].id}]").click()
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()


def test_a_step_a_head_and_a_cell_that_are_not_there_fall_back(studio, tab):
    page = tab()
    page.goto(studio.of("gpt", step="decoder.99.nothing", head=77, cell="900,900"))
    expect(page.locator("[data-stage]")).to_have_attribute("data-stage", "input.tokens")
    page.goto(studio.of("gpt", step="decoder.0.attention.scores", head=77, cell="900,900"))
    expect(page.locator("[data-stage]")).to_have_attribute("data-stage", "decoder.0.attention.scores")
    expect(page.locator("figure[data-as=result]")).to_have_attribute("data-head", "2")


def test_a_reload_finds_the_pass_that_is_kept(studio, tab):
    page = opened(studio, tab, "gpt")
    before = page.locator(".app").get_attribute("data-ready")
    page.reload()
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
    assert before and page.locator(".app").get_attribute("data-ready") == before
