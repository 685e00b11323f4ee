"""A folder behind a URL as fsspec reaches it: listed within bounds, and read file by file."""

import errno
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, NamedTuple
from urllib.parse import unquote
from weakref import finalize
from zlib import crc32

from skills_agent.skills.sources.errors import SourceAddressError, SourceExtraError
from skills_agent.skills.sources.listed import answering, cause_of
from skills_agent.skills.sources.shelf import (
    MAX_DEPTH,
    ListedFile,
    Listing,
    ListingDraft,
    inside,
    is_skill_file,
)
from skills_agent.skills.sources.walk import SKIPPED_FOLDERS

_SECRETS: Final = ((re.compile(r"//[^/@\s]*@"), "//"), (re.compile(r"\?[^\s:'\")]*"), ""))
"""Passwords before a host, signatures in a query: for nobody's eyes."""
_LOCAL: Final = frozenset({"file", "local"})
_WEB: Final = frozenset({"http", "https"})
_ARCHIVES: Final = frozenset({"zip", "tar", "libarchive"})
MAX_ARCHIVE_BYTES: Final = 256 * 1024 * 1024
_MAX_IN_MEMORY: Final = 8 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_MAX_FAILURES: Final = 3
"""Folders without an answer before the rest is not tried."""
_HEAD_BYTES: Final = 64 * 1024
_MARKS: Final = (
    "ETag", "etag", "md5Hash", "content_hash", "sha", "CRC", "generation", "VersionId",
    "LastModified", "Last-Modified", "last_modified", "mtime", "modified", "updated", "created", "date_time",
)  # fmt: skip
"""What the file systems of fsspec call the facts that differ when a file has changed."""


class Bounds(NamedTuple):
    """How much of a place is listed. What lies beyond is reported."""

    files: int
    folders: int


class _Reached(NamedTuple):
    """A file system of fsspec, and the path in it."""

    files: Any
    root: str


class _Folder(NamedTuple):
    name: str
    """As the file system calls it."""
    relative: str
    depth: int


class RemotePlace:
    """One look at a place: with a connection of its own, for fsspec's caches would hide what has changed."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        """Connect, which may take long; raises OSError like the other methods."""
        self._shown = without_secrets(url)
        self._web = url.partition("://")[0] in _WEB
        with self._asking():
            self._files, self._root = _archive(url, options) or _reach(url, options)

    def listing(self, bounds: Bounds) -> Listing:
        """List the files of the place."""
        draft = ListingDraft(self._shown, bounds.files)
        waiting = deque([_Folder(self._root, "", 0)])
        asked = failures = 0
        while waiting and not draft.full and failures < _MAX_FAILURES:
            if asked >= bounds.folders:
                draft.report("scan-limit", f"There are more than {asked:,} folders; the rest is left out.")
                break
            folder = waiting.popleft()
            asked += 1
            try:
                waiting.extend(self._inner(folder, draft))
            except OSError as error:
                if not folder.relative:
                    raise
                draft.report("folder-unreadable", f"{folder.relative} cannot be read: {cause_of(error)}.")
                failures += _is_silence(error)
        draft.whole = not failures
        self._mark_skills(draft)
        return draft.listing()

    def read(self, name: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a file."""
        with self._asking(), _opened(self._files, name) as file:
            return b"".join(_pieces(file, limit))

    def size(self, name: str) -> int:
        """Return the size of a file in bytes; 0 where the place does not say."""
        with self._asking():
            return int(self._files.info(name).get("size") or 0)

    def _inner(self, folder: _Folder, draft: ListingDraft) -> list[_Folder]:
        """Take the files of one folder, and return the folders in it."""
        with self._asking():
            entries = list(self._files.ls(folder.name, detail=True))
        inner: list[_Folder] = []
        for entry in entries:
            name = str(entry["name"])
            relative = self._relative(name, folder)
            if relative is None:
                continue
            if entry.get("islink"):
                draft.refuse(relative, "it is a link")
            elif entry.get("type") == "file":
                draft.add(relative, _listed(entry))
            elif entry.get("type") == "directory":
                plain = draft.checked(relative)
                if not plain or plain == folder.relative or plain.rpartition("/")[2] in SKIPPED_FOLDERS:
                    continue
                if folder.depth < 2 * MAX_DEPTH:
                    inner.append(_Folder(name, plain, folder.depth + 1))
                else:
                    draft.report("scan-limit", "Folders that are too deep are not searched.")
        return inner

    def _relative(self, name: str, folder: _Folder) -> str | None:
        """Return a listed name beneath the root; None for what is no name in that folder.

        A page of links may link anywhere, to the folder itself, or to the same page sorted otherwise.
        """
        relative = inside(self._root, name)
        if relative is None or not self._web:
            return relative
        is_beneath = name.startswith(folder.name.rstrip("/") + "/")
        return unquote(relative) if is_beneath and not re.search(r"[?#]", relative) else None

    def _mark_skills(self, draft: ListingDraft) -> None:
        """See to it that every SKILL.md has a size and a stamp, asking for the file where need be."""
        for path, file in draft.files.items():
            if not is_skill_file(path) or (file.size is not None and file.stamp):
                continue
            try:
                draft.files[path] = self._looked_at(file.at[0])
            except OSError as error:  # the reader will report the file
                draft.whole = draft.whole and not _is_silence(error)

    def _looked_at(self, name: str) -> ListedFile:
        with suppress(FileNotFoundError), self._asking():  # which is what some clients say of any failure
            file = _listed({**self._files.info(name), "name": name})
            if file.size is not None and file.stamp:
                return file
        head = self.read(name, _HEAD_BYTES)
        return ListedFile((name,), len(head), (crc32(head),))

    def _asking(self) -> AbstractContextManager[None]:
        return answering(without_secrets)


def without_secrets(text: str) -> str:
    """Return a text without what a URL in it may carry: passwords and signatures."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def archive_stamp(url: str, options: Mapping[str, Any]) -> tuple[int, ...]:
    """Return what differs when an archive has changed; empty for what is no archive, or when nobody knows."""
    kind, _, outer = _archive_parts(url)
    if not outer:
        return ()
    with answering(without_secrets):
        place = _reach(outer, _without(options, kind))
        return _listed({**place.files.info(place.root), "name": outer}).stamp


def check_url(url: str) -> None:
    """Check that fsspec is installed and knows the URL, asking nothing of the place.

    Raises:
        SourceAddressError: the URL is of no known kind, or a folder on this machine.
        SourceExtraError: fsspec, or what it needs for this kind of URL, is not installed.
    """
    shown = without_secrets(url)
    first, found, _ = url.partition("://")
    if not found or first in _LOCAL:
        raise SourceAddressError(shown, "name a folder on this machine by its path, as a folder of skills.")
    try:
        from fsspec import get_filesystem_class  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SourceExtraError(shown, "fsspec is not installed") from error
    for link in url.split("::"):
        protocol, found, _ = link.partition("://")
        try:
            if found:
                get_filesystem_class(protocol)
        except ImportError as error:
            raise SourceExtraError(shown, cause_of(error)) from error
        except ValueError as error:
            raise SourceAddressError(shown, f"{protocol}:// is of no kind that fsspec knows.") from error


def _reach(url: str, options: Mapping[str, Any]) -> _Reached:
    from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra

    return _Reached(*url_to_fs(url, skip_instance_cache=True, **options))


def _archive(url: str, options: Mapping[str, Any]) -> _Reached | None:
    """Open a copy of an archive, `zip://...::<where it is>`; None where the URL is of no archive.

    Reading it where it is would need a server that gives parts of files, and an archive that nobody
    replaces meanwhile.
    """
    kind, path, outer = _archive_parts(url)
    if not outer:
        return None
    from fsspec import get_filesystem_class  # noqa: PLC0415 - an extra

    place = _reach(outer, _without(options, kind))
    with ExitStack() as stack:
        copy = stack.enter_context(SpooledTemporaryFile(max_size=_MAX_IN_MEMORY))
        _copy(place, copy)
        make = get_filesystem_class(kind)
        files = make(fo=copy, skip_instance_cache=True, **options.get(kind, {}))
        stack.pop_all()
    finalize(files, copy.close)
    return _Reached(files, path)


def _copy(place: _Reached, copy: IO[bytes]) -> None:
    with _opened(place.files, place.root) as file:
        for piece in _pieces(file, MAX_ARCHIVE_BYTES + 1):
            copy.write(piece)
    if copy.tell() > MAX_ARCHIVE_BYTES:
        raise OSError(errno.EFBIG, f"the archive is over {MAX_ARCHIVE_BYTES:,} bytes")
    copy.seek(0)


class _ArchiveParts(NamedTuple):
    kind: str
    inside: str
    outer: str
    """URL of the archive; empty for what is no archive."""


def _archive_parts(url: str) -> _ArchiveParts:
    inner, chained, outer = url.partition("::")
    kind, _, path = inner.partition("://")
    return _ArchiveParts(kind, path, outer if chained and kind in _ARCHIVES else "")


def _without(options: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != kind}


def _opened(files: Any, name: str) -> Any:
    """Open a file for one read from its start, with no more asked for than is read."""
    if getattr(files, "protocol", None) == ("http", "https"):
        # As one stream, whatever its size: parts of files are more than every server can do.
        return files.open(name, "rb", block_size=0, size=-1)
    return files.open(name, "rb", cache_type="none")


def _pieces(file: Any, limit: int) -> Iterator[bytes]:
    while limit > 0 and (piece := file.read(min(limit, _PIECE))):
        yield piece
        limit -= len(piece)


def _is_silence(error: OSError) -> bool:
    """Tell whether a place gave no answer: that something is not there, or not for us, is one."""
    return not isinstance(error, FileNotFoundError | PermissionError)


def _listed(entry: Mapping[str, Any]) -> ListedFile:
    listed = entry.get("size")
    size = listed if isinstance(listed, int) else None
    marks = "|".join(f"{mark}={entry[mark]!r}" for mark in _MARKS if entry.get(mark) is not None)
    stamp = (size or 0, int.from_bytes(sha256(marks.encode()).digest()[:7])) if marks else ()
    return ListedFile((str(entry["name"]),), size, stamp)
