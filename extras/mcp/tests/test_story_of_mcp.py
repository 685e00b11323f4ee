"""MCP servers in a run and on the command line: real ones, of the settings alone."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from extras.mcp.tests.mcp_skills import free_port
from skills_agent.graph.settings import Settings
from skills_agent.state.context import Context, ContextError
from tests.agents import call, calls, trust_file_of_workspace, write_skill
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.mcp_servers import command
from tests.waiting import until

NOTES: Any = {"notes": {**command("notes"), "connect_timeout": 60}}
APPROVE = {"type": "approve"}
YES = {"require_approval_for": frozenset[Any]()}


@pytest.mark.slow
def test_a_servers_tool_is_asked_about_and_called_by_an_agent_that_has_called_no_server_yet(
    make_agent: MakeAgent,
) -> None:
    saver = InMemorySaver()
    first = make_agent([calls(call("mcp__notes__echo", text="milk"))], mcp_servers=NOTES, checkpointer=saver)
    first.say("go")
    assert "may reach the network. Risk: network." in first.question
    second = make_agent([calls(), "done"], mcp_servers=NOTES, checkpointer=saver)
    second.answer(APPROVE)
    assert second.results("mcp__notes__echo")[0] == "milk"


@pytest.mark.slow
async def test_under_ainvoke_a_call_that_is_cancelled_ends_at_the_server(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    started, stopped = tmp_path / "started", tmp_path / "stopped"
    wait = call("mcp__notes__wait", started=str(started), stopped=str(stopped))
    agent = make_agent([calls(wait), "done"], mcp_servers=NOTES, **YES)
    run = asyncio.ensure_future(agent.graph.ainvoke({"messages": [HumanMessage("go")]}, agent.config))
    while not started.exists():
        await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    until(stopped.exists)


def test_a_server_that_does_not_answer_is_said_to_the_model(make_agent: MakeAgent) -> None:
    silent = {"quiet": {**command("silent"), "connect_timeout": 0.2}}
    agent = make_agent([calls(call("mcp__quiet__x")), "one", "two"], mcp_servers=silent)
    assert agent.say("go")["answer"] == "one"
    assert "MCP server quiet: no answer within 0.2 seconds" in agent.results("mcp__quiet__x")[0]
    assert agent.say("go on")["answer"] == "two"


@pytest.mark.slow
def test_a_host_keeps_its_tool_of_a_servers_name(make_agent: MakeAgent) -> None:
    @tool("mcp__notes__echo")
    def own(text: str) -> str:
        """Return what the host says."""
        return f"host: {text}"

    own.metadata = {"risk": "read"}
    agent = make_agent([calls(call("mcp__notes__echo", text="x")), "done"], mcp_servers=NOTES, tools=[own])
    agent.say("go")
    assert agent.results("mcp__notes__echo")[0] == "host: x"


@pytest.mark.slow
def test_arguments_have_any_name_and_what_is_excluded_is_not_called(make_agent: MakeAgent) -> None:
    odd = call("mcp__notes__echo", text="a", config="b", run_manager="c", self_="d")
    replies = [calls(odd, call("mcp__notes__fail")), "done"]
    agent = make_agent(replies, mcp_servers=NOTES, exclude_tools=("mcp__notes__fail",), **YES)
    agent.say("go")
    assert agent.results("mcp__notes__echo")[0] == "a b c d"
    assert "the operator turned off mcp__notes__fail" in agent.results("mcp__notes__fail")[0]
    with pytest.raises(ContextError, match=r"`mcp__notes__fial` .*Did you mean mcp__notes__fail\?"):
        agent.say("go on", context=Context(exclude_tools=("mcp__notes__fial",)))


@pytest.mark.slow
def test_results_are_bounded_and_images_shown_where_they_are_read(make_agent: MakeAgent) -> None:
    replies = [calls(call("mcp__notes__long"), call("mcp__notes__picture"), call("mcp__notes__fail")), "done"]
    blind = make_agent(replies, mcp_servers=NOTES, **YES)
    blind.say("go")
    assert len(blind.results("mcp__notes__long")[0]) < 101_000
    picture = blind.tool_messages("mcp__notes__picture")[0]
    left_out = "[image/png of 70 bytes left out: read_images is off]"
    assert picture.content == f"seen:\n{left_out}\n[resource note://1]\nmilk"
    failed = blind.tool_messages("mcp__notes__fail")[0]
    assert (failed.status, "fail" in failed.text) == ("error", True)
    seeing = make_agent(replies, mcp_servers=NOTES, read_images=True, thread="other", **YES)
    seeing.say("go")
    blocks: Any = seeing.tool_messages("mcp__notes__picture")[0].content
    assert [block["type"] for block in blocks] == ["text", "text", "image", "text"]


@pytest.mark.slow
def test_what_a_server_is_given_is_not_in_the_record(
    make_agent: MakeAgent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_NAME", "wert-of-variable")
    env = {"A": "${PLAIN_NAME}", "PASSWORD": "wert-in-the-file"}
    servers = {"notes": {**NOTES["notes"], "env": env}}
    agent = make_agent([calls(call("mcp__notes__pid")), "done"], mcp_servers=servers, **YES)
    agent.say("go")
    assert "wert-of-variable" in agent.results("mcp__notes__pid")[0]
    records = [file.read_text() for file in (workspace / ".agent" / "runs").rglob("*") if file.is_file()]
    assert "mcp__notes__pid" in "".join(records)
    assert "wert-" not in "".join(records)


def test_a_workspace_names_servers_only_where_it_is_trusted(workspace: Path, tmp_path: Path) -> None:
    (workspace / ".agent").mkdir()
    (workspace / ".agent" / "config.toml").write_text('[mcp_servers.evil]\ncommand = "evil"\n')
    home = tmp_path / "home"
    assert Settings.load(workspace, home=home).mcp_servers == {}
    trust_file_of_workspace(workspace, home)
    assert set(Settings.load(workspace, home=home).mcp_servers) == {"evil"}


@pytest.mark.slow
def test_a_skill_that_needs_a_server_says_that_it_cannot_be_reached(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    for name in ("notes", "quiet"):
        requires = f'{{"openclaw": {{"requires": {{"mcp": ["{name}"]}}}}}}'
        write_skill(skills_dir, f"of-{name}", f"Uses {name}.\nmetadata: {requires}", "Do it.")
    loads = [call("load_skill", name=f"of-{name}") for name in ("notes", "quiet")]
    servers = {**NOTES, "quiet": {"command": "false", "connect_timeout": 60}}
    agent = make_agent([calls(*loads), "done"], mcp_servers=servers)
    agent.say("go")
    reached, not_reached = [message.text for message in agent.tool_messages("load_skill")]
    assert "MCP server" not in reached
    assert "quiet (configured, but it cannot be reached" in not_reached
    assert "skills-agent doctor" in not_reached


@pytest.mark.slow
def test_doctor_says_which_servers_can_be_reached_and_which_tools_are_not_offered(cli: CommandLine) -> None:
    servers = {
        "strange": {**command("hostile"), "connect_timeout": 60},
        "gone": {"url": "http://someone:a-password@127.0.0.1:9/mcp"},
    }
    variables = {"SKILLS_AGENT_MCP_SERVERS": json.dumps(servers)}
    told = cli.run("doctor", "--json", **variables)
    strange, gone = told.value["mcp_servers"]
    assert (strange["name"], strange["tools"], strange["fault"]) == ("strange", 12, "")
    assert "first: there is another tool of that name before it" in strange["faults"]
    assert "it cannot be reached" in gone["fault"]
    assert "a-password" not in told.out
    text = cli.run("doctor", **variables).out
    assert "reachable, 12 tools" in text
    assert "not offered: bomb: its schema is larger" in text


def test_the_list_of_skills_says_which_server_could_not_be_asked_for_its_own(cli: CommandLine) -> None:
    servers = {"gone": {"url": f"http://127.0.0.1:{free_port()}/mcp", "skills": True}}
    variables = {"SKILLS_AGENT_MCP_SERVERS": json.dumps(servers)}
    told = cli.run("skills", "list", **variables)
    assert told.code == 0
    assert "csv-report" in told.out
    (line,) = [each for each in told.errors.splitlines() if each]
    assert line.startswith("Skills may be missing. MCP server gone: it cannot be reached")
    assert isinstance(cli.run("skills", "list", "--json", **variables).value, list)
    assert "missing" not in cli.run("skills", "list").err
