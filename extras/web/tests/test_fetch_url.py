"""fetch_url: what is asked, what a grant takes in, and what the model reads."""

from pathlib import Path
from typing import Any

import pytest

from skills_agent.web.pages import fetch
from skills_agent.web.tools import page_text
from tests.agents import call, calls
from tests.kit import MakeAgent
from tests.web_server import serving

PAGE = "https://api.example.invalid/a?b=c"


def test_a_fetch_is_asked_about_with_its_whole_url(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(call("fetch_url", url=PAGE)), "done"])
    agent.say("read")
    shown = f"`fetch_url`\n\n```\nurl: {PAGE}\n```\n\nfetch_url may reach the network. Risk: network."
    assert agent.question == shown


@pytest.mark.parametrize(
    ("says", "url", "settings"),
    [
        *(
            ("is not fetched", url, {})
            for url in ("http://user@example.com/", "file:///etc/passwd", "https://example.com\r\nX: y/")
        ),
        *(
            ("is no public address", url, {"require_approval_for": []})
            for url in ("http://127.0.0.1/", "http://2130706433/", "http://[::ffff:10.0.0.1]/")
        ),
    ],
)
def test_what_is_no_public_url_is_refused_without_a_question(
    make_agent: MakeAgent, says: str, url: str, settings: dict[str, Any]
) -> None:
    agent = make_agent([calls(call("fetch_url", url=url)), "done"], **settings)
    agent.say("read")
    assert not agent.state.interrupts
    (answer,) = agent.tool_messages("fetch_url")
    assert (answer.status, says in answer.text) == ("error", True)


@pytest.mark.parametrize(
    "pattern", ["WebFetch(domain:api.example.invalid)", "fetch_url(*.example.invalid)", "fetch_url"]
)
def test_a_grant_for_a_host_takes_in_its_pages_and_no_others(make_agent: MakeAgent, pattern: str) -> None:
    urls = (PAGE, "https://api.example.invalid/other", "https://example.invalid/")
    agent = make_agent([*(calls(call("fetch_url", url=url)) for url in urls), "done"])
    agent.say("read")
    agent.answer({"type": "approve", "grant": {"scope": "pattern", "pattern": pattern}})
    is_for_all = pattern == "fetch_url"
    assert len(agent.tool_messages("fetch_url")) == (3 if is_for_all else 2)
    assert bool(agent.state.interrupts) is not is_for_all


def test_the_operator_can_leave_hosts_out(make_agent: MakeAgent) -> None:
    urls = ("https://www.example.invalid:8443/", "https://other.invalid/")
    replies = [calls(call("fetch_url", url=urls[0])), calls(call("fetch_url", url=urls[1])), "done"]
    agent = make_agent(replies, require_approval_for=[], exclude_tools=["WebFetch(*.example.invalid)"])
    agent.say("read")
    refused, tried = agent.tool_messages("fetch_url")
    assert "the operator turned off WebFetch(*.example.invalid)" in refused.text
    assert "other.invalid has no address" in tried.text


def test_a_page_has_its_facts_first_and_is_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("".join(f"line {number}\n" for number in range(1, 6)) + "x" * 5_000)
    with serving(tmp_path) as web:
        page = fetch(f"{web.url}/long.md", is_allowed=lambda _: True)
        whole, part = page_text(page, None, None), page_text(page, 2, 2)
    assert whole.startswith("[HTTP 200, http://")
    assert max(map(len, whole.splitlines())) == 2_000
    assert part.endswith("\nline 2\nline 3\n[lines 2-3 of 8; go on with start=4]")
