"""The connection to one server: made when it is first wanted, and again where it was lost.

All of it runs in one event loop, that of `McpServers`. The client of the SDK is entered and left in one task,
because its task groups have to be. Imports the SDK (the extra `mcp`), so only functions import this.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any, Final

import anyio
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    Tool,
)
from pydantic import ValidationError

from skills_agent.graph.settings import Settings
from skills_agent.mcp.definitions import MAX_SHOWN
from skills_agent.mcp.entries import EXTENSION
from skills_agent.mcp.http import address_streams
from skills_agent.mcp.servers import McpServer, McpServerError, filled
from skills_agent.mcp.stdio import program_streams
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.text import cut, one_line
from skills_agent.skills.visible import visible_line

CONNECT_SECONDS: Final = 60.0
"""For one attempt: `npx` may fetch a server first. A turn waits as long as `connect_timeout` says."""
RETRY_SECONDS: Final = 60.0
"""Between two attempts to reach a server that could not be reached. No turn waits for a later one."""
MAX_PAGES: Final = 50
MAX_OFFERS: Final = 2_000
"""Tools of one server that are looked at."""
MAX_CAUSE: Final = 300
"""Characters of a reason."""

_USED: Final = ("name", "title", "description", "inputSchema", "annotations")
"""What is read of a tool."""

_LOST: Final = frozenset({"Connection closed", "Session terminated"})
"""What the SDK says where a connection is of no more use."""


class Connection:
    """One server. A lost connection is made anew for the next call; the lost call is not repeated."""

    def __init__(
        self, name: str, server: McpServer, settings: Settings, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self._server = server
        self._settings, self._environment = settings, environment
        self._said: deque[bytes] = deque(maxlen=1)
        """The end of what a program says on stderr."""
        self._session: _Session | None = None
        self.was_open = False
        """Whether it was connected once."""
        self.is_stale = True
        """Whether its tools may be others than those that it listed: it said so, or was started again."""
        self.faults: deque[str] = deque(maxlen=20)
        """Tools that are no tools by MCP's schema: found before the SDK refuses the whole list for one."""
        self.attempt: Future[None] | None = None
        """To connect it and list its tools, begun at `started` and waited for until `deadline`."""
        self.started = self.deadline = 0.0
        self.wanted = 0.0
        """When it was first wanted: what waits for the first connection waits from then on."""
        self.is_listed = False
        self.tools = 0
        """That are offered."""
        self.fault = ""
        """Why the last attempt failed."""
        self.left_out: tuple[str, ...] = ()
        """Why tools are not offered."""

    @property
    def is_open(self) -> bool:
        """Return whether the server is connected now."""
        return self._session is not None and not self._session.is_over

    def is_due(self, now: float) -> bool:
        """Return whether it is to be connected, or asked for its tools, again."""
        if self.is_listed and not self.is_stale:
            return False
        is_soon = bool(self.fault) and now - self.started <= RETRY_SECONDS
        return self.attempt is None or (self.attempt.done() and not is_soon)

    async def client(self) -> Client:
        """Return the client of a connection that is open. Raises McpServerError."""
        if self._session is None or self._session.is_over:
            self._said.clear()
            self.is_stale = True
            self._session = _Session(self._new_client)
        try:
            client = await asyncio.shield(self._session.client)
        except Exception as error:
            raise McpServerError(self.name, f"it cannot be reached ({self._cause(error)}).") from error
        self.was_open = True
        return client

    async def offers(self) -> list[dict[str, Any]]:
        """Return what the server says of its tools, as JSON. Raises McpServerError."""
        client = await self.client()
        self.is_stale = False
        self.faults.clear()
        offers: list[dict[str, Any]] = []
        cursor: str | None = None
        if client.server_capabilities.tools is None:
            return []
        try:
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
                offers += [
                    tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools
                ]
                previous, cursor = cursor, page.next_cursor
                if not cursor or cursor == previous or len(offers) >= MAX_OFFERS:
                    break
        except Exception as error:
            self.is_stale = True
            raise McpServerError(self.name, f"it does not list its tools ({self._cause(error)}).") from error
        return offers[:MAX_OFFERS]

    async def ask(self, work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        """Do something with the client that changes nothing at the server. Raises McpServerError.

        What `work` raises of the project's own errors is raised as it is.
        """
        client = await self.client()
        try:
            return await work(client)
        except SkillsAgentError:
            raise
        except TimeoutError as error:
            raise McpServerError(self.name, "it does not answer in time.") from error
        except Exception as error:
            if str(error) in _LOST:
                self._drop()
            raise McpServerError(
                self.name, f"it does not answer as MCP has it ({self._cause(error)})."
            ) from error

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float | None) -> Any:
        """Call a tool; return the SDK's CallToolResult. Raises McpServerError.

        A call that is cancelled, or is not answered in time, is cancelled at the server.
        """
        for is_last in (False, True):
            client = await self.client()
            try:
                async with asyncio.timeout(seconds):
                    return await _sent(client, tool, dict(arguments))
            except TimeoutError as error:
                raise self._unknown(f"{tool} did not return within {seconds:g} seconds") from error
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    self._drop()
                    raise self._unknown(f"it ended while {tool} ran{self._last_words()}") from error
                # The server has forgotten the session, and done nothing: MCP's answer to that is a new one.
                if error.code == INVALID_REQUEST and error.message == "Session terminated":
                    self._drop()
                    if not is_last:
                        continue
                raise McpServerError(self.name, f"{tool} failed ({self._cause(error)}).") from error
            except ValidationError as error:
                raise self._unknown(f"the answer of {tool} is not understood") from error
            except Exception as error:
                self._drop()
                raise self._unknown(f"{tool} was not answered ({self._cause(error)})") from error
        raise AssertionError("the second attempt returns or raises")

    async def close(self) -> None:
        """Leave the server; a program is ended."""
        if self._session:
            await self._session.close()

    def _drop(self) -> None:
        if self._session:
            self._session.leave.set()

    def _unknown(self, what: str) -> McpServerError:
        return McpServerError(
            self.name, f"outcome unknown: {what}. Check what it would have changed before you call it again."
        )

    def _cause(self, error: BaseException) -> str:
        leaf = _leaf(error)
        text = str(leaf) or type(leaf).__name__
        return visible_line(cut(one_line(text), MAX_CAUSE)) + self._last_words()

    def _last_words(self) -> str:
        said = one_line(b"".join(self._said).decode(errors="replace"))
        return f"; it said: {visible_line(said[-MAX_CAUSE:])}" if said else ""

    def _new_client(self, ended: asyncio.Event) -> Client:
        own = Implementation(name="skills-agent", version=version("skills-agent"))
        extensions = [advertise(EXTENSION)] if self._server.skills else []
        return Client(self._watched(ended), client_info=own, cache=None, extensions=extensions)

    @asynccontextmanager
    async def _watched(self, ended: asyncio.Event) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams; set `ended` when the server says no more, and take bad tools out of lists."""

        async def pass_on(incoming: Any, to_client: Any) -> None:
            try:
                async with to_client:
                    async for message in incoming:
                        self._look_at(message)
                        await to_client.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # The client has left.
            finally:
                ended.set()

        server, environment = self._server, self._environment
        streams = (
            address_streams(server.url, filled(server.headers, environment))
            if server.url
            else program_streams(server, self._settings, environment, self._said)
        )
        async with (
            streams as (incoming, outgoing),
            anyio.create_task_group() as group,
        ):
            to_client, from_server = anyio.create_memory_object_stream[Any](0)
            async with to_client, from_server:
                group.start_soon(pass_on, incoming, to_client)
                try:
                    yield from_server, outgoing
                finally:
                    group.cancel_scope.cancel()

    def _look_at(self, message: Any) -> None:
        """Leave of a list of tools what is a tool in every version of MCP, and of each what is used here."""
        content = getattr(message, "message", None)
        if getattr(content, "method", "") == "notifications/tools/list_changed":
            self.is_stale = True
        result = getattr(content, "result", None)
        if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return
        kept = []
        for tool in result["tools"][:MAX_OFFERS]:
            try:
                Tool.model_validate(tool, by_name=False)
                is_tool = tool["inputSchema"].get("type") == "object"
            except ValidationError:
                is_tool = False
            if is_tool:
                kept.append({name: tool[name] for name in _USED if name in tool})
            else:
                name = tool.get("name") if isinstance(tool, dict) else tool
                self.faults.append(f"{visible_line(cut(str(name), MAX_SHOWN))}: it is no tool of MCP")
        result["tools"] = kept


class _Session:
    """One connection while it lasts."""

    def __init__(self, new_client: Callable[[asyncio.Event], Client]) -> None:
        """Connect by a client that sets the event where the server says no more."""
        loop = asyncio.get_running_loop()
        self.leave = asyncio.Event()
        self.client: asyncio.Future[Client] = loop.create_future()
        self._task = loop.create_task(self._hold(new_client))

    @property
    def is_over(self) -> bool:
        return self.leave.is_set() or self._task.done()

    async def close(self) -> None:
        self.leave.set()
        if not self.client.done():
            self._task.cancel()
        await asyncio.wait({self._task})

    async def _hold(self, new_client: Callable[[asyncio.Event], Client]) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS) as attempt, new_client(self.leave) as client:
                attempt.reschedule(None)
                self.client.set_result(client)
                hearing = asyncio.create_task(_hear_changes(client))
                try:
                    await self.leave.wait()
                finally:  # The SDK cancels this task where the connection breaks.
                    hearing.cancel()
                    await asyncio.wait({hearing})
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised where it is waited for
            if not self.client.done():
                self.client.set_exception(_plain(error))
                self.client.exception()  # or asyncio would log that nobody looked


async def _hear_changes(client: Client) -> None:
    """Ask to be told when tools change, which servers of MCP 2026-07-28 do not do unasked.

    What they say then is seen with all other messages. A server that does not do it keeps its tools.
    """
    with suppress(ListenNotSupportedError, MCPError, SubscriptionLost, TimeoutError):
        async with client.listen(tools_list_changed=True):
            await asyncio.Event().wait()


async def _sent(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    """Call a tool without the SDK's check of the result by the server's own schema.

    A stranger's schema with a stranger's text can take a validator any time, in the loop of all servers.
    """
    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
    return await client.session.send_request(request, CallToolResult)


def _plain(error: BaseException) -> Exception:
    leaf = _leaf(error)
    if isinstance(leaf, TimeoutError):
        return TimeoutError(f"no answer within {CONNECT_SECONDS:g} seconds")
    return leaf if isinstance(leaf, Exception) else ConnectionError("given up")


def _leaf(error: BaseException) -> BaseException:
    """Return the first error of a group, and of the groups in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
