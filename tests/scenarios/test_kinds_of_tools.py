"""What a host may bring as a tool: functions, coroutines, tools that the provider runs, direct answers."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.types import Command

from skills_agent.graph import Context
from tests.agents import FREE, call, calls
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion, OpenAIServer
from tests.strict_providers import strict_server

ASKED: Any = {"messages": [("user", "go")]}
SEARCH = {"type": "web_search"}
SEARCH_OF_ANTHROPIC = {"type": "web_search_20250305", "name": "web_search"}


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


async def test_a_function_is_a_tool_and_a_coroutine_works_in_invoke_too(make_agent: MakeAgent) -> None:
    replies: list[Any] = [calls(call("double", number=4), call("fetch", number=3)), "done"]
    for is_async in (False, True):
        agent = make_agent(replies, tools=[double, fetch], **FREE)
        result = await agent.graph.ainvoke(ASKED, agent.config) if is_async else agent.run(ASKED)
        assert [each.text for each in result["messages"] if each.type == "tool"] == ["8", "fetched 3"]


def test_a_tool_that_the_provider_runs_is_not_called(server: OpenAIServer, make_agent: MakeAgent) -> None:
    server.answers.append(Completion("found it", [Call("web_search", {"query": "x"}, "call_1")]))
    server.respond = lambda _: Completion("done")
    agent = make_agent(server.chat(use_responses_api=False), tools=[SEARCH], approval="deny")
    result = agent.say("go")
    assert (result["answer"], [each.type for each in result["messages"]]) == ("found it", ["human", "ai"])
    agent.say("go", context=Context(exclude_tools=("web_search",)))
    agent.say("go", context=Context(only_tools=("read_file",)))
    assert [SEARCH in request.body["tools"] for request in server.requests] == [True, False, False]
    here = make_agent(["done"], tools=[SEARCH_OF_ANTHROPIC, {"google_search": {}}])
    assert here.say("go")["answer"] == "done"  # models of this process are not offered it


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
    make_agent: MakeAgent, provider: str, tool: Any, sent: Any, wrap: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """`Cannot generate a JsonSchema for core_schema.CallableSchema`, said Gemini's package."""
    with strict_server(provider) as server:
        server.replies.append(Completion(calls=[Call("price", {"item": "tea"}, "a")]))
        agent = make_agent(wrap(server.model()), tools=[tool, price], **FREE)
        assert agent.say("go")["answer"] == "tea: 7"
        (request,) = server.requests
    assert server.faults == []
    assert sent in request["tools"]
    assert '"read_file"' in json.dumps(request["tools"])
    assert [each.message for each in caplog.records if "is not supported in schema" in each.message] == []


def test_the_result_of_a_direct_tool_is_the_answer(server: OpenAIServer, make_agent: MakeAgent) -> None:
    server.answers.extend([Completion(calls=[Call("price", {"item": "tea"}, "a")]), Completion("again")])
    agent = make_agent(server.chat(), tools=[price], **FREE)
    done = agent.say("go")
    assert (done["answer"], done["messages"][-1].type) == ("tea: 7", "tool")
    assert (done["usage"]["this_turn"]["model_calls"], agent.state.next) == (1, ())
    assert agent.say("go")["answer"] == "again"


@pytest.mark.parametrize("other", [call("price", item="nothing"), call("double", number=1)])
def test_a_failed_direct_tool_leaves_it_to_the_model(make_agent: MakeAgent, other: dict[str, Any]) -> None:
    agent = make_agent([calls(call("price", item="tea"), other), "done"], tools=[price, double], **FREE)
    done = agent.say("go")
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
    make_agent: MakeAgent, function: Callable[[], str], is_coroutine: bool
) -> None:
    async def coroutine() -> str:
        return function()

    brought = {"coroutine": coroutine} if is_coroutine else {"func": function}
    report = StructuredTool.from_function(**brought, name="report", description="Report.")
    agent = make_agent([calls(call("report")), "done"], tools=[report], **FREE)
    assert (await agent.graph.ainvoke(ASKED, agent.config))["answer"] == "done"
    (answer,) = agent.tool_messages("report")
    assert answer.text.startswith("Outcome unknown: report ended with ")
    assert answer.status == "error"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (Command(), "report returned, and said nothing."),
        (Command(goto="decide"), "report returned, and said nothing."),
        (ToolMessage("42 rows", tool_call_id="another"), "42 rows"),
    ],
)
def test_every_call_has_an_answer_whatever_its_tool_returns(
    make_agent: MakeAgent, server: OpenAIServer, returned: Any, said: str
) -> None:
    """Providers refuse an open call, and the next turn would say that it never ran."""
    report = StructuredTool.from_function(lambda: returned, name="report", description="Report.")
    server.answers += [Completion(calls=[Call("report", {}, "c1")]), Completion("done"), Completion("yes")]
    agent = make_agent(server.chat(), tools=[report], **FREE)
    agent.say("go")
    assert agent.say("and?")["answer"] == "yes"
    for request in server.requests[1:]:
        sent = [each for each in request.body["messages"] if each["role"] == "tool"]
        assert [(each["tool_call_id"], each["content"]) for each in sent] == [("c1", said)]
