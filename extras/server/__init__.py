"""The users of a LangGraph server and PostgreSQL."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="server",
    settings="skills_agent.server.settings:ServerSettings",
    database="skills_agent.server.postgres",
)
