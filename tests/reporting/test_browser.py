"""What a browser makes of the pages: no errors, no requests, charts that answer, every width, colour scheme and paper."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_up
import pytest

from tenfold.reporting.comparing import compare
from tenfold.reporting.comparison import write_comparison
from tenfold.reporting.page import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WIDE, PHONE = 1100, 380

LOW_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgba(getComputedStyle(node).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const node of document.body.querySelectorAll("*:not(script):not(style):not(noscript)")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), svg = node instanceof SVGElement;
    const [a, b] = [light(rgba(svg ? style.fill : style.color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${node.textContent.trim().slice(0, 40)}`);
  }
  return found;
}"""
"""Texts with a contrast below 4.5 to what is behind them (WCAG AA)."""

OVERLAPS = """(selector) => {
  const boxes = [...document.querySelectorAll(selector)].map((n) => [n.getBoundingClientRect(), n.textContent]);
  return boxes.flatMap(([a, one], i) => boxes.slice(i + 1)
    .filter(([b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    .map(([, two]) => `${one} and ${two}`));
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("browser")
    taught = made_up.analyse(made_up.full(root / "taught"))
    other = made_up.full(
        root / "other", "IV-36-128", scores=made_up.scores(58.1, 84.0, None), agreement=made_up.agreement(0.2, 0.7)
    )
    bare = made_up.folder(root / "a-rather-long-name-of-a-run-that-was-never-taught", "II-36")
    write_comparison(compare([taught, other, bare]), root / "comparison")
    return {
        "full": write_report(taught, [other, bare]),
        "bare": write_report(bare),
        "comparison": root / "comparison" / "compare.html",
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs a Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Tab:
    """A page that was opened, and all that it complained of or asked for."""

    def __init__(self, browser: Any, path: Path, width: int = WIDE, scheme: str = "light") -> None:
        self.url = path.as_uri()
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.complaints.append(request.url) if request.url != self.url else None)
        self.page.goto(self.url)
        self.page.wait_for_function("() => [...document.querySelectorAll('figure svg')].every((svg) => svg.children.length)")

    @property
    def sideways(self) -> int:
        """By how much it is wider than the window."""
        found: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return found

    def marks(self) -> list[str]:
        found: list[str] = self.page.locator("#pareto .point").evaluate_all("nodes => nodes.map((n) => n.dataset.run)")
        return found


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[Tab]:
    tab = Tab(browser, pages[getattr(request, "param", "full")])
    yield tab
    tab.context.close()
    assert tab.complaints == []


@pytest.mark.parametrize("name", ["full", "bare", "comparison"])
def test_every_width_and_scheme(browser: Any, pages: dict[str, Path], name: str) -> None:
    """Nothing is complained of or asked for; no sideways scroll; no pale text; no name over another."""
    for width, scheme in ((WIDE, "light"), (PHONE, "dark")):
        tab = Tab(browser, pages[name], width, scheme)
        assert tab.sideways == 0
        assert tab.page.evaluate(LOW_CONTRAST) == []
        assert tab.page.evaluate(OVERLAPS, "#pareto text") == []
        assert tab.page.evaluate(OVERLAPS, "#curves text") == []
        assert tab.page.locator("h2").count() >= 3
        assert tab.complaints == []
        tab.context.close()


def test_long_names_of_axes_fit_a_phone(browser: Any, pages: dict[str, Path]) -> None:
    tab = Tab(browser, pages["full"], PHONE)
    tab.page.get_by_role("combobox", name="Cost").select_option("relative:eager, 8 x 128, float32")
    tab.page.get_by_role("combobox", name="Quality").select_option("alike:rank_correlation")
    edges = "nodes => nodes.map((n) => n.getBoundingClientRect()).filter((b) => b.left < 0 || b.right > innerWidth).length"
    assert tab.page.locator("#pareto text").evaluate_all(edges) == 0
    assert tab.page.evaluate(OVERLAPS, "#pareto text") == []
    tab.context.close()


def test_the_chart_answers_to_the_pointer(opened: Tab) -> None:
    page, tip = opened.page, opened.page.locator("#pareto .tip")
    assert opened.marks() == ["all-MiniLM-L6-v2", "taught", "other"]
    assert not tip.is_visible()
    page.locator('#pareto .point[data-run="taught"]').hover()
    assert tip.locator("strong").text_content() == "taught"
    said = tip.inner_text()
    assert "13.6M" in said and "III-70+II-20" in said and "75" in said
    assert page.locator("tr.lit th").all_inner_texts() == ["taught"]
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    assert page.locator("tr.lit").count() == 0


def test_the_filter_takes_a_form_out_of_chart_and_table(opened: Tab) -> None:
    page = opened.page
    row = page.locator('tr[data-form="tucker"]').last
    assert row.is_visible()
    page.get_by_label("tucker").uncheck()
    assert opened.marks() == ["all-MiniLM-L6-v2", "taught"]
    assert not row.is_visible()
    page.get_by_label("tucker").check()
    assert opened.marks() == ["all-MiniLM-L6-v2", "taught", "other"] and row.is_visible()


def test_other_axes_and_what_is_not_on_them(opened: Tab) -> None:
    page = opened.page
    assert "never-taught" in page.locator("#pareto ~ p").inner_text()
    page.get_by_role("combobox", name="Quality").select_option("alike:cosine")
    assert opened.marks() == ["all-MiniLM-L6-v2", "taught (compressed)", "taught", "other (compressed)", "other"]
    page.get_by_role("combobox", name="Cost").select_option("relative:eager, 8 x 128, float32")
    mark = page.locator('#pareto .point[data-run="taught"]')
    assert "0.526" in mark.get_attribute("aria-label")
    assert mark.get_attribute("data-front") == "true"


def test_times_of_many_shapes_are_grouped(opened: Tab) -> None:
    """Two cells: each group has one option a cell, and what is chosen is what is drawn."""
    cost = opened.page.get_by_role("combobox", name="Cost")
    groups = cost.locator("optgroup").evaluate_all("nodes => nodes.map((n) => [n.label, n.children.length])")
    assert groups == [["Time of a call", 2], ["Time over the original's best", 2]]
    cost.select_option("time:eager, 8 x 128, float32")
    assert "time of a call (eager, 8 x 128, float32)" in opened.page.locator("#pareto svg").text_content()


def test_all_of_it_by_keyboard(opened: Tab) -> None:
    page = opened.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_role("combobox", name="Quality").focus()
    page.keyboard.press("Tab")  # the logarithm
    page.keyboard.press("Tab")  # the first form
    page.keyboard.press("Space")
    assert opened.marks() == ["taught", "other"]
    for _ in range(10):
        if page.evaluate("document.activeElement.matches('.point')"):
            break
        page.keyboard.press("Tab")
    tip = page.locator("#pareto .tip")
    assert tip.locator("strong").text_content() == "taught"
    page.keyboard.press("Tab")
    assert tip.locator("strong").text_content() == "other"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.locator("#curves svg").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "tokens 4M" in page.locator("#curves ~ p").inner_text()
    assert page.locator("#curves .tip").is_visible()


def test_the_curves_answer_to_the_pointer(opened: Tab) -> None:
    page = opened.page
    dot = page.locator("#curves .dot").nth(2)
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    assert "8M" in page.locator("#curves .tip").inner_text()
    page.get_by_role("combobox", name="Measured").select_option("hidden")
    assert "hidden (lower is better)" in page.locator("#curves svg").text_content()


def test_dark_and_light(browser: Any, opened: Tab, pages: dict[str, Path]) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(background)
    opened.page.get_by_role("button", name="Change to dark colours").click()
    dark = opened.page.evaluate(background)
    assert opened.page.evaluate(LOW_CONTRAST) == []
    assert light != dark
    asked = Tab(browser, pages["bare"], scheme="dark")
    assert asked.page.evaluate(background) == dark
    asked.context.close()


def test_paper_has_everything(opened: Tab) -> None:
    """Also what was filtered out or scrolled away; in light colours, without controls; nothing sticks out of the page."""
    page = opened.page
    page.get_by_label("tucker").uncheck()
    page.get_by_role("button", name="Change to dark colours").click()
    page.set_viewport_size({"width": 720, "height": 1000})  # A4 less its margins
    page.emulate_media(media="print")
    assert page.locator('tr[data-form="tucker"]').last.is_visible()
    assert not page.locator(".controls").first.is_visible()
    assert not page.locator("nav").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(LOW_CONTRAST) == []
    wider = (
        "n => n.filter((e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1).map((e) => e.ariaLabel)"
    )
    assert page.locator(".scroll").evaluate_all(wider) == []
    assert opened.sideways == 0
    assert page.locator("h2").count() == 9 and all(h2.is_visible() for h2 in page.locator("h2").all())
