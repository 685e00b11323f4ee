"""Time that passes: a client hears how long a model is waited for."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, Thread
from typing import Final

BEAT_SECONDS: Final = 10.0
"""Between two events that say that a model still thinks."""

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
