"""The page of a run in a real browser: by the keyboard, in the dark, on paper, and with hostile texts."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.evals.report.html import html_page
from skills_agent.graph.pages.elements import Child, table
from skills_agent.graph.pages.page import page
from tests.graph.evals.large_runs import large_run
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
        # What its policy forbids is said to begin, and never ends.
        self.page.on("requestfinished", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def shown(self) -> list[str]:
        """Return the requests of the cases that are seen, in their order."""
        texts: list[str] = self.page.locator(
            "details.case:visible > summary > .request > span:first-child"
        ).all_inner_texts()
        return texts


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a run as it comes from real use."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(html_page(large_run(50)))
    return file


@pytest.fixture
def seen(browser: Any, file: Path) -> Iterator[Seen]:
    one = Seen(browser, file)
    yield one
    assert one.complaints == []
    assert set(one.requests) <= {file.as_uri()}
    one.page.close()


def test_hostile_texts_are_shown_and_do_nothing(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(html_page(summary(24, text=HOSTILE)))
    one = Seen(browser, file)
    one.page.click("#open")
    assert one.page.evaluate("window.pwned") is None
    assert "<script>window.pwned=1</script>" in one.shown()[0]
    assert one.page.locator("script").count() == 1
    assert one.page.locator("img").count() == 0
    assert one.complaints == []
    assert one.requests == [file.as_uri()]
    one.page.close()


def test_markup_that_got_through_would_run_and_load_nothing(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    markup = f"{HOSTILE}<img src='data:image/gif;base64,R0' onerror='pwned=1'><script src='x.js'></script>"
    file.write_text(html_page(summary(1)).replace("<h1>", f"{markup}<base href='https://evil.example'><h1>"))
    one = Seen(browser, file)
    assert one.page.evaluate("window.pwned") is None
    assert one.page.evaluate("document.baseURI") == file.as_uri()
    assert one.requests == [file.as_uri()]
    assert any("Content Security Policy" in each for each in one.complaints)
    one.page.close()


def test_cases_are_filtered_by_words_tag_and_outcome(seen: Seen) -> None:
    assert seen.page.inner_text("#shown") == "50 of 50 shown"
    seen.page.fill("#filter", "KeyError: 'amount'")
    assert 0 < len(seen.shown()) < 50
    seen.page.fill("#filter", "")
    seen.page.select_option("#tag", "trigger")
    assert seen.page.inner_text("#shown") == "10 of 50 shown"
    seen.page.select_option("#tag", "")
    failed = seen.page.locator("button[data-group=failed]")
    failed.click()
    assert failed.get_attribute("aria-pressed") == "true"
    assert seen.page.locator("button[data-group='']").get_attribute("aria-pressed") == "false"
    assert f"failed {len(seen.shown())}" == failed.inner_text()


def test_cases_are_sorted_by_each_column_and_back(seen: Seen) -> None:
    def values(name: str) -> list[float]:
        found = seen.page.eval_on_selector_all("details.case", f"all => all.map(e => e.dataset.{name})")
        return [float(each) for each in found]

    assert values("place") == sorted(values("place"))
    for name in ("delta", "rate", "seconds", "tokens"):
        button = seen.page.locator(f"button[data-sort={name}]")
        begins_high = name in {"seconds", "tokens"}
        for is_down in (begins_high, not begins_high):
            button.click()
            assert values(name) == sorted(values(name), reverse=is_down)
        assert button.get_attribute("aria-pressed") == "true"
    seen.page.click("button[data-sort=request]")
    assert seen.shown() == sorted(seen.shown(), key=str.lower)
    seen.page.click("button[data-sort=place]")
    assert values("place") == sorted(values("place"))


def test_a_table_is_sorted_by_its_heading(seen: Seen) -> None:
    heading = seen.page.locator("table.sortable th", has_text="recall").first
    table = heading.locator("xpath=ancestor::table")
    for order in ("ascending", "descending"):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == order
        shares = [float(each.split()[0]) for each in table.locator("tbody td:nth-child(6)").all_inner_texts()]
        assert shares == sorted(shares, reverse=order == "descending")


@pytest.mark.parametrize(
    ("cells", "in_order"),
    [
        (["1,200", "-", "30", "4.5"], ["-", "4.5", "30", "1,200"]),
        (["100 % (51 to 100)", "9 % (1 to 40)", ""], ["", "9 % (1 to 40)", "100 % (51 to 100)"]),
        (["2026-11-23 19:16", "2026-02-01 08:00"], ["2026-02-01 08:00", "2026-11-23 19:16"]),
        (["beta", "10", "alpha"], ["10", "alpha", "beta"]),
        (["+3", "-12", "0"], ["-12", "0", "+3"]),
    ],
)
def test_numbers_are_sorted_as_numbers_and_all_else_as_text(
    browser: Any, tmp_path: Path, cells: list[str], in_order: list[str]
) -> None:
    rows: list[list[Child]] = [["row", each] for each in cells]
    (tmp_path / "page.html").write_text(page("A table", table(["name", "figure"], rows, class_="sortable")))
    one = Seen(browser, tmp_path / "page.html")
    one.page.click("th:has-text('figure') button")
    assert one.page.locator("td").all_inner_texts() == in_order
    one.page.close()


def test_a_link_opens_the_case_that_it_leads_to(seen: Seen) -> None:
    seen.page.click("button[data-group=passed]")
    link = seen.page.locator("table.sortable a").first
    link.click()
    case = seen.page.locator(f"details{link.get_attribute('href')}")
    assert case.get_attribute("open") is not None
    assert case.is_visible()
    assert seen.page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_the_keyboard_is_enough(seen: Seen) -> None:
    seen.page.keyboard.press("/")
    assert seen.page.evaluate("document.activeElement.id") == "filter"
    seen.page.keyboard.type("csv-report/")
    assert len(seen.shown()) < 50
    seen.page.keyboard.press("Escape")
    assert len(seen.shown()) == 50
    reached = []
    while "SUMMARY" not in reached:
        seen.page.keyboard.press("Tab")
        reached.append(seen.page.evaluate("document.activeElement.tagName"))
        outline = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    assert set(reached[:-1]) == {"SELECT", "BUTTON"}
    seen.page.keyboard.press("Enter")
    first = seen.page.locator("details.case").first
    assert first.get_attribute("open") is not None
    assert "skills-agent threads show eval-20261123-1820-k7-" in first.inner_text()


def test_a_command_is_copied_or_selected(seen: Seen) -> None:
    button = seen.page.locator("dl.facts button.copy")
    button.click()
    seen.page.wait_for_function("document.querySelector('dl.facts button.copy').textContent !== 'copy'")
    assert button.inner_text() in {"copied", "selected"}


def test_notes_are_saved_as_a_file(seen: Seen) -> None:
    assert not seen.page.locator("#save").is_visible()
    seen.page.click("details.case > summary >> nth=1")
    seen.page.fill("details.case textarea", 'The figure is "right".\n')
    with seen.page.expect_download() as download:
        seen.page.click("#save")
    assert download.value.suggested_filename == "notes-20261123-1820-k7.json"
    saved = json.loads(Path(download.value.path()).read_text())
    assert saved["run"] == "20261123-1820-k7"
    assert [each["note"] for each in saved["notes"]] == ['The figure is "right".']
    assert saved["notes"][0]["case"] in seen.page.locator("details.case").nth(1).inner_text()
    seen.requests = [each for each in seen.requests if not each.startswith("blob:")]


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


def test_on_paper_a_case_is_as_it_is_seen_and_black_on_white(browser: Any, file: Path) -> None:
    one = Seen(browser, file, color_scheme="dark")
    assert one.page.locator("details[open]").count() == 0
    one.page.click("details.case > summary >> nth=0")
    story = one.page.locator("details.case > div")
    one.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert one.page.locator("details.case[open]").count() == 1
    assert one.page.locator("details:not([open]):not(.case)").count() == 0
    one.page.emulate_media(media="print")
    assert colour(one.page) == (255, 255, 255)
    assert not one.page.locator("#filter").is_visible()
    assert [story.nth(at).is_visible() for at in (0, 1)] == [True, False]
    one.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert one.page.locator("details[open]").count() == 1
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
    assert len(one.shown()) == 50
    assert one.page.locator("button:visible, input:visible").count() == 0
    one.page.click("details.case > summary >> nth=0")
    assert "threads show" in one.page.locator("details.case").first.inner_text()
    one.page.close()


def test_screenshots_can_be_kept(browser: Any, file: Path, tmp_path: Path) -> None:
    """Set EVAL_SCREENSHOTS to a folder to look at the page as people see it, on paper, too."""
    place = Path(os.environ.get("EVAL_SCREENSHOTS", tmp_path))
    wide = {"width": 1280, "height": 3600}
    looks: dict[str, dict[str, Any]] = {
        "light": {"viewport": wide},
        "dark": {"viewport": wide, "color_scheme": "dark"},
        "narrow": {"viewport": {"width": 390, "height": 3600}},
    }
    for name, options in looks.items():
        one = Seen(browser, file, **options)
        one.page.click("details.case > summary >> nth=0")
        one.page.screenshot(path=place / f"{name}.png")
        assert (place / f"{name}.png").stat().st_size > 10_000
        if name == "light":
            one.page.pdf(path=place / "paper.pdf")
        one.page.close()
