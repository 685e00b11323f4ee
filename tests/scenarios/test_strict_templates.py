"""Servers whose chat templates refuse what others take: over HTTP, with what they say of it."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from skills_agent.nodes.model_errors import ModelCallError, calling
from tests.agents import write_skill
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.openai_server import KEY, Answer, Call, Completion, OpenAIServer, error
from tests.strict_templates import ALTERNATE, FAMILIES, NO_TOOLS, without_tools

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
def strict(request: pytest.FixtureRequest, server: OpenAIServer, skills_dir: Path) -> StrictServer:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n")
    return StrictServer(server, request.param)


def test_a_thread_goes_on_behind_every_template(strict: StrictServer, make_agent: MakeAgent) -> None:
    agent = make_agent("openai:m")
    strict.replies += [LOAD, WRITE]
    brought = [AIMessage("Hello."), HumanMessage("I am Ada.", name="Ada"), HumanMessage("Count.")]
    waiting = agent.run({"messages": [SystemMessage("Be kind."), *brought]})
    assert waiting["__interrupt__"]
    # The question is left open: what the person says comes right after a result.
    said = [HumanMessage([{"type": "text", "text": "Never mind."}]), SystemMessage("Be brief.")]
    assert agent.run({"messages": said})["answer"] == "Well."
    refused = list(strict.refusals)
    assert len(refused) == len({*refused}) <= 1
    assert agent.say("/alpha red ones")["answer"] == "Well."
    agent.config = {"configurable": {"thread_id": "2"}}
    assert agent.say("Hello.")["answer"] == "Well."
    assert strict.refusals == refused


def test_a_hosts_model_goes_on_behind_them_too(strict: StrictServer, make_agent: MakeAgent) -> None:
    """But for content that is null beside calls, which is what the package of OpenAI makes of no text."""
    agent = make_agent(strict.http.chat())
    strict.replies += [LOAD._replace(text="I load it."), WRITE]
    assert agent.say("Count.")["__interrupt__"]
    assert agent.say("Never mind.")["answer"] == "Well."
    assert len(strict.refusals) == len({each[:20] for each in strict.refusals})


def test_a_system_message_may_head_the_first_one(server: OpenAIServer, make_agent: MakeAgent) -> None:
    strict = StrictServer(server, "gemma")
    assert make_agent(server.chat()).say("Hello.")["answer"] == "Well."
    refused, taken = (request.body["messages"] for request in server.requests)
    assert len(strict.refusals) == 1
    assert [each["role"] for each in taken] == ["user"]
    assert taken[0]["content"] == f"{refused[0]['content']}\n\nThe user:\n\nHello."


def test_what_is_refused_again_is_one_sentence(server: OpenAIServer, make_agent: MakeAgent) -> None:
    server.respond = lambda _: error(400, ALTERNATE)
    with pytest.raises(ModelCallError, match="--chat-template") as caught:
        make_agent(server.chat()).say("Count.")
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
    model = server.chat()
    for words, status in itertools.product(SAID[part], (400, 500, 429)):
        server.answers.append(error(status, words))
        with pytest.raises(ModelCallError) as caught, calling("m"):
            model.invoke("Hello.")
        said = "" if status == 429 else part
        assert (words, caught.value.refused) == (words, said)
