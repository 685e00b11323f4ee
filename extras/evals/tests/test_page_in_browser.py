"""The page of a run in a real browser: by the keyboard, in the dark, on paper, and with hostile texts."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extras.evals.tests.summaries import HOSTILE, summary
from skills_agent.evals.report.html import html_page

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
    """Return the page of a run."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(html_page(summary(50)))
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


def test_the_keyboard_is_enough(seen: Seen) -> None:
    seen.page.keyboard.press("/")
    assert seen.page.evaluate("document.activeElement.id") == "filter"
    seen.page.keyboard.type("csv-report/1")
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
    assert "skills-agent threads show eval-r1-" in first.inner_text()


def test_without_scripts_everything_is_there(browser: Any, file: Path) -> None:
    one = Seen(browser, file, java_script_enabled=False)
    assert len(one.shown()) == 50
    assert one.page.locator("button:visible, input:visible").count() == 0
    one.page.click("details.case > summary >> nth=0")
    assert "threads show" in one.page.locator("details.case").first.inner_text()
    one.page.close()
