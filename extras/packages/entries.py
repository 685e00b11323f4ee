"""The files of a package, wherever they come from: which are written, and which names they may have.

Writing refuses what would leave the folder. What a name means on another system is looked at where a skill is
staged or packed, and of its own files alone: device names and trailing dots of Windows, letters that a file
system takes for others, characters that nobody sees.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from skills_agent.packages.errors import EntryError, not_offered, shown
from skills_agent.packages.manifest import PASSED_OVER
from skills_agent.skills.library.contents import ContentLimits

MAX_PART: Final = 255
"""Bytes of one name; what usual file systems hold."""
MAX_PATH: Final = 1_024
"""Bytes."""
MAX_DEPTH: Final = 32
_LEADS_OUT: Final = re.compile(r"\A/|(?:\A|/)\.{0,2}(?:/|\Z)|\0")
_FAULTS: Final = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"\A\Z", "it has no name"),
        (r"\A/", "its path is absolute"),
        (r"[\\:]", "its name has a backslash or a colon, which lead elsewhere on Windows"),
        (_LEADS_OUT.pattern, "its path leads out of the package, or has an empty part"),
        (r"(?:\A|/) |[. ](?:/|\Z)", "its name begins or ends with a blank, or ends with a dot"),
        (
            r"(?i)(?:\A|/)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\.[^/]*)?(?:/|\Z)",
            "its name is that of a device on Windows",
        ),
    )
)
"""In this order: what a path must not match, and what is said."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_EMOJI_JOINERS: Final = frozenset("\u200d\ufe0f")

Kind = Literal["file", "exec", "folder", "link"]


class ArchiveEntry(NamedTuple):
    """One file, folder or link of a package."""

    path: str
    """As the package spells it: nobody has looked at it yet."""
    kind: Kind
    pieces: Iterable[bytes] = ()
    """Its content; of a link what it leads to. To be read before the next entry is asked for."""
    fault: str = ""
    """Why its reader does not give it; empty where it does."""


def write_entries(
    entries: Iterable[ArchiveEntry], folder: Path, package: str, limits: ContentLimits
) -> dict[str, str]:
    """Write entries into an empty folder, and return why others are not written, by path.

    Links come last, so that nothing is written by way of one. Of two entries of one name, and of a file below
    a file, the later is not written. Raises OSError, and PackageError for too many or too large ones.
    """
    faults: dict[str, str] = {}
    left, folder = limits.max_bytes, folder.resolve()
    for number, entry in enumerate(_links_last(entries)):
        if number >= 2 * limits.max_files:
            raise not_offered(package, f"it has more than {2 * limits.max_files:,} entries")
        path = entry.path.rstrip("/") if entry.kind == "folder" else entry.path
        fault = entry.fault or _unwritable(path, entry)
        if not fault and entry.kind != "folder" and PASSED_OVER.isdisjoint(path.split("/")):
            try:
                left -= _write(f"{folder}/{path}", entry, left)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                fault = "another entry is in its place"
        if fault:
            faults[path] = fault
        if left < 0:
            raise not_offered(package, f"it unpacks to more than {limits.max_bytes:,} bytes")
    return faults


def _links_last(entries: Iterable[ArchiveEntry]) -> Iterator[ArchiveEntry]:
    links = []
    for entry in entries:
        if entry.kind == "link" and not entry.fault:
            links.append(entry._replace(pieces=[next(iter(entry.pieces), b"")]))
        else:
            yield entry
    yield from links


def _write(place: str, entry: ArchiveEntry, most: int) -> int:
    """Write a new file and return its size, which is more than `most` where it is not written whole."""
    size = 0
    above = os.path.dirname(place)  # noqa: PTH120 - texts are faster
    if entry.kind == "link" and os.path.realpath(above) != above:  # by way of another link
        raise NotADirectoryError
    if not os.path.isdir(above):  # noqa: PTH112
        os.makedirs(above)  # noqa: PTH103
    if entry.kind == "link":
        os.symlink(b"".join(entry.pieces), os.fsencode(place))  # noqa: PTH211
        return size
    with open(place, "xb") as file:  # noqa: PTH123
        for piece in entry.pieces:
            size += len(piece)
            if size > most:
                break
            file.write(piece)
        os.fchmod(file.fileno(), 0o755 if entry.kind == "exec" else 0o644)
    return size


def check_names(package: str, paths: Iterable[str]) -> None:
    """Raise EntryError for a path that is not one file everywhere, by itself or beside the others.

    The folders above a path count, too. `package` is named as an error should.
    """
    spelled: dict[str, str] = {}  # by what a file system may take for the same
    for path in paths:
        if reason := name_fault(path):
            raise refused_entry(package, path, reason)
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            plain = "/".join(parts[:end])
            other = spelled.setdefault(_folded(plain), plain)
            if other != plain:
                raise refused_entry(package, path, f"{shown(other)} is the same name on some systems")


def refused_entry(package: str, path: str, reason: str) -> EntryError:
    """Return the error for an entry, with its name as people can read it."""
    return EntryError(package, shown(path) or "an entry without a name", reason)


def _unwritable(path: str, entry: ArchiveEntry) -> str:
    if _LEADS_OUT.search(path):
        return "its path leads out of the package, or has an empty part"
    if path.count("/") >= MAX_DEPTH:
        return "its path is too long"
    if entry.kind != "link":
        return ""
    target = os.fsdecode(b"".join(entry.pieces))
    place = os.path.normpath(f"{os.path.dirname(path)}/{target}".lstrip("/"))  # noqa: PTH120
    if not target or "\0" in target or len(target) > MAX_PATH:
        return "it is a link that leads nowhere"
    leads_out = target.startswith("/") or place == ".." or place.startswith("../")
    return "it is a link that leads out of the package" if leads_out else ""


def name_fault(path: str) -> str:
    """Return what is wrong with a path, whatever else is in the package; empty for nothing."""
    if reason := next((reason for pattern, reason in _FAULTS if pattern.search(path)), ""):
        return reason
    if any(unicodedata.category(each) in _HIDDEN for each in path if each not in _EMOJI_JOINERS):
        return "its name has characters that nobody can see"
    parts = path.split("/")
    is_long = len(path.encode()) > MAX_PATH or len(parts) > MAX_DEPTH
    is_long = is_long or any(len(part.encode()) > MAX_PART for part in parts)
    return "its path is too long" if is_long else ""


@lru_cache(maxsize=1_024)
def _folded(path: str) -> str:
    """Return what file systems that fold letters take for the same path."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
