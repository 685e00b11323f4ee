"""Skills behind any URL that fsspec knows: `s3://`, `github://`, `zip://`, `memory://`, `https://`, ...

    RemoteSource("s3://company/skills", "company", storage_options={"anon": True})
    RemoteSource("zip://::https://example.org/skills.zip", "vendor")

An archive is fetched once for every change of it; `github://` and `https://` (whose server must list folders
as links) are asked once for each folder. Options of a chain go to its last link, where the archive is, or by
kind: `{"s3": {"anon": True}}`. The scripts of these skills cannot run, for nothing is put on disk: to run
them get a copy, and name its folder as a source.

The place is asked at most every 30 seconds, and nobody waits for it longer than 10: a listing that takes
longer goes on, and is used when it is there. The SKILL.md files that were read are kept in memory, so that
a skill loads while its place cannot be reached.
"""

import errno
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, TypeVar

from skills_agent.skills.sources.listed import KEEP_SECONDS, MAX_FILE_BYTES, ListedSource
from skills_agent.skills.sources.remote_place import (
    Bounds,
    RemotePlace,
    archive_stamp,
    check_url,
    without_secrets,
)
from skills_agent.skills.sources.shelf import ListedFile, Listing

Result = TypeVar("Result")
_KEPT_BYTES: Final = 16 * 1024 * 1024
_SIZES_ASKED: Final = 200
"""Where every size is a request of its own."""


class RemoteLimits(NamedTuple):
    """How much is asked of a remote place, and how long for."""

    files: int = 20_000
    folders: int = 2_000
    wait_seconds: float = 10.0
    """For a listing, and for a file."""
    fresh_seconds: float = 30.0
    """A listing is not asked for again before this."""
    keep_seconds: float = KEEP_SECONDS
    """How long skills stay while the place does not answer."""


class _Look(NamedTuple):
    place: RemotePlace
    listing: Listing
    stamp: tuple[int, ...]
    """Of an archive: one that has not changed is not fetched again."""


class RemoteSource(ListedSource):
    """The skills beneath a URL."""

    def __init__(
        self,
        url: str,
        label: str,
        *,
        trusted: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        limits: RemoteLimits = RemoteLimits(),  # noqa: B008 - an immutable value
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name a URL, and what its file system is made with (keys, tokens, endpoints); asks nothing yet.

        Raises:
            SourceAddressError: the URL is of no known kind, or a folder on this machine.
            SourceExtraError: fsspec, or what it needs for this kind of URL, is not installed.
        """
        check_url(url)
        super().__init__(
            label,
            without_secrets(url),
            trusted=trusted,
            clock=clock,
            fresh_seconds=limits.fresh_seconds,
            keep_seconds=limits.keep_seconds,
        )
        self._url = url
        self._options = dict(storage_options or {})
        self._limits = limits
        self._kept_files = _KeptFiles()
        self._reached: _Look | None = None
        self._look_under_way: Future[_Look] | None = None
        """One that took longer than anybody waited for it."""
        self._silent_until = 0.0
        """After a file that nobody could wait for, a hundred others are not waited for one by one."""

    def _list(self) -> Listing:
        under_way = self._look_under_way or _begin(partial(self._look_there, self._reached))
        self._look_under_way = under_way
        self._wait(under_way)
        self._look_under_way = None
        self._reached = under_way.result()
        return self._reached.listing

    def _look_there(self, before: _Look | None) -> _Look:
        stamp = archive_stamp(self._url, self._options)
        if stamp and before is not None and before.stamp == stamp:
            return before
        place = RemotePlace(self._url, self._options)
        return _Look(place, place.listing(Bounds(self._limits.files, self._limits.folders)), stamp)

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        kept = self._kept_files.get(file, limit)
        if kept is not None:
            return kept
        if (file.size or 0) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, f"it is over {MAX_FILE_BYTES:,} bytes")
        place = self._place()
        content = self._answer(partial(place.read, file.at[0], limit))
        self._kept_files.put(file, content, limit)
        return content

    def _sizes(self, files: list[ListedFile]) -> list[int]:
        unknown = [file for file in files if file.size is None][:_SIZES_ASKED]
        place = self._place()
        asked: dict[ListedFile, int] = {}
        with suppress(OSError):  # a size is worth no failure: what is not known is 0
            for file in unknown:
                asked[file] = self._answer(partial(place.size, file.at[0]))
        return [file.size or asked.get(file, 0) for file in files]

    def _place(self) -> RemotePlace:
        if self._reached is None:
            raise OSError(errno.ENOTCONN, "the source was never reached")
        return self._reached.place

    def _answer(self, ask: Callable[[], Result]) -> Result:
        if self._clock() < self._silent_until:
            raise OSError(errno.ETIMEDOUT, "the source does not answer")
        answer = _begin(ask)
        try:
            self._wait(answer)
        except TimeoutError:
            self._silent_until = self._clock() + self._limits.fresh_seconds
            raise
        return answer.result()

    def _wait(self, answer: Future[Result]) -> None:
        wait([answer], self._limits.wait_seconds)
        if not answer.done():
            raise OSError(errno.ETIMEDOUT, f"no answer in {self._limits.wait_seconds:g} seconds")

    def _path(self, relative: str) -> str:
        # The inner path of a chain stands in its first link: zip://csv-report/SKILL.md::s3://bucket/skills.zip
        first, chained, rest = self.place.partition("::")
        return f"{first if first.endswith('/') else first + '/'}{relative}{chained}{rest}"

    def _root_name(self) -> str:
        named = next((link for link in self.place.split("::") if link.partition("://")[2].strip("/")), "")
        return named.rstrip("/").rpartition("/")[2].removesuffix(".zip")


class _KeptFiles:
    """Files that were read lately, as long as their stamp is the same: the oldest go first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._contents: OrderedDict[ListedFile, tuple[bytes, bool]] = OrderedDict()
        """The bytes, and whether they are all."""
        self._size = 0

    def get(self, file: ListedFile, limit: int) -> bytes | None:
        """Return the first `limit` bytes of a file, if it is kept and so many are."""
        with self._lock:
            content, whole = self._contents.get(file, (b"", False))
            if not whole and len(content) < max(limit, 1):
                return None
            self._contents.move_to_end(file)
            return content[:limit]

    def put(self, file: ListedFile, content: bytes, limit: int) -> None:
        """Keep what was read of a file with a limit, if its stamp can tell that it is still the same."""
        if not file.stamp or len(content) > _KEPT_BYTES // 8:
            return
        with self._lock:
            self._size -= len(self._contents.pop(file, (b"", False))[0])
            self._contents[file] = (content, len(content) < limit)
            self._size += len(content)
            while self._size > _KEPT_BYTES:
                self._size -= len(self._contents.popitem(last=False)[1][0])


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
