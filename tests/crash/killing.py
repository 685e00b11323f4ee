"""Kill points around every write of a journal and of a checkpointer."""

import asyncio
import time
from typing import Any, cast

from skills_agent.nodes.effects import JournalEntry
from tests.crash.points import Points


class KillingJournal:
    """Kill points around every write of a journal."""

    points: Points

    def put(self, entry: JournalEntry, **how: Any) -> None:
        with self.points.around(f"journal {entry.status}"):
            cast("Any", super()).put(entry, **how)


SLOW = 0.04
"""Seconds that a checkpoint takes where durability is `async`: the steps run ahead of what is stored, as they
do on a slow disk, and what a kill then loses is more than the last step."""


class Killing:
    """Kill points around every write of a checkpointer."""

    points: Points
    is_slow: bool

    def put(self, *args: Any) -> Any:
        with self.points.around("put"):
            time.sleep(SLOW * self.is_slow)
            return cast("Any", super()).put(*args)

    def put_writes(self, *args: Any) -> None:
        with self.points.around("put_writes"):
            cast("Any", super()).put_writes(*args)


class AsyncKilling:
    points: Points
    is_slow: bool

    async def aput(self, *args: Any) -> Any:
        with self.points.around("put"):
            await asyncio.sleep(SLOW * self.is_slow)
            return await cast("Any", super()).aput(*args)

    async def aput_writes(self, *args: Any) -> None:
        with self.points.around("put_writes"):
            await cast("Any", super()).aput_writes(*args)
