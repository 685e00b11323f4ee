"""What the agent, its server and its MCP servers start from: the one place that says so.

Nothing of it may come from a repository, or be left by a script: it runs before any question, outside of the
sandbox. What lies in the workspace is protected; and `langgraph dev` does not start in the workspace itself,
for there every Python file could be imported.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from skills_agent.graph.hooks import packages
from skills_agent.graph.langgraph_inside import is_development_server
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.started import named_in, started_by_server
from skills_agent.graph.user_folders import cache_folder, process_environment, user_state_folder
from skills_agent.skills.policy.secret_paths import obeyed_in_homes
from skills_agent.skills.scripts.own_files import own_entries
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource

SERVER_FILES: Final = "langgraph*.json"


def protected_entries(
    settings: Settings, sources: Iterable[Source], closed: Iterable[Path]
) -> tuple[str, ...]:
    """Return what is protected beside `PROTECTED`: the operator's list, and what the agent runs and reads.

    What is `closed` is among it: where nothing is, a script could make it (`.ssh/config`).
    """
    of_folders = [source for source in sources if isinstance(source, DirectorySource)]
    plugins = filter(None, (source.plugin_folder for source in of_folders))
    own = (cache_folder(settings), user_state_folder(settings), *closed)
    folders = [*settings.skills_dirs, *(source.folder for source in of_folders), *plugins, *own]
    path = process_environment().get("PATH", "")
    of_homes = obeyed_in_homes(settings.workspace, settings.home)
    own_files = own_entries(settings.workspace, path, [*folders, *started_from(settings)], packages())
    return (*settings.protected_paths, *of_homes, *own_files)


def started_from(settings: Settings) -> Iterator[Path]:
    """Yield what a start reads or runs that no name tells (`PROTECTED` has `.env` and the like)."""
    for server in settings.mcp_servers.values():
        yield from started_by_server(server, settings)
    for file in settings.workspace.glob(SERVER_FILES):
        yield from named_in(file, settings.workspace)
    if is_development_server():
        yield Path.cwd()


def refuse_start_in_workspace(settings: Settings) -> None:
    """Raise SettingsError where `langgraph dev` was started in the workspace: it imports what lies there."""
    if not is_development_server() or Path.cwd().resolve() != settings.workspace.resolve():
        return
    raise SettingsError(
        f"`langgraph dev` was started in the agent's workspace, {settings.workspace}: what a repository or a "
        "script leaves there (.env, .langgraph_api, Python files) runs at its start, some of it before this "
        "was noticed. Start it in a folder of its own (docs/server.md): skills-agent dev"
    )
