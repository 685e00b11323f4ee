"""The page of a run: one file that loads nothing, small, and with every text escaped."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.evals.report.html import html_page
from skills_agent.graph.evals.report.wording import answers
from skills_agent.graph.pages.elements import Html, element, text
from tests.graph.evals.large_runs import large_run
from tests.graph.evals.summaries import HOSTILE, summary

_TAGS = """
html head meta title style script body main div h1 h2 h3 p small code pre span del ins ul li section table
caption
thead tbody tr th td svg rect line circle text details summary button label input select option
"""
ALLOWED = frozenset(_TAGS.split())
TWO_MEGABYTES = 2 * 1024 * 1024


class Tags(HTMLParser):
    """Reads a page as a browser does: its tags, and what of them could load or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    page = html_page(summary(200, text=HOSTILE))
    read = Tags(page)
    assert read.open == []
    assert set(read.tags) <= ALLOWED
    assert read.tags.count("script") == read.tags.count("style") == 1
    assert not {
        name for name in read.attributes if name.startswith("on") or name in {"src", "href", "action"}
    }
    assert "default-src &#x27;none&#x27;" in page
    assert "http://" not in page.replace("http-equiv", "")


def test_the_page_of_two_hundred_cases_is_small() -> None:
    page = html_page(summary(200, text=HOSTILE * 20))
    assert len(page.encode()) < TWO_MEGABYTES
    assert page.count('class="case"') == 200


def test_the_page_begins_with_the_answers() -> None:
    page = html_page(large_run(80))
    said = re.findall(r'<p class="verdict ([^"]*)">([^<]*)<', page)
    assert [tone for tone, _ in said] == ["better", "better"]
    assert [sentence for _, sentence in said] == [each.sentence for each in answers(large_run(80))]


def test_each_case_says_what_was_expected_what_happened_and_where_its_thread_is() -> None:
    page = html_page(summary(4))
    for said in (
        "The answer contains &quot;4&quot;.",
        "skills-agent threads show eval-r1-csv-report-0-with",
        "load_skill {&quot;name&quot;:&quot;csv-report&quot;}",
        "&quot;contains&quot;: [",
        "evals.json#3: it is no object.",
        "csv-report dddddddddddd",
    ):
        assert said in page


@given(st.text())
def test_any_text_stays_a_text(value: str) -> None:
    page = f"<p>{text(value)}</p>{element('a', value, title=value)}"
    read = Tags(page)
    assert read.tags == ["p", "a"]
    assert read.attributes == {"title"}


def test_markup_is_not_escaped_twice() -> None:
    assert element("p", element("b", "1 < 2"), None, [Html("<br>")]) == "<p><b>1 &lt; 2</b><br></p>"
    assert (
        element("input", disabled=True, hidden=False, data_x=1, for_="y")
        == '<input disabled data-x="1" for="y">'
    )
