"""What a program that knows LangGraph, and not this project, is told when it is mistaken."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.graph import Settings, SettingsError, ThreadError, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.state.schema import AgentInput


def agent_of(workspace: Path, *, kept: bool = True) -> CompiledAgent:
    made = build_graph(Settings(workspace=workspace, audit="off"), model=ScriptedChatModel(["yes", "yes"]))
    return made.compile(checkpointer=InMemorySaver() if kept else None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("openai:gpt-5-mini", "not a str: a model is named by `model='openai:gpt-5-mini'`"),
        ({"approval": "deny"}, "not a dict: `Settings(...)`"),
    ],
)
def test_what_is_no_settings_is_named(settings: Any, said: str) -> None:
    with pytest.raises(SettingsError, match="takes Settings first") as told:
        build_graph(settings)
    assert said in str(told.value)


def test_tools_may_be_none_and_are_a_list(workspace: Path) -> None:
    def weather(place: str) -> str:
        """Tell the weather."""
        return place

    settings = Settings(workspace=workspace)
    build_graph(settings, tools=None).compile()
    build_graph(settings, tools=iter([weather])).compile()  # type: ignore[arg-type]
    for tools in (weather, "weather", {"type": "web_search"}):
        with pytest.raises(SettingsError, match="put this one in brackets"):
            build_graph(settings, tools=tools)  # type: ignore[arg-type]


def test_a_misspelt_workspace_is_refused_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "projekt"
    with pytest.raises(SettingsError, match=r"Setting workspace \(from code\): there is no folder"):
        build_graph(Settings(workspace=nowhere))
    monkeypatch.setenv("SKILLS_AGENT_WORKSPACE", str(nowhere))
    with pytest.raises(SettingsError, match=r"Setting workspace \(from SKILLS_AGENT_WORKSPACE\)"):
        Settings.load()
    assert not nowhere.exists()


def test_a_current_folder_that_is_gone_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLS_AGENT_WORKSPACE", raising=False)
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for made in (Settings, Settings.load):
        with pytest.raises(SettingsError, match="The current folder is gone"):
            made()


@pytest.mark.parametrize("configurable", [{}, {"thread_id": None}, {"thread_id": True}, {"thread_id": ["1"]}])
async def test_a_run_that_names_no_thread_is_refused_before_anything_runs(
    workspace: Path, configurable: dict[str, Any]
) -> None:
    agent, question = agent_of(workspace), AgentInput(messages=[HumanMessage("Is it?")])
    config: Any = {"configurable": configurable}
    with pytest.raises(ThreadError, match=r'"thread_id": "1"'):
        agent.invoke(question, config)
    with pytest.raises(ThreadError):
        await agent.ainvoke(question, config)
    with pytest.raises(ThreadError):
        agent.get_state(config)
    assert agent_of(workspace, kept=False).invoke(question, config)["answer"] == "yes"


@pytest.mark.parametrize("thread", [1, UUID(int=1)])
async def test_a_thread_may_be_named_by_a_number_or_a_uuid(workspace: Path, thread: Any) -> None:
    agent: Any = agent_of(workspace)
    named: Any = {"configurable": {"thread_id": thread}}
    text: Any = {"configurable": {"thread_id": str(thread)}}
    agent.invoke({"messages": [HumanMessage("Is it?")]}, named)
    await agent.ainvoke({"messages": [HumanMessage("Is it?")]}, text)
    agent.update_state(named, {"messages": [HumanMessage("And now?")]}, "decide")
    await agent.aupdate_state(named, {"messages": [HumanMessage("And then?")]}, "decide")
    kinds = [[each.type for each in agent.get_state(config).values["messages"]] for config in (named, text)]
    assert kinds == [["human", "ai", "human", "ai", "human", "human"]] * 2
    assert agent.get_state(named) == await agent.aget_state(named)
    assert list(agent.get_state_history(named)) == [each async for each in agent.aget_state_history(text)]
    assert set(agent.checkpointer.storage) == {str(thread)}


@pytest.mark.parametrize("kind", [["text"], {"text": 1}, None])
def test_a_message_that_langchain_fails_at_is_refused_before_it_is_kept(
    workspace: Path, kind: object
) -> None:
    agent: Any = agent_of(workspace)
    config = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [HumanMessage("Is it?")]}, config)
    before = agent.get_state(config)
    for message in (HumanMessage([{"type": kind, "text": "And?"}]), AIMessage([{"type": kind}])):
        update = {"messages": [message]}
        with pytest.raises(ThreadError, match="is a name, not"):
            agent.invoke(update, config)
        with pytest.raises(ThreadError, match="is a name, not"):
            agent.invoke(Command(update=update), config)
        with pytest.raises(ThreadError, match="is a name, not"):
            agent.update_state(config, update)
    assert agent.get_state(config) == before
    assert agent.invoke({"messages": [HumanMessage("And?")]}, config)["answer"] == "yes"


async def test_an_input_of_which_nothing_would_arrive_is_refused(workspace: Path) -> None:
    agent: Any = agent_of(workspace, kept=False)
    for given in ({"message": "Is it?"}, {"input": "Is it?", "chat_history": []}):
        with pytest.raises(ThreadError, match=f"but: {', '.join(given)}"):
            agent.invoke(given)
        with pytest.raises(ThreadError):
            await agent.ainvoke(given)
    shared = {"messages": [HumanMessage("Is it?")], "of_the_graph_around_it": 1}
    assert agent.invoke(shared)["answer"] == "yes"
