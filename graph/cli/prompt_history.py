"""What a person typed into chats of a workspace, kept for the arrow keys and Ctrl-R of the next one."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

from skills_agent.graph.private_files import open_private

MAX_ENTRIES: Final = 1_000
MAX_CHARACTERS: Final = 10_000
"""Of one entry: a longer one was pasted, and is not kept."""


class PrivateHistory(History):
    """A file of this user alone, one JSON text a line, the oldest first; the newest MAX_ENTRIES are kept.

    What begins with a space is not written, as in a shell. Where the file cannot be read or written, the
    history is that of this chat.
    """

    def __init__(self, file: Path) -> None:
        """Name the file; it is made when the first entry is written."""
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, the newest first, and cut a file that has grown too long."""
        entries = self._read()
        if len(entries) > MAX_ENTRIES:
            entries = entries[-MAX_ENTRIES:]
            self._replace(entries)
        return reversed(entries)

    def store_string(self, string: str) -> None:
        """Write an entry at the end of the file."""
        if string.startswith(" ") or len(string) > MAX_CHARACTERS:
            return
        with suppress(OSError):
            self._write(self._file, os.O_APPEND, [string])

    def _read(self) -> list[str]:
        try:
            with os.fdopen(open_private(self._file, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
                return [entry for line in file if (entry := _entry_in(line))]
        except OSError:
            return []

    def _replace(self, entries: list[str]) -> None:
        """Write a new file and put it in the place of the old one: another chat reads one or the other."""
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with suppress(OSError):
            self._write(beside, os.O_EXCL, entries)
            beside.replace(self._file)

    def _write(self, path: Path, flags: int, entries: list[str]) -> None:
        with os.fdopen(open_private(path, os.O_WRONLY | flags), "w", encoding="ascii") as file:
            file.writelines(f"{json.dumps(entry)}\n" for entry in entries)


def _entry_in(line: str) -> str:
    """Return the entry of a line; nothing for one that is damaged."""
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return entry if isinstance(entry, str) else ""
