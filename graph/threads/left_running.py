"""What tools leave running when they return: it goes on while their run does, and ends with it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Keeper(Protocol):
    """Who starts such things for the tools of an extra."""

    def has_of(self, run: str) -> bool:
        """Return whether some of a run have not ended."""

    def leave(self, run: str) -> None:
        """Let those of a run go on until a later one of their thread takes them."""

    def take(self, thread: str, run: str) -> None:
        """Give a run those that an earlier one of the thread left."""

    def end(self, run: str, seconds: float) -> Sequence[Mapping[str, Any]]:
        """End those of a run, wait so long for them, and return what clients are told of their ends."""


END_SECONDS = 10.0
"""How long the end of things is waited for; as long as the end of every process is."""
