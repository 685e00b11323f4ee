"""One HTTP client for each event loop: a connection works only on the loop that opened it.

langchain-openai keeps one asynchronous client for a process. A program that calls `asyncio.run` twice would
get "Event loop is closed" the second time, from a connection that the first had left open.
"""

import asyncio
from collections.abc import MutableMapping
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

import openai

_CLIENTS: Final[MutableMapping[Any, dict[asyncio.AbstractEventLoop, Any]]] = WeakKeyDictionary()
"""By the client that langchain-openai made, which the models of one server share."""
_LOCK: Final = Lock()


class LoopClient(openai.DefaultAsyncHttpxClient):
    """An asynchronous client that sends by another one, which is of the running event loop."""

    def __init__(self, shared: Any) -> None:
        """Take the shared client, for the first loop; later ones get one with its address and its timeout.

        Everything but sending is the shared one's own: to make a client of one's own loads certificates.
        """
        vars(self).update(vars(shared))
        self._shared = shared
        self._of_loops = _CLIENTS.setdefault(shared, {})

    async def send(self, *args: Any, **options: Any) -> Any:
        """Send a request on the loop that runs now."""
        loop = asyncio.get_running_loop()
        client = self._of_loops.get(loop)
        if client is None:
            with _LOCK:  # Each thread may have a loop.
                client = self._of_loops[loop] = self._made()
        return await client.send(*args, **options)

    def _made(self) -> Any:
        if not self._of_loops:
            return self._shared
        for loop, client in list(self._of_loops.items()):
            # The one of the shared client stays: it has to be known that it was used.
            if loop.is_closed() and client is not self._shared:
                del self._of_loops[loop]
        return openai.DefaultAsyncHttpxClient(base_url=self._shared.base_url, timeout=self._shared.timeout)
