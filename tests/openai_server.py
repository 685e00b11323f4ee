"""A real HTTP server on loopback that speaks the OpenAI chat-completions protocol, from the standard library.

A test queues what the server answers, one entry a request, and reads back what it was asked.
"""

import json
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tests.http_servers import Requests, served

KEY = "loopback-key"
HEAD: dict[str, Any] = {"id": "chatcmpl-1", "created": 1, "model": "loopback"}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Call(NamedTuple):
    """A tool call that the model makes."""

    name: str
    args: dict[str, Any] | str
    """A text is sent as it is."""
    id: str

    @property
    def arguments(self) -> str:
        """Return the arguments as text."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


class Completion(NamedTuple):
    """An answer, sent whole or as a stream of events, as the request wants it."""

    text: str = ""
    calls: Sequence[Call] = ()
    finish: str | None = ""
    """The finish reason; empty: the proper one, None: none at all."""
    refusal: str = ""


class Cut(NamedTuple):
    """An answer of which only a part is sent, before the connection ends."""

    completion: Completion
    end: int
    """Of the part, as in `body[:end]`."""
    framing: Literal["close", "length", "chunked", "reset"] = "close"
    """How the client could see that more was to come: `close` tells it nothing."""


class Raw(NamedTuple):
    """An answer as bytes: errors and garbage."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Sequence[tuple[str, str]] = ()


Answer = Completion | Cut | Raw


class Request(NamedTuple):
    """A request that came in."""

    path: str
    authorization: str
    body: dict[str, Any]


def error(status: int, message: str, *headers: tuple[str, str]) -> Raw:
    """Return an error as the protocol writes it."""
    return Raw(status, json.dumps({"error": {"message": message, "type": "test"}}).encode(), headers=headers)


@dataclass
class OpenAIServer:
    """The server, as a test sees it."""

    base_url: str
    answers: deque[Answer] = field(default_factory=deque)
    """What the next requests get; an empty queue is answered by `respond`, else with status 500."""
    respond: Callable[[dict[str, Any]], Answer] | None = None
    """Makes the answers instead, from the body of a request, where nothing is queued."""
    requests: list[Request] = field(default_factory=list)
    keeps_alive: bool = False
    """Whether a connection serves more than one request, as those of real servers do."""

    def chat(self, name: str = "m", **fields: Any) -> Any:
        """Return a host's own model that asks this server."""
        from langchain_openai import ChatOpenAI  # noqa: PLC0415 - it takes a second

        return ChatOpenAI(model=name, base_url=self.base_url, api_key=KEY, **{"max_retries": 0, **fields})  # type: ignore[arg-type]


def openai_server(port: int = 0) -> AbstractContextManager[OpenAIServer]:
    """Serve chat completions until the block ends."""
    return served(_ChatCompletions, lambda address: OpenAIServer(f"{address}/v1"), port)


class _ChatCompletions(Requests):
    def setup(self) -> None:
        super().setup()
        if self.state.keeps_alive:
            self.protocol_version = "HTTP/1.1"

    def respond(self) -> None:
        state: OpenAIServer = self.state
        body = json.loads(self.body())
        authorization = self.headers.get("Authorization", "")
        state.requests.append(Request(self.path, authorization, body))
        if authorization != f"Bearer {KEY}":
            self._send(error(401, "Incorrect API key provided."))
            return
        if state.answers:
            answer = state.answers.popleft()
        else:
            answer = state.respond(body) if state.respond else error(500, "Nothing is queued.")
        match answer:
            case Raw():
                self._send(answer)
            case Completion():
                self._send(_encode(answer, body))
            case Cut(completion, end, framing):
                self._send_part(_encode(completion, body), end, framing)

    def _send(self, answer: Raw) -> None:
        self.answer(answer.status, answer.body, answer.content_type, **dict(answer.headers))

    def _send_part(self, answer: Raw, end: int, framing: str) -> None:
        if framing == "chunked":
            self.protocol_version = "HTTP/1.1"
        part = answer.body[:end]
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        if framing == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            part = f"{len(part):x}\r\n".encode() + part + b"\r\n"
        elif framing == "length":
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(part)
        self.close_connection = True
        if framing == "reset":
            self.wfile.flush()
            time.sleep(0.1)  # What was sent is thrown away where the other side has not read it by then.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


def _encode(answer: Completion, body: dict[str, Any]) -> Raw:
    if not body.get("stream"):
        return Raw(200, json.dumps(_whole(answer)).encode())
    events = [*_events(answer, bool((body.get("stream_options") or {}).get("include_usage")))]
    text = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return Raw(200, f"{text}data: [DONE]\n\n".encode(), "text/event-stream")


def _whole(answer: Completion) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [call_of(call, call.arguments) for call in answer.calls]
    if answer.refusal:
        message["refusal"] = answer.refusal
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}


def _events(answer: Completion, usage: bool) -> Iterator[dict[str, Any]]:
    """Yield text word by word, and the arguments of every call in two pieces, calls in turns."""
    yield _event({"role": "assistant", "content": ""})
    for word in answer.text.split(" "):
        yield _event({"content": word if word == answer.text.split(" ")[0] else f" {word}"})
    for index, call in enumerate(answer.calls):
        yield _event({"tool_calls": [{"index": index, **call_of(call, "")}]})
    for half in (0, 1):
        for index, call in enumerate(answer.calls):
            text = call.arguments
            middle = len(text) // 2
            piece = text[middle:] if half else text[:middle]
            yield _event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for word in answer.refusal.split():
        yield _event({"refusal": f"{word} "})
    if finish := _finish(answer):
        yield _event({}, finish)
    if usage:
        yield {**_event({}), "choices": [], "usage": USAGE}


def _event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def call_of(call: Call, arguments: str) -> dict[str, Any]:
    """Return a call as the protocol writes it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _finish(answer: Completion) -> str | None:
    if answer.finish == "":
        return "tool_calls" if answer.calls else "stop"
    return answer.finish


def assert_calls_are_answered(body: dict[str, Any]) -> None:
    """Assert that each call of a prompt is followed by its results, as providers want it."""
    waiting: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
        waiting |= {call["id"] for call in message.get("tool_calls") or []}
    assert not waiting
