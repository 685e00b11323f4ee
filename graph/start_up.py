"""What the agent, its server and its MCP servers start from: the one place that says so.

Nothing of it may come from a repository, or be left by a script: it runs before any question, outside of the
sandbox. What lies in the workspace is protected; and `langgraph dev` does not start in the workspace itself,
for there every Python file could be imported.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from skills_agent.graph.hooks import packages
from skills_agent.graph.langgraph_inside import is_development_server
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.user_folders import (
    cache_folder,
    process_environment,
    user_state_folder,
)
from skills_agent.skills.policy.secret_paths import obeyed_in_homes
from skills_agent.skills.scripts.own_files import own_entries
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource

SERVER_FILES: Final = "langgraph*.json"
MAX_BYTES: Final = 1 << 20


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
        folder = server.cwd.expanduser() if server.cwd else settings.home
        yield from _named([server.command, *server.args], folder, settings.workspace)
    for file in sorted(settings.workspace.glob(SERVER_FILES)):
        yield from _named(_texts(_read(file)), settings.workspace, settings.workspace)
    if is_development_server():
        yield Path.cwd()


def refuse_start_in_workspace(settings: Settings) -> None:
    """Raise SettingsError where `langgraph dev` was started in the workspace: it imports what lies there."""
    if not is_development_server() or Path.cwd().resolve() != settings.workspace.resolve():
        return
    raise SettingsError(
        f"`langgraph dev` was started in the agent's workspace, {settings.workspace}: what a repository or a "
        "script leaves there (.env, .langgraph_api, Python files) runs at its start, some of it before this "
        "was noticed. Start it in a folder of its own (docs/server.md): skills-agent studio"
    )


def _named(words: Iterable[str], folder: Path, workspace: Path) -> Iterator[Path]:
    """Yield what words name of the workspace; of a program all that is beside it, which it may load."""
    for word in words:
        for text in {word, word.partition("=")[2], word.partition(":")[0]}:
            with suppress(OSError, ValueError):
                place = folder / Path(text).expanduser()
                if text and place.exists():
                    is_alone = place.is_dir() or place.resolve().parent == workspace.resolve()
                    yield place if is_alone else place.parent


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a file of the server; `package.module:name` as the path of the package, too."""
    if isinstance(value, str):
        yield from (value, value.partition(".")[0])
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _read(file: Path) -> Any:
    with suppress(OSError, ValueError, RecursionError), file.open("rb") as stream:
        return json.loads(stream.read(MAX_BYTES))
    return None
