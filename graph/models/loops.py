"""OpenAI's asynchronous client, once for each event loop: a connection works only on the loop that opened it.

langchain-openai keeps one for a process. A program that calls `asyncio.run` twice would get "Event loop is
closed" the second time, from a connection that the first had left open.
"""

import asyncio
from functools import cache
from threading import Lock
from typing import Any, Final
from weakref import ref

import openai

_LOCK: Final = Lock()
"""Each thread may have a loop."""


@cache
def _first_loop() -> "ref[asyncio.AbstractEventLoop]":
    return ref(asyncio.get_running_loop())


class LoopClients:
    """Stands for a client of OpenAI's: whatever is asked of it is asked of the running loop's."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        """Take the client of the first loop of the process; each other one gets a copy, with connections."""
        self._client = client
        self._copies: dict[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = {}

    def here(self) -> openai.AsyncOpenAI:
        """Return the client of the loop that runs now."""
        loop = asyncio.get_running_loop()
        with _LOCK:
            if _first_loop()() is loop:
                return self._client
            for each in [each for each in self._copies if each.is_closed()]:
                del self._copies[each]
            if loop not in self._copies:
                self._copies[loop] = self._client.copy(http_client=openai.DefaultAsyncHttpxClient())
            return self._copies[loop]

    def __getattr__(self, name: str) -> Any:
        """Return what the client of this loop has of that name."""
        return getattr(self.here(), name)
