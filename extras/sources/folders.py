"""List a place that shows one folder at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from skills_agent.skills.sources.fetched import ListedFile, Listing
from skills_agent.skills.sources.walk import MAX_DEPTH, SKIPPED_FOLDERS
from skills_agent.skills.text import cause_of

MAX_FOLDERS: Final = 2_000


def add_folders(listing: Listing, root: str, entries_of: Callable[[str], Iterable[ListedFile | str]]) -> None:
    """Add the files of a folder and of those in it. Raises OSError where a folder does not answer.

    `entries_of` lists the files and the names of the folders in a folder. One that answers "no" is
    reported; of the first that is an error, too.
    """
    waiting = deque([(root, 0)])
    names = {root.rstrip("/")}
    while waiting and not listing.is_full:
        folder, depth = waiting.popleft()
        try:
            entries = list(entries_of(folder))
        except (FileNotFoundError, PermissionError) as error:
            if not depth:
                raise
            relative = _inside(root, folder)
            listing.report("folder-unreadable", f"{relative} cannot be read: {cause_of(error)}.")
            continue
        for folder in _add_entries(listing, root, entries):
            name = folder.rstrip("/")
            if name in names:
                continue
            if depth >= 2 * MAX_DEPTH or len(names) >= MAX_FOLDERS:
                listing.report("scan-limit", "Not all folders are searched: they are too many, or too deep.")
                break
            names.add(name)
            waiting.append((folder, depth + 1))


def _add_entries(listing: Listing, root: str, entries: Iterable[ListedFile | str]) -> Iterator[str]:
    """Add files, and yield the folders that are to be searched."""
    for entry in entries:
        name = entry if isinstance(entry, str) else entry.key[0]
        relative = _inside(root, name)
        if relative is None:
            listing.refuse(name, "it is in another folder")
        elif not isinstance(entry, str):
            listing.add(relative, entry)
        elif (plain := listing.plain(relative)) and plain.rpartition("/")[2] not in SKIPPED_FOLDERS:
            yield name


def _inside(root: str, name: str) -> str | None:
    """Return the part of a listed name beneath the root, unchecked; None where it is not beneath it."""
    base = root.rstrip("/")
    if not base:
        return name.removeprefix("/")
    return name[len(base) + 1 :] if name.startswith(f"{base}/") else None
