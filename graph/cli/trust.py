"""skills-agent trust: the folders of skills that you vouch for. Imports no LangGraph."""

from collections.abc import Iterable
from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json, table
from skills_agent.graph.settings import Settings, content_limits, trust_file_of
from skills_agent.skills.policy.trust import TrustedFolder, TrustList


class TrustGroup(click.Group):
    """`trust DIR` is short for `trust add DIR`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Read a word that is no command as a folder."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["add", *args]
        return super().resolve_command(ctx, args)


@click.group(
    cls=TrustGroup,
    epilog=options.examples("trust .agent/skills/csv-report", "trust list", "trust revoke .agent/skills"),
)
def trust() -> None:
    """Vouch for skills that came with a project, as they are now: `skills-agent trust DIR`.

    Skills of a project are untrusted: they can be loaded, but their calls are asked about with a
    warning. Trust ends when anything in the folder changes.
    """


@trust.command("add")
@click.argument("folder", metavar="DIR", type=options.FOLDER)
@options.as_json
def add(folder: Path, as_json: bool) -> None:
    """Trust the skill in DIR, or every skill below it, as it is now."""
    _report(_trust_list().add(folder), "Trusted {path} as it is now ({digest}).", as_json=as_json)


@trust.command("list")
@options.as_json
def list_trusted(as_json: bool) -> None:
    """List trusted skills, and whether each is unchanged."""
    trust_list = _trust_list()
    rows = [
        (folder, "unchanged" if trust_list.is_unchanged(folder) else "changed: not trusted")
        for folder in trust_list.folders()
    ]
    if as_json:
        print_json([{**folder._asdict(), "state": state.partition(":")[0]} for folder, state in rows])
        return
    table(
        [(folder.digest[:12], state, folder.path) for folder, state in rows],
        empty="Nothing is trusted beside the sources that are. To trust a skill: skills-agent trust DIR",
    )


@trust.command("revoke")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.as_json
def revoke(folder: Path, as_json: bool) -> None:
    """Stop trusting DIR and the skills in it."""
    folders = _trust_list().revoke(folder)
    if not folders and not as_json:
        raise click.ClickException(f"{folder} is not trusted. What is: skills-agent trust list")
    _report(folders, "{path} is not trusted any more.", as_json=as_json)


def _report(folders: Iterable[TrustedFolder], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json([folder._asdict() for folder in folders])
        return
    for folder in folders:
        echo(sentence.format(path=line_of(folder.path), digest=folder.digest[:12]))


def _trust_list() -> TrustList:
    settings = Settings.load()
    return TrustList(trust_file_of(settings), content_limits(settings))
