"""The compiled graph: LangGraph's, with one run of a thread at a time, and a journal.

LangGraph has no lock: two invocations of one thread lose a turn, and two answers to one question run
what was asked about twice. Its server runs a thread once at a time by itself; there no lock is taken.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self, cast

from langchain_core.runnables import RunnableConfig
from langgraph._internal._config import ensure_config, recast_checkpoint_ns
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Command, StateSnapshot, StateUpdate
from typing_extensions import override

from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.langgraph_inside import stored
from skills_agent.graph.threads.errors import AnsweredError
from skills_agent.graph.threads.journals import Journals
from skills_agent.graph.threads.locks import Guard, Locks, Release, ThreadKey
from skills_agent.nodes.effects import INVOCATION_KEY, Invocation, Invocations
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentInput, AgentOutput, AgentState

_TASK: Final = "__pregel_task_id"
_PARENT_RUNTIME: Final = "__pregel_runtime"
"""What LangGraph puts into the config of a graph that a task of another one runs."""

_INTERRUPT_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class ThreadServices:
    """What a compiled graph guards its threads with."""

    running: Invocations
    locks: Locks
    journals: Journals
    audit: Audit


class CompiledAgent(CompiledStateGraph[AgentState, Context, AgentInput, AgentOutput]):
    """The compiled agent.

    Raises ThreadBusyError where another run of the thread goes on, and AnsweredError for an answer to a
    question that is not open: both before anything was run or written.
    """

    def __init__(self, *, keeper: ThreadServices, **fields: Any) -> None:
        """Take LangGraph's fields; `copy` hands them all on."""
        super().__init__(**fields)
        self.keeper = keeper

    @classmethod
    def of(cls, compiled: CompiledStateGraph[Any, Any, Any, Any], keeper: ThreadServices) -> Self:
        """Return a compiled graph as one of this class."""
        runs = cls.__new__(cls)
        runs.__dict__.update({**vars(compiled), "keeper": keeper})
        return runs

    @override
    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Run, as LangGraph does, holding the lock of the thread."""
        place = self._place(config)
        if place is None:
            yield from super().stream(input, config, **options)
            return
        with _held(place), self._running(place) as run:
            asked = (
                _addressed(input, place, self.get_state(config or {})) if _answers(input, place) else input
            )
            yield from super().stream(asked, _with_run(config, run), **options)
            run.settle()

    @override
    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Run, as LangGraph does, holding the lock of the thread."""
        place = self._place(config)
        if place is None:
            async with _leaving(super().astream(input, config, **options)) as parts:
                async for part in parts:
                    yield part
            return
        async with _held_async(place):
            with self._running(place) as run:
                asked = input
                if _answers(input, place):
                    asked = _addressed(input, place, await self.aget_state(config or {}))
                # Closed here and now: a run that somebody left must not go on without its lock.
                async with _leaving(super().astream(asked, _with_run(config, run), **options)) as parts:
                    async for part in parts:
                        yield part
                await asyncio.to_thread(run.settle)

    @override
    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Change the state of a thread that nobody runs at the moment."""
        place = self._place(config)
        if place is None:
            return super().bulk_update_state(config, supersteps)
        with _held(place):
            made = super().bulk_update_state(config, supersteps)
            if place.is_root and not place.key.namespace:
                self.keeper.audit.updated(place.key.thread, self.get_state(made), _flat(supersteps))
            return made

    @override
    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Change the state of a thread that nobody runs at the moment."""
        place = self._place(config)
        if place is None:
            return await super().abulk_update_state(config, supersteps)
        async with _held_async(place):
            made = await super().abulk_update_state(config, supersteps)
            if place.is_root and not place.key.namespace:
                snapshot = await self.aget_state(made)
                await asyncio.to_thread(
                    self.keeper.audit.updated, place.key.thread, snapshot, _flat(supersteps)
                )
            return made

    @contextmanager
    def held(self, config: RunnableConfig) -> Iterator[None]:
        """Keep a thread from being run meanwhile, as a run does. Raises ThreadBusyError."""
        place = self._place(config)
        with _held(place) if place else nullcontext():
            yield

    def _place(self, config: RunnableConfig | None) -> "_Place | None":
        """Return which thread a config is about; None where nothing of it is kept."""
        whole = ensure_config(self.config, config)
        configurable = whole["configurable"]
        saver = self._resolve_checkpointer(whole)
        thread = configurable.get("thread_id")
        if saver is None or thread is None:
            return None
        parent = configurable.get(_PARENT_RUNTIME)
        return _Place(
            key=ThreadKey(str(thread), configurable.get("checkpoint_ns") or ""),
            saver=saver,
            store=parent.store if parent else self.store,
            is_root=_TASK not in configurable,
            is_addressed=bool(configurable.get("checkpoint_id")),
            # LangGraph itself takes these for the sign of its server.
            guard=None
            if configurable.get("assistant_id") or configurable.get("graph_id")
            else self.keeper.locks.of(saver),
        )

    @contextmanager
    def _running(self, place: "_Place") -> Iterator[Invocation]:
        nodes = recast_checkpoint_ns(place.key.namespace)
        run = Invocation(
            id=secrets.token_hex(8),
            thread=f"{place.key.thread}|{nodes}" if nodes else place.key.thread,
            namespace=place.key.namespace,
            journal=self.keeper.journals.of(place.saver, place.store),
            has_checkpoint=partial(_has_checkpoint, place),
        )
        self.keeper.running.add(run)
        try:
            yield run
        finally:
            self.keeper.running.drop(run)


class AgentGraph(StateGraph[AgentState, Context, AgentInput, AgentOutput]):
    """The agent, ready to be compiled."""

    def __init__(self, keeper: ThreadServices) -> None:
        """Begin without nodes."""
        super().__init__(
            stored(AgentState),
            Context,
            input_schema=stored(AgentInput),
            output_schema=stored(AgentOutput),
        )
        self.keeper = keeper

    @override
    def compile(self, checkpointer: Checkpointer = None, **options: Any) -> CompiledAgent:
        """Compile, as LangGraph does."""
        return CompiledAgent.of(super().compile(checkpointer, **options), self.keeper)


@dataclass(frozen=True)
class _Place:
    """A thread that is kept, and what it is kept in."""

    key: ThreadKey
    saver: BaseCheckpointSaver[Any]
    store: BaseStore | None
    is_root: bool
    """False for a graph that a task of another one runs: the answers to its questions come otherwise."""
    is_addressed: bool
    """Whether the config names a checkpoint: there, a question that was answered may be answered anew."""
    guard: Guard | None
    """None where a server sees to it that a thread is run once at a time."""


@contextmanager
def _held(place: _Place) -> Iterator[None]:
    release = place.guard.take(place.key) if place.guard else None
    try:
        yield
    finally:
        if release:
            release()


@asynccontextmanager
async def _held_async(place: _Place) -> AsyncIterator[None]:
    """Hold the lock; what has to ask a server for it does so beside the event loop."""
    if place.guard is None or not place.guard.waits:
        with _held(place):
            yield
        return
    taking = asyncio.ensure_future(asyncio.to_thread(place.guard.take, place.key))
    try:
        release = await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(_give_back)
        raise
    try:
        yield
    finally:
        # On the loop: whoever cancels this must not keep the lock from being given back.
        release()


def _leaving(parts: AsyncIterator[Any]) -> aclosing[AsyncGenerator[Any]]:
    """Return a context that closes a stream, which LangGraph makes with an async generator function."""
    return aclosing(cast("AsyncGenerator[Any]", parts))


def _give_back(taking: "asyncio.Future[Release]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        taking.result()()


def _flat(supersteps: Sequence[Sequence[StateUpdate]]) -> list[StateUpdate]:
    return [update for superstep in supersteps for update in superstep]


def _answers(asked: Any, place: _Place) -> bool:
    """Tell whether the input of a run is an answer to the newest questions of its thread."""
    is_answer = isinstance(asked, Command) and asked.resume is not None
    return is_answer and place.is_root and not place.is_addressed


def _addressed(command: Command[Any], place: _Place, snapshot: StateSnapshot) -> Command[Any]:
    """Return an answer with the id of its question.

    LangGraph keeps an answer without one in the thread, and gives it to the next question that is asked
    after a crash, whatever that is. Raises AnsweredError.
    """
    is_open = [each.id for each in snapshot.interrupts]
    resume = command.resume
    if isinstance(resume, dict) and all(_INTERRUPT_ID.fullmatch(str(key)) for key in resume):
        if gone := sorted(set(resume) - set(is_open)):
            raise AnsweredError(place.key.thread, gone, is_open)
        return command
    if not is_open:
        raise AnsweredError(place.key.thread, (), ())
    return replace(command, resume={is_open[0]: resume}) if len(is_open) == 1 else command


def _with_run(config: RunnableConfig | None, run: Invocation) -> RunnableConfig:
    given = config or RunnableConfig()
    return {**given, "configurable": {**given.get("configurable", {}), INVOCATION_KEY: run.id}}


def _has_checkpoint(place: _Place, checkpoint: str) -> bool:
    found = place.saver.get_tuple(
        RunnableConfig(
            configurable={
                "thread_id": place.key.thread,
                "checkpoint_ns": place.key.namespace,
                "checkpoint_id": checkpoint,
            }
        )
    )
    return found is not None
