"""A run whose lock is lost begins no further effect, and writes nothing over what another process did."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.postgres import PostgresSaver

from skills_agent.graph import ThreadBusyError
from skills_agent.graph.threads.errors import LostLockError
from tests.agents import call, calls
from tests.kit import MakeAgent

CONFIG: Any = {"configurable": {"thread_id": "t"}}
GO: Any = {"messages": [HumanMessage("go")]}
FIRST, SECOND = call("note", text="first"), call("note", text="second")
SCRIPT: list[Any] = [calls(FIRST), calls(SECOND), "done"]
HOLDERS = "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"


def noting(notes: list[str], after: Callable[[str], object] = lambda _: None) -> BaseTool:
    @tool
    def note(text: str) -> str:
        """Note something."""
        notes.append(text)
        after(text)
        return f"noted {text}"

    note.metadata = {"risk": "write"}
    return note


def agent(make_agent: MakeAgent, saver: PostgresSaver, note: BaseTool) -> Any:
    return make_agent(SCRIPT, tools=[note], checkpointer=saver, require_approval_for={"run"}).graph


def terminate(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(HOLDERS)


@pytest.mark.parametrize("lost_in", ["first", "second"])
def test_a_run_whose_connection_was_ended_stops_before_the_next_effect(
    postgres_dsn: str, make_agent: MakeAgent, lost_in: str
) -> None:
    notes: list[str] = []
    with PostgresSaver.from_conn_string(postgres_dsn) as saver:
        saver.setup()
        end = noting(notes, lambda text: terminate(postgres_dsn) if text == lost_in else None)
        graph = agent(make_agent, saver, end)
        if lost_in == "first":
            with pytest.raises(LostLockError, match="connection that held it broke"):
                graph.invoke(GO, CONFIG, durability="sync")
            assert notes == ["first"]  # Its result is kept: nobody else had the lock.
            graph.invoke(None, CONFIG, durability="sync")
        else:
            graph.invoke(GO, CONFIG, durability="sync")
        assert graph.get_state(CONFIG).values["answer"] == "done"
    assert notes == ["first", "second"]


def test_a_run_whose_thread_another_process_took_writes_nothing_over_it(
    postgres_dsn: str, make_agent: MakeAgent
) -> None:
    notes: list[str] = []
    with (
        PostgresSaver.from_conn_string(postgres_dsn) as saver,
        PostgresSaver.from_conn_string(postgres_dsn) as other_saver,
    ):
        saver.setup()
        other = agent(make_agent, other_saver, noting(notes))

        def take_over(text: str) -> None:
            with pytest.raises(ThreadBusyError):
                other.invoke(None, CONFIG)
            terminate(postgres_dsn)
            other.invoke(None, CONFIG, durability="sync")  # It finds the call under way, and asks.
            assert "unknown" in str(other.get_state(CONFIG).interrupts)

        graph = agent(make_agent, saver, noting(notes, take_over))
        with pytest.raises(LostLockError):
            graph.invoke(GO, CONFIG, durability="sync")
        assert "unknown" in str(other.get_state(CONFIG).interrupts)
    assert notes == ["first"]
