"""What a skill's folder holds, as one digest: it differs when anything that could be read or run differs.

The rule, so that others can compute it (docs/skills.md has it with an example): one line for each file and
link beneath the folder, in the order of the paths' bytes,

    <kind> NUL <path> NUL <SHA-256 of the content, hex> LF

and the SHA-256 of all lines, hex. The path is relative, with `/`. The kind is `file`, `exec` (a file that its
owner may execute) or `link`; the content of a link is the path, in the folder, of what it leads to.

Left out: folders without files, what no author writes (version control, caches, virtual environments), links
that lead out of the folder, and what is neither a file nor a link. What is left out is in no snapshot, so it
cannot be read or run from one.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

from skills_agent.skills.confined import open_beneath
from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.skill import Resource, ResourceListing, ResourceType

LEFT_OUT: Final = frozenset(
    {
        ".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "__pycache__", "__MACOSX",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".DS_Store", "Thumbs.db",
    }
)  # fmt: skip
"""Names of folders and files that are no part of a skill. `node_modules` is one: scripts need it to run."""
_PIECE: Final = 1 << 20
_NAMED: Final = 3
"""Files or folders that an error about size names."""

MAX_LISTED: Final = 200
_TYPES: Final = MappingProxyType[str, ResourceType](
    {
        "scripts": "script",
        "script": "script",
        "references": "reference",
        "reference": "reference",
        "resources": "reference",
        "examples": "reference",
        "assets": "asset",
        "templates": "asset",
        "template": "asset",
    }
)  # the folders of the specification, and how they are spelled in the wild
_PLURALS: Final = MappingProxyType(
    {"script": "scripts", "reference": "references", "asset": "assets", "other": "other files"}
)

Kind = Literal["file", "exec", "link"]


class SnapshotError(DetailedError, SkillError):
    """A skill's folder that cannot be copied or measured."""

    code = "snapshot-failed"
    sentence = "No snapshot of {folder} can be made: {reason}."
    folder: Path
    reason: str


class SnapshotTooLargeError(SnapshotError):
    """A skill's folder beyond the limits. Nothing of it is loaded."""

    code = "snapshot-too-large"


class ContentLimits(NamedTuple):
    """How much a skill's folder may hold."""

    max_bytes: int = 256_000_000
    max_files: int = 20_000


class Member(NamedTuple):
    """One file or link of a folder, not read yet."""

    path: str
    """Relative to the folder, with `/`."""
    kind: Kind
    status: os.stat_result
    target: str = ""
    """Of a link: the path, in the folder, of what it leads to."""


class Contents(NamedTuple):
    """The files and links of a folder at one moment, in the order of their paths' bytes."""

    members: tuple[Member, ...]
    is_whole: bool
    """False where something was left out."""

    @property
    def signature(self) -> str:
        """Return what differs, as far as `stat` can tell, when a member differs."""
        stamps = []
        for path, kind, status, target in self.members:
            times = (status.st_mtime_ns, status.st_ctime_ns)
            stamps.append((path, kind, target, status.st_ino, status.st_size, *times, status.st_mode))
        return hashlib.sha256(repr((self.is_whole, stamps)).encode(errors="surrogateescape")).hexdigest()

    @property
    def changed(self) -> int:
        """Return when a member last changed (ns): nobody can set this time back."""
        return max((each.status.st_ctime_ns for each in self.members), default=0)


def folder_digest(folder: Path, limits: ContentLimits) -> str:
    """Return the digest of a folder as it is now. Raises SnapshotError."""
    return read_digest(folder, list_contents(folder, limits), limits)


def list_contents(folder: Path, limits: ContentLimits) -> Contents:
    """List what a folder holds, reading no file. Raises SnapshotError."""
    members: list[Member] = []
    left_out = False
    try:
        root = os.path.realpath(folder, strict=True)
        for member in _members(root):
            if member is None:
                left_out = True
                continue
            members.append(member)
            if len(members) > limits.max_files:
                raise _too_many(folder, members, limits)
    except OSError as error:
        raise SnapshotError(folder, error.strerror or type(error).__name__) from error
    if sum(_size(each) for each in members) > limits.max_bytes:
        raise _too_large(folder, members, limits)
    members.sort(key=lambda each: os.fsencode(each.path))
    return Contents(tuple(members), not left_out)


def read_digest(folder: Path, contents: Contents, limits: ContentLimits) -> str:
    """Read the members of a folder and return the digest. Raises SnapshotError."""
    whole = hashlib.sha256()
    left = limits.max_bytes
    for member in contents.members:
        content = hashlib.sha256(os.fsencode(member.target))
        if member.kind != "link":
            with open_member(folder, member.path) as file:
                while piece := file.read(_PIECE):
                    left -= len(piece)
                    if left < 0:  # it has grown since it was listed
                        raise _too_large(folder, contents.members, limits)
                    content.update(piece)
        line = (member.kind.encode(), os.fsencode(member.path), content.hexdigest().encode())
        whole.update(b"\0".join(line) + b"\n")
    return whole.hexdigest()


def open_member(folder: Path, path: str) -> FileIO:
    """Open a file beneath a folder; no link is followed on the way. Raises SnapshotError."""
    try:
        return FileIO(open_beneath(folder, path, follow=False))
    except OSError as error:
        raise SnapshotError(folder, f"{path}: {error.strerror or type(error).__name__}") from error


def _members(root: str) -> Iterator[Member | None]:
    """Yield the members beneath a real path in no order, and None for what is left out."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(f"{root}/{prefix}") as entries:
            for entry in entries:
                relative = f"{prefix}{entry.name}"
                if entry.name in LEFT_OUT:
                    yield None
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{relative}/")
                else:
                    yield _member(root, relative, entry)


def _member(root: str, relative: str, entry: os.DirEntry[str]) -> Member | None:
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        real = os.path.realpath(entry.path)
        inside = real == root or real.startswith(f"{root.rstrip('/')}/")
        return Member(relative, "link", status, os.path.relpath(real, root)) if inside else None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Member(relative, "exec" if status.st_mode & stat.S_IXUSR else "file", status)


def _size(member: Member) -> int:
    return 0 if member.kind == "link" else member.status.st_size


def _too_many(folder: Path, members: Iterable[Member], limits: ContentLimits) -> SnapshotTooLargeError:
    counts = Counter(each.path.partition("/")[0] for each in members if "/" in each.path)
    largest = ", ".join(f"{name} ({count:,} or more)" for name, count in counts.most_common(_NAMED))
    within = f", most of them in {largest}" if largest else ""
    reason = f"it has more than {limits.max_files:,} files{within}; the setting is max_snapshot_files"
    return SnapshotTooLargeError(folder, reason)


def _too_large(folder: Path, members: Iterable[Member], limits: ContentLimits) -> SnapshotTooLargeError:
    by_size = sorted(members, key=_size, reverse=True)[:_NAMED]
    largest = ", ".join(f"{each.path} ({_size(each):,})" for each in by_size)
    return SnapshotTooLargeError(
        folder,
        f"it has more than {limits.max_bytes:,} bytes, most of them in {largest}; "
        "the setting is max_snapshot_bytes",
    )


def resource_type(path: str) -> ResourceType:
    """Return what a file is, by the first folder of its path."""
    folder, slash, _ = path.partition("/")
    return _TYPES.get(folder.lower(), "other") if slash else "other"


def list_resources(files: Iterable[tuple[str, int]], limit: int = MAX_LISTED) -> ResourceListing:
    """List files, given as path and size in bytes, in path order.

    Of too many, those of no known type are left out first.
    """
    resources = [Resource(path, resource_type(path), size) for path, size in files]
    ranks = get_args(ResourceType)
    first = sorted(resources, key=lambda resource: (ranks.index(resource.type), resource.path))[:limit]
    first.sort(key=lambda resource: resource.path)
    return ResourceListing(tuple(first), omitted=len(resources) - len(first))


def relative_to(roots: Iterable[Path], path: str) -> str:
    """Return a path within a skill's folder, also when it was given as the absolute path of a file in it."""
    for root in roots:
        path = path.removeprefix(f"{root}/")
    return path


def summarize(types: Iterable[str]) -> str:
    """Sum up types of files as people say it: `2 scripts, 1 reference`; `no resources` for none."""
    counts = Counter(types)
    parts = [_counted(counts[kind], kind) for kind in get_args(ResourceType) if counts[kind]]
    return ", ".join(parts) or "no resources"


def _counted(count: int, kind: str) -> str:
    if count == 1:
        return f"1 {kind}" if kind != "other" else "1 other file"
    return f"{count} {_PLURALS[kind]}"
