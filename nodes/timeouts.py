"""The time of a host's tool: while it runs a client hears so, and it is not waited for without end.

A coroutine is cancelled at its limit. Nothing can stop a function: it is left to itself, what it does is
unknown, and the same effect is not started beside it before it has returned.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from skills_agent.nodes.cancellation import STOP_SECONDS
from skills_agent.nodes.effects import AttemptKey, Invocations

ATTEMPT: Final = "__skills_agent_attempt"
"""Where, in `configurable`, a tool's call has the key of its attempt. It stays out of checkpoints."""
BEAT_SECONDS: Final = 10.0
"""Between two events that say that a tool still runs."""


@dataclass(frozen=True)
class TimedCalls:
    """Runs the calls of a host's tools within their time."""

    limits: Mapping[str, float | None]
    """Seconds for each of the host's tools; None: without end. The agent's own have limits of their own."""
    running: Invocations
    beat: Callable[[ToolCallRequest, int], None]
    """Tells clients that a call still runs, and for how many seconds by now."""

    def call(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        """Run a tool that blocks, in a thread of its own."""
        if request.tool_call["name"] not in self.limits:
            return execute(request)
        reply: Future[Any] = Future()
        context = copy_context()

        def run() -> None:
            try:
                reply.set_result(context.run(execute, request))
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                reply.set_exception(error)

        # A daemon: a process that ends does not wait for a tool that was given up.
        Thread(target=run, name=request.tool_call["name"], daemon=True).start()
        clock = _Clock(self.limits[request.tool_call["name"]])
        while not wait([reply], clock.until_beat).done:
            if clock.is_over:
                self._leave(request, reply)
                return _given_up(request, "it cannot be stopped, and may still run", clock.limit)
            self.beat(request, clock.seconds)
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
        if request.tool_call["name"] not in self.limits:
            return await execute(request)
        task = asyncio.ensure_future(execute(request))
        clock = _Clock(self.limits[request.tool_call["name"]])
        try:
            while not (await asyncio.wait({task}, timeout=clock.until_beat))[0]:
                if clock.is_over:
                    return await self._cancelled(request, task, clock.limit)
                self.beat(request, clock.seconds)
        except asyncio.CancelledError:
            task.cancel()
            return await task  # It may return all the same.
        if task.cancelled():  # By itself: nobody cancelled it here.
            return _ended(request, asyncio.CancelledError())
        return task.result()

    async def _cancelled(self, request: ToolCallRequest, task: "asyncio.Future[Any]", limit: float) -> Any:
        task.cancel()
        await asyncio.wait({task}, timeout=STOP_SECONDS)
        if not task.done():
            self._leave(request, task)
            return _given_up(request, "it does not end, and may still run", limit)
        if not task.cancelled() and task.exception() is None:
            return task.result()
        return _given_up(request, "it was stopped; what it did until then is done", limit)

    def _leave(self, request: ToolCallRequest, reply: "Future[Any] | asyncio.Future[Any]") -> None:
        """Keep the same effect from being started until a call that was given up has returned."""
        key: AttemptKey | None = request.runtime.config.get("configurable", {}).get(ATTEMPT)
        if key is not None:
            self.running.left.add(key)
            reply.add_done_callback(lambda _: self.running.left.discard(key))


class _Clock:
    """How long a call runs."""

    def __init__(self, limit: float | None) -> None:
        self.limit = math.inf if limit is None else limit
        self._start = time.monotonic()

    @property
    def seconds(self) -> int:
        """Return for how long it runs."""
        return round(time.monotonic() - self._start)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._start >= self.limit

    @property
    def until_beat(self) -> float:
        """Return the seconds until something is to be said, or the time is over."""
        passed = time.monotonic() - self._start
        return max(min(BEAT_SECONDS - passed % BEAT_SECONDS, self.limit - passed), 0)


def _ended(request: ToolCallRequest, error: BaseException) -> ToolMessage:
    """Return the answer to a call of a tool that left by what ends programs and tasks, not by an error."""
    name, call_id = request.tool_call["name"], request.tool_call["id"]
    how = f"{type(error).__name__}: {error}".rstrip(": ")
    text = (
        f"Outcome unknown: {name} ended with {how} before it returned. Check what it would have changed "
        "before you call it again."
    )
    return ToolMessage(text, tool_call_id=call_id, name=name, status="error", id=f"unknown-{call_id}")


def _given_up(request: ToolCallRequest, state: str, limit: float) -> ToolMessage:
    name, call_id = request.tool_call["name"], request.tool_call["id"]
    text = (
        f"Outcome unknown: {name} did not return within its {limit:g} seconds; {state}. Check what it would "
        "have changed before you call it again."
    )
    return ToolMessage(text, tool_call_id=call_id, name=name, status="error", id=f"unknown-{call_id}")
