"""Skills behind any URL that fsspec knows: `s3://`, `github://`, `zip://`, `memory://`, `https://`, ...

    RemoteSource("s3://company/skills", "company", storage_options={"anon": True})
    RemoteSource("zip://::https://example.org/skills.zip", "vendor")

Options of a chain go to its last link, where the archive is, or by kind: `{"s3": {"anon": True}}`.
Each SKILL.md that was read stays in memory while it is the same, so that a skill without other files loads
while its place cannot be reached.
"""

import errno
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import Any, Final, TypeVar

from skills_agent.skills.sources.fetched import FetchedSource, ListedFile, Listing, is_skill_file
from skills_agent.skills.sources.remote_place import RemotePlace, archive_stamp, check_url, without_secrets

Result = TypeVar("Result")
_MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Of all SKILL.md files that stay in memory."""


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

        A listing, or a file, is waited for `wait_seconds`; a listing stays fresh for `fresh_seconds`.

        Raises:
            SourceAddressError: the URL is of no known kind, or a folder on this machine.
            SourceExtraError: fsspec, or what it needs for this kind of URL, is not installed.
        """
        check_url(url)
        place = without_secrets(url)
        super().__init__(label, place, trusted=trusted, clock=clock, fresh_seconds=fresh_seconds)
        self._url = url
        self._options = dict(storage_options or {})
        self._wait_seconds = wait_seconds
        self._remote: RemotePlace | None = None
        self._pending: Future[RemotePlace] | None = None
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

    def _reach(self, before: RemotePlace | None) -> RemotePlace:
        stamp = archive_stamp(self._url, self._options)
        if stamp and before is not None and before.stamp == stamp:
            return before
        return RemotePlace(self._url, self._options, stamp)

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        content = self._read.get(file)
        if content is not None and (len(content) >= limit or len(content) == file.size):
            return content[:limit]
        if self._remote is None:
            raise OSError(errno.ENOTCONN, "the source was never reached")
        content = self._answer(partial(self._remote.read, file.key[0], limit))
        size = len(content) + sum(map(len, self._read.values()))
        if file.stamp and is_skill_file(file.key[0]) and size <= _MAX_KEPT_BYTES:
            self._read[file] = content
        return content

    def _answer(self, ask: Callable[[], Result]) -> Result:
        if self._clock() < self._silent_until:
            raise OSError(errno.ETIMEDOUT, "the source does not answer")
        try:
            return self._result(_begin(ask))
        except TimeoutError:
            self._silent_until = self._clock() + self._fresh_seconds
            raise

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
