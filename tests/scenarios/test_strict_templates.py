"""Servers whose chat templates refuse what others take: over HTTP, with what they say of it."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from skills_agent.graph import Settings, build_graph
from skills_agent.nodes.model_errors import ModelCallError, calling
from tests.agents import write_skill
from tests.graph.cli.command_line import CommandLine
from tests.openai_server import KEY, Answer, Call, Completion, OpenAIServer, error
from tests.strict_templates import ALTERNATE, FAMILIES, NO_TOOLS, without_tools

CONFIG: Any = {"configurable": {"thread_id": "1"}}
LOAD = Completion(calls=[Call("load_skill", {"name": "alpha"}, "call_0")])
WRITE = Completion("I write.", [Call("write_file", {"path": "a.txt", "content": "x"}, "call_1")])


class StrictServer:
    """A server with the chat template of one family, as a test sees it."""

    def __init__(self, server: OpenAIServer, family: str) -> None:
        self.http = server
        self.replies: list[Completion] = []
        self.refusals: list[str] = []
        server.respond = lambda body: self._respond(body, family)

    def _respond(self, body: dict[str, Any], family: str) -> Answer:
        if fault := next(FAMILIES[family](body), ""):
            self.refusals.append(fault)
            return error(400, fault)
        return self.replies.pop(0) if self.replies else Completion("Well.")


@pytest.fixture(params=FAMILIES)
def strict(request: pytest.FixtureRequest, server: OpenAIServer) -> StrictServer:
    return StrictServer(server, request.param)


@pytest.fixture
def place(workspace: Path, skills_dir: Path) -> Path:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n")
    return workspace


def graph_of(place: Path, model: Any = None) -> Any:
    made = Settings(workspace=place, home=place, bundled_skills=False, model="openai:m")
    return build_graph(made, model=model).compile(InMemorySaver())


def host_model(server: OpenAIServer) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr(KEY), max_retries=0)


def test_a_thread_goes_on_behind_every_template(strict: StrictServer, place: Path) -> None:
    graph = graph_of(place)
    strict.replies += [LOAD, WRITE]
    brought = [AIMessage("Hello."), HumanMessage("I am Ada.", name="Ada"), HumanMessage("Count.")]
    waiting = graph.invoke({"messages": [SystemMessage("Be kind."), *brought]}, CONFIG)
    assert waiting["__interrupt__"]
    # The question is left open: what the person says comes right after a result.
    said = [HumanMessage([{"type": "text", "text": "Never mind."}]), SystemMessage("Be brief.")]
    assert graph.invoke({"messages": said}, CONFIG)["answer"] == "Well."
    refused = list(strict.refusals)
    assert len(refused) == len({*refused}) <= 1
    assert graph.invoke({"messages": [HumanMessage("/alpha red ones")]}, CONFIG)["answer"] == "Well."
    other: Any = {"configurable": {"thread_id": "2"}}
    assert graph.invoke({"messages": [HumanMessage("Hello.")]}, other)["answer"] == "Well."
    assert strict.refusals == refused


def test_a_hosts_model_goes_on_behind_them_too(strict: StrictServer, place: Path) -> None:
    """But for content that is null beside calls, which is what the package of OpenAI makes of no text."""
    graph = graph_of(place, host_model(strict.http))
    load = Completion("I load it.", [Call("load_skill", {"name": "alpha"}, "call_0")])
    strict.replies += [load, WRITE]
    assert graph.invoke({"messages": [HumanMessage("Count.")]}, CONFIG)["__interrupt__"]
    assert graph.invoke({"messages": [HumanMessage("Never mind.")]}, CONFIG)["answer"] == "Well."
    assert len(strict.refusals) == len({each[:20] for each in strict.refusals})


def test_the_system_message_is_the_head_of_the_first_message_where_no_role_is_known(
    place: Path, server: OpenAIServer
) -> None:
    strict = StrictServer(server, "gemma")
    graph = graph_of(place, host_model(server))
    assert graph.invoke({"messages": [HumanMessage("Hello.")]}, CONFIG)["answer"] == "Well."
    refused, taken = (request.body["messages"] for request in server.requests)
    assert len(strict.refusals) == 1
    assert [each["role"] for each in taken] == ["user"]
    assert taken[0]["content"] == f"{refused[0]['content']}\n\nThe user:\n\nHello."


def test_what_is_refused_again_is_one_sentence_with_what_helps(place: Path, server: OpenAIServer) -> None:
    server.respond = lambda _: error(400, ALTERNATE)
    with pytest.raises(ModelCallError, match="--chat-template") as caught:
        graph_of(place, host_model(server)).invoke({"messages": [HumanMessage("Count.")]}, CONFIG)
    assert len(server.requests) == 2
    assert "\n" not in str(caught.value)


def test_a_template_without_tools_is_told_with_what_helps(cli: CommandLine, server: OpenAIServer) -> None:
    server.respond = lambda body: error(400, next(without_tools(body), "no tools at all"))
    address = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY}
    done = cli.run("ask", "Hello.", "--model", "openai:m", **address)
    assert (done.code, len(server.requests)) == (1, 1)
    assert "takes no tools" in done.errors
    assert "--jinja" in done.errors


SAID = {
    "system": [
        "System role not supported",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Only user and assistant roles are supported!",
        'Error rendering prompt with jinja template: "System role not supported".',
    ],
    "roles": [
        ALTERNATE,
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Jinja Exception: conversation roles must alternate user/assistant/user/assistant/...",
        "Unexpected role 'user' after role 'tool'",
        "user or tool message(s) should alternate with assistant message(s).",
    ],
    "ids": [
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "Tool call IDs should be alphanumeric strings with length 9!",
    ],
    "tools": [
        NO_TOOLS,
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tools param requires --jinja flag",
        "Unsupported param: tools",
        "No endpoints found that support tool use. Try disabling one.",
        "Function calling is not enabled for models/gemma-3-27b-it",
        "`tool calling` is not supported with this model",
    ],
    "": ["Bad field.", "The model `x` does not exist.", "This prompt is too long for the system."],
}


@pytest.mark.parametrize("part", SAID)
def test_what_servers_say_is_understood(part: str, server: OpenAIServer) -> None:
    model = host_model(server)
    for words, status in itertools.product(SAID[part], (400, 500, 429)):
        server.answers.append(error(status, words))
        with pytest.raises(ModelCallError) as caught, calling("m"):
            model.invoke("Hello.")
        said = "" if status == 429 else part
        assert (words, caught.value.refused) == (words, said)
