"""What is kept on this machine for skills (homes, packages, snapshots), and its end. Imports no LangGraph."""

from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

import click

from skills_agent.graph.cli.printing import confirm
from skills_agent.graph.settings import Settings
from skills_agent.skills.machine import KeptFolder
from skills_agent.skills.text import count

UNUSED: Final = "unused"
_SHOWN: Final = 12
"""Digits of a digest."""
_JUST_NOW: Final = 3600
"""Seconds: a thread may have loaded a snapshot that is younger, and not have been stored yet."""


def list_kept(settings: Settings) -> list[dict[str, Any]]:
    """Return what is kept: its `name` and `bytes`, whether it is `used`, a `note`, and its `folder`."""
    from skills_agent.skills.scripts.run_folders import weigh

    return [
        {
            "name": each.name,
            "bytes": weigh(each.folder).bytes,
            "used": each.is_used,
            "note": ", ".join(filter(None, ["" if each.is_used else UNUSED, each.note])),
            "folder": str(each.folder),
        }
        for each in _kept(settings)
    ]


def remove_kept(settings: Settings, wanted: str, *, yes: bool) -> list[str]:
    """Remove what a pattern of names, or "unused", says, and return the names.

    Raises UsageError for a name that nothing has, ClickException where nobody says yes.
    """
    chosen = [
        each
        for each in _kept(settings)
        if (not each.is_used if wanted == UNUSED else fnmatchcase(each.name, wanted))
    ]
    names = [each.name for each in chosen]
    if wanted != UNUSED and not chosen:
        raise click.UsageError(f"nothing that is kept is named {wanted!r}.")
    if chosen:
        confirm(f"Remove {count(len(chosen), 'thing')} ({', '.join(names)})?", yes=yes)
    for each in chosen:
        try:
            each.remove()
        except OSError as error:
            raise click.ClickException(f"Cannot remove {each.folder}: {error.strerror}.") from error
    return names


def _kept(settings: Settings) -> list[KeptFolder]:
    from skills_agent.graph.kept_folders import homes_of
    from skills_agent.graph.machine import machine_of
    from skills_agent.graph.settings import open_snapshots
    from skills_agent.graph.threads.references import is_needed

    kept = [*machine_of(settings).kept(), *homes_of(settings)]
    store = open_snapshots(settings)
    for snapshot in store.cached():
        digest, remove = snapshot.digest, partial(store.remove, snapshot.digest)
        is_used = snapshot.age < _JUST_NOW or any(
            is_needed(digest, address) for address in snapshot.addresses
        )
        name, folder = f"snapshot/{digest[:_SHOWN]}", store.folder / digest
        kept.append(KeptFolder(name, folder, snapshot.skill, is_used, remove))
    return sorted(kept, key=lambda each: each.name)
