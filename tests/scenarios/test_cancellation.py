"""Cancel means stop: what was started is ended, its output is the result, and nothing starts beside it."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from skills_agent.graph import ThreadBusyError
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import state_folder
from skills_agent.nodes import cancellation
from skills_agent.skills.errors import SkillsAgentError
from tests.agents import FREE, Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.stubborn import processes_with, stubborn_script

pytestmark = pytest.mark.slow

GO: Any = {"messages": [HumanMessage("go")]}
LOAD = calls(call("load_skill", name="count"))
RUN = call("run_script", skill="count", path="scripts/run.py", args=["a"])
QUICKLY = 20
"""Seconds for what does not wait for a tool that blocks, which does so for 60."""


@pytest.fixture
def started(workspace: Path) -> Iterator[Path]:
    """Return the file that the script writes when it and its daemon run; both are gone at the end."""
    script = stubborn_script(f"daemon-in-{workspace}")
    write_skill(workspace / ".agent" / "skills", "count", "Counts.", scripts__run_py=script)
    yield workspace / "started-a"
    assert processes_with(str(workspace)) == []


@pytest.fixture
def agent(make_agent: MakeAgent, started: Path) -> Agent:
    return make_agent([LOAD, calls(RUN), "done", "later"], sandbox="off", **FREE)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def there(place: Path) -> None:
    """Wait until a script wrote a file: in the sandbox, into a layer over the workspace."""
    settings = Settings(workspace=place.parent, home=place.parent.parent / "home")
    pattern = f"layers/run-*/0/upper/{place.name}"
    await until(lambda: place.exists() or any(state_folder(settings).glob(pattern)))


async def cancel(run: "asyncio.Future[Any]") -> None:
    """Cancel a run, and wait for its end, not as long as a tool that blocks."""
    run.cancel()
    assert (await asyncio.wait({run}, timeout=QUICKLY))[0], "the cancelled run goes on"
    with pytest.raises(asyncio.CancelledError):
        await run


async def begin(agent: Agent, started: Path) -> "asyncio.Future[Any]":
    run = asyncio.ensure_future(agent.graph.ainvoke(GO, agent.config))
    await there(started)
    return run


async def cancel_task(agent: Agent, started: Path) -> None:
    await cancel(await begin(agent, started))


async def time_out(agent: Agent, started: Path) -> None:
    run = await begin(agent, started)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(run, 0.01)


async def cancel_twice(agent: Agent, started: Path) -> None:
    run = await begin(agent, started)
    run.cancel()
    await asyncio.sleep(0.05)
    await cancel(run)


async def leave_scope(agent: Agent, started: Path) -> None:
    """As FastAPI does: anyio cancels at every await until the block is left."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await there(started)
                scope.cancel()

            tasks.start_soon(leave)
            await agent.graph.ainvoke(GO, agent.config)
    assert scope.cancelled_caught


async def fail_beside(agent: Agent, started: Path) -> None:
    async def fail() -> None:
        await there(started)
        raise OSError("another task of the group")

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.graph.ainvoke(GO, agent.config))
            tasks.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await both()


async def streamed(agent: Agent, started: Path) -> Any:
    """Return a stream that waits for its caller while the script runs."""
    parts: Any = agent.graph.astream(GO, agent.config, stream_mode=["custom", "updates"])
    async for _, part in parts:
        if part.get("type") == "skills_agent.call_started":
            break
    await there(started)
    return parts


async def close_stream(agent: Agent, started: Path) -> None:
    await (await streamed(agent, started)).aclose()


async def forget_stream(agent: Agent, started: Path) -> None:
    """Leave `async for` without a word: Python closes the generator when nobody holds it."""
    await streamed(agent, started)
    gc.collect()
    await asyncio.sleep(0.1)


LEAVING = [cancel_task, time_out, cancel_twice, leave_scope, fail_beside, close_stream, forget_stream]
Leave = Callable[[Agent, Path], Awaitable[None]]


def cancelled(told: ToolMessage) -> bool:
    return told.text.startswith("cancelled after ") and "half of it" in told.text


def assert_ended(values: dict[str, Any], started: Path) -> None:
    """Assert that the script was ended, that its output is the result, and that it ran once."""
    (told,) = (each for each in values["messages"] if each.name == "run_script")
    assert cancelled(told), told.text
    assert started.read_text() == "x"


@pytest.mark.parametrize("leave", LEAVING)
async def test_a_script_of_a_cancelled_run_ends_with_all_it_started_and_its_output_is_the_result(
    agent: Agent, started: Path, workspace: Path, leave: Leave
) -> None:
    """A run that goes on, and a new message, wait until the cancelled run has ended."""
    await leave(agent, started)
    asked: Any = {"messages": [HumanMessage("never mind")]} if leave is close_stream else None
    result = await agent.graph.ainvoke(asked, agent.config)
    assert processes_with(str(workspace)) == []
    assert result["answer"] == "done"
    assert_ended(result, started)
    assert agent.state.interrupts == ()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_it_holds_in_the_sandbox_and_with_savers_of_the_loop(
    make_agent: MakeAgent, started: Path, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    made: Any = AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite"))
    settings = {}
    if kind == "postgres":
        made = AsyncPostgresSaver.from_conn_string(request.getfixturevalue("postgres_dsn"))
        settings = {"sandbox": "off"}
    async with made as saver:
        await saver.setup()
        agent = make_agent([LOAD, calls(RUN), "done"], checkpointer=saver, **settings, **FREE)
        await leave_scope(agent, started)
        assert_ended(await agent.graph.ainvoke(None, agent.config), started)


async def test_the_scripts_of_parallel_calls_end_and_those_that_wait_for_their_turn_do_not_begin(
    make_agent: MakeAgent, started: Path, workspace: Path
) -> None:
    letters = "abcdef"
    agent = make_agent(
        [LOAD, calls(*({**RUN, "args": {**RUN["args"], "args": [each]}} for each in letters)), "done"],
        sandbox="off",
        max_tool_calls=20,
        max_script_runs=20,
        **FREE,
    )
    run = asyncio.ensure_future(agent.graph.ainvoke(GO, agent.config))
    await until(lambda: len([*workspace.glob("started-*")]) >= 4)
    await cancel(run)
    assert processes_with(str(workspace)) == []
    began = len([*workspace.glob("started-*")])
    assert began == 4
    await agent.graph.ainvoke(None, agent.config)
    told = agent.tool_messages("run_script")
    assert len([each for each in told if cancelled(each)]) == 4
    assert len([each for each in told if "was not started: its run was cancelled" in each.text]) == 2
    assert len([*workspace.glob("started-*")]) == 4


@pytest.mark.parametrize("kind", ["node", "call"])
async def test_the_agent_in_another_graph_is_stopped_too(
    agent: Agent, started: Path, workspace: Path, kind: str
) -> None:
    inner = agent.graph.copy({"checkpointer": None})

    async def ask(state: MessagesState) -> Any:
        await inner.ainvoke({"messages": state["messages"]})
        return {}

    builder: Any = StateGraph(MessagesState).add_node("agent", inner if kind == "node" else ask)
    graph = builder.add_edge(START, "agent").compile(checkpointer=InMemorySaver())
    run = asyncio.ensure_future(graph.ainvoke(GO, agent.config))
    await there(started)
    await cancel(run)
    assert processes_with(str(workspace)) == []
    await graph.ainvoke(None, agent.config)
    assert (await graph.aget_state(agent.config)).interrupts == ()
    assert started.read_text() == "x"


@pytest.mark.parametrize("way", ["close", "close in another thread", "forget"])
def test_a_closed_stream_of_the_synchronous_path_ends_its_script(
    agent: Agent, started: Path, workspace: Path, way: str
) -> None:
    parts: Any = agent.graph.stream(GO, agent.config, stream_mode=["custom", "updates"])
    next(part for _, part in parts if part.get("type") == "skills_agent.call_started")
    asyncio.run(there(started))
    if way == "close":
        parts.close()
    elif way == "forget":
        del parts
        gc.collect()
    else:
        closing = Thread(target=parts.close)
        closing.start()
        closing.join()
    assert processes_with(str(workspace)) == []
    assert_ended(agent.run(None), started)


class Slow:
    """A tool of a host that blocks, and that nobody can end."""

    def __init__(self) -> None:
        self.began, self.go, self.returned = Event(), Event(), Event()
        self.times = self.at_once = self.most = 0

        @tool
        def slow() -> str:
            """Take long."""
            self.times += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.began.set()
            if self.times == 1:  # A second call would be the fault: nobody lets it go.
                self.go.wait(60)
            self.at_once -= 1
            self.returned.set()
            return "it is done"

        slow.metadata = {"risk": "write"}
        self.tool: BaseTool = slow


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    """Asynchronous, to be let go before its loop is closed, which waits for all threads."""
    slow = Slow()
    yield slow
    slow.go.set()


async def blocked_run(agent: Agent, slow: Slow) -> "asyncio.Future[Any]":
    """Return a run whose tool blocks."""
    run = asyncio.ensure_future(agent.graph.ainvoke(GO, agent.config))
    await until(slow.began.is_set)
    return run


async def give_up(agent: Agent, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel a run whose tool does not return."""
    monkeypatch.setattr(cancellation, "STOP_SECONDS", 0.3)
    await cancel(await blocked_run(agent, slow))


async def let_return(agent: Agent, slow: Slow) -> None:
    """Let the tool return, and wait until what it returned is in the journal."""
    slow.go.set()
    assert slow.returned.wait(60)
    await until(lambda: not agent.graph.services.invocations.effects)


@pytest.fixture
def slow_agent(make_agent: MakeAgent, slow: Slow) -> Agent:
    return make_agent([calls(call("slow")), "done", "later"], tools=[slow.tool], **FREE)


async def test_a_tool_that_blocks_is_waited_for_and_its_result_is_kept(slow_agent: Agent, slow: Slow) -> None:
    run = await blocked_run(slow_agent, slow)
    run.cancel()
    await asyncio.sleep(0.05)
    assert not run.done()
    again = asyncio.ensure_future(slow_agent.graph.ainvoke(None, slow_agent.config))
    await asyncio.sleep(0.05)
    assert not again.done()
    slow.go.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await again)["answer"] == "done"
    assert [each.text for each in slow_agent.tool_messages("slow")] == ["it is done"]
    assert slow.times == 1


async def test_a_tool_that_does_not_return_is_unknown_and_never_started_beside_itself(
    slow_agent: Agent, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await give_up(slow_agent, slow, monkeypatch)
    async with asyncio.timeout(QUICKLY):  # The tool itself is not waited for.
        with pytest.raises(SkillsAgentError, match="still runs"):
            await slow_agent.graph.ainvoke(None, slow_agent.config)
    await let_return(slow_agent, slow)
    result = await slow_agent.graph.ainvoke(None, slow_agent.config)
    assert result["answer"] == "done"
    assert [each.text for each in slow_agent.tool_messages("slow")] == ["it is done"]
    assert (slow.times, slow.most) == (1, 1)


async def test_a_tool_that_was_given_up_is_not_started_for_another_call(
    make_agent: MakeAgent, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent([calls(call("slow")), calls(call("slow")), "done"], tools=[slow.tool], **FREE)
    await give_up(agent, slow, monkeypatch)
    async with asyncio.timeout(QUICKLY):
        await agent.graph.ainvoke({"messages": [HumanMessage("again")]}, agent.config)
    given_up, again = agent.tool_messages("slow")
    assert given_up.text.startswith("Outcome unknown")
    assert again.id == f"refused-{again.tool_call_id}"
    assert slow.times == 1


async def test_the_thread_is_busy_for_others_until_a_blocking_tool_has_returned(
    make_agent: MakeAgent, slow: Slow, tmp_path: Path
) -> None:
    """Another agent over the same threads and locks, as in another process."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        agent = make_agent([calls(call("slow")), "done"], tools=[slow.tool], checkpointer=saver, **FREE)
        other = make_agent(["x"], checkpointer=saver)
        run = await blocked_run(agent, slow)
        for _ in range(2):  # the second one is not waited for
            run.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await run
        with pytest.raises(ThreadBusyError):
            await other.graph.ainvoke(None, other.config)
        await let_return(agent, slow)
        assert (await agent.graph.ainvoke(None, agent.config))["answer"] == "done"
    assert slow.times == 1


async def test_a_model_call_is_aborted_and_made_again(make_agent: MakeAgent, monkeypatch: Any) -> None:
    came, gone = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        came.set()
        while await reader.read(4096):
            pass
        gone.set()
        writer.close()

    silent = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1")
    agent = make_agent(["done"])
    waiting = make_agent("openai:silent", checkpointer=agent.checkpointer).graph
    async with silent:
        run = asyncio.ensure_future(waiting.ainvoke(GO, agent.config))
        await came.wait()
        await cancel(run)
        await gone.wait()
    assert (await agent.graph.ainvoke(None, agent.config))["answer"] == "done"
