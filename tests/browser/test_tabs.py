"""Every tab opens for every family and is clicked through: never an error, never blank, never wider than the window."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.tabs import CONTROLS, registered, settled, use, wrong

pytestmark = pytest.mark.xdist_group("browser-views")

FAMILIES = ("gpt", "transformer", "bert", "t5", "vit")
MOST = 5  # controls of a tab that are used, evenly spread over all of them


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tab_opens_and_its_controls_can_be_used(family, studio, tab, keep):
    page = tab()
    names = registered(page, studio.of(family))
    assert names[0] == "step"
    for name in names:
        opened(page, studio.of(family, tab=name), name)
        keep(page, f"tab-{name}-{family}")
        assert wrong(page) == [], name
        count = page.locator(CONTROLS).count()
        for n in sorted({round(k * (count - 1) / (MOST - 1)) for k in range(MOST)} if count else ()):
            if f"tab={name}" not in page.url and name != "step":
                opened(page, studio.of(family, tab=name), name)
            control = page.locator(CONTROLS).nth(n)
            if control.count() == 1 and use(control):
                settled(page)
                assert wrong(page) == [], (name, n)
        keep(page, f"tab-{name}-{family}-used")


def opened(page: Page, address: str, name: str) -> None:
    page.goto(address)
    expect(page.locator(f"button[data-tab='{name}']")).to_have_attribute("aria-current", "page")
    settled(page)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_share_menu_opens_and_offers_a_page_of_its_own(family, studio, tab, keep):
    page = tab()
    page.goto(studio.of(family))
    expect(page.locator("[data-stage] figure.mat").first).to_be_visible()
    page.locator("[data-tab=share] button").first.click()
    menu = page.get_by_role("dialog", name="share")
    expect(menu).to_be_visible()
    expect(menu.get_by_role("button").first).to_be_enabled()
    assert len(menu.inner_text()) > 40
    keep(page, f"share-{family}")
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)


def test_a_tab_that_needs_a_pass_says_so_before_there_is_one(studio, tab):
    page = tab()
    for name in registered(page, studio.address):
        page.goto(studio.at(tab=name))
        settled(page)
        assert wrong(page) == [], name


LATE = """{
  const asked = fetch;
  const wait = (answer) => new Promise((done) => setTimeout(() => done(answer), 250));
  globalThis.fetch = (...given) => asked(...given).then(wait);
}"""


@pytest.mark.parametrize("family", ["transformer", "vit"])
def test_a_view_that_is_left_before_it_has_read_everything_says_nothing_more(family, studio, tab):
    """Every answer is late, and the reader is gone by then: to the next tab, or to another input."""
    page = tab()
    page.add_init_script(LATE)
    names = registered(page, studio.of(family))
    settled(page)
    for name in (*names, *reversed(names)):
        page.locator(f"button[data-tab='{name}']").click()
        page.wait_for_timeout(100)
    run = studio.runs[family]
    other = {"source": "1 May 2024"} if family == "transformer" else {"picture": "digits/test/7"}
    for name in names:
        for inputs in (other, run.inputs):
            page.goto(studio.at(model=run.id, **inputs, tab=name))
            page.wait_for_timeout(400)
    settled(page)
