"""What is kept for scripts in the user's state folder: a home for each skill, a scratch for each thread.

Scripts write these, so nothing in them is believed: what says whose a home is stands beside it. A home is
that of one skill of one source at one place, for one caller, and an untrusted version of a skill does not get
what a trusted one has kept. Newer versions of a skill get the same home.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.graph.private_files import PrivateFileError, folder_name, make_private_folder
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import make_state_folder, state_folder, user_state_folder
from skills_agent.skills.confined import opened_folder, read_own_file, write_own_file
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.machine import KeptFolder
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.trees import empty, open_up

logger = logging.getLogger(__name__)

_OWNER: Final = "owner.json"
_HOME: Final = "home"


class HomeOwner(NamedTuple):
    """Whose home it is."""

    name: str
    source: str
    path: str
    """The SKILL.md, as its source names it."""
    user: str
    """The caller; empty where there is none."""
    trusted: bool

    @property
    def folder_name(self) -> str:
        """Return a name for the folder: two owners never share one."""
        digest = hashlib.sha256(json.dumps(self).encode(errors="replace")).hexdigest()
        return folder_name(self.name).partition(".")[0][:40] + f"-{digest[:16]}"


class KeptFolders:
    """The folders of one workspace's threads, and of this user's skills."""

    def __init__(self, settings: Settings, homes: Path | None = None) -> None:
        """Make nothing yet. `homes` is where the homes are; if left out, in the user's state folder."""
        self._settings = settings
        self._homes = homes or homes_folder(settings)

    def home(self, ref: SkillRef, user: str | None, *, trusted: bool) -> Path | None:
        """Make the home of a skill, check that it is this user's alone, and return it.

        None, with a warning, where nothing can be kept. Raises ScriptError for no folder of this user.
        """
        owner = HomeOwner(ref.name, ref.source, ref.path, user or "", trusted)
        place = self._homes / owner.folder_name
        return self._made(place, place / _HOME, owner)

    def scratch(self, thread: str) -> Path | None:
        """Make the scratch folder of a thread, and return it, as `home` does."""
        place = scratch_place(self._settings, thread)
        return self._made(place, place / "scratch")

    def _made(self, place: Path, folder: Path, owner: HomeOwner | None = None) -> Path | None:
        try:
            make_state_folder(self._settings)
            make_private_folder(place.parent, place)
            if owner:
                _note_owner(place / _OWNER, json.dumps(owner._asdict()).encode())
        except (OSError, PrivateFileError) as error:
            logger.warning("nothing is kept for scripts: %s", error)
            return None
        try:
            _give_back_rights(folder)
            return make_private_folder(folder)
        except PrivateFileError as error:
            raise ScriptError(f"Not run: {error}") from error


def _note_owner(file: Path, content: bytes) -> None:
    """Write whose home it is. Whoever else does so writes the same: the folder is named after the owner."""
    with suppress(FileNotFoundError):
        if read_own_file(file, secret=True, follow=False) == content:
            return
    write_own_file(file, content)


def _give_back_rights(folder: Path) -> None:
    """Undo what a script did to the mode of its own folder: nobody else gets to it, by the folder above."""
    with suppress(OSError):
        open_up(str(folder))
        with opened_folder(folder) as descriptor:
            os.fchmod(descriptor, 0o700)


def homes_folder(settings: Settings) -> Path:
    """Return the folder of all homes of this user."""
    return user_state_folder(settings) / "homes"


def scratch_place(settings: Settings, thread: str) -> Path:
    """Return the folder of what a thread keeps: its scratch folder is in it."""
    return state_folder(settings) / "scratch" / folder_name(thread)


def homes_of(settings: Settings) -> Iterator[KeptFolder]:
    """Yield the homes of skills: the folders that scripts get as HOME."""
    places = homes_folder(settings)
    for place in sorted(places.iterdir()) if places.is_dir() else ():
        with suppress(OSError, PrivateFileError, ValueError, TypeError):
            owner = HomeOwner(**json.loads(read_own_file(place / _OWNER, secret=True, follow=False)))
            folder, notes = place / _HOME, (owner.path, owner.user, "" if owner.trusted else "untrusted")
            if not folder.is_symlink():
                name, note = f"home/{owner.name}@{owner.source}", ", ".join(filter(None, notes))
                yield KeptFolder(name, folder, note, is_used=True, remove=partial(empty, folder))


def forget_scratch(settings: Settings, thread: str) -> None:
    """Remove what a thread keeps for scripts. Raises OSError."""
    place = scratch_place(settings, thread)
    if place.is_dir() and not place.is_symlink():
        empty(place)
        place.rmdir()
