"""What the persisted index keeps of the sources of one registry: folders, metadata, full-text tables."""

import hashlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
import msgspec.msgpack

from skills_agent.skills.library.discovery import Known, SeenSkill, Strictness, is_unreadable
from skills_agent.skills.library.index_file import IndexFile
from skills_agent.skills.search.tables import CatalogTables, TemporaryTables, TextQuery, TextTables
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.sources.protocol import LastingSource, SeenFolder, Source

_PIECE: Final = 256
"""Skills in one value, which is read and written at once, and so while no other thread can run."""
_SMALL_CACHE: Final = "PRAGMA cache_size = -256"
"""KB: every page is read or written once."""
_SOURCES_KEPT: Final = 64
_CATALOGS_KEPT: Final = 8
_DISCOVERY_WAITS: Final = 0.25
"""Seconds: a thousand skills are read again in less."""
_SEARCH_WAITS: Final = 5.0

logger = logging.getLogger(__name__)


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One folder that was searched, and what was read of the skill in it."""

    folder: SeenFolder
    was_read: bool = False
    metadata: SkillMetadata | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


class _Kept(NamedTuple):
    """What the index has of one source."""

    folders: Sequence[SeenFolder] = ()
    known: Known = MappingProxyType({})


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=dict)
_DECODER: Final = msgspec.msgpack.Decoder(list[_Row])


class IndexedMemory:
    """What was seen in the sources by this process or an earlier one. Skips what an index cannot keep."""

    def __init__(self, file: IndexFile, sources: Sequence[Source], strictness: Strictness) -> None:
        self._file = file
        self._sources = tuple(sources)
        release = _release()
        self._keys = [
            f"{release} {source.label} {source.trusted} {tuple(strictness)} {source.address}"
            if isinstance(source, LastingSource)
            else None
            for source in self._sources
        ]
        self._kept = [_Kept() for _ in self._sources]

    @property
    def tables(self) -> TextTables:
        """Return full-text tables that last, or temporary ones if not every source does."""
        keys = [key for key in self._keys if key is not None]
        if len(keys) < len(self._keys):
            return TemporaryTables()
        return IndexedTables(self._file, "\n".join(keys))

    def recall(self) -> list[Known]:
        """Return what was known of each source, and hand the sources their folders."""
        self._kept = self._file.read(self._read, _DISCOVERY_WAITS) or self._kept
        for source, kept in zip(self._sources, self._kept, strict=True):
            if isinstance(source, LastingSource):
                source.folders = kept.folders
        return [kept.known for kept in self._kept]

    def remember(self, known: Sequence[Known]) -> None:
        """Keep what is known of each source, if it is not what is kept already."""
        changed = {
            place: _Kept(source.folders, seen)
            for place, (source, seen) in enumerate(zip(self._sources, known, strict=True))
            if isinstance(source, LastingSource) and self._kept[place] != (source.folders, seen)
        }
        if changed:
            self._file.write(partial(self._write, changed), _DISCOVERY_WAITS)
            for place, kept in changed.items():
                self._kept[place] = kept

    def _read(self, connection: Connection) -> list[_Kept]:
        connection.execute(_SMALL_CACHE)
        return [
            _Kept() if key is None else _read_rows(connection, key, source.label)
            for key, source in zip(self._keys, self._sources, strict=True)
        ]

    def _write(self, changed: Mapping[int, _Kept], connection: Connection) -> None:
        connection.execute(_SMALL_CACHE)
        for place, kept in changed.items():
            key = self._keys[place]
            connection.execute("DELETE FROM pieces WHERE source = ?", (key,))
            connection.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", (key, time.time_ns()))
            for start in range(0, len(kept.folders), _PIECE):
                rows = [_row(folder, kept.known) for folder in kept.folders[start : start + _PIECE]]
                piece = (key, start, _ENCODER.encode(rows))
                connection.execute("INSERT INTO pieces VALUES (?, ?, ?)", piece)
        old = "SELECT key FROM sources ORDER BY used DESC LIMIT -1 OFFSET ?"
        for (key,) in connection.execute(old, (_SOURCES_KEPT,)).fetchall():
            connection.execute("DELETE FROM sources WHERE key = ?", (key,))
            connection.execute("DELETE FROM pieces WHERE source = ?", (key,))


class IndexedTables:
    """Full-text tables in the index file, or temporary ones while it cannot be used."""

    def __init__(self, file: IndexFile, key: str) -> None:
        self._file = file
        self._key = hashlib.sha256(key.encode()).hexdigest()
        self._fallback = TemporaryTables()

    def search(self, query: TextQuery) -> dict[str, float]:
        """Return the scores of the best matches by their keys, best first; index what is new before."""

        def search_filled(connection: Connection) -> dict[str, float] | None:
            row = connection.execute(
                "SELECT number FROM shelves WHERE key = ? AND state = ?", (self._key, query.state)
            ).fetchone()
            return None if row is None else CatalogTables(connection, row[0]).search(query)

        def fill_and_search(connection: Connection) -> dict[str, float]:
            tables = self._tables(connection)
            tables.fill(query)
            state = (query.state, time.time_ns(), tables.number)
            connection.execute("UPDATE shelves SET state = ?, used = ? WHERE number = ?", state)
            return tables.search(query)

        scores = self._file.read(search_filled, _SEARCH_WAITS)
        if scores is None:
            scores = self._file.write(fill_and_search, _SEARCH_WAITS)
        return scores if scores is not None else self._fallback.search(query)

    def _tables(self, connection: Connection) -> CatalogTables:
        row = connection.execute("SELECT number FROM shelves WHERE key = ?", (self._key,)).fetchone()
        if row is not None:
            return CatalogTables(connection, row[0])
        added = connection.execute(
            "INSERT INTO shelves (key, used) VALUES (?, ?)", (self._key, time.time_ns())
        )
        tables = CatalogTables(connection, added.lastrowid or 0)
        tables.create()
        old = "SELECT number FROM shelves ORDER BY used DESC LIMIT -1 OFFSET ?"
        for (number,) in connection.execute(old, (_CATALOGS_KEPT,)).fetchall():
            CatalogTables(connection, number).drop()
            connection.execute("DELETE FROM shelves WHERE number = ?", (number,))
        return tables


def _read_rows(connection: Connection, key: str, label: str) -> _Kept:
    folders: list[SeenFolder] = []
    known: dict[str, SeenSkill] = {}
    pieces = connection.execute("SELECT content FROM pieces WHERE source = ? ORDER BY start", (key,))
    try:
        for (piece,) in pieces:
            for row in _DECODER.decode(piece):
                folders.append(row.folder)
                found = row.folder.found
                if row.was_read and found is not None:
                    known[found.path] = SeenSkill(found, label, row.metadata, row.diagnostics)
    except (msgspec.MsgspecError, TypeError) as error:
        logger.warning("index damaged, skills read again: %s", error, extra={"source": key})
        return _Kept()
    return _Kept(folders, known)


def _row(folder: SeenFolder, known: Known) -> _Row:
    """Return what lasts of a folder: nothing of a file that changed just now, or could not be read."""
    seen = known.get(folder.found.path) if folder.found is not None else None
    if seen is None or seen.found != folder.found or not seen.found.settled or is_unreadable(seen):
        return _Row(folder)
    return _Row(folder, True, seen.metadata, seen.diagnostics)


def _release() -> str:
    """Tell this code from that of another release, which may read the same file to something else."""
    stamps = []
    for folder in ("", "format", "library", "policy", "search", "sources"):
        with os.scandir(Path(__file__).parent.parent / folder) as entries:
            files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(".py")]
        stamps += sorted((name, status.st_mtime_ns, status.st_size) for name, status in files)
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
