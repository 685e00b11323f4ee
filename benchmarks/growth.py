"""What threads cost on SQLite, and what a long one costs to resume: `python benchmarks/growth.py`.

Prints the bytes of the database file per turn over 50 turns with 10, 100 and 1,000 skills, three of them
loaded: for plain turns (a question, an answer) and for turns with a tool call; then the CPU time that a
new process needs to read a thread of 500 turns, and to take one more turn in it. Exits with 1 over the
budgets: 22 KB a turn, and 100 ms for reading.
"""

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import CompressedSerializer

SIZES = (10, 100, 1_000)
TURNS = 50
LONG = 500
LOADED = 3
KILOBYTES_A_TURN = 22.0
MILLISECONDS_TO_READ = 100.0

QUESTION = "How many orders came in last week, and which region sold the most of them? This is turn {turn}."
ANSWER = "Last week 1,204 orders came in. The region Nord sold the most of them, 410, before Sued with 355."
SERIALIZER = CompressedSerializer()
THREAD = RunnableConfig(configurable={"thread_id": "thread"})


def main() -> int:
    """Measure, print, and compare with the budgets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", type=int, default=LONG, help="turns of the long thread")
    parser.add_argument("--tables", action="store_true", help="print also where the bytes are")
    arguments = parser.parse_args()
    worst = 0.0
    for size in SIZES:
        for tools in (False, True):
            with tempfile.TemporaryDirectory() as place:
                workspace = write_skills(Path(place), size)
                kilobytes = bytes_a_turn(workspace, tools=tools) / 1000
                worst = max(worst, kilobytes)
                kind = "with a tool call" if tools else "plain"
                print(f"{size:>5} skills, {LOADED} loaded, {kind:<16} {kilobytes:5.1f} KB a turn")
                if arguments.tables:
                    print_tables(workspace)
    with tempfile.TemporaryDirectory() as place:
        workspace = write_skills(Path(place), SIZES[0])
        read, turn = resume_cost(workspace, arguments.long)
    print(f"{arguments.long} turns: {read:.0f} ms of CPU to read the thread, {turn:.0f} ms for one more turn")
    return int(worst > KILOBYTES_A_TURN or read > MILLISECONDS_TO_READ)


def write_skills(place: Path, number: int) -> Path:
    """Write skills into a workspace: instructions of 40 lines, a script and two references each."""
    body = "\n".join(f"{line}. Read the table, check every row, and note what is odd." for line in range(40))
    for index in range(number):
        folder = place / ".agent" / "skills" / f"skill-{index:04}"
        for path, text in {
            "SKILL.md": f"---\nname: skill-{index:04}\ndescription: Checks tables of kind {index} "
            f"for what is odd, row by row, and reports it.\n---\n\n{body}\n",
            "scripts/check.py": "print('checked')\n",
            "references/rows.md": "Rows.\n",
            "references/odd.md": "Odd.\n",
        }.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    (place / "orders.csv").write_text("order,region\n" + "".join(f"{row},Nord\n" for row in range(30)))
    return place


@contextmanager
def agent(workspace: Path, *, tools: bool = False) -> Iterator[Any]:
    """Open the graph on a database of its own, with a model that needs no time."""
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    with sqlite3.connect(workspace / "threads.sqlite", check_same_thread=False) as connection:
        graph = build_graph(settings, model=ScriptedChatModel([_reply(tools=tools)] * 10_000))
        yield graph.compile(checkpointer=SqliteSaver(connection, serde=SERIALIZER))
    connection.close()


def _reply(*, tools: bool) -> Any:
    def reply(messages: Sequence[BaseMessage]) -> AIMessage | Mapping[str, Any]:
        """Answer; before it call a tool once a turn."""
        asked = max((at for at, each in enumerate(messages) if "This is turn" in str(each.text)), default=0)
        if tools and not any(each.type == "tool" for each in messages[asked:]):
            return {"content": "", "tool_calls": [{"name": "read_file", "args": {"path": "orders.csv"}}]}
        return AIMessage(ANSWER)

    return reply


def take_turns(graph: Any, turns: int) -> None:
    """Take turns in one thread; the first one loads three skills."""
    for turn in range(turns):
        asked: dict[str, Any] = {"messages": [("user", QUESTION.format(turn=turn))]}
        if turn == 0:
            asked["skills"] = [f"skill-{index:04}" for index in range(LOADED)]
        graph.invoke(asked, THREAD, durability="sync")


def bytes_a_turn(workspace: Path, *, tools: bool, turns: int = TURNS) -> float:
    """Return the bytes that a turn adds to the database file."""
    with agent(workspace, tools=tools) as graph:
        take_turns(graph, turns)
    return (workspace / "threads.sqlite").stat().st_size / turns


def resume_cost(workspace: Path, turns: int) -> tuple[float, float]:
    """Return the milliseconds of CPU to read a thread, and to take one more turn: medians of five."""
    with agent(workspace) as graph:
        take_turns(graph, turns)
    read, turn = [], []
    for _ in range(5):
        with agent(workspace) as graph:
            began = time.process_time()
            graph.get_state(THREAD)
            read.append(time.process_time() - began)
            began = time.process_time()
            graph.invoke({"messages": [("user", "And now?")]}, THREAD, durability="sync")
            turn.append(time.process_time() - began)
    return statistics.median(read) * 1000, statistics.median(turn) * 1000


def print_tables(workspace: Path) -> None:
    """Print where the bytes are: rows and bytes of each kind, most first."""
    with sqlite3.connect(workspace / "threads.sqlite") as connection:
        rows, size = connection.execute(
            "SELECT COUNT(*), SUM(LENGTH(checkpoint)) FROM checkpoints"
        ).fetchone()
        print(f"      checkpoints: {rows} rows, {size / rows:.0f} bytes each")
        saver = SqliteSaver(connection, serde=SERIALIZER)
        sizes: dict[str, int] = {}
        for found in saver.list(THREAD):
            parts = {**found.checkpoint, **found.checkpoint["channel_values"]}
            for name, value in parts.items():
                sizes[name] = sizes.get(name, 0) + len(saver.serde.dumps_typed(value)[1])
        for name, total in sorted(sizes.items(), key=lambda each: -each[1])[:12]:
            print(f"        {name:<18} {total / rows:8.0f} bytes in each")
        for name, number, total in connection.execute(
            "SELECT channel, COUNT(*), SUM(LENGTH(value)) FROM writes GROUP BY channel ORDER BY 3 DESC"
        ):
            print(f"      writes of {name}: {number} rows, {total} bytes")


if __name__ == "__main__":
    sys.exit(main())
