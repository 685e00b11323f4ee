"""Time that passes: a client hears of it, and a host's tool is not waited for without end.

A coroutine is cancelled at its limit. Nothing can stop a function: it is left to itself, what it does is
unknown, and the same effect is not started beside it before it has returned.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from skills_agent.nodes.cancellation import STOP_SECONDS
from skills_agent.nodes.effects import AttemptKey, Invocations

ATTEMPT: Final = "__skills_agent_attempt"
"""Where, in `configurable`, a tool's call has the key of its attempt. It stays out of checkpoints."""
BEAT_SECONDS: Final = 10.0
"""Between two events that say that a tool still runs, or that a model still thinks."""

Beat = Callable[[int], object]
"""Hears again and again for how many seconds something takes by now; perhaps in another thread."""


@contextmanager
def beating(beat: Beat | None) -> Iterator[None]:
    """Tell of the time that a block takes which holds its thread."""
    if beat is None:
        yield
        return
    over, start = Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(BEAT_SECONDS):
            beat(round(time.monotonic() - start))

    Thread(target=copy_context().run, args=(tell,), daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def beating_in_loop(beat: Beat | None) -> Iterator[None]:
    """Tell of the time that a block takes which awaits something: no thread of its own."""
    if beat is None:
        yield
        return
    start = time.monotonic()

    async def tell() -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            beat(round(time.monotonic() - start))

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


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
        limit = self.limits[request.tool_call["name"]]
        with beating(partial(self.beat, request)):
            if not wait([reply], limit).done:
                self._leave(request, reply)
                return _given_up(request, "it cannot be stopped, and may still run", limit)
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
        limit = self.limits[request.tool_call["name"]]
        try:
            with beating_in_loop(partial(self.beat, request)):
                if not (await asyncio.wait({task}, timeout=limit))[0]:
                    return await self._cancelled(request, task, limit)
        except asyncio.CancelledError:
            task.cancel()
            return await task  # It may return all the same.
        if task.cancelled():  # By itself: nobody cancelled it here.
            return _ended(request, asyncio.CancelledError())
        return task.result()

    async def _cancelled(
        self, request: ToolCallRequest, task: "asyncio.Future[Any]", limit: float | None
    ) -> Any:
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


def _ended(request: ToolCallRequest, error: BaseException) -> ToolMessage:
    """Return the answer to a call of a tool that left by what ends programs and tasks, not by an error."""
    name, call_id = request.tool_call["name"], request.tool_call["id"]
    how = f"{type(error).__name__}: {error}".rstrip(": ")
    text = (
        f"Outcome unknown: {name} ended with {how} before it returned. Check what it would have changed "
        "before you call it again."
    )
    return ToolMessage(text, tool_call_id=call_id, name=name, status="error", id=f"unknown-{call_id}")


def _given_up(request: ToolCallRequest, state: str, limit: float | None) -> ToolMessage:
    name, call_id = request.tool_call["name"], request.tool_call["id"]
    text = (
        f"Outcome unknown: {name} did not return within its {limit:g} seconds; {state}. Check what it would "
        "have changed before you call it again."
    )
    return ToolMessage(text, tool_call_id=call_id, name=name, status="error", id=f"unknown-{call_id}")
