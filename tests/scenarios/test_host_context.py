"""The agent in a graph that has a context of its own."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.state.context import Context, ContextError
from tests.agents import call, calls

LISTS: list[Any] = [calls(call("list_dir")), calls(call("list_dir", path="a")), "done"]


@dataclass
class Tenant:
    tenant: str = "t-1"
    model: str = "anthropic/claude"
    user_id: int = 7
    max_tool_calls: int | None = None


class TenantModel(BaseModel):
    tenant: str = "t-1"
    model: str = "anthropic/claude"
    user_id: int = 7
    max_tool_calls: int | None = None


class TenantDict(TypedDict, total=False):
    tenant: str
    model: str
    user_id: int
    max_tool_calls: int | None


@pytest.fixture
def agent(workspace: Path) -> Any:
    (workspace / "a").mkdir()
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    return build_graph(settings, model=ScriptedChatModel(LISTS)).compile()


def as_subgraph(agent: Any, schema: Any) -> Any:
    builder = StateGraph(MessagesState, schema)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder.compile()


def in_a_node(agent: Any, schema: Any) -> Any:
    builder = StateGraph(MessagesState, schema)
    builder.add_node("agent", lambda state: {"messages": agent.invoke(state)["messages"]})
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder.compile()


def in_a_tool(agent: Any, schema: Any) -> Any:
    @tool
    def ask_agent(question: str) -> str:
        """Ask."""
        return str(agent.invoke({"messages": [("user", question)]})["answer"])

    model = ScriptedChatModel([calls(call("ask_agent", question="go")), "done"])
    return create_agent(model, [ask_agent], context_schema=schema)


CONTEXTS: list[tuple[Any, Any]] = [(Tenant, Tenant), (TenantModel, TenantModel), (TenantDict, dict)]


@pytest.mark.parametrize(
    ("embed", "schema", "make"),
    [(as_subgraph, *CONTEXTS[0]), (in_a_node, *CONTEXTS[1]), (in_a_tool, *CONTEXTS[2])],
)
def test_a_graph_with_a_context_of_its_own_may_hold_the_agent(
    agent: Any, embed: Callable[..., Any], schema: Any, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Names of models and users that this agent does not know are those of the graph around it."""
    asked = {"messages": [("user", "go")]}
    with caplog.at_level(logging.WARNING):
        done = embed(agent, schema).invoke(
            asked, context=make(tenant="t-2", user_id=7, model="anthropic/claude")
        )
    assert done["messages"][-1].text == "done"
    assert embed(agent, schema).invoke(asked)["messages"][-1].text == "done"


@pytest.mark.parametrize(("schema", "make"), CONTEXTS)
def test_its_fields_of_our_names_count(agent: Any, schema: Any, make: Any) -> None:
    done = as_subgraph(agent, schema).invoke({"messages": [("user", "go")]}, context=make(max_tool_calls=1))
    assert results(done) == ["success", "error"]


def test_a_field_that_does_not_fit_is_told_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    given = SimpleNamespace(user_id=["no user"], only_tools=("grep",), max_turns=3)
    with caplog.at_level(logging.WARNING):
        read = [Context.of(given).model_dump() for _ in range(2)]
    assert read == [Context(only_tools=("grep",)).model_dump()] * 2
    (warning,) = caplog.records
    assert (warning.__dict__["of_context"], warning.__dict__["field"]) == ("SimpleNamespace", "user_id")


def test_a_model_that_our_own_context_names_is_still_refused(agent: Any) -> None:
    with pytest.raises(Exception, match="anthropic/claude"):
        agent.invoke({"messages": [("user", "go")]}, context=Context(model="anthropic/claude"))


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"only_tool": ["read_file"]}, "`only_tool`. Did you mean `only_tools`?"),
        ({"require_aproval_for": ["write"]}, "Did you mean the operator's setting `require_approval_for`?"),
        ({"only_tools": "read_file"}, "context.only_tools: Input should be a valid list."),
        ({"exclude_tools": [1]}, "context.exclude_tools.0: "),
        ({"only_tools": ["read_fil"]}, "context.only_tools: `read_fil` is not understood: .*mean read_file"),
    ],
)
@pytest.mark.parametrize("place", ["context", "configurable"])
async def test_a_misspelt_restriction_is_refused_in_one_sentence(
    agent: Any, given: Any, fault: str, place: str
) -> None:
    asked: Any = {"messages": [("user", "go")]}
    more: Any = {"context": given} if place == "context" else {"config": {"configurable": given}}
    with pytest.raises(ContextError, match=fault):
        agent.invoke(asked, **more)
    with pytest.raises(ContextError, match=fault):
        await agent.ainvoke(asked, **more)


def results(done: Any) -> list[str]:
    return [message.status for message in done["messages"] if message.type == "tool"]


@pytest.mark.parametrize("context", [None, {"user_id": "u"}, Context(user_id="u"), Context(max_tool_calls=2)])
def test_what_configurable_says_counts_where_the_context_says_nothing(agent: Any, context: Any) -> None:
    """LangGraph's server, and programs for LangGraph before 0.6, say a context there."""
    config = {"configurable": {"max_tool_calls": 1, "tenant": "t", "user": "u"}}
    done = agent.invoke({"messages": [("user", "go")]}, config, context=context)
    assert results(done) == ["success", "success" if context == Context(max_tool_calls=2) else "error"]


def test_a_graph_around_the_agent_has_a_configurable_of_its_own(agent: Any) -> None:
    config, asked = {"configurable": {"max_tool_calls": 1, "only_tool": 1}}, {"messages": [("user", "go")]}
    assert results(as_subgraph(agent, None).invoke(asked, config)) == ["success", "success"]
