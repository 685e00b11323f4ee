"""Skills in a deepagents backend: its state, store, file system, sandbox or a composite of them.

A backend is asked in the thread and context of the caller, for a StateBackend shows the files of the run that
asks: nothing is kept of a backend that does not answer, and a registry with a StateBackend belongs to one
thread. A FilesystemBackend confines links only with `virtual_mode=True`.
"""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol
from zlib import crc32

from skills_agent.skills.confined import ConfinedError
from skills_agent.skills.sources.fetched import (
    MAX_FILE_BYTES,
    FetchedSource,
    ListedFile,
    Listing,
    is_skill_file,
    missing,
)
from skills_agent.sources.clients import raising_os_errors
from skills_agent.sources.folders import add_folders


class FileBackend(Protocol):
    """What is called of deepagents' BackendProtocol (0.7)."""

    def ls(self, path: str) -> Any:
        """List one folder (LsResult): `entries`, and in `error` why they are none, or not all.

        An entry has `path` and, as far as known, `is_dir`, `size` and `modified_at`.
        """

    def download_files(self, paths: list[str]) -> Sequence[Any]:
        """Read files (FileDownloadResponse): each has a whole `content`, or an `error`."""


class BackendSource(FetchedSource):
    """The skills beneath a folder of a backend. Sizes are those that the backend gives: some approximate."""

    keep_seconds = 0.0

    def __init__(
        self, backend: FileBackend, label: str, *, path: str = "/skills", trusted: bool = False
    ) -> None:
        self._backend = backend
        self._folder = path
        super().__init__(label, f"{label}:{path}", trusted=trusted)

    def _list(self) -> Listing:
        listing = Listing(self.place)
        add_folders(listing, self._folder, lambda folder: self._entries(folder, listing))
        return listing

    def _entries(self, folder: str, listing: Listing) -> Iterator[ListedFile | str]:
        with raising_os_errors():
            answer = self._backend.ls(folder)
        if answer.error and not answer.entries:
            raise _error(answer.error, folder)
        if answer.error:
            listing.report("folder-unreadable", f"{folder} is not shown whole: {answer.error}.")
        for entry in answer.entries or ():
            path = str(entry.get("path", ""))
            yield path if entry.get("is_dir") else self._listed(path, entry)

    def _listed(self, path: str, entry: Mapping[str, object]) -> ListedFile:
        size, changed = entry.get("size"), entry.get("modified_at")
        size = size if isinstance(size, int) else None
        if changed:
            return ListedFile((path,), size, (size or 0, crc32(str(changed).encode())))
        file = ListedFile((path,), size)
        if is_skill_file(path):
            with suppress(OSError):  # the reader will report it
                content = self._fetch(file, MAX_FILE_BYTES)
                return ListedFile((path,), len(content), (crc32(content),))
        return file

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        if (file.size or 0) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, f"it is over {MAX_FILE_BYTES:,} bytes")
        path = file.key[0]
        with raising_os_errors():
            answers = self._backend.download_files([path])
        content: bytes | None = answers[0].content if answers else None
        if content is None:
            raise _error((answers[0].error if answers else None) or "file_not_found", path)
        return content[:limit]


def _error(reason: str, path: str) -> OSError:
    if reason.endswith(("file_not_found", "path_not_found")):
        return missing(path)
    if reason.endswith("permission_denied"):
        return OSError(errno.EACCES, os.strerror(errno.EACCES), path)
    if reason.endswith(("is_directory", "not_a_directory")):
        return ConfinedError(path)
    return OSError(errno.EIO, reason)
