"""MCP servers of a real `langgraph dev`, by its SDK: called after an approval, ended in a call."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents import call, calls
from tests.langgraph_dev import Server, running
from tests.mcp_servers import command, running_http

pytestmark = pytest.mark.slow


def wants(name: str, **args: Any) -> dict[str, Any]:
    return calls(call(f"mcp__{name}", **args))


def test_tools_of_mcp_servers_are_called_over_the_sdk(tmp_path: Path) -> None:
    (workspace := tmp_path / "work").mkdir()
    replies = [
        *(wants("notes__echo", text="by a program"), wants("web__echo", text="by an address")),
        *(wants("notes__die"), wants("notes__echo", text="started again"), "done"),
    ]
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    with running_http() as (url, _):
        more = {
            "SKILLS_AGENT_MODEL": f"scripted:{tmp_path}/replies.json",
            "SKILLS_AGENT_MCP_SERVERS": json.dumps({"notes": command("notes"), "web": {"url": url}}),
        }
        with running(Server(tmp_path, workspace, more=more)) as server:
            thread = server.thread()
            server.run(thread, "go")
            for _ in range(4):
                (interrupt,) = server.state(thread)["interrupts"]
                assert interrupt["value"]["action_requests"][0]["name"].startswith("mcp__")
                values = server.run(thread, decision="approve")
    assert values["answer"] == "done", server.log
    first, second, died, again = [each for each in values["messages"] if each["type"] == "tool"]
    assert [first["content"], second["content"]] == ["by a program", "by an address"]
    assert died["status"] == "error"
    assert again["content"] == "started again"
