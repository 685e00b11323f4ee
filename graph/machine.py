"""This machine as the scripts of skills find it, by the settings. Imports no LangGraph."""

from collections.abc import Collection

from skills_agent.graph.mcp.servers import server_names
from skills_agent.graph.settings import Settings, process_environment, user_state_folder
from skills_agent.skills.needs.environments import Environments
from skills_agent.skills.needs.here import Machine


def machine_of(settings: Settings, servers: Collection[str] = ()) -> Machine:
    """Return what needs of skills are held against; `servers` are more MCP servers than the settings name."""
    environment = process_environment()
    return Machine(
        environment=environment,
        workspace=settings.workspace,
        secrets=settings.script_secrets,
        servers=server_names(settings.mcp_servers).union(servers),
        environments=Environments(
            folder=user_state_folder(settings) / "environments",
            environment=environment,
            workspace=settings.workspace,
        ),
    )
