"""What runs the calls of tools: LangGraph's ToolNode, over the tools that are offered at the moment."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest

from skills_agent.graph.tools.offered import OfferedTools
from skills_agent.nodes.act import keep_reply
from skills_agent.nodes.results import shown
from skills_agent.nodes.timeouts import TimedCalls
from skills_agent.skills.policy.verdict import AnswerRefusedError
from skills_agent.skills.text import cut

logger = logging.getLogger(__name__)

_LONGEST_FAILURE: Final = 10_000
"""Characters of what a tool raised."""


def tool_node(tools: OfferedTools, timed: TimedCalls) -> ToolNode:
    """Return the node. It takes a tool that joins later from the request: it knows the first alone."""

    def of_now(request: ToolCallRequest) -> ToolCallRequest:
        tool = tools.get(request.tool_call["name"])
        return request if request.tool or tool is None else request.override(tool=tool)

    def call(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        return timed.call(of_now(request), execute)

    async def await_call(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return await keep_reply(of_now(request), lambda given: timed.await_call(given, execute))

    return ToolNode(
        list(tools.values()),
        handle_tool_errors=_failure_text,
        wrap_tool_call=call,
        awrap_tool_call=await_call,
    )


def _failure_text(error: Exception) -> str:
    if isinstance(error, AnswerRefusedError):  # of a tool that asks: its question stays open
        raise error
    text = shown(error)
    logger.warning("tool failed", exc_info=error if len(text) <= _LONGEST_FAILURE else None)
    return f"The tool failed: {type(error).__name__}: {cut(text, _LONGEST_FAILURE)}"
