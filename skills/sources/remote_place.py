"""A folder behind a URL as fsspec reaches it: listed within bounds, and read file by file."""

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final
from weakref import finalize
from zlib import crc32

from skills_agent.skills.errors import SourceAddressError, SourceExtraError
from skills_agent.skills.sources.fetched import (
    ListedFile,
    Listing,
    cause_of,
    is_silence,
    is_skill_file,
    raising_os_errors,
)

_SECRETS: Final = ((re.compile(r"//[^/@\s]*@"), "//"), (re.compile(r"\?[^\s:'\")]*"), ""))
"""Passwords before a host, signatures in a query: for nobody's eyes."""
_LOCAL: Final = frozenset({"file", "local"})
_WEB: Final = frozenset({"http", "https"})
_ARCHIVES: Final = frozenset({"zip", "tar", "libarchive"})
MAX_ARCHIVE_BYTES: Final = 256 * 1024 * 1024
_MAX_IN_MEMORY: Final = 8 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_HEAD_BYTES: Final = 64 * 1024
_MARKS: Final = (
    "ETag", "etag", "md5Hash", "content_hash", "sha", "CRC", "generation", "VersionId",
    "LastModified", "Last-Modified", "last_modified", "mtime", "modified", "updated", "created", "date_time",
)  # fmt: skip
"""What the file systems of fsspec call the facts that differ when a file has changed."""


class RemotePlace:
    """One look at a place: with a connection of its own, for fsspec's caches would hide what has changed."""

    def __init__(self, url: str, options: Mapping[str, Any], stamp: tuple[int, ...]) -> None:
        """Connect, and list the files, which may take long; raises OSError.

        An archive whose `stamp` stays needs no new look.
        """
        self.stamp = stamp
        self._web = url.partition("://")[0] in _WEB
        self.listing = Listing(without_secrets(url), quoted=self._web)
        with raising_os_errors(without_secrets):
            self._files, root = _open_archive(url, options) or _reach(url, options)
        self.listing.walk(root, self._entries)
        self._mark_skills()

    def read(self, name: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a file."""
        with raising_os_errors(without_secrets), _opened(self._files, name) as file:
            return b"".join(_pieces(file, limit))

    def _entries(self, folder: str) -> Iterator[ListedFile | str]:
        with raising_os_errors(without_secrets):
            entries = list(self._files.ls(folder, detail=True))
        for entry in entries:
            name = str(entry["name"])
            if self._web and not _is_beneath(folder, name):
                continue
            if entry.get("islink"):
                self.listing.refuse(name, "it is a link")
            elif entry.get("type") == "file":
                yield _listed(entry)
            elif entry.get("type") == "directory":
                yield name

    def _mark_skills(self) -> None:
        """Give every SKILL.md a size and a stamp, asking for the file where the listing has none."""
        for path, file in self.listing.files.items():
            if not is_skill_file(path) or (file.size is not None and file.stamp):
                continue
            try:
                self.listing.files[path] = self._looked_at(file.key[0])
            except OSError as error:  # the reader will report the file
                self.listing.failures += is_silence(error)

    def _looked_at(self, name: str) -> ListedFile:
        # Some clients say FileNotFoundError of any failure.
        with suppress(FileNotFoundError), raising_os_errors(without_secrets):
            file = _listed({**self._files.info(name), "name": name})
            if file.size is not None and file.stamp:
                return file
        head = self.read(name, _HEAD_BYTES)
        return ListedFile((name,), len(head), (crc32(head),))


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
    with raising_os_errors(without_secrets):
        files, path = _reach_archive(outer, kind, options)
        return _listed({**files.info(path), "name": outer}).stamp


def check_url(url: str) -> None:
    """Check that fsspec is installed and knows the URL, asking nothing of the place.

    Raises:
        SourceAddressError: the URL is of no known kind, or a folder on this machine.
        SourceExtraError: fsspec, or what it needs for this kind of URL, is not installed.
    """
    shown = without_secrets(url)
    first, scheme, _ = url.partition("://")
    if not scheme or first in _LOCAL:
        raise SourceAddressError(shown, "name a folder on this machine by its path, as a folder of skills.")
    try:
        from fsspec import get_filesystem_class  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SourceExtraError(shown, "fsspec is not installed") from error
    for link in url.split("::"):
        protocol, scheme, _ = link.partition("://")
        try:
            if scheme:
                get_filesystem_class(protocol)
        except ImportError as error:
            raise SourceExtraError(shown, cause_of(error)) from error
        except ValueError as error:
            raise SourceAddressError(shown, f"{protocol}:// is of no kind that fsspec knows.") from error


def _reach(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra

    files, path = url_to_fs(url, skip_instance_cache=True, **options)
    return files, path


def _reach_archive(outer: str, kind: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    return _reach(outer, {name: value for name, value in options.items() if name != kind})


def _open_archive(url: str, options: Mapping[str, Any]) -> tuple[Any, str] | None:
    """Open a copy of an archive, `zip://...::<where it is>`; None where the URL is of no archive."""
    # Reading it there would need a server that gives parts of files, and an archive that stays the same.
    kind, path, outer = _archive_parts(url)
    if not outer:
        return None
    from fsspec import get_filesystem_class  # noqa: PLC0415 - an extra

    with ExitStack() as stack:
        copy = stack.enter_context(SpooledTemporaryFile(max_size=_MAX_IN_MEMORY))
        _copy(*_reach_archive(outer, kind, options), copy)
        make = get_filesystem_class(kind)
        files = make(fo=copy, skip_instance_cache=True, **options.get(kind, {}))
        stack.pop_all()
    finalize(files, copy.close)
    return files, path


def _copy(files: Any, path: str, copy: IO[bytes]) -> None:
    with _opened(files, path) as file:
        for piece in _pieces(file, MAX_ARCHIVE_BYTES + 1):
            copy.write(piece)
    if copy.tell() > MAX_ARCHIVE_BYTES:
        raise OSError(errno.EFBIG, f"the archive is over {MAX_ARCHIVE_BYTES:,} bytes")
    copy.seek(0)


def _archive_parts(url: str) -> tuple[str, str, str]:
    """Return the kind of an archive, the path in it, and its URL, which is empty for what is no archive."""
    inner, _, outer = url.partition("::")
    kind, _, path = inner.partition("://")
    return kind, path, outer if kind in _ARCHIVES else ""


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


def _is_beneath(folder: str, link: str) -> bool:
    """Return whether a link of a page names something in the folder, and not the page sorted otherwise."""
    base = folder.rstrip("/") + "/"
    return link.startswith(base) and not re.search(r"[?#]", link.removeprefix(base))


def _listed(entry: Mapping[str, Any]) -> ListedFile:
    listed = entry.get("size")
    size = listed if isinstance(listed, int) else None
    marks = "|".join(f"{mark}={entry[mark]!r}" for mark in _MARKS if entry.get(mark) is not None)
    stamp = (size or 0, int.from_bytes(sha256(marks.encode()).digest()[:7])) if marks else ()
    return ListedFile((str(entry["name"]),), size, stamp)
