"""Time that passes: a client hears how long a model is waited for."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from threading import Thread
from typing import Final, TypeVar

Result = TypeVar("Result")

LOOK_SECONDS: Final = 0.1
"""Between two looks whether a call is waited for any more."""
BEAT_SECONDS: Final = 10.0
"""Between two events that say that a model still thinks."""

Beat = Callable[[int], object]
"""Hears again and again for how many seconds something takes by now; perhaps in another thread."""


def in_own_thread(call: Callable[[], Result], name: str | None = None) -> "Future[Result]":
    """Begin a call in a thread of its own, as no thread can be ended from outside; return its result to come.

    A process that ends does not wait for it.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
    return future


def attended(call: Callable[[], Result], beat: Beat | None, check: Callable[[], None]) -> Result:
    """Return what a call returns that may take long; tell of the time. Raises what `check` raises meanwhile.

    One that is left goes on in its own thread, and nobody hears of it.
    """
    future = in_own_thread(call)
    start = told = time.monotonic()
    while not wait({future}, LOOK_SECONDS).done:
        check()
        if beat and (now := time.monotonic()) - told >= BEAT_SECONDS:
            told = now
            beat(round(now - start))
    return future.result()


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
