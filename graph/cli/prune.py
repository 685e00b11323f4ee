"""Remove old threads, and old steps of a thread."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.threads.database import compact, config_of, delete_steps
from skills_agent.graph.threads.errors import AgeError, ThreadError, UnfinishedError
from skills_agent.graph.threads.fork import whole_checkpoint
from skills_agent.graph.threads.history import Archive, ThreadLine, status_of
from skills_agent.graph.threads.steps import read_chain, read_steps

_AGE = re.compile(r"(?P<number>[1-9]\d{0,5})(?P<unit>[hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class Pruned(NamedTuple):
    """What was removed, or would be."""

    threads: tuple[str, ...]
    kept_open: tuple[str, ...]
    """Threads that would have gone, but wait for a person, were cut off, or run now."""
    steps: int = 0
    """Steps that went of one thread."""
    freed: int = 0
    """Bytes by which the database file shrank."""

    def as_json(self) -> dict[str, Any]:
        """Return it for a machine."""
        return self._asdict()


def parse_age(text: str) -> timedelta:
    """Return a duration such as 12h, 30d or 8w; raises AgeError."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise AgeError(text)
    return int(found["number"]) * _UNITS[found["unit"]]


def choose_threads(
    lines: Sequence[ThreadLine], keep: int | None, older_than: timedelta | None, now: datetime
) -> Pruned:
    """Return which threads go: beyond the `keep` newest, and older than that; with both, what is both.

    `lines` are newest first. Threads that are not done stay, whatever their age.
    """
    chosen = [
        line
        for place, line in enumerate(lines)
        if (keep is None or place >= keep) and (older_than is None or _moved(line, now) < now - older_than)
    ]
    return Pruned(
        tuple(line.thread for line in chosen if line.status == "done"),
        tuple(line.thread for line in chosen if line.status != "done"),
    )


def _moved(line: ThreadLine, now: datetime) -> datetime:
    """Return when a thread moved last; one whose time is unknown moved now."""
    return datetime.fromisoformat(line.when).astimezone(UTC) if line.when else now


def delete_threads(archive: Archive, threads: Collection[str]) -> int:
    """Delete threads whole, and give their room back; returns the bytes by which the file shrank."""
    for thread in threads:
        with archive.runs.held(config_of(thread)):
            # In this order: a thread without its journal would repeat effects, entries without a thread only
            # take room.
            archive.saver.delete_thread(thread)
            archive.journal.forget(thread)
    return compact(archive.saver) if threads else 0


def steps_beyond(archive: Archive, thread: str, keep: int) -> int:
    """Return how many steps of a thread are beyond its `keep` newest.

    Raises UnknownThreadError, and ThreadError for a thread that was cut off or runs now.
    """
    if not isinstance(archive.saver, SqliteSaver):
        raise ThreadError(
            "Steps can be removed in a database file only. Whole threads: threads prune --keep N"
        )
    if status_of(archive.existing(thread)) == "unfinished":
        raise UnfinishedError(thread)
    return max(len(read_steps(archive, thread)) - keep, 0)


def delete_old_steps(archive: Archive, thread: str, keep: int) -> int:
    """Delete all but the `keep` newest steps of a thread; returns the bytes by which the file shrank.

    The oldest step that stays is stored whole first: delta channels are read from what came before.
    """
    assert isinstance(archive.saver, SqliteSaver)  # noqa: S101 - steps_beyond refuses others
    with archive.runs.held(config_of(thread)):
        _delete_old_steps(archive.saver, archive, thread, keep)
    return compact(archive.saver)


def _delete_old_steps(saver: SqliteSaver, archive: Archive, thread: str, keep: int) -> None:
    oldest = read_steps(archive, thread)[-keep:][0].checkpoint
    chain = read_chain(archive, thread)
    (place,) = [index for index, each in enumerate(chain) if each.checkpoint["id"] == oldest]
    found = chain[place]
    values = archive.runs.get_state(found.config).values
    checkpoint = whole_checkpoint(archive, found, values)
    metadata: Any = {
        key: value for key, value in found.metadata.items() if key != "counters_since_delta_snapshot"
    }
    place_of = RunnableConfig(configurable={"thread_id": thread, "checkpoint_ns": ""})
    saver.put(place_of, checkpoint, metadata, checkpoint["channel_versions"])
    kept = [each.checkpoint["id"] for each in chain[place:]]
    delete_steps(saver, thread, kept)
    archive.journal.forget(thread, kept=kept)
