"""A thread of a checkpointer, as a config names it: its lock, its journal, and how it stands."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import StateSnapshot

from skills_agent.graph.langgraph_inside import (
    PARENT_TASK,
    is_served,
    keep_write,
    kind_of,
    node_path,
    saver_in,
    store_in,
)
from skills_agent.graph.serialisation import strict
from skills_agent.graph.threads.backends import ThreadServices
from skills_agent.graph.threads.locks import HeldLock, LockTable, Release, ThreadKey
from skills_agent.graph.threads.references import address_of
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.effects import Invocation, Journal, JournalEntry, Witness
from skills_agent.nodes.fork import FORK_KEY
from skills_agent.state.forks import ForkName

ThreadStatus = Literal["done", "waiting", "unfinished"]
"""`unfinished`: cut off in the middle, by a crash, Ctrl-C or SIGTERM."""
_LOOKOUT_SECONDS: Final = 0.02
"""Between two looks whether a cancelled run has ended."""


def status_of(snapshot: StateSnapshot) -> ThreadStatus:
    """Return whether a thread is done, waits for a person, or was cut off."""
    if snapshot.interrupts:
        return "waiting"
    # `snapshot.next` leaves out tasks that a deferred node still waits for.
    return "unfinished" if snapshot.tasks else "done"


@dataclass(frozen=True)
class Thread:
    """A thread of a checkpointer, as one config names it."""

    key: ThreadKey
    saver: BaseCheckpointSaver[Any]
    store: BaseStore | None
    fork: str
    """Of a fork, what the journal calls it beside its thread."""
    is_root: bool
    """False for a graph that a task of another one invokes: the answers to its questions come otherwise."""
    is_addressed: bool
    """True if the config names a checkpoint: there, an answered question may be answered again."""
    is_served: bool
    """True where LangGraph's server runs the graph."""
    services: ThreadServices
    locks: LockTable
    """On a server, those of this process: the server's own are free while a cancelled tool still runs."""

    @classmethod
    def of(
        cls,
        graph: CompiledStateGraph[Any, Any, Any, Any] | None,
        config: RunnableConfig,
        services: ThreadServices,
    ) -> "Thread | None":
        """Return the thread of a graph that a whole config names; None where none is kept.

        Without a graph: the thread that the task of the config is of.
        """
        configurable = config["configurable"]
        saver, thread = saver_in(graph, config), configurable.get("thread_id")
        if saver is None or thread is None:
            return None
        return cls(
            key=ThreadKey(str(thread), configurable.get("checkpoint_ns") or ""),
            saver=saver,
            store=store_in(graph, config),
            fork=named if isinstance(named := configurable.get(FORK_KEY), ForkName) else "",
            is_root=PARENT_TASK not in configurable,
            is_addressed=bool(configurable.get("checkpoint_id")),
            is_served=is_served(configurable),
            services=services,
            locks=services.locks_of(saver, is_served=is_served(configurable)),
        )

    @property
    def is_outermost(self) -> bool:
        """Return False for a graph inside another one, also where that one's state is read or written."""
        return self.is_root and not self.key.namespace

    @property
    def is_lasting(self) -> bool:
        """Return False for a thread in memory: one of that name in the next process is another one."""
        return self.is_served or kind_of(self.saver) != "memory"

    @property
    def name(self) -> str:
        """Return what the journal calls it."""
        if self.fork:
            return name_of_fork(self.key.thread, self.fork)
        nodes = node_path(self.key.namespace)
        return f"{self.key.thread}|{nodes}" if nodes else self.key.thread

    def has_checkpoint(self, checkpoint: str) -> bool:
        return self.saver.get_tuple(_config_of(self.key, checkpoint_id=checkpoint)) is not None

    @property
    def journal(self) -> Journal:
        """Return the journal of its calls."""
        return self.services.journal_of(self.saver, self.store, is_served=self.is_served)

    def invocation(self, run: str, cancellation: Cancellation) -> Invocation:
        """Return what the nodes of an invocation know of it."""
        journal, lock = self.journal, self.locks.held(self.key)
        return Invocation(
            id=run,
            thread=self.name,
            journal=FencedJournal(journal, lock) if lock else journal,
            check_lock=partial(lock.check, begins=True) if lock else lambda: None,
            has_checkpoint=self.has_checkpoint,
            is_lasting=self.is_lasting,
            ask_witness=partial(self.services.audit.witness, *self.key) if self.is_lasting else Witness,
            address=partial(address_of, self.saver),
            serializer=strict(JsonPlusSerializer(), self.services.allowed_types, f"Thread {self.key.thread}"),
            cancellation=cancellation,
        )


def name_of_fork(thread: str, fork: str) -> str:
    """Return what the journal calls a fork of a thread: several run in one node."""
    return f"{thread}|fork{fork}"


class FencedJournal:
    """The journal of one invocation: it writes nothing once the lock is lost. Raises LostLockError.

    A start is written only while the lock is held for sure; what ended also where it is lost and nobody else
    has taken it.
    """

    def __init__(self, journal: Journal, lock: HeldLock) -> None:
        self._journal = journal
        self._lock = lock
        self.get, self.alike, self.unsettled = journal.get, journal.alike, journal.unsettled
        self.forget = journal.forget

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the check where lock and journal are in one database."""
        begins, lock, journal = entry.status == "started", self._lock, self._journal
        put_into = getattr(lock, "put_into", None)
        if put_into is not None and put_into(journal, entry, replacing=replacing, begins=begins):
            return
        lock.check(begins=begins)
        journal.put(entry, replacing=replacing)


@contextmanager
def locked(thread: Thread | None, cancellation: Cancellation) -> Iterator[None]:
    while thread and thread.locks.is_ending(thread.key):
        time.sleep(_LOOKOUT_SECONDS)
    release = thread.locks.take(thread.key, cancellation) if thread else None
    try:
        yield
    finally:
        if release:
            cancellation.when_idle(release)


@asynccontextmanager
async def locked_async(thread: Thread | None, cancellation: Cancellation) -> AsyncIterator[None]:
    while thread and thread.locks.is_ending(thread.key):
        await asyncio.sleep(_LOOKOUT_SECONDS)
    if thread is None or not thread.locks.waits:
        with locked(thread, cancellation):
            yield
        return
    taking = asyncio.ensure_future(asyncio.to_thread(thread.locks.take, thread.key, cancellation))
    try:
        release = await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(_give_back)
        raise
    try:
        yield
    finally:
        # On the loop: a second cancellation must not keep the lock from being given back.
        cancellation.when_idle(release)


def count_spent(thread: Thread | None, error: Exception) -> None:
    """Count in a thread what was spent on replies of no use, where its run fails over them."""
    if thread and (spent := getattr(error, "spent", None)):
        # Of no turn: that of this run may not have begun in the state.
        keep_write(thread.saver, _config_of(thread.key), "usage", {**spent, "turn": 0})


def keep_revoked(thread: Thread, before: StateSnapshot, after: StateSnapshot) -> None:
    """Keep what was revoked before the state was updated: LangGraph drops what stands beside a step."""
    grants, kept = before.values.get("grants") or {}, after.values.get("grants") or {}
    lost = {name: grant for name, grant in grants.items() if grant["revoked"] and grant != kept.get(name)}
    if lost:
        keep_write(thread.saver, after.config, "grants", lost)


def _config_of(key: ThreadKey, **more: str) -> RunnableConfig:
    thread, namespace = key
    return RunnableConfig(configurable={"thread_id": thread, "checkpoint_ns": namespace, **more})


def _give_back(taking: "asyncio.Future[Release]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        taking.result()()
