"""From the settings to sources of the skills that servers publish."""

from functools import partial

from skills_agent.graph.settings import Settings
from skills_agent.mcp.client import McpServers
from skills_agent.mcp.source import McpSource


def skill_sources(settings: Settings, servers: McpServers) -> list[McpSource]:
    """Return the sources of servers that are asked for skills, by name; none is asked yet."""
    return [
        McpSource(name, partial(servers.ask, name), wait_seconds=server.connect_timeout)
        for name, server in sorted(settings.mcp_servers.items())
        if server.skills
    ]
