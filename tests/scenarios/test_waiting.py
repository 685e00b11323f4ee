"""A model that lets one wait, or that cannot be had for now: clients see it while it happens."""

import socket
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from skills_agent.nodes import model_errors as errors
from skills_agent.nodes import timeouts
from skills_agent.nodes.model_errors import ModelCallError
from tests.kit import MakeAgent
from tests.openai_server import KEY, Answer, Completion, OpenAIServer, error, openai_server
from tests.waiting import PATIENCE

ASKED: Any = {"messages": [HumanMessage("Hello.")]}
BUSY = error(503, "Loading.", ("retry-after-ms", "5"))


def after(seconds: float, may_end: Event | None = None) -> Callable[[Any], Answer]:
    """Answer after so many seconds, or when it may."""

    def respond(_: Any) -> Answer:
        (may_end or Event()).wait(seconds)
        return Completion("Here.")

    return respond


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_long_wait_is_told_while_it_lasts(
    server: OpenAIServer, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr(timeouts, "BEAT_SECONDS", 0.05)
    told, was_told = [], Event()

    def tell(event: Any) -> None:
        if event["type"] == "skills_agent.model_awaited":
            told.append((event["model"], event["node"]))
        if len(told) == 2:
            was_told.set()

    server.respond = after(PATIENCE, was_told)
    agent = make_agent("openai:slow")
    if is_async:
        async for part in agent.graph.astream(ASKED, agent.config, stream_mode="custom"):
            tell(part)
    else:
        for part in agent.graph.stream(ASKED, agent.config, stream_mode="custom"):
            tell(part)
    assert {*told} == {(f"openai:slow at {server.base_url.removesuffix('/v1')}", "decide")}
    assert agent.values["answer"] == "Here."


async def test_no_time_limit_of_a_stream_is_shorter_than_the_clients(
    server: OpenAIServer, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """langchain-openai has one of 120 s for what it streams asynchronously."""
    monkeypatch.setenv("LANGCHAIN_OPENAI_STREAM_CHUNK_TIMEOUT_S", "0.1")
    server.respond = after(0.4)
    agent = make_agent("openai:slow")
    assert "Here." in str([part async for part in agent.graph.astream(ASKED, agent.config)])
    assert len(server.requests) == 1


def test_what_takes_too_long_is_not_paid_again(server: OpenAIServer, make_agent: MakeAgent) -> None:
    may_end = Event()
    server.respond = after(PATIENCE, may_end)
    with pytest.raises(ModelCallError, match="no answer in time"):
        make_agent("openai:slow", model_parameters={"timeout": 0.3}).say("Hello.")
    assert len(server.requests) == 1
    may_end.set()


@pytest.mark.parametrize("trouble", [BUSY, error(429, "Slow down.", ("retry-after", "0"))])
def test_what_can_pass_is_asked_once_more(
    server: OpenAIServer, make_agent: MakeAgent, trouble: Answer
) -> None:
    server.answers += [trouble, Completion("Here.")]
    agent = make_agent("openai:slow")
    events = agent.graph.stream(ASKED, agent.config, stream_mode="custom")
    (told,) = [each for each in events if each["type"] == "skills_agent.reply_withdrawn"]
    assert 0 <= told["wait"] < 0.01
    assert server.base_url.split("/")[2] in told["reason"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("trouble", "requests"),
    [
        (BUSY, 2),
        (error(503, "Come back tomorrow.", ("retry-after", "86400")), 1),
        (error(400, "Bad field."), 1),
    ],
)
def test_it_is_asked_for_once_more_and_no_oftener(
    server: OpenAIServer, make_agent: MakeAgent, trouble: Answer, requests: int
) -> None:
    server.respond = lambda _: trouble
    with pytest.raises(ModelCallError):
        make_agent("openai:slow").say("Hello.")
    assert len(server.requests) == requests


def test_a_server_that_comes_up_is_reached(make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "RETRY_WAIT", 0.3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent = make_agent("openai:slow")
    stream: Any = agent.graph.stream(ASKED, agent.config, stream_mode="custom")
    told = next(each for each in stream if each["type"] == "skills_agent.reply_withdrawn")
    assert (told["wait"], "cannot be reached" in told["reason"]) == (0.3, True)
    with openai_server(port) as server:
        server.answers.append(Completion("Here."))
        list(stream)
    assert agent.values["answer"] == "Here."
