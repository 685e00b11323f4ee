"""Write the skills of a commit into a folder, from its objects: no work tree is made by `git`.

So no filter, no attribute (`export-ignore`, `eol`) and no hook has a say, and an entry is
written once, into a folder that is ours, under the rule of names of all packages.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final, NamedTuple

from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import EntryError, OfferError
from skills_agent.packages.git_program import Git
from skills_agent.packages.manifest import PASSED_OVER
from skills_agent.packages.offer import OfferedSkill, Wanted
from skills_agent.packages.staging import stage
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.trees import remove_tree

_MAX_LISTING: Final = 30_000_000
"""Bytes of the list of files: some 300,000 of them."""
_MAX_LINK: Final = 4_096
_PIECE: Final = 1 << 20
_ENTRY: Final = re.compile(
    rb"(?P<mode>\d{6}) (?P<type>\w+) (?P<id>[0-9a-f]+) +(?P<size>\d+|-)\t(?P<path>.+)", re.DOTALL
)
_LARGE_FILE: Final = b"version https://git-lfs.github.com/spec/"
_SKILL_FILE: Final = "SKILL.MD"
_SUBMODULE: Final = "160000"
"""The mode of one."""


class TreeEntry(NamedTuple):
    """One file of a commit."""

    mode: str
    """`100644`, `100755`; of a link `120000`, of a submodule `160000`."""
    id: str
    size: int
    path: str
    """What is not UTF-8 in it is a lone surrogate."""


class SkillsTree:
    """The skills of a commit in a folder, and what keeps some of them from being there."""

    def __init__(self, git: Git, commit: str, folder: Path, package: str) -> None:
        """Name an empty folder."""
        self._git = git
        self._commit = commit
        self._package = package
        self.folder = folder
        self._faults: dict[str, EntryError] = {}
        """By the folder of a skill: why it is not offered."""
        self._tops: set[str] = set()

    def write(self, path: str, limits: ContentLimits) -> None:
        """Write the skills at a path. Raises PackageError and GitFailedError."""
        entries = self._entries(path)
        chosen: list[TreeEntry] = []
        for top, group in _by_skill(entries, path):
            self._tops.add(top)
            try:
                chosen += _checked(group, self._package)
            except EntryError as error:
                self._faults[top] = error
        if len(chosen) > limits.max_files or sum(each.size for each in chosen) > limits.max_bytes:
            most = f"{limits.max_files:,} files or {limits.max_bytes:,} bytes"
            reason = f"its skills have more than {most}: name a folder in it"
            raise OfferError(self._package, reason)
        try:
            self.folder.mkdir()
            if any(each.path.startswith(f"{path}/") for each in entries):
                (self.folder / path).mkdir(parents=True, exist_ok=True)
            self._write(chosen)
        except OSError as error:
            raise OfferError(self._package, error.strerror or str(error)) from error

    def stage(self, wanted: Wanted) -> tuple[OfferedSkill, ...]:
        """Copy the wanted skills, as `staging.stage` does. Raises PackageError."""
        for top, fault in self._faults.items():
            remove_tree(self.folder / top)  # what is written of it
            if not wanted.names or PurePosixPath(top).name in wanted.names:
                wanted.pass_over([fault], self._tops - self._faults.keys())
        try:
            return stage(self.folder, wanted)
        except OfferError:
            for fault in self._faults.values():  # it may be the one that is missing
                raise fault from None
            raise

    def read(self, path: str, limit: int) -> bytes | None:
        """Return a file of the commit; None where there is none. Raises OfferError and GitFailedError."""
        found = [each for each in self._entries(path) if each.path == path]
        if not found or not found[0].mode.startswith("100"):
            return None
        if found[0].size > limit:
            raise OfferError(self._package, f"{path} in it has more than {limit:,} bytes")
        return self._git.run("cat-file", "blob", found[0].id, max_output=limit)

    def _entries(self, path: str) -> list[TreeEntry]:
        arguments = ["ls-tree", "-r", "-l", "-z", "--full-tree", self._commit, "--", *([path] * bool(path))]
        listing = self._git.run(*arguments, max_output=_MAX_LISTING)
        return [_entry(line) for line in listing.split(b"\0") if line]

    def _write(self, entries: list[TreeEntry]) -> None:
        """Write files first and links last: nothing is written by way of one."""
        for entry, target in list(self._write_files(entries)):
            if b"\0" in target or not target:
                self._refuse(entry, "it is a link that leads nowhere")
                continue
            place = self.folder / entry.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(os.fsdecode(target))

    def _write_files(self, entries: list[TreeEntry]) -> Iterator[tuple[TreeEntry, bytes]]:
        """Write the files, and yield the links with where they lead."""
        with tempfile.TemporaryFile() as ids:
            ids.write(b"".join(f"{each.id}\n".encode() for each in entries))
            ids.seek(0)
            with self._git.started(["cat-file", "--batch"], ids) as out:
                for entry in entries:
                    pieces = _pieces(out, entry)
                    if entry.mode == "120000":
                        yield entry, b"".join(pieces)
                    else:
                        self._write_file(entry, pieces)

    def _write_file(self, entry: TreeEntry, pieces: Iterator[bytes]) -> None:
        place = self.folder / entry.path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            for number, piece in enumerate(pieces):
                if not number and piece.startswith(_LARGE_FILE):
                    self._refuse(entry, "it is in Git LFS, which is not fetched")
                file.write(piece)
            os.fchmod(file.fileno(), 0o755 if entry.mode == "100755" else 0o644)

    def _refuse(self, entry: TreeEntry, reason: str) -> None:
        top = next(each for each in _above(entry.path) if each in self._tops)
        self._faults.setdefault(top, EntryNames(self._package).refused(entry.path, reason))


def _entry(line: bytes) -> TreeEntry:
    match = _ENTRY.fullmatch(line)
    if match is None:
        raise ValueError(line)
    size = 0 if match["size"] == b"-" else int(match["size"])
    return TreeEntry(match["mode"].decode(), match["id"].decode(), size, os.fsdecode(match["path"]))


def _by_skill(entries: Iterable[TreeEntry], path: str) -> list[tuple[str, list[TreeEntry]]]:
    """Return the folders that hold a SKILL.md, outermost ones, with all that is in them."""
    entries = [each for each in entries if not path or each.path.startswith(f"{path}/")]
    folders = {
        each.path.rpartition("/")[0]
        for each in entries
        if each.path.upper().rpartition("/")[2] == _SKILL_FILE
    }
    grouped: dict[str, list[TreeEntry]] = {}
    for each in entries:
        above = [parent for parent in _above(each.path) if parent in folders]
        if above:
            grouped.setdefault(above[-1], []).append(each)
    return sorted(grouped.items())


def _above(path: str) -> Iterator[str]:
    """Yield the folders of a path, the nearest first; the tree's own is empty."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _checked(entries: Iterable[TreeEntry], package: str) -> list[TreeEntry]:
    names = EntryNames(package)
    kept = []
    for entry in entries:
        if not PASSED_OVER.isdisjoint(entry.path.split("/")):
            continue
        names.add(entry.path)
        if entry.mode == _SUBMODULE:
            raise names.refused(entry.path, "it is a submodule, which is not fetched")
        if entry.mode == "120000" and entry.size > _MAX_LINK:
            raise names.refused(entry.path, "it is a link with too long a target")
        kept.append(entry)
    return kept


def _pieces(out: IO[bytes], entry: TreeEntry) -> Iterator[bytes]:
    """Yield a blob from what `cat-file --batch` prints."""
    head = out.readline().split()
    if head[1:] != [b"blob", str(entry.size).encode()]:
        raise OSError(f"{entry.path} is not in the repository")
    left = entry.size
    while left:
        piece = out.read(min(left, _PIECE))
        if not piece:
            raise OSError(f"{entry.path} is cut off")
        left -= len(piece)
        yield piece
    out.read(1)
