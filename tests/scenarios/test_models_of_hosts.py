"""Models that a host brings: by name, and inside other Runnables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import ConfigurableField, Runnable, RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from skills_agent.graph import Context, Settings, build_graph
from skills_agent.graph.models.provider import resolve_model
from skills_agent.graph.settings import SettingsError
from skills_agent.nodes.model_errors import ModelError
from tests.openai_server import KEY, Call, Completion, Cut, OpenAIServer, error

ASKED: Any = {"messages": [("user", "go")]}


def chat(server: OpenAIServer, name: str = "first", **fields: Any) -> ChatOpenAI:
    key = SecretStr(KEY)
    return ChatOpenAI(model=name, base_url=server.base_url, api_key=key, max_retries=0, **fields)


def agent_of(workspace: Path, model: Any, tools: Any = (), **settings: Any) -> Any:
    chosen = Settings(workspace=workspace, home=workspace, bundled_skills=False, **settings)
    return build_graph(chosen, model=model, tools=tools).compile()


def with_retry(server: OpenAIServer) -> Runnable[Any, Any]:
    return chat(server).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)


def with_fallbacks(server: OpenAIServer) -> Runnable[Any, Any]:
    return chat(server).with_fallbacks([chat(server, "second").bind(temperature=0.5)])


@pytest.mark.parametrize("wrap", [with_retry, with_fallbacks])
async def test_what_is_around_a_model_stays_and_the_tools_are_bound_inside(
    server: OpenAIServer, workspace: Path, wrap: Callable[[OpenAIServer], Runnable[Any, Any]]
) -> None:
    agent = agent_of(workspace, wrap(server))
    server.answers.extend([error(500, "down"), Completion("done")] * 2)
    assert agent.invoke(ASKED)["answer"] == "done"
    assert (await agent.ainvoke(ASKED))["answer"] == "done"
    bodies = [request.body for request in server.requests]
    assert [len(body["tools"]) > 1 for body in bodies] == [True] * 4
    names = ["first", "first"] if wrap is with_retry else ["first", "second"]
    assert [body["model"] for body in bodies] == names * 2
    temperatures = [body.get("temperature") for body in bodies]
    assert temperatures == ([None] * 4 if wrap is with_retry else [None, 0.5] * 2)


@pytest.mark.parametrize("call_id", ["call_0", ""])
def test_the_call_of_a_model_that_broke_off_is_not_run_in_place_of_that_of_its_fallback(
    server: OpenAIServer, workspace: Path, call_id: str
) -> None:
    """Servers count their calls from 0: the ids of both may be the same."""

    def write(name: str) -> Completion:
        return Completion("I write.", [Call("write_file", {"path": name, "content": name}, call_id)])

    server.answers.extend([Cut(write("lost"), -600, "chunked"), write("kept"), Completion("done")])
    agent = agent_of(workspace, with_fallbacks(server), require_approval_for=())
    parts = list(agent.stream(ASKED, stream_mode=["messages", "custom"]))
    assert [path.name for path in workspace.iterdir() if path.is_file()] == ["kept"]
    events = [part for mode, part in parts if mode == "custom"]
    (withdrawn,) = [each for each in events if each["type"] == "skills_agent.reply_withdrawn"]
    shown = {part[0].id for mode, part in parts if mode == "messages" and "write." in part[0].text}
    assert (withdrawn["message_id"] in shown, len(shown)) == (True, 2)


def test_what_was_bound_is_sent_with_the_tools(server: OpenAIServer, workspace: Path) -> None:
    server.answers.append(Completion("done"))
    agent = agent_of(workspace, chat(server).bind(seed=7))
    assert agent.invoke(ASKED)["answer"] == "done"
    (request,) = server.requests
    assert (request.body["seed"], bool(request.body["tools"])) == (7, True)


def test_the_smallest_window_of_several_models_holds(server: OpenAIServer, workspace: Path) -> None:
    """A prompt must fit into whichever of them is asked."""
    small = chat(server, "small", profile={"max_input_tokens": 2_000})
    model = chat(server, profile={"max_input_tokens": 200_000}).with_retry().with_fallbacks([small])
    done = agent_of(workspace, model).invoke({"messages": [("user", "word " * 10_000)]})
    assert "ChatOpenAI" in done["answer"]
    assert "2,000" in done["answer"]
    assert server.requests == []


PLAIN = chat(OpenAIServer("http://127.0.0.1:9/v1"))
CONFIGURED = PLAIN.configurable_fields(model_name=ConfigurableField("which"))


@pytest.mark.parametrize(
    "wrong",
    [
        RunnableLambda(str),
        lambda: 1,
        PLAIN | str,
        CONFIGURED,
        CONFIGURED.with_fallbacks([PLAIN]),
        PLAIN.with_fallbacks([CONFIGURED.with_retry()]),
    ],
)
def test_what_holds_no_model_is_refused(workspace: Path, wrong: Any) -> None:
    with pytest.raises(SettingsError, match="a Runnable around one"):
        agent_of(workspace, wrong)


def test_a_model_with_tools_of_its_own_is_refused(server: OpenAIServer, workspace: Path) -> None:
    with pytest.raises(SettingsError, match=r"build_graph\(tools="):
        agent_of(workspace, chat(server).bind_tools([{"type": "web_search"}]).with_retry())


def test_a_name_is_a_model_of_the_settings(
    server: OpenAIServer, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.respond = lambda body: Completion(body["model"])
    agent = agent_of(workspace, "openai:first", allowed_models=("openai:second",))
    assert agent.invoke(ASKED)["answer"] == "first"
    for second in ("openai:second", "openai/second"):  # Studio's picker writes a slash.
        assert agent.invoke(ASKED, context=Context(model=second))["answer"] == "second"
    by_picker = agent_of(workspace, "openai/first", allowed_models=("openai/*",))
    assert by_picker.invoke(ASKED, context=Context(model="openai:other/name"))["answer"] == "other/name"
    assert by_picker.invoke(ASKED, context=Context(model="openai/x/name:8b"))["answer"] == "x/name:8b"
    assert by_picker.invoke(ASKED)["answer"] == "first"
    with pytest.raises(ModelError, match="Allowed beside the operator's: openai:second") as refused:
        agent.invoke(ASKED, context=Context(model="openai:third"))
    assert refused.value.code == "model-not-allowed"


@pytest.mark.slow
def test_other_providers_are_known_by_their_names() -> None:
    pytest.importorskip("langchain_anthropic")
    parameters = {"max_tokens": 7, "api_key": KEY}
    model: Any = resolve_model("anthropic:claude-x", environment={}, parameters=parameters)
    assert (type(model).__name__, model.model, model.max_tokens) == ("ChatAnthropic", "claude-x", 7)


@pytest.mark.slow
def test_a_provider_that_is_unknown_or_not_installed_or_refuses_is_said_without_the_key() -> None:
    with pytest.raises(ModelError, match="nobody:x cannot be used: Unsupported"):
        resolve_model("nobody:x", environment={})
    with pytest.raises(ModelError, match="langchain-upstage"):
        resolve_model("upstage:x", environment={})
    pytest.importorskip("langchain_anthropic")
    parameters = {"temperature": "hot", "api_key": KEY}
    with pytest.raises(ModelError, match="temperature Input should be a valid number") as refused:
        resolve_model("anthropic:claude-x", environment={}, parameters=parameters)
    assert KEY not in str(refused.value)
