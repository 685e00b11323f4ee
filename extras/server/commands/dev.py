"""skills-agent dev: `langgraph dev` for this workspace, started where nobody else writes."""

import os
import sys
from collections.abc import Iterable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from skills_agent.graph.cli import options
from skills_agent.graph.hooks import first
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.user_folders import cache_folder, make_state_folder, process_environment
from skills_agent.skills.scripts.programs import in_workspace, path_outside
from skills_agent.skills.trees import remove_tree

STATE: Final = ".langgraph_api"
"""LangGraph's server keeps its threads in it, and unpickles them at its start."""


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=options.examples("dev", "dev --port 2025 --no-browser"),
)
@options.workspace
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dev(workspace: Path | None, arguments: tuple[str, ...]) -> None:
    """Open the agent in LangGraph Studio: `langgraph dev` with ARGUMENTS, for this workspace.

    It starts in a folder of your own, which keeps its threads and may have an `.env`, because the server runs
    pickles and configuration from the folder in which it starts, unasked. The workspace's own `.env` and
    `langgraph.json`, with the code that this names, count as soon as you trust the workspace, while they are
    unchanged.
    """
    if find_spec("langgraph_api") is None:
        raise click.ClickException("the server is missing: pip install 'langgraph-cli[inmem]'")
    if any(each.partition("=")[0] == "--config" for each in arguments):
        raise click.UsageError("--config is the workspace's langgraph.json, if you trust it, else our own")
    settings = Settings.load(workspace)
    folder = make_state_folder(settings) / "server"
    folder.mkdir(mode=0o700, exist_ok=True)
    believed = _believed(settings)
    _show(folder, settings.workspace, believed)
    os.chdir(folder)
    config = "langgraph.json"
    if not os.path.lexists(config):
        from skills_agent.graph import build_graph  # a second, which `dev -h` does not need

        build_graph(settings)  # What is wrong is one sentence here, and tracebacks in the server's log.
        config = str(files("skills_agent.graph") / config)
    server = (sys.executable, "-P", "-m", "langgraph_cli", "dev", "--config", config, "--no-reload")
    os.execve(sys.executable, [*server, *arguments], _environment(settings, cache=bool(believed)))  # noqa: S606 - our own Python


def _believed(settings: Settings) -> list[Path]:
    """Return what the server reads of the workspace; nothing, with a word why, where one is not trusted."""
    pins = first("pins")
    own: list[Path] = pins.own_server_files(settings.workspace) if pins else []
    try:
        if own:
            pins.refuse_unvouched(settings, own)
    except SettingsError as error:
        click.echo(f"Not read: .env and langgraph.json of the workspace; {error}.", err=True)
        return []
    return own


def _show(folder: Path, workspace: Path, places: Iterable[Path]) -> None:
    """Make the folder show these places of the workspace by links, as the server finds them by its files.

    An `.env` of the person's own stays, and counts.
    """
    for each in folder.iterdir():
        if each.is_symlink():
            each.unlink()
        elif each.is_dir() and each.name != STATE:
            remove_tree(each)
    for place in sorted(places):
        inside = os.path.relpath(place, workspace)  # without `..`, unless it leads out
        if inside.split("/")[0] != ".." and not os.path.lexists(link := folder / inside):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(place)


def _environment(settings: Settings, *, cache: bool) -> dict[str, str]:
    """Return the server's environment: no folder of the workspace is searched for programs or modules.

    With `cache`, Python's is another than the `__pycache__` beside the code, which no digest covers.
    """
    given = dict(process_environment())
    given["PATH"] = path_outside(given.get("PATH", os.defpath), settings.workspace)
    modules = given.pop("PYTHONPATH", "").split(os.pathsep)
    outside = [each for each in modules if not in_workspace(settings.workspace, Path(each).resolve())]
    own = {"PYTHONPATH": os.pathsep.join(outside)} if any(outside) else {}
    own |= {"PYTHONPYCACHEPREFIX": str(cache_folder(settings) / "pycache")} if cache else {}
    return {**given, **own, "SKILLS_AGENT_WORKSPACE": str(settings.workspace.absolute())}
