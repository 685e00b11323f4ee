"""A run whose lock is lost begins no further effect, and writes nothing over what another process did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.postgres import PostgresSaver

from skills_agent.graph import ThreadBusyError, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.errors import LostLockError
from tests.agents import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
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


def agent(dsn: str, folder: Path, saver: PostgresSaver, tools: list[BaseTool]) -> Any:
    (folder / "work").mkdir(exist_ok=True)
    settings = Settings(
        workspace=folder / "work",
        home=folder / "home",
        bundled_skills=False,
        require_approval_for=frozenset({"run"}),
    )
    return build_graph(settings, model=ScriptedChatModel(SCRIPT), tools=tools).compile(checkpointer=saver)


def terminate(dsn: str) -> None:
    import psycopg  # noqa: PLC0415 - an extra of the project

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(HOLDERS)


@pytest.mark.parametrize("lost_in", ["first", "second"])
def test_a_run_whose_connection_was_ended_stops_before_the_next_effect(
    postgres_dsn: str, tmp_path: Path, lost_in: str
) -> None:
    notes: list[str] = []
    with PostgresSaver.from_conn_string(postgres_dsn) as saver:
        saver.setup()
        end = noting(notes, lambda text: terminate(postgres_dsn) if text == lost_in else None)
        graph = agent(postgres_dsn, tmp_path, saver, [end])
        if lost_in == "first":
            with pytest.raises(LostLockError, match="connection that held it broke"):
                graph.invoke({"messages": [HumanMessage("go")]}, CONFIG, durability="sync")
            assert notes == ["first"]  # Its result is kept: nobody else had the lock.
            graph.invoke(None, CONFIG, durability="sync")
        else:
            graph.invoke({"messages": [HumanMessage("go")]}, CONFIG, durability="sync")
        assert graph.get_state(CONFIG).values["answer"] == "done"
    assert notes == ["first", "second"]


def test_a_run_whose_thread_another_process_took_writes_nothing_over_it(
    postgres_dsn: str, tmp_path: Path
) -> None:
    notes: list[str] = []
    with (
        PostgresSaver.from_conn_string(postgres_dsn) as saver,
        PostgresSaver.from_conn_string(postgres_dsn) as other_saver,
    ):
        saver.setup()
        other = agent(postgres_dsn, tmp_path, other_saver, [noting(notes)])

        def take_over(text: str) -> None:
            with pytest.raises(ThreadBusyError):
                other.invoke(None, CONFIG)
            terminate(postgres_dsn)
            other.invoke(None, CONFIG, durability="sync")  # It finds the call under way, and asks.
            assert "unknown" in str(other.get_state(CONFIG).interrupts)

        graph = agent(postgres_dsn, tmp_path, saver, [noting(notes, take_over)])
        with pytest.raises(LostLockError):
            graph.invoke({"messages": [HumanMessage("go")]}, CONFIG, durability="sync")
        assert "unknown" in str(other.get_state(CONFIG).interrupts)
    assert notes == ["first"]
