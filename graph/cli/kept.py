"""skills-agent skills doctor --kept: what is kept on this machine for skills, and its end."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from skills_agent.graph.cli.printing import ask_for_yes, echo, is_terminal, print_json, table
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


class Kept(NamedTuple):
    """One thing that is kept."""

    name: str
    bytes: int
    used: bool
    note: str
    folder: Path
    remove: Callable[[], None]
    """Raises OSError."""


def show_kept(settings: Settings, removed: str | None, *, yes: bool, as_json: bool) -> None:
    """Print what is kept, or remove what a pattern of names, or "unused", says."""
    kept = sorted(_kept(settings))
    chosen = [each for each in kept if _is_chosen(each, removed)] if removed else []
    if removed not in {None, UNUSED} and not chosen:
        raise click.UsageError(f"nothing that is kept is named {removed!r}.")
    if chosen:
        _remove(chosen, yes=yes)
    if as_json:
        fields = ("name", "bytes", "used", "note", "folder")
        rows = [{field: getattr(each, field) for field in fields} for each in kept]
        print_json({"kept": rows, "removed": [each.name for each in chosen]})
    elif removed:
        echo(f"Removed {_sum(chosen)}.")
    else:
        table(
            [(each.name, f"{each.bytes:,}", "yes" if each.used else "no", each.note) for each in kept],
            header=("NAME", "BYTES", "USED", ""),
        )
        echo(f"{_sum(kept)}.")


def _is_chosen(kept: Kept, wanted: str) -> bool:
    return not kept.used if wanted == UNUSED else fnmatchcase(kept.name, wanted)


def _sum(kept: list[Kept]) -> str:
    return f"{count(len(kept), 'thing')}, {sum(each.bytes for each in kept):,} bytes"


def _kept(settings: Settings) -> Iterator[Kept]:
    def kept(name: str, folder: Path, remove: Callable[[], None], *, used: bool, note: str) -> Kept:
        return Kept(name, weigh(folder).bytes, used, note, folder, remove)

    for home in homes_of(settings):
        owner, remove = home.owner, partial(empty, home.folder)
        note = ", ".join(filter(None, [owner.path, owner.user, "" if owner.trusted else "untrusted"]))
        yield kept(f"home/{owner.name}@{owner.source}", home.folder, remove, used=True, note=note)
    for each in machine_of(settings).kept():
        yield kept(each.name, each.folder, each.remove, used=each.is_used, note=each.note)
    store = open_snapshots(settings)
    for snapshot in store.cached():
        digest, folder = snapshot.digest, store.folder / snapshot.digest
        name, remove = f"snapshot/{digest[:_SHOWN]}", partial(store.remove, digest)
        yield kept(name, folder, remove, used=_is_loaded(snapshot), note=snapshot.skill)


def _is_loaded(snapshot: "CachedSnapshot") -> bool:
    return snapshot.age < _JUST_NOW or any(is_needed(snapshot.digest, each) for each in snapshot.addresses)


def _remove(chosen: list[Kept], *, yes: bool) -> None:
    if not yes and not is_terminal():
        raise click.UsageError("nobody can be asked here: say --yes")
    if not yes:
        ask_for_yes(f"Remove {_sum(chosen)} ({', '.join(each.name for each in chosen)})?")
    for each in chosen:
        try:
            each.remove()
        except OSError as error:
            raise click.ClickException(f"Cannot remove {each.folder}: {error.strerror}.") from error
