"""Any server that speaks the OpenAI chat-completions protocol: ChatOpenAI, with what it posts by replaced.

This module imports langchain-openai, which takes a second: import it where such a model is made.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from threading import Lock
from types import FunctionType, SimpleNamespace
from typing import Any, Final

import openai
from langchain_openai import ChatOpenAI
from typing_extensions import override

from skills_agent.nodes.model_errors import cause_of, incomplete, unreadable
from skills_agent.nodes.reply import NO_FINISH_REASON, strict_arguments
from skills_agent.state.call_ids import portable_id

_PATH: Final = "/chat/completions"
_LOCK: Final = Lock()
"""Each thread may have a loop."""
_CLIENTS_CODE: Final = os.path.join(os.path.dirname(openai.__file__), "")  # noqa: PTH118, PTH120 - a text
_OPTIONS: Final = {"extra_headers": "headers", "extra_query": "params", "timeout": "timeout"}
"""What ChatOpenAI passes on that is no part of a request's body, and what `post` calls it."""


def compatible_model(**fields: Any) -> ChatOpenAI:
    """Return a ChatOpenAI for every server that speaks the protocol, more or less.

    It asks for chat completions by `Completions`, but for answers in a form (`response_format`).
    """
    model = ChatOpenAI(**fields)
    client, async_client = model.root_client, model.root_async_client
    model.client = Completions(lambda: client)
    if model.http_async_client is None:  # Else it is the host's, or goes through OPENAI_PROXY.
        model.root_async_client = loops = LoopClients(async_client)
        model.async_client = AsyncCompletions(loops.here)
    else:
        model.async_client = AsyncCompletions(lambda: async_client)
    return model


class LoopClients:
    """Stands for OpenAI's asynchronous client: whatever is asked of it is asked of the running loop's.

    langchain-openai keeps one for a process, and a connection works only on the loop that opened it. A
    program that calls `asyncio.run` twice would get "Event loop is closed" the second time, from a
    connection that the first had left open.
    """

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        """Take the client that each loop gets a copy of, with connections of its own."""
        self._client = client
        self._copies: dict[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = {}

    def here(self) -> openai.AsyncOpenAI:
        """Return the client of the loop that runs now."""
        loop = asyncio.get_running_loop()
        with _LOCK:
            for closed in [other for other in self._copies if other.is_closed()]:
                del self._copies[closed]
            if loop not in self._copies:
                self._copies[loop] = self._client.copy(http_client=openai.DefaultAsyncHttpxClient())
            return self._copies[loop]

    def __getattr__(self, name: str) -> Any:
        """Return what the client of this loop has of that name."""
        return getattr(self.here(), name)


class Completions:
    """What ChatOpenAI asks for chat completions, in the place of the client's own resource.

    It posts by the client's public `post`. The resource holds each message and each tool against a union of
    types, and makes an object of each part of a reply, of which langchain-openai makes dicts again: 2 ms of
    CPU a call, 20 ms for 100 messages.
    """

    stream_of_parts: type[Any] = openai.Stream[object]

    def __init__(self, client: Callable[[], Any]) -> None:
        self._client = client

    @property
    def with_raw_response(self) -> Any:
        """Return the same, whose replies are parsed by a method."""
        return SimpleNamespace(create=lambda **payload: _unparsed(self.create(**payload)))

    def create(self, **payload: Any) -> Any:
        """Return a reply as langchain-openai reads it, or a context of the parts of a streamed one."""
        reply = self.ask(payload)
        return closing(_parts(reply)) if payload.get("stream") else _whole(reply)

    def ask(self, payload: Mapping[str, Any]) -> Any:
        """Return what the client answers; of an asynchronous one, what is awaited."""
        client = self._client()
        asked = {**payload, "messages": [_plain(message) for message in payload["messages"]]}
        if not (_is_own(client.chat.completions, "create") and _is_own(client, "request")):
            return client.chat.completions.create(**asked)
        options = {_OPTIONS[name]: asked.pop(name) for name in _OPTIONS if name in asked}
        more = asked.pop("extra_body", None) or {}
        streaming = {"stream": True, "stream_cls": self.stream_of_parts} if payload.get("stream") else {}
        return client.post(_PATH, cast_to=object, body={**asked, **more}, options=options, **streaming)


class AsyncCompletions(Completions):
    """The same for an asynchronous client."""

    stream_of_parts = openai.AsyncStream[object]

    @property
    @override
    def with_raw_response(self) -> Any:
        async def create(**payload: Any) -> Any:
            return _unparsed(await self.create(**payload))

        return SimpleNamespace(create=create)

    @override
    async def create(self, **payload: Any) -> Any:
        reply = await self.ask(payload)
        return aclosing(_async_parts(reply)) if payload.get("stream") else _whole(reply)


def _unparsed(reply: Any) -> SimpleNamespace:
    return SimpleNamespace(parse=lambda: reply)


def _is_own(client: Any, method: str) -> bool:
    """Return whether nobody looks at what a method of a client is called with.

    OpenTelemetry, Datadog, Logfire and a host's wrapper put something of their own in its place, in the class
    or in the object. What wrapt makes says that it is an instance of what it wraps.
    """
    found = getattr(type(client), method, None)
    is_own = type(found) is FunctionType and found.__code__.co_filename.startswith(_CLIENTS_CODE)
    return is_own and method not in vars(client)


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as every server's chat template reads it.

    Content is a text where it can be one, and never null; ids of calls are such as Mistral wants them.
    """
    plain, content = dict(message), message.get("content") or ""
    if isinstance(content, list) and all(each.keys() == {"type", "text"} for each in content):
        content = "\n".join(each["text"] for each in content)
    plain["content"] = content
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [{**call, "id": portable_id(call["id"])} for call in calls]
    if "tool_call_id" in plain:
        plain["tool_call_id"] = portable_id(plain["tool_call_id"])
    return plain


@contextmanager
def _read_in_our_form() -> Iterator[None]:
    """Raise it as a failure of the server where code in this block stumbles over a reply of another form."""
    try:
        yield
    except (AttributeError, LookupError, TypeError) as error:
        raise unreadable(cause_of(error)) from error


def _fields(reply: Any) -> dict[str, Any]:
    """Return a reply, or a part of one, as a dict; it is an object of OpenAI's where somebody looks at it."""
    read = reply.model_dump(warnings=False) if isinstance(reply, openai.BaseModel) else reply
    if not isinstance(read, dict) or not isinstance(read.get("usage") or {}, dict):
        raise TypeError(f"this is none: {read!r}")
    return read


def _whole(reply: Any) -> Any:
    """Return a whole reply as langchain-openai reads it."""
    with _read_in_our_form():
        # A server that calls it another type gets its JSON read all the same.
        read = _fields(json.loads(reply) if isinstance(reply, str) else reply)
        if error := read.get("error"):
            raise unreadable(cause_of(ValueError(error)))
        if not read.get("choices"):
            raise unreadable("it has no `choices`, which hold the answer")
        for choice in read["choices"]:
            message = choice["message"]
            is_refusal = _made_readable(message)
            for call in message.get("tool_calls") or ():
                if isinstance(arguments := call["function"].get("arguments"), str):
                    call["function"]["arguments"] = _strictly(arguments)
            # Some servers do not say how a reply ended. One that is not streamed is whole if read.
            choice["finish_reason"] = "refusal" if is_refusal else choice.get("finish_reason") or "complete"
    return read


def _parts(stream: Any) -> Generator[Any]:
    """Yield the parts of a streamed reply as langchain-openai reads them."""
    reading = _StreamState()
    with stream:
        for part in stream:
            yield reading.part(part)
        reading.check()


async def _async_parts(stream: Any) -> AsyncGenerator[Any]:
    """Do the same for an asynchronous client."""
    reading = _StreamState()
    async with stream:
        async for part in stream:
            yield reading.part(part)
        reading.check()


class _StreamState:
    """What is known of a streamed reply: one that did not say how it ended was cut off."""

    def __init__(self) -> None:
        self._has_begun = self._has_ended = self._is_refusal = False

    def part(self, part: Any) -> Any:
        """Return a part as langchain-openai reads it."""
        self._has_begun = True
        with _read_in_our_form():
            read = _fields(part)
            for choice in read.get("choices") or ():
                self._is_refusal |= _made_readable(choice["delta"] or {})
                if choice.get("finish_reason"):
                    self._has_ended = True
                    choice["finish_reason"] = "refusal" if self._is_refusal else choice["finish_reason"]
        return read

    def check(self) -> None:
        """Raise where the stream was cut off."""
        if not self._has_begun:
            # A server that went away before its first event looks like that, too.
            raise unreadable("the stream held no events", is_retryable=True)
        if not self._has_ended:
            raise incomplete(NO_FINISH_REASON)


def _made_readable(message: dict[str, Any]) -> bool:
    """Make texts of the arguments and the ids of calls, and of a refusal the answer; return if it is one.

    LangChain takes no objects and no numbers, as some servers send them, and keeps no refusal of a stream.
    """
    for call in message.get("tool_calls") or ():
        if isinstance(arguments := call["function"].get("arguments"), dict):
            call["function"]["arguments"] = json.dumps(arguments)
        if isinstance(call.get("id"), int):
            call["id"] = str(call["id"])
    if refusal := message.get("refusal"):
        message["content"] = message.get("content") or refusal
    return bool(refusal)


def _strictly(arguments: str) -> str:
    """Return the arguments of a call so that langchain-openai, which reads leniently, reads them strictly.

    Where it alone would take them (a name that is there twice), their fault is put behind them, so that they
    are no JSON for anybody.
    """
    try:
        json.loads(arguments, strict=False)
        strict_arguments(arguments)
    except (json.JSONDecodeError, RecursionError):
        return arguments.strip()  # It refuses them, too; of a tool without arguments nothing is left.
    except ValueError as fault:
        return f"{arguments}\n({fault})"
    return arguments
