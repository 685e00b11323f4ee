"""What the project uses of LangGraph without a promise still does what it is used for.

A failure here after an upgrade: read the sentence, then `graph/langgraph_inside.py`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from pydantic import SecretStr
from typing_extensions import TypedDict, get_type_hints

from skills_agent.graph import langgraph_inside
from skills_agent.graph.langgraph_inside import (
    CHECKED,
    SNAPSHOTS,
    ChatOpenAIHooks,
    route_in_place,
    stored,
)
from skills_agent.state.schema import AgentInput, AgentOutput, AgentState
from tests.openai_server import KEY, Completion, openai_server


@pytest.mark.parametrize("package", CHECKED)
def test_the_installed_release_is_in_the_series_that_was_checked(package: str) -> None:
    series = [of.split(".")[:2] for of in (version(package), CHECKED[package])]
    assert series[0] == series[1], (
        f"{package} {version(package)} was not checked: run this file and "
        "tests/graph/test_recorded_threads.py against it, then put its number into CHECKED and "
        "into the bounds of pyproject.toml."
    )


def test_a_route_is_no_run_of_its_own_and_stays_in_its_thread() -> None:
    class State(TypedDict):
        seen: str

    def leave(state: State) -> str:
        return "end"

    builder = StateGraph(State)
    builder.add_node("begin", lambda state: {"seen": "begin"})
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", route_in_place(leave), {"end": END})
    names = [event["name"] for event in _events(builder.compile())]
    assert "leave" not in names, (
        "LangGraph traces routes that are Runnables: see how add_conditional_edges treats them now, or let "
        "`route_in_place` return the function itself (1 to 2 ms a turn)."
    )


def _events(graph: Any) -> list[Any]:
    async def run() -> list[Any]:
        return [event async for event in graph.astream_events({"seen": ""}, version="v2")]

    return asyncio.run(run())


def test_the_stored_schemas_differ_from_the_declared_ones_in_nothing_but_storage() -> None:
    for declared in (AgentInput, AgentOutput, AgentState):
        hints = get_type_hints(stored(declared))
        assert hints == get_type_hints(declared)
        assert stored(declared).__name__ == declared.__name__
        assert stored(declared) is stored(declared)
    assert set(SNAPSHOTS) <= set(get_type_hints(AgentState))


def test_a_delta_channel_is_stored_as_its_writes_and_read_again_from_them() -> None:
    builder = StateGraph(stored(AgentState), input_schema=stored(AgentInput))
    builder.add_node("reply", lambda state: {"grants": {str(len(state["messages"])): {"revoked": False}}})
    builder.add_edge(START, "reply")
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, config)
    values = graph.get_state(config).values
    assert ([m.text for m in values["messages"]], list(values["grants"])) == (["one", "two"], ["1", "2"]), (
        "DeltaChannel reads a thread differently: see its release notes, and try "
        "tests/graph/test_recorded_threads.py."
    )
    newest = saver.get_tuple(config)
    assert newest is not None
    assert not {"messages", "grants"} & set(newest.checkpoint["channel_values"]), (
        "DeltaChannel stores whole values now: threads grow with the square of their length "
        "(benchmarks/growth.py). See what took the place of `snapshot_frequency`."
    )


def test_writes_are_replayed_in_any_batches() -> None:
    class Sums(TypedDict):
        grants: Annotated[int, lambda left, right: (left or 0) + right]

    (channel,) = get_type_hints(stored(Sums), include_extras=True)["grants"].__metadata__

    @given(st.lists(st.integers(), max_size=4), st.integers(0, 4))
    def check(writes: list[int], cut: int) -> None:
        first = channel.reducer(None, writes[:cut])
        assert (channel.reducer(first, writes[cut:]) or 0) == sum(writes)

    check()


def test_no_other_file_imports_a_private_name_of_langgraph() -> None:
    here = Path(langgraph_inside.__file__)
    private = ("langgraph._internal", "import _", "pregel._", "__pregel", "channels.delta")
    found = [
        f"{path.relative_to(here.parent.parent)}: {line.strip()}"
        for folder in ("graph", "nodes", "skills", "state")
        for path in (here.parent.parent / folder).rglob("*.py")
        if path != here and path.parts[-2] != "threads"
        for line in path.read_text(encoding="utf-8").splitlines()
        if "langgraph" in line and any(name in line for name in private)
    ]
    assert found == [], "Give the name a function or an alias in graph/langgraph_inside.py, with its reason."


def test_the_hooks_of_chat_openai_are_called() -> None:
    seen: list[str] = []

    class Model(ChatOpenAIHooks, ChatOpenAI):
        def prepare_payload(self, payload: dict[str, Any]) -> dict[str, Any]:
            seen.append("payload")
            return {**payload, "user": "hook"}

        @contextmanager
        def reading(self) -> Iterator[None]:
            seen.append("reading")
            yield

    with openai_server() as server:
        server.answers += [Completion("one"), Completion("two")]
        model = Model(model="x", api_key=SecretStr(KEY), base_url=server.base_url)
        model.invoke("hi")
        whole, streamed = [*seen], [*model.stream("hi")]
    assert (whole, server.asked[0].body["user"]) == (["payload", "reading"], "hook"), (
        "ChatOpenAI does not call what ChatOpenAIHooks overrides: see how _generate makes "
        "its payload and reads the reply now, and override what does."
    )
    assert seen[2:] == ["payload", *["reading"] * (len(seen) - 3)], (
        "ChatOpenAI reads streamed replies elsewhere: see what _stream calls for each chunk."
    )
    assert len(seen) - 3 >= len(streamed) - 1
