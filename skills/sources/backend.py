"""Skills in a deepagents backend: its state, store, file system, sandbox or a composite of them.

This module knows the two methods of a backend that it calls, not deepagents. A backend is asked in the
thread and context of the caller, for a StateBackend shows the files of the run that asks: nothing is kept
of a backend that does not answer, and a registry with a StateBackend belongs to one thread.

What a backend shows is taken to be meant: a FilesystemBackend confines links only with `virtual_mode=True`,
and folders on disk are better read by DirectorySource, which also runs their scripts.
"""

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol
from zlib import crc32

from skills_agent.skills.files import NotRegularFileError
from skills_agent.skills.sources.listed import (
    MAX_FILE_BYTES,
    ListedSource,
    answering,
    cause_of,
    missing,
)
from skills_agent.skills.sources.shelf import (
    MAX_DEPTH,
    ListedFile,
    Listing,
    ListingDraft,
    inside,
    is_skill_file,
)
from skills_agent.skills.sources.walk import SKIPPED_FOLDERS

MAX_FILES: Final = 20_000
MAX_FOLDERS: Final = 2_000


class ListedFolder(Protocol):
    """What `ls` answers (deepagents' LsResult)."""

    @property
    def error(self) -> str | None:
        """Return why there is no answer, or not all of it."""
        ...

    @property
    def entries(self) -> Sequence[Mapping[str, object]] | None:
        """Return `path`, and as far as known `is_dir`, `size` and `modified_at`, of what is in the folder."""
        ...


class Download(Protocol):
    """What `download_files` answers for one file (deepagents' FileDownloadResponse)."""

    @property
    def content(self) -> bytes | None:
        """Return the whole file."""
        ...

    @property
    def error(self) -> str | None:
        """Return file_not_found, permission_denied, is_directory, invalid_path, or a sentence."""
        ...


class Backend(Protocol):
    """What is called of deepagents' BackendProtocol (0.7)."""

    def ls(self, path: str) -> ListedFolder:
        """List one folder."""
        ...

    def download_files(self, paths: list[str]) -> Sequence[Download]:
        """Read files."""
        ...


class BackendSource(ListedSource):
    """The skills beneath a folder of a backend. Sizes are those that the backend gives: some approximate."""

    def __init__(
        self,
        backend: Backend,
        label: str,
        *,
        path: str = "/skills",
        trusted: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name a folder of a backend, as the backend calls it."""
        self._backend = backend
        self._folder = path
        super().__init__(label, f"{label}:{path}", trusted=trusted, clock=clock, keep_seconds=0.0)

    def _list(self) -> Listing:
        draft = ListingDraft(self.place, MAX_FILES)
        waiting = deque([(self._folder, 0)])
        seen = {self._folder.rstrip("/")}
        while waiting and not draft.full:
            folder, depth = waiting.popleft()
            for inner in self._inner(folder, draft):
                if inner.rstrip("/") in seen:
                    continue
                if depth >= 2 * MAX_DEPTH or len(seen) >= MAX_FOLDERS:
                    draft.report(
                        "scan-limit", "Not all folders are searched: there are too many, or too deep."
                    )
                    break
                seen.add(inner.rstrip("/"))
                waiting.append((inner, depth + 1))
        return draft.listing()

    def _inner(self, folder: str, draft: ListingDraft) -> list[str]:
        """Take the files of one folder, and return the folders in it."""
        entries = self._entries(folder, draft)
        inner: list[str] = []
        for entry in entries:
            path = str(entry.get("path", ""))
            relative = inside(self._folder, path)
            if relative is None:
                draft.refuse(path, f"it is not beneath {self._folder}")
            elif not entry.get("is_dir"):
                draft.add(relative, self._listed(path, entry))
            elif draft.checked(relative) and relative.rstrip("/").rpartition("/")[2] not in SKIPPED_FOLDERS:
                inner.append(path)
        return inner

    def _entries(self, folder: str, draft: ListingDraft) -> Sequence[Mapping[str, object]]:
        with answering():
            answer = self._backend.ls(folder)
        if answer.error and not answer.entries:
            error = _error(answer.error, folder)
            if folder == self._folder:
                raise error
            draft.report("folder-unreadable", f"{folder} cannot be read: {cause_of(error)}.")
        elif answer.error:
            draft.report("folder-unreadable", f"{folder} is not shown whole: {answer.error}.")
        return answer.entries or ()

    def _listed(self, path: str, entry: Mapping[str, object]) -> ListedFile:
        size, changed = entry.get("size"), entry.get("modified_at")
        known = size if isinstance(size, int) else None
        if changed:
            return ListedFile((path,), known, (known or 0, crc32(str(changed).encode())))
        if not is_skill_file(path):
            return ListedFile((path,), known)
        try:
            content = self._fetch(ListedFile((path,), known), MAX_FILE_BYTES)
        except OSError:  # the reader will report it
            return ListedFile((path,), known)
        return ListedFile((path,), len(content), (crc32(content),))

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        if (file.size or 0) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, f"it is over {MAX_FILE_BYTES:,} bytes")
        path = file.at[0]
        with answering():
            answers = self._backend.download_files([path])
        if not answers or answers[0].content is None:
            raise _error((answers[0].error if answers else None) or "file_not_found", path)
        return answers[0].content[:limit]


def _error(reason: str, path: str) -> OSError:
    """Say as an OSError why a backend gives nothing."""
    if reason.endswith(("file_not_found", "path_not_found")):
        return missing(path)
    if reason.endswith("permission_denied"):
        return OSError(errno.EACCES, os.strerror(errno.EACCES), path)
    if reason.endswith(("is_directory", "not_a_directory")):
        return NotRegularFileError(path)
    return OSError(errno.EIO, reason)
