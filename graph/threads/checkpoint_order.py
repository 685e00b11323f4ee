"""The order of checkpoints: every checkpoint comes after those that its thread has, whatever the clock says.

LangGraph makes the id of a checkpoint of the wall clock, and the newest id is where a thread stands. After a
step back of the clock, or on a machine whose clock is late, what was said would be in no transcript.
"""

from functools import cache
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from typing_extensions import override

from skills_agent.graph.langgraph_inside import order_ids_after
from skills_agent.graph.threads.errors import ThreadError


def ordered(saver: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """Return a copy of a saver, over the same threads, for an invocation that writes.

    LangGraph reads the newest checkpoint of a thread, and of each graph inside it, before it writes one: with
    that read the ids that follow are made greater. The thread is locked by then, so this holds for several
    machines, too. Raises ThreadError where no greater id can be made.
    """
    # A host's class may have bases with which Python lets nobody change the class of an object.
    kind: Any = type(saver)
    made: Any = object.__new__(_ordered_class(kind))
    made.__dict__.update(vars(saver), places=set())
    return cast("BaseCheckpointSaver[Any]", made)


class _Ordered(BaseCheckpointSaver[Any]):
    """Mixed into the class of a saver, before it."""

    places: set[tuple[Any, Any]]
    """Threads and namespaces whose newest checkpoint was read."""

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        read = super().get_tuple(config)
        if read and self._is_first(config):  # There may be newer ones.
            _noted(super().get_tuple(newest_of(config)))
        return _noted(read)

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        read = await super().aget_tuple(config)
        if read and self._is_first(config):
            _noted(await super().aget_tuple(newest_of(config)))
        return _noted(read)

    def _is_first(self, config: RunnableConfig) -> bool:
        """Return whether an earlier checkpoint of a place is read before its newest one."""
        place = config["configurable"]
        key = (place.get("thread_id"), place.get("checkpoint_ns"))
        is_first = key not in self.places and bool(place.get("checkpoint_id"))
        self.places.add(key)
        return is_first

    @override
    def put(self, config: RunnableConfig, checkpoint: Checkpoint, *rest: Any) -> RunnableConfig:
        _check_order(config, checkpoint)
        return super().put(config, checkpoint, *rest)

    @override
    async def aput(self, config: RunnableConfig, checkpoint: Checkpoint, *rest: Any) -> RunnableConfig:
        _check_order(config, checkpoint)
        return await super().aput(config, checkpoint, *rest)


@cache
def _ordered_class(kind: type[Any]) -> type[Any]:
    return kind if issubclass(kind, _Ordered) else type(f"Ordered{kind.__name__}", (_Ordered, kind), {})


def newest_of(config: RunnableConfig) -> RunnableConfig:
    """Return a config of where its thread stands, whatever checkpoint it names."""
    place = {key: value for key, value in config.get("configurable", {}).items() if key != "checkpoint_id"}
    return {**config, "configurable": place}


def _out_of_order(thread: object, checkpoint: str) -> ThreadError:
    return ThreadError(
        f"Thread {str(thread)!r} cannot go on: its newest checkpoint ({checkpoint}) is from a time that no "
        "clock reaches, or the clock of this machine is. Set the clock, or use another thread.",
        code="checkpoint-order",
    )


def _noted(read: CheckpointTuple | None) -> CheckpointTuple | None:
    if read and not order_ids_after(read.checkpoint["id"]):
        raise _out_of_order(read.config["configurable"]["thread_id"], read.checkpoint["id"])
    return read


def _check_order(config: RunnableConfig, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that would be older than the one before it: nobody would ever read it."""
    place = config["configurable"]
    before = place.get("checkpoint_id") or ""
    if checkpoint["id"] < before:
        raise _out_of_order(place["thread_id"], before)
