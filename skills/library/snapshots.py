"""Snapshots: immutable copies of skills' folders in a cache of the user, each named by its digest.

What a thread has loaded is read and run from the snapshot of the digest in its ledger, so it stays what it
was when the folder changes or goes. A snapshot is made as a draft, measured as it is written, and renamed: a
reader sees it whole or not at all. It is not flushed to the disk (20 files would cost 7 ms); instead each
process measures it before the first use, and again when `stat` tells that it changed: one that a crash or a
program left with other bytes is removed, and made anew while the folder still is that version.

Its files are the owner's to write, so that a script can fill in what it copies of them. No script gets at the
snapshot itself: a sandbox shows it read-only, and without one a run works on a copy of its own.
"""

import errno
import hashlib
import logging
import os
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from skills_agent.skills.confined import held_open, parts_of, write_own_file
from skills_agent.skills.library.contents import (
    ContentLimits,
    Measured,
    Member,
    Mentions,
    SnapshotError,
    list_contents,
    measure,
    mentions_in,
    read_digest,
    signature_of,
    too_large,
    written,
)
from skills_agent.skills.library.snapshot import Snapshot, snapshot_at
from skills_agent.skills.skill import Need
from skills_agent.skills.sources.plugin import Plugin
from skills_agent.skills.sources.protocol import SkillFile
from skills_agent.skills.text import clean_text
from skills_agent.skills.trees import remove_tree

_DIGEST_LENGTH: Final = 64
_DRAFT: Final = ".draft-"
_DRAFT_SECONDS: Final = 3600
"""A draft that is older was left behind by a process that was killed."""
_MAX_LEARNED: Final = 20
_TRIES: Final = 5
"""Times that a folder is read which changes meanwhile."""
_TICK: Final = 2_000_000_000
"""Nanoseconds: the coarsest clock of a file system. A later change has another time then."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class CachedSnapshot(NamedTuple):
    """A snapshot, and where the threads are kept that loaded it."""

    digest: str
    skill: str
    """The name that its frontmatter gives."""
    age: float
    """Seconds since it was made or loaded last."""
    addresses: tuple[str, ...]


class SnapshotStore:
    """The snapshots beneath one folder, which is made when it is needed. Threads and processes share it.

    Without a folder, or where it cannot be used, they are in a temporary one and end with this process.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        limits: ContentLimits = ContentLimits(),  # noqa: B008 - an immutable value
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock = clock
        self.folder = folder or Path()
        self._is_temporary = False
        if folder is None:
            self._be_temporary()
        self._limits = limits
        self._digests: dict[str, str] = {}
        """By the signature of the contents of a folder, and the path of the skill in it."""
        self._mentions: dict[str, Mentions] = {}
        """Of skills, by their digest: what their files name above them."""

    def take(self, root: Path, plugin: Plugin | None = None) -> Snapshot:
        """Return the snapshot of a skill's folder as it is now; unchanged files cost one `stat` each.

        With a plugin above it, the snapshot is of that, where the skill names it. Raises SnapshotError,
        which names the files that weigh most where they are too large.
        """

        def copy(measured: Measured) -> Snapshot:
            fill = partial(read_digest, measured.folder, measured.members, measured.skill)
            return self.open(measured.digest) or self._make(fill, measured.digest)

        return self._of_one_version(root, plugin, copy)

    def put(self, files: Iterable[SkillFile]) -> Snapshot:
        """Return the snapshot of files that come from elsewhere. Raises SnapshotError."""
        return self._make(partial(self._write_all, files))

    def open(self, digest: str) -> Snapshot | None:
        """Return a snapshot that is there and holds what its name says; remove one that does not.

        Raises SnapshotError for one that cannot be read, or is over the limits of today.
        """
        folder = self.folder / digest
        if len(digest) != _DIGEST_LENGTH or not (_is_own(self.folder) and _is_own(folder)):
            return None
        if self._read(folder, list_contents(folder, self._limits), "") == digest:
            return snapshot_at(digest, folder)
        logger.warning("snapshot damaged, removed", extra={"digest": digest})
        remove_tree(folder)
        return None

    def digest_of(self, root: Path, plugin: Plugin | None = None) -> str:
        """Return the digest of a skill's folder as it is now; it is read only if something changed.

        `plugin` as in `take`. Raises SnapshotError.
        """
        return self._of_one_version(root, plugin, lambda measured: measured.digest)

    def names_plugin(self, folder: Path, place: Path, plugin: Plugin) -> bool:
        """Return whether a file in the copy of a skill, which expects to be at `place`, names its plugin.

        Raises SnapshotError.
        """
        mentioned = self._mentions_in(folder, list_contents(folder, self._limits))
        skill = Path(os.path.relpath(place, plugin.folder)).as_posix()
        return mentioned.lead_to(skill, lambda path: os.path.lexists(plugin.folder / path))

    def refusal(self, folder: Path) -> str:
        """Return why a folder cannot be copied; empty where it can, as far as a look at it tells."""
        try:
            list_contents(folder, self._limits)
        except SnapshotError as error:
            return error.reason
        return ""

    def is_same(self, root: Path, digest: str, plugin: Plugin | None = None) -> bool:
        """Return whether a folder holds what a snapshot holds, and nothing that would be left out."""
        with suppress(SnapshotError):
            measured = self._measure(root, plugin)
            files = [path for path in measured.folder.rglob("*") if path.is_symlink() or not path.is_dir()]
            return measured.digest == digest and len(files) == len(measured.members)
        return False

    def refer(self, digest: str, address: str) -> None:
        """Note that a thread which is kept at an address has loaded a snapshot."""
        place = self._references(digest)
        with suppress(OSError):
            place.mkdir(mode=0o700, exist_ok=True)
            name = hashlib.sha256(address.encode(errors="surrogateescape")).hexdigest()
            (place / name[:32]).write_bytes(os.fsencode(address))

    def cached(self) -> Iterator[CachedSnapshot]:
        """Yield what is in the cache."""
        with suppress(FileNotFoundError):
            for folder in sorted(self.folder.iterdir()):
                if len(folder.name) == _DIGEST_LENGTH:
                    yield _cached(folder, self._references(folder.name))

    def learn(self, digest: str, needs: Iterable[Need]) -> None:
        """Note what a run of a version turned out to need, so that the next question can offer it."""
        file = self._learned(digest)
        with suppress(OSError):
            write_own_file(file, msgspec.json.encode([*self.learned(digest), *needs][:_MAX_LEARNED]))

    def learned(self, digest: str) -> tuple[Need, ...]:
        """Return what was noted so."""
        try:
            return msgspec.json.decode(self._learned(digest).read_bytes(), type=tuple[Need, ...])
        except (OSError, msgspec.MsgspecError):
            return ()

    def remove(self, digest: str) -> None:
        """Remove a snapshot, and what was noted of it."""
        self._learned(digest).unlink(missing_ok=True)
        remove_tree(self.folder / digest)
        remove_tree(self._references(digest))

    def _learned(self, digest: str) -> Path:
        return self.folder / f"{digest}.learned"

    def _references(self, digest: str) -> Path:
        return self.folder / f"{digest}.needed"

    def _of_one_version(self, root: Path, plugin: Plugin | None, use: Callable[[Measured], T]) -> T:
        """Return what is made of a folder, and of no two versions of it.

        An installer, `git` or `mv` may put another folder in its place meanwhile: the one that was opened is
        read to its end. What changes in that one is read again.
        """
        outer = plugin.folder if plugin is not None and plugin.state == "apart" else root
        for tries in range(_TRIES, 0, -1):
            try:
                with held_open(outer) as held:
                    own = plugin and plugin._replace(folder=held)
                    return use(self._measure(held / root.relative_to(outer), own))
            except OSError as error:
                if tries == 1:
                    raise SnapshotError(root, error.strerror or type(error).__name__) from error
            except SnapshotError as error:
                if tries == 1 or error.too_large:
                    raise SnapshotError(root, error.reason, error.too_large) from error
        raise AssertionError

    def _measure(self, root: Path, plugin: Plugin | None) -> Measured:
        return measure(root, plugin, self._limits, mentions=self._mentions_in, read=self._read)

    def _read(self, root: Path, members: list[Member], skill: str) -> str:
        signature = signature_of(members)
        key = f"{signature} {skill}"
        if key not in self._digests:
            digest = read_digest(root, members, skill)
            if self._signature(root) != signature:
                raise SnapshotError(root, "it changes while it is read")
            # Nobody can set `ctime` back: where the newest is old enough, a later change has another one.
            changed = max((member.status.st_ctime_ns for member in members), default=0)
            if changed >= self._clock() - _TICK:
                return digest
            self._digests[key] = digest
        return self._digests[key]

    def _mentions_in(self, folder: Path, members: list[Member]) -> Mentions:
        digest = self._read(folder, members, "")
        if digest not in self._mentions:
            self._mentions[digest] = mentions_in(folder, members)
        return self._mentions[digest]

    def _signature(self, root: Path) -> str:
        return signature_of(list_contents(root, self._limits))

    def _make(self, fill: Callable[[Path], str], expected: str = "") -> Snapshot:
        """Make a snapshot of what `fill` puts into a folder: it returns the digest of that."""
        draft: Path | None = None
        try:
            draft = self._draft()
            digest = fill(draft)
            if expected and digest != expected:
                raise SnapshotError(self.folder, "it changes while it is copied")
            snapshot = self._put_in_place(draft, digest)
            # Nobody else writes here, so what `stat` tells now needs no time to settle.
            self._digests[f"{self._signature(self.folder / digest)} "] = digest
        except OSError as error:
            raise SnapshotError(self.folder, error.strerror or type(error).__name__) from error
        finally:
            if draft is not None and draft.exists():
                remove_tree(draft)
        return snapshot

    def _put_in_place(self, draft: Path, digest: str) -> Snapshot:
        place = self.folder / digest
        try:
            draft.rename(place)
        except OSError:
            # Another thread or process was faster.
            if not _is_own(place):
                raise
        return snapshot_at(digest, place)

    def _draft(self) -> Path:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(self.folder):
                raise PermissionError(errno.EACCES, "it is not this user's alone")
            for draft in self.folder.glob(f"{_DRAFT}*"):
                with suppress(FileNotFoundError):
                    if time.time() - draft.lstat().st_mtime > _DRAFT_SECONDS:
                        remove_tree(draft)
            return Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self.folder))
        except OSError as error:
            if self._is_temporary:
                raise
            logger.warning("no snapshots in %s: %s", self.folder, error.strerror)
            self._be_temporary()
            return Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self.folder))

    def _be_temporary(self) -> None:
        self._is_temporary = True
        self.folder = Path(tempfile.mkdtemp(prefix="skills-agent-snapshots-"))
        weakref.finalize(self, remove_tree, self.folder)

    def _write_all(self, files: Iterable[SkillFile], draft: Path) -> str:
        sizes: dict[str, int] = {}
        left = self._limits.max_bytes
        for file in files:
            sizes[file.path] = len(file.content)
            left -= len(file.content)
            if left < 0 or len(sizes) > self._limits.max_files:
                raise too_large(self.folder, sizes, self._limits)
            list(written(draft.joinpath(*parts_of(file.path)), [file.content], executable=file.executable))
        return read_digest(draft, list_contents(draft, self._limits))


def _is_own(folder: Path) -> bool:
    """Return whether a path is a folder of this user that nobody else may write to."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return stat.S_ISDIR(status.st_mode) and is_private


def _name_in(folder: Path) -> str:
    for file in folder.glob("[Ss][Kk][Ii][Ll][Ll].[Mm][Dd]"):
        with suppress(OSError), file.open(encoding="utf-8", errors="replace") as lines:
            names = (line.partition(":")[2] for line in islice(lines, 50) if line.startswith("name:"))
            return clean_text(next(names, "")).text.strip()
    return ""


def _cached(folder: Path, references: Path) -> CachedSnapshot:
    notes = [folder, *references.glob("*")]
    return CachedSnapshot(
        digest=folder.name,
        skill=_name_in(snapshot_at(folder.name, folder).folder),
        age=max(0.0, time.time() - max(note.lstat().st_mtime for note in notes)),
        addresses=tuple(os.fsdecode(note.read_bytes()) for note in notes[1:]),
    )
