"""skills-agent skills remove: remove installed skills, and keep what they were."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_json
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.shared import now, target_of, to
from skills_agent.packages.installation import install, plan_removal
from skills_agent.skills.text import count


@click.command(epilog=options.examples("skills remove csv-report"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@options.unasked
@to
@options.workspace
@options.as_json
def remove(names: tuple[str, ...], yes: bool, place: str, workspace: Path | None, as_json: bool) -> None:
    """Remove installed skills from the folder and from skills.lock; keep a backup of each.

    `skills update --rollback` puts it back. The last five of each skill are kept.
    """
    target = target_of(Settings.load(workspace), place)
    removals = plan_removal(target, names)
    if not as_json:
        for each in removals:
            is_changed = each.before is not None and each.found not in {"", each.before.digest}
            note = "  changed since it was installed" if is_changed else ""
            echo(f"{each.name}  {each.found[:12] or 'only in skills.lock'}{note}")
    confirm(f"Remove {count(len(removals), 'skill')} from {line_of(str(target.folder))}?", yes=yes)
    with target.draft() as draft:
        backups = install(target, draft, removals, now())
    if as_json:
        records = [{"name": each.name, "digest": each.digest, "path": str(each.folder)} for each in backups]
        removed = [removal.name for removal in removals]
        print_json({"folder": str(target.folder), "removed": removed, "backups": records})
        return
    echo(f"Removed {count(len(removals), 'skill')} from {target.folder}.")
    for backup in backups:
        echo(f"To put it back: skills-agent skills update {backup.name} --rollback")
