"""What a host may bring as a tool: functions, coroutines, tools that the provider runs, direct answers."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import SecretStr

from skills_agent.graph import Context, Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import SettingsError
from tests.agents import call, calls
from tests.openai_server import KEY, Call, Completion, OpenAIServer
from tests.strict_providers import strict_server

ASKED: Any = {"messages": [("user", "go")]}
SEARCH = {"type": "web_search"}
SEARCH_OF_ANTHROPIC = {"type": "web_search_20250305", "name": "web_search"}


def agent_of(workspace: Path, model: Any, tools: Any, **settings: Any) -> Any:
    chosen = {"approval": "deny", "require_approval_for": frozenset(), **settings}
    place = Settings(workspace=workspace, home=workspace, bundled_skills=False, **chosen)
    replies = ScriptedChatModel(model) if isinstance(model, list) else model
    return build_graph(place, model=replies, tools=tools).compile(checkpointer=InMemorySaver())


def config(thread: str = "1") -> Any:
    return {"configurable": {"thread_id": thread}}


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def fetch(number: int) -> str:
    """Fetch something."""
    return f"fetched {number}"


@tool(return_direct=True)
def price(item: str) -> str:
    """Say a price."""
    if item == "nothing":
        raise ToolException("no such item")
    return f"{item}: 7"


price.handle_tool_error = True


async def test_a_function_is_a_tool_and_a_coroutine_works_in_invoke_too(workspace: Path) -> None:
    replies: list[Any] = [calls(call("double", number=4), call("fetch", number=3)), "done"]
    agent = agent_of(workspace, replies, [double, fetch])
    for result in (agent.invoke(ASKED, config("1")), await agent.ainvoke(ASKED, config("2"))):
        assert [each.text for each in result["messages"] if each.type == "tool"] == ["8", "fetched 3"]


@pytest.mark.parametrize(
    "wrong", [{"type": "function", "function": {"name": "x"}}, {"name": "x", "input_schema": {}}, 7, {}]
)
def test_what_nobody_could_run_is_refused(workspace: Path, wrong: Any) -> None:
    with pytest.raises(SettingsError, match="tool"):
        agent_of(workspace, ["done"], [wrong])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (SEARCH_OF_ANTHROPIC, "Two of the provider's tools are named web_search"),
        (StructuredTool.from_function(double, name="web_search"), "both named web_search"),
    ],
)
def test_a_name_that_a_tool_of_the_provider_has_is_refused(workspace: Path, other: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        agent_of(workspace, ["done"], [SEARCH, other])


def chat(server: OpenAIServer) -> ChatOpenAI:
    key = SecretStr(KEY)
    return ChatOpenAI(model="m", base_url=server.base_url, api_key=key, use_responses_api=False)


def test_a_tool_of_the_provider_is_offered_and_left_out_as_any_other(
    server: OpenAIServer, workspace: Path
) -> None:
    server.respond = lambda _: Completion("done")
    agent = agent_of(workspace, chat(server), [SEARCH])
    agent.invoke(ASKED, config())
    agent.invoke(ASKED, config(), context=Context(exclude_tools=("web_search",)))
    agent.invoke(ASKED, config(), context=Context(only_tools=("read_file",)))
    assert [SEARCH in request.body["tools"] for request in server.requests] == [True, False, False]


def test_a_call_that_the_provider_made_is_no_call_of_ours(server: OpenAIServer, workspace: Path) -> None:
    server.answers.append(Completion("found it", [Call("web_search", {"query": "x"}, "call_1")]))
    done = agent_of(workspace, chat(server), [SEARCH]).invoke(ASKED, config())
    assert done["answer"] == "found it"
    assert [each.type for each in done["messages"]] == ["human", "ai"]


@pytest.mark.slow  # it needs the packages of the providers
@pytest.mark.parametrize(
    ("provider", "tool", "sent"),
    [
        ("gemini", {"google_search": {}}, {"googleSearch": {}}),
        ("gemini", {"code_execution": {}}, {"codeExecution": {}}),
        ("anthropic", SEARCH_OF_ANTHROPIC, SEARCH_OF_ANTHROPIC),
    ],
)
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: model.with_retry()])
def test_a_tool_of_each_provider_is_sent_beside_ours(
    workspace: Path, provider: str, tool: Any, sent: Any, wrap: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """`Cannot generate a JsonSchema for core_schema.CallableSchema`, said Gemini's package."""
    with strict_server(provider) as server:
        server.replies.append(Completion(calls=[Call("price", {"item": "tea"}, "a")]))
        agent = agent_of(workspace, wrap(server.model()), [tool, price])
        assert agent.invoke(ASKED, config())["answer"] == "tea: 7"
        (request,) = server.requests
    assert server.faults == []
    assert sent in request["tools"]
    assert '"read_file"' in json.dumps(request["tools"])
    assert [each.message for each in caplog.records if "is not supported in schema" in each.message] == []


def test_models_of_this_process_are_not_offered_what_a_provider_runs(workspace: Path) -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}, {"google_search": {}}]
    assert agent_of(workspace, ["done"], tools).invoke(ASKED, config())["answer"] == "done"


def test_the_result_of_a_direct_tool_is_the_answer(workspace: Path) -> None:
    replies: list[Any] = [calls(call("price", item="tea")), "never", "not asked"]
    agent = agent_of(workspace, replies, [price])
    done = agent.invoke(ASKED, config())
    assert (done["answer"], done["messages"][-1].type) == ("tea: 7", "tool")
    assert done["usage"]["this_turn"]["model_calls"] == 1
    assert agent.get_state(config()).next == ()


def test_the_next_turn_goes_on_after_a_direct_answer(server: OpenAIServer, workspace: Path) -> None:
    server.answers.extend([Completion(calls=[Call("price", {"item": "tea"}, "a")]), Completion("again")])
    agent = agent_of(workspace, chat(server), [price])
    assert agent.invoke(ASKED, config())["answer"] == "tea: 7"
    assert agent.invoke(ASKED, config())["answer"] == "again"


@pytest.mark.parametrize("other", [call("price", item="nothing"), call("double", number=1)])
def test_a_direct_tool_that_failed_or_had_company_is_the_models_to_answer(
    workspace: Path, other: dict[str, Any]
) -> None:
    agent = agent_of(workspace, [calls(call("price", item="tea"), other), "done"], [price, double])
    done = agent.invoke(ASKED, config())
    assert (done["answer"], isinstance(done["messages"][-1], AIMessage)) == ("done", True)


def _exits() -> str:
    """Report."""
    raise SystemExit(3)


def _cancels_itself() -> str:
    """Report."""
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("function", "is_coroutine"), [(_exits, False), (_cancels_itself, False), (_cancels_itself, True)]
)
async def test_a_tool_that_ends_itself_ends_neither_the_run_nor_the_event_loop(
    workspace: Path, function: Callable[[], str], is_coroutine: bool
) -> None:
    async def coroutine() -> str:
        return function()

    brought = {"coroutine": coroutine} if is_coroutine else {"func": function}
    report = StructuredTool.from_function(**brought, name="report", description="Report.")
    agent = agent_of(workspace, [calls(call("report")), "done"], [report])
    values = await agent.ainvoke(ASKED, config())
    (answer,) = [each for each in values["messages"] if isinstance(each, ToolMessage)]
    assert answer.text.startswith("Outcome unknown: report ended with ")
    assert (answer.status, values["answer"]) == ("error", "done")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (Command(), "report returned, and said nothing."),
        (Command(goto="decide"), "report returned, and said nothing."),
        (ToolMessage("42 rows", tool_call_id="another"), "42 rows"),
    ],
)
def test_every_call_has_an_answer_whatever_its_tool_returns(
    workspace: Path, server: OpenAIServer, returned: Any, said: str
) -> None:
    """Providers refuse an open call, and the next turn would say that it never ran."""
    report = StructuredTool.from_function(lambda: returned, name="report", description="Report.")
    server.answers += [Completion(calls=[Call("report", {}, "c1")]), Completion("done"), Completion("yes")]
    model = ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr(KEY), max_retries=0)
    agent = agent_of(workspace, model, [report])
    agent.invoke(ASKED, config())
    assert agent.invoke({"messages": [("user", "and?")]}, config())["answer"] == "yes"
    for request in server.requests[1:]:
        sent = [each for each in request.body["messages"] if each["role"] == "tool"]
        assert [(each["tool_call_id"], each["content"]) for each in sent] == [("c1", said)]
