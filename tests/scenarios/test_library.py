"""The graph inside someone else's program."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from typing_extensions import TypedDict

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.services import HostParts
from skills_agent.skills.sources import MemorySource
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent

REPLIES: list[Any] = [calls(call("load_skill", name="alpha"), call("list_dir")), "three apples"]


@pytest.fixture(autouse=True)
def skill(skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n", scripts__run_py="print('ran')\n")


def test_help_shows_and_explains_everything_that_a_program_may_bring() -> None:
    page, misspelt = build_graph.__doc__ or "", {"approver": ()}
    assert [name for name in HostParts.__annotations__ if f"`{name}`" not in page] == []
    with pytest.raises(TypeError, match="unexpected keyword argument 'approver'"):
        build_graph(Settings(), **misspelt)  # type: ignore[arg-type]


class Outer(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def outer_graph(workspace: Path, replies: list[Any], checkpointer: Any = None) -> Any:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    inner = build_graph(settings, model=ScriptedChatModel(replies)).compile()
    builder = StateGraph(Outer)
    builder.add_node("agent", inner)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder.compile(checkpointer=checkpointer)


def test_it_is_a_node_of_a_bigger_graph_that_shares_only_messages(workspace: Path) -> None:
    """cases.md 24: nothing of the inner agent's skills leaks out, nothing is counted twice."""
    result = outer_graph(workspace, REPLIES).invoke({"messages": [HumanMessage("How many?")]})
    assert set(result) == {"messages"}
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert result["messages"][-1].text == "three apples"
    assert "APRICOT" not in str(result)


def test_a_question_inside_a_bigger_graph_is_asked_and_answered_from_outside(workspace: Path) -> None:
    replies = [calls(call("write_file", path="out.txt", content="x")), "written"]
    graph = outer_graph(workspace, replies, InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    paused = graph.invoke({"messages": [HumanMessage("write")]}, config)
    assert paused["__interrupt__"]
    done = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert done["messages"][-1].text == "written"
    assert (workspace / "out.txt").read_text() == "x"


def test_it_runs_without_a_checkpointer_and_without_a_context(workspace: Path) -> None:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    graph = build_graph(settings, model=ScriptedChatModel(REPLIES)).compile()
    given: Any
    for given in ([("user", "hi")], "hi", [{"role": "user", "content": "hi"}], [HumanMessage("hi")]):
        assert graph.invoke({"messages": given})["answer"] == "three apples"


def test_skills_can_come_from_memory(workspace: Path) -> None:
    body = "---\nname: alpha\ndescription: Counts.\n---\nFROM MEMORY\n"
    source = MemorySource({"alpha": {"SKILL.md": body, "references/a.md": "# A\n"}})
    settings = Settings(workspace=workspace, home=workspace)
    graph = build_graph(settings, model=ScriptedChatModel(REPLIES), sources=[source]).compile(
        checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [HumanMessage("hi")]}, config)
    assert "FROM MEMORY" in graph.get_state(config).values["skills_loaded"]["alpha"]["instructions"]


def test_every_stream_mode_shows_the_run(make_agent: MakeAgent) -> None:
    agent = make_agent(REPLIES)
    asked: Any = {"messages": [HumanMessage("How many?")]}
    nodes = [name for update in agent.graph.stream(asked, agent.config) for name in update]
    assert nodes == ["discover", "decide", "select", "load", "gate", "act", "decide", "answer"]
    again = make_agent([REPLIES[0], "three apples\nand a pear"], thread="2")
    parts: Any = again.graph.stream(asked, again.config, stream_mode="messages")
    tokens = [
        chunk.text
        for chunk, metadata in parts
        if metadata["langgraph_node"] == "decide" and chunk.type == "AIMessageChunk"
    ]
    assert [token for token in tokens if token] == ["three apples\n", "and a pear"]


async def test_async_streaming_shows_the_same_run(make_agent: MakeAgent) -> None:
    agent = make_agent(REPLIES)
    asked: Any = {"messages": [HumanMessage("How many?")]}
    nodes = [name async for update in agent.graph.astream(asked, agent.config) for name in update]
    assert nodes == ["discover", "decide", "select", "load", "gate", "act", "decide", "answer"]
