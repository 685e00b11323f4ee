"""The persisted index: what was read of skills, in one SQLite file of the user's cache.

Concurrent processes share the file. It is a cache: whatever is wrong with it, work goes on without. A locked
file is left alone this time, a damaged one or one of another version is made anew, one that cannot be written
is not used any more.
"""

import hashlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import msgspec
import msgspec.msgpack

from skills_agent.skills.library.discovery import SkillReading, SkillsByPath, Strictness, is_unreadable
from skills_agent.skills.search.tables import CatalogTables, TemporaryTables, TextQuery, TextTables
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.protocol import FolderState, Source

VERSION: Final = 1
"""Of the tables: raise it when they are others."""
_APPLICATION: Final = 0x5347_4E54
_TABLES: Final = (
    "CREATE TABLE sources (key TEXT PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE pieces (source TEXT, start INTEGER, content BLOB, PRIMARY KEY (source, start))",
    "CREATE TABLE shelves (number INTEGER PRIMARY KEY, key TEXT UNIQUE, state TEXT, used INTEGER NOT NULL)",
)

Result = TypeVar("Result")
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


class IndexFile:
    """An SQLite file that is opened for each use: it may vanish or be replaced between two."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._usable = True

    def read(self, work: Callable[[Connection], Result], patience: float) -> Result | None:
        """Return what reading one state of the file gives; None where it cannot be read.

        `patience` is how many seconds to wait for other processes.
        """
        return self._attempt("BEGIN", work, patience)

    def write(self, work: Callable[[Connection], Result], patience: float) -> Result | None:
        """Change the file, wholly or not at all; None where it was not changed."""
        return self._attempt("BEGIN IMMEDIATE", work, patience)

    def _attempt(self, begin: str, work: Callable[[Connection], Result], patience: float) -> Result | None:
        if not self._usable:
            return None
        for last in (False, True):
            try:
                with self._opened(patience) as connection:
                    connection.execute(begin)
                    with connection:
                        return work(connection)
            except sqlite3.DatabaseError as error:
                if last or not self._recover(error):
                    logger.warning("index not used: %s", error, extra={"path": str(self._path)})
                    return None
            except OSError as error:
                self._usable = False
                logger.warning("index not used: %s", error, extra={"path": str(self._path)})
                return None
        return None

    def _recover(self, error: sqlite3.DatabaseError) -> bool:
        """Remove a damaged file; return whether another attempt makes sense."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
            self._usable = False
        damaged = code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT} or "no such table" in str(error)
        if not damaged:
            return False
        logger.warning("index damaged, made anew: %s", error, extra={"path": str(self._path)})
        # The journals first: left over, they would be taken for those of the new file.
        for suffix in ("-journal", "-wal", "-shm", ""):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        return True

    @contextmanager
    def _opened(self, patience: float) -> Iterator[Connection]:
        if not self._path.exists():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
        connection = sqlite3.connect(self._path, timeout=patience, isolation_level=None)
        try:
            _prepare(connection)
            yield connection
        finally:
            connection.close()


def _prepare(connection: Connection) -> None:
    """Make the tables, in place of those of another version."""
    if _version(connection) == (_APPLICATION, VERSION):
        return
    if not _names(connection, "true"):
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("PRAGMA journal_mode = WAL").close()
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if _version(connection) == (_APPLICATION, VERSION):  # another process was faster
            return
        if _version(connection)[0] != _APPLICATION and _names(connection, "true"):
            raise sqlite3.DatabaseError("the file is the database of another program")
        for table in _names(connection, "sql LIKE 'CREATE VIRTUAL%'"):  # their shadows go with them
            connection.execute(f'DROP TABLE "{table}"')
        for table in _names(connection, "name NOT LIKE 'sqlite_%'"):
            connection.execute(f'DROP TABLE "{table}"')
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _names(connection: Connection, condition: str) -> list[str]:
    found = connection.execute(f"SELECT name FROM sqlite_master WHERE type = 'table' AND {condition}")  # noqa: S608 - conditions of our own
    return [name for (name,) in found]


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One folder that was searched, and what was read of the skill in it."""

    folder: FolderState
    was_read: bool = False
    metadata: SkillMetadata | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


class _IndexedSource(NamedTuple):
    """What the index has of one source."""

    folders: Sequence[FolderState] = ()
    known: SkillsByPath = MappingProxyType({})


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
            if isinstance(source, DirectorySource)
            else None
            for source in self._sources
        ]
        self._kept = [_IndexedSource() for _ in self._sources]

    @property
    def tables(self) -> TextTables:
        """Return full-text tables that last, or temporary ones if not every source does."""
        keys = [key for key in self._keys if key is not None]
        if len(keys) < len(self._keys):
            return TemporaryTables()
        return IndexedTables(self._file, "\n".join(keys))

    def recall(self) -> list[SkillsByPath]:
        """Return what was known of each source, and hand the sources their folders."""
        self._kept = self._file.read(self._read, _DISCOVERY_WAITS) or self._kept
        for source, kept in zip(self._sources, self._kept, strict=True):
            if isinstance(source, DirectorySource):
                source.folders = kept.folders
        return [kept.known for kept in self._kept]

    def remember(self, known: Sequence[SkillsByPath]) -> None:
        """Keep what is known of each source, if it is not what is kept already."""
        changed = {
            place: _IndexedSource(source.folders, seen)
            for place, (source, seen) in enumerate(zip(self._sources, known, strict=True))
            if isinstance(source, DirectorySource) and self._kept[place] != (source.folders, seen)
        }
        if changed:
            self._file.write(partial(self._write, changed), _DISCOVERY_WAITS)
            for place, kept in changed.items():
                self._kept[place] = kept

    def _read(self, connection: Connection) -> list[_IndexedSource]:
        connection.execute(_SMALL_CACHE)
        return [
            _IndexedSource() if key is None else _read_rows(connection, key, source.label)
            for key, source in zip(self._keys, self._sources, strict=True)
        ]

    def _write(self, changed: Mapping[int, _IndexedSource], connection: Connection) -> None:
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


def _read_rows(connection: Connection, key: str, label: str) -> _IndexedSource:
    folders: list[FolderState] = []
    known: dict[str, SkillReading] = {}
    pieces = connection.execute("SELECT content FROM pieces WHERE source = ? ORDER BY start", (key,))
    try:
        for (piece,) in pieces:
            for row in _DECODER.decode(piece):
                folders.append(row.folder)
                entry = row.folder.skill
                if row.was_read and entry is not None:
                    known[entry.path] = SkillReading(entry, label, row.metadata, row.diagnostics)
    except (msgspec.MsgspecError, TypeError) as error:
        logger.warning("index damaged, skills read again: %s", error, extra={"source": key})
        return _IndexedSource()
    return _IndexedSource(folders, known)


def _row(folder: FolderState, known: SkillsByPath) -> _Row:
    """Return what lasts of a folder: nothing of a file that changed just now, or could not be read."""
    seen = known.get(folder.skill.path) if folder.skill is not None else None
    if seen is None or seen.entry != folder.skill or not seen.entry.settled or is_unreadable(seen):
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
