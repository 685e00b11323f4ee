"""skills-agent cache: the snapshots of loaded skills, and which of them no thread needs."""

from typing import TYPE_CHECKING

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, print_json, table
from skills_agent.graph.settings import Settings, open_snapshots
from skills_agent.skills.text import count

if TYPE_CHECKING:
    from skills_agent.skills.library.snapshots import CachedSnapshot

JUST_NOW = 3600
"""Seconds: a thread may have loaded a snapshot that is younger, and not have been stored yet."""


@click.group()
def cache() -> None:
    """See and clear the snapshots of loaded skills.

    A thread reads and runs the version of a skill that it loaded, from a copy in your cache folder.
    """


@cache.command("show")
@options.as_json
def show(as_json: bool) -> None:
    """List the snapshots: digest, size, files, whether a thread needs it, and the skill."""
    store = open_snapshots(Settings.load())
    rows = [(each, _is_needed(each)) for each in store.cached()]
    if as_json:
        snapshots = [{**each._asdict(), "needed": needed} for each, needed in rows]
        print_json({"folder": str(store.folder), "snapshots": snapshots})
        return
    table(
        [
            (each.digest[:12], f"{each.size:,}", f"{each.files:,}", "yes" if needed else "no", each.skill)
            for each, needed in rows
        ],
        header=("DIGEST", "BYTES", "FILES", "NEEDED", "SKILL"),
    )
    echo(f"{count(len(rows), 'snapshot')}, {sum(each.size for each, _ in rows):,} bytes, in {store.folder}.")


@cache.command("clear")
@click.option("--all", "everything", is_flag=True, help="Remove also what threads need.")
@options.as_json
def clear(everything: bool, as_json: bool) -> None:
    """Remove the snapshots that no thread needs.

    A snapshot is needed while its digest stands in the database of threads that loaded it, or where that
    database cannot be searched from here. One that was used in the last hour stays.
    """
    store = open_snapshots(Settings.load())
    removed = [each for each in store.cached() if everything or not _is_needed(each)]
    for each in removed:
        store.remove(each.digest)
    if as_json:
        print_json({"folder": str(store.folder), "removed": [each._asdict() for each in removed]})
        return
    echo(f"Removed {count(len(removed), 'snapshot')}, {sum(each.size for each in removed):,} bytes.")
    if everything and removed:
        click.echo(
            "Threads that loaded them go on while the skills' folders are unchanged; where one has changed, "
            "its scripts and resources cannot be used before it is loaded anew.",
            err=True,
        )


def _is_needed(snapshot: "CachedSnapshot") -> bool:
    from skills_agent.graph.threads.references import is_needed

    return snapshot.age < JUST_NOW or any(is_needed(snapshot.digest, each) for each in snapshot.addresses)
