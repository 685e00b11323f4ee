"""MCP servers: their tools and their skills, and skills served to others."""

from typing import Final

from skills_agent.graph.hooks import PUBLISH, Command, Extra

EXTRA: Final = Extra(
    name="mcp",
    commands={
        "publish": PUBLISH,
        "publish serve": Command(
            "skills_agent.mcp.commands.serve:serve", "Publish skills to any client of MCP."
        ),
    },
    settings="skills_agent.mcp.servers:McpSettings",
    pins="skills_agent.mcp.pins",
    servers="skills_agent.mcp.client",
)
