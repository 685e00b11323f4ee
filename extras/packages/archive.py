"""From an archive to an offer: unpack it into a folder of this process alone, or not at all.

Layouts: SKILL.md at the root (well-known sites), one folder (`.skill` files, uploads to claude.ai), or skills
anywhere (archives of repositories). An archive in an archive is a file like any other.
"""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skills_agent.packages.archive_entry import ArchiveFile, Entry
from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import OfferError
from skills_agent.packages.manifest import PASSED_OVER
from skills_agent.packages.offer import Offer, Wanted
from skills_agent.packages.staging import COPIES, stage
from skills_agent.packages.tar_archive import GZIP_MAGIC, tar_entries
from skills_agent.packages.zip_archive import ZIP_MAGIC, zip_entries
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.posix import flags
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.trees import remove_tree

_TREE: Final = "unpacked"
_PIECE: Final = 1 << 18
_ENTRIES_PER_FILE: Final = 2
"""Entries, and folders, that an archive may have for each file that it may have."""
MAX_RATIO: Final = 200
"""What an archive may unpack to, in times its size; text packs by 3 to 10, a bomb by 1,000."""
_FREE: Final = 4_000_000
"""Bytes that it may unpack to, however small it is."""
_MAX_TARGET: Final = 1_024
"""Bytes of what a link leads to."""
_READ: Final = flags("O_RDONLY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY")
_NEW: Final = flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC")
_OTHER_FORMATS: Final = {
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!": "rar",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress",
}


def offer_of_archive(file: Path, wanted: Wanted, resolved: str = "") -> Offer:
    """Offer the skills of an archive on this machine; `resolved` is the URL that it was fetched from.

    Raises PackageError; then nothing is left in the folder of the offer.
    """
    tree = wanted.into / _TREE
    package = wanted.address.text
    is_done = False
    try:
        with _private_copy(file, wanted) as archive:
            entries = _entries(archive, wanted.limits)
            tree.mkdir(mode=0o700)
            _Unpacking(archive, str(tree), wanted.limits).write(entries)
        skills = stage(tree, wanted, is_ours=True)
        is_done = True
    except OSError as error:
        raise OfferError(package, error.strerror or str(error)) from error
    finally:
        remove_tree(tree)
        if not is_done:
            remove_tree(wanted.into / COPIES)
    return Offer(wanted.address, skills, resolved)


@contextmanager
def _private_copy(file: Path, wanted: Wanted) -> Iterator[ArchiveFile]:
    """Copy an archive to a file without a name: nobody else writes what is read."""
    package, most = wanted.address.text, wanted.limits.max_bytes
    with (
        open(os.open(file, _READ), "rb", buffering=0) as source,  # noqa: PTH123 - a descriptor
        tempfile.TemporaryFile(dir=wanted.into, buffering=0) as copy,
    ):
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            raise OfferError(package, "it is no file")
        size = 0
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > most:
                reason = f"the archive has more than {most:,} bytes; the setting is max_snapshot_bytes"
                raise OfferError(package, reason)
            copy.write(piece)
        yield ArchiveFile(copy.fileno(), size, package)


def _entries(archive: ArchiveFile, limits: ContentLimits) -> Iterator[Entry]:
    """Read an archive by what its first bytes say it is, whatever its name says."""
    most = _ENTRIES_PER_FILE * limits.max_files
    head = archive.read_at(0, min(archive.size, 512))
    if head.startswith(ZIP_MAGIC):
        return zip_entries(archive, most)
    if head.startswith(GZIP_MAGIC):
        return tar_entries(archive, most, limits.max_bytes)
    if not head:
        raise archive.fault("the archive is empty")
    other = next((name for magic, name in _OTHER_FORMATS.items() if head.startswith(magic)), "")
    what = f"it is packed by {other}" if other else "it is no archive, or something stands before it"
    raise archive.fault(f"{what}; zip and tar.gz are read")


class _Unpacking:
    """One archive that is written into a folder, entry by entry."""

    def __init__(self, archive: ArchiveFile, tree: str, limits: ContentLimits) -> None:
        self._archive = archive
        self._tree = tree
        self._names = EntryNames(archive.package)
        self._most_folders = _ENTRIES_PER_FILE * limits.max_files
        self._most_bytes = limits.max_bytes
        self._left = min(limits.max_bytes, _FREE + MAX_RATIO * archive.size)
        self._folders = {""}
        self._links: dict[str, str] = {}
        self._others: dict[str, str] = {}
        """By folder: a file that is named like SKILL.md, and in another case."""
        self._skills: set[str] = set()
        """Folders with a SKILL.md."""

    def write(self, entries: Iterable[Entry]) -> None:
        """Write all entries, links last, so that nothing is written by way of one."""
        for entry in entries:
            is_folder = entry.kind == "folder"
            path = self._names.add(entry.path, is_folder=is_folder)
            is_part = PASSED_OVER.isdisjoint(path.split("/"))
            if entry.kind == "link":
                self._links[path] = self._target(path, entry)
            elif entry.kind == "file":
                self._write(path, entry, is_part=is_part)
        self._check_case()
        for path, target in self._links.items():
            if PASSED_OVER.isdisjoint(path.split("/")):
                self._make_folder(path.rpartition("/")[0])
                os.symlink(target, f"{self._tree}/{path}")  # noqa: PTH211 - as above

    def _write(self, path: str, entry: Entry, *, is_part: bool) -> None:
        if not is_part:  # nothing of it is installed, and all of it is checked
            for piece in entry.pieces:
                self._count(path, piece)
            return
        folder, _, name = path.rpartition("/")
        if name == SKILL_FILE:
            self._skills.add(folder)
        elif name.upper() == SKILL_FILE.upper():
            self._others[folder] = path
        self._make_folder(folder)
        descriptor = os.open(f"{self._tree}/{path}", _NEW, 0o600)
        try:
            for piece in entry.pieces:
                self._count(path, piece)
                _write_all(descriptor, piece)
            os.fchmod(descriptor, 0o755 if entry.is_exec else 0o644)
        finally:
            os.close(descriptor)

    def _count(self, path: str, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left >= 0:
            return
        reason = f"the archive unpacks to more than {MAX_RATIO} times its size"
        if self._most_bytes <= _FREE + MAX_RATIO * self._archive.size:
            reason = (
                f"the archive unpacks to more than {self._most_bytes:,} bytes; "
                "the setting is max_snapshot_bytes"
            )
        raise self._names.refused(path, reason)

    def _target(self, path: str, entry: Entry) -> str:
        raw = b""
        for piece in entry.pieces:
            raw += piece
            if len(raw) > _MAX_TARGET:
                raise self._names.refused(path, "it is a link with too long a target")
        try:
            target = raw.decode()
        except UnicodeDecodeError:
            raise self._names.refused(path, "it is a link, and what it leads to is not UTF-8") from None
        if not target or not target.isprintable() or "\\" in target or ":" in target:
            raise self._names.refused(path, "it is a link to what is no path on every system")
        place = os.path.normpath(f"{os.path.dirname(path)}/{target}".lstrip("/"))  # noqa: PTH120 - a text
        if target.startswith("/") or place == ".." or place.startswith("../"):
            raise self._names.refused(path, "it is a link that leads out of the archive")
        return target

    def _make_folder(self, folder: str) -> None:
        if folder in self._folders:
            return
        self._make_folder(folder.rpartition("/")[0])
        if len(self._folders) > self._most_folders:
            raise self._names.refused(folder, f"the archive has more than {self._most_folders:,} folders")
        os.mkdir(f"{self._tree}/{folder}", 0o755)  # noqa: PTH102 - paths as text take half the time
        self._folders.add(folder)

    def _check_case(self) -> None:
        """Refuse a skill.md in no skill: some systems take it for a SKILL.md, others find no skill in it."""
        for folder, path in self._others.items():
            above = folder
            while above and above not in self._skills:
                above = above.rpartition("/")[0]
            if above not in self._skills:
                raise self._names.refused(path, f"its name has to be {SKILL_FILE}")


def _write_all(descriptor: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(descriptor, left) :]
