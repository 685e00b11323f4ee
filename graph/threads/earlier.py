"""Threads that an earlier version kept in `.agent/threads.sqlite` of a workspace: only texts are imported.

A workspace may come from somebody else, and so may these threads. So only what was said comes along, built
anew; what a person granted, what was loaded and what waits for an answer is left behind. Nothing in the file
is followed, called or changed: a private copy is opened for reading, and only two plain tables are read.
"""

import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Overwrite

from skills_agent.graph.langgraph_inside import whole_value
from skills_agent.graph.places import make_state_folder, state_folder
from skills_agent.graph.private_files import open_private
from skills_agent.graph.serialisation import strict
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import CompressedSerializer, config_of
from skills_agent.graph.threads.errors import DatabaseError
from skills_agent.skills.confined import open_beneath, refusing_links
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.state.reducers import merge_messages, spent
from skills_agent.state.transcript import SYNTHETIC, calls_of, is_synthetic, repair

FILE: Final = Path(".agent", "threads.sqlite")
_SEEN: Final = "imported"
"""In the state folder: size and time of the file that was imported last."""
_MAX_BYTES: Final = 2 << 30
_MAX_VALUE: Final = 64 << 20
"""Bytes of one value of a row, as it is stored."""
_THREAD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CLOSED: Final = "[This call was open when the thread was imported. It did not run.]"
_TABLES: Final = frozenset({"checkpoints", "writes"})
_READS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_CHECKPOINTS: Final = (
    "SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint FROM checkpoints "
    "WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id DESC"
)
_WRITES: Final = (
    "SELECT type, value FROM writes WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? "
    "AND channel = 'messages' ORDER BY task_id, idx"
)
_FOREIGN: Final = (SkillsAgentError, sqlite3.Error, ValueError, TypeError, LookupError, AttributeError)
"""What goes wrong with records of an unknown shape."""


class Imported(NamedTuple):
    """What came of an import."""

    threads: tuple[str, ...]
    passed_over: Mapping[str, str]
    """Threads that were not imported, and why."""


def has_earlier_threads(settings: Settings) -> bool:
    """Return whether a workspace has earlier threads that were neither imported nor declined."""
    found = _seen(settings)
    if found is None or settings.checkpointer:
        return False
    with suppress(OSError):
        return (state_folder(settings) / _SEEN).read_text() != found
    return True


def decline(settings: Settings) -> None:
    """Offer the threads that are there now no more."""
    file = open_private(make_state_folder(settings) / _SEEN, os.O_WRONLY | os.O_TRUNC)
    os.write(file, (_seen(settings) or "").encode())
    os.close(file)


def import_threads(settings: Settings, graph: CompiledAgent) -> Imported:
    """Import the texts of the earlier threads into those of a graph, under their own names.

    Raises ConfinedError for a link, and DatabaseError for what is no database of threads.
    """
    imported: list[str] = []
    passed_over: dict[str, str] = {}
    with _opened(settings) as connection:
        for (thread,) in connection.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall():
            try:
                if fault := _import(connection, thread, graph):
                    passed_over[str(thread)] = fault
                else:
                    imported.append(thread)
            except _FOREIGN as error:
                passed_over[str(thread)] = str(error)
    decline(settings)
    return Imported(tuple(imported), passed_over)


def _seen(settings: Settings) -> str | None:
    with suppress(OSError):
        facts = (settings.workspace / FILE).lstat()
        if stat.S_ISREG(facts.st_mode):
            return f"{facts.st_size} {facts.st_mtime_ns}\n"
    return None


def _import(connection: sqlite3.Connection, thread: object, graph: CompiledAgent) -> str:
    if not isinstance(thread, str) or not _THREAD.fullmatch(thread):
        return "its name is none of a thread"
    config = config_of(thread)
    if graph.get_state(config).created_at is not None:
        return "there is a thread of that name already"
    messages = _transcript(connection, thread)
    if not messages:
        return "nothing was said in it"
    turns = sum(isinstance(each, HumanMessage) for each in messages)
    last = messages[-1]
    answer = str(last.text) if isinstance(last, AIMessage) else ""
    graph.update_own_state(
        config, {"messages": messages, "usage": spent(turns), "answer": answer}, as_node="answer"
    )
    return ""


def _transcript(connection: sqlite3.Connection, thread: str) -> list[AnyMessage]:
    """Return what was said: what the newest checkpoint with all of it holds, and the writes since then."""
    serializer = strict(CompressedSerializer(), {})
    rows = {row[0]: row[1:] for row in connection.execute(_CHECKPOINTS, [thread])}
    path: list[str] = []
    at, whole = next(iter(rows), ""), None
    while at in rows and at not in path and whole is None:
        path.append(at)
        at, kind, stored = rows[at]
        whole = serializer.loads_typed((kind, stored))["channel_values"].get("messages")
    messages = merge_messages([], whole_value(whole))
    for checkpoint in path[:0:-1]:  # What was written at the newest one has not been taken up.
        for write in connection.execute(_WRITES, [thread, checkpoint]).fetchall():
            value = serializer.loads_typed(write)
            messages = merge_messages(messages, value.value if isinstance(value, Overwrite) else value)
    return _rebuilt(messages)


def _rebuilt(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return messages of persons, of the model and of tools, with their text and calls and nothing else."""
    rebuilt: list[AnyMessage] = []
    for number, message in enumerate(messages):
        refused = "refused-" if (message.id or "").startswith("refused-") else ""
        name = f"{refused}imported-{number}"
        if isinstance(message, HumanMessage):
            rebuilt.append(HumanMessage(message.content, id=name))
        elif isinstance(message, AIMessage):
            mark = SYNTHETIC if is_synthetic(message) else {}
            calls = calls_of(message)
            rebuilt.append(AIMessage(message.content, tool_calls=calls, additional_kwargs=mark, id=name))
        elif isinstance(message, ToolMessage):
            fields = {"tool_call_id": message.tool_call_id, "name": message.name, "status": message.status}
            rebuilt.append(ToolMessage(message.content, id=name, **fields))
    return repair(rebuilt, _CLOSED) or rebuilt


@contextmanager
def _opened(settings: Settings) -> Iterator[sqlite3.Connection]:
    """Open a copy of the file, which nobody else can change, for reading and as data of a stranger."""
    with TemporaryDirectory(dir=make_state_folder(settings), prefix="import-") as folder:
        copy = Path(folder, FILE.name)
        try:
            _copy(settings.workspace, FILE, copy)
        except FileNotFoundError as error:
            raise DatabaseError(f"There is no {FILE} in {settings.workspace}.") from error
        # What a killed process had not yet moved into the file.
        with suppress(FileNotFoundError):
            _copy(settings.workspace, Path(f"{FILE}-wal"), Path(f"{copy}-wal"))
        try:
            with closing(sqlite3.connect(copy)) as connection:
                connection.text_factory = lambda text: text.decode(errors="replace")
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
                for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                    connection.execute(f"PRAGMA {pragma}")
                _check_tables(connection)
                connection.set_authorizer(_authorize)
                yield connection
        except sqlite3.Error as error:
            raise DatabaseError(f"Cannot read threads in {settings.workspace / FILE}: {error}.") from error


def _check_tables(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.Error unless both tables are plain ones, without columns that are worked out."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
    plain = {name for (name,) in connection.execute(query)}
    for table in _TABLES:
        hidden = [row[-1] for row in connection.execute(f"PRAGMA table_xinfo({table})")]
        if table not in plain or any(hidden):
            raise sqlite3.DatabaseError(f"{table} is no plain table")


def _authorize(action: int, table: str | None, *_: str | None) -> int:
    is_plain = action in _READS and (action != sqlite3.SQLITE_READ or table in _TABLES)
    return sqlite3.SQLITE_OK if is_plain else sqlite3.SQLITE_DENY


def _copy(workspace: Path, path: Path, copy: Path) -> None:
    with refusing_links(workspace / path):
        file = open_beneath(workspace, str(path), follow=False)
    with os.fdopen(file, "rb") as source, copy.open("xb") as target:
        if os.fstat(source.fileno()).st_size > _MAX_BYTES:
            raise DatabaseError(f"{workspace / path} is larger than {_MAX_BYTES >> 30} GiB: it is not read.")
        shutil.copyfileobj(source, target)
