"""Folders of the person, outside of the workspace, that the operator shares with the scripts of a skill."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from skills_agent.skills.confined import make_folder_beneath
from skills_agent.skills.scripts.environment import is_granted
from skills_agent.skills.scripts.runner import ScriptRequest

logger = logging.getLogger(__name__)


class SharedFolder(NamedTuple):
    """A folder that scripts see at its own path."""

    path: Path
    """Absolute, links resolved."""
    is_writable: bool
    in_home: PurePosixPath | None = None
    """Where it is in the person's home folder: the skill's own HOME has a link of that name."""

    def __str__(self) -> str:
        return f"{self.path} ({'to write' if self.is_writable else 'to read'})"


def shared_with(granted: Mapping[str, Sequence[SharedFolder]], request: ScriptRequest) -> list[SharedFolder]:
    """Return the folders that are there, and that the operator shares with the skill of a request."""
    names = (name for name in granted if is_granted((name,), request))
    folders = dict.fromkeys(each for name in names for each in granted[name])
    return [folder for folder in folders if folder.path.is_dir()]


def link_into(home: Path, folders: Iterable[SharedFolder]) -> None:
    """Have links in a skill's HOME that lead to shared folders, as `~/Notes`; what is there stays."""
    for folder in folders:
        if folder.in_home is None:
            continue
        try:
            above = make_folder_beneath(home, str(folder.in_home.parent), 0o700)
        except OSError as error:
            logger.warning("no link to %s in %s: %s", folder.path, home, error.strerror)
            continue
        try:
            with suppress(FileExistsError):
                os.symlink(folder.path, folder.in_home.name, dir_fd=above)
        finally:
            os.close(above)
