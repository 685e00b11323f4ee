"""Commands in the background: started, looked at, stopped, and ended with their run however that ends."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.types import Command

from extras.shell.tests.lines import FREE, YES, line
from skills_agent.shell import tools
from skills_agent.shell.background import MAX_OF_RUN
from tests.agents import Agent, call, calls
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.machine import SANDBOXES
from tests.stubborn import processes_with
from tests.waiting import until

PLAIN: dict[str, Any] = {**FREE, "sandbox": "off"}
GO: Any = {"messages": [HumanMessage("go")]}
ID = re.compile(r"cmd-[0-9a-f]{8}")
Reply = Callable[[Sequence[BaseMessage]], Any]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert running(tmp_path / "work") == []


def token(workspace: Path) -> str:
    """Return a word for command lines, by which their processes are found."""
    return f"token-of-{workspace.parent}"


def running(workspace: Path) -> list[str]:
    return processes_with(token(workspace))


def forever(workspace: Path, more: str = "") -> str:
    return f"echo begun; {more} exec -a '{token(workspace)}' sleep 600"


def start(command: str, **more: Any) -> dict[str, Any]:
    return line(command, background=True, **more)


def about_last(tool: str, **more: Any) -> Reply:
    """Return a reply that calls a tool with the id of the command that was started last."""

    def reply(messages: Sequence[BaseMessage]) -> Any:
        ids = [each for message in messages for each in ID.findall(str(message.text))]
        return calls(call(tool, id=ids[-1], **more))

    return reply


def told(agent: Agent, tool: str) -> str:
    """Return the last result of a tool."""
    return agent.results(tool)[-1]


def test_a_server_is_started_asked_and_stopped(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any]
) -> None:
    serve = "mkfifo ask reply; echo ready; while read x <ask; do echo asked $x; echo got $x >reply; done"
    ask = "until test -p reply; do sleep 0.1; done; echo hi >ask; cat reply"
    looks = [about_last("command_output")] * 3
    script = [start(f"{serve}; : {token(workspace)}"), line(ask), *looks, about_last("stop_command")]
    agent = make_agent([*script, looks[0], "done"], **free)
    assert agent.say("go")["answer"] == "done"
    started, asked = agent.results("run_command")
    assert re.match(r"cmd-\w{8} runs \(\d+ s\)\n", started)
    assert ("a network of its own" in started) is (free["sandbox"] == "require")
    assert asked.endswith("stdout:\ngot hi")
    seen, stopped = agent.results("command_output"), told(agent, "stop_command")
    # It printed two lines, and each comes in one look.
    assert "".join([started, *seen, stopped]).count("asked hi") == 1
    assert any(each.endswith("nothing new printed") for each in seen)
    assert " has ended: stopped: stop_command asked for it" in stopped
    assert "stopped: stop_command asked for it" in seen[-1]


def test_what_it_changed_is_asked_about_when_somebody_looks_and_it_goes_on(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any]
) -> None:
    (workspace / "serve").write_text("echo X=1 >.env; echo fine >made")
    looks = [about_last("command_output", wait=1), about_last("stop_command")]
    agent = make_agent([start(forever(workspace, "sh serve;")), *looks, "done"], **free)
    agent.say("go")
    assert "+X=1" in agent.question
    assert running(workspace) != []
    assert not (workspace / ".env").exists()
    assert agent.answer(YES)["answer"] == "done"
    assert (workspace / ".env").read_text() == "X=1\n"
    assert (workspace / "made").read_text() == "fine\n"
    assert re.search(r" runs \((.|\n)*Applied: \.env", told(agent, "command_output"))
    assert "Taken back" not in told(agent, "stop_command")


@pytest.mark.slow
def test_one_that_ends_by_itself_says_what_it_came_to(make_agent: MakeAgent, free: dict[str, Any]) -> None:
    begin = start("sleep 1; echo out; echo x >made; no-such-program")
    agent = make_agent([begin, about_last("command_output", wait=60), "done"], **free)
    agent.say("go")
    text = told(agent, "command_output")
    assert " has ended: exit code 127 (" in text
    assert "files written:\nmade (2 bytes)" in text
    assert "stdout:\nout" in text


def test_it_has_a_time_limit_of_its_own(
    make_agent: MakeAgent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "BACKGROUND_SECONDS", 1.0)
    script = [start("true", timeout=3), start(forever(workspace)), about_last("command_output", wait=60)]
    agent = make_agent([*script, "done"], **PLAIN)
    agent.say("go")
    assert agent.results("run_command")[0].endswith("and timeout is at most 1 here.")
    assert " has ended: stopped: time limit reached (" in told(agent, "command_output")
    (record,) = (workspace / ".agent/runs").glob("*.jsonl")
    assert '"type":"command_ended"' in record.read_text()


def test_calls_of_one_step_start_side_by_side_and_only_so_many(
    make_agent: MakeAgent, workspace: Path
) -> None:
    many = [call("run_command", command=forever(workspace), background=True) for _ in range(MAX_OF_RUN + 1)]
    agent = make_agent([calls(*many), "done"], **PLAIN)
    agent.say("go")
    texts = agent.results("run_command")
    (refused,) = [text for text in texts if not ID.match(text)]
    assert refused.startswith(f"Not started: {MAX_OF_RUN} commands run in the background (cmd-")
    assert len({text[:12] for text in texts} - {refused[:12]}) == MAX_OF_RUN


@pytest.mark.parametrize("tool", ["command_output", "stop_command"])
def test_another_thread_hears_nothing_of_it(make_agent: MakeAgent, tool: str) -> None:
    def first(messages: Sequence[BaseMessage]) -> Any:
        is_other = any(ID.search(str(message.text)) for message in messages)
        return about_last(tool)(messages) if is_other else start("echo private")

    agent = make_agent([first, "done"], **PLAIN)
    agent.say("go")
    (name,) = set(ID.findall(told(agent, "run_command")))
    agent.config = {"configurable": {"thread_id": "another"}}
    agent.say(f"look at {name}")
    assert told(agent, tool).startswith(f"No command '{name}' runs here: it ended with its turn")


@pytest.mark.slow
def test_it_ends_with_the_answer_and_what_it_printed_last_is_told(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any]
) -> None:
    begin = start(forever(workspace, "sleep 1; echo last words; touch made;"))
    wait = line("until test -e made; do sleep 0.1; done")
    agent = make_agent([begin, wait, "done", about_last("command_output"), "later"], **free)
    parts: Any = agent.graph.stream(GO, agent.config, stream_mode="custom")
    (event,) = [each for each in parts if each["type"] == "skills_agent.command_ended"]
    assert running(workspace) == []
    assert (event["stopped"], event["output"]) == ("run", "last words")
    assert [file["path"] for file in event["written"]] == ["made"]
    agent.say("what became of it?")
    text = told(agent, "command_output")
    assert " has ended: stopped: it ended with its run" in text
    assert text.endswith("stdout:\nlast words")


SERVE = """python3 -u -c "
import http.server, socketserver
server = socketserver.TCPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
print(server.server_address[1], file=open('port.new', 'w')); import os; os.rename('port.new', 'port')
server.serve_forever()" """
CURL = "until test -e port; do sleep 0.1; done; curl -s http://127.0.0.1:$(cat port)/page"


@pytest.mark.parametrize("is_async", [False, True], ids=["invoke", "ainvoke"])
async def test_a_server_answers_after_a_question_and_ends_with_the_turn(
    make_agent: MakeAgent, workspace: Path, is_async: bool
) -> None:
    write, look = calls(call("write_file", path="a", content="x")), about_last("command_output")
    script = [start(f"{SERVE} {token(workspace)}"), write, line(CURL), look, "done"]
    agent = make_agent(script, **{**PLAIN, "require_approval_for": ["write"]})
    (workspace / "page").write_text("served")
    decision: Any = Command(resume={"decisions": [YES]})
    for given in (GO, decision):
        if is_async:
            await agent.graph.ainvoke(given, agent.config)
        else:
            agent.graph.invoke(given, agent.config)
        assert bool(agent.state.interrupts) is bool(running(workspace)) is (given is GO)
    assert told(agent, "run_command").endswith("stdout:\nserved")
    assert " runs (" in told(agent, "command_output")


def test_it_ends_where_the_run_fails_and_where_a_stream_is_left(
    make_agent: MakeAgent, workspace: Path
) -> None:
    begin = start(forever(workspace))
    failing = make_agent([begin], thread="other", **PLAIN)
    with pytest.raises(Exception, match="script"):
        failing.say("go")
    until(lambda: running(workspace) == [])
    agent = make_agent([begin, "done", "later"], **PLAIN)
    parts: Any = agent.graph.stream(GO, agent.config, stream_mode="updates")
    assert any("act" in part for part in parts)
    assert running(workspace) != []
    parts.close()
    until(lambda: running(workspace) == [])
    assert agent.say("again")["answer"]


async def test_it_ends_where_its_run_is_cancelled_and_the_thread_is_free_then(
    make_agent: MakeAgent, workspace: Path
) -> None:
    slow = line(f"touch slow; {forever(workspace)}")
    agent = make_agent([start(forever(workspace)), slow, "done", "later"], **PLAIN)
    run = asyncio.ensure_future(agent.graph.ainvoke(GO, agent.config))
    while not (workspace / "slow").exists():
        await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await agent.graph.ainvoke({"messages": [HumanMessage("again")]}, agent.config)
    assert running(workspace) == []


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_kill_of_the_agent_ends_it(cli: CommandLine, sandbox: str) -> None:
    model = cli.script(start(forever(cli.workspace)), line("touch waits; sleep 600"), "done")
    process = cli.start(
        *("ask", "go", "--model", model, "--yes", "run"),
        SKILLS_AGENT_ENABLE_RUN_COMMAND="on",
        SKILLS_AGENT_SANDBOX=sandbox,
    )
    try:
        until((cli.workspace / "waits").exists)
        assert running(cli.workspace) != []
        process.send_signal(SIGKILL)
        until(lambda: running(cli.workspace) == [])
    finally:
        process.kill()
        process.communicate()
