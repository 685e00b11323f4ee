"""What the audit adds to a turn: `python benchmarks/audit.py`.

A plain turn, and one with a skill and two tools, on SQLite with sync durability; with the record and
without, one after the other in each round. Prints medians in milliseconds and their ratios. Exits with 1
where the record costs more than 15 % of a turn's processor time; what waits for the disk (one `fdatasync`
before an effect, and at the end) is in the wall time, which depends on the machine and its load.
"""

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel, ScriptEntry
from skills_agent.graph.settings import Settings

ROUNDS = 60
WARM_UP = 5
BUDGET = 1.15

SKILL = "---\nname: alpha\ndescription: Does it.\n---\n\nDo it.\n"


def call(name: str, /, **args: Any) -> dict[str, Any]:
    """Return a call of a scripted reply."""
    return {"name": name, "args": args}


TURNS: dict[str, Sequence[ScriptEntry]] = {
    "plain": ["done"],
    "skill and two tools": [
        {"tool_calls": [call("load_skill", name="alpha")]},
        {"tool_calls": [call("list_dir"), call("write_file", path="out.txt", content="x")]},
        "done",
    ],
}

Turn = Callable[[], Any]


@contextmanager
def turn_of(folder: Path, replies: Sequence[ScriptEntry], audit: Literal["on", "off"]) -> Iterator[Turn]:
    """Return what runs one turn, each in a thread of its own."""
    (folder / ".agent" / "skills" / "alpha").mkdir(parents=True)
    (folder / ".agent" / "skills" / "alpha" / "SKILL.md").write_text(SKILL)
    settings = Settings(
        workspace=folder, home=folder, bundled_skills=False, audit=audit, require_approval_for=frozenset()
    )
    with closing(sqlite3.connect(folder / "threads.sqlite", check_same_thread=False)) as connection:
        builder = build_graph(settings, model=ScriptedChatModel(replies))
        graph = builder.compile(checkpointer=SqliteSaver(connection))
        numbers = count()

        def turn() -> None:
            asked: Any = {"messages": [HumanMessage("go")]}
            graph.invoke(asked, {"configurable": {"thread_id": f"t{next(numbers)}"}}, durability="sync")

        yield turn


class Cost(NamedTuple):
    """What one turn took, in seconds."""

    wall: float
    processor: float


def cost_of(turn: Turn) -> Cost:
    """Run one turn."""
    wall, processor = time.perf_counter(), time.process_time()
    turn()
    return Cost(time.perf_counter() - wall, time.process_time() - processor)


def main() -> int:
    """Measure, print, and compare with the budget."""
    worst = 0.0
    for name, replies in TURNS.items():
        with (
            tempfile.TemporaryDirectory() as one,
            tempfile.TemporaryDirectory() as two,
            turn_of(Path(one), replies, "on") as recorded,
            turn_of(Path(two), replies, "off") as bare,
        ):
            pairs = [(cost_of(recorded), cost_of(bare)) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
        for kind in ("wall", "processor"):
            with_it = 1_000 * statistics.median(getattr(each, kind) for each, _ in pairs)
            without = 1_000 * statistics.median(getattr(each, kind) for _, each in pairs)
            ratio = with_it / without
            print(f"{name:<20} {kind:<10} {with_it:6.2f} ms with, {without:6.2f} without: {ratio:.3f} times")
        worst = max(worst, ratio)
    print(f"{ROUNDS} turns each, a new thread a turn; budget {BUDGET} times of processor time")
    return int(worst > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
