"""What is kept on this machine for skills (homes, packages, snapshots), and its end. Imports no LangGraph."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from skills_agent.graph.cli.printing import confirm
from skills_agent.graph.settings import Settings
from skills_agent.skills.text import count

UNUSED: Final = "unused"
_SHOWN: Final = 12
"""Digits of a digest."""
_JUST_NOW: Final = 3600
"""Seconds: a thread may have loaded a snapshot that is younger, and not have been stored yet."""


class _Kept(NamedTuple):
    folder: Path
    is_used: bool
    note: str
    remove: Callable[[], None]
    """Raises OSError."""


def list_kept(settings: Settings) -> list[dict[str, Any]]:
    """Return what is kept: its `name` and `bytes`, whether it is `used`, a `note`, and its `folder`."""
    from skills_agent.skills.scripts.run_folders import weigh

    return [
        {
            "name": name,
            "bytes": weigh(each.folder).bytes,
            "used": each.is_used,
            "note": ", ".join(filter(None, ["" if each.is_used else UNUSED, each.note])),
            "folder": str(each.folder),
        }
        for name, each in sorted(_kept(settings))
    ]


def remove_kept(settings: Settings, wanted: str, *, yes: bool) -> list[str]:
    """Remove what a pattern of names, or "unused", says, and return the names.

    Raises UsageError for a name that nothing has, ClickException where nobody says yes.
    """
    chosen = {
        name: each
        for name, each in sorted(_kept(settings))
        if (not each.is_used if wanted == UNUSED else fnmatchcase(name, wanted))
    }
    if wanted != UNUSED and not chosen:
        raise click.UsageError(f"nothing that is kept is named {wanted!r}.")
    if chosen:
        confirm(f"Remove {count(len(chosen), 'thing')} ({', '.join(chosen)})?", yes=yes)
    for each in chosen.values():
        try:
            each.remove()
        except OSError as error:
            raise click.ClickException(f"Cannot remove {each.folder}: {error.strerror}.") from error
    return [*chosen]


def _kept(settings: Settings) -> Iterator[tuple[str, _Kept]]:
    from skills_agent.graph.kept_folders import homes_of
    from skills_agent.graph.needs import machine_of
    from skills_agent.graph.settings import open_snapshots
    from skills_agent.graph.threads.references import is_needed
    from skills_agent.skills.trees import empty

    for home in homes_of(settings):
        owner = home.owner
        note = ", ".join(filter(None, [owner.path, owner.user, "" if owner.trusted else "untrusted"]))
        remove = partial(empty, home.folder)
        yield f"home/{owner.name}@{owner.source}", _Kept(home.folder, True, note, remove)
    for each in machine_of(settings).kept():
        yield each.name, _Kept(each.folder, each.is_used, each.note, each.remove)
    store = open_snapshots(settings)
    for snapshot in store.cached():
        digest = snapshot.digest
        is_used = snapshot.age < _JUST_NOW or any(is_needed(digest, each) for each in snapshot.addresses)
        kept = _Kept(store.folder / digest, is_used, snapshot.skill, partial(store.remove, digest))
        yield f"snapshot/{digest[:_SHOWN]}", kept
