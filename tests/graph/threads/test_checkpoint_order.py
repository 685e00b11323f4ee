"""Whatever the clock says, what was said last is where a thread stands."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from skills_agent.graph import build_graph
from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.threads import Threads
from skills_agent.state.schema import AgentState
from tests.agents import Agent, call, calls
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent

HOUR = 3600
YEAR = 365 * 24 * HOUR
LAST_ID = "langgraph.checkpoint.base.id._last_v6_timestamp"


class Clock:
    """The clock of one machine after another: each has a process of its own, which made no id yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.late = 0
        self._patch = monkeypatch
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() - self.late * 10**9)
        monkeypatch.setattr(LAST_ID, None)

    def new_process(self, *, late: int) -> None:
        """Go on in a process whose clock is this many seconds late."""
        self.late = late
        self._patch.setattr(LAST_ID, None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def _said(agent: Agent) -> list[str]:
    return [message.text for message in agent.transcript if isinstance(message, HumanMessage)]


def _head(agent: Agent) -> str:
    return str(agent.state.config["configurable"]["checkpoint_id"])


@pytest.mark.parametrize("saver", ["sqlite", "postgres"], indirect=True)
def test_what_is_said_after_a_step_back_of_the_clock_is_in_the_transcript(
    make_agent: MakeAgent, clock: Clock, saver: BaseCheckpointSaver[Any]
) -> None:
    agent = make_agent(["1", "2", "3", "4"], checkpointer=saver)
    for number, late in enumerate([-YEAR, HOUR, 2 * HOUR, 0], 1):
        clock.new_process(late=late)
        assert agent.say(f"q{number}")["answer"] == str(number)
    assert _said(agent) == ["q1", "q2", "q3", "q4"]


SAID: Any = {"messages": [HumanMessage("x")]}


def earlier(agent: Agent) -> Any:
    """Return the config of a step in which the model was asked."""
    return next(
        each.config for each in agent.graph.get_state_history(agent.config) if each.next == ("decide",)
    )


WRITES: dict[str, Callable[[Agent], Any]] = {
    "update_state": lambda agent: agent.graph.update_state(agent.config, SAID, as_node="answer"),
    "time travel": lambda agent: agent.graph.update_state(earlier(agent), SAID, as_node="answer"),
    "another turn": lambda agent: agent.graph.invoke({"messages": [HumanMessage("y")]}, earlier(agent)),
    "revoke": lambda agent: Threads(agent.graph).revoke("thread", next(iter(agent.values["grants"]))),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_of_a_state_comes_after_what_is_there(
    make_agent: MakeAgent, clock: Clock, workspace: Path, write: str
) -> None:
    agent = make_agent([calls(call("write_file", path="a", content="b")), "done", "again", "instead"])
    agent.say("go")
    agent.answer({"type": "approve"})
    agent.say("more")
    before = _head(agent)
    clock.new_process(late=HOUR)
    WRITES[write](agent)
    assert _head(agent) > before
    agent.graph.update_state(agent.config, SAID, as_node="answer")  # It takes nothing back.
    assert agent.values["messages"][-1].text == "x"
    assert [grant["revoked"] for grant in agent.values["grants"].values()] == [write == "revoke"]


def test_a_graph_inside_another_one_keeps_its_order_by_itself(make_agent: MakeAgent, clock: Clock) -> None:
    agent = make_agent(["1", "2"])
    inner = build_graph(agent.settings, model=agent.model).compile(checkpointer=True)
    outer = StateGraph(AgentState)
    outer.add_node("agent", inner)
    outer.add_edge(START, "agent")
    saver = InMemorySaver()
    graph = outer.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    for text, late in (("q1", 0), ("q2", HOUR)):
        clock.new_process(late=late)
        graph.invoke({"messages": [HumanMessage(text)]}, config)
    inside = [each for each in saver.list(config) if each.config["configurable"]["checkpoint_ns"] != ""]
    newest = max(inside, key=lambda each: each.checkpoint["id"])
    assert newest.metadata["step"] == max(each.metadata["step"] for each in inside)


def _at(year: float) -> str:
    stamp = 0x01B21DD213814000 + int((year - 1970) * 365.2425 * 86_400 * 10**7)
    return str(UUID(int=((stamp >> 12) << 80) | (6 << 76) | ((stamp & 0xFFF) << 64) | (2 << 62)))


def _age(agent: Agent, checkpoint: str) -> None:
    """Give the newest checkpoint of a thread another id."""
    saver = agent.graph.saver_of("thread")
    newest = saver.get_tuple({"configurable": {"thread_id": "thread", "checkpoint_ns": ""}})
    assert newest
    saver.put(newest.config, {**newest.checkpoint, "id": checkpoint}, newest.metadata, {})


@pytest.mark.parametrize("year", [3500, 5236])
def test_a_thread_at_the_end_of_time_is_refused_in_a_sentence_and_harms_no_other(
    make_agent: MakeAgent, clock: Clock, year: int
) -> None:
    saver = InMemorySaver()
    agent = make_agent(["1", "2"], checkpointer=saver)
    agent.say("q1")
    _age(agent, _at(year))
    writes: list[Callable[[], object]] = [
        lambda: agent.say("q2"),
        lambda: agent.graph.update_state(agent.config, {"skills": []}, as_node="answer"),
        lambda: asyncio.run(agent.graph.ainvoke(SAID, agent.config)),
    ]
    for write in writes:
        with pytest.raises(ThreadError, match=r"Thread 'thread' cannot go on.* use another thread"):
            write()
    assert _said(agent) == ["q1"]  # it can be read
    assert [each.status for each in Threads(agent.graph).list()] == ["done"]
    other = make_agent(["1"], checkpointer=saver, thread="other")
    other.say("q1")
    assert _head(other) < _at(2500)


def test_a_clock_at_the_end_of_time_loses_nothing(make_agent: MakeAgent, clock: Clock) -> None:
    agent = make_agent(["1", "2", "3"])
    agent.say("q1")
    clock.new_process(late=-3300 * YEAR)  # its ids begin anew, in the year 1582
    with pytest.raises(ThreadError, match="clock of this machine"):
        agent.say("q2")
    clock.new_process(late=0)
    agent.say("q3")
    assert (_said(agent)[0], _said(agent)[-1]) == ("q1", "q3")


PROGRAM = """
import sys, time
real, late = time.time_ns, int(sys.argv.pop(1))
time.time_ns = lambda: real() - late * 10**9
from skills_agent.graph.cli.main import main
main()
"""


@pytest.mark.slow
def test_processes_with_other_clocks_go_on_with_one_thread(cli: CommandLine) -> None:
    script = cli.script("one", "two")
    here: dict[str, Any] = {"env": cli.environment({}), "cwd": cli.workspace, "capture_output": True}
    for number, late in enumerate([0, HOUR]):
        asked = ["ask", f"q{number}", "--thread", "t", "--model", script]
        subprocess.run([sys.executable, "-c", PROGRAM, str(late), *asked], check=True, **here)
    assert cli.said("t") == ["q0", "one", "q1", "two"]
