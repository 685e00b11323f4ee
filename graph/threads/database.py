"""Where threads are kept: `.agent/threads.sqlite` of the workspace, or a PostgreSQL database."""

import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.errors import DatabaseError
from skills_agent.graph.threads.private_files import make_private
from skills_agent.graph.threads.serializer import CompressedSerializer

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore

FOLDER = ".agent"
FILE = "threads.sqlite"
BUSY_SECONDS = 30
"""Until a writer that waits for another process gives up."""
RETRY_SECONDS = 0.05
KEPT = "skills_agent"
"""Key of the checkpoint metadata that holds the options a thread was started with."""

Saver: TypeAlias = Union[SqliteSaver, "PostgresSaver"]

_THREADS = (
    "SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' "
    "GROUP BY thread_id ORDER BY MAX(checkpoint_id) DESC"
)


@contextmanager
def open_database(settings: Settings) -> Iterator[Saver]:
    """Open the threads of a workspace or of a database, making the tables where there are none.

    Raises DatabaseError where it cannot be used, or goes away while it is.
    """
    if settings.checkpointer:
        # An extra: who keeps threads in files does not have it.
        from skills_agent.graph.threads.postgres import open_postgres

        with open_postgres(settings.checkpointer) as saver:
            yield saver
    else:
        with _open_file(settings.workspace / FOLDER / FILE) as saver:
            yield saver


def store_of(saver: Saver) -> "PostgresStore | None":
    """Return where the journal is kept beside the threads; None where it is a file of the workspace."""
    if isinstance(saver, SqliteSaver):
        return None
    from skills_agent.graph.threads.postgres import store_beside

    return store_beside(saver)


def has_threads(settings: Settings) -> bool:
    """Tell whether anything may have been kept here, without making a file."""
    return bool(settings.checkpointer) or (settings.workspace / FOLDER / FILE).is_file()


def thread_ids(saver: Saver) -> list[str]:
    """Return the ids of all threads, the one that moved last first."""
    # `saver.list(None)` would read every checkpoint of every thread.
    if isinstance(saver, SqliteSaver):
        with saver.cursor(transaction=False) as cursor:
            return [str(row[0]) for row in cursor.execute(_THREADS)]
    from skills_agent.graph.threads.postgres import rows_of

    return [str(row["thread_id"]) for row in rows_of(saver, _THREADS)]


def config_of(thread: str, options: Mapping[str, Any] | None = None) -> RunnableConfig:
    """Return LangGraph's config of a thread; `options` are kept with every checkpoint of the run."""
    config = RunnableConfig(configurable={"thread_id": thread})
    if options is not None:
        # Checkpoint metadata keeps only plain values.
        config["metadata"] = {KEPT: json.dumps(dict(options))}
    return config


def kept_options(saver: Saver, thread: str) -> dict[str, Any] | None:
    """Return the options that a thread was last run with; None for a thread that does not exist."""
    found = saver.get_tuple(config_of(thread))
    if found is None:
        return None
    metadata: Mapping[str, Any] = dict(found.metadata)
    options: dict[str, Any] = json.loads(metadata.get(KEPT, "{}"))
    return options


@contextmanager
def _open_file(place: Path) -> Iterator[SqliteSaver]:
    try:
        make_private(place)
        connection = sqlite3.connect(place, timeout=BUSY_SECONDS, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(place, error) from error
    with closing(connection):
        saver = SqliteSaver(connection, serde=CompressedSerializer())
        try:
            _set_up(saver)
        except sqlite3.Error as error:
            raise _unusable(place, error) from error
        try:
            yield saver
        except sqlite3.OperationalError as error:
            raise _unusable(place, error) from error


def _set_up(saver: SqliteSaver) -> None:
    """Choose the journal and make the tables.

    Write-ahead logging lets others read while one writes, and a commit costs one fsync instead of several.
    Switching it on needs the file for itself, and SQLite then answers "database is locked" at once,
    whatever the timeout: of several first commands at a time, all but one try again.
    """
    # What was committed survives the loss of power: FULL is no default of every build of SQLite.
    saver.conn.execute("PRAGMA synchronous = FULL")
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            saver.setup()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def _unusable(place: Path, error: Exception) -> DatabaseError:
    return DatabaseError(f"Cannot keep threads in {place}: {error}.")


def delete_steps(saver: SqliteSaver, thread: str, kept: Collection[str]) -> None:
    """Delete the checkpoints of a thread but those that are kept; the oldest of these must be stored whole.

    LangGraph's savers cannot: `prune` keeps the newest one alone, and refuses delta channels.
    """
    with saver.cursor() as cursor:
        for table in ("writes", "checkpoints"):
            cursor.execute(
                f"DELETE FROM {table} WHERE thread_id = ? "  # noqa: S608 - one of two constants
                "AND checkpoint_id NOT IN (SELECT value FROM json_each(?))",
                (thread, json.dumps(list(kept))),
            )


def compact(saver: Saver) -> int:
    """Give the room of what was deleted back to the disk; returns the bytes by which the file shrank.

    Where another process works with the file it keeps its size: the room is used again by what comes.
    """
    if not isinstance(saver, SqliteSaver):
        return 0  # a server gives room back by itself
    size = _size(saver)
    try:
        saver.conn.execute("PRAGMA busy_timeout = 2000")
        saver.conn.execute("VACUUM")
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
    return max(size - _size(saver), 0)


def _size(saver: SqliteSaver) -> int:
    (_, _, file), *_ = saver.conn.execute("PRAGMA database_list").fetchall()
    return Path(file).stat().st_size
