"""What checkpointers are, where it matters which one it is."""

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver


def is_in_memory(saver: BaseCheckpointSaver[Any]) -> bool:
    """Tell whether threads end with this process."""
    return isinstance(saver, InMemorySaver)


def is_postgres(saver: BaseCheckpointSaver[Any]) -> bool:
    """Tell whether threads are in PostgreSQL; asked without that package, which is an extra."""
    return any(each.__module__.startswith("langgraph.checkpoint.postgres") for each in type(saver).__mro__)


def identity(saver: BaseCheckpointSaver[Any]) -> Any:
    """Return what is the same for all copies of a saver, and can be the key of a weak dictionary.

    Under strict serialisation every compiled graph has a copy of its own, over the same threads.
    """
    if isinstance(saver, InMemorySaver):
        return saver.stack
    return saver.conn if is_postgres(saver) else saver  # type: ignore[attr-defined]  # every class there has it
