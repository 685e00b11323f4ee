"""skills-agent trust: the workspaces and folders of skills that you vouch for. Imports no LangGraph."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json, table, value_text
from skills_agent.graph.hooks import first
from skills_agent.graph.settings import Settings, workspace_file
from skills_agent.graph.user_folders import trust_file_of
from skills_agent.skills.policy.trust import TrustedPath, TrustList
from skills_agent.skills.sources.directory import STANDARD_FOLDERS


@click.command(
    epilog=options.examples(
        "trust", "trust .agent/skills/csv-report", "trust --list", "trust .agent/skills --revoke"
    )
)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List what is trusted, and whether it is unchanged.")
@click.option(
    "--revoke", is_flag=True, help="Stop trusting DIR (without it: the workspace) and what is in it."
)
@options.workspace
@options.as_json
def trust(*, folder: Path | None, listing: bool, revoke: bool, workspace: Path | None, as_json: bool) -> None:
    """Vouch for the skill in DIR, or every skill below it, as it is now; without DIR: for the workspace.

    The settings of a project (.agent/config.json) can only make yours stricter, and calls of its skills
    are asked about with a warning, until you vouch for them. Trust ends when anything in them changes.
    """
    if listing and (folder or revoke):
        raise click.UsageError("--list goes alone")
    if as_json and not listing:
        raise click.UsageError("--json goes with --list")
    settings = Settings.load_own(workspace)  # a workspace's own settings have no say in it
    trusted = TrustList(trust_file_of(settings))
    if listing:
        _list(trusted, settings, as_json=as_json)
    elif revoke:
        _revoke(trusted, folder or settings.workspace)
    else:
        _add(trusted, settings, folder)


def _add(trusted: TrustList, settings: Settings, folder: Path | None) -> None:
    project = settings.workspace.resolve()
    values: Mapping[str, Any] = {}
    place, more = folder.resolve() if folder else project, list[TrustedPath]()
    if not place.is_dir():
        raise click.UsageError(f"there is no folder {line_of(str(folder))}")
    if place != project:
        folders = [place]
    else:
        config, values = workspace_file(settings)
        more += [config] if config else []
        folders = [settings.workspace / name for name in STANDARD_FOLDERS]
        folders += settings.in_workspace(values.get("skills_dirs", ()))
    if pins := first("pins"):
        more += pins.pins_now(settings, values, place)
    added = trusted.add(*folders, project=settings.workspace, more=more)
    for each in added:
        plugin = trusted.plugin_of(each) if Path(each.path).is_dir() else None
        whole = f" with its plugin, {line_of(str(plugin))}," if plugin else ""
        echo(f"Trusted {line_of(each.path)}{whole} as it is now ({each.digest[:12]}).")
    for name, value in values.items():
        echo(f"  {name} = {value_text(value)}")


def _list(trusted: TrustList, settings: Settings, *, as_json: bool) -> None:
    pins = first("pins")
    states = dict.fromkeys(trusted.paths(), "unchanged")
    for each in states:
        if not (trusted.is_unchanged(each) or (pins and not pins.change_of(settings, each))):
            states[each] = "changed"
    if as_json:
        print_json([{**each._asdict(), "state": state} for each, state in states.items()])
        return
    table(
        [(each.digest[:12], state, each.path) for each, state in states.items()],
        empty="Nothing is trusted beside the sources that are. To trust this workspace: skills-agent trust",
    )


def _revoke(trusted: TrustList, place: Path) -> None:
    ended = trusted.revoke(place)
    if not ended:
        raise click.ClickException(f"{place} is not trusted. What is: skills-agent trust --list")
    for each in ended:
        echo(f"{line_of(each.path)} is not trusted any more.")
