"""What a program that knows LangGraph, and not this project, is told when it is mistaken."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.graph import Settings, SettingsError, ThreadError, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.services import HostParts
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.state.schema import AgentInput
from tests.kit import MakeAgent
from tests.openai_server import OpenAIServer


def weather(town: str) -> str:
    """Tell the weather."""
    return town


def named(name: str, **metadata: Any) -> Any:
    return StructuredTool.from_function(weather, name=name, metadata=metadata)


async def later(_: object) -> str:
    return "later"


WEATHER, SEARCH = named("weather"), {"type": "web_search"}
SEARCH_OF_ANTHROPIC = {"type": "web_search_20250305", "name": "web_search"}
FORM = {"title": "Town", "type": "object", "properties": {"city": {"type": "string"}}}
CHAT = OpenAIServer("http://127.0.0.1:9/v1").chat()
CONFIGURED = CHAT.configurable_fields(model_name=ConfigurableField("which"))
NO_LIMITS = (0, -1, "60", True, float("nan"))
NO_TEXT = "a text, a SystemMessage, or a function of the state.*not "
ONE_FORM = "`response_format` takes a pydantic model"


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"tools": weather}, "put this one in brackets"),
        ({"tools": "weather"}, "put this one in brackets"),
        ({"tools": SEARCH}, "put this one in brackets"),
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "tool"),
        ({"tools": [{"name": "x", "input_schema": {}}]}, "tool"),
        ({"tools": [7]}, "tool"),
        ({"tools": [{}]}, "tool"),
        ({"tools": [SEARCH, SEARCH_OF_ANTHROPIC]}, "Two of the provider's tools are named web_search"),
        ({"tools": [SEARCH, named("web_search")]}, "both named web_search"),
        *(({"tools": [named("x", timeout=each)]}, "x needs metadata") for each in NO_LIMITS),
        ({"skill_tools": WEATHER}, "tool"),
        ({"skill_tools": [SEARCH]}, "tool"),
        ({"skill_tools": [WEATHER, WEATHER]}, "tool"),
        ({"skill_tools": [named("read_file")]}, "tool"),
        ({"skill_tools": [named("load_skill")]}, "tool"),
        ({"skill_tools": [WEATHER], "tools": [WEATHER]}, "tool"),
        ({"skill_tools": [WEATHER], "tools": [named("call_tool")]}, "tool"),
        ({"skill_tools": [WEATHER], "tools": [{"type": "web", "name": "weather"}]}, "tool"),
        ({"model": RunnableLambda(str)}, "a Runnable around one"),
        ({"model": lambda: 1}, "a Runnable around one"),
        ({"model": CHAT | str}, "a Runnable around one"),
        ({"model": CONFIGURED}, "a Runnable around one"),
        ({"model": CONFIGURED.with_fallbacks([CHAT])}, "a Runnable around one"),
        ({"model": CHAT.with_fallbacks([CONFIGURED.with_retry()])}, "a Runnable around one"),
        ({"model": CHAT.bind_tools([SEARCH]).with_retry()}, r"build_graph\(tools="),
        ({"system_prompt": 7}, f"{NO_TEXT}int"),
        ({"system_prompt": ["a"]}, f"{NO_TEXT}list"),
        ({"system_prompt": later}, f"{NO_TEXT}a coroutine function"),
        ({"response_format": {**FORM, "title": "weather"}, "tools": [WEATHER]}, "A tool is named weather"),
        ({"response_format": {**FORM, "title": "load_skill"}}, "A tool is named load_skill"),
        # LangChain's agents take seconds to import.
        pytest.param({"response_format": int}, ONE_FORM, marks=pytest.mark.slow),
        pytest.param({"response_format": list[Settings]}, ONE_FORM, marks=pytest.mark.slow),
        pytest.param({"response_format": {"type": "array"}}, "that of an object", marks=pytest.mark.slow),
        pytest.param({"response_format": {**FORM, "type": "objekt"}}, "no JSON", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(workspace: Path, parts: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        build_graph(Settings(workspace=workspace), **{"model": ScriptedChatModel(["done"]), **parts})


def test_tools_may_be_none_or_any_iterable_and_help_explains_all(workspace: Path) -> None:
    build_graph(Settings(workspace=workspace), tools=None).compile()
    build_graph(Settings(workspace=workspace), tools=iter([weather])).compile()  # type: ignore[arg-type]
    page, misspelt = build_graph.__doc__ or "", {"approver": ()}
    assert [name for name in HostParts.__annotations__ if f"`{name}`" not in page] == []
    with pytest.raises(TypeError, match="unexpected keyword argument 'approver'"):
        build_graph(Settings(), **misspelt)  # type: ignore[arg-type]


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


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "projekt"
    with pytest.raises(SettingsError, match=r"Setting workspace \(from code\): there is no folder"):
        build_graph(Settings(workspace=nowhere))
    monkeypatch.setenv("SKILLS_AGENT_WORKSPACE", str(nowhere))
    with pytest.raises(SettingsError, match=r"Setting workspace \(from SKILLS_AGENT_WORKSPACE\)"):
        Settings.load()
    assert not nowhere.exists()
    monkeypatch.delenv("SKILLS_AGENT_WORKSPACE")
    nowhere.mkdir()
    monkeypatch.chdir(nowhere)
    nowhere.rmdir()
    for made in (Settings, Settings.load):
        with pytest.raises(SettingsError, match="The current folder is gone"):
            made()


def agent_of(workspace: Path, *, kept: bool = True) -> CompiledAgent:
    made = build_graph(Settings(workspace=workspace, audit="off"), model=ScriptedChatModel(["yes", "yes"]))
    return made.compile(checkpointer=InMemorySaver() if kept else None)


def test_it_runs_without_a_checkpointer_and_without_a_context(workspace: Path) -> None:
    given: Any
    for given in ([("user", "hi")], "hi", [{"role": "user", "content": "hi"}], [HumanMessage("hi")]):
        assert agent_of(workspace, kept=False).invoke({"messages": given})["answer"] == "yes"


@pytest.mark.parametrize("configurable", [{}, {"thread_id": None}, {"thread_id": True}, {"thread_id": ["1"]}])
async def test_a_run_that_names_no_thread_is_refused(workspace: Path, configurable: dict[str, Any]) -> None:
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
def test_a_message_that_langchain_fails_at_is_not_kept(make_agent: MakeAgent, kind: object) -> None:
    agent = make_agent(["yes", "yes"])
    agent.say("Is it?")
    before = agent.state
    for message in (HumanMessage([{"type": kind, "text": "And?"}]), AIMessage([{"type": kind}])):
        update: Any = {"messages": [message]}
        as_command: Any = Command(update=update)
        for given in (update, as_command):
            with pytest.raises(ThreadError, match="is a name, not"):
                agent.run(given)
        with pytest.raises(ThreadError, match="is a name, not"):
            agent.graph.update_state(agent.config, update)
    assert agent.state == before
    assert agent.say("And?")["answer"] == "yes"


async def test_an_input_of_which_nothing_would_arrive_is_refused(workspace: Path) -> None:
    agent: Any = agent_of(workspace, kept=False)
    for given in ({"message": "Is it?"}, {"input": "Is it?", "chat_history": []}):
        with pytest.raises(ThreadError, match=f"but: {', '.join(given)}"):
            agent.invoke(given)
        with pytest.raises(ThreadError):
            await agent.ainvoke(given)
    shared = {"messages": [HumanMessage("Is it?")], "of_the_graph_around_it": 1}
    assert agent.invoke(shared)["answer"] == "yes"
