"""Cancellation: whether the caller of an invocation has left it, and what of it is still under way.

No thread can be ended from outside. What runs in one is asked to end and waited for; what does not end is
left after STOP_SECONDS, and notes its own result when it returns.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from math import inf
from threading import Lock
from typing import Final, TypeVar

STOP_SECONDS: Final = 10
"""How long whoever cancels waits for what does not end: a script has ended long before."""

AWAKE_SECONDS: Final = 0.5
"""Between two moments in which an event loop that waits for a thread looks at what came from other threads.

`langgraph dev` with BG_JOB_ISOLATED_LOOPS cancels a run from another loop and wakes nobody.
"""

Result = TypeVar("Result")


class Cancellation:
    """Of one invocation; a tool that runs for long may look at it."""

    def __init__(self, around: "Cancellation | None" = None) -> None:
        """`around` is that of the invocation whose node makes this one."""
        self._around = around
        self._lock = Lock()
        self._parts = 0
        self._moment = inf
        """When the caller left."""
        self._endings: list[Callable[[], None]] = []

    @property
    def is_requested(self) -> bool:
        """Return whether the caller has left."""
        return self._moment < inf or (self._around is not None and self._around.is_requested)

    @property
    def is_overdue(self) -> bool:
        """Return whether the caller has left so long ago that what still runs is not waited for."""
        is_late = time.monotonic() - self._moment > STOP_SECONDS
        return is_late or (self._around is not None and self._around.is_overdue)

    def request(self) -> None:
        """Ask what is under way to end."""
        self._moment = min(self._moment, time.monotonic())

    def refuse_start(self) -> None:
        """Raise CancelledError where nothing more may begin."""
        if self.is_requested:
            raise asyncio.CancelledError

    @contextmanager
    def part(self) -> Iterator[None]:
        """Count the block as under way."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    def when_idle(self, ending: Callable[[], None]) -> None:
        """Call `ending` when nothing is under way: at once, or in the thread of what ends last."""
        with self._lock:
            if self._parts:
                self._endings.append(ending)
                return
        ending()

    async def in_thread(self, function: Callable[..., Result], *args: object) -> Result:
        """Call a function in a thread, as asyncio.to_thread does, but pass a cancellation on and wait.

        It is waited for at most STOP_SECONDS, and not after a second cancellation; it counts as under way
        until it has returned, whatever becomes of the event loop.
        """
        loop, context = asyncio.get_running_loop(), copy_context()
        call: Future[Result] = Future()

        def run() -> Result:
            if not call.set_running_or_notify_cancel():
                raise asyncio.CancelledError
            try:
                result = context.run(function, *args)
            except BaseException as error:
                call.set_exception(error)
                raise
            call.set_result(result)
            return result

        self._begin()
        call.add_done_callback(lambda _: self._end())
        awake = loop.call_later(AWAKE_SECONDS, _stay_awake, loop, call)
        try:
            return await loop.run_in_executor(None, run)
        except asyncio.CancelledError:
            if not call.cancel():  # it had begun
                self.request()
                await _ended(call)
            raise
        except RuntimeError:
            call.cancel()  # where the executor takes nothing any more
            raise
        finally:
            awake.cancel()

    def _begin(self) -> None:
        with self._lock:
            self._parts += 1

    def _end(self) -> None:
        with self._lock:
            self._parts -= 1
            endings, self._endings = ([], self._endings) if self._parts else (self._endings, [])
        for ending in endings:
            ending()


def _stay_awake(loop: asyncio.AbstractEventLoop, call: "Future[Result]") -> None:
    if not call.done():
        loop.call_later(AWAKE_SECONDS, _stay_awake, loop, call)


async def _ended(call: "Future[Result]") -> None:
    waiter = asyncio.wrap_future(call)
    try:
        await asyncio.wait({waiter}, timeout=STOP_SECONDS)
    finally:
        if waiter.done() and not waiter.cancelled():
            waiter.exception()  # or asyncio would log that nobody looked
        waiter.cancel()  # or it would be told of the end on a loop that may be closed by then
