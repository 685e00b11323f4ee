"""Answers of providers, kept beside the cases and played again: a run without a key and without a network.

    FOLDER OF THE CASE FILE/recordings/CASE.MODEL.jsonl

Each line is a request, as it is the same on every machine and day, and what the model answered. Secrets are
taken out of both. Whoever changes a skill, a tool or a prompt changes requests: an answer to another request
is never played.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr
from typing_extensions import override

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.eval_folder import file_of, safe_id
from skills_agent.evals.cases.result import split_label
from skills_agent.evals.workspaces import created
from skills_agent.graph.audit.redaction import redaction_of
from skills_agent.graph.models.provider import resolve_model
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import process_environment
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.sources.directory import BUNDLED_FOLDER
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.visible import visible_line

FOLDER: Final = "recordings"
IN_PROCESS: Final = frozenset({"offline", "scripted"})
"""Models that answer in this process, which nobody records."""
TOOLS: Final = "skills_agent_tools"
"""Keyword of a call: the tools as every provider is told of them."""
_MAX_BYTES: Final = 256 << 20
_METADATA: Final = ("finish_reason", "stop_reason", "model_name")
Names = Sequence[tuple[re.Pattern[str], str]]
"""What differs from run to run, and what stands for it."""

_SAME: Final = (
    (re.compile(r"(?:/[^\s\"'`<>:,()]*)?/skills-agent-eval-[A-Za-z0-9_]+(?:/\d+)?"), "<place>"),
    (re.compile(r"\beval-\d{8}-\d{6}-[A-Za-z0-9._-]+"), "<thread>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\(\d+(?:\.\d+)? (?:ms|s), [a-z][a-z :.,-]*\)"), "(<took>)"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|seconds)\b"), "<took>"),
)
_CLOCK: Final = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer."""

    key: str
    repeat: int
    request: dict[str, Any]
    answer: dict[str, Any]


class Recordings:
    """The answers of a run: recorded, or played where `is_played`; several threads use it."""

    def __init__(
        self, settings: Settings, skills: Sequence[Path], *, is_played: bool, anew: bool = False
    ) -> None:
        """Take the folders of the skills, whose paths are the same on no other machine.

        `anew` forgets what was recorded earlier: not where a run goes on that was cut off.
        """
        folders = {str(each): f"<skills-{number}>" for number, each in enumerate(skills)}
        folders |= {str(settings.workspace): "<workspace>", str(BUNDLED_FOLDER): "<bundled>"}
        folders |= {os.path.realpath(each): name for each, name in folders.items()}
        self._names = names_here(folders, datetime.now(UTC))
        self.is_played = is_played
        self._settings, self._anew = settings, anew
        self._redaction = redaction_of(settings)
        self._lock = Lock()
        self._known: dict[Path, list[Exchange]] = {}

    def model_of(self, case: EvalCase, model: str, repeat: int) -> BaseChatModel | None:
        """Return the model of a case; None for one that answers in this process, which nobody records."""
        name = split_label(model)[1]
        if name.partition(":")[0] in IN_PROCESS:
            return None
        file = recording_of(case, model)
        inner = None if self.is_played else resolved(self._settings, name)
        return RecordedChatModel.of(name, inner, lambda *call: self._reply(file, repeat, inner, *call))

    def _reply(
        self,
        file: Path,
        repeat: int,
        inner: BaseChatModel | None,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
    ) -> AIMessage:
        request: dict[str, Any] = self._redaction.whole(plain_request(messages, tools, self._names))
        if inner is None:
            return AIMessage(**self._played(file, request, repeat))
        # Without callbacks: it is the same call as that of the model around it.
        reply = inner.invoke(list(messages), {"callbacks": []}, **options)
        metadata = {key: part for key, part in reply.response_metadata.items() if key in _METADATA}
        answer = {"tool_calls": reply.tool_calls, "usage_metadata": reply.usage_metadata}
        plain = json.loads(json.dumps({**answer, "response_metadata": metadata}, default=str))
        whole = {"content": reply.content, **self._redaction.whole(plain)}
        self._keep(file, Exchange(key=_key(request), repeat=repeat, request=request, answer=whole))
        return reply

    def _played(self, file: Path, request: Mapping[str, Any], repeat: int) -> dict[str, Any]:
        """Return the recorded answer to a request; of several, that of this repeat. Raises EvalError."""
        with self._lock:
            if file not in self._known:
                self._known[file] = _read(file)
        known = self._known[file]
        key = _key(request)
        found = [each for each in known if each.key == key]
        if not found:
            where = visible_line(str(file))
            raise EvalError(f"{where}: this request is not recorded; make it anew with --record.")
        return next((each for each in reversed(found) if each.repeat == repeat), found[-1]).answer

    def _keep(self, file: Path, exchange: Exchange) -> None:
        """Write an exchange: it is in the file when this returns."""
        with self._lock:
            is_first = self._anew and file not in self._known
            self._known.setdefault(file, [])
            try:
                flags = os.O_APPEND | (os.O_TRUNC if is_first else 0)
                path = f"{file.parent.name}/{file.name}"
                with os.fdopen(created(file.parent.parent, path, 0o644, flags), "ab") as stream:
                    stream.write(msgspec.json.encode(exchange) + b"\n")
            except OSError as error:
                raise EvalError(f"{visible_line(str(file))} cannot be written ({error.strerror}).") from error


def resolved(settings: Settings, name: str) -> BaseChatModel:
    """Return the model of a name, with the operator's parameters. Raises ModelError."""
    return resolve_model(name, environment=process_environment(), parameters=settings.model_parameters)


def recording_of(case: EvalCase, model: str) -> Path:
    """Return where the answers of a model in a case are kept. Raises EvalError for a case of no file."""
    if not case.file:
        raise EvalError(f"{case.id} is in no file, and has no place for a recording.")
    folder = file_of(case).parent
    if (folder / SKILL_FILE).is_file():  # It would be a file of the skill, and change what the agent is told.
        raise EvalError(f"{case.id} is recorded in the skill's evals/: move its file there.")
    return folder / FOLDER / f"{safe_id(case.id, 100)}.{safe_id(model)}.jsonl"


def _read(file: Path) -> list[Exchange]:
    name = visible_line(str(file))
    try:
        content = read_beneath(file.parent.parent, f"{file.parent.name}/{file.name}", _MAX_BYTES)
        return [msgspec.json.decode(line, type=Exchange) for line in content.split(b"\n")[:-1]]
    except FileNotFoundError as error:
        raise EvalError(f"{name}: there is no such recording; make it with --record.") from error
    except OSError as error:
        raise EvalError(f"{name} cannot be read ({error.strerror}).") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EvalError(f"{name} is no recording ({error}).") from error


class RecordedChatModel(BaseChatModel):
    """A chat model whose answers another one, or a recording, gives; it binds tools as that does."""

    model_name: str
    _inner: BaseChatModel | None = PrivateAttr(default=None)
    _reply: Callable[..., AIMessage] = PrivateAttr()

    @classmethod
    def of(
        cls, name: str, inner: BaseChatModel | None, reply: Callable[..., AIMessage]
    ) -> "RecordedChatModel":
        """Return one that `reply` answers, given messages, tools and what else the call of `inner` takes."""
        made = cls(model_name=name, profile=inner.profile if inner is not None else None)
        made._inner, made._reply = inner, reply
        return made

    @property
    def _llm_type(self) -> str:
        return "recorded"

    @property
    def recorded(self) -> BaseChatModel | None:
        """Return the model that is asked: its prompts may have breakpoints. None where answers are played."""
        return self._inner

    @override
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with tools that it may call."""
        shown = [convert_to_openai_tool(tool) for tool in tools]
        bound = self._inner.bind_tools(tools, **kwargs) if self._inner else None
        options = bound.kwargs if isinstance(bound, RunnableBindingBase) else {}
        return self.bind(**{**options, TOOLS: shown})

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        tools = kwargs.pop(TOOLS, ())
        reply = self._reply(messages, tools, kwargs)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def names_here(folders: Mapping[str, str], now: datetime) -> Names:
    """Return what differs from run to run, and on this machine: its folders, today's date, ids, durations."""
    longest_first = sorted(folders.items(), key=lambda each: -len(each[0]))
    # A clock elsewhere is a day before or behind; a date of the data is no other than it is.
    days = {f"{now + timedelta(hours=hours):%Y-%m-%d}" for hours in (-12, 0, 14)}
    return [
        *_SAME,
        *((re.compile(re.escape(folder)), name) for folder, name in longest_first),
        (re.compile(rf"\b(?:{'|'.join(sorted(days))}){_CLOCK}"), "<today>"),
    ]


def plain_request(
    messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]], names: Names
) -> dict[str, Any]:
    """Return a request as plain values, the same on every machine and day."""
    ids: dict[str | None, str] = {}
    shown = []
    for message in messages:
        record = {"role": message.type, "content": _named(message.content, names)}
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            name = ids.setdefault(call["id"], f"call-{len(ids) + 1}")
            made = {"id": name, "name": call["name"], "args": _named(call["args"], names)}
            record.setdefault("calls", []).append(made)
        if isinstance(message, ToolMessage):
            record["call"] = ids.get(message.tool_call_id, "call")
        shown.append(record)
    return {"messages": shown, "tools": _named(list(tools), names)}


def _named(value: Any, names: Names) -> Any:
    """Return a value with names, without breakpoints of a prompt cache, of which a replay has none."""
    if isinstance(value, str):
        for pattern, name in names:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, Mapping):
        kept = {name: each for name, each in value.items() if name != "cache_control"}
        return {_named(str(name), names): _named(each, names) for name, each in kept.items()}
    if not isinstance(value, list | tuple):
        return value
    parts = [_named(part, names) for part in value]
    texts = [part["text"] for part in parts if isinstance(part, dict) and set(part) == {"type", "text"}]
    if not texts or len(texts) != len(parts):
        return parts
    return texts[0] if len(texts) == 1 else texts


def _key(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()
