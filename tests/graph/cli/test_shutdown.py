"""Ctrl-C and SIGTERM: scripts end with all that they started, nothing is lost, and the way on is told."""

import asyncio
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from skills_agent.graph.cli.signals import draining
from tests.agents import call, calls, write_skill
from tests.graph.cli.command_line import LOAD, RUN, CommandLine
from tests.kit import MakeAgent
from tests.stubborn import processes_with, stubborn_script
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

ANSWER = "It was not counted to the end."
SIGNALS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path) -> CommandLine:
    script = cli.skills / "rain-gauge" / "scripts" / "add_up.py"
    script.write_text(stubborn_script(f"child-in-{tmp_path}"))
    return cli


def wait_for(cli: CommandLine, path: str, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not cli.is_written(path):
        select.select([], [], [], 0.01)


@pytest.mark.parametrize(
    ("command", "sandbox", "signal_"),
    [("ask", "off", SIGNALS[0]), ("resume", "auto", SIGNALS[1]), ("chat", "off", SIGNALS[1])],
)
def test_a_signal_ends_a_script_and_all_it_started_and_keeps_what_was_done(
    cli: CommandLine, command: str, signal_: tuple[signal.Signals, int, str], sandbox: str, tmp_path: Path
) -> None:
    number, code, word = signal_
    settings = {"SKILLS_AGENT_SANDBOX": sandbox}
    options = ["--thread", "rain", *cli.plays(LOAD, RUN, ANSWER)]
    if command == "ask":
        process = cli.start("ask", "Rain?", *options, "--yes", "run", **settings)
    elif command == "chat":
        process = cli.start_piped("chat", *options, "--yes", "run", **settings)
        assert process.stdin
        process.stdin.write("Rain?\nMore?\n")
        process.stdin.flush()
    else:
        assert cli.run("ask", "Rain?", *options, **settings).code == 3
        process = cli.start("resume", "rain", "--approve", **settings)
    wait_for(cli, "started-rainfall.csv", process)
    assert processes_with(f"child-in-{tmp_path}")

    process.send_signal(number)
    out, told = process.communicate(timeout=PATIENCE)

    assert process.returncode == code, out + told
    assert f"{word}; to go on: skills-agent resume rain" in told
    assert processes_with(str(tmp_path)) == []
    assert cli.run("resume", "rain", **settings).out.endswith(f"{ANSWER}\n")
    assert (cli.workspace / "started-rainfall.csv").read_text() == "x"
    messages = cli.run("threads", "show", "rain", "--json").value["messages"]
    _, ran = [each for message in messages for each in message["calls"]]
    assert ran["result"].startswith("stopped: the agent was shut down while it ran")
    assert "half of it" in ran["result"]


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_ctrl_c_leaves_a_model_that_does_not_answer_and_a_second_sigterm_does(
    tmp_path: Path, number: signal.Signals, code: int, word: str
) -> None:
    cli = CommandLine(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        model = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/v1"}
        process = cli.start("ask", "Rain?", "--thread", "rain", "--model", "openai:silent", **model)
        with silent.accept()[0]:
            assert process.stderr
            process.send_signal(number)
            if number == signal.SIGTERM:
                assert any("stopping" in line for line in process.stderr)
                process.send_signal(number)
            _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert f"{word}; to go on: skills-agent resume rain" in told


ANOTHER_THREAD = """\
import signal, socket, sys, threading
from langgraph.runtime import RunControl
from skills_agent.graph.cli import signals

place = f"/proc/self/task/{threading.main_thread().native_id}/stat"

def is_asleep():
    with open(place) as file:
        return file.read().rpartition(")")[2].split()[0] == "S"

def deliver():
    in_a_row = 0
    while in_a_row < 200:  # it does not just wait for its turn, which it would have had in between
        in_a_row = in_a_row + 1 if is_asleep() else 0
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    while not control.drain_requested:
        pass
    if sys.argv[1] == "twice":
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

signals.DRAIN_SECONDS = 0.1 if sys.argv[1] == "once" else 3600
control = RunControl()
one, other = socket.socketpair()
with signals.draining(control, "COMMAND"):
    threading.Thread(target=deliver, daemon=True).start()
    one.recv(1)
"""


@pytest.mark.parametrize("often", ["once", "twice"])
def test_a_signal_works_that_does_not_interrupt_what_the_main_thread_waits_for(often: str) -> None:
    """As where another thread takes it, or where it comes just before the system call begins.

    The second one ends the process at once; without one, the end of its patience does.
    """
    command = [sys.executable, "-c", ANOTHER_THREAD, often]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, told = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 143, told
    assert "stopping (" in told
    assert told.endswith("terminated; to go on: COMMAND\n")


def test_handlers_are_as_they_were_after_a_run() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [*map(signal.getsignal, numbers)]
    with socket.socket() as mine:
        mine.setblocking(False)
        old = signal.set_wakeup_fd(mine.fileno())
        try:
            with draining(RunControl(), "COMMAND"):
                assert signal.getsignal(signal.SIGTERM) != before[1]
        finally:
            assert signal.set_wakeup_fd(old) == mine.fileno()
    assert [*map(signal.getsignal, numbers)] == before


def test_sigterm_ends_a_chat_that_waits_for_its_person(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    process = cli.start_piped("chat", "--thread", "rain", "--model", cli.script("Hello."))
    assert process.stdin
    assert process.stdout
    process.stdin.write("Hello?\n")
    process.stdin.flush()
    assert any("Hello." in line for line in process.stdout)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert told.strip() == "terminated; to go on: skills-agent chat --thread rain"


ASKED: Any = {"messages": [("user", "Count.")]}


async def test_an_async_program_drains_its_runs_with_run_control(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path
) -> None:
    write_skill(skills_dir, "count", "Counts.", scripts__run_py=stubborn_script(f"child-in-{workspace}"))
    run_script = calls(call("run_script", skill="count", path="scripts/run.py"))
    replies = [calls(call("load_skill", name="count")), run_script, ANSWER]
    agent, control = make_agent(replies, require_approval_for=frozenset(), sandbox="off"), RunControl()
    run = asyncio.create_task(agent.graph.ainvoke(ASKED, agent.config, control=control))
    while not run.done() and not (workspace / "started").exists():
        await asyncio.sleep(0.01)
    control.request_drain("deploy")
    with pytest.raises(GraphDrained, match="deploy"):
        await run
    assert processes_with(f"child-in-{workspace}") == []
    last = agent.transcript[-1].text
    assert last.startswith("stopped: the agent was shut down while it ran")
    assert "half of it" in last
    assert agent.run(None)["answer"] == ANSWER
    assert (workspace / "started").read_text() == "x"


def test_a_tool_that_is_awaited_is_left_where_a_person_stops_the_run(make_agent: MakeAgent) -> None:
    """As one of an MCP server: nobody knows whether it did its work, and the next message says so."""
    control, is_over = RunControl(), Event()

    @tool
    async def slow() -> str:
        """Wait."""
        control.request_drain(signal.SIGINT.name)
        await asyncio.to_thread(is_over.wait, PATIENCE)
        return "late"

    agent = make_agent([calls(call("slow")), "Noted."], tools=[slow], require_approval_for=frozenset())
    with pytest.raises(GraphDrained):
        agent.graph.invoke(ASKED, agent.config, control=control)
    is_over.set()
    assert agent.run({"messages": [("user", "What now?")]})["answer"] == "Noted."
    (result,) = (each.text for each in agent.transcript if isinstance(each, ToolMessage))
    assert "Outcome unknown" in result
