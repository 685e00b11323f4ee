"""Files of the agent beside a person's own: read by nobody else, and kept out of git."""

import errno
import os
from pathlib import Path


def make_private(place: Path) -> None:
    """Make an empty file for this user alone, where there is none, in a folder that git ignores it in.

    Raises OSError.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    ignore_in_git(place.parent, f"/{place.name}*")
    os.close(os.open(place, os.O_RDWR | os.O_CREAT, 0o600))


def open_private(place: Path, flags: int, *, folder_mode: int = 0o777) -> int:
    """Open a file of this user alone, and make it; where its folder is missing, one that git ignores whole.

    The folder is looked into only then: this is called at every step. Raises OSError.
    """
    flags |= os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(place, flags, 0o600)
    except FileNotFoundError:
        place.parent.mkdir(parents=True, exist_ok=True, mode=folder_mode)
        ignore_in_git(place.parent, "*")
        return os.open(place, flags, 0o600)


def ignore_in_git(folder: Path, pattern: str) -> None:
    """Add a pattern to the folder's .gitignore, unless it is there.

    A link of that name is left alone: whoever made the workspace chose what it leads to.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open(folder / ".gitignore", flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return
    with os.fdopen(opened, "r+", encoding="utf-8") as file:
        known = file.read()
        if pattern not in known.splitlines():
            file.write(f"{'' if known.endswith(chr(10)) or not known else chr(10)}{pattern}\n")
