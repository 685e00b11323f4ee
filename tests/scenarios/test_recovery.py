"""What a killed process has left open: it goes on by itself where its tool, or its skill, says how."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import ToolRuntime

from skills_agent.graph import Threads, call_attempt
from skills_agent.skills.policy import ToolSpec
from tests.agents import FREE, Agent, call, calls
from tests.forked import run_forked
from tests.kit import MakeAgent

PAY = calls(call("pay", invoice="4711"))


class Bank:
    """Takes orders by their key into a folder; a process may be killed before or after it has taken one."""

    def __init__(self, folder: Path, killed: str = "") -> None:
        self.folder, self.killed = folder, killed

    @property
    def orders(self) -> list[str]:
        return [each.read_text() for each in self.folder.glob("order-*")]

    def look(self, args: Any, key: str) -> str | None:
        order = self.folder / f"order-{key}"
        return f"paid {args['invoice']}" if order.exists() else None

    def broken(self, args: Any, key: str) -> str | None:
        raise ConnectionError("no bank")

    def tool(self, recovery: str) -> BaseTool:
        @tool
        def pay(invoice: str, runtime: ToolRuntime) -> str:
            """Pay an invoice."""
            self._kill("before")
            order = self.folder / f"order-{call_attempt(runtime).key}"
            order.write_text(order.read_text() + "again" if order.exists() else invoice)
            self._kill("after")
            return f"paid {invoice}"

        declared: Any = {"look": self.look, "broken": self.broken}.get(recovery, recovery)
        pay.metadata = {"spec": ToolSpec(name="pay", risk="run", recovery=declared)}
        return pay

    def _kill(self, moment: str) -> None:
        if self.killed == moment:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def an_agent(make_agent: MakeAgent, bank: Bank, recovery: str, **settings: Any) -> Iterator[Agent]:
    with SqliteSaver.from_conn_string(str(bank.folder / "threads.sqlite")) as saver:
        yield make_agent([PAY, "done"], tools=[bank.tool(recovery)], checkpointer=saver, **FREE, **settings)


def kill(make_agent: MakeAgent, folder: Path, recovery: str, moment: str) -> Bank:
    """Let a process be killed in a call; return the bank for the next one."""

    def run() -> None:
        with an_agent(make_agent, Bank(folder, moment), recovery) as agent:
            agent.say("go")

    assert run_forked(run) == -signal.SIGKILL
    return Bank(folder)


def go_on(agent: Agent) -> None:
    """Do what docs/guarantees.md says that a server does when it starts."""
    for each in Threads(agent.graph).list():
        if each.status == "unfinished":
            agent.graph.invoke(None, {"configurable": {"thread_id": each.thread}})


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("recovery", "asks", "ran_twice"),
    [
        ("ask", True, False),
        ("broken", True, False),
        ("retry", False, True),
        ("by key", False, True),
        ("look", False, False),
    ],
)
@pytest.mark.variants
def test_a_killed_call_goes_on_as_its_tool_declares(
    make_agent: MakeAgent, tmp_path: Path, moment: str, recovery: str, asks: bool, ran_twice: bool
) -> None:
    bank = kill(make_agent, tmp_path, recovery, moment)
    with an_agent(make_agent, bank, recovery) as agent:
        go_on(agent)
        go_on(agent)
        assert bool(agent.state.interrupts) == asks
        if asks:
            assert bank.orders == (["4711"] if moment == "after" else [])
            return
        # One key: a receiver that knows it has one order, whatever was tried.
        assert bank.orders == ["4711again" if ran_twice and moment == "after" else "4711"]
        (told,) = agent.tool_messages("pay")
        assert told.status == "success"
        assert told.text.startswith("[Started at ")
        assert told.text.endswith("paid 4711")
        assert agent.values["answer"] == "done"


@pytest.mark.parametrize("recovery", ["retry", "by key", "look"])
def test_what_is_turned_off_since_is_not_run_again(
    make_agent: MakeAgent, tmp_path: Path, recovery: str
) -> None:
    bank = kill(make_agent, tmp_path, recovery, "before")
    with an_agent(make_agent, bank, recovery, exclude_tools=("pay",)) as agent:
        go_on(agent)
        assert bank.orders == []
        assert agent.tool_messages("pay")[0].status == "error"
    if recovery == "look":
        (tmp_path / "other").mkdir()
        bank = kill(make_agent, tmp_path / "other", recovery, "after")
        with an_agent(make_agent, bank, recovery, approval="fail") as agent:
            go_on(agent)
            assert agent.tool_messages("pay")[0].text.endswith("paid 4711")
