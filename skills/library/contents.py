"""What a skill's folder holds, as one digest: it differs when anything that could be read or run differs.

The rule is in docs/skills.md, with an example, so that others can compute it. What it leaves out is in no
snapshot, so it cannot be read or run from one.
"""

import errno
import hashlib
import os
import posixpath
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from skills_agent.skills.confined import is_in, open_beneath
from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.skill import Resource, ResourceListing, ResourceType
from skills_agent.skills.sources.plugin import Plugin

LEFT_OUT: Final = frozenset(
    {
        ".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "__pycache__", "__MACOSX",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".DS_Store", "Thumbs.db", ".skill-manifest.json",
    }
)  # fmt: skip
"""Names of folders and files that are no part of a skill. `node_modules` is one: scripts need it to run.

The last is what a package says of the others (packages/manifest.py)."""
_PIECE: Final = 1 << 20
_MAX_DEPTH: Final = 100
"""Folders in one another."""
_NAMED: Final = 3
"""Files or folders that an error about size names."""

PLUGIN: Final = "plugin"
SKILL: Final = "skill"
"""A snapshot of a skill with its plugin has the plugin's folder, and a link to the skill's in it."""
_PLUGIN_VARIABLE: Final = b"CLAUDE_PLUGIN_ROOT"
_ABOVE: Final = re.compile(rb"(?<!\.)(?:\.\./)+[\w@+-][\w@+./-]*")
"""A path that leads up first: `../../scripts/report.py`."""
_MAX_PATHS: Final = 1_000
"""Such paths of one skill; what has more is no text of an author."""
_SEARCHED: Final = 1 << 20
"""Bytes of a file that may name its plugin; larger ones are no text of an author."""

MAX_LISTED: Final = 200
_TYPES: Final[Mapping[str, ResourceType]] = {
    "script": "script",
    "reference": "reference",
    "resource": "reference",
    "example": "reference",
    "asset": "asset",
    "template": "asset",
}
"""By the first folder of a path, in singular: those of the specification, and what is written in the wild."""
_RANKS: Final[Sequence[str]] = get_args(ResourceType)

Kind = Literal["file", "exec", "link"]


class SnapshotError(DetailedError, SkillError):
    """A skill's folder that cannot be copied or measured."""

    code = "snapshot-failed"
    sentence = "No snapshot of {folder} can be made: {reason}."
    folder: Path
    reason: str
    too_large: bool = False
    """Whether the folder is beyond the limits: another look would say the same."""


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

    @property
    def link(self) -> str:
        """Return what a link is written as."""
        return os.path.relpath(self.target, os.path.dirname(self.path) or ".")  # noqa: PTH120 - a text


def list_contents(folder: Path, limits: ContentLimits, skipped: list[str] | None = None) -> list[Member]:
    """List the files and links of a folder in the order of their paths' bytes. Raises SnapshotError.

    `skipped` gets the paths of what no digest covers: links that lead out or to themselves, and what is no
    file and no folder.
    """
    try:
        members = list(islice(_members(os.fspath(folder), skipped), limits.max_files + 1))
    except OSError as error:
        raise SnapshotError(folder, error.strerror or type(error).__name__) from error
    if any(member.path.count("/") > _MAX_DEPTH for member in members):
        raise SnapshotError(folder, f"more than {_MAX_DEPTH} folders are in one another")
    sizes = {member.path: 0 if member.kind == "link" else member.status.st_size for member in members}
    if len(sizes) > limits.max_files or sum(sizes.values()) > limits.max_bytes:
        raise too_large(folder, sizes, limits)
    return sorted(members, key=lambda each: os.fsencode(each.path))


def signature_of(members: Iterable[Member]) -> str:
    """Return what differs, as far as `stat` can tell, when a member differs."""
    stamps = []
    for path, kind, status, target in members:
        times = (status.st_mtime_ns, status.st_ctime_ns)
        stamps.append((path, kind, target, status.st_ino, status.st_size, *times, status.st_mode))
    return hashlib.sha256(repr(stamps).encode(errors="surrogateescape")).hexdigest()


class MemberDigest(NamedTuple):
    """The digest of one member: one line of what a folder's digest is made of."""

    path: str
    kind: Kind
    digest: str
    """SHA-256 of a file's bytes, or of the path that a link leads to."""


def read_digests(
    folder: Path, members: Iterable[Member], inside: str = "", copy: Path | None = None
) -> Iterator[MemberDigest]:
    """Read the members of a folder and yield the digest of each. Raises SnapshotError and OSError.

    `inside` is the beginning of their paths in what they are digests of. What was read is written to `copy`,
    a folder that has none of it.
    """
    for member in members:
        content = hashlib.sha256()
        if member.kind == "link":
            content.update(os.fsencode(inside + member.target))
            if copy:
                (copy / member.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                (copy / member.path).symlink_to(member.link)
        else:
            pieces = pieces_of(folder, member)
            is_program = member.kind == "exec"
            for piece in written(copy / member.path, pieces, executable=is_program) if copy else pieces:
                content.update(piece)
        yield MemberDigest(inside + member.path, member.kind, content.hexdigest())


def written(file: Path, pieces: Iterable[bytes], *, executable: bool) -> Iterator[bytes]:
    """Yield the pieces of a new file, which are in it at the end, with the folders above it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file.open("xb") as copy:
        for piece in pieces:
            copy.write(piece)
            yield piece
        os.fchmod(copy.fileno(), 0o700 if executable else 0o600)


def digest_of(members: Iterable[MemberDigest]) -> str:
    """Return the digest of a folder, by those of its members in the order of their paths' bytes."""
    whole = hashlib.sha256()
    for path, kind, digest in members:
        whole.update(b"\0".join((kind.encode(), os.fsencode(path), digest.encode())) + b"\n")
    return whole.hexdigest()


def read_digest(folder: Path, members: Iterable[Member], skill: str = "", copy: Path | None = None) -> str:
    """Read the members of a folder and return the digest. Raises SnapshotError.

    Where it is a plugin's folder and `skill` a skill's in it, the digest is that of the two together: of a
    folder with the plugin's as `plugin`, and the link `skill`. With `copy`, an empty folder, they are copied
    there, and the digest is that of the copy. That raises OSError, too.
    """
    if not skill:
        return digest_of(read_digests(folder, members, copy=copy))
    digests = read_digests(folder, members, f"{PLUGIN}/", copy and copy / PLUGIN)
    target = f"{PLUGIN}/{skill}"
    if copy:
        (copy / SKILL).symlink_to(target)
    link = MemberDigest(SKILL, "link", hashlib.sha256(os.fsencode(target)).hexdigest())
    return digest_of([*digests, link])


class Mentions(NamedTuple):
    """What the files of a skill name above its folder."""

    plugin: bool
    """Whether one has the variable for the plugin's folder."""
    paths: frozenset[str]
    """Relative to the skill's folder; each begins with `..`. Whether anything is there is not known."""

    def lead_to(self, skill: str, is_there: Callable[[str], bool]) -> bool:
        """Return whether they are in a plugin, and not in the skill alone.

        `skill` is the path of the skill's folder in the plugin's, and `is_there` tells it of any other path.
        """
        places = {posixpath.normpath(f"{skill}/{path}") for path in self.paths}
        inside = (place for place in places if place != ".." and not place.startswith("../"))
        return self.plugin or any(is_there(each) for each in inside if not f"{each}/".startswith(f"{skill}/"))


def mentions_in(folder: Path, members: Iterable[Member]) -> Mentions:
    """Return what the files of a skill name above its folder. Raises SnapshotError.

    A path may be relative to the file that has it, or to the skill's folder.
    """
    own = (each for each in members if each.kind != "link" and "node_modules/" not in each.path)
    plugin, paths = False, set[str]()
    for member in own:
        if member.status.st_size > _SEARCHED:
            continue
        content = b"".join(pieces_of(folder, member))
        plugin = plugin or _PLUGIN_VARIABLE in content
        for match in islice(_ABOVE.finditer(content), _MAX_PATHS):
            text = match[0].decode(errors="replace").rstrip(".")
            spelled = (text, posixpath.join(posixpath.dirname(member.path), text))
            paths.update(each for each in map(posixpath.normpath, spelled) if each.startswith("../"))
    return Mentions(plugin, frozenset(sorted(paths)[:_MAX_PATHS]))


class Measured(NamedTuple):
    """What a snapshot of a skill holds."""

    folder: Path
    """The skill's, or that of its plugin."""
    members: list[Member]
    """Of the folder."""
    digest: str
    skill: str = ""
    """The path of the skill's folder in its plugin's; empty where that is not copied."""


def measure(
    folder: Path,
    plugin: Plugin | None,
    limits: ContentLimits,
    *,
    mentions: Callable[[Path, list[Member]], Mentions] = mentions_in,
    read: Callable[[Path, list[Member], str], str] = read_digest,
) -> Measured:
    """Return what a snapshot of a skill's folder holds, as it is now: with its plugin, if a file names that.

    A plugin that cannot be copied is left out. `mentions` and `read` may answer in place of `mentions_in` and
    `read_digest`. Raises SnapshotError.
    """
    members = list_contents(folder, limits)
    above = plugin.folder if plugin is not None and plugin.state == "apart" else folder
    if above != folder and any(mentioned := mentions(folder, members)):
        with suppress(SnapshotError):
            skill, whole = folder.relative_to(above).as_posix(), list_contents(above, limits)
            places = {place for each in whole for place in _with_folders(each.path)}
            if skill in places and mentioned.lead_to(skill, places.__contains__):
                return Measured(above, whole, read(above, whole, skill), skill)
    return Measured(folder, members, read(folder, members, ""))


def _with_folders(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def pieces_of(folder: Path, member: Member) -> Iterator[bytes]:
    """Yield the content of a file; no link is followed on the way.

    Raises SnapshotError, also for a file that is no longer as large as it was when it was listed.
    """
    left = member.status.st_size
    try:
        with FileIO(open_beneath(folder, member.path, follow=False)) as file:
            while left and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield piece
            is_same = not left and not file.read(1)
    except OSError as error:
        raise SnapshotError(folder, f"{member.path}: {error.strerror or type(error).__name__}") from error
    if not is_same:
        raise SnapshotError(folder, f"{member.path}: it changes while it is read")


def _members(root: str, skipped: list[str] | None) -> Iterator[Member]:
    real, waiting = os.path.realpath(root, strict=True), [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(f"{root}/{prefix}") as entries:
            for entry in entries:
                relative = f"{prefix}{entry.name}"
                if entry.name in LEFT_OUT:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{relative}/")
                elif member := _member(real, relative, entry):
                    yield member
                elif skipped is not None:
                    skipped.append(relative)


def _member(root: str, relative: str, entry: os.DirEntry[str]) -> Member | None:
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        if is_endless(entry.path):
            return None
        real = os.path.realpath(entry.path)
        return Member(relative, "link", status, os.path.relpath(real, root)) if is_in(real, root) else None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Member(relative, "exec" if status.st_mode & stat.S_IXUSR else "file", status)


def is_endless(link: str) -> bool:
    """Return whether the system gives up on a link: it leads back to itself, or over some 40 others.

    To be asked before `os.path.realpath`, which follows more of them than Python's stack holds.
    """
    try:
        os.stat(link)  # noqa: PTH116 - a text
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def too_large(folder: Path, sizes: Mapping[str, int], limits: ContentLimits) -> SnapshotError:
    """Return the error for files, given by path, of which there are too many, or too many bytes."""
    if len(sizes) > limits.max_files:
        bound = f"{limits.max_files:,} files"
        weights = Counter(path.partition("/")[0] for path in sizes)
    else:
        bound = f"{limits.max_bytes:,} bytes"
        weights = Counter(sizes)
    heaviest = ", ".join(f"{name} ({weight:,})" for name, weight in weights.most_common(_NAMED))
    reason = f"it has more than {bound}, most of them in {heaviest}"
    return SnapshotError(folder, reason, too_large=True)


def resource_type(path: str) -> ResourceType:
    """Return what a file is, by the first folder of its path."""
    folder, slash, _ = path.partition("/")
    return _TYPES.get(folder.lower().removesuffix("s"), "other") if slash else "other"


def list_resources(files: Iterable[tuple[str, int]], limit: int = MAX_LISTED) -> ResourceListing:
    """List files, given as path and size in bytes, in path order; those of its evals are not for its users.

    Of too many, those of no known type are left out first.
    """
    own = ((path, size) for path, size in files if not path.startswith("evals/"))
    resources = [Resource(path, resource_type(path), size) for path, size in own]
    first = sorted(resources, key=lambda resource: (_RANKS.index(resource.type), resource.path))[:limit]
    first.sort(key=lambda resource: resource.path)
    return ResourceListing(tuple(first), omitted=len(resources) - len(first))


def relative_to(roots: Iterable[Path | str], path: str) -> str:
    """Return a path within a skill's folder, also when it was given as the absolute path of a file in it."""
    for root in roots:
        path = path.removeprefix(f"{root}/")
    return path


def summarize(types: Iterable[str]) -> str:
    """Sum up types of files as people say it: `2 scripts, 1 reference`; `no resources` for none."""
    counts = Counter("other file" if each == "other" else each for each in sorted(types, key=_RANKS.index))
    parts = [f"{count} {noun}" if count == 1 else f"{count} {noun}s" for noun, count in counts.items()]
    return ", ".join(parts) or "no resources"
