"""One thread is run once at a time, and a question is answered once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from skills_agent.graph import AnsweredError, ThreadBusyError, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from tests.agents import Agent, call, calls
from tests.kit import MakeAgent

WAIT = call("wait")
WRITE = call("write_file", path="out.txt", content="x")
APPROVE = {"decisions": [{"type": "approve"}]}
GO: Any = {"messages": [HumanMessage("go")]}


class Waiting:
    """A tool that lasts until it is let go."""

    def __init__(self) -> None:
        self.began, self.go = Event(), Event()
        self.times = 0

        @tool
        def wait() -> str:
            """Wait."""
            self.times += 1
            self.began.set()
            assert self.times > 1 or self.go.wait(60)  # Nobody lets a second call go: it is the fault.
            return "waited"

        wait.metadata = {"risk": "write"}
        self.tool = wait


@pytest.fixture
async def waiting() -> AsyncIterator[Waiting]:
    """Asynchronous, to be let go before a loop is closed, which waits for all threads."""
    waiting = Waiting()
    yield waiting
    waiting.go.set()


ASKS_OF_RUNS: Any = {"require_approval_for": frozenset({"run"})}


@pytest.fixture
def running(make_agent: MakeAgent, waiting: Waiting, saver: Any) -> Iterator[Agent]:
    """Return an agent whose thread is in the middle of a run."""
    script = [calls(WAIT), "done", "again"]
    agent = make_agent(script, tools=[waiting.tool], checkpointer=saver, **ASKS_OF_RUNS)
    run = Thread(target=agent.say, args=["go"])
    run.start()
    assert waiting.began.wait(60)
    yield agent
    waiting.go.set()
    run.join()


def test_a_second_run_of_a_thread_is_refused_and_loses_nothing(running: Agent) -> None:
    graph, config = running.graph, running.config
    for use in (
        lambda: running.say("me, too"),
        lambda: running.run(None),
        lambda: list(graph.stream(GO, config)),
        lambda: graph.update_state(config, {"skills": []}, as_node="answer"),
    ):
        with pytest.raises(ThreadBusyError, match="'thread' is busy"):
            use()
    graph.update_state({"configurable": {"thread_id": "other"}}, {"skills": []}, as_node="answer")


@pytest.mark.parametrize("saver", ["memory"], indirect=True)
async def test_the_asynchronous_calls_are_refused_too(running: Agent) -> None:
    with pytest.raises(ThreadBusyError):
        await running.graph.ainvoke(GO, running.config)
    with pytest.raises(ThreadBusyError):
        await running.graph.aupdate_state(running.config, {"skills": []}, as_node="answer")


def test_a_thread_is_free_however_its_run_ended(make_agent: MakeAgent, saver: Any) -> None:
    agent = make_agent(["one", "two", "three"], checkpointer=saver)
    agent.say("1")
    left: Any = agent.graph.stream(GO, agent.config)
    next(left)
    with pytest.raises(ThreadBusyError):
        agent.say("2")
    left.close()
    agent.run(None)
    config = RunnableConfig(configurable=agent.config["configurable"], recursion_limit=0)
    with pytest.raises(ValueError, match="recursion_limit"):
        agent.graph.invoke({"messages": [HumanMessage("another request")]}, config)
    agent.say("3")
    assert agent.values["answer"] == "three"


async def test_a_stream_that_is_left_gives_the_thread_back(make_agent: MakeAgent) -> None:
    ended: list[bool] = []

    @tool
    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return "never"

    slow.metadata = {"risk": "read"}
    agent = make_agent([calls(call("list_dir"), call("slow"))], tools=[slow])
    parts: Any = agent.graph.astream(GO, agent.config)
    async for part in parts:
        if "act" in part:
            break
    with pytest.raises(ThreadBusyError):
        await agent.graph.ainvoke(GO, agent.config)
    assert ended == []
    await parts.aclose()
    assert ended == [True]
    await agent.graph.aupdate_state(agent.config, {"skills": []}, as_node="answer")
    agent = make_agent(["one", "two"], checkpointer=agent.checkpointer)
    run = asyncio.ensure_future(agent.graph.ainvoke(GO, agent.config))
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await agent.graph.ainvoke(GO, agent.config)


async def test_the_lock_is_the_databases_with_the_asynchronous_saver(
    make_agent: MakeAgent, waiting: Waiting, postgres_dsn: str
) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_dsn) as one:
        await one.setup()
        agent = make_agent([calls(WAIT), "done"], tools=[waiting.tool], checkpointer=one, **ASKS_OF_RUNS)
        run = asyncio.ensure_future(agent.graph.ainvoke(GO, agent.config))
        await asyncio.to_thread(waiting.began.wait, 60)
        async with AsyncPostgresSaver.from_conn_string(postgres_dsn) as two:
            other = make_agent(["x"], checkpointer=two)
            with pytest.raises(ThreadBusyError):
                await other.graph.ainvoke(GO, other.config)
        waiting.go.set()
        result = await run
    assert result["answer"] == "done"


def test_of_two_answers_at_a_time_one_runs_and_one_is_refused(
    make_agent: MakeAgent, waiting: Waiting, saver: Any
) -> None:
    agent = make_agent([calls(WAIT), "done"], tools=[waiting.tool], checkpointer=saver)
    agent.say("go")
    first = Thread(target=agent.answer, args=[{"type": "approve"}])
    (question,) = agent.state.interrupts
    answer = {question.id: APPROVE}
    first.start()
    assert waiting.began.wait(60)
    with pytest.raises(ThreadBusyError):
        agent.run(Command(resume=answer))
    waiting.go.set()
    first.join()
    with pytest.raises(AnsweredError, match="answered already") as refused:
        agent.run(Command(resume=answer))
    assert refused.value.closed == (question.id,)
    with pytest.raises(AnsweredError, match="Not open: none"):
        agent.run(Command(resume=APPROVE))
    assert waiting.times == 1
    assert agent.values["answer"] == "done"


def test_an_answer_to_a_question_that_is_not_open_changes_nothing(
    make_agent: MakeAgent, workspace: Path
) -> None:
    agent = make_agent([calls(WRITE), "done"])
    agent.say("go")
    (question,) = agent.state.interrupts
    with pytest.raises(AnsweredError) as refused:
        agent.run(Command(resume={question.id: APPROVE, "0" * 32: APPROVE}))
    assert refused.value.open == (question.id,)
    assert not (workspace / "out.txt").exists()
    agent.run(Command(resume=APPROVE))
    assert (workspace / "out.txt").read_text() == "x"


class Parent(TypedDict, total=False):
    answers: Annotated[list[str], lambda left, right: [*(left or []), *right]]


def test_branches_of_another_graph_run_the_agent_side_by_side(tmp_path: Path, make_agent: MakeAgent) -> None:
    agent = build_graph(make_agent([]).settings, model=ScriptedChatModel(["done"])).compile()

    def ask(state: Any) -> Any:
        results = [agent.invoke({"messages": [HumanMessage(state["topic"])]}) for _ in range(2)]
        return {"answers": [each["answer"] for each in results]}

    builder = StateGraph(Parent)
    builder.add_node("ask", ask)
    builder.add_conditional_edges(START, lambda _: [Send("ask", {"topic": each}) for each in "abc"], ["ask"])
    builder.add_edge("ask", END)
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        graph = builder.compile(checkpointer=saver)
        result = graph.invoke({}, {"configurable": {"thread_id": "t"}})
    assert result["answers"] == ["done"] * 6
