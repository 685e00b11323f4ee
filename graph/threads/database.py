"""Where the command line keeps threads: `threads.sqlite` of the user's state folder, or PostgreSQL."""

import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.private_files import ROOM, is_busy, is_full, is_read_only, open_sqlite
from skills_agent.graph.serialisation import strict
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.errors import DatabaseError, ThreadError
from skills_agent.graph.threads.opened import postgres
from skills_agent.graph.threads.references import MAX_VALUE, address_of
from skills_agent.graph.user_folders import make_state_folder, state_folder

FILE: Final = "threads.sqlite"
EVAL_THREADS: Final = "eval-"
"""What the names of the threads of eval cases begin with; the id of their run follows."""
_EVAL_THREAD: Final = re.compile(rf"{EVAL_THREADS}\d{{8}}-\d{{6}}-")
OPTIONS: Final = "skills_agent"
"""Key of the checkpoint metadata that holds the options a thread was started with."""

SUFFIX: Final = "+zlib"
_FAST: Final = 1
"""zlib's level: a checkpoint takes 40 microseconds, and higher levels save little more."""

_VERSION: Final = 1
"""Of the file of threads (`user_version`). A release whose threads this one cannot read has a higher one."""
_MIN_FREE: Final = 1_000_000
"""Bytes on the disk, below which no turn is begun."""
_ELSEWHERE: Final = "Make it writable, or set XDG_STATE_HOME to a folder that is."

_COMPACT_SECONDS: Final = 2


class CompressedSerializer(JsonPlusSerializer):
    """Store values as LangGraph does, compressed: `SqliteSaver(connection, serde=CompressedSerializer())`.

    It reads what was stored without it; LangGraph's plain serializer refuses what this one has compressed.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the type and the bytes of a value, compressed where that makes it smaller."""
        kind, plain = super().dumps_typed(obj)
        packed = zlib.compress(plain, _FAST)
        return (kind + SUFFIX, packed) if len(packed) < len(plain) else (kind, plain)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a value, compressed or not."""
        kind, stored = data
        if kind.endswith(SUFFIX):
            return super().loads_typed((kind.removesuffix(SUFFIX), _unpacked(stored)))
        return super().loads_typed(data)


def _unpacked(stored: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(stored, MAX_VALUE)
    except zlib.error as error:
        raise ValueError("this is not compressed") from error
    if not unpacking.eof:
        raise ValueError("this is cut off, or too large")
    return plain


def config_of(
    thread: str, options: Mapping[str, Any] | None = None, *, checkpoint: str = ""
) -> RunnableConfig:
    """Return LangGraph's config of a thread; `options` are kept with every checkpoint of the invocation."""
    config = RunnableConfig(configurable={"thread_id": thread, "checkpoint_ns": ""})
    if checkpoint:
        config["configurable"]["checkpoint_id"] = checkpoint
    if options is not None:
        # Checkpoint metadata keeps only plain values.
        config["metadata"] = {OPTIONS: json.dumps(dict(options))}
    return config


def is_eval_thread(name: str) -> bool:
    """Return whether a thread is that of an eval case, and not a person's that is called so."""
    return _EVAL_THREAD.match(name) is not None


def newest_of(names: Iterable[str]) -> str:
    """Return the first thread that is a person's: what eval cases left is nobody's. Raises ThreadError."""
    name = next((name for name in names if not is_eval_thread(name)), None)
    if name is None:
        raise ThreadError('There is no thread here yet. Begin one: skills-agent ask "QUESTION"')
    return name


def options_of(saver: BaseCheckpointSaver[Any], thread: str) -> dict[str, Any] | None:
    """Return the options that a thread was last run with; None for a thread that does not exist."""
    newest = saver.get_tuple(config_of(thread))
    return None if newest is None else options_in(newest)


def options_in(stored: CheckpointTuple) -> dict[str, Any]:
    """Return the options of the invocation that wrote a checkpoint."""
    options: dict[str, Any] = json.loads(str(dict(stored.metadata).get(OPTIONS, "{}")))
    return options


def open_database(
    settings: Settings, *, create: bool = True
) -> AbstractContextManager[BaseCheckpointSaver[Any]]:
    """Open what keeps the threads of a workspace, making the tables where there are none.

    Without `create`, a workspace without threads stays so, and a file on a disk that cannot be written is
    read. Raises DatabaseError where it cannot be used, or goes away while it is.
    """
    if settings.database:
        return postgres().open_postgres(settings.database)
    if create or (state_folder(settings) / FILE).is_file():
        return _open_file(make_state_folder(settings) / FILE, to_write=create)
    return nullcontext(InMemorySaver())


@contextmanager
def _open_file(path: Path, *, to_write: bool) -> Iterator[SqliteSaver]:
    with ExitStack() as stack:
        with _unusable(path, OSError, sqlite3.Error):
            if to_write:
                _check_room(path)
            saver = SqliteSaver(open_sqlite(path), serde=strict(CompressedSerializer(), {}))
            stack.callback(_close, saver)
            _set_up(saver, path, to_write=to_write)
        with _unusable(path, sqlite3.OperationalError):
            yield saver


def _close(saver: SqliteSaver) -> None:
    """Close the connection between two statements.

    A run that was left may go on in its thread, and SQLite crashes where it is closed under a statement.
    """
    with saver.lock:
        saver.conn.close()


def _check_room(path: Path) -> None:
    """Refuse a full disk before a thread has a name that nothing is kept under. Raises DatabaseError."""
    disk = os.statvfs(path.parent)
    free = disk.f_bavail * disk.f_frsize
    if disk.f_blocks and free < _MIN_FREE:
        raise DatabaseError(f"Cannot keep threads in {path}: the disk is full ({free:,} bytes free). {ROOM}")


def _set_up(saver: SqliteSaver, path: Path, *, to_write: bool) -> None:
    """Make the tables; raise DatabaseError for a file that cannot be written, or of a newer release."""
    version = int(saver.conn.execute("PRAGMA user_version").fetchone()[0])
    if version > _VERSION:
        raise DatabaseError(
            f"The threads in {path} were written by a newer version of skills-agent. Use that one, or keep "
            "threads of this one elsewhere: set XDG_STATE_HOME to another folder."
        )
    if is_read_only(saver.conn):
        if to_write:
            raise DatabaseError(f"Cannot keep threads in {path}: it is read-only. {_ELSEWHERE}")
        saver.is_setup = True
        return
    saver.setup()
    if version < _VERSION:
        saver.conn.execute(f"PRAGMA user_version = {_VERSION}")


@contextmanager
def _unusable(path: Path, *errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        advice = f" {ROOM}" if is_full(error) else f" {_ELSEWHERE}" if code == sqlite3.SQLITE_READONLY else ""
        raise DatabaseError(f"Cannot keep threads in {path}: {error}.{advice}") from error


def compact(saver: BaseCheckpointSaver[Any]) -> None:
    """Give the room of what was deleted from an SQLite file back to the disk.

    It needs room for a copy. Where another process works with the file it keeps its size.
    """
    file = Path(address_of(saver))
    if not file.is_absolute():
        return
    try:
        with closing(sqlite3.connect(file, timeout=_COMPACT_SECONDS)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
