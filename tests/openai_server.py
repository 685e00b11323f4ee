"""A real HTTP server on loopback that speaks the OpenAI chat-completions protocol, from the standard library.

A test queues what the server answers, one entry a request, and reads back what it was asked.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

KEY = "loopback-key"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Call(NamedTuple):
    """A tool call that the model makes."""

    name: str
    args: dict[str, Any]
    id: str


class Completion(NamedTuple):
    """A proper answer, sent whole or as a stream of events, as the request wants it."""

    text: str = ""
    calls: Sequence[Call] = ()


class Raw(NamedTuple):
    """An answer as bytes: errors and garbage."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Sequence[tuple[str, str]] = ()


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
    answers: deque[Completion | Raw] = field(default_factory=deque)
    """What the next requests get; an empty queue is answered by `respond`, else with status 500."""
    respond: Callable[[dict[str, Any]], Completion | Raw] | None = None
    """Makes the answers instead, from the body of a request, where nothing is queued."""
    requests: list[Request] = field(default_factory=list)


@contextmanager
def openai_server() -> Iterator[OpenAIServer]:
    """Serve on a free port of loopback until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _ChatCompletions) as http:
        state = OpenAIServer(f"http://127.0.0.1:{http.server_address[1]}/v1")
        http.state = state  # type: ignore[attr-defined]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield state
        finally:
            http.shutdown()
            thread.join()


class _ChatCompletions(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        state: OpenAIServer = self.server.state  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        authorization = self.headers.get("Authorization", "")
        state.requests.append(Request(self.path, authorization, body))
        if authorization != f"Bearer {KEY}":
            self._send(error(401, "Incorrect API key provided."))
            return
        if state.answers:
            answer = state.answers.popleft()
        else:
            answer = state.respond(body) if state.respond else error(500, "Nothing is queued.")
        if isinstance(answer, Raw):
            self._send(answer)
        elif body.get("stream"):
            events = [*_events(answer, bool((body.get("stream_options") or {}).get("include_usage")))]
            text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
            self._send(Raw(200, text.encode(), "text/event-stream"))
        else:
            self._send(Raw(200, json.dumps(_whole(answer)).encode()))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing on stderr."""

    def _send(self, answer: Raw) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)


def _whole(answer: Completion) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [_call(call, json.dumps(call.args)) for call in answer.calls]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback",
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(answer)}],
        "usage": USAGE,
    }


def _events(answer: Completion, usage: bool) -> Iterator[dict[str, Any]]:
    """Yield text word by word, and the arguments of every call in two pieces, calls in turns."""
    yield _event({"role": "assistant", "content": ""})
    for word in answer.text.split(" "):
        yield _event({"content": word if word == answer.text.split(" ")[0] else f" {word}"})
    for index, call in enumerate(answer.calls):
        yield _event({"tool_calls": [{"index": index, **_call(call, "")}]})
    for half in (0, 1):
        for index, call in enumerate(answer.calls):
            text = json.dumps(call.args)
            middle = len(text) // 2
            piece = text[middle:] if half else text[:middle]
            yield _event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _event({}, _finish(answer))
    if usage:
        yield {**_event({}), "choices": [], "usage": USAGE}


def _event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "loopback",
        "choices": [choice],
    }


def _call(call: Call, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _finish(answer: Completion) -> str:
    return "tool_calls" if answer.calls else "stop"
