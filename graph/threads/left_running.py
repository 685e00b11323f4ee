"""What tools leave running when they return: it goes on while their run does, and ends with it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Running(Protocol):
    """Something that runs on in the background."""

    @property
    def record(self) -> Mapping[str, Any] | None:
        """Return what clients are told of its end."""


class Keeper(Protocol):
    """Who starts such things for the tools of an extra."""

    def of_run(self, run: str) -> Sequence[Running]:
        """Return those of a run that have not ended."""

    def leave(self, run: str) -> None:
        """Let those of a run go on until a later one of their thread takes them."""

    def take(self, thread: str, run: str) -> None:
        """Give a run those that an earlier one of the thread left."""

    def end(self, run: str, seconds: float) -> Sequence[Running]:
        """End those of a run, wait so long for them, and return them."""


END_SECONDS = 10.0
"""How long the end of things is waited for; as long as the end of every process is."""


class LeftRunning:
    """All that tools left running."""

    def __init__(self) -> None:
        self._keepers: list[Keeper] = []

    def join(self, keeper: Keeper) -> None:
        """Ask this one, too, from now on."""
        self._keepers.append(keeper)

    def of_run(self, run: str) -> list[Running]:
        """Return what a run left, and has not ended."""
        return [each for keeper in self._keepers for each in keeper.of_run(run)]

    def leave(self, run: str) -> None:
        """Let it go on until a later run of the thread takes it."""
        for keeper in self._keepers:
            keeper.leave(run)

    def take(self, thread: str, run: str) -> None:
        """Give a run what an earlier one of the thread left."""
        for keeper in self._keepers:
            keeper.take(thread, run)

    def end(self, run: str, seconds: float = END_SECONDS) -> list[Running]:
        """End what a run left, wait so long for it, and return it."""
        return [each for keeper in self._keepers for each in keeper.end(run, seconds)]
