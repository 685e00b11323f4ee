"""skills-agent trust: the workspaces and folders of skills that you vouch for. Imports no LangGraph."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json, table, value_text
from skills_agent.graph.places import trust_file_of
from skills_agent.graph.settings import Settings, workspace_file
from skills_agent.skills.policy.trust import TrustList
from skills_agent.skills.sources.directory import STANDARD_FOLDERS


class TrustGroup(click.Group):
    """`trust` is short for `trust add`, and `trust DIR` for `trust add DIR`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a word that is no command as a folder."""
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["add", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=TrustGroup,
    epilog=options.examples(
        "trust", "trust .agent/skills/csv-report", "trust list", "trust revoke .agent/skills"
    ),
)
def trust() -> None:
    """Vouch for what came with a project, as it is now: `skills-agent trust`.

    The settings of a project (.agent/config.json) can only make yours stricter, and calls of its skills
    are asked about with a warning, until you vouch for them. Trust ends when anything in them changes.
    """


@trust.command("add")
@click.argument("folder", metavar="[DIR]", required=False, type=options.FOLDER)
@options.workspace
def add(folder: Path | None, workspace: Path | None) -> None:
    """Trust the skill in DIR, or every skill below it, as it is now.

    Without DIR: the workspace, with its file of settings and all its skills.
    """
    settings = Settings.load_own(workspace)
    trusted = _trust_list(settings)
    project = settings.workspace.resolve()
    values: Mapping[str, Any] = {}
    if folder not in (None, project):
        added = trusted.add(folder, project=project)
    else:
        config, values = workspace_file(settings)
        folders = [settings.workspace / name for name in STANDARD_FOLDERS]
        folders += settings.in_workspace(values.get("skills_dirs", ()))
        added = trusted.add(*folders, project=settings.workspace, config=config)
    for each in added:
        plugin = trusted.plugin_of(each) if Path(each.path).is_dir() else None
        whole = f" with its plugin, {line_of(str(plugin))}," if plugin else ""
        echo(f"Trusted {line_of(each.path)}{whole} as it is now ({each.digest[:12]}).")
    for name, value in values.items():
        echo(f"  {name} = {value_text(value)}")


@trust.command("list")
@options.as_json
def list_trusted(as_json: bool) -> None:
    """List trusted skills and files of settings, and whether each is unchanged."""
    trusted = _trust_list(Settings.load_own())
    states = {each: "unchanged" if trusted.is_unchanged(each) else "changed" for each in trusted.paths()}
    if as_json:
        print_json([{**each._asdict(), "state": state} for each, state in states.items()])
        return
    table(
        [(each.digest[:12], state, each.path) for each, state in states.items()],
        empty="Nothing is trusted beside the sources that are. To trust this workspace: skills-agent trust",
    )


@trust.command("revoke")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@options.workspace
def revoke(folder: Path | None, workspace: Path | None) -> None:
    """Stop trusting DIR (without it: the workspace) and what is in it."""
    settings = Settings.load_own(workspace)
    place = folder or settings.workspace
    ended = _trust_list(settings).revoke(place)
    if not ended:
        raise click.ClickException(f"{place} is not trusted. What is: skills-agent trust list")
    for each in ended:
        echo(f"{line_of(each.path)} is not trusted any more.")


def _trust_list(settings: Settings) -> TrustList:
    """Return the list; the workspace's own settings have no say in it."""
    return TrustList(trust_file_of(settings))
