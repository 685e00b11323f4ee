"""skills-agent studio: LangGraph's own server for this workspace, started where nobody else writes."""

import os
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import make_state_folder, process_environment


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=options.examples("studio", "studio --workspace ~/project --port 2025 --no-browser"),
)
@options.workspace
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def studio(workspace: Path | None, arguments: tuple[str, ...]) -> None:
    """Open the agent in LangGraph Studio: `langgraph dev` with ARGUMENTS, for this workspace.

    It starts in a folder of yours, where its threads and its `.env` are: of the folder that it starts in, it
    runs pickles and configuration before anybody is asked, and a repository may bring such files.
    """
    if find_spec("langgraph_api") is None:
        raise click.ClickException("the server is missing: pip install 'langgraph-cli[inmem]'")
    settings = Settings.load(workspace)
    folder = make_state_folder(settings) / "server"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chdir(folder)
    config = ("--config", str(files("skills_agent.graph") / "langgraph.json"), "--no-reload")
    environment = {**process_environment(), "SKILLS_AGENT_WORKSPACE": str(settings.workspace.absolute())}
    command = (sys.executable, "-m", "langgraph_cli", "dev", *config, *arguments)
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own Python
