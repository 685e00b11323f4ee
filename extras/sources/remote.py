"""Skills behind any URL that fsspec knows: `s3://`, `github://`, `zip://`, `memory://`, `https://`, ...

    RemoteSource("s3://company/skills", "company", storage_options={"anon": True})
    RemoteSource("zip://::https://example.org/skills.zip", "vendor")

Options of a chain go to its last link, where the archive is, or by kind: `{"s3": {"anon": True}}`.
"""

import errno
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from threading import Thread
from typing import IO, Any, Final, TypeVar
from weakref import finalize
from zlib import crc32

from skills_agent.skills.errors import SkillError
from skills_agent.skills.sources.fetched import (
    FetchedSource,
    ListedFile,
    Listing,
    is_skill_file,
)
from skills_agent.skills.sources.namespaces import no_source
from skills_agent.skills.text import cause_of
from skills_agent.sources.clients import raising_os_errors
from skills_agent.sources.folders import add_folders

Result = TypeVar("Result")
_MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Of all SKILL.md files that stay in memory."""
_SECRETS: Final = ((re.compile(r"//[^/@\s]*@"), "//"), (re.compile(r"\?[^\s:'\")]*"), ""))
"""Passwords before a host, signatures in a query: for nobody's eyes."""
_LOCAL: Final = frozenset({"file", "local"})
_WEB: Final = frozenset({"http", "https"})
_ARCHIVES: Final = frozenset({"zip", "tar", "libarchive"})
_MAX_ARCHIVE_BYTES: Final = 256 * 1024 * 1024
_MAX_IN_MEMORY: Final = 8 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_HEAD_BYTES: Final = 64 * 1024
_MARKS: Final = (
    "ETag", "etag", "md5Hash", "content_hash", "sha", "CRC", "generation", "VersionId",
    "LastModified", "Last-Modified", "last_modified", "mtime", "modified", "updated", "created", "date_time",
)  # fmt: skip
"""What the file systems of fsspec call the facts that differ when a file has changed."""


class RemoteSource(FetchedSource):
    """The skills beneath a URL."""

    def __init__(
        self,
        url: str,
        label: str,
        *,
        trusted: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        wait_seconds: float = 10.0,
        fresh_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name a URL, and what its file system is made with (keys, tokens, endpoints); asks nothing yet.

        A listing, or a file, is waited for `wait_seconds`; a listing stays fresh for `fresh_seconds`. Raises
        SkillError for a URL of no known kind or of this machine, as for one whose
        package is not installed.
        """
        _check_url(url)
        place = _without_secrets(url)
        super().__init__(label, place, trusted=trusted, clock=clock, fresh_seconds=fresh_seconds)
        self._url = url
        self._options = dict(storage_options or {})
        self._wait_seconds = wait_seconds
        self._remote: _RemotePlace | None = None
        self._pending: Future[_RemotePlace] | None = None
        """A listing that took longer than anybody waited for it."""
        self._silent_until = 0.0
        """After a file that nobody could wait for, a hundred others are not waited for one by one."""
        self._read: dict[ListedFile, bytes] = {}
        """SKILL.md files, each as far as it was read."""

    def _list(self) -> Listing:
        pending = self._pending = self._pending or _begin(partial(self._reach, self._remote))
        try:
            self._remote = self._result(pending)
        finally:
            if pending.done():
                self._pending = None
        listed = set(self._remote.listing.files.values())
        self._read = {file: content for file, content in self._read.items() if file in listed}
        return self._remote.listing

    def _reach(self, before: "_RemotePlace | None") -> "_RemotePlace":
        stamp = _archive_stamp(self._url, self._options)
        if stamp and before is not None and before.stamp == stamp:
            return before
        return _RemotePlace(self._url, self._options, stamp)

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        content = self._read.get(file)
        if content is not None and (len(content) >= limit or len(content) == file.size):
            return content[:limit]
        if self._remote is None:
            raise OSError(errno.ENOTCONN, "the source was never reached")
        if self._clock() < self._silent_until:
            raise OSError(errno.ETIMEDOUT, "the source does not answer")
        try:
            content = self._result(_begin(partial(self._remote.read, file.key[0], limit)))
        except TimeoutError:
            self._silent_until = self._clock() + self._fresh_seconds
            raise
        size = len(content) + sum(map(len, self._read.values()))
        if file.stamp and is_skill_file(file.key[0]) and size <= _MAX_KEPT_BYTES:
            self._read[file] = content
        return content

    def _result(self, answer: Future[Result]) -> Result:
        if not wait([answer], self._wait_seconds).done:
            raise OSError(errno.ETIMEDOUT, f"no answer in {self._wait_seconds:g} seconds")
        return answer.result()

    def _path(self, relative: str) -> str:
        # The inner path of a chain stands in its first link: zip://csv-report/SKILL.md::s3://bucket/skills.zip
        first, chained, rest = self.place.partition("::")
        return f"{first if first.endswith('/') else first + '/'}{relative}{chained}{rest}"

    def _root_name(self) -> str:
        named = next((link for link in self.place.split("::") if link.partition("://")[2].strip("/")), "")
        return named.rstrip("/").rpartition("/")[2].removesuffix(".zip")


def _begin(ask: Callable[[], Result]) -> Future[Result]:
    """Ask in a thread that nobody has to wait for, not even at the end of the process."""
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is taken
            answer.set_exception(error)

    Thread(target=run, name="skills-remote", daemon=True).start()
    return answer


class _RemotePlace:
    """One look at a place: with a connection of its own, for fsspec's caches would hide what has changed."""

    def __init__(self, url: str, options: Mapping[str, Any], stamp: tuple[int, ...]) -> None:
        """Connect, and list the files, which may take long; raises OSError."""
        self.stamp = stamp
        self._web = url.partition("://")[0] in _WEB
        self.listing = Listing(_without_secrets(url), quoted=self._web)
        with raising_os_errors(_without_secrets):
            self._files, root = _open_archive(url, options) or _reach(url, options)
        add_folders(self.listing, root, self._entries)
        self._mark_skills()

    def read(self, name: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a file."""
        with raising_os_errors(_without_secrets), _opened(self._files, name) as file:
            return b"".join(_pieces(file, limit))

    def _entries(self, folder: str) -> Iterator[ListedFile | str]:
        with raising_os_errors(_without_secrets):
            entries = list(self._files.ls(folder, detail=True))
        base = folder.rstrip("/") + "/"
        for entry in entries:
            name = str(entry["name"])
            inside = name.removeprefix(base)
            if self._web and (inside == name or re.search(r"[?#]", inside)):  # not the page sorted otherwise
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
            except (FileNotFoundError, PermissionError):  # the reader will report the file
                continue

    def _looked_at(self, name: str) -> ListedFile:
        # Some clients say FileNotFoundError of any failure.
        with suppress(FileNotFoundError), raising_os_errors(_without_secrets):
            file = _listed({**self._files.info(name), "name": name})
            if file.size is not None and file.stamp:
                return file
        head = self.read(name, _HEAD_BYTES)
        return ListedFile((name,), len(head), (crc32(head),))


def _without_secrets(text: str) -> str:
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _archive_stamp(url: str, options: Mapping[str, Any]) -> tuple[int, ...]:
    """Return what differs when an archive has changed; empty for what is no archive, or when nobody knows."""
    kind, _, outer = _archive_parts(url)
    if not outer:
        return ()
    with raising_os_errors(_without_secrets):
        files, path = _reach_archive(outer, kind, options)
        return _listed({**files.info(path), "name": outer}).stamp


def _check_url(url: str) -> None:
    shown = _without_secrets(url)
    first, scheme, _ = url.partition("://")
    if not scheme or first in _LOCAL:
        raise no_source(shown, "name a folder on this machine by its path, as a folder of skills.")
    try:
        from fsspec import get_filesystem_class  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise _extra_missing(shown, "fsspec is not installed") from error
    for link in url.split("::"):
        protocol, scheme, _ = link.partition("://")
        try:
            if scheme:
                get_filesystem_class(protocol)
        except ImportError as error:
            raise _extra_missing(shown, cause_of(error)) from error
        except ValueError as error:
            raise no_source(shown, f"{protocol}:// is of no kind that fsspec knows.") from error


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
        for piece in _pieces(file, _MAX_ARCHIVE_BYTES + 1):
            copy.write(piece)
    if copy.tell() > _MAX_ARCHIVE_BYTES:
        raise OSError(errno.EFBIG, f"the archive is over {_MAX_ARCHIVE_BYTES:,} bytes")
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


def _listed(entry: Mapping[str, Any]) -> ListedFile:
    listed = entry.get("size")
    size = listed if isinstance(listed, int) else None
    marks = "|".join(f"{mark}={entry[mark]!r}" for mark in _MARKS if entry.get(mark) is not None)
    stamp = (size or 0, int.from_bytes(sha256(marks.encode()).digest()[:7])) if marks else ()
    return ListedFile((str(entry["name"]),), size, stamp)


def _extra_missing(shown: str, cause: str) -> SkillError:
    return no_source(shown, f"{cause}. Try pip install skills-agent[remote].")
