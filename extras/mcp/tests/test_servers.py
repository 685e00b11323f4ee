"""Connections to servers that are real processes, and what of their tools is offered."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.audit.redaction import Redaction
from skills_agent.graph.settings import Settings, SettingsError, shown_settings
from skills_agent.mcp.client import McpServers
from skills_agent.mcp.definitions import MAX_ALL, MAX_DESCRIPTION, MAX_TOOLS, ToolDefinition, check_tools
from skills_agent.mcp.servers import McpServerError
from skills_agent.skills.scripts.programs import path_outside
from tests.mcp_servers import command, running_http, start_http
from tests.waiting import until

PATIENT = {"connect_timeout": 60}
"""For a machine that is busy with other tests."""
PLAIN = {"type": "object"}

OfferedBy = dict[str, list[ToolDefinition]]


@contextmanager
def connected(
    servers: Mapping[str, Mapping[str, Any]], place: Path, environment: Mapping[str, str] = os.environ
) -> Iterator[tuple[McpServers, OfferedBy]]:
    """Connect servers; yield them, and the tools that joined."""
    made = McpServers(
        Settings(workspace=place / "work", home=place, extras={"mcp_servers": servers}), environment
    )
    offered: OfferedBy = {}

    def join(name: str, tools: Any) -> list[str]:
        offered[name] = list(tools)
        return []

    made.join = join
    made.connect()
    try:
        yield made, offered
    finally:
        made.close()


def text_of(servers: McpServers, tool: str, **arguments: Any) -> str:
    """Call a tool of the server `notes`, and return the text of its result."""
    result = servers.start_call("notes", tool, arguments, 60).result()
    return str(result.content[0].text)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def has_another(servers: McpServers, offered: OfferedBy) -> bool:
    """Have the server bring a tool, and tell whether it is offered."""
    text_of(servers, "change")  # again: what it says before it is listened to is lost
    servers.connect()
    return "mcp__notes__brought" in {each.name for each in offered.get("notes", ())}


@pytest.mark.slow
def test_a_program_gets_its_variables_and_works_at_home(tmp_path: Path) -> None:
    (tmp_path / "work/bin").mkdir(parents=True)
    path = f"{tmp_path}/work/bin:bin:{os.environ['PATH']}"
    environment = {"HOME": "", "SECRET_OF_AGENT": "no", "NOTES_TOKEN": "yes-this-one", "PATH": path}
    server = {**command("notes"), **PATIENT, "env": {"TOKEN": "Bearer ${NOTES_TOKEN}"}}
    with connected({"notes": server}, tmp_path, environment) as (servers, _):
        said = text_of(servers, "pid")
    outside = path_outside(os.environ["PATH"], tmp_path / "work")
    for text in (f" {tmp_path} ", "TOKEN=Bearer yes-this-one", f"PATH={outside}"):
        assert text in said
    assert not [text for text in ("SECRET_OF_AGENT", "NOTES_TOKEN=") if text in said]


@pytest.mark.slow
def test_a_server_that_was_killed_is_started_again_for_the_next_call(tmp_path: Path) -> None:
    with connected({"notes": {**command("notes"), **PATIENT}}, tmp_path) as (servers, _):
        first = int(text_of(servers, "pid").split()[0])
        os.kill(first, signal.SIGKILL)
        until(lambda: not servers.states()[0].is_connected)
        second = int(text_of(servers, "pid").split()[0])
        assert second != first
        with pytest.raises(McpServerError, match="outcome unknown: it ended while die ran"):
            text_of(servers, "die")
        assert text_of(servers, "echo", text="back") == "back"
    until(lambda: not is_alive(second))


@pytest.mark.slow
def test_a_call_that_is_cancelled_or_late_is_cancelled_at_the_server(tmp_path: Path) -> None:
    started, stopped = tmp_path / "started", tmp_path / "stopped"
    files = {"started": str(started), "stopped": str(stopped)}
    with connected({"notes": {**command("notes"), **PATIENT}}, tmp_path) as (servers, _):
        call = servers.start_call("notes", "wait", files, None)
        until(started.exists)
        call.cancel()
        until(stopped.exists)
        started.unlink()
        stopped.unlink()
        for limit in (0.5, 5, 50):
            with pytest.raises(McpServerError, match="outcome unknown: wait did not return within"):
                servers.start_call("notes", "wait", files, limit).result()
            if started.exists():  # on a busy machine it may not have come to the server in half a second
                break
        until(stopped.exists)


@pytest.mark.slow
def test_a_server_over_http_is_found_again_after_it_was_restarted(tmp_path: Path) -> None:
    with (
        running_http() as (url, process),
        connected({"notes": {"url": url, **PATIENT}}, tmp_path) as (servers, offered),
    ):
        assert text_of(servers, "echo", text="hello") == "hello"
        first = offered.pop("notes")
        servers.connect()
        assert not offered  # they are listed again where they may be new, and at no other time
        until(lambda: has_another(servers, offered))
        process.kill()
        process.wait()
        with pytest.raises(McpServerError, match="notes"):
            text_of(servers, "echo", text="nobody")
        again = start_http(int(url.split(":")[2].split("/")[0]))
        try:
            assert text_of(servers, "echo", text="again") == "again"
            servers.connect()
            assert [each.name for each in offered["notes"]] == [each.name for each in first]
        finally:
            again.kill()
            again.wait()


@pytest.mark.slow
def test_servers_that_do_not_answer_are_said_and_hold_up_no_other(tmp_path: Path) -> None:
    with running_http("flood") as (url, _):
        bad = {
            "silent": {**command("silent"), "connect_timeout": 0.2},
            "chatty": {**command("chatty"), **PATIENT},
            "flood": {"url": url, **PATIENT},
            "missing": {"command": "no-such-program-here"},
            "closed": {"url": "http://127.0.0.1:9/mcp"},
            "unset": {**command("notes"), "env": {"A": "${NOT_SET_ANYWHERE}"}},
            "secret": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "${NOT_SET_ANYWHERE}"}},
            "gone": {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence \u202e')"]},
        }
        with connected({**bad, "notes": {**command("notes"), **PATIENT}}, tmp_path) as (servers, offered):
            faults = {state.name: state.fault for state in servers.states()}
            assert set(offered) == {"notes"}
            assert faults.pop("notes") == ""
            assert all(f"MCP server {name}: " in fault for name, fault in faults.items()), faults
            for name, fault in {
                "silent": "no answer within 0.2 seconds", "gone": "no licence <U+202E>",
                "missing": "no-such-program-here is not installed",
                "unset": "NOT_SET_ANYWHERE is not set", "secret": "NOT_SET_ANYWHERE is not set",
            }.items():  # fmt: skip
                assert fault in faults[name]
            assert servers.absence_of("mcp__missing__x") == faults["missing"]
            assert "No MCP server other is configured" in servers.absence_of("mcp__other__x")
            assert servers.absence_of("run_script") == ""


def test_of_a_strangers_tools_the_good_ones_are_offered_and_nothing_of_the_rest(tmp_path: Path) -> None:
    with connected({"hostile": {**command("hostile"), **PATIENT}}, tmp_path) as (servers, offered):
        tools = {tool.tool: tool for tool in offered["hostile"]}
        (state,) = servers.states()
    names = list(tools)
    assert (names[0], names[-1]) == ("first", "last")
    assert tools["first"].description == "[MCP server hostile] Good."
    assert len(tools["huge"].description) < MAX_DESCRIPTION + 40
    assert tools["bidi"].description == "[MCP server hostile] safe drowssap"
    assert tools["run_script"].name == "mcp__hostile__run_script"
    assert tools["wipe"].risk == "network"
    assert tools["drop"].risk == "delete"
    assert tools["loop"].schema["properties"]["next"]["properties"] == {"next": {}}
    assert tools["top"].schema == {"type": "object", "properties": {"x": {"type": "string"}}}
    assert len({tool.name for tool in tools.values()}) == len(tools)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name) for tool in tools.values())
    left_out = {"list", "7", "None", "no object", "bomb", "deep", "remote", "wrong", "odd", "hidden"}
    assert left_out <= {fault.partition(":")[0] for fault in state.faults}
    assert not left_out & set(tools)
    assert "first: there is another tool of that name before it" in state.faults
    assert "\u202e" not in "".join(state.faults)
    assert state.tools == len(tools)


def offer(name: str, schema: Any = PLAIN, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema, **more}


@pytest.mark.slow
def test_a_server_with_very_many_tools_fills_no_prompt() -> None:
    tools, faults = check_tools("s", [offer(f"t{number}") for number in range(1_000)])
    assert len(tools) == MAX_TOOLS
    assert "more tools cannot be offered" in faults[-1]
    schema = {"type": "object", "properties": {f"p{n}": {"description": "x" * 1_000} for n in range(12)}}
    large, _ = check_tools("s", [offer(f"t{number}", schema) for number in range(100)])
    assert 1 < len(large) < 1 + MAX_ALL // 12_000


WORDS = st.sampled_from(["type", "properties", "$ref", "enum", "items", "anyOf", "required", "$defs", "x"])
REFERENCES = ["#", "#/$defs/x", "#/properties"]
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(WORDS, inner | st.sampled_from(["object", "string", *REFERENCES]), max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "$defs", "anyOf", "$ref"]), json_values), st.text()
)
def test_whatever_a_server_sends_is_offered_in_bounds_or_said(schema: dict[str, Any], name: str) -> None:
    tools, faults = check_tools("s", [offer(name, schema, description=name), offer("good")])
    assert any(tool.tool == "good" for tool in tools) or name == "good"
    assert len(tools) + len(faults) == 2
    for tool in tools:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name)
        assert tool.schema["type"] == "object"
        assert "$ref" not in msgspec.json.encode(tool.schema).decode() or "$ref" in tool.schema["properties"]


@pytest.mark.slow
def test_servers_die_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    files = [tmp_path / "server", tmp_path / "child"]
    server = {**command("stubborn", *map(str, files)), **PATIENT}
    program = f"""
import time; from pathlib import Path
from skills_agent.graph.settings import Settings; from skills_agent.mcp.client import McpServers
settings = Settings(workspace=Path('/nowhere'), extras={{'mcp_servers': {{'s': {server!r}}}}})
servers = McpServers(settings, {{}}); servers.connect()
print(servers.states(), flush=True); time.sleep(600)"""
    agent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert agent.stdout
    assert "tools=1" in agent.stdout.readline()
    pids = [int(file.read_text()) for file in files]
    assert all(map(is_alive, pids))
    agent.kill()
    agent.wait()
    agent.stdout.close()
    until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        ({"x": {}}, "either a command or a url"),
        ({"x": {"command": "a", "url": "http://a"}}, "either a command or a url"),
        ({"x": {"command": "./a"}}, "an absolute path"),
        ({"x": {"url": "file:///etc/passwd"}}, "http or https"),
        ({"x\n": {"command": "a"}}, "regex"),
        ({"x": {"command": "a", "env": {"TOKEN": 123456789}}}, "Expected `str`"),
    ],
)
def test_a_setting_that_is_no_server_is_refused(servers: Any, text: str) -> None:
    with pytest.raises(SettingsError, match=text) as caught:
        Settings(extras={"mcp_servers": servers})
    assert "mcp_servers" in str(caught.value)
    assert "123456789" not in str(caught.value)


def test_what_a_server_is_given_is_shown_to_nobody(tmp_path: Path) -> None:
    servers: Any = {
        "a": {"command": "notes", "env": {"PASS": "plain-secret-1"}, "trust_hints": True},
        "b": {"url": "https://b.example/mcp", "headers": {"X-Key": "plain-secret-2"}},
    }
    settings = Settings.load(tmp_path, mcp_servers=servers)
    shown = shown_settings(settings, Redaction().value)["mcp_servers"]
    assert shown["value"]["a"]["command"] == "notes"
    assert "PASS" in shown["value"]["a"]["env"]
    assert "plain-secret" not in f"{shown}{settings!r}{settings.mcp_servers!r}"
