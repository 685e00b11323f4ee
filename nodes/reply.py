"""A model's reply as it arrives: whole, or not used. What is cut is never completed by guessing.

LangChain closes the brackets of a tool call that breaks off (`parse_partial_json`), so that `rm -rf data/old`
becomes `rm -rf data`. So the text of the arguments is watched as it comes in, and parsed strictly here.
"""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, InvalidToolCall
from langchain_core.messages.ai import UsageMetadata, add_ai_message_chunks, add_usage
from langchain_core.messages.tool import ToolCall, ToolCallChunk, invalid_tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, GenerationChunk, LLMResult
from langchain_core.runnables import RunnableLambda
from typing_extensions import override

from skills_agent.nodes.conversation import blocks_of
from skills_agent.skills.strict_json import strict_json
from skills_agent.state.endings import FAULTS, SAYS_HOW_IT_ENDED, ending_of, note_that, refusal_of
from skills_agent.state.records import UsageRecord
from skills_agent.state.reducers import add_usage as total_usage
from skills_agent.state.reducers import spent
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import is_synthetic

MAX_TRIES: Final = 4
"""Model calls for one reply: the parts of a paused one, and one that is asked for again."""
NO_FINISH_REASON: Final = "the stream ended without a finish reason"
_CACHE_CREATION: Final = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
_NEAR: Final = 40
"""Characters of what cannot be parsed that are shown."""


class Reply(NamedTuple):
    """A model's message, and the model calls that it took."""

    message: AIMessage
    calls: int = 1
    usage: UsageMetadata | None = None
    """Tokens of all of them, also of what was not used; None: those of the message."""
    model: str = ""
    """Name of who was asked."""
    lost: UsageRecord | None = None
    """What another model took, which was asked before and failed."""


@dataclass
class _ModelRun:
    """What came of one run of a model."""

    provider: str = ""
    is_streamed: bool = False
    message_id: str = ""
    pieces: list[ToolCallChunk] = field(default_factory=list)


class ReplyWatch(BaseCallbackHandler):
    """Watches one model call: who answers, whether in pieces, and the arguments of its calls as text.

    A Runnable around models (`with_fallbacks`, `with_retry`) may run several: one that failed says nothing
    about the reply of the next.
    """

    run_inline = True  # The pieces must come in order, and none after the end.

    def __init__(self, usage: UsageMetadata | None = None) -> None:
        """Begin with the tokens that earlier calls took."""
        self._runs: dict[UUID, _ModelRun] = {}
        self._failed: list[str] = []
        self.usage = usage
        """Tokens of all runs, as far as they are known, also of those that are of no use."""
        self.is_left = False
        """Nobody waits for the reply: it ends with its next piece, and so does its connection."""

    @property
    def provider(self) -> str:
        """Return LangChain's name of who answers; empty where it is not known."""
        return next((run.provider for run in self._runs.values() if run.provider), "")

    @property
    def is_streamed(self) -> bool:
        """Return whether the reply came in pieces."""
        return any(run.is_streamed for run in self._runs.values())

    def until_it_begins(self, tell: Callable[[int], object]) -> Callable[[int], object]:
        """Return what tells of the time that passes as long as no piece has come."""
        return lambda seconds: self.is_streamed or tell(seconds)

    @property
    def message_id(self) -> str:
        """Return the id that the pieces have; empty without pieces."""
        shown = (run.message_id for run in self._runs.values() if run.message_id)
        return next(shown, self._failed[-1] if self._failed and not self._runs else "")

    def failed_ids(self) -> list[str]:
        """Return the ids that the pieces of failed runs have, but for `message_id`."""
        return [each for each in self._failed if each != self.message_id]

    @override
    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        metadata: Mapping[str, Any] = kwargs.get("metadata") or {}
        self._run(run_id).provider = str(metadata.get("ls_provider") or "")

    @override
    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        if self.is_left:
            raise asyncio.CancelledError
        run = self._run(run_id)
        run.is_streamed = True
        if isinstance(chunk, ChatGenerationChunk) and isinstance(chunk.message, AIMessageChunk):
            run.message_id = run.message_id or chunk.message.id or ""
            for piece in chunk.message.tool_call_chunks:
                _add(run.pieces, piece)

    @override
    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._run(run_id)
        run.is_streamed = True
        run.message_id = run.message_id or str(event.get("id") or "")

    @override
    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        for generation in (each for group in response.generations for each in group):
            message = generation.message if isinstance(generation, ChatGeneration) else None
            if isinstance(message, AIMessage) and message.usage_metadata:
                self.usage = add_usage(self.usage, message.usage_metadata)

    @override
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self.on_llm_end(kwargs.get("response") or LLMResult(generations=[]))
        run = self._runs.pop(run_id, _ModelRun())
        if run.message_id:
            self._failed.append(run.message_id)

    def calls(self) -> list[ToolCallChunk]:
        """Return the calls that came in pieces, put together as LangChain does it."""
        runs = [
            [AIMessageChunk(content="", tool_call_chunks=[piece]) for piece in run.pieces]
            for run in self._runs.values()
            if run.pieces
        ]
        return [chunk for run in runs for chunk in add_ai_message_chunks(*run).tool_call_chunks]

    def _run(self, run_id: UUID) -> _ModelRun:
        return self._runs.setdefault(run_id, _ModelRun())


def strict_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call: an object in JSON, as it is written, or nothing for none.

    Raises ValueError for all else, also for what JSON parsers read in different ways: a name that is there
    twice, NaN.
    """
    if not text.strip():
        return {}
    try:
        parsed = strict_json(text)
    except json.JSONDecodeError as error:
        near = text[max(error.pos - _NEAR, 0) : error.pos + _NEAR]
        raise ValueError(f"{error}, near {near!r}") from error
    except RecursionError:
        raise ValueError("they are nested too deep") from None
    if not isinstance(parsed, dict):
        raise ValueError("they are no object")  # noqa: TRY004 - one class for all that is not accepted
    return parsed


def with_strict_calls(message: AIMessage, watch: ReplyWatch) -> AIMessage:
    """Return a message in which a call whose text is no strict JSON counts as unreadable.

    `watch` has the calls as they were written, as far as that is known.
    """
    left, valid, invalid = watch.calls(), list[ToolCall](), list(message.invalid_tool_calls)
    for call in message.tool_calls:
        name, call_id = call["name"], call["id"]
        written = next((each for each in left if ((each["name"] or ""), each["id"]) == (name, call_id)), None)
        if written is None:  # The provider gave an object, not a text.
            valid.append(call)
            continue
        left.remove(written)
        text = written["args"] or ""
        try:
            valid.append({**call, "args": strict_arguments(text)})
        except ValueError as error:
            invalid.append(_unreadable(call, text, str(error)))
    return message.model_copy(update={"tool_calls": valid, "invalid_tool_calls": invalid})


def as_arrived(message: AIMessage, part: AIMessage | None = None) -> AIMessage:
    """Return a reply, and the `part` of it that came before, as it is kept.

    Where it is not whole, its calls are unreadable and its text says so.
    """
    message = joined(part, message)
    fault = FAULTS.get(ending_of(message))
    if fault is None:
        return message
    if message.tool_calls or message.invalid_tool_calls:
        cut = [
            _unreadable(call, json.dumps(call["args"], ensure_ascii=False), fault)
            for call in message.tool_calls
        ]
        invalid = [*cut, *message.invalid_tool_calls]
        return message.model_copy(update={"tool_calls": [], "invalid_tool_calls": invalid})
    return message.model_copy(update={"content": _with_note(message, note_that(fault))})


def without_calls_of(message: AIMessage, names: Collection[str]) -> AIMessage:
    """Return a reply without its calls of tools that the provider runs: nobody here answers them."""
    own = [call for call in message.tool_calls if call["name"] not in names]
    return message.model_copy(update={"tool_calls": own}) if len(own) < len(message.tool_calls) else message


def is_paused(message: AIMessage) -> bool:
    """Return whether the provider takes the rest of a reply in another call, which begins with this part.

    Source: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause_turn
    """
    return ending_of(message) == "paused"


def joined(part: AIMessage | None, rest: AIMessage) -> AIMessage:
    """Return a reply that came in two parts as one."""
    if part is None:
        return rest
    content = [*blocks_of(part.content), *blocks_of(rest.content)]
    usage = add_usage(part.usage_metadata, rest.usage_metadata)
    return rest.model_copy(update={"content": content, "usage_metadata": usage})


def why_broken(message: AIMessage, watch: ReplyWatch) -> str:
    """Return why a reply cannot be used at all; empty where it can.

    A model that never says how a reply ended is believed, unless a call of it breaks off: models in this
    process do not say it, and some servers do not.
    """
    ending = ending_of(message)
    if ending == "broken":
        return "the provider ended it with an error"
    if ending != "unsaid":
        return ""
    provider = message.response_metadata.get("model_provider")
    if not watch.is_streamed:  # LangChain's cache gives a reply that was streamed earlier, cut or not.
        return NO_FINISH_REASON if provider in SAYS_HOW_IT_ENDED and message.tool_calls else ""
    is_known = provider in SAYS_HOW_IT_ENDED or watch.provider in SAYS_HOW_IT_ENDED
    return NO_FINISH_REASON if is_known or message.invalid_tool_calls else ""


def _unreadable(call: ToolCall, text: str, fault: str) -> InvalidToolCall:
    return invalid_tool_call(name=call["name"], args=text, id=call["id"], error=fault)


def _with_note(message: AIMessage, note: str) -> str | list[str | dict[Any, Any]]:
    if isinstance(message.content, list):
        gap = "\n\n" if message.text else refusal_of(message) + "\n\n" * bool(refusal_of(message))
        return [*message.content, {"type": "text", "text": f"{gap}{note}"}]
    return f"{message.content or refusal_of(message)}\n\n{note}".lstrip()


def _add(pieces: list[ToolCallChunk], piece: ToolCallChunk) -> None:
    """Add a piece of a call; the rest of a call goes to its beginning, as there may be 10,000 pieces."""
    last = pieces[-1] if pieces else None
    is_rest = isinstance(piece["index"], int) and not piece["id"] and not piece["name"]
    if last and is_rest and last["index"] == piece["index"]:
        last["args"] = (last["args"] or "") + (piece["args"] or "")
    else:
        pieces.append(piece.copy())


def usage_of(state: AgentState, reply: Reply) -> UsageRecord | None:
    """Return what counts model calls and their tokens; None for a message of ours."""
    if is_synthetic(reply.message):
        return None
    usage: Mapping[str, Any] = reply.usage or reply.message.usage_metadata or {}
    details: Mapping[str, Any] = usage.get("input_token_details") or {}
    own = spent(
        state["usage"]["turn"] if state.get("usage") else 0,  # None: a client led past `discover`.
        reply.model,
        model_calls=reply.calls,
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
        cache_read_tokens=details.get("cache_read") or 0,
        # LangChain gives Anthropic's by how long they are kept, and then 0 for all of them.
        cache_creation_tokens=sum(details.get(name) or 0 for name in _CACHE_CREATION),
    )
    return total_usage(own, reply.lost) if reply.lost else own


PAUSE: Final = RunnableLambda[float, None](time.sleep, asyncio.sleep)
"""What a node waits for between two tries: so many seconds, without a thread under `ainvoke`."""
