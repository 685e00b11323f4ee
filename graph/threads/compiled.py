"""The compiled graph: LangGraph's, with one invocation of a thread at a time, and a journal.

In LangGraph two invocations of one thread lose a turn, and two answers to one question run a call twice.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Command, StateSnapshot, StateUpdate
from typing_extensions import override

from skills_agent.graph.langgraph_inside import (
    PARENT_TASK,
    CompiledGraphHooks,
    compiled_as,
    is_served,
    merged_config,
    node_path,
    request_time,
    saver_in,
    store_in,
    stored,
)
from skills_agent.graph.serialisation import strict, strict_saver
from skills_agent.graph.threads.backends import ThreadServices
from skills_agent.graph.threads.checkpoint_order import ordered
from skills_agent.graph.threads.errors import AnsweredError, EarlyAnswerError, ThreadError
from skills_agent.graph.threads.inputs import (
    all_make_no_claims,
    believed,
    believed_updates,
    makes_claims,
)
from skills_agent.graph.threads.locks import LockTable, Release, ThreadKey
from skills_agent.graph.threads.references import address_of
from skills_agent.nodes.effects import INVOCATION_KEY, Invocation
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentInput, AgentOutput, AgentState

ThreadStatus = Literal["done", "waiting", "unfinished"]
"""`unfinished`: cut off in the middle, by a crash, Ctrl-C or SIGTERM."""

_INTERRUPT_ID = re.compile(r"[0-9a-f]{32}")


class CompiledAgent(CompiledGraphHooks[AgentState, Context, AgentInput, AgentOutput]):
    """The compiled agent.

    Raises ThreadBusyError where another invocation of the thread goes on, AnsweredError for an answer to a
    question that is not open, and RecordTypeError for a thread that holds what is not read: all before
    anything was run or written.
    """

    def __init__(self, *, services: ThreadServices, **fields: Any) -> None:
        """Take LangGraph's fields beside ours: its `copy` hands all of them on."""
        super().__init__(**fields)
        self.services = services

    def saver_of(self, thread: str) -> BaseCheckpointSaver[Any]:
        """Return the graph's own checkpointer, to read a thread. Raises ThreadError where it has none."""
        if not isinstance(self.checkpointer, BaseCheckpointSaver):
            raise ThreadError("Threads are those of build_graph(...).compile(checkpointer=...).")
        return strict_saver(self.checkpointer, self.services.allowed_types, thread)

    @override
    def prepare_saver(
        self, saver: BaseCheckpointSaver[Any], config: RunnableConfig
    ) -> BaseCheckpointSaver[Any]:
        """Return the saver of an invocation, whoever gave it, reading strictly, and writing in order."""
        configurable = config.get("configurable", {})
        made = strict_saver(saver, self.services.allowed_types, configurable.get("thread_id"))
        return ordered(made) if INVOCATION_KEY in configurable else made

    @override
    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        thread = self._thread_of(config)
        with _locked(thread), self._invoked(thread) as invocation:
            is_answer = _is_answer(input, thread)
            message = _addressed(input, self.get_state(config or {}), config) if is_answer else input
            if makes_claims(message):
                message = believed(message, self.get_state(self._whole(config)) if thread else None)
            yield from super().stream(message, _marked(config, invocation), **options)
            if invocation:
                invocation.settle()

    @override
    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        thread = self._thread_of(config)
        async with _locked_async(thread):
            with self._invoked(thread) as invocation:
                is_answer = _is_answer(input, thread)
                snapshot = await self.aget_state(config or {}) if is_answer else None
                message = _addressed(input, snapshot, config) if snapshot else input
                if makes_claims(message):
                    snapshot = await self.aget_state(self._whole(config)) if thread else None
                    message = believed(message, snapshot)
                stream = super().astream(message, _marked(config, invocation), **options)
                # Closed here and now: an invocation that its caller left must not go on without its lock.
                async with aclosing(cast("AsyncGenerator[Any]", stream)) as parts:
                    async for part in parts:
                        yield part
                if invocation:
                    await asyncio.to_thread(invocation.settle)

    @override
    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        thread = self._thread_of(config)
        with _locked(thread):
            if not all_make_no_claims(supersteps):
                supersteps = believed_updates(supersteps, self.get_state(config))
            return self._update_state(thread, config, supersteps)

    def update_own_state(self, config: RunnableConfig, values: Mapping[str, Any], as_node: str) -> None:
        """Update the state in the name of the agent, as `update_state` does for a client.

        Results of calls that stand in `values` are what the agent itself knows of them.
        """
        thread = self._thread_of(config)
        with _locked(thread):
            self._update_state(thread, config, [[StateUpdate(dict(values), as_node)]])

    def _update_state(
        self, thread: "_Thread | None", config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        updated = super().bulk_update_state(_marked(config), supersteps)
        if thread and thread.is_outermost:
            self._record_update(thread, self.get_state(updated), supersteps)
        return updated

    @override
    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        thread = self._thread_of(config)
        async with _locked_async(thread):
            if not all_make_no_claims(supersteps):
                supersteps = believed_updates(supersteps, await self.aget_state(config))
            updated = await super().abulk_update_state(_marked(config), supersteps)
            if thread and thread.is_outermost:
                snapshot = await self.aget_state(updated)
                await asyncio.to_thread(self._record_update, thread, snapshot, supersteps)
            return updated

    def locked(self, config: RunnableConfig) -> AbstractContextManager[None]:
        """Return a context in which nobody else can run a thread. Raises ThreadBusyError."""
        return _locked(self._thread_of(config))

    def _whole(self, config: RunnableConfig | None) -> RunnableConfig:
        return merged_config(self.config, config)

    def _thread_of(self, config: RunnableConfig | None) -> "_Thread | None":
        whole = self._whole(config)
        configurable = whole["configurable"]
        saver = saver_in(self, whole)
        thread = configurable.get("thread_id")
        if saver is None or thread is None:
            return None
        return _Thread(
            key=ThreadKey(str(thread), configurable.get("checkpoint_ns") or ""),
            saver=saver,
            store=store_in(self, whole),
            is_root=PARENT_TASK not in configurable,
            is_addressed=bool(configurable.get("checkpoint_id")),
            is_served=is_served(configurable),
            locks=LockTable(None) if is_served(configurable) else self.services.locks_of(saver),
        )

    @contextmanager
    def _invoked(self, thread: "_Thread | None") -> Iterator[Invocation | None]:
        if thread is None:
            yield None
            return
        nodes = node_path(thread.key.namespace)
        invocation = Invocation(
            id=secrets.token_hex(8),
            thread=f"{thread.key.thread}|{nodes}" if nodes else thread.key.thread,
            namespace=thread.key.namespace,
            journal=self.services.journal_of(thread.saver, thread.store, is_served=thread.is_served),
            has_checkpoint=thread.has_checkpoint,
            address=address_of(thread.saver),
            serializer=strict(
                JsonPlusSerializer(), self.services.allowed_types, f"Thread {thread.key.thread}"
            ),
        )
        self.services.invocations[invocation.id] = invocation
        try:
            yield invocation
        finally:
            self.services.invocations.pop(invocation.id, None)

    def _record_update(
        self, thread: "_Thread", snapshot: StateSnapshot, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> None:
        updates = [update for superstep in supersteps for update in superstep]
        self.services.audit.record_update(thread.key.thread, snapshot, updates)


class AgentGraph(StateGraph[AgentState, Context, AgentInput, AgentOutput]):
    """The agent, ready to be compiled."""

    def __init__(self, services: ThreadServices) -> None:
        """Begin without nodes, with the declared schemas as they are stored."""
        super().__init__(
            stored(AgentState), Context, input_schema=stored(AgentInput), output_schema=stored(AgentOutput)
        )
        self.services = services

    @override
    def compile(self, checkpointer: Checkpointer = None, **options: Any) -> CompiledAgent:
        return compiled_as(CompiledAgent, super().compile(checkpointer, **options), services=self.services)


def status_of(snapshot: StateSnapshot) -> ThreadStatus:
    """Return whether a thread is done, waits for a person, or was cut off."""
    if snapshot.interrupts:
        return "waiting"
    # `snapshot.next` leaves out tasks that a deferred node still waits for.
    return "unfinished" if snapshot.tasks else "done"


@dataclass(frozen=True)
class _Thread:
    """A thread of a checkpointer, as one config names it."""

    key: ThreadKey
    saver: BaseCheckpointSaver[Any]
    store: BaseStore | None
    is_root: bool
    """False for a graph that a task of another one invokes: the answers to its questions come otherwise."""
    is_addressed: bool
    """True if the config names a checkpoint: there, an answered question may be answered again."""
    is_served: bool
    """True where LangGraph's server runs the graph."""
    locks: LockTable
    """Keeps nobody out on a server, which has locks of its own."""

    @property
    def is_outermost(self) -> bool:
        """Return False for a graph inside another one, also where that one's state is read or written."""
        return self.is_root and not self.key.namespace

    def has_checkpoint(self, checkpoint: str) -> bool:
        thread, namespace = self.key
        address = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
        return self.saver.get_tuple(RunnableConfig(configurable=address)) is not None


@contextmanager
def _locked(thread: _Thread | None) -> Iterator[None]:
    release = thread.locks.take(thread.key) if thread else None
    try:
        yield
    finally:
        if release:
            release()


@asynccontextmanager
async def _locked_async(thread: _Thread | None) -> AsyncIterator[None]:
    if thread is None or not thread.locks.waits:
        with _locked(thread):
            yield
        return
    taking = asyncio.ensure_future(asyncio.to_thread(thread.locks.take, thread.key))
    try:
        release = await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(_give_back)
        raise
    try:
        yield
    finally:
        # On the loop: a second cancellation must not keep the lock from being given back.
        release()


def _give_back(taking: "asyncio.Future[Release]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        taking.result()()


def _is_answer(message: Any, thread: _Thread | None) -> bool:
    is_newest = thread is not None and thread.is_root and not thread.is_addressed
    return is_newest and isinstance(message, Command) and message.resume is not None


def _addressed(command: Command[Any], snapshot: StateSnapshot, config: RunnableConfig | None) -> Command[Any]:
    """Return an answer with the id of its question.

    LangGraph keeps an answer without one in the thread, and gives it to the next question that is asked
    after a crash, whatever that is. Its server queues a second answer (a double click) behind the first, and
    gives it to the question after: nobody has seen that one. Raises AnsweredError.
    """
    thread = snapshot.config["configurable"]["thread_id"]
    is_open = [interrupt.id for interrupt in snapshot.interrupts]
    resume = command.resume
    if isinstance(resume, dict) and all(_INTERRUPT_ID.fullmatch(str(key)) for key in resume):
        if closed := sorted(set(resume) - set(is_open)):
            raise AnsweredError(thread, closed, is_open)
        return command
    if not is_open:
        raise AnsweredError(thread, (), ())
    sent, asked = request_time((config or {}).get("configurable", {})), snapshot.created_at
    if sent and asked and sent < datetime.fromisoformat(asked):
        raise EarlyAnswerError(thread, (), is_open)
    return replace(command, resume={is_open[0]: resume}) if len(is_open) == 1 else command


def _marked(config: RunnableConfig | None, invocation: Invocation | None = None) -> RunnableConfig:
    """Return the config of what writes a thread: an invocation, or an update of the state."""
    whole = config or RunnableConfig()
    mark = {INVOCATION_KEY: invocation.id if invocation else ""}
    return {**whole, "configurable": {**whole.get("configurable", {}), **mark}}
