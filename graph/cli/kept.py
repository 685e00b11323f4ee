"""skills-agent doctor --kept: what is kept on this machine for skills, and its end."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from skills_agent.graph.cli.printing import confirm, echo, print_json, table
from skills_agent.graph.kept_folders import homes_of
from skills_agent.graph.needs import machine_of
from skills_agent.graph.settings import Settings, open_snapshots
from skills_agent.graph.threads.references import is_needed
from skills_agent.skills.scripts.run_folders import weigh
from skills_agent.skills.text import count
from skills_agent.skills.trees import empty

if TYPE_CHECKING:
    from skills_agent.skills.library.snapshots import CachedSnapshot

UNUSED: Final = "unused"
_SHOWN: Final = 12
"""Digits of a digest."""
_JUST_NOW: Final = 3600
"""Seconds: a thread may have loaded a snapshot that is younger, and not have been stored yet."""


class _Kept(NamedTuple):
    """One thing that is kept."""

    name: str
    folder: Path
    used: bool
    note: str
    remove: Callable[[], None]
    """Raises OSError."""

    def as_json(self) -> dict[str, object]:
        bytes_kept = weigh(self.folder).bytes
        return {
            "name": self.name,
            "bytes": bytes_kept,
            "used": self.used,
            "note": self.note,
            "folder": self.folder,
        }


def show_kept(settings: Settings, removed: str | None, *, yes: bool, as_json: bool) -> None:
    """Print what is kept, or remove what a pattern of names, or "unused", says."""
    kept = sorted(_kept(settings), key=lambda each: each.name)
    rows = [each.as_json() for each in kept]
    chosen = [each for each in kept if removed and _is_chosen(each, removed)]
    if removed not in {None, UNUSED} and not chosen:
        raise click.UsageError(f"nothing that is kept is named {removed!r}.")
    names = [each.name for each in chosen]
    if chosen:
        confirm(f"Remove {count(len(chosen), 'thing')} ({', '.join(names)})?", yes=yes)
    for each in chosen:
        try:
            each.remove()
        except OSError as error:
            raise click.ClickException(f"Cannot remove {each.folder}: {error.strerror}.") from error
    if as_json:
        print_json({"kept": rows, "removed": names})
    elif removed:
        echo(f"Removed {count(len(chosen), 'thing')}.")
    else:
        table(
            [
                (str(row["name"]), f"{row['bytes']:,} bytes", "" if row["used"] else UNUSED, str(row["note"]))
                for row in rows
            ],
            empty="Nothing is kept.",
        )


def _is_chosen(kept: _Kept, wanted: str) -> bool:
    return not kept.used if wanted == UNUSED else fnmatchcase(kept.name, wanted)


def _kept(settings: Settings) -> Iterator[_Kept]:
    for home in homes_of(settings):
        owner = home.owner
        note = ", ".join(filter(None, [owner.path, owner.user, "" if owner.trusted else "untrusted"]))
        name = f"home/{owner.name}@{owner.source}"
        yield _Kept(name, home.folder, True, note, partial(empty, home.folder))
    for each in machine_of(settings).kept():
        yield _Kept(each.name, each.folder, each.is_used, each.note, each.remove)
    store = open_snapshots(settings)
    for snapshot in store.cached():
        name, folder = f"snapshot/{snapshot.digest[:_SHOWN]}", store.folder / snapshot.digest
        remove = partial(store.remove, snapshot.digest)
        yield _Kept(name, folder, _is_loaded(snapshot), snapshot.skill, remove)


def _is_loaded(snapshot: "CachedSnapshot") -> bool:
    return snapshot.age < _JUST_NOW or any(is_needed(snapshot.digest, each) for each in snapshot.addresses)
