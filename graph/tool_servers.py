"""Servers whose tools join those that models are offered, and whose skills join the catalog.

The setting `mcp_servers` names them, and an extra connects them (the hook `servers`). Imports no LangGraph.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skills_agent.graph.hooks import first

if TYPE_CHECKING:
    from skills_agent.graph.settings import Settings
    from skills_agent.graph.tools.tool_table import ToolTable
    from skills_agent.nodes.cancellation import Cancellation
    from skills_agent.skills.sources import Source


class ServerState(NamedTuple):
    """How a server stands."""

    name: str
    place: str
    """Its program or its address."""
    tools: int
    """How many of its tools are offered."""
    fault: str = ""
    """Why it cannot be reached; empty where it could, and while it is tried."""
    faults: tuple[str, ...] = ()
    """Tools of it that are not offered, and why."""
    is_connected: bool = False
    """Whether its connection is open; one that was lost is made again for the next call."""

    @property
    def reason(self) -> str:
        """Return the fault without the server's name."""
        return self.fault.removeprefix(f"MCP server {self.name}: ")


class ToolServers(Protocol):
    """The servers of one agent. None is started before it is asked for something."""

    def connect(self) -> None:
        """Connect every server that is not, and list its tools where they may have changed."""

    def states(self) -> Sequence[ServerState]:
        """Return how each server stands now."""

    def faults(self) -> Mapping[str, str]:
        """Return why a server cannot be reached, by the names of those that a turn has tried."""

    def absence_of(self, tool: str) -> str:
        """Say why a tool of a server is not there, by the tool's name; empty where nothing is known of it."""

    def sources(self) -> "Sequence[Source]":
        """Return the sources of those that are asked for skills, by name; none is asked yet."""

    def offer_tools(
        self, offered: "ToolTable", settings: "Settings", cancellation: "Callable[[], Cancellation]"
    ) -> None:
        """Let their tools join those that are offered, as soon as each server has answered."""

    def close(self) -> None:
        """Leave all servers."""


def make_servers(settings: "Settings") -> ToolServers | None:
    """Return what connects the servers of the settings; None where no extra does. Raises SettingsError."""
    client = first("servers")
    servers: ToolServers | None = client.make_servers(settings) if client else None
    return servers
