"""Answers of providers, kept beside the cases and played again: a run without a key and without a network.

    FOLDER OF THE CASE FILE/recordings/CASE.MODEL.jsonl

Each line is a request, as it is the same everywhere (`requests.py`), and what the model answered. Secrets are
taken out of both. Whoever changes a skill, a tool or a prompt changes requests: an answer to another request
is never played, and what changed is said.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr
from typing_extensions import override

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.eval_place import EVALS_FOLDER
from skills_agent.evals.cases.result import Recording as RecordingMode
from skills_agent.evals.errors import RecordingError
from skills_agent.evals.laying import file_of
from skills_agent.evals.places import catalog_folders
from skills_agent.evals.prices import IN_PROCESS
from skills_agent.evals.requests import Normal, key_of, what_changed
from skills_agent.graph.audit.redaction import Redaction, redaction_of
from skills_agent.graph.langgraph_inside import InnerModel
from skills_agent.graph.models.local import message_chunks
from skills_agent.graph.models.provider import resolve_model
from skills_agent.graph.places import process_environment
from skills_agent.graph.settings import Settings
from skills_agent.skills.confined import make_folder_beneath, read_beneath
from skills_agent.skills.sources.directory import BUNDLED_FOLDER
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.visible import visible_line

FOLDER: Final = "recordings"
_TOOLS: Final = "skills_agent_tools"
"""Keyword of a call: the tools as every provider is told of them."""
_MAX_BYTES: Final = 256 << 20
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_KEPT: Final = ("content", "tool_calls", "invalid_tool_calls", "response_metadata", "usage_metadata")
_NOT_KEPT: Final = frozenset({"headers", "logprobs", "id", "system_fingerprint", "token_usage", "usage"})
"""Of what a provider says of an answer: what is nobody's business, or said elsewhere."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer."""

    key: str
    repeat: int
    request: dict[str, Any]
    answer: dict[str, Any]


class Recording:
    """What one model answered in one case, in all arms and repeats; several threads use it."""

    def __init__(self, root: Path, inner: str, name: str) -> None:
        """Name the file, in an inner folder of one that may be anybody's. Nothing is read yet."""
        self.file = root / inner / name
        self._root, self._inner, self._name = root, inner, name
        self._lock = Lock()
        self._known: dict[str, list[Exchange]] | None = None

    def begin(self) -> None:
        """Forget what was recorded before."""
        with self._lock:
            self._known = {}
            os.close(self._open(os.O_TRUNC))

    def keep(self, exchange: Exchange) -> None:
        """Write an exchange: it is in the file when this returns."""
        with self._lock:
            line = msgspec.json.encode(exchange) + b"\n"
            file = self._open(os.O_APPEND)
            try:
                while line:
                    line = line[os.write(file, line) :]
            finally:
                os.close(file)

    def answer(self, request: Mapping[str, Any], repeat: int) -> dict[str, Any]:
        """Return the recorded answer to a request; of several, that of this repeat. Raises RecordingError."""
        with self._lock:
            if self._known is None:
                self._known = self._read()
        found = self._known.get(key_of(request))
        if found:
            return next((each for each in reversed(found) if each.repeat == repeat), found[-1]).answer
        recorded = [each.request for some in self._known.values() for each in some]
        text = f"this request is not recorded; make it anew with --record.\n{what_changed(request, recorded)}"
        raise RecordingError(visible_line(str(self.file)), text)

    def _read(self) -> dict[str, list[Exchange]]:
        name = visible_line(str(self.file))
        try:
            content = read_beneath(self._root, f"{self._inner}/{self._name}", _MAX_BYTES)
        except FileNotFoundError as error:
            raise RecordingError(name, "there is no such recording; make it with --record.") from error
        except OSError as error:
            raise RecordingError(name, f"it cannot be read ({error.strerror or error}).") from error
        known: dict[str, list[Exchange]] = {}
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            try:
                exchange = msgspec.json.decode(line, type=Exchange)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise RecordingError(
                    f"{name}:{number}", f"this is no recorded exchange ({error})."
                ) from error
            known.setdefault(exchange.key, []).append(exchange)
        return known

    def _open(self, flags: int) -> int:
        try:
            folder = make_folder_beneath(self._root, self._inner)
            try:
                flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                return os.open(self._name, flags, 0o644, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            why = f"it cannot be written ({error.strerror or error})."
            raise RecordingError(visible_line(str(self.file)), why) from error


def recording_of(case: EvalCase, model: str) -> Recording:
    """Return where the answers of a model in a case are kept. Raises RecordingError for a case of no file."""
    if not case.file:
        raise RecordingError(case.id, "a case that is in no file has no place for a recording.")
    name = f"{_UNSAFE.sub('-', case.id)[-100:]}.{_UNSAFE.sub('-', model)[-60:]}.jsonl"
    root = file_of(case).parent
    # Beside SKILL.md it would be a file of the skill, and change what the agent is told.
    is_skill = (root / SKILL_FILE).is_file()
    return Recording(root, f"{EVALS_FOLDER}/{FOLDER}" if is_skill else FOLDER, name)


class RecordedChatModel(BaseChatModel):
    """A chat model that keeps what another one is asked and answers, or plays what was kept of one.

    It binds tools and streams as the other does.
    """

    label: str
    """The name of the model."""
    _inner: BaseChatModel | None = PrivateAttr(default=None)
    _recording: Recording = PrivateAttr()
    _normal: Normal = PrivateAttr()
    _repeat: int = PrivateAttr(default=0)
    _redaction: Redaction = PrivateAttr()

    @classmethod
    def of(
        cls,
        label: str,
        inner: BaseChatModel | None,
        recording: Recording,
        normal: Normal,
        redaction: Redaction,
        repeat: int,
    ) -> "RecordedChatModel":
        """Return a model that records `inner`, or plays the recording where that is None."""
        made = cls(label=label, profile=inner.profile if inner is not None else None)
        made._inner, made._recording, made._normal = inner, recording, normal
        made._repeat, made._redaction = repeat, redaction
        return made

    @property
    def _llm_type(self) -> str:
        return "recorded"

    @property
    def recorded(self) -> BaseChatModel | None:
        """Return the model that is asked; None where answers are played."""
        return self._inner

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        if self._inner is None:
            return super()._get_ls_params(stop, **kwargs)
        return InnerModel(self._inner).tracing(stop, **kwargs)

    @override
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with tools that it may call."""
        shown = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in tools]
        if self._inner is None:
            return self.bind(**{_TOOLS: shown})
        bound = self._inner.bind_tools(tools, **kwargs)
        if not isinstance(bound, RunnableBindingBase) or bound.bound is not self._inner:
            raise RecordingError(self.label, "this model binds its tools in a way that cannot be recorded.")
        return self.bind(**{**bound.kwargs, _TOOLS: shown})

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._normal.request(messages, kwargs.pop(_TOOLS, ()))
        if self._inner is None:
            return ChatResult(generations=[ChatGeneration(message=self._played(request))])
        result = InnerModel(self._inner).generate(messages, stop, run_manager, **kwargs)
        generation = result.generations[0]
        if isinstance(generation.message, AIMessage):
            # Why it ended, Anthropic's package says beside the message: LangChain puts it in afterwards.
            facts = {**(result.llm_output or {}), **(generation.generation_info or {})}
            self._keep(request, generation.message, facts)
        return result

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = self._normal.request(messages, kwargs.pop(_TOOLS, ()))
        if self._inner is None:
            yield from message_chunks(self._played(request))
            return
        whole: AIMessageChunk | None = None
        facts: dict[str, Any] = {}
        for chunk in InnerModel(self._inner).stream(messages, stop, run_manager, **kwargs):
            facts |= chunk.generation_info or {}
            if isinstance(chunk.message, AIMessageChunk):
                whole = chunk.message if whole is None else whole + chunk.message
            yield chunk
        if whole is not None:
            self._keep(request, whole, facts)

    def _played(self, request: Mapping[str, Any]) -> AIMessage:
        answer = self._recording.answer(request, self._repeat)
        try:
            return AIMessage(**answer)
        except ValueError as error:
            name = visible_line(str(self._recording.file))
            raise RecordingError(name, "an answer in it is no message of a model.") from error

    def _keep(self, request: dict[str, Any], message: AIMessage, facts: Mapping[str, Any]) -> None:
        whole = {**facts, **message.response_metadata}
        metadata = {name: each for name, each in whole.items() if name not in _NOT_KEPT}
        answer = {name: getattr(message, name) for name in _KEPT} | {"response_metadata": metadata}
        plain = json.loads(json.dumps({name: each for name, each in answer.items() if each}, default=str))
        shown = {"content": message.content, **self._redaction.whole(plain)}
        self._recording.keep(
            Exchange(key=key_of(request), repeat=self._repeat, request=request, answer=shown)
        )


class Recordings:
    """The recordings of a run: one for each case and model, made when it is asked for."""

    def __init__(
        self,
        resolve: Callable[[str], BaseChatModel] | None,
        normal: Normal,
        redaction: Redaction,
        *,
        anew: bool,
    ) -> None:
        """Record what `resolve` makes of a model's name, or play where that is None.

        `anew` forgets what was recorded earlier: not where a run goes on that was cut off.
        """
        self._resolve, self._normal, self._redaction, self._anew = resolve, normal, redaction, anew
        self._lock = Lock()
        self._made: dict[tuple[str, str], Recording] = {}
        self._models: dict[str, BaseChatModel] = {}

    @property
    def is_played(self) -> bool:
        """Return whether nothing is asked: all answers were recorded."""
        return self._resolve is None

    def model_of(self, case: EvalCase, model: str, repeat: int) -> BaseChatModel | None:
        """Return the model of a case; None for one that answers in this process, which nobody records."""
        if model.partition(":")[0] in IN_PROCESS:
            return None
        with self._lock:
            recording = self._made.get((case.id, model))
            if recording is None:
                recording = self._made[case.id, model] = recording_of(case, model)
                if self._resolve and self._anew:
                    recording.begin()
            if self._resolve and model not in self._models:
                self._models[model] = self._resolve(model)
            inner = self._models.get(model)
        return RecordedChatModel.of(model, inner, recording, self._normal, self._redaction, repeat)


def recordings_of(
    settings: Settings, places: Sequence[Path], recording: RecordingMode, *, anew: bool
) -> Recordings:
    """Return where the models of a run come from that records, or plays what was recorded."""
    folders = {str(each): f"<skills-{number}>" for number, each in enumerate(catalog_folders(places))}
    folders |= {str(settings.workspace): "<workspace>", str(BUNDLED_FOLDER): "<bundled>"}
    folders |= {os.path.realpath(each): name for each, name in folders.items()}
    redaction = redaction_of(settings)
    environment = process_environment()

    def resolve(name: str) -> BaseChatModel:
        return resolve_model(name, environment=environment, parameters=settings.model_parameters)

    return Recordings(
        resolve if recording == "record" else None, Normal(folders, redaction), redaction, anew=anew
    )
