"""The users of a LangGraph server and PostgreSQL."""

from typing import Final

from skills_agent.graph.hooks import Command, Extra

EXTRA: Final = Extra(
    name="server",
    commands={
        "dev": Command("skills_agent.server.commands.dev:dev", "Open the agent in LangGraph Studio."),
    },
    settings="skills_agent.server.settings:ServerSettings",
    database="skills_agent.server.postgres",
)
