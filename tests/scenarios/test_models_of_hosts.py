"""Models that a host brings: by name, and inside other Runnables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph import Context
from skills_agent.graph.models.provider import resolve_model
from skills_agent.nodes.model_errors import ModelError
from tests.agents import FREE, Agent
from tests.kit import MakeAgent
from tests.openai_server import KEY, Call, Completion, Cut, OpenAIServer, error

ASKED: Any = {"messages": [("user", "go")]}


def with_retry(server: OpenAIServer) -> Any:
    return server.chat().with_retry(stop_after_attempt=2, wait_exponential_jitter=False)


def with_fallbacks(server: OpenAIServer) -> Any:
    return server.chat().with_fallbacks([server.chat("second").bind(temperature=0.5)])


@pytest.mark.parametrize("wrap", [with_retry, with_fallbacks])
async def test_what_is_around_a_model_stays_and_the_tools_are_bound_inside(
    server: OpenAIServer, make_agent: MakeAgent, wrap: Callable[[OpenAIServer], Any]
) -> None:
    agent = make_agent(wrap(server))
    server.answers.extend([error(500, "down"), Completion("done")] * 2)
    assert agent.run(ASKED)["answer"] == "done"
    assert (await agent.graph.ainvoke(ASKED, agent.config))["answer"] == "done"
    bodies = [request.body for request in server.requests]
    assert [len(body["tools"]) > 1 for body in bodies] == [True] * 4
    names = ["m", "m"] if wrap is with_retry else ["m", "second"]
    assert [body["model"] for body in bodies] == names * 2
    temperatures = [body.get("temperature") for body in bodies]
    assert temperatures == ([None] * 4 if wrap is with_retry else [None, 0.5] * 2)


@pytest.mark.parametrize("call_id", ["call_0", ""])
def test_the_call_of_a_model_that_broke_off_is_not_run_in_place_of_that_of_its_fallback(
    server: OpenAIServer, make_agent: MakeAgent, workspace: Path, call_id: str
) -> None:
    """Servers count their calls from 0: the ids of both may be the same."""

    def write(name: str) -> Completion:
        return Completion("I write.", [Call("write_file", {"path": name, "content": name}, call_id)])

    server.answers.extend([Cut(write("lost"), -600, "chunked"), write("kept"), Completion("done")])
    agent = make_agent(with_fallbacks(server), **FREE)
    parts: Any = list(agent.graph.stream(ASKED, agent.config, stream_mode=["messages", "custom"]))
    assert [path.name for path in workspace.iterdir() if path.is_file()] == ["kept"]
    events = [part for mode, part in parts if mode == "custom"]
    (withdrawn,) = [each for each in events if each["type"] == "skills_agent.reply_withdrawn"]
    shown = {part[0].id for mode, part in parts if mode == "messages" and "write." in part[0].text}
    assert (withdrawn["message_id"] in shown, len(shown)) == (True, 2)


def test_what_was_bound_is_sent_with_the_tools(server: OpenAIServer, make_agent: MakeAgent) -> None:
    server.answers.append(Completion("done"))
    assert make_agent(server.chat().bind(seed=7)).say("go")["answer"] == "done"
    (request,) = server.requests
    assert (request.body["seed"], bool(request.body["tools"])) == (7, True)


def test_the_smallest_window_of_several_models_holds(server: OpenAIServer, make_agent: MakeAgent) -> None:
    """A prompt must fit into whichever of them is asked."""
    small = server.chat("small", profile={"max_input_tokens": 2_000})
    model = server.chat(profile={"max_input_tokens": 200_000}).with_retry().with_fallbacks([small])
    done = make_agent(model).say("word " * 10_000)
    assert "ChatOpenAI" in done["answer"]
    assert "2,000" in done["answer"]
    assert server.requests == []


def test_a_name_is_a_model_of_the_settings(server: OpenAIServer, make_agent: MakeAgent) -> None:
    server.respond = lambda body: Completion(body["model"])

    def answer(agent: Agent, model: str | None = None) -> Any:
        return agent.say("go", context=Context(model=model))["answer"]

    agent = make_agent("openai:first", allowed_models=("openai:second",))
    # Studio's picker writes a slash.
    models = (None, "openai:second", "openai/second")
    assert [answer(agent, each) for each in models] == ["first", "second", "second"]
    by_picker = make_agent("openai/first", allowed_models=("openai/*",), thread="other")
    others = ("openai:other/name", "openai/x/name:8b", None)
    assert [answer(by_picker, each) for each in others] == ["other/name", "x/name:8b", "first"]
    with pytest.raises(ModelError, match="Allowed beside the operator's: openai:second") as refused:
        answer(agent, "openai:third")
    assert refused.value.code == "model-not-allowed"


@pytest.mark.slow
def test_a_provider_is_known_by_its_name_or_said_to_be_unknown_without_the_key() -> None:
    with pytest.raises(ModelError, match="nobody:x cannot be used: Unsupported"):
        resolve_model("nobody:x", environment={})
    with pytest.raises(ModelError, match="langchain-upstage"):
        resolve_model("upstage:x", environment={})
    pytest.importorskip("langchain_anthropic")
    parameters: dict[str, Any] = {"max_tokens": 7, "api_key": KEY}
    model: Any = resolve_model("anthropic:claude-x", environment={}, parameters=parameters)
    assert (type(model).__name__, model.model, model.max_tokens) == ("ChatAnthropic", "claude-x", 7)
    with pytest.raises(ModelError, match="temperature Input should be a valid number") as refused:
        resolve_model("anthropic:claude-x", environment={}, parameters={**parameters, "temperature": "hot"})
    assert KEY not in str(refused.value)
