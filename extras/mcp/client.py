"""The servers of one agent: a thread with an event loop for all of them, and their tools as they come."""

import asyncio
import logging
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from skills_agent.graph.audit.redaction import Redaction
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.tool_servers import ServerState
from skills_agent.graph.user_folders import process_environment
from skills_agent.mcp.definitions import MAX_SHOWN, ToolDefinition, check_tools
from skills_agent.mcp.servers import McpServer, McpServerError
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line

if TYPE_CHECKING:
    from skills_agent.graph.tools.tool_table import ToolTable
    from skills_agent.mcp.connection import Connection
    from skills_agent.mcp.source import McpSource
    from skills_agent.nodes.cancellation import Cancellation

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 6.0
"""How long the end of the process waits for servers to end; what is left then is killed with it."""

Result = TypeVar("Result")


class McpServers:
    """Connects servers when a turn needs them, lists their tools where these may be new, and calls them."""

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        """Take the servers of the settings; none is started yet. Raises SettingsError without the extra."""
        # `McpSettings` says so: what is set is of its type.
        self._servers = cast("dict[str, McpServer]", settings.mcp_servers)
        self.join: Callable[[str, Sequence[ToolDefinition]], Sequence[str]] = lambda _, __: ()
        """Gets the tools of a server each time they are listed, and says which of them it does not take."""
        self._lock = Lock()
        self._loop = _LoopThread()
        self._connections: dict[str, Connection] = {}
        for name, server in self._servers.items():
            self._connections[name] = _connection_class()(name, server, settings, environment)
        weakref.finalize(self, _close, self._loop, [*self._connections.values()])

    def connect(self) -> None:
        """Connect every server that is not, and list its tools where they may have changed.

        First attempts and changes are waited for, each within its time. A server that does not answer is left
        out, or keeps the tools that it had; a later turn tries it again, and does not wait for it.
        """
        now = time.monotonic()
        waits: list[tuple[Future[None], float]] = []
        with self._lock:
            for name, connection in self._connections.items():
                if connection.is_due(now):
                    is_awaited = connection.attempt is None or (connection.is_listed and not connection.fault)
                    connection.wanted = connection.wanted or now
                    begun = connection.wanted if connection.attempt is None else now
                    connection.deadline = begun + self._servers[name].connect_timeout if is_awaited else now
                    connection.started = now
                    connection.attempt = self._loop.submit(self._list(name, connection))
                if connection.attempt and not connection.attempt.done() and connection.deadline > now:
                    waits.append((connection.attempt, connection.deadline))
        for attempt, deadline in waits:
            wait([attempt], max(deadline - time.monotonic(), 0))

    def states(self) -> list[ServerState]:
        """Return how each server stands now."""
        states = []
        for name, connection in self._connections.items():
            server = self._servers[name]
            fault = connection.fault or (
                "" if connection.is_listed or not connection.attempt else self._silence(name)
            )
            place = server.url or server.command
            states.append(
                ServerState(name, place, connection.tools, fault, connection.left_out, connection.is_open)
            )
        return states

    def faults(self) -> dict[str, str]:
        """Return why a server cannot be reached, by the names of those that a turn has tried."""
        return {state.name: state.reason for state in self.states() if state.fault}

    def absence_of(self, tool: str) -> str:
        """Say why a tool of a server is not there, by the tool's name; empty where nothing is known of it."""
        match tool.split("__"):
            case ["mcp", name, _, *_]:
                if name in self._connections:
                    return next(state.fault for state in self.states() if state.name == name)
                return f"No MCP server {visible_line(cut(name, MAX_SHOWN))} is configured here."
        return ""

    def start_call(
        self, server: str, tool: str, arguments: Mapping[str, Any], seconds: float | None
    ) -> "Future[Any]":
        """Start a call; to cancel the future cancels it at the server. It raises McpServerError."""
        return self._loop.submit(self._connections[server].call(tool, arguments, seconds))

    def ask(self, server: str, work: "Callable[[Any], Coroutine[Any, Any, Any]]") -> "Future[Any]":
        """Do something with the SDK's client of a server that changes nothing there.

        The future raises McpServerError, and as `work` does. Where the first connection has been waited for
        already, that is raised at once.
        """
        connection, now = self._connections[server], time.monotonic()
        connection.wanted = connection.wanted or now
        is_late = now - connection.wanted >= self._servers[server].connect_timeout
        if is_late and not connection.was_open:
            self._loop.submit(connection.client())  # the next look at the server says what became of it
            raise McpServerError(server, self._silence(server).partition(": ")[2])
        return self._loop.submit(connection.ask(work))

    def sources(self) -> "list[McpSource]":
        """Return the sources of servers that are asked for skills, by name; none is asked yet."""
        if not any(server.skills for server in self._servers.values()):
            return []
        from skills_agent.mcp.source import McpSource  # noqa: PLC0415 - it imports the SDK

        return [
            McpSource(name, partial(self.ask, name), wait_seconds=server.connect_timeout)
            for name, server in sorted(self._servers.items())
            if server.skills
        ]

    def offer_tools(
        self, offered: "ToolTable", settings: Settings, cancellation: "Callable[[], Cancellation]"
    ) -> None:
        """Let the tools of servers join those that are offered, as soon as each server has answered.

        A server that lists its tools again has these, and no others.
        """
        from skills_agent.mcp.tools import mcp_tool  # noqa: PLC0415 - it imports LangChain

        joined: dict[str, frozenset[str]] = {}

        def join(server: str, definitions: Sequence[ToolDefinition]) -> list[str]:
            tools = [
                mcp_tool(
                    definition,
                    partial(self.start_call, server, definition.tool, seconds=settings.tool_timeout),
                    cancellation,
                    images=settings.read_images,
                )
                for definition in definitions
            ]
            refused = offered.join(tools, instead_of=joined.get(server, frozenset()))
            joined[server] = frozenset(tool.name for tool in tools).difference(refused)
            return [f"{name}: the host has a tool of that name" for name in refused]

        self.join = join

    def close(self) -> None:
        """Leave all servers."""
        _close(self._loop, [*self._connections.values()])

    def _silence(self, name: str) -> str:
        seconds = self._servers[name].connect_timeout
        return f"MCP server {name}: no answer within {seconds:g} seconds; it is still waited for."

    async def _list(self, name: str, connection: "Connection") -> None:
        try:
            offers = await connection.offers()
        except McpServerError as error:
            if isinstance(error.__cause__, SettingsError) and connection.fault != str(error):
                logger.warning("%s", error)  # a person can do something about it
            connection.fault = str(error)
            return
        tools, faults = check_tools(name, offers, trust_hints=self._servers[name].trust_hints)
        refused = self.join(name, tools)
        connection.tools = len(tools) - len(refused)
        connection.left_out = (*connection.faults, *faults, *refused)
        connection.fault, connection.is_listed = "", True


def make_servers(settings: Settings) -> McpServers:
    """Return the servers that the settings name; none is started. Raises SettingsError without the extra."""
    return McpServers(settings, process_environment())


def states_now(settings: Settings) -> list[ServerState]:
    """Connect the servers that the settings name, and return how each stands, without secrets."""
    try:
        servers = make_servers(settings)
    except SettingsError as error:
        return [ServerState(name, "", 0, str(error)) for name in settings.mcp_servers]
    servers.connect()
    # An address may hold a key.
    states = [state._replace(place=Redaction().text(state.place)) for state in servers.states()]
    servers.close()
    return states


class _LoopThread:
    """An event loop in a thread of its own, which starts with the first thing to do."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def submit(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Run a coroutine in the loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon: a process that ends waits for CLOSE_SECONDS, and not for a server.
                self._thread = Thread(target=_run_loop, args=(self._loop,), name="mcp-servers", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine, and end the thread; nothing where it never began."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None:
            return
        ending = asyncio.run_coroutine_threadsafe(last(), loop)
        ending.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
        # Python may collect its owner in any thread, and the loop's own cannot wait for itself.
        if current_thread() is not self._thread:
            wait([ending], CLOSE_SECONDS)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:  # It ends what still runs, then the loop.
        runner.get_loop().run_forever()


def _close(loop: _LoopThread, connections: "Sequence[Connection]") -> None:
    async def close_all() -> None:
        await asyncio.gather(*(connection.close() for connection in connections))

    loop.stop(close_all)


def _connection_class() -> "type[Connection]":
    try:
        found = version("mcp")
    except PackageNotFoundError:
        found = ""
    if not found.startswith("2."):
        what = f"mcp {found} is here" if found else "the package mcp is missing"
        raise SettingsError(f"Setting mcp_servers needs mcp 2 ({what}): pip install 'skills-agent[mcp]'.")
    from skills_agent.mcp.connection import Connection  # noqa: PLC0415 - it imports the SDK

    return Connection
