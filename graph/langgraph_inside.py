"""What the project uses of LangGraph, its server and LangChain that their authors do not promise.

Each private or unstable name stands here once, with the version that it was checked with, and why it cannot
be had from outside. tests/graph/test_langgraph_inside.py fails with a sentence that says what to do when a
release changes one; pyproject.toml bounds the releases.
"""

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from uuid import UUID

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph._internal._config import ensure_config, recast_checkpoint_ns
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_READ,
    CONFIG_KEY_RESUME_MAP,
    CONFIG_KEY_RUNTIME,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_SEND,
    CONFIG_KEY_TASK_ID,
    NULL_TASK_ID,
)
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME, TASKS, _DeltaSnapshot
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Interrupt, _interrupt_id
from langgraph.typing import ContextT, InputT, OutputT, StateT
from typing_extensions import override

from skills_agent.state.schema import AgentState

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import DictRow

CHECKED: Final = {"langgraph": "1.2.22", "langgraph-checkpoint": "4.3.2"}
"""The releases that the names below were checked with."""


def state_now() -> AgentState:
    """Return the channels as they were when the step of the calling node began.

    What a `Send` brought may come from a client (`Command(goto=...)`), and a node that a `Send` starts is
    given nothing else. LangGraph's ToolNode reads so, too.
    """
    read = get_config()["configurable"][CONFIG_KEY_READ]
    return cast("AgentState", read([name for name in read.args[1] if name in AgentState.__annotations__]))


_SKIPPED: Final = "skipped"


def skip_answers(count: int) -> None:
    """Make the next question of the calling task its question number `count`, counted from 0.

    LangGraph hands the answers of a task out by their order, and makes the id of a question of the number of
    answers before it. A crash loses those answers, and the next question would have the id of the first: an
    old answer, sent again, would count for it. So the places before are filled, also with an answer that a
    graph around this one keeps without the id of its question, and are kept with the next question.
    `interrupt` takes neither a number nor an id.
    """
    config = get_config()["configurable"]
    scratchpad = config[CONFIG_KEY_SCRATCHPAD]
    answers: list[Any] = scratchpad.resume
    ids = [_interrupt_id(config[CONFIG_KEY_CHECKPOINT_NS], at) for at in range(len(answers))]
    given = config.get(CONFIG_KEY_RESUME_MAP) or {}
    # An answer to the first question counts for any later one, for the sake of threads of old releases.
    if len(answers) > 1 and ids[0] in given and ids[-1] not in given:
        answers.pop()
    for _ in range(count):
        if (place := scratchpad.interrupt_counter()) >= len(answers):
            kept = scratchpad.get_null_resume(True)
            answers.append(_SKIPPED if kept is None else kept)
    if count:
        config[CONFIG_KEY_SEND]([(RESUME, answers[: place + 1])])


def asked_again(question: Mapping[str, Any], answer_schema: Mapping[str, Any]) -> GraphInterrupt:
    """Return what puts the newest question of the calling task once more, with other words and the same id.

    `interrupt` saves nothing of an answer that it refuses. To call it again would ask a second question, and
    the first answer, which nobody kept, would be missing before the second one. No public call makes an id.
    """
    config = get_config()["configurable"]
    place = config[CONFIG_KEY_SCRATCHPAD].interrupt_counter() - 1
    asked = _interrupt_id(config[CONFIG_KEY_CHECKPOINT_NS], place)
    return GraphInterrupt((Interrupt(question, id=asked, response_schema=dict(answer_schema)),))


merged_config = ensure_config
"""Merges the config of a graph, the caller's and the parent task's, as an invocation does: public functions
of langchain-core merge otherwise, and the lock would be that of another thread."""
node_path = recast_checkpoint_ns
"""Returns the names of the nodes in a checkpoint namespace, without the ids of their tasks."""
RESERVED: Final = "__pregel"
"""Begins the names in `configurable` that LangGraph keeps to itself: who sets one steers its loop."""
PARENT_TASK: Final = CONFIG_KEY_TASK_ID
"""In the config of a graph that a task of another one invokes. No public name says so: metadata may come from
a client."""


def saver_in(
    graph: CompiledStateGraph[Any, Any, Any, Any] | None, config: RunnableConfig
) -> BaseCheckpointSaver[Any] | None:
    """Return the checkpointer of an invocation: the graph's own, or that of the graph around it.

    The attribute `checkpointer` is the graph's own alone; the lock and the journal go by the other one, too.
    Without a graph: that of the task which the config is of.
    """
    around = config["configurable"].get(CONFIG_KEY_CHECKPOINTER)
    return graph._resolve_checkpointer(config) if graph else around or None  # noqa: SLF001


def is_kept(graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig) -> bool:
    """Return whether the thread of an invocation, or the one around it, is kept, so that it can ask.

    Only its config tells a graph with `checkpointer=False` that the graph around it has a saver.
    """
    return (saver_in(graph, config) or saver_in(None, config)) is not None


def config_inside(saver: BaseCheckpointSaver[Any], thread: str, namespace: str) -> RunnableConfig:
    """Return the config by which a graph reads what a task of it, that runs the same graph, has as its state.

    LangGraph finds subgraphs that are nodes, and none that a node calls.
    """
    place = {"thread_id": thread, "checkpoint_ns": namespace, CONFIG_KEY_CHECKPOINTER: saver}
    return RunnableConfig(configurable=place)


def store_in(
    graph: CompiledStateGraph[Any, Any, Any, Any] | None, config: RunnableConfig
) -> BaseStore | None:
    """Return the store of an invocation: the graph's own, or that of the graph around it.

    `get_store` finds none where a node passes its config on by hand, as to a thread: the journal, which is in
    the store, would be another one then, and an effect would run twice.
    """
    at: Any = config["configurable"].get(CONFIG_KEY_RUNTIME) or graph
    return cast("BaseStore | None", at and at.store)


def is_served(configurable: Mapping[str, Any]) -> bool:
    """Return True where LangGraph's server runs the graph; LangGraph itself goes by these two keys.

    Its public `Runtime.server_info` is there in nodes alone, and the lock is taken before them.
    """
    return bool(configurable.get("assistant_id") or configurable.get("graph_id"))


def request_time(configurable: Mapping[str, Any]) -> datetime | None:
    """Return when a client sent a run to LangGraph's server, up to the end of that millisecond; else None.

    The server may queue a run. The only thing about it that has the time is its id, a UUID of version 7.
    """
    run = str(configurable.get("run_id") or "")
    if not is_served(configurable) or not _UUID7.fullmatch(run):
        return None
    return datetime.fromtimestamp(((UUID(run).int >> 80) + 1) / 1000, UTC)


_UUID7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

_UUID_EPOCH: Final = 0x01B21DD213814000
"""1970 in the time of a UUID: units of 100 ns since 1582."""
_MOST_AHEAD: Final = 1000 * 365 * 86_400 * 10_000_000
"""A thousand years in these units. Wrong clocks are years ahead, forged ids millennia; they end in 5236."""
_ORDERED_VERSION: Final = 6


def order_ids_after(checkpoint: str) -> bool:
    """Let every checkpoint id that this process makes from now on be greater than one that is kept.

    LangGraph makes ids of the clock, each greater than the last one of its process, which it keeps in a
    module variable, and takes an id from nobody. Returns False for an id so far ahead of the clock that no id
    should follow it. Ids of other forms, as a host's own saver may have them, are left alone.
    """
    try:
        kept = checkpoint_ids.UUID(checkpoint)
    except ValueError:
        return True
    if kept.version != _ORDERED_VERSION:
        return True
    if kept.time - (time.time_ns() // 100 + _UUID_EPOCH) > _MOST_AHEAD:
        return False
    # No lock: LangGraph takes none where it sets this, either. What slips through meets the check of `put`.
    newest = max(kept.time, checkpoint_ids._last_v6_timestamp or 0)  # noqa: SLF001
    checkpoint_ids._last_v6_timestamp = newest  # type: ignore[assignment]  # noqa: SLF001 - declared as None
    return True


UPDATE_TASK: Final = NULL_TASK_ID
"""Task id of what was written to a waiting thread from outside, such as a revocation."""
QUESTION: Final = INTERRUPT
"""Channel of the pending writes that hold a question."""
SENDS: Final = TASKS
"""Channel of the checkpoint that holds the `Send`s of the next step."""


class CompiledGraphHooks(CompiledStateGraph[StateT, ContextT, InputT, OutputT]):
    """A public hook around a private method of LangGraph's compiled graph.

    LangGraph asks that method for the saver of every invocation and of every look at the state: the graph's
    own, that of the graph around it, the server's. The last two are given by nothing that is public, and a
    record that was not read strictly could run code.
    """

    def prepare_saver(
        self, saver: BaseCheckpointSaver[Any], config: RunnableConfig
    ) -> BaseCheckpointSaver[Any]:
        """Return what reads and writes the thread of a config, in place of its saver."""
        raise NotImplementedError

    @override
    def _resolve_checkpointer(self, config: RunnableConfig) -> BaseCheckpointSaver[Any] | None:
        saver = super()._resolve_checkpointer(config)
        return self.prepare_saver(saver, config) if isinstance(saver, BaseCheckpointSaver) else saver


Form = Literal["single", "positional", "keywords", "method", "pydantic", "pydantic 1", "array", "unknown"]
"""How the serializer wrote an object: by one argument, by several, by a method's name, and so on."""

FORMS: Final[Mapping[int, Form]] = {
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG: "single",
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS: "positional",
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS: "keywords",
    jsonplus.EXT_METHOD_SINGLE_ARG: "method",
    jsonplus.EXT_PYDANTIC_V2: "pydantic",
    jsonplus.EXT_PYDANTIC_V1: "pydantic 1",
    jsonplus.EXT_NUMPY_ARRAY: "array",
}
"""The codes of msgpack's extension type under which objects are stored."""
SNAPSHOT_CODE: Final = jsonplus.EXT_DELTA_SNAPSHOT
"""The code of the whole value of a delta channel."""


MakeObject = Callable[[str, str, Form, Sequence[Any]], Any]
"""Makes an object that a record has. Takes the module and the name of its class, how it was written, and its
arguments or fields, behind them the name of a method where there is one; of an array its parts."""


def make_objects_by(serializer: JsonPlusSerializer, make: MakeObject) -> None:
    """Change a serializer: it reads objects by `make`, not by the import and the call that a record names.

    The public way is an argument of the constructor (`__unpack_ext_hook__`), which names the codes all the
    same; a copy of a serializer, or of a subclass of a host, keeps what it was made with. Pickle makes
    objects by itself, so this serializer writes and reads none; an object of JSON is read as one of no class.
    """

    def hook(code: int, packed: bytes) -> Any:
        """Stand for LangGraph's own, which imports what a record names."""
        content = ormsgpack.unpackb(packed, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        if code == SNAPSHOT_CODE:
            return _DeltaSnapshot(content)
        form = FORMS.get(code, "unknown")
        if form == "array":
            return make("numpy", "ndarray", form, content)
        module, name, *rest = content
        return make(module, name, form, rest)

    def revive(fields: dict[str, Any]) -> Any:
        """Stand for LangGraph's own, which a host's subclass may call for JSON under another name."""
        return make("json", "object", "unknown", [fields])

    serializer.pickle_fallback = False
    serializer._unpack_ext_hook = hook  # noqa: SLF001
    serializer._custom_unpack_ext_hook = True  # noqa: SLF001 - LangGraph does not replace such a hook
    serializer._reviver = revive  # type: ignore[assignment, method-assign]  # noqa: SLF001 - of kinds of a host


def keep_write(saver: BaseCheckpointSaver[Any], thread: RunnableConfig, channel: str, value: Any) -> None:
    """Write a value into a channel beside the newest checkpoint of a thread.

    LangGraph takes what no task wrote for a part of the checkpoint, when it is read as when a run begins. Its
    `update_state` would end the step that failed, and what its other tasks gave would be lost.
    """
    if newest := saver.get_tuple(thread):
        writes = [(name, kept) for task, name, kept in newest.pending_writes or () if task == NULL_TASK_ID]
        saver.put_writes(newest.config, [*writes, (channel, value)], NULL_TASK_ID)


SaverKind = Literal["memory", "sqlite", "postgres", "other"]

_MODULES: Final[Mapping[str, SaverKind]] = {
    "langgraph.checkpoint.memory": "memory",
    "langgraph.checkpoint.sqlite": "sqlite",
    "langgraph.checkpoint.postgres": "postgres",
}
_THREADS: Final = (
    "SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' "
    "GROUP BY thread_id ORDER BY MAX(checkpoint_id) DESC"
)
_MIGRATIONS: Final = "SELECT max(v) AS newest FROM checkpoint_migrations"


def kind_of(saver: BaseCheckpointSaver[Any]) -> SaverKind:
    """Return where a saver keeps threads; asked by module, because PostgreSQL's package is an extra.

    No attribute of a saver says it, and a journal must not end before its threads do.
    """
    names = (cls.__module__ for cls in type(saver).__mro__)
    kinds = (kind for name in names for module, kind in _MODULES.items() if name.startswith(module))
    return next(kinds, "other")


def identity_of(saver: BaseCheckpointSaver[Any]) -> Any:
    """Return what all copies of a saver share, usable as a key of a weak dictionary.

    Under strict serialisation every compiled graph has a copy of its saver, over the same threads, and a copy
    does not say of what. Two graphs over one saver must have one lock for a thread.
    """
    shared: Mapping[SaverKind, str] = {"memory": "stack", "postgres": "conn"}
    return getattr(saver, shared.get(kind_of(saver), ""), saver)


def thread_ids(saver: BaseCheckpointSaver[Any]) -> list[str]:
    """Return the ids of all threads, the one that moved last first.

    `saver.list(None)` reads every checkpoint of every thread, so the tables of the two savers whose queries
    are synchronous are asked themselves.
    """
    kind = "other" if hasattr(saver, "loop") else kind_of(saver)
    if kind in {"sqlite", "postgres"}:
        with saver.cursor(transaction=False) if kind == "sqlite" else saver._cursor() as cursor:  # type: ignore[attr-defined]  # noqa: SLF001 - the only synchronous way that works for a pool, too
            cursor.execute(_THREADS)
            return [str(row["thread_id"] if kind == "postgres" else row[0]) for row in cursor.fetchall()]
    newest: dict[str, str] = {}
    for found in saver.list(None):
        place = found.config["configurable"]
        if not place.get("checkpoint_ns"):
            thread = str(place["thread_id"])
            newest[thread] = max(newest.get(thread, ""), found.checkpoint["id"])
    return sorted(newest, key=newest.__getitem__, reverse=True)


def has_current_tables(connection: "Connection[DictRow]") -> bool:
    """Return True if a PostgreSQL database has the tables of the installed saver.

    It numbers its migrations, and says nowhere else which the newest is. Its `setup` wants the right to make
    tables, which an operator's role need not have.
    """
    # Extras of the project.
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415
    from psycopg.errors import UndefinedTable  # noqa: PLC0415

    try:
        row = connection.execute(_MIGRATIONS).fetchone() or {"newest": None}
    except UndefinedTable:
        return False
    return row["newest"] is not None and row["newest"] >= len(PostgresSaver.MIGRATIONS) - 1


_BLOCKING: Final = (BaseTool._arun, StructuredTool._arun, Tool._arun)  # noqa: SLF001


def is_coroutine(tool: BaseTool) -> bool:
    """Return whether a tool is awaited; LangChain hands any other one to a thread, which nobody can end.

    LangChain tells subclasses to write `_arun`, and has no public way to ask whether one did. A limit on time
    must know it.
    """
    return getattr(tool, "coroutine", None) is not None or type(tool)._arun not in _BLOCKING  # noqa: SLF001


def server_access() -> tuple[Mapping[str, Any], bool]:
    """Return which pages may come into the LangGraph server that this process is, and whether it has users.

    The pages as arguments of a CORSMiddleware. The module of the server's configuration is documented
    nowhere; it exists in the process of a server alone.
    """
    from langgraph_api import config  # noqa: PLC0415

    has_users = bool(config.LANGGRAPH_AUTH) or config.LANGGRAPH_AUTH_TYPE != "noop"
    return config.CORS_CONFIG or {}, has_users


def is_development_server() -> bool:
    """Return whether this process is a `langgraph dev`: it imports what lies in the folder that it starts in.

    It alone has this package, and nothing of the server's configuration says so.
    """
    return "langgraph_runtime_inmem" in sys.modules
