"""MCP servers of a real `langgraph dev`, by its SDK: called after an approval, ended in a call."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.langgraph_dev import Server
from tests.mcp_servers import command, running_http

pytestmark = pytest.mark.slow

APPROVE: dict[str, Any] = {"resume": {"decisions": [{"type": "approve"}]}}


def wants(name: str, **args: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args}]}


def test_tools_of_mcp_servers_are_called_over_the_sdk(tmp_path: Path) -> None:
    (workspace := tmp_path / "work").mkdir()
    replies = [
        wants("mcp__notes__echo", text="by a program"),
        wants("mcp__web__echo", text="by an address"),
        wants("mcp__notes__die"),
        wants("mcp__notes__echo", text="started again"),
        "done",
    ]
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    with running_http() as (url, _):
        servers = {"notes": command("notes"), "web": {"url": url}}
        more = {
            "SKILLS_AGENT_MODEL": f"scripted:{tmp_path}/replies.json",
            "SKILLS_AGENT_MCP_SERVERS": json.dumps(servers),
        }
        server = Server(tmp_path, workspace, more=more)
        client = server.start()
        try:
            thread = client.threads.create()["thread_id"]
            given: Any = {"input": {"messages": [{"role": "user", "content": "go"}]}}
            for _ in range(4):
                client.runs.wait(thread, "agent", **given)
                (interrupt,) = client.threads.get_state(thread)["interrupts"]
                assert interrupt["value"]["action_requests"][0]["name"].startswith("mcp__")
                given = {"command": APPROVE}
            values: Any = client.runs.wait(thread, "agent", **given)
        finally:
            server.stop()
    assert values["answer"] == "done", server.log
    first, second, died, again = [each for each in values["messages"] if each["type"] == "tool"]
    assert [first["content"], second["content"]] == ["by a program", "by an address"]
    assert died["status"] == "error"
    assert again["content"] == "started again"
