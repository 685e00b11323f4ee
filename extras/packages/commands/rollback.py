"""skills-agent skills rollback: put back an earlier version of a skill, also of one that was proposed."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, table
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.shared import Options, carry_out, target_of, to
from skills_agent.packages.installation import plan_rollback
from skills_agent.packages.lock import LockedSkill

_SHORT = 12


@click.command(
    epilog=options.examples("skills rollback csv-report", "skills rollback csv-report --version 4f1d")
)
@click.argument("name", metavar="NAME")
@click.option("--version", metavar="DIGEST", default="", help="This version: the beginning of its digest.")
@options.unasked
@to
@options.workspace
@options.as_json
def rollback(name: str, version: str, yes: bool, place: str, workspace: Path | None, as_json: bool) -> None:
    """Put back the version of a skill that was there last; again: the one that is there now.

    Lists the versions that are kept, shows what changes, and asks. A skill that was removed comes back, too.
    """
    settings = Settings.load(workspace)
    target = target_of(settings, place)
    target.settle()
    with target.draft() as draft:
        change = plan_rollback(target, name, version, draft)
        if not as_json:
            rows = [(change.found[:_SHORT], "now", _from(change.before))] if change.found else []
            rows += [(each.digest[:_SHORT], each.at, _from(each.locked)) for each in target.backups.of(name)]
            table(rows, header=("VERSION", "THERE UNTIL", "FROM"))
            echo()
        carry_out(settings, target, draft, [change], Options(yes, force=True, as_json=as_json))


def _from(locked: LockedSkill | None) -> str:
    if locked is None:
        return "not installed by skills-agent"
    model = f" by {locked.proposed.model}" if locked.proposed and locked.proposed.model else ""
    return line_of(f"{locked.origin}{model}")
