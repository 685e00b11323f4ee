"""Streams of Responses, Anthropic and Gemini that break off: nothing runs, and the model is asked again."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from langchain_core.language_models import BaseChatModel

from skills_agent.nodes.model_errors import ModelCallError
from tests.agents import FREE
from tests.http_servers import Requests, served
from tests.kit import MakeAgent
from tests.strict_providers import KEY, PROVIDERS

# Of Gemini's package.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

GO: Any = {"messages": [("user", "go")]}
ARGS: Final = {"path": "notes.md", "content": "a new text of some length", "overwrite": True}
TEXT: Final = json.dumps(ARGS)
Events = list[dict[str, Any]]


@dataclass
class Streams:
    """A server that sends what is queued, one stream a request, and then the last one for ever."""

    url: str
    streams: deque[bytes] = field(default_factory=deque)
    requests: int = 0


class _Streaming(Requests):
    def respond(self) -> None:
        self.body()
        self.state.requests += 1
        streams = self.state.streams
        self.answer(200, streams.popleft() if len(streams) > 1 else streams[0], "text/event-stream")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelCallError, "wait", 0.01)


@pytest.fixture
def server() -> Iterator[Streams]:
    with served(_Streaming, Streams) as state:
        yield state


class Protocol(NamedTuple):
    """A provider's package, and how its provider writes a call of write_file, a text and an error."""

    model: Callable[[str], BaseChatModel]
    call: Events
    text: Events
    failure: dict[str, Any]


def _responses(url: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - a package takes a second

    return ChatOpenAI(model="m", base_url=url, api_key=KEY, max_retries=0, use_responses_api=True)


_EMPTY: Final[dict[str, dict[str, Any]]] = {"function_call": {"arguments": ""}, "message": {"content": []}}


def _response(item: dict[str, Any], *pieces: dict[str, Any]) -> Events:
    base: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "in_progress"}
    events: Events = [
        {"type": "response.created", "response": base},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, **_EMPTY[item["type"]]}},
        *({**each, "output_index": 0, "item_id": item["id"]} for each in pieces),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**base, "status": "completed", "output": [item]}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _message(block: dict[str, Any], delta: dict[str, Any], stop: str) -> Events:
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    message |= {"content": [], "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def _candidates(*parts: dict[str, Any]) -> Events:
    events: Events = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    return events


_ITEM: Final = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "write_file"}
_OUTPUT: Final = {"type": "output_text", "text": "Done.", "annotations": []}
PROTOCOLS: Final = {
    "responses": Protocol(
        _responses,
        _response(
            {**_ITEM, "arguments": TEXT}, {"type": "response.function_call_arguments.delta", "delta": TEXT}
        ),
        _response(
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [_OUTPUT]},
            {"type": "response.output_text.delta", "content_index": 0, "delta": "Done.", "logprobs": []},
        ),
        {"type": "error", "code": "server_error", "message": "Overloaded", "param": None},
    ),
    "anthropic": Protocol(
        PROVIDERS["anthropic"].model,
        _message(
            {"type": "tool_use", "id": "c1", "name": "write_file", "input": {}},
            {"type": "input_json_delta", "partial_json": TEXT},
            "tool_use",
        ),
        _message({"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}, "end_turn"),
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ),
    "gemini": Protocol(
        PROVIDERS["gemini"].model,
        _candidates({"functionCall": {"name": "write_file", "args": ARGS}}, {"text": " "}),
        _candidates({"text": "Done."}),
        {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}},
    ),
}


def encoded(events: Events) -> bytes:
    """Return events as they are sent: with their type as the name, where they have one."""
    names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    return "".join(
        f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)
    ).encode()


def _nothing(_: Protocol) -> bytes:
    return b""


def _half_of_the_call(protocol: Protocol) -> bytes:
    body = encoded(protocol.call)
    return body[: body.index(b"some length")]


def _no_end(protocol: Protocol) -> bytes:
    kept = [event for event in protocol.call if "finishReason" not in json.dumps(event)]
    return encoded(kept[:4])  # Of Anthropic's: the call is whole.


def _error_after_the_call(protocol: Protocol) -> bytes:
    return _no_end(protocol) + encoded([protocol.failure])


def _whole(protocol: Protocol) -> bytes:
    """Else the others would show nothing."""
    return encoded(protocol.call)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [_nothing, _half_of_the_call, _no_end, _error_after_the_call, _whole])
@pytest.mark.parametrize("name", PROTOCOLS)
async def test_a_stream_that_breaks_off_runs_nothing_and_is_asked_for_again(
    make_agent: MakeAgent, server: Streams, workspace: Path, name: str, sent: Callable[[Protocol], bytes]
) -> None:
    protocol = PROTOCOLS[name]
    (workspace / "notes.md").write_text("old")
    server.streams.extend([sent(protocol), encoded(protocol.text)])
    agent = make_agent(protocol.model(server.url), **FREE)
    _ = [part async for part in agent.graph.astream(GO, agent.config, stream_mode="messages")]
    assert (agent.values["answer"], server.requests) == ("Done.", 2)
    assert (workspace / "notes.md").read_text() == (ARGS["content"] if sent is _whole else "old")
