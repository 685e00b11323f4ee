"""Once in LangChain's `create_agent`: an effect is neither lost nor repeated without a person's word."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import RemoveMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command, Send

from skills_agent.graph import call_attempt
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.backends import JOURNAL_FILE
from skills_agent.graph.threads.errors import ThreadBusyError
from skills_agent.graph.user_folders import state_folder
from skills_agent.parts import Once
from skills_agent.skills.policy.verdict import ApprovalNeededError
from tests.agents import CutOff, Notes, call, calls

PROJECT = Path(__file__).resolve().parents[3]
THREAD: Any = {"configurable": {"thread_id": "1"}}
REQUEST: Any = {"messages": [("user", "Note it.")]}
NOTE = calls({**call("note", text="7"), "id": "1"})  # of a server that counts in each reply
DURABILITY = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def once(tmp_path: Path) -> Once:
    return Once(home=tmp_path, workspace=tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> SqliteSaver:
    return SqliteSaver(sqlite3.connect(tmp_path / "threads.sqlite", check_same_thread=False))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return state_folder(Settings(home=tmp_path, workspace=tmp_path)) / JOURNAL_FILE


def agent_of(
    used: BaseTool, parts: Sequence[Any], saver: Any, replies: Sequence[Any] = (NOTE, "Done.") * 3
) -> Any:
    return create_agent(ScriptedChatModel(script=replies), [used], middleware=parts, checkpointer=saver)


def cut_off(agent: Any, notes: Notes, given: Any = REQUEST, **options: Any) -> pytest.ExceptionInfo[CutOff]:
    """Return the end of a run, with all that it still holds."""
    notes.crashes = 1
    with pytest.raises(CutOff) as kept:
        agent.invoke(given, THREAD, **options)
    return kept


def graph_of(inner: Any, saver: Any, *, agents: int = 1) -> Any:
    """Return a graph that asks an agent anew in each turn, or several at a time."""
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda state: {"messages": inner.invoke(REQUEST)["messages"][-1:]})
    builder.add_conditional_edges(START, lambda state: [Send("agent", state)] * agents)
    return builder.compile(checkpointer=saver)


def attempts_asked(result: dict[str, Any]) -> list[int]:
    """Return the attempts that the questions are about."""
    questions = [each.value["action_requests"] for each in result.get("__interrupt__", ())]
    return [question["outcome_unknown"]["attempt"] for (question,) in questions]


def answer(kind: str, result: dict[str, Any]) -> Command[Any]:
    decided = {"decisions": [{"type": kind}]}
    return Command(resume={each.id: decided for each in result["__interrupt__"]})


@DURABILITY
def test_a_run_that_was_cut_off_goes_on_in_the_same_process(
    durability: Any, notes: Notes, once: Once, database: SqliteSaver
) -> None:
    agent = agent_of(notes.tool, [once], database)
    kept = cut_off(agent, notes, durability=durability)
    asked = agent.invoke(None, THREAD)
    assert (attempts_asked(asked), notes.taken) == ([1], ["7"]), kept
    agent.invoke(answer("reject", asked), THREAD)
    assert notes.taken == ["7"]


class Forgetful(AgentMiddleware[Any, Any, Any]):
    """Begins each turn with its request alone, as after a summary."""

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), state["messages"][-1]]}


@DURABILITY
@pytest.mark.parametrize("before", [(), (Forgetful(),)], ids=["", "forgetful"])
def test_the_same_call_in_a_later_turn_is_another_one(
    before: Any, durability: Any, notes: Notes, once: Once, database: SqliteSaver
) -> None:
    agent = agent_of(notes.tool, [*before, once], database)
    for _ in range(3):
        agent.invoke(REQUEST, THREAD, durability=durability)
    assert notes.taken == ["7"] * 3


@DURABILITY
def test_an_agent_that_begins_anew_in_each_turn_of_a_graph_runs_its_calls(
    durability: Any, notes: Notes, once: Once, database: SqliteSaver
) -> None:
    graph = graph_of(agent_of(notes.tool, [once], None), database)
    for _ in range(3):
        graph.invoke(REQUEST, THREAD, durability=durability)
    assert notes.taken == ["7"] * 3
    cut_off(graph, notes, durability=durability)
    assert attempts_asked(graph.invoke(None, THREAD, durability=durability)) == [1]
    assert notes.taken == ["7"] * 4


@DURABILITY
def test_two_calls_alike_of_one_message_both_run(
    durability: Any, notes: Notes, once: Once, database: SqliteSaver
) -> None:
    twins = calls(call("note", text="7"), call("note", text="7"))
    agent = agent_of(notes.tool, [once], database, [twins, "Done."] * 2)
    agent.invoke(REQUEST, THREAD, durability=durability)
    assert notes.taken == ["7"] * 2
    cut_off(agent, notes, durability=durability)
    assert attempts_asked(agent.invoke(None, THREAD)) == [1]
    assert notes.taken == ["7"] * 4


@pytest.mark.parametrize(
    ("given", "is_lost", "asked"),
    [(REQUEST, False, [1]), (REQUEST, True, []), (None, True, [1])],
    ids=["new message", "new message, lost journal", "lost journal"],
)
def test_a_call_that_was_cut_off_is_unknown_also_where_the_journal_is_lost(
    given: Any,
    is_lost: bool,
    asked: list[int],
    notes: Notes,
    once: Once,
    database: SqliteSaver,
    journal: Path,
) -> None:
    agent = agent_of(notes.tool, [once], database, [NOTE, "Done." if is_lost else NOTE])
    cut_off(agent, notes, durability="sync")
    if is_lost:
        journal.unlink()
    result = agent.invoke(given, THREAD)
    assert attempts_asked(result) == asked
    assert given is None or "Outcome unknown" in result["messages"][2].text
    assert notes.taken == ["7"]


class Dying(SqliteSaver):
    """Is cut off when it is to keep what came of a call, and has kept nothing from a step on."""

    loses_from = 99

    def put_writes(self, config: Any, writes: Any, *more: Any) -> None:
        if not (self.loses_from and "ToolMessage" in repr(writes)):
            super().put_writes(config, writes, *more)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if self.loses_from and "ToolMessage" in repr(checkpoint):
            raise CutOff
        if metadata["step"] >= self.loses_from > 0:
            return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        return super().put(config, checkpoint, metadata, new_versions)


@pytest.mark.parametrize("loses_from", [99, 1])
def test_a_new_message_has_a_result_that_the_journal_alone_has(
    loses_from: int, notes: Notes, once: Once, tmp_path: Path
) -> None:
    saver = Dying(sqlite3.connect(tmp_path / "threads.sqlite", check_same_thread=False))
    saver.loses_from = loses_from
    agent = agent_of(notes.tool, [once], saver, [NOTE, "Done."])
    with pytest.raises(CutOff):
        agent.invoke(REQUEST, THREAD, durability="sync")
    saver.loses_from = 0
    results = [each.text for each in agent.invoke(REQUEST, THREAD)["messages"] if each.type == "tool"]
    assert [result.splitlines()[-1] for result in results] == ["noted 7"]
    assert notes.taken == ["7"]


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_two_agents_of_one_graph_both_do_what_each_was_asked(
    at_a_time: int, once: Once, database: SqliteSaver
) -> None:
    taken, both = list[str](), Barrier(at_a_time, timeout=30)

    @tool
    def note(text: str) -> str:
        """Note something."""
        both.wait()
        taken.append(text)
        return "noted"

    graph = graph_of(agent_of(note, [once], None), database, agents=2)
    result = graph.invoke(REQUEST, {**THREAD, "max_concurrency": at_a_time}, durability="sync")
    assert (attempts_asked(result), taken) == ([], ["7"] * 2)


@pytest.mark.parametrize(("saver", "metadata"), [(None, {}), (InMemorySaver(), {"risk": "read"})])
def test_a_tool_has_its_key_where_nothing_is_written_down(saver: Any, metadata: Any, once: Once) -> None:
    @tool
    def note(text: str, runtime: ToolRuntime) -> str:
        """Note something."""
        return str(call_attempt(runtime).attempt)

    note.metadata = metadata
    assert agent_of(note, [once], saver).invoke(REQUEST, THREAD)["messages"][-2].text == "1"


def test_without_a_person_it_is_not_run_again(notes: Notes, database: SqliteSaver, tmp_path: Path) -> None:
    deny, fail = (Once(home=tmp_path, workspace=tmp_path, approval=each) for each in ("deny", "fail"))
    agent = agent_of(notes.tool, [fail], database)
    cut_off(agent, notes)
    for _ in range(2):
        with pytest.raises(ApprovalNeededError):
            agent.invoke(None, THREAD)
    result = agent_of(notes.tool, [deny], database).invoke(None, THREAD)
    assert "nobody is asked here" in result["messages"][-2].text
    assert notes.taken == ["7"]


def test_a_wrong_answer_is_asked_for_again_and_an_approval_holds_for_one_attempt(
    notes: Notes, once: Once, database: SqliteSaver
) -> None:
    agent = agent_of(notes.tool, [once], database)
    cut_off(agent, notes)
    asked = agent.invoke(None, THREAD)
    wrong: Any
    for wrong in ("yes", True, {"decisions": []}, {"decisions": [{"type": "edit"}]}):
        assert attempts_asked(agent.invoke(Command(resume=wrong), THREAD)) == [1]
    assert notes.taken == ["7"]
    approved = answer("approve", asked)
    cut_off(agent, notes, approved)
    for given in (None, approved, approved):
        assert attempts_asked(agent.invoke(given, THREAD)) == [2]
    assert notes.taken == ["7"] * 2


@pytest.mark.parametrize("retry", [(), (ToolRetryMiddleware(max_retries=2, initial_delay=0),)])
def test_a_tool_that_raises_is_asked_about(retry: Any, once: Once, database: SqliteSaver) -> None:
    taken: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note something."""
        taken.append(text)
        raise ValueError("it may be noted")

    agent = agent_of(note, [*retry, once], database)
    if not retry:
        with pytest.raises(ValueError, match="may be noted"):
            agent.invoke(REQUEST, THREAD)
    assert attempts_asked(agent.invoke(None if not retry else REQUEST, THREAD)) == [1]
    assert taken == ["7"]


@pytest.mark.parametrize("place", ["alone", "outside", "inside"])
def test_a_tool_asks_itself_and_has_its_own_answer(
    place: str, notes: Notes, once: Once, database: SqliteSaver
) -> None:
    notes.question = "Sure?"
    approval = HumanInTheLoopMiddleware({"note": True}, interrupt_mode="per_call")
    parts: Any = {"alone": [once], "outside": [approval, once], "inside": [once, approval]}[place]
    agent = agent_of(notes.tool, parts, database)
    asked = agent.invoke(REQUEST, THREAD)
    if place != "alone":
        asked = agent.invoke(Command(resume={asked["__interrupt__"][0].id: {"type": "approve"}}), THREAD)
    result = agent.invoke(Command(resume={asked["__interrupt__"][0].id: "quite"}), THREAD)
    assert (result["messages"][-2].text, notes.taken) == ("noted 7 quite", ["7"])


def test_of_two_runs_at_a_moment_one_is_refused(once: Once, database: SqliteSaver) -> None:
    begun, end, taken = Event(), Event(), list[str]()

    @tool
    def note(text: str) -> str:
        """Note something."""
        taken.append(text)
        begun.set()
        end.wait(30)
        return "noted"

    agent = agent_of(note, [once], database)
    agent.invoke(REQUEST, THREAD, interrupt_before=["tools"])
    other = Thread(target=agent.invoke, args=(None, THREAD))
    other.start()
    assert begun.wait(30)
    with pytest.raises(ThreadBusyError, match="call 1"):
        agent.invoke(None, THREAD)
    end.set()
    other.join()
    assert taken == ["7"]


async def test_on_an_event_loop_turns_are_settled_and_a_cancelled_call_is_asked_about(
    once: Once, tmp_path: Path
) -> None:
    taken: list[str] = []
    is_slow = False

    @tool
    async def note(text: str) -> str:
        """Note something."""
        taken.append(text)
        await asyncio.sleep(60 if is_slow else 0)
        return "noted"

    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        agent = agent_of(note, [once], saver)
        for _ in range(2):
            await agent.ainvoke(REQUEST, THREAD, durability="exit")
        is_slow = True
        run = asyncio.ensure_future(agent.ainvoke(REQUEST, THREAD))
        while len(taken) < 3:
            await asyncio.sleep(0.01)
        run.cancel()
        with pytest.raises(asyncio.CancelledError) as kept:
            await run
        assert attempts_asked(await agent.ainvoke(None, THREAD)) == [1], kept
    assert taken == ["7"] * 3


def test_a_part_goes_on_without_another_one_of_the_same_settings(
    notes: Notes, once: Once, database: SqliteSaver, journal: Path, tmp_path: Path
) -> None:
    Once(home=tmp_path, workspace=tmp_path)  # of an agent that is gone
    agent_of(notes.tool, [once], database).invoke(REQUEST, THREAD)
    assert journal.exists()


def table(*options: str) -> list[list[str]]:
    """Run the benchmark; return its rows: host, runs, effects, questions, repeated, lost."""
    command = [sys.executable, str(PROJECT / "benchmarks" / "once.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]


def test_an_effect_that_was_killed_is_asked_about_and_no_other_host_does() -> None:
    hosts = ("--host", "create_agent", "--host", "create_agent + Once")
    without, once = table(*hosts, "--runs", "1")
    assert without == ["create_agent", "1", "2 in 1", "0", "1", "0"]
    assert once == ["create_agent + Once", "1", "1 in 1", "1", "0", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(("saver", "durability"), [("sqlite", "exit"), ("sqlite-async", "async")])
def test_no_random_kill_loses_or_repeats_an_effect(saver: str, durability: str) -> None:
    way = ("--saver", saver, "--durability", durability, "--seed", str(Random().randrange(10**6)))
    (row,) = table("--host", "create_agent + Once", "--kills", "30", *way)
    assert row[:3] + row[4:] == ["create_agent + Once", "30", "1 in 30", "0", "0"], way
