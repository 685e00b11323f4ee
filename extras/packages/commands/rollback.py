"""skills-agent skills update --rollback: an earlier version of a skill, also of one that was proposed."""

from skills_agent.graph.cli.printing import echo, line_of, table
from skills_agent.graph.settings import Settings
from skills_agent.packages.backups import backups_of
from skills_agent.packages.commands.shared import Options, carry_out
from skills_agent.packages.difference import SHOWN
from skills_agent.packages.installation import plan_rollback
from skills_agent.packages.lock import LockedSkill
from skills_agent.packages.target import Target


def put_back(settings: Settings, target: Target, name: str, version: str, what: Options) -> None:
    """Put back the version of a skill that was there last, or one of a digest; a removed one comes, too.

    Lists the versions that are kept, shows what changes, and asks.
    """
    with target.draft() as draft:
        change = plan_rollback(target, name, version, draft)
        if not what.as_json:
            rows = [(change.found[:SHOWN], "now", _from(change.before))] if change.found else []
            rows += [
                (each.digest[:SHOWN], each.at, _from(each.locked))
                for each in backups_of(target.backups, name)
            ]
            table(rows, header=("VERSION", "THERE UNTIL", "FROM"))
            echo()
        carry_out(settings, target, draft, [change], what)


def _from(locked: LockedSkill | None) -> str:
    if locked is None:
        return "not installed by skills-agent"
    model = f" by {locked.proposed.model}" if locked.proposed and locked.proposed.model else ""
    return line_of(f"{locked.origin}{model}")
