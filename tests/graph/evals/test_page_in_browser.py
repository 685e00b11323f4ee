"""The page of a run in a real browser: by the keyboard, in the dark, on paper, and with hostile texts."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.evals.report.html import html_page
from tests.graph.evals.summaries import HOSTILE, summary

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is in the extra `dev`")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-sync",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: sh .ci/system installs it"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


class Seen:
    """A page in the browser, and what it complained of and asked for."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(**options)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def shown(self) -> list[str]:
        """Return the requests of the cases that are seen, in their order."""
        texts: list[str] = self.page.locator(
            "details.case:visible > summary > span:first-child"
        ).all_inner_texts()
        return texts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "page.html").write_text(html_page(summary(24, text=HOSTILE)))
    return tmp_path / "page.html"


@pytest.fixture
def seen(browser: Any, file: Path) -> Iterator[Seen]:
    one = Seen(browser, file)
    yield one
    assert one.complaints == []
    assert one.requests == [file.as_uri()]
    one.page.close()


def test_hostile_texts_are_shown_and_do_nothing(seen: Seen) -> None:
    assert seen.page.evaluate("window.pwned") is None
    assert "<script>window.pwned=1</script>" in seen.shown()[0]
    assert seen.page.locator("script").count() == 1
    assert seen.page.locator("img").count() == 0


def test_cases_are_filtered_by_words_and_by_outcome(seen: Seen) -> None:
    assert seen.page.inner_text("#shown") == "24 of 24"
    seen.page.fill("#filter", "csv-report/7 offline")
    assert seen.page.inner_text("#shown") == "1 of 24"
    seen.page.fill("#filter", "")
    seen.page.select_option("#outcome", "passed")
    assert seen.page.inner_text("#shown") == "18 of 24"
    seen.page.select_option("#outcome", "flaky")
    assert len(seen.shown()) == 1


def test_cases_are_put_in_order(seen: Seen) -> None:
    def rates() -> list[float]:
        return [
            float(each)
            for each in seen.page.eval_on_selector_all("details.case", "all => all.map(e => e.dataset.rate)")
        ]

    before = rates()
    assert before != sorted(before)
    seen.page.select_option("#order", "rate up")
    assert rates() == sorted(before)
    seen.page.select_option("#order", "place up")
    assert rates() == before


def test_a_table_is_sorted_by_its_heading(seen: Seen) -> None:
    heading = seen.page.locator("table.sortable th", has_text="missed").first
    for order in ("ascending", "descending"):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == order


def test_the_keyboard_is_enough(seen: Seen) -> None:
    seen.page.keyboard.press("/")
    assert seen.page.evaluate("document.activeElement.id") == "filter"
    seen.page.keyboard.type("csv-report/0")
    assert len(seen.shown()) == 1
    seen.page.keyboard.press("Escape")
    assert len(seen.shown()) == 24
    for _ in range(4):
        seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.tagName") == "SUMMARY"
    outline = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    seen.page.keyboard.press("Enter")
    assert seen.page.locator("details.case").first.get_attribute("open") is not None
    assert "threads show eval-r1-csv-report-0-with" in seen.page.locator("details.case").first.inner_text()


def colour(page: Any) -> tuple[int, ...]:
    found = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return tuple(map(int, re.findall(r"\d+", found)[:3]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_light_or_dark_as_the_person_wants(browser: Any, file: Path, scheme: str) -> None:
    one = Seen(browser, file, color_scheme=scheme)
    is_dark = [sum(colour(one.page)) < 384]
    one.page.click("#theme")
    is_dark.append(sum(colour(one.page)) < 384)
    assert is_dark == ([True, False] if scheme == "dark" else [False, True])
    assert one.complaints == []
    one.page.close()


def test_on_paper_every_case_is_open_and_black_on_white(browser: Any, file: Path) -> None:
    one = Seen(browser, file, color_scheme="dark")
    assert one.page.locator("details.case[open]").count() == 0
    one.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert one.page.locator("details.case[open]").count() == 24
    one.page.emulate_media(media="print")
    assert colour(one.page) == (255, 255, 255)
    assert not one.page.locator("#filter").is_visible()
    one.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert one.page.locator("details.case[open]").count() == 0
    assert one.page.pdf().startswith(b"%PDF")
    one.page.close()


def test_a_narrow_page_does_not_scroll_sideways(browser: Any, file: Path) -> None:
    one = Seen(browser, file, viewport={"width": 390, "height": 800})
    one.page.click("details.case > summary >> nth=0")
    widths = one.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert widths[0] <= widths[1]
    one.page.close()


def test_without_scripts_everything_is_there(browser: Any, file: Path) -> None:
    one = Seen(browser, file, java_script_enabled=False)
    assert len(one.shown()) == 24
    one.page.click("details.case > summary >> nth=0")
    assert "threads show" in one.page.locator("details.case").first.inner_text()
    one.page.close()


def test_screenshots_can_be_kept(browser: Any, tmp_path: Path) -> None:
    """Set EVAL_SCREENSHOTS to a folder to look at the page as people see it."""
    place = Path(os.environ.get("EVAL_SCREENSHOTS", tmp_path))
    (tmp_path / "page.html").write_text(html_page(summary(200)))
    schemes: dict[str, dict[str, Any]] = {
        "light": {},
        "dark": {"color_scheme": "dark"},
        "narrow": {"viewport": {"width": 390, "height": 900}},
    }
    for name, options in schemes.items():
        one = Seen(browser, tmp_path / "page.html", **options)
        one.page.select_option("#order", "rate up")
        one.page.click("details.case > summary >> nth=0")
        one.page.screenshot(path=place / f"{name}.png", full_page=name != "narrow")
        assert (place / f"{name}.png").stat().st_size > 10_000
        one.page.close()
