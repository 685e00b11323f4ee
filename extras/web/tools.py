"""The tool of this extra: `fetch_url`, which reads a page of the web."""

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator

from skills_agent.graph.tools.content import Lines, Start, excerpt
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.of_extras import ExtraTools
from skills_agent.graph.user_folders import process_environment
from skills_agent.skills.network.hosts import FetchError, parse_url

if TYPE_CHECKING:
    from skills_agent.graph.services import Services
    from skills_agent.web.pages import Page

MAX_LINE: Final = 2_000
"""Characters of a line: pages have some without an end."""


def _readable_url(text: str) -> str:
    """Refuse a URL before anybody is asked about it."""
    try:
        parse_url(text)
    except FetchError as error:
        raise ValueError(str(error)) from error
    return text


PageUrl = Annotated[str, AfterValidator(_readable_url)]


def tools_of(_services: "Services") -> ExtraTools:
    """Return the tool."""
    return ExtraTools([declare(fetch_url)])


def fetch_url(url: PageUrl, start: Start = None, lines: Lines = None) -> str:
    """Get a web page by its http address."""
    from skills_agent.web.pages import fetch  # noqa: PLC0415 - it imports httpcore, and is offered more than called

    # A proxy that the environment names leads to the web.
    return page_text(fetch(url, environment=process_environment()), start, lines)


def page_text(page: "Page", start: int | None, lines: int | None) -> str:
    """Return a page as the model reads it: its facts, then a part of its text."""
    if page.leads_to:
        return f"[HTTP {page.status}: {page.url} leads to another host: {page.leads_to}]"
    facts = [f"HTTP {page.status}", page.url, page.kind or "no media type", f"{page.size:,} bytes"]
    facts += ["the rest was left out"] if page.is_cut else []
    rows = page.text.split("\n")
    wrapped = "\n".join(row[at : at + MAX_LINE] for row in rows for at in range(0, len(row) or 1, MAX_LINE))
    return f"[{', '.join(facts)}]\n{excerpt(wrapped, start, lines) or '[it is empty]'}"
