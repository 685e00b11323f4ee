"""Any server that speaks the OpenAI chat-completions protocol.

This module imports langchain-openai, which takes a second: import it where such a model is made.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FunctionType
from typing import Any, Final, NamedTuple, Self, get_origin

import msgspec
import openai
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import model_validator
from typing_extensions import override

from skills_agent.graph.langgraph_inside import ChatOpenAIHooks, http_client_of, post_by, post_of
from skills_agent.graph.models.errors import IncompleteReplyError, UnreadableReplyError, cause_of
from skills_agent.graph.models.loops import LoopClient
from skills_agent.nodes.reply import NO_FINISH_REASON, RawCall, with_strict_calls
from skills_agent.state.call_ids import portable_id
from skills_agent.state.endings import word_in

_CLIENTS_CODE: Final = os.path.join(os.path.dirname(openai.__file__), "")  # noqa: PTH118, PTH120 - a text
_MISREAD = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What langchain-openai raises when a reply lacks what it reads from it."""
_NO_CHOICES = "it has no `choices`, which hold the answer"
_NO_EVENTS = "the stream held no events"


class CompatibleChatOpenAI(ChatOpenAIHooks, ChatOpenAI):
    """ChatOpenAI that raises UnreadableReplyError when a server's answer is no chat completion."""

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        """Return False: LangChain can load only what is in its own namespace."""
        return False

    @model_validator(mode="after")
    def give_each_loop_its_connections(self) -> Self:
        """Put a client for each event loop in the place of the one that langchain-openai has made.

        Not in that of one that the maker of the model has given.
        """
        if self.http_async_client is None and self.root_async_client is not None:
            shared = http_client_of(self.root_async_client)
            if not isinstance(shared, LoopClient):
                self.root_async_client = self.root_async_client.copy(http_client=LoopClient(shared))
                self.async_client = self.root_async_client.chat.completions
        return self

    @model_validator(mode="after")
    def send_directly(self) -> Self:
        """Let the client encode and read with less ado what it is to leave alone.

        It makes an object of each part of a reply, of which langchain-openai makes dicts again: half a
        millisecond of CPU a call.
        """
        for client in (self.client, self.async_client):
            if client is not None and not isinstance(post_of(client), _DirectPost):
                post_by(client, _DirectPost(post_of(client)))
        return self

    @override
    def prepare_payload(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return what the client is called with: messages and tools in `extra_body`, which it leaves alone.

        It holds each message and each tool against a union of types, which changes nothing here and takes 1
        to 2 ms of CPU a call for the agent's 16 tools, 23 ms for 100 messages, 209 ms for 1,000. It needs to
        see them where a format is wanted, and so does what instruments the client, where something does.
        """
        if "messages" in payload:
            payload = {**payload, "messages": [_plain(each) for each in payload["messages"]]}
        if "messages" not in payload or "response_format" in payload or not self._is_unobserved():
            return payload
        moved = {key: payload[key] for key in ("messages", "tools") if key in payload}
        body = {**(payload.get("extra_body") or {}), **moved}
        return {**payload, **{key: [] for key in moved}, "extra_body": body}

    def _is_unobserved(self) -> bool:
        completions, roots = (self.client, self.async_client), (self.root_client, self.root_async_client)
        return all(_is_own(each, "create") for each in completions) and all(
            _is_own(each, "request") for each in roots
        )

    @override
    def reading(self) -> AbstractContextManager[None]:
        """Raise what goes wrong while a reply or a part of one is read as an UnreadableReplyError."""
        return _reading(*_MISREAD)

    @override
    def before_result(self, response: Any) -> list["_Choice"]:
        """Take the arguments of the calls out of a reply: langchain-openai reads them leniently."""
        choices = _part(response, "choices")
        if not choices and not _part(response, "error"):  # Else langchain-openai raises with its text.
            raise UnreadableReplyError(_NO_CHOICES)
        return [
            _Choice(_take_arguments(each), _part(_part(each, "message"), "refusal")) for each in choices or ()
        ]

    @override
    def after_result(self, result: ChatResult, before: list["_Choice"]) -> None:
        """Put the arguments back into the calls, those that are strict JSON, and the text of a refusal.

        Some servers do not say how a reply ended. One that is not streamed is whole where it could be read.
        """
        for generation, choice in zip(result.generations, before, strict=False):
            info = generation.generation_info or {}
            generation.generation_info = {**info, "finish_reason": info.get("finish_reason") or "complete"}
            if choice.refusal:  # langchain-openai keeps it where the client made objects.
                generation.message.additional_kwargs["refusal"] = choice.refusal
            if choice.calls and isinstance(generation.message, AIMessage):
                generation.message = with_strict_calls(generation.message, choice.calls)

    @override
    def before_chunk(self, part: Mapping[str, Any]) -> None:
        """Make texts of the arguments and ids of calls: LangChain takes no other."""
        for choice in part.get("choices") or ():
            _as_texts((choice.get("delta") or {}).get("tool_calls"))

    @override
    def check_chunk(self, part: Mapping[str, Any], chunk: ChatGenerationChunk) -> None:
        """Keep the text of a refusal: langchain-openai does so for whole replies only."""
        choices = part.get("choices") or ()
        if choices and (refusal := choices[0]["delta"].get("refusal")):
            chunk.message.additional_kwargs["refusal"] = refusal

    @override
    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        stream = _StreamEnd()
        with _reading(AttributeError):  # An event that is no JSON object.
            for chunk in super()._stream(*args, **kwargs):
                stream.take(chunk)
                yield chunk
        stream.check()

    @override
    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        stream = _StreamEnd()
        with _reading(AttributeError):  # An event that is no JSON object.
            async for chunk in super()._astream(*args, **kwargs):
                stream.take(chunk)
                yield chunk
        stream.check()


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as every server's chat template reads it.

    Content is a text where it can be one, and never null; ids of calls are such as Mistral wants them.
    """
    plain, content = dict(message), message.get("content") or ""
    if isinstance(content, list) and all(each.keys() == {"type", "text"} for each in content):
        content = "\n".join(each["text"] for each in content)
    plain["content"] = content
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [{**each, "id": portable_id(each["id"])} for each in calls]
    if "tool_call_id" in plain:
        plain["tool_call_id"] = portable_id(plain["tool_call_id"])
    return plain


class _Choice(NamedTuple):
    """What is kept of a choice while langchain-openai makes a message of it."""

    calls: list[RawCall]
    refusal: str | None


class _AsItCame(openai.BaseModel):
    """Stands for the type of a reply whose JSON is returned as it came."""

    @classmethod
    def build(cls, *, response: object, data: object) -> object:  # noqa: ARG003 - called so
        """Return the JSON: the client asks classes that have this method."""
        return data


class _DirectPost:
    """A client's method for requests that makes little of one whose messages nobody looks at.

    Its body is encoded by msgspec, in a tenth of the time; the JSON of a reply is returned as it came.
    """

    def __init__(self, post: Callable[..., Any]) -> None:
        self._post = post

    def __call__(self, path: str, *, cast_to: type, **request: Any) -> Any:
        """Send a request as `post` does; the asynchronous one returns what is awaited."""
        body, options = request.get("body"), request.get("options") or {}
        if "messages" not in (options.get("extra_json") or ()):
            return self._post(path, cast_to=cast_to, **request)
        # A host's objects that are no plain ones are left to the client's own encoder, which takes more.
        with suppress(TypeError):
            request["content"] = msgspec.json.encode({**(body or {}), **options["extra_json"]})
            request["options"] = {name: each for name, each in options.items() if name != "extra_json"}
            del request["body"]
        if request.get("stream"):
            request["stream_cls"] = get_origin(request["stream_cls"])[_AsItCame]
        return self._post(path, cast_to=_AsItCame, **request)


class _StreamEnd:
    """Knows whether a stream said how it ended: one that did not was cut off."""

    def __init__(self) -> None:
        self._has_begun = self._has_ended = False

    def take(self, chunk: ChatGenerationChunk) -> None:
        self._has_begun = True
        metadata = {**chunk.message.response_metadata, **(chunk.generation_info or {})}
        self._has_ended |= bool(word_in(metadata))

    def check(self) -> None:
        if not self._has_begun:
            error = UnreadableReplyError(_NO_EVENTS)
            error.is_retryable = True  # A server that went away before its first event looks like that, too.
            raise error
        if not self._has_ended:
            raise IncompleteReplyError(NO_FINISH_REASON)


def _is_own(client: Any, method: str) -> bool:
    """Return whether nobody looks at what a method of a client is called with.

    OpenTelemetry, Datadog, Logfire and a host's wrapper put something of their own in its place, in the class
    or in the object. What wrapt makes says that it is an instance of what it wraps.
    """
    found = getattr(type(client), method, None)
    is_own = type(found) is FunctionType and found.__code__.co_filename.startswith(_CLIENTS_CODE)
    return is_own and method not in vars(client)


def _take_arguments(choice: Any) -> list[RawCall]:
    taken, calls = [], _part(_part(choice, "message"), "tool_calls") or ()
    _as_texts(calls)
    for call in calls:
        function = _part(call, "function")
        arguments = _part(function, "arguments")
        if isinstance(arguments, str):
            taken.append(RawCall(_part(function, "name") or "", _part(call, "id"), arguments))
            _put(function, "arguments", "{}")
    return taken


def _as_texts(calls: Any) -> None:
    """Make texts of what some servers give otherwise: the arguments as an object, and the id as a number."""
    for call in calls or ():
        function = _part(call, "function")
        if isinstance(arguments := _part(function, "arguments"), dict):
            _put(function, "arguments", msgspec.json.encode(arguments).decode())
        if isinstance(call_id := _part(call, "id"), int):
            _put(call, "id", str(call_id))


def _put(whole: Any, name: str, value: Any) -> None:
    if isinstance(whole, dict):
        whole[name] = value
    else:
        setattr(whole, name, value)


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, dict) else getattr(whole, name, None)


@contextmanager
def _reading(*misread: type[Exception]) -> Iterator[None]:
    try:
        yield
    except misread as error:
        raise UnreadableReplyError(cause_of(error)) from error
