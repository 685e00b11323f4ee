"""The invocations of this process that are under way."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langgraph.config import get_config

from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.effects import INVOCATION_KEY, AttemptKey, Invocation, JournalEntry


class Invocations(dict[str, Invocation]):
    """The invocations of this process whose thread is kept, by id, as long as anything of them is under way.

    Beside them, for all invocations: their cancellations; and the effects that run now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cancellations: dict[str, Cancellation] = {}
        self._effects: set[AttemptKey] = set()
        self.left: set[AttemptKey] = set()
        """Effects that were given up at their time limit, and have not returned."""

    @property
    def alive(self) -> frozenset[str]:
        """Return the ids of those that nobody has cancelled."""
        return frozenset(run for run, each in self.copy().items() if not each.cancellation.is_requested)

    @property
    def effects(self) -> frozenset[AttemptKey]:
        """Return the effects that run now in this process."""
        return frozenset(self._effects.copy())

    def has_left(self, thread: str, digest: str) -> bool:
        """Return whether an effect of a thread was given up and still runs."""
        return any((each.thread, each.digest) == (thread, digest) for each in self.left.copy())

    @contextmanager
    def effect(self, entry: JournalEntry) -> Iterator[None]:
        """Count an effect as running in the block."""
        self._effects.add(entry.attempt_key)
        try:
            yield
        finally:
            self._effects.discard(entry.attempt_key)

    def begin(self, run: str, invocation: Invocation | None, cancellation: Cancellation) -> None:
        """Take an invocation in; None where its thread is not kept."""
        self.cancellations[run] = cancellation
        if invocation is not None:
            self[run] = invocation

    def end(self, run: str) -> None:
        """Forget an invocation of which nothing is under way any more."""
        self.cancellations.pop(run, None)
        self.pop(run, None)

    def cancellation(self) -> Cancellation:
        """Return that of the invocation that the calling node, or tool, is part of."""
        return self.cancellations.get(_invocation_id()) or Cancellation()

    def around(self, configurable: Mapping[str, Any]) -> Cancellation | None:
        """Return that of the invocation whose node makes one with such a config; None for the outermost."""
        return self.cancellations.get(str(configurable.get(INVOCATION_KEY, "")))

    def current(self) -> Invocation | None:
        """Return the invocation that the calling node is part of; None where its thread is not kept."""
        return self.get(_invocation_id())


def _invocation_id() -> str:
    try:
        config = get_config()
    except RuntimeError:  # outside of any graph
        return ""
    return str(config.get("configurable", {}).get(INVOCATION_KEY, ""))
