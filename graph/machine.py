"""This machine as the scripts of skills find it, by the settings. Imports no LangGraph."""

from collections.abc import Callable, Mapping

from skills_agent.graph.places import process_environment, user_state_folder
from skills_agent.graph.settings import Settings
from skills_agent.needs.environments import Environments
from skills_agent.needs.here import Machine


def machine_of(settings: Settings, unreachable: Callable[[], Mapping[str, str]] = dict) -> Machine:
    """Return what needs of skills are held against; `unreachable` as `Machine` has it."""
    environment = process_environment()
    return Machine(
        environment=environment,
        workspace=settings.workspace,
        secrets=settings.script_secrets,
        servers=frozenset(settings.mcp_servers),
        unreachable=unreachable,
        environments=Environments(
            folder=user_state_folder(settings) / "environments",
            environment=environment,
            workspace=settings.workspace,
        ),
    )
