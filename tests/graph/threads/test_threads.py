"""The API of threads: over the command line's database, and over a host's own graph."""

import asyncio
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from skills_agent.graph import Settings, Threads, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.locks import Release, ThreadKey
from skills_agent.graph.threads.store_journal import StoreJournal
from skills_agent.graph.user_folders import state_folder
from tests.agents import Agent, RemoteSaver, call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine
from tests.kit import MakeAgent

PAGE = Path(__file__).resolve().parents[3] / "docs" / "library.md"
WRITE = call("write_file", path="out.txt", content="x")


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    """Return an agent whose thread is done after a question."""
    agent = make_agent([calls(WRITE), "Written.", "You are welcome."])
    agent.say("Write!")
    agent.answer({"type": "approve", "grant": {"scope": "thread"}})
    return agent


@pytest.mark.slow
def test_the_program_of_the_page_runs(cli: CommandLine) -> None:
    (program,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if "Threads.open" in block
    )
    assert cli.run("ask", "How much?", "--thread", "rain", *cli.plays(LOAD, RUN, "544 mm.")).code == 3
    assert cli.run("resume", "rain", "--approve").code == 0
    here: dict[str, Any] = {"cwd": cli.workspace, "env": cli.environment({}), "capture_output": True}
    done = subprocess.run([sys.executable, "-c", program], text=True, **here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rain done 1 How much?\n")
    assert "544 mm." in done.stdout
    assert [each["thread"] for each in cli.run("threads", "list", "--json").value] == ["rain"]


def test_a_host_reads_and_forks_the_threads_of_its_own_graph(agent: Agent) -> None:
    threads = Threads(agent.graph)
    (summary,) = threads.list()
    assert (summary[0], *summary[2:]) == ("thread", 1, "done", "Write!")
    record = threads.read("thread")
    assert (record.messages[-1].role, record.messages[-1].text) == ("agent", "Written.")
    (made,) = (each for message in record.messages for each in message.calls)
    assert (made.tool, made.ruling) == ("write_file", "approved")
    steps = threads.steps("thread")
    assert steps[-1].nodes == ("answer",)
    fork = threads.fork("thread", steps[-1].number, new="copy")
    assert (fork.thread, fork.status) == ("copy", "done")
    assert {each.thread for each in threads.list()} == {"thread", "copy"}
    agent.graph.invoke({"messages": [HumanMessage("Thanks")]}, {"configurable": {"thread_id": "copy"}})
    assert (threads.read("copy").summary.turns, threads.read("thread").summary.turns) == (2, 1)


def test_what_there_is_not_is_an_error_with_a_code(agent: Agent) -> None:
    threads = Threads(agent.graph)
    for call_of in (threads.read, threads.steps, threads.delete, threads.snapshot):
        with pytest.raises(ThreadError, match="Threads: thread") as unknown:
            call_of("other")
        assert unknown.value.code == "unknown-thread"
    with pytest.raises(ThreadError):
        threads.fork("thread", 99)
    with pytest.raises(ThreadError):
        threads.revoke("thread", "nothing")
    with pytest.raises(ThreadError, match=r"compile\(checkpointer="):
        Threads(build_graph(agent.settings, model=agent.model).compile())
    with pytest.raises(ThreadError, match="30d") as no_age:
        threads.prune(older_than="a month")
    assert no_age.value.code == "invalid-age"


def test_in_a_thread_that_was_cut_off_a_grant_is_revoked_and_the_turn_goes_on(agent: Agent) -> None:
    asked = {"messages": [HumanMessage("again")]}
    parts: Any = agent.graph.stream(asked, agent.config, stream_mode="values")
    next(parts)  # as it is before the first step
    parts.close()
    threads = Threads(agent.graph)
    (grant,) = threads.read("thread").grants
    threads.revoke("thread", grant["id"])
    assert [each["revoked"] for each in threads.read("thread").grants] == [True]
    assert threads.read("thread").summary.status == "unfinished"
    agent.graph.update_state(agent.config, {"skills": []})  # It takes nothing back.
    assert [each["revoked"] for each in threads.read("thread").grants] == [True]
    agent.graph.invoke(None, agent.config)
    assert [each["revoked"] for each in threads.read("thread").grants] == [True]


def test_old_threads_are_pruned_and_open_ones_stay(make_agent: MakeAgent) -> None:
    agent = make_agent([lambda messages: calls(WRITE) if messages[-1].text == "open" else "Hello."])
    for name in ("first", "second", "open"):
        agent.graph.invoke({"messages": [HumanMessage(name)]}, {"configurable": {"thread_id": name}})
    threads = Threads(agent.graph)
    month = timedelta(days=30)
    assert threads.prune(older_than=month) == []
    assert threads.prune(older_than=timedelta(0), dry_run=True) == ["second", "first"]
    assert threads.prune(older_than=timedelta(0)) == ["second", "first"]
    assert [each.thread for each in threads.list()] == ["open"]
    assert datetime.now(UTC) - datetime.fromisoformat(threads.list()[0].when) < month


def test_compacting_gives_room_back_and_leaves_the_connection_as_it_was(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        make_agent(["x" * 200_000], checkpointer=saver).say("Much!")
        threads = Threads(make_agent([], checkpointer=saver).graph)
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        timeout = saver.conn.execute("PRAGMA busy_timeout").fetchone()
        threads.delete("thread")
        file = tmp_path / "threads.sqlite"
        before = file.stat().st_size
        threads.compact()
        assert before - file.stat().st_size > 100_000
        assert saver.conn.execute("PRAGMA busy_timeout").fetchone() == timeout
    Threads(make_agent(["x"]).graph).compact()


async def test_an_asynchronous_saver_is_used_from_another_thread_than_its_loop(
    workspace: Path, tmp_path: Path
) -> None:
    settings = Settings(workspace=workspace, home=tmp_path / "home", bundled_skills=False)
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        graph = build_graph(settings, model=ScriptedChatModel(["Hello."])).compile(checkpointer=saver)
        await graph.ainvoke({"messages": [HumanMessage("Hi")]}, {"configurable": {"thread_id": "t"}})
        threads = Threads(graph)
        for call_of in (threads.list, lambda: threads.read("t"), lambda: threads.delete("t")):
            with pytest.raises(asyncio.InvalidStateError, match="from a different thread"):
                call_of()
        (summary,) = await asyncio.to_thread(threads.list)
        assert (summary.thread, summary.status) == ("t", "done")
        step = (await asyncio.to_thread(threads.steps, "t"))[-1]
        fork = await asyncio.to_thread(threads.fork, "t", step.number)
        await asyncio.to_thread(threads.delete, "t")
        assert [each.thread for each in await asyncio.to_thread(threads.list)] == [fork.thread]


class _Locks:
    """Locks of a host, which tell what they were asked for, and when they were released."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def take(self, key: ThreadKey) -> Release:
        self.told.append(key.thread)
        return lambda: self.told.append(f"{key.thread} released")


async def test_a_host_brings_its_own_journal_and_locks(workspace: Path, tmp_path: Path) -> None:
    journal, locks = StoreJournal(InMemoryStore()), _Locks()
    settings = Settings(workspace=workspace, home=tmp_path / "home", bundled_skills=False)
    model = ScriptedChatModel([calls(WRITE), "Written."])
    built = build_graph(settings, model=model, journal=journal, locks=locks)
    graph = built.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [HumanMessage("Write!")]}, config)
    (question,) = graph.get_state(config).interrupts
    answer: Any = Command(resume={question.id: {"decisions": [{"type": "approve"}]}})
    await graph.ainvoke(answer, config)
    assert locks.told == ["t", "t released"] * 2
    (written,) = (each for each in graph.get_state(config).values["messages"] if each.type == "tool")
    entry = journal.get("t", written.tool_call_id)
    assert entry is not None
    assert (entry.tool, entry.status, entry.settled) == ("write_file", "done", True)
    Threads(graph).delete("t")
    assert journal.get("t", written.tool_call_id) is None


def test_an_unknown_saver_is_kept_by_files_of_the_user_with_a_warning(
    make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent([calls(WRITE), "Written."], checkpointer=RemoteSaver(InMemorySaver()))
    agent.say("Write!")
    agent.answer({"type": "approve"})
    (warning,) = (each for each in caplog.records if "build_graph(journal=" in each.getMessage())
    assert (warning.levelname, "RemoteSaver" in warning.getMessage()) == ("WARNING", True)
    assert (state_folder(agent.settings) / "journal.sqlite").exists()
    assert [each.thread for each in Threads(agent.graph).list()] == ["thread"]
