"""The compiled graph: LangGraph's, with one invocation of a thread at a time, and a journal.

In LangGraph two invocations of one thread lose a turn, and two answers to one question run a call twice.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Collection,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Command, Interrupt, StateSnapshot, StateUpdate
from typing_extensions import override

from skills_agent.graph.langgraph_inside import (
    PARENT_TASK,
    CompiledGraphHooks,
    is_kept,
    is_served,
    keep_write,
    kind_of,
    merged_config,
    node_path,
    request_time,
    saver_in,
    store_in,
)
from skills_agent.graph.response_format import ResponseFormat, with_channel
from skills_agent.graph.serialisation import strict, strict_saver
from skills_agent.graph.threads.backends import ThreadServices
from skills_agent.graph.threads.checkpoint_order import ordered
from skills_agent.graph.threads.errors import (
    AnsweredError,
    EarlyAnswerError,
    JournalError,
    ReplayedAnswerError,
    ThreadError,
    ThreadIdError,
    UnnamedAnswerError,
)
from skills_agent.graph.threads.fenced_journal import FencedJournal
from skills_agent.graph.threads.inputs import (
    believed,
    believed_updates,
    check_updates,
    makes_claims,
    read_input,
)
from skills_agent.graph.threads.locks import LockTable, Release, ThreadKey
from skills_agent.graph.threads.references import address_of
from skills_agent.graph.threads.requests import request_in, turn_of
from skills_agent.graph.threads.stream_parts import custom_parts, values_parts
from skills_agent.nodes.asking import UNANSWERABLE, AskedAttempt
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.conversation import DEFAULT_NAME
from skills_agent.nodes.effects import INVOCATION_KEY, Invocation, Journal, Witness
from skills_agent.nodes.model_call import AGENT_NAME
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentInput, AgentOutput, AgentState

logger = logging.getLogger(__name__)

ThreadStatus = Literal["done", "waiting", "unfinished"]
"""`unfinished`: cut off in the middle, by a crash, Ctrl-C or SIGTERM."""

_UNNAMED: Final = frozenset({"LangGraph", DEFAULT_NAME})
"""The names of a graph that no host named: LangGraph's, and that of our own program and server."""
_LOOKOUT_SECONDS: Final = 0.02
"""Between two looks whether a cancelled run has ended."""
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
        """Return the saver of an invocation, whoever gave it, reading strictly, and writing in order.

        Raises ThreadIdError for a config that names no thread: LangGraph looks only for any key.
        """
        configurable = config.get("configurable", {})
        if not isinstance(thread := configurable.get("thread_id"), str):
            raise ThreadIdError(given="none" if thread is None else f"{thread!r}, which is no text")
        made = strict_saver(saver, self.services.allowed_types, thread)
        return ordered(made) if INVOCATION_KEY in configurable else made

    @override
    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        config = _by_text(config)
        thread, cancellation = self._thread_of(config), Cancellation()
        input = read_input(input, is_inner=self._is_inner(config))  # noqa: A001 - LangGraph's name
        if before_turn := self.services.before_turn:
            before_turn()
        with _locked(thread, cancellation), self._invoked(thread, cancellation) as (run, invocation):
            received = _Received(input)
            if thread and _needs_state(input, thread):
                received = self._received(input, super().get_state(config or {}), config)
            if received.values is not None:
                yield from values_parts(self, received.values, options)
                return
            if makes_claims(received.input):
                snapshot = super().get_state(self._whole(config)) if thread else None
                received = received._replace(input=believed(received.input, snapshot))
            marked = self._marked(config, run, is_thread=thread is not None)
            stream = super().stream(received.input, marked, **options)
            with _counted(thread), closing(cast("Generator[Any]", stream)) as parts:
                for part in parts:
                    try:
                        yield part
                    except GeneratorExit:
                        cancellation.request()  # LangGraph waits for what runs in threads.
                        raise
            yield from self._end_commands(run, thread, config, options)
            if invocation:
                invocation.settle(lambda: self._status(thread, config) == "done")
            if received.outdated:
                raise _answered(received.outdated, self.get_state(config or {}))

    @override
    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        config = _by_text(config)
        thread, cancellation = self._thread_of(config), Cancellation()
        input = read_input(input, is_inner=self._is_inner(config))  # noqa: A001 - LangGraph's name
        if before_turn := self.services.before_turn:
            await asyncio.to_thread(before_turn)
        async with _locked_async(thread, cancellation):
            with self._invoked(thread, cancellation) as (run, invocation):
                received = _Received(input)
                if thread and _needs_state(input, thread):
                    whole = await super().aget_state(config or {})
                    received = await cancellation.in_thread(self._received, input, whole, config)
                if received.values is not None:
                    for part in values_parts(self, received.values, options):
                        yield part
                    return
                if makes_claims(received.input):
                    snapshot = await super().aget_state(self._whole(config)) if thread else None
                    received = received._replace(input=believed(received.input, snapshot))
                marked = self._marked(config, run, is_thread=thread is not None)
                stream = super().astream(received.input, marked, **options)
                # Closed here and now: an invocation that its caller left must not go on without its lock.
                async with _counted_async(thread), aclosing(cast("AsyncGenerator[Any]", stream)) as parts:
                    async for part in parts:
                        yield part
                for part in await self._end_commands_async(cancellation, run, thread, config, options):
                    yield part
                if invocation:
                    await cancellation.in_thread(
                        invocation.settle, lambda: self._status(thread, config) == "done"
                    )
                if received.outdated:
                    raise _answered(received.outdated, await self.aget_state(config or {}))

    @override
    def get_state(self, config: RunnableConfig, **options: Any) -> StateSnapshot:
        """Return the state of a thread; a question that was answered before a crash is not open in it."""
        config = _by_text(config)
        return self._current(super().get_state(config, **options), config)

    @override
    async def aget_state(self, config: RunnableConfig, **options: Any) -> StateSnapshot:
        """Return the state of a thread, as `get_state` does."""
        config = _by_text(config)
        snapshot = await super().aget_state(config, **options)
        if not _asked_attempts(snapshot):
            return snapshot
        return await asyncio.to_thread(self._current, snapshot, config)

    @override
    def get_state_history(self, config: RunnableConfig, **options: Any) -> Iterator[StateSnapshot]:
        return super().get_state_history(_by_text(config), **options)

    @override
    def aget_state_history(self, config: RunnableConfig, **options: Any) -> AsyncIterator[StateSnapshot]:
        return super().aget_state_history(_by_text(config), **options)

    @override
    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        claims = check_updates(supersteps)
        config = _by_text(config)
        thread = self._thread_of(config)
        with _locked(thread, Cancellation()):
            if claims:
                supersteps = believed_updates(supersteps, self.get_state(config))
            return self._update_state(thread, config, supersteps)

    def update_own_state(self, config: RunnableConfig, values: Mapping[str, Any], as_node: str) -> None:
        """Update the state in the name of the agent: any channel, where `update_state` takes a client's."""
        thread = self._thread_of(config := _by_text(config))
        with _locked(thread, Cancellation()):
            self._update_state(thread, config, [[StateUpdate(dict(values), as_node)]])

    def update_beside_question(self, config: RunnableConfig, values: Mapping[str, Any]) -> None:
        """Update the state in the name of the agent, and leave open what is asked.

        Another update would drop the question, and run again what runs beside it.
        """
        thread = self._thread_of(config)
        assert thread is not None  # noqa: S101 - it has a question
        with _locked(thread, Cancellation()):
            for channel, value in values.items():
                keep_write(thread.saver, config, channel, value)
        self._record_update(thread, self.get_state(config), [[StateUpdate(dict(values))]])

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
        claims = check_updates(supersteps)
        config = _by_text(config)
        thread = self._thread_of(config)
        async with _locked_async(thread, Cancellation()):
            if claims:
                supersteps = believed_updates(supersteps, await self.aget_state(config))
            updated = await super().abulk_update_state(_marked(config), supersteps)
            if thread and thread.is_outermost:
                snapshot = await self.aget_state(updated)
                await asyncio.to_thread(self._record_update, thread, snapshot, supersteps)
            return updated

    def _received(self, given: Any, whole: StateSnapshot, config: RunnableConfig | None) -> "_Received":
        """Return what an answer, or a request with an id, is for a thread that stands so."""
        if isinstance(given, Command) and self._whole(config)["configurable"].get("checkpoint_id"):
            return _replayed(given, whole)
        if isinstance(given, Command):
            return _addressed(given, whole, self._current(whole, config), config)
        request = request_in(given)
        turn = turn_of(request, whole, is_done=status_of(whole) == "done") if request else None
        if turn is None:
            return _Received(given)
        return _Received(None, values=turn.values(whole.values) if turn.is_over else None)

    def _current(self, snapshot: StateSnapshot, config: RunnableConfig | None) -> StateSnapshot:
        """Return a snapshot without the questions about attempts that the journal is past.

        LangGraph keeps such a question until its task ends or asks again.
        """
        asked = _asked_attempts(snapshot)
        thread = self._thread_of(config) if asked else None
        if thread is None:
            return snapshot
        journal = self._journal_of(thread)
        try:
            known = {each: journal.get(thread.name, of.call_id) for each, of in asked.items()}
            past = {each for each, of in asked.items() if not of.is_open(known[each])}
        except JournalError as error:
            logger.warning("journal not read", extra={"of_thread": thread.name, "cause": str(error)})
            return snapshot
        return _without(snapshot, past)

    def locked(self, config: RunnableConfig) -> AbstractContextManager[None]:
        """Return a context in which nobody else can run a thread. Raises ThreadBusyError."""
        return _locked(self._thread_of(_by_text(config)), Cancellation())

    def _is_inner(self, config: RunnableConfig | None) -> bool:
        """Return whether a task of another graph invokes this one."""
        return PARENT_TASK in self._whole(config)["configurable"]

    def _whole(self, config: RunnableConfig | None) -> RunnableConfig:
        return merged_config(self.config, config)

    def _marked(self, config: RunnableConfig | None, run: str, *, is_thread: bool) -> RunnableConfig:
        """Return the config of an invocation, with what its nodes have to know of it."""
        marked = _marked(config, run)
        marked["configurable"][UNANSWERABLE] = not (is_thread or is_kept(self, self._whole(config)))
        marked["configurable"][AGENT_NAME] = "" if self.name in _UNNAMED else self.name
        return marked

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
            locks=self.services.locks_of(saver, is_served=is_served(configurable)),
        )

    @contextmanager
    def _invoked(self, thread: "_Thread | None", cancellation: Cancellation) -> "Iterator[_Invoked]":
        run, running = secrets.token_hex(8), self.services.invocations
        invocation = self._invocation(run, thread, cancellation) if thread else None
        running.begin(run, invocation, cancellation)
        if thread and thread.is_outermost:
            self.services.left_running.take(thread.key.thread, run)
        try:
            yield _Invoked(run, invocation)
        finally:
            cancellation.request()
            self.services.left_running.end(run, 0)  # However the run ended; at a question, it has left them.
            cancellation.when_idle(lambda: running.end(run))

    def _end_commands(
        self, run: str, thread: "_Thread | None", config: RunnableConfig | None, options: Mapping[str, Any]
    ) -> list[Any]:
        """End what an invocation left in the background, but for a question; return what is told of that."""
        commands = self.services.left_running
        if commands.of_run(run) and self._status(thread, config) == "waiting":
            commands.leave(run)
        return [part for command in commands.end(run) for part in custom_parts(self, command.record, options)]

    async def _end_commands_async(self, cancellation: Cancellation, run: str, *where: Any) -> list[Any]:
        is_needed = bool(self.services.left_running.of_run(run))
        return await cancellation.in_thread(self._end_commands, run, *where) if is_needed else []

    def _invocation(self, run: str, thread: "_Thread", cancellation: Cancellation) -> Invocation:
        journal, lock = self._journal_of(thread), thread.locks.held(thread.key)
        return Invocation(
            id=run,
            thread=thread.name,
            namespace=thread.key.namespace,
            journal=FencedJournal(journal, lock) if lock else journal,
            check_lock=partial(lock.check, begins=True) if lock else _never_lost,
            has_checkpoint=thread.has_checkpoint,
            is_lasting=thread.is_lasting,
            ask_witness=partial(self.services.audit.witness, *thread.key) if thread.is_lasting else Witness,
            address=address_of(thread.saver),
            serializer=strict(
                JsonPlusSerializer(), self.services.allowed_types, f"Thread {thread.key.thread}"
            ),
            cancellation=cancellation,
        )

    def _status(self, thread: "_Thread | None", config: RunnableConfig | None) -> ThreadStatus | None:
        """Return how a thread stands; None where nobody can tell."""
        if thread is None or not thread.is_outermost:
            return None
        whole = config or RunnableConfig()
        named = {
            name: each for name, each in whole.get("configurable", {}).items() if name != "checkpoint_id"
        }
        return status_of(self.get_state({**whole, "configurable": named}))

    def _journal_of(self, thread: "_Thread") -> Journal:
        return self.services.journal_of(thread.saver, thread.store, is_served=thread.is_served)

    def _record_update(
        self, thread: "_Thread", snapshot: StateSnapshot, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> None:
        updates = [update for superstep in supersteps for update in superstep]
        self.services.audit.record_update(thread.key.thread, snapshot, updates)


class AgentGraph(StateGraph[AgentState, Context, AgentInput, AgentOutput]):
    """The agent, ready to be compiled."""

    def __init__(self, services: ThreadServices, response_format: ResponseFormat | None = None) -> None:
        """Begin without nodes, with the declared schemas."""
        super().__init__(
            with_channel(AgentState, response_format),
            Context,
            input_schema=AgentInput,
            output_schema=with_channel(AgentOutput, response_format),
        )
        self.services = services

    @override
    def compile(self, checkpointer: Checkpointer = None, **options: Any) -> CompiledAgent:
        compiled: Any = super().compile(checkpointer, **options)
        compiled.__class__ = CompiledAgent  # LangGraph makes no other class than its own.
        compiled.services = self.services
        return cast("CompiledAgent", compiled)


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
    """On a server, those of this process: the server's own are free while a cancelled tool still runs."""

    def is_ending(self) -> bool:
        """Return whether a run of it was cancelled and is about to end: within STOP_SECONDS."""
        return self.locks.is_ending(self.key)

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
        nodes = node_path(self.key.namespace)
        return f"{self.key.thread}|{nodes}" if nodes else self.key.thread

    def has_checkpoint(self, checkpoint: str) -> bool:
        thread, namespace = self.key
        address = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
        return self.saver.get_tuple(RunnableConfig(configurable=address)) is not None


class _Invoked(NamedTuple):
    """One call of the compiled graph."""

    id: str
    invocation: Invocation | None
    """None where the thread is not kept."""


def _never_lost() -> None:
    """Stand for the check of a lock that cannot be lost."""


@contextmanager
def _locked(thread: _Thread | None, cancellation: Cancellation) -> Iterator[None]:
    while thread and thread.is_ending():
        time.sleep(_LOOKOUT_SECONDS)
    release = thread.locks.take(thread.key, cancellation) if thread else None
    try:
        yield
    finally:
        if release:
            cancellation.when_idle(release)


@asynccontextmanager
async def _locked_async(thread: _Thread | None, cancellation: Cancellation) -> AsyncIterator[None]:
    while thread and thread.is_ending():
        await asyncio.sleep(_LOOKOUT_SECONDS)
    if thread is None or not thread.locks.waits:
        with _locked(thread, cancellation):
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


@contextmanager
def _counted(thread: _Thread | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _count(thread, error)
        raise


@asynccontextmanager
async def _counted_async(thread: _Thread | None) -> AsyncIterator[None]:
    try:
        yield
    except Exception as error:
        await asyncio.to_thread(_count, thread, error)
        raise


def _count(thread: _Thread | None, error: Exception) -> None:
    """Count in a thread what was spent on replies of no use, where its run fails over them."""
    if thread and (spent := getattr(error, "spent", None)):
        name, namespace = thread.key
        address = RunnableConfig(configurable={"thread_id": name, "checkpoint_ns": namespace})
        # Of no turn: that of this run may not have begun in the state.
        keep_write(thread.saver, address, "usage", {**spent, "turn": 0})


def _give_back(taking: "asyncio.Future[Release]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        taking.result()()


class _Received(NamedTuple):
    """What an invocation begins with, and what of it is refused when it has ended."""

    input: Any
    outdated: Collection[str] = ()
    """Ids of questions that were answered before a crash. They are asked anew instead."""
    values: Mapping[str, Any] | None = None
    """What a request came to that was sent before, and whose turn is over: nothing runs."""


def _needs_state(message: Any, thread: _Thread) -> bool:
    """Return whether the state says what an input is: an answer, or a request that may have come before."""
    is_answer = isinstance(message, Command) and message.resume is not None
    is_request = not thread.is_addressed and request_in(message) is not None
    return thread.is_root and (is_answer or is_request)


def _replayed(command: Command[Any], step: StateSnapshot) -> _Received:
    """Return an answer to a question of a step that its config names.

    LangGraph goes on with what came of the first answer, whatever a second one says. Raises
    ReplayedAnswerError.
    """
    closed = {each.id for task in step.tasks if task.result is not None for each in task.interrupts}
    is_open = [each.id for each in step.interrupts if each.id not in closed]
    named = closed.intersection(command.resume) if isinstance(command.resume, dict) else set()
    if named or (closed and not is_open):
        raise ReplayedAnswerError(step.config["configurable"]["thread_id"], sorted(named or closed), is_open)
    return _Received(command)


def _addressed(
    command: Command[Any], whole: StateSnapshot, current: StateSnapshot, config: RunnableConfig | None
) -> _Received:
    """Return an answer with the id of its question.

    LangGraph keeps an answer without one in the thread, and gives it to the next question that is asked
    after a crash, whatever that is. Its server queues a second answer (a double click) behind the first, and
    gives it to the question after: nobody has seen that one. An answer to an attempt that was cut off again
    (`whole` has its question, `current` has not) counts for nothing. Raises AnsweredError.
    """
    thread = current.config["configurable"]["thread_id"]
    is_open = [interrupt.id for interrupt in current.interrupts]
    outdated = {interrupt.id for interrupt in whole.interrupts}.difference(is_open)
    resume = command.resume
    if isinstance(resume, dict) and all(_INTERRUPT_ID.fullmatch(str(key)) for key in resume):
        if outdated.intersection(resume):
            return _Received(None, outdated.intersection(resume))
        if closed := sorted(set(resume) - set(is_open)):
            raise AnsweredError(thread, closed, is_open)
        return _Received(command)
    if outdated:
        return _Received(None, outdated)
    if not is_open:
        raise AnsweredError(thread, (), ())
    sent, asked = request_time((config or {}).get("configurable", {})), current.created_at
    if sent and asked and sent < datetime.fromisoformat(asked):
        raise EarlyAnswerError(thread, (), is_open)
    if len(is_open) > 1:
        return _Received(command)  # LangGraph says that their ids are wanted.
    of = AskedAttempt.of(current.interrupts[0].value)
    if of and of.attempt > 1 and not _rejects(resume):
        raise UnnamedAnswerError(thread, (), is_open, attempt=of.attempt)
    return _Received(replace(command, resume={is_open[0]: resume}))


def _asked_attempts(snapshot: StateSnapshot) -> dict[str, AskedAttempt]:
    return {each.id: of for each in snapshot.interrupts if (of := AskedAttempt.of(each.value))}


def _rejects(answer: Any) -> bool:
    decisions = answer.get("decisions") if isinstance(answer, dict) else None
    return isinstance(decisions, list) and all(
        isinstance(each, dict) and each.get("type") == "reject" for each in decisions
    )


def _answered(outdated: Collection[str], snapshot: StateSnapshot) -> AnsweredError:
    is_open = [interrupt.id for interrupt in snapshot.interrupts]
    return AnsweredError(snapshot.config["configurable"]["thread_id"], sorted(outdated), is_open)


def _without(snapshot: StateSnapshot, questions: Collection[str]) -> StateSnapshot:
    """Return a snapshot without these questions."""
    if not questions:
        return snapshot

    def others(interrupts: tuple[Interrupt, ...]) -> tuple[Interrupt, ...]:
        return tuple(each for each in interrupts if each.id not in questions)

    tasks = tuple(task._replace(interrupts=others(task.interrupts)) for task in snapshot.tasks)
    return snapshot._replace(interrupts=others(snapshot.interrupts), tasks=tasks)


ConfigT = TypeVar("ConfigT", RunnableConfig, RunnableConfig | None)


def _by_text(config: ConfigT) -> ConfigT:
    """Return a config that names its thread by a text, also where it was a number or a UUID.

    Some savers make a text of either, and some do not; locks, journal and audit need one name.
    """
    thread = (config or {}).get("configurable", {}).get("thread_id")
    if config is None or not isinstance(thread, int | UUID) or isinstance(thread, bool):
        return config
    return {**config, "configurable": {**config["configurable"], "thread_id": str(thread)}}


def _marked(config: RunnableConfig | None, run: str = "") -> RunnableConfig:
    """Return the config of what writes a thread: an invocation, or an update of the state."""
    whole = config or RunnableConfig()
    return {**whole, "configurable": {**whole.get("configurable", {}), INVOCATION_KEY: run}}
