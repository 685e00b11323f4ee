"""Trace: spans that say which skill, in which version, and by whose word a call ran.

Names are those of OpenTelemetry's conventions for generative AI (status: development), execute-tool.md of
open-telemetry/semantic-conventions-genai: `execute_tool load_skill NAME`, `gen_ai.skill.name`. What has no
name there begins with `skills_agent.`. Without a tracer, OpenTelemetry makes spans that do nothing.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final
from uuid import UUID

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langsmith import get_current_run_tree
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from typing_extensions import override

from skills_agent.parts.shared import Part
from skills_agent.state.records import LoadedSkill, active_skills
from skills_agent.state.transcript import LOAD_SKILL

Attributes = dict[str, str | int]

_TRACER: Final = trace.get_tracer("skills_agent")
_RESOURCE: Final = "gen_ai.skill.resource.name"
_NAMES: Final = {
    "skill_name": "gen_ai.skill.name",
    "skill_digest": "gen_ai.skill.version",
    "skill_source": "skills_agent.skill.source",
    "verdict": "skills_agent.verdict.decision",
    "verdict_by": "skills_agent.verdict.by",
}
"""By the names of the metadata that our own graph gives to the runs of tools, those of attributes."""


class Trace(Part):
    """Spans for model calls, tool calls and loads; the same facts are metadata of LangSmith's runs.

    `TraceHandler` makes them where no middleware is called, as in our own graph.
    """

    kind: ClassVar[str] = "trace"

    def __init__(self) -> None:
        super().__init__({})

    @override
    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        with _spanned(*_chat(request)) as span:
            return _told(span, handler(request))

    @override
    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        with _spanned(*_chat(request)) as span:
            return _told(span, await handler(request))

    @override
    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        with _spanned(*_tool(request)) as span:
            return _ended(span, handler(request))

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        with _spanned(*_tool(request)) as span:
            return _ended(span, await handler(request))


@contextmanager
def _spanned(name: str, attributes: Attributes) -> Iterator[Span]:
    kind = SpanKind.CLIENT if name.startswith("chat") else SpanKind.INTERNAL
    if run := get_current_run_tree():
        run.add_metadata(attributes)
        run.add_tags([f"skill:{skill}"] if (skill := attributes.get("gen_ai.skill.name")) else [])
    with _TRACER.start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except GraphBubbleUp:  # a question to a person is no fault
            span.set_attribute("skills_agent.outcome", "asked")
            raise
        except Exception as error:
            _failed(span, error)
            raise


def _failed(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _chat(request: ModelRequest[Any]) -> tuple[str, Attributes]:
    model = str(getattr(request.model, "model_name", "") or getattr(request.model, "model", "") or "model")
    state: Mapping[str, Any] = request.state
    loaded = sorted(active_skills(state.get("skills_loaded")))
    named: Attributes = {"skills_agent.skills_loaded": ",".join(loaded)} if loaded else {}
    return f"chat {model}", {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, **named}


def _tool(request: ToolCallRequest) -> tuple[str, Attributes]:
    call, state = request.tool_call, request.state if isinstance(request.state, Mapping) else {}
    verdict = (state.get("verdicts") or {}).get(call["id"])
    by: Attributes = (
        {_NAMES["verdict"]: verdict["decision"], _NAMES["verdict_by"]: verdict["by"]} if verdict else {}
    )
    skill = active_skills(state.get("skills_loaded")).get(str(call["args"].get("skill")))
    of_skill = _of_skill(skill, call["args"].get("path")) if skill else {}
    return _of_call(call["name"], call["id"] or "", {**by, **of_skill})


def _of_call(tool: str, call_id: str, more: Attributes) -> tuple[str, Attributes]:
    named = (tool, more.get("gen_ai.skill.name"), more.get(_RESOURCE))
    own: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
    }
    return " ".join(["execute_tool", *(str(each) for each in named if each)]), {**own, **more}


def _of_skill(skill: LoadedSkill, resource: object = None) -> Attributes:
    named: Attributes = {
        "gen_ai.skill.name": skill["name"],
        "gen_ai.skill.version": skill["digest"],
        "gen_ai.skill.source.uri": _uri(skill["path"]),
        "skills_agent.skill.source": skill["source"],
    }
    return {**named, **({_RESOURCE: str(resource)} if resource else {})}


def _uri(path: str) -> str:
    """Return where a SKILL.md is: one that is in no folder has an address already."""
    return Path(path).as_uri() if Path(path).is_absolute() else path


def trace_loads(before: Mapping[str, Any] | None, ledger: Mapping[str, LoadedSkill], start: int) -> None:
    """Make a span of each load: what a ledger has that it had not before; `start` in ns since 1970."""
    known = {(each["name"], each["order"]) for each in (before or {}).values()}
    for skill in ledger.values():
        if (skill["name"], skill["order"]) in known or skill["unloaded"]:
            continue
        by: Attributes = {"skills_agent.skill.asked_by": skill["asked_by"]}
        name, attributes = _of_call(LOAD_SKILL, skill["call_id"], {**_of_skill(skill), **by})
        _TRACER.start_span(name, attributes=attributes, start_time=start).end()


def _told(span: Span, response: ModelResponse[Any]) -> ModelResponse[Any]:
    _count(span, response.result)
    return response


def _count(span: Span, messages: Sequence[BaseMessage]) -> None:
    for message in messages:
        if isinstance(message, AIMessage) and (usage := message.usage_metadata):
            details = usage.get("input_token_details") or {}
            counts = {
                "gen_ai.usage.input_tokens": usage["input_tokens"],
                "gen_ai.usage.output_tokens": usage["output_tokens"],
                "gen_ai.usage.cache_read.input_tokens": details.get("cache_read") or 0,
            }
            span.set_attributes(counts)


def _ended(span: Span, result: Any) -> Any:
    if getattr(result, "status", "") == "error":
        span.set_attribute("error.type", "tool_error")
        span.set_status(Status(StatusCode.ERROR))
    return result


class TraceHandler(BaseCallbackHandler):
    """The same spans by LangChain's callbacks: for our own graph, whose runs of tools have the facts."""

    def __init__(self) -> None:
        self._spans: dict[UUID, Span] = {}

    @override
    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any) -> None:
        model = str((more.get("metadata") or {}).get("ls_model_name") or "model")
        self._begin(run_id, f"chat {model}", {"gen_ai.operation.name": "chat", "gen_ai.request.model": model})

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        if span := self._spans.pop(run_id, None):
            _count(span, [each.message for each in response.generations[0] if hasattr(each, "message")])
            span.end()

    @override
    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **more: Any) -> None:
        told, inputs = more.get("metadata") or {}, more.get("inputs") or {}
        facts = {name: told[key] for key, name in _NAMES.items() if key in told}
        if "skill_name" in told:
            facts["gen_ai.skill.source.uri"] = _uri(told["skill_path"])
            facts |= {_RESOURCE: str(inputs["path"])} if inputs.get("path") else {}
        self._begin(run_id, *_of_call(serialized["name"], str(more.get("tool_call_id")), facts))

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        if span := self._spans.pop(run_id, None):
            _ended(span, output)
            span.end()

    @override
    def on_chain_end(self, outputs: Any, **more: Any) -> None:
        """Note the loads of our node `load`: no tool runs for them."""
        if isinstance(outputs, dict) and "skill_resources" in outputs:
            trace_loads({}, outputs["skills_loaded"], time.time_ns())

    @override
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        if span := self._spans.pop(run_id, None):
            _failed(span, error)
            span.end()

    on_tool_error = on_llm_error

    def _begin(self, run: UUID, name: str, attributes: Attributes) -> None:
        self._spans[run] = _TRACER.start_span(name, attributes=attributes)
