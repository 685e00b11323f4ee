"""What runs the calls of tools: LangGraph's ToolNode, over the tools that are offered at the moment.

A host's tool is not waited for without end. A coroutine is cancelled at its limit. Nothing can stop a
function: it is left to itself, what it does is unknown, and the same effect is not started beside it before
it has returned.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest

from skills_agent.graph.tools.tool_table import ToolTable
from skills_agent.nodes.act import keep_reply
from skills_agent.nodes.cancellation import STOP_SECONDS
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.timeouts import in_own_thread
from skills_agent.skills.policy.verdict import AnswerRefusedError
from skills_agent.skills.text import cut
from skills_agent.state.call_attempt import RUNNING_CALL

logger = logging.getLogger(__name__)

_LONGEST_FAILURE: Final = 10_000
"""Characters of what a tool raised."""


def tool_node(tools: ToolTable, running: Invocations) -> ToolNode:
    """Return the node. It takes a tool that joins later from the request: it knows the first alone."""
    timed = _TimedCalls(tools, running)

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
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the code of a host's class may raise anything
        text = ""
    logger.warning("tool failed", exc_info=error if len(text) <= _LONGEST_FAILURE else None)
    return f"The tool failed: {type(error).__name__}: {cut(text, _LONGEST_FAILURE)}"


@dataclass(frozen=True)
class _TimedCalls:
    """Runs the calls of a host's tools within their time; the agent's own have limits of their own."""

    tools: ToolTable
    running: Invocations

    def call(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        """Run a tool that blocks, in a thread of its own."""
        name = request.tool_call["name"]
        if name not in self.tools.limits:
            return execute(request)
        reply = in_own_thread(partial(execute, request), name)
        if not wait([reply], self.tools.limits[name]).done:
            self._leave(request, reply)
            return self._given_up(request, "it cannot be stopped, and may still run")
        try:
            return reply.result()
        except SystemExit as error:
            return _ended(request, error)
        except asyncio.CancelledError as error:
            if self.running.cancellation().is_requested:
                raise
            return _ended(request, error)

    async def await_call(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run a tool that is awaited."""
        name = request.tool_call["name"]
        if name not in self.tools.limits:
            return await execute(request)
        task = asyncio.ensure_future(execute(request))
        try:
            if not (await asyncio.wait({task}, timeout=self.tools.limits[name]))[0]:
                return await self._cancelled(request, task)
        except asyncio.CancelledError:
            task.cancel()
            return await task  # It may return all the same.
        if task.cancelled():  # By itself: nobody cancelled it here.
            return _ended(request, asyncio.CancelledError())
        return task.result()

    async def _cancelled(self, request: ToolCallRequest, task: "asyncio.Future[Any]") -> Any:
        task.cancel()
        await asyncio.wait({task}, timeout=STOP_SECONDS)
        if not task.done():
            self._leave(request, task)
            return self._given_up(request, "it does not end, and may still run")
        if not task.cancelled() and task.exception() is None:
            return task.result()
        return self._given_up(request, "it was stopped; what it did until then is done")

    def _leave(self, request: ToolCallRequest, reply: "Future[Any] | asyncio.Future[Any]") -> None:
        """Keep the same effect from being started until a call that was given up has returned."""
        call = request.runtime.config.get("configurable", {}).get(RUNNING_CALL)
        if call is not None and call.effect is not None:
            self.running.left.add(call.effect)
            reply.add_done_callback(lambda _: self.running.left.discard(call.effect))

    def _given_up(self, request: ToolCallRequest, state: str) -> ToolMessage:
        limit = self.tools.limits[request.tool_call["name"]]
        return _unknown(request, f"did not return within its {limit:g} seconds; {state}")


def _ended(request: ToolCallRequest, error: BaseException) -> ToolMessage:
    """Return the answer to a call of a tool that left by what ends programs and tasks, not by an error."""
    how = f"{type(error).__name__}: {error}".rstrip(": ")
    return _unknown(request, f"ended with {how} before it returned")


def _unknown(request: ToolCallRequest, what: str) -> ToolMessage:
    name, call_id = request.tool_call["name"], request.tool_call["id"]
    text = f"Outcome unknown: {name} {what}. Check what it would have changed before you call it again."
    return ToolMessage(text, tool_call_id=call_id, name=name, status="error", id=f"unknown-{call_id}")
