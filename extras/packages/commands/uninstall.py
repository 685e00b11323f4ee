"""skills-agent skills uninstall: remove installed skills, and keep what they were."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_json
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.shared import origin, target_of, to
from skills_agent.packages.removal import plan_removal
from skills_agent.packages.removal import uninstall as remove
from skills_agent.skills.text import count


@click.command(epilog=options.examples("skills uninstall csv-report", "skills uninstall x --purge"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--purge", is_flag=True, help="Keep no backup, and remove those that there are.")
@click.option("--force", is_flag=True, help="Also remove what skills-agent has not installed.")
@options.unasked
@to
@options.workspace
@options.as_json
def uninstall(
    names: tuple[str, ...],
    purge: bool,
    force: bool,
    yes: bool,
    place: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Remove installed skills from the folder and from skills.lock; keep a backup of each.

    A backup is a folder, so `skills install` puts it back. The last five of each skill are kept.
    """
    target = target_of(Settings.load(workspace), place)
    removals = plan_removal(target, names)
    if not as_json:
        for each in removals:
            note = "" if not each.is_foreign else "  changed since it was installed"
            note = "  not installed by skills-agent" if each.before is None else note
            echo(f"{each.name}  {each.found[:12] or 'only in skills.lock'}{note}")
    question = f"Remove {count(len(removals), 'skill')} from {line_of(str(target.folder))}"
    confirm(f"{question} and all backups?" if purge else f"{question}?", yes=yes)
    backups = remove(target, removals, origin().at, force=force, purge=purge)
    if as_json:
        records = [{"name": each.name, "digest": each.digest, "path": str(each.folder)} for each in backups]
        print_json(
            {"folder": str(target.folder), "removed": [each.name for each in removals], "backups": records}
        )
        return
    echo(f"Removed {count(len(removals), 'skill')} from {target.folder}.")
    for backup in backups:
        echo(f"To put {backup.name} back: skills-agent skills install {line_of(str(backup.folder))}")
