"""Real HTTP servers on loopback that take requests as strictly as OpenAI, Anthropic and Gemini document it.

What a provider would refuse is refused with status 400, and kept: nothing that was wrong is overlooked.

- OpenAI: https://platform.openai.com/docs/api-reference/chat/create, and its errors ("must be followed by
  tool messages responding to each 'tool_call_id'").
- Anthropic: https://platform.claude.com/docs/en/api/messages, and there agents-and-tools/tool-use and
  build-with-claude/prompt-caching.
- Gemini: https://ai.google.dev/api/caching#Content, and its errors ("function call turn comes immediately
  after a user turn or after a function response turn").
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from tests.http_servers import Requests, served
from tests.openai_server import HEAD, Call, Completion, call_of

Body = dict[str, Any]
KEY: Final = SecretStr("loopback-key")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass
class StrictServer:
    """One provider, as a test sees it."""

    provider: "Provider"
    url: str
    replies: deque[Completion] = field(default_factory=deque)
    """What the next requests with tools get; then, and without tools, a text."""
    requests: list[Body] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def model(self) -> BaseChatModel:
        """Return a chat model of the provider's LangChain package that asks this server."""
        return self.provider.model(self.url)

    def reply(self, body: Body) -> tuple[int, Body]:
        """Judge a request, and answer it."""
        self.requests.append(body)
        if faults := [*self.provider.faults(body)]:
            self.faults += faults
            return 400, {"error": {"message": "; ".join(faults), "code": 400, "status": "INVALID_ARGUMENT"}}
        queued = self.replies.popleft() if self.replies and body.get("tools") else Completion("Well.")
        return 200, self.provider.encode(queued)


@dataclass(frozen=True)
class Provider:
    """What differs between the providers."""

    model: Callable[[str], BaseChatModel]
    faults: Callable[[Body], Iterator[str]]
    encode: Callable[[Completion], Body]


def strict_server(name: str) -> AbstractContextManager[StrictServer]:
    """Serve one of PROVIDERS until the block ends."""
    return served(_Requests, lambda address: StrictServer(PROVIDERS[name], address))


class _Requests(Requests):
    def respond(self) -> None:
        status, answer = self.state.reply(json.loads(self.body()))
        self.answer(status, json.dumps(answer).encode(), "application/json")


def _openai_faults(body: Body) -> Iterator[str]:
    roles = [message["role"] for message in body["messages"]]
    if roles.count("system") != 1 or roles[0] != "system":
        yield f"system messages elsewhere than at the head: {roles}"
    waiting: list[str] = []
    known: set[str] = set()
    for at, message in enumerate(body["messages"]):
        role, content = message["role"], message.get("content")
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"messages.{at}: a result of no call before it"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"messages.{at}: calls {waiting} must be followed by tool messages"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if known.intersection(waiting) or len({*waiting}) < len(waiting):
            yield f"messages.{at}: ids of calls repeat"
        known.update(waiting)
        for call in message.get("tool_calls") or ():
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield f"messages.{at}: arguments are no object"
        if "name" in message and not _NAME.fullmatch(message["name"]):
            yield f"messages.{at}: name {message['name']!r}"
        if not waiting or content:
            yield from _blank_texts(content, at)
    if waiting or roles[-1] not in {"user", "tool"}:
        yield "it ends with neither a user message nor a result"


def _anthropic_faults(body: Body) -> Iterator[str]:
    yield from _blank_texts(body.get("system"), "system")
    messages = body["messages"]
    known: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] != ("assistant" if at % 2 else "user"):
            yield f"messages.{at}: roles must alternate, and begin with the user"
        blocks = _blocks(message)
        yield from _blank_texts([each for each in blocks if each["type"] == "text"] or "-", at)
        if not blocks:
            yield f"messages.{at}: all messages must have non-empty content"
        before = _blocks(messages[at - 1]) if at else []
        wanted = [each["id"] for each in before if each["type"] == "tool_use"]
        given = [each["tool_use_id"] for each in blocks if each["type"] == "tool_result"]
        if sorted(wanted) != sorted(given):
            yield f"messages.{at}: tool_use {wanted} and tool_result {given}"
        if any(each["type"] != "tool_result" for each in blocks[: len(given)]):
            yield f"messages.{at}: tool_result blocks must come first"
        used = [each["id"] for each in blocks if each["type"] == "tool_use"]
        if known.intersection(used) or len({*used}) < len(used):
            yield f"messages.{at}: tool_use ids must be unique"
        known.update(used)
        for each in used:
            if not re.fullmatch("[a-zA-Z0-9_-]+", each):
                yield f"messages.{at}: tool_use id {each!r}"
    if messages[-1]["role"] != "user":
        yield "it ends with no user message"
    yield from _breakpoint_faults(body)


def _breakpoint_faults(body: Body) -> Iterator[str]:
    blocks = anthropic_blocks(body)
    marked = [each for each in blocks if "cache_control" in each]
    if len(marked) > 4:
        yield "A maximum of 4 blocks with cache_control may be provided"
    if any(each.get("type") == "text" and not each["text"] for each in marked):
        yield "cache_control cannot be set for empty text blocks"
    # langchain-anthropic loses that of an image.
    if body.get("tools") and "cache_control" not in blocks[-1] and blocks[-1].get("type") != "image":
        yield "ours: no breakpoint is at the end, which the next step begins with"


def anthropic_blocks(body: Body) -> list[Body]:
    """Return what Anthropic's cache goes through: tools, system, and the blocks of messages."""
    return [
        *(body.get("tools") or []),
        *_blocks({"content": body.get("system") or []}),
        *({**each, "role": message["role"]} for message in body["messages"] for each in _blocks(message)),
    ]


def _blocks(message: Mapping[str, Any]) -> list[Body]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _gemini_faults(body: Body) -> Iterator[str]:
    yield from _part_faults((body.get("systemInstruction") or {}).get("parts"), "systemInstruction")
    contents = body["contents"]
    waiting: list[str] = []
    before = ""
    for at, content in enumerate(contents):
        role, parts = content.get("role"), content.get("parts") or []
        yield from _part_faults(parts, at)
        given = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if sorted(given) != sorted(waiting):
            yield f"contents.{at}: function calls {waiting}, function responses {given}"
        waiting = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if waiting and role != "model":
            yield f"contents.{at}: a function call of role {role}"
        if role == "model" and before != "user":
            yield f"contents.{at}: a turn of the model must come after one of the user or a function response"
        before = role
    if waiting or before != "user":
        yield "it ends with no user turn"


def _part_faults(parts: Sequence[Body] | None, at: int | str) -> Iterator[str]:
    if not parts:
        yield f"{at}: must include at least one parts field"
    for part in parts or ():
        if not part.keys() & {"text", "functionCall", "functionResponse", "inlineData", "fileData"}:
            yield f"{at}: a part without data"
        if "text" in part and not part["text"].strip():
            yield f"{at}: a part with an empty text"


def _blank_texts(content: Any, at: int | str) -> Iterator[str]:
    texts = [content] if isinstance(content, str) or not content else [b.get("text", "-") for b in content]
    if not all(text and text.strip() for text in texts):
        yield f"{at}: text content blocks must be non-empty"


def _encode_openai(reply: Completion) -> Body:
    message: Body = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [call_of(each, each.arguments) for each in reply.calls]
    finish = "tool_calls" if reply.calls else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    spent = {**usage, "prompt_tokens_details": {"cached_tokens": 80}}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": spent}


def _encode_anthropic(reply: Completion) -> Body:
    content: list[Body] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [
        {"type": "tool_use", "id": each.id, "name": each.name, "input": _arguments(each)}
        for each in reply.calls
    ]
    made = {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0}
    cached = {"cache_read_input_tokens": 80, "cache_creation_input_tokens": 10, "cache_creation": made}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5"}
    return {
        **head,
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 7, **cached},
    }


def _encode_gemini(reply: Completion) -> Body:
    parts: list[Body] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": each.name, "args": _arguments(each)}} for each in reply.calls]
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 7, "totalTokenCount": 107}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {**usage, "cachedContentTokenCount": 80},
        "modelVersion": "gemini-3-pro-preview",
    }


def _arguments(call: Call) -> Body:
    return call.args if isinstance(call.args, dict) else {}


def _openai(url: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5-mini", base_url=f"{url}/v1", api_key=KEY, max_retries=0)


def _anthropic(url: str) -> BaseChatModel:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(
        model_name="claude-sonnet-5", base_url=url, api_key=KEY, max_retries=0, timeout=None, stop=None
    )


def _gemini(url: str) -> BaseChatModel:
    from langchain_google_genai import ChatGoogleGenerativeAI

    return ChatGoogleGenerativeAI(model="gemini-3-pro-preview", base_url=url, api_key=KEY, max_retries=1)


PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai": Provider(_openai, _openai_faults, _encode_openai),
    "anthropic": Provider(_anthropic, _anthropic_faults, _encode_anthropic),
    "gemini": Provider(_gemini, _gemini_faults, _encode_gemini),
}
