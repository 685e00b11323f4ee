"""From the settings to tools that models are offered."""

from collections.abc import Callable, Sequence

from skills_agent.graph.settings import Settings
from skills_agent.graph.tools.offered import OfferedTools
from skills_agent.mcp.client import McpServers
from skills_agent.mcp.definitions import ToolDefinition
from skills_agent.mcp.tools import mcp_tool
from skills_agent.nodes.cancellation import Cancellation


def offer_tools(
    servers: McpServers,
    offered: OfferedTools,
    settings: Settings,
    cancellation: Callable[[], Cancellation],
) -> None:
    """Let the tools of servers join those that are offered, as soon as each server has answered.

    A server that lists its tools again has these, and no others.
    """
    joined: dict[str, frozenset[str]] = {}

    def join(server: str, definitions: Sequence[ToolDefinition]) -> list[str]:
        tools = [
            mcp_tool(server, each, servers, settings.tool_timeout, cancellation, images=settings.read_images)
            for each in definitions
        ]
        refused = offered.join(tools, instead_of=joined.get(server, frozenset()))
        joined[server] = frozenset(each.name for each in tools).difference(refused)
        return [f"{name}: the host has a tool of that name" for name in refused]

    servers.join = join
