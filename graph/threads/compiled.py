"""The compiled graph: LangGraph's, with one invocation of a thread at a time, and a journal.

In LangGraph two invocations of one thread lose a turn, and two answers to one question run a call twice.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.types import Checkpointer, StateSnapshot, StateUpdate
from typing_extensions import override

from skills_agent.graph.langgraph_inside import (
    PARENT_TASK,
    CompiledGraphHooks,
    is_kept,
    keep_write,
    merged_config,
)
from skills_agent.graph.response_format import ResponseFormat, with_channel
from skills_agent.graph.serialisation import strict_saver
from skills_agent.graph.threads.backends import ThreadServices
from skills_agent.graph.threads.checkpoint_order import newest_of, ordered
from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.inputs import Supersteps, believed_updates, check_updates, read_input
from skills_agent.graph.threads.left_running import END_SECONDS
from skills_agent.graph.threads.received import answered, asked_attempts, current, needs_state, receive
from skills_agent.graph.threads.thread import (
    Thread,
    ThreadStatus,
    count_spent,
    keep_revoked,
    locked,
    locked_async,
    status_of,
)
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.effects import INVOCATION_KEY, Invocation
from skills_agent.nodes.interrupts import UNANSWERABLE
from skills_agent.nodes.model_call import AGENT_NAME
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentInput, AgentOutput, AgentState

OWN_NAME: Final = "skills-agent"
_UNNAMED: Final = frozenset({"LangGraph", OWN_NAME})
"""The names of a graph that no host named: LangGraph's, and that of our own program and server."""


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

        Raises ThreadError for a config that names no thread: LangGraph looks only for any key.
        """
        configurable = config.get("configurable", {})
        if not isinstance(thread := configurable.get("thread_id"), str):
            given = "none" if thread is None else f"{thread!r}, which is no text"
            raise ThreadError(
                "The graph has a checkpointer, so each run names its thread by a text: graph.invoke(..., "
                f'{{"configurable": {{"thread_id": "1"}}}}). Given: {given}.',
                code="thread-id-missing",
            )
        made = strict_saver(saver, self.services.allowed_types, thread)
        return ordered(made) if INVOCATION_KEY in configurable else made

    @override
    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        config = _by_text(config)
        whole, thread = self._whole(config), self._thread(config)
        cancellation = Cancellation(self._around(whole))
        input = read_input(input, is_inner=PARENT_TASK in whole["configurable"])  # noqa: A001 - LangGraph's name
        if before_turn := self.services.before_turn:
            before_turn()
        run = secrets.token_hex(8)
        with locked(thread, cancellation), self._invoked(run, thread, cancellation) as invocation:
            state = super().get_state(whole) if thread and needs_state(input, thread) else None
            received = receive(input, state, thread, whole)
            if received.values is not None:
                yield from _values_parts(self, received.values, options)
                return
            stream = super().stream(received.input, **self._marked(config, run, thread, options))
            try:
                with closing(cast("Generator[Any]", stream)) as parts:
                    for part in parts:
                        try:
                            yield part
                        except GeneratorExit:
                            cancellation.request()  # LangGraph waits for what runs in threads.
                            raise
            except Exception as error:
                count_spent(thread, error)
                raise
            yield from self._end(run, invocation, thread, config, options)
            if received.outdated:
                raise answered(received.outdated, self.get_state(config or {}))

    @override
    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        config = _by_text(config)
        whole, thread = self._whole(config), self._thread(config)
        cancellation = Cancellation(self._around(whole))
        input = read_input(input, is_inner=PARENT_TASK in whole["configurable"])  # noqa: A001 - LangGraph's name
        if before_turn := self.services.before_turn:
            await asyncio.to_thread(before_turn)
        run = secrets.token_hex(8)
        async with locked_async(thread, cancellation):
            with self._invoked(run, thread, cancellation) as invocation:
                needs = thread and needs_state(input, thread)
                state = await super().aget_state(whole) if needs else None
                received = await cancellation.in_thread(receive, input, state, thread, whole)
                if received.values is not None:
                    for part in _values_parts(self, received.values, options):
                        yield part
                    return
                stream = super().astream(received.input, **self._marked(config, run, thread, options))
                try:
                    # Closed here and now: an invocation that its caller left must not go on without its lock.
                    async with aclosing(cast("AsyncGenerator[Any]", stream)) as parts:
                        async for part in parts:
                            yield part
                except Exception as error:
                    await asyncio.to_thread(count_spent, thread, error)
                    raise
                for part in await cancellation.in_thread(self._end, run, invocation, thread, config, options):
                    yield part
                if received.outdated:
                    raise answered(received.outdated, await self.aget_state(config or {}))

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
        if not asked_attempts(snapshot):
            return snapshot
        return await asyncio.to_thread(self._current, snapshot, config)

    @override
    def get_state_history(self, config: RunnableConfig, **options: Any) -> Iterator[StateSnapshot]:
        return super().get_state_history(_by_text(config), **options)

    @override
    def aget_state_history(self, config: RunnableConfig, **options: Any) -> AsyncIterator[StateSnapshot]:
        return super().aget_state_history(_by_text(config), **options)

    @override
    def bulk_update_state(self, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
        check_updates(supersteps)
        return self._update_state(config, partial(believed_updates, supersteps))

    def update_own_state(self, config: RunnableConfig, values: Mapping[str, Any], as_node: str) -> None:
        """Update the state in the name of the agent: any channel, where `update_state` takes a client's."""
        self._update_state(config, lambda _: [[StateUpdate(dict(values), as_node)]])

    def update_beside(self, config: RunnableConfig, values: Mapping[str, Any]) -> None:
        """Update the state in the name of the agent, and leave open what is asked, or was cut off.

        Another update would drop the question, and run again what runs beside it.
        """
        thread = self._thread(config)
        assert thread is not None  # noqa: S101 - there is something to be updated
        with locked(thread, Cancellation()):
            for channel, value in values.items():
                keep_write(thread.saver, config, channel, value)
        update = StateUpdate(dict(values))
        self.services.audit.record_update(thread.key.thread, self.get_state(config), [update])

    def _update_state(
        self, config: RunnableConfig, updates: Callable[[StateSnapshot], Supersteps]
    ) -> RunnableConfig:
        """Update the state by what `updates` makes of it as it stands."""
        thread = self._thread(config := _by_text(config))
        with locked(thread, Cancellation()):
            before = self.get_state(config)
            updated = super().bulk_update_state(_marked(config), supersteps := updates(before))
            if thread and thread.is_outermost:
                self._finish_update(thread, before, self.get_state(updated), supersteps)
            return updated

    @override
    async def abulk_update_state(self, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
        check_updates(supersteps)
        thread = self._thread(config := _by_text(config))
        async with locked_async(thread, Cancellation()):
            before = await self.aget_state(config)
            supersteps = believed_updates(supersteps, before)
            updated = await super().abulk_update_state(_marked(config), supersteps)
            if thread and thread.is_outermost:
                after = await self.aget_state(updated)
                await asyncio.to_thread(self._finish_update, thread, before, after, supersteps)
            return updated

    def _current(self, snapshot: StateSnapshot, config: RunnableConfig | None) -> StateSnapshot:
        return current(snapshot, self._thread(config)) if asked_attempts(snapshot) else snapshot

    def locked(self, config: RunnableConfig) -> AbstractContextManager[None]:
        """Return a context in which nobody else can run a thread. Raises ThreadBusyError."""
        return locked(self._thread(_by_text(config)), Cancellation())

    def _around(self, whole: RunnableConfig) -> Cancellation | None:
        """Return the cancellation of the invocation whose node makes this one; None for the outermost."""
        configurable = whole["configurable"]
        return self.services.invocations.around(configurable) if PARENT_TASK in configurable else None

    def _whole(self, config: RunnableConfig | None) -> RunnableConfig:
        return merged_config(self.config, config)

    def _marked(
        self, config: RunnableConfig | None, run: str, thread: Thread | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the options of an invocation, with what its nodes have to know of it."""
        marked, whole = _marked(config, run), self._whole(config)
        marked["configurable"][UNANSWERABLE] = not (thread or is_kept(self, whole))
        marked["configurable"][AGENT_NAME] = "" if self.name in _UNNAMED else self.name
        # What is around the agent has names of its own.
        configurable = {} if PARENT_TASK in whole["configurable"] else whole["configurable"]
        return {**options, "config": marked, "context": Context.joined(options.get("context"), configurable)}

    def _thread(self, config: RunnableConfig | None) -> Thread | None:
        return Thread.of(self, self._whole(config), self.services)

    @contextmanager
    def _invoked(
        self, run: str, thread: Thread | None, cancellation: Cancellation
    ) -> Iterator[Invocation | None]:
        """Note an invocation while it lasts, and return what its nodes know of it; None without a thread."""
        running = self.services.invocations
        invocation = thread.invocation(run, cancellation) if thread else None
        running.begin(run, invocation, cancellation)
        keepers = self.services.left_running
        if thread and thread.is_outermost:
            for keeper in keepers:
                keeper.take(thread.key.thread, run)
        try:
            yield invocation
        finally:
            cancellation.request()
            for keeper in keepers:
                keeper.end(run, 0)  # However the run ended; at a question, it has left them.
            cancellation.when_idle(lambda: running.end(run))

    def _end(
        self,
        run: str,
        invocation: Invocation | None,
        thread: Thread | None,
        config: RunnableConfig | None,
        options: Mapping[str, Any],
    ) -> list[Any]:
        """End what an invocation left in the background, but for a question, and settle what it did.

        Returns what is told of that.
        """
        keepers = [keeper for keeper in self.services.left_running if keeper.has_of(run)]
        if keepers and _status(self, thread, config) == "waiting":
            for keeper in keepers:
                keeper.leave(run)
        records = [record for keeper in keepers for record in keeper.end(run, END_SECONDS)]
        if invocation:
            around = self.services.invocations.current() if thread and thread.fork else None
            invocation.settle(lambda: _status(self, thread, config) == "done", around)
        return [part for record in records for part in _parts_of(self, "custom", record, options)]

    def _finish_update(
        self, thread: Thread, before: StateSnapshot, after: StateSnapshot, supersteps: Supersteps
    ) -> None:
        keep_revoked(thread, before, after)
        updates = [update for superstep in supersteps for update in superstep]
        self.services.audit.record_update(thread.key.thread, after, updates)


class AgentGraph(StateGraph[AgentState, Context, AgentInput, AgentOutput]):
    """The agent, ready to be compiled."""

    def __init__(self, services: ThreadServices, response_format: ResponseFormat | None = None) -> None:
        """Begin without nodes, with the declared schemas."""
        state, output = AgentState, AgentOutput
        if response_format is not None:
            state, output = with_channel(state, response_format), with_channel(output, response_format)
        super().__init__(state, Context, input_schema=AgentInput, output_schema=output)
        self.services = services

    @override
    def compile(self, checkpointer: Checkpointer = None, **options: Any) -> CompiledAgent:
        compiled: Any = super().compile(checkpointer, **options)
        compiled.__class__ = CompiledAgent  # LangGraph makes no other class than its own.
        compiled.services = self.services
        return cast("CompiledAgent", compiled)


def _status(
    graph: CompiledAgent, thread: Thread | None, config: RunnableConfig | None
) -> ThreadStatus | None:
    """Return how a thread stands; None where nobody can tell."""
    if thread is None or not thread.is_outermost:
        return None
    return status_of(graph.get_state(newest_of(config or RunnableConfig())))


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


def _values_parts(graph: CompiledAgent, values: Mapping[str, Any], options: Mapping[str, Any]) -> list[Any]:
    """Return what is yielded of a state where nothing runs."""
    keys = options.get("output_keys") or graph.stream_channels_asis
    chosen = (
        values.get(keys) if isinstance(keys, str) else {key: values[key] for key in keys if key in values}
    )
    return _parts_of(graph, "values", chosen, options)


def _parts_of(
    graph: CompiledAgent, mode: Literal["values", "custom"], content: object, options: Mapping[str, Any]
) -> list[Any]:
    """Return what is yielded of something that no step of the graph tells, as the options of a stream ask.

    The forms are LangGraph's documented ones: by mode, with subgraphs, version 2.
    """
    modes = options.get("stream_mode") or graph.stream_mode
    if mode not in ([modes] if isinstance(modes, str) else modes):
        return []
    if options.get("version") == "v2":
        more = {"interrupts": ()} if mode == "values" else {}
        return [{"type": mode, "ns": (), "data": content, **more}]
    head: tuple[Any, ...] = ((),) if options.get("subgraphs") else ()
    head = (*head, mode) if isinstance(modes, list) else head
    return [(*head, content) if head else content]
