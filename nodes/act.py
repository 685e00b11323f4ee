"""act: one tool call."""

import asyncio
import json
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.prebuilt import ToolNode
from langgraph.runtime import get_runtime
from langgraph.types import Command

from skills_agent.nodes.policy import call_digest, changed_text
from skills_agent.nodes.two_paths import TwoPaths
from skills_agent.skills.library import Library
from skills_agent.skills.skill import SkillRef
from skills_agent.state.context import Context, caller_of
from skills_agent.state.reducers import spent
from skills_agent.state.schema import AgentUpdate, CallRequest
from skills_agent.state.transcript import refusal

Outputs = list[AgentUpdate | Command[Any]]


def act(*, tools: ToolNode, library: Library) -> TwoPaths:
    """Return the node that runs one allowed call through LangGraph's ToolNode and counts it.

    What was approved is run, and nothing else: a call whose skill changed in between is refused. A tool
    that fails becomes a tool message of status error. The async path is for host tools that exist only
    as coroutines, as those of MCP servers do.
    """

    def sync_path(request: CallRequest) -> Outputs:
        if not _is_as_approved(request, library):
            return _refused(request)
        return _outputs(request, tools.invoke([request["call"]], get_config()))

    async def async_path(request: CallRequest) -> Outputs:
        if not await asyncio.to_thread(_is_as_approved, request, library):
            return _refused(request)
        return _outputs(request, await tools.ainvoke([request["call"]], get_config()))

    return TwoPaths("act", sync_path, async_path)


def _is_as_approved(request: CallRequest, library: Library) -> bool:
    if not request["approved"]:
        return True
    runtime = get_runtime(Context)
    place = SkillRef.of(request["skill"]) if request["skill"] else None
    registry = library.of(caller_of(runtime), runtime.store)
    return call_digest(request["call"], place, registry) == request["approved"]


def _refused(request: CallRequest) -> Outputs:
    call = request["call"]
    text = changed_text(call["name"])
    return [Command(update=AgentUpdate(messages=[refusal(call["id"] or "", call["name"], text)]))]


def _outputs(request: CallRequest, produced: Any) -> Outputs:
    """Return what the tool produced and what it cost.

    ToolNode hands back a dict, or a list where a tool returned Commands; LangGraph takes a list of
    updates only with a Command in it.
    """
    call = request["call"]
    outputs: Outputs = list(produced) if isinstance(produced, list) else [produced]
    if request["edited"]:
        for message in _messages(outputs):
            message.content = (
                f"[A person changed this call before it ran: {call['name']} "
                f"{json.dumps(call['args'], ensure_ascii=False)}]\n{message.text}"
            )
    cost = spent(request["turn"], tool_calls=1, script_runs=int(call["name"] == "run_script"))
    return [*outputs, Command(update=AgentUpdate(usage=cost))]


def _messages(outputs: Outputs) -> list[ToolMessage]:
    updates = [each.update if isinstance(each, Command) else each for each in outputs]
    return [
        message
        for update in updates
        if isinstance(update, dict)
        for message in update.get("messages", [])
        if isinstance(message, ToolMessage)
    ]
