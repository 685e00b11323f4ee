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
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.state.context import Context, ContextError
from tests.agents import call, calls
from tests.kit import MakeAgent

ASKED: Any = {"messages": [("user", "go")]}


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
def agent(make_agent: MakeAgent, workspace: Path) -> Any:
    (workspace / "a").mkdir()
    replies = [calls(call("list_dir")), calls(call("list_dir", path="a")), "done"]
    return make_agent(replies).graph.builder.compile()


def as_subgraph(agent: Any, schema: Any) -> Any:
    return StateGraph(MessagesState, schema).add_node("agent", agent).add_edge(START, "agent").compile()


def in_a_node(agent: Any, schema: Any) -> Any:
    return as_subgraph(lambda state: {"messages": agent.invoke(state)["messages"]}, schema)


def in_a_tool(agent: Any, schema: Any) -> Any:
    @tool
    def ask_agent(question: str) -> str:
        """Ask."""
        return str(agent.invoke({"messages": [("user", question)]})["answer"])

    model = ScriptedChatModel([calls(call("ask_agent", question="go")), "done"])
    return create_agent(model, [ask_agent], context_schema=schema)


def results(done: Any) -> list[str]:
    return [message.status for message in done["messages"] if message.type == "tool"]


CONTEXTS: list[tuple[Any, Any]] = [(Tenant, Tenant), (TenantModel, TenantModel), (TenantDict, dict)]


@pytest.mark.parametrize(
    ("embed", "schema", "make"),
    [(as_subgraph, *CONTEXTS[0]), (in_a_node, *CONTEXTS[1]), (in_a_tool, *CONTEXTS[2])],
)
def test_its_graph_may_hold_the_agent(agent: Any, embed: Callable[..., Any], schema: Any, make: Any) -> None:
    """Names of models and users that this agent does not know are those of the graph around it."""
    given = make(tenant="t-2", user_id=7, model="anthropic/claude")
    for context in (given, None):
        assert embed(agent, schema).invoke(ASKED, context=context)["messages"][-1].text == "done"


@pytest.mark.parametrize(("schema", "make"), CONTEXTS)
def test_its_fields_of_our_names_count(agent: Any, schema: Any, make: Any) -> None:
    done = as_subgraph(agent, schema).invoke(ASKED, context=make(max_tool_calls=1))
    assert results(done) == ["success", "error"]


def test_a_field_that_does_not_fit_is_told_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    given = SimpleNamespace(user_id=["no user"], only_tools=("grep",), max_turns=3)
    with caplog.at_level(logging.WARNING):
        read = [Context.of(given).model_dump() for _ in range(2)]
    assert read == [Context(only_tools=("grep",)).model_dump()] * 2
    (warning,) = caplog.records
    assert (warning.__dict__["of_context"], warning.__dict__["field"]) == ("SimpleNamespace", "user_id")


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
async def test_a_misspelt_restriction_is_refused(agent: Any, given: Any, fault: str, place: str) -> None:
    more: Any = {"context": given} if place == "context" else {"config": {"configurable": given}}
    with pytest.raises(ContextError, match=fault):
        agent.invoke(ASKED, **more)
    with pytest.raises(ContextError, match=fault):
        await agent.ainvoke(ASKED, **more)


def test_a_model_that_our_own_context_names_is_still_refused(agent: Any) -> None:
    with pytest.raises(Exception, match="anthropic/claude"):
        agent.invoke(ASKED, context=Context(model="anthropic/claude"))


@pytest.mark.parametrize("context", [None, {"user_id": "u"}, Context(user_id="u"), Context(max_tool_calls=2)])
def test_what_configurable_says_counts_where_the_context_says_nothing(agent: Any, context: Any) -> None:
    """LangGraph's server, and programs for LangGraph before 0.6, say a context there."""
    config = {"configurable": {"max_tool_calls": 1, "tenant": "t", "user": "u"}}
    done = agent.invoke(ASKED, config, context=context)
    assert results(done) == ["success", "success" if context == Context(max_tool_calls=2) else "error"]


def test_a_graph_around_the_agent_has_a_configurable_of_its_own(agent: Any) -> None:
    config = {"configurable": {"max_tool_calls": 1, "only_tool": 1}}
    assert results(as_subgraph(agent, None).invoke(ASKED, config)) == ["success", "success"]
