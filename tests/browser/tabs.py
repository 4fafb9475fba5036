"""What tests of whole tabs share: which there are, when one has settled, and what is wrong with one."""

import re
import time

from playwright.sync_api import Locator, Page, expect

# What works for a long time, writes files or takes something away is another test's matter.
LEFT_ALONE = re.compile(r"start|train|resume|stop|delete|remove|download|save|write|share|play|source|\.py", re.I)
TABS = "nav button[data-tab]"
PATIENCE = 30  # seconds
DOING = re.compile(r"…\s*$|^\s*(Reading|Running|Asking|Sending|Multiplying|Going back|reading|writing,)")
CONTROLS = "main :is(button, [role=tab], [role=radio], [role=switch], input, select):visible"
NAME = "e => e.getAttribute('aria-label') || e.title || e.labels?.[0]?.innerText || e.innerText || ''"
WRONG = """() => {
  const main = document.querySelector("main");
  const problem = main.querySelector("[data-problem], [role=alert]");
  const drawn = main.querySelector("canvas, svg, img, table, input, button, figure");
  const page = document.documentElement;
  return {
    problem: problem?.innerText ?? null,
    blank: main.innerText.trim().length < 20 && !drawn,
    sideways: page.scrollWidth > page.clientWidth,
  };
}"""


def registered(page: Page, address: str) -> list[str]:
    """The names of all tabs, as the page lists them."""
    page.goto(address)
    expect(page.locator(TABS).first).to_be_visible()
    return [one.get_attribute("data-tab") or "" for one in page.locator(TABS).all()]


def settled(page: Page) -> None:
    """The view is there, and nothing on it says that it is being done."""
    expect(page.locator("main > *").first).to_be_attached()
    page.wait_for_timeout(150)  # until a view has asked for what it shows
    said = page.locator("main [role=status]:visible").filter(has_text=DOING)
    end = time.monotonic() + PATIENCE
    while (texts := said.all_inner_texts()) and time.monotonic() < end:
        for one in said.element_handles():
            one.evaluate("e => e.scrollIntoView()")  # what is far down is asked for when it is seen
        page.wait_for_timeout(50)
    assert texts == [], f"still being done after {PATIENCE} s"


def wrong(page: Page) -> list[str]:
    found = page.evaluate(WRONG)
    return [f"{name}: {value}" for name, value in found.items() if value]


def use(control: Locator) -> bool:
    """Use a control as its kind is used; False for one that is left alone."""
    name = control.evaluate(NAME)
    if LEFT_ALONE.search(name) or not control.is_enabled():
        return False
    kind = control.evaluate("e => e.tagName === 'INPUT' ? e.type : e.tagName.toLowerCase()")
    if kind == "range":
        control.press("ArrowRight")
    elif kind == "select":
        options = control.locator("option:not([disabled])").all()
        control.select_option(value=options[-1].get_attribute("value") or options[-1].inner_text())
    elif kind in ("file", "text", "search", "number"):
        return False
    else:
        control.click()
    return True
