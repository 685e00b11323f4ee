"""Where the threads of a workspace are kept: `.agent/threads.sqlite`."""

import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.cli.errors import ThreadError
from skills_agent.graph.serializer import CompressedSerializer

FOLDER = ".agent"
FILE = "threads.sqlite"
BUSY_SECONDS = 30
KEPT = "skills_agent"
"""Key of the checkpoint metadata that holds the options a thread was started with."""

_IGNORED = f"# Conversations stay on this machine.\n/{FILE}*\n"


@contextmanager
def open_database(workspace: Path) -> Iterator[SqliteSaver]:
    """Open the threads of a workspace, making the database when there is none.

    Raises ThreadError where it cannot be used.
    """
    place = workspace / FOLDER / FILE
    try:
        _prepare(place)
        connection = sqlite3.connect(place, timeout=BUSY_SECONDS, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(place, error) from error
    with closing(connection):
        saver = SqliteSaver(connection, serde=CompressedSerializer())
        try:
            saver.setup()
        except sqlite3.Error as error:
            raise _unusable(place, error) from error
        yield saver


def has_threads(workspace: Path) -> bool:
    """Tell whether anything was ever kept here, without making a database."""
    return (workspace / FOLDER / FILE).is_file()


def thread_ids(saver: SqliteSaver) -> list[str]:
    """Return the ids of all threads, the one that moved last first."""
    with saver.cursor(transaction=False) as cursor:
        # `saver.list(None)` would read every checkpoint of every thread.
        rows = cursor.execute(
            "SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' "
            "GROUP BY thread_id ORDER BY MAX(checkpoint_id) DESC"
        ).fetchall()
    return [str(row[0]) for row in rows]


def config_of(thread: str, options: Mapping[str, Any] | None = None) -> RunnableConfig:
    """Return LangGraph's config of a thread; `options` are kept with every checkpoint of the run."""
    config = RunnableConfig(configurable={"thread_id": thread})
    if options is not None:
        # Checkpoint metadata keeps only plain values.
        config["metadata"] = {KEPT: json.dumps(dict(options))}
    return config


def kept_options(saver: SqliteSaver, thread: str) -> dict[str, Any] | None:
    """Return the options that a thread was last run with; None for a thread that does not exist."""
    found = saver.get_tuple(config_of(thread))
    if found is None:
        return None
    metadata: Mapping[str, Any] = dict(found.metadata)
    options: dict[str, Any] = json.loads(metadata.get(KEPT, "{}"))
    return options


def _prepare(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    ignore = place.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_IGNORED, encoding="utf-8")
    # Nobody else on the machine reads what was said.
    os.close(os.open(place, os.O_RDWR | os.O_CREAT, 0o600))


def _unusable(place: Path, error: Exception) -> ThreadError:
    return ThreadError(f"Cannot keep threads in {place}: {error}.")


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


def compact(saver: SqliteSaver) -> int:
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
