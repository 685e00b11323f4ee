"""What a turn costs as its thread grows: `python benchmarks/long_threads.py [--turns N] [--client-turns N]`.

Two tables of CPU a turn (of all threads of the process), as ratios to the bare graph of two nodes that
`turn.py` compares with. All agents run the same turns on SQLite, one turn each in rotation, because the
machine may be busy; a figure is the median of the turns about the one that is named.

- growth: to turn 480, with a model that answers at once.
- client: to turn 100, with langchain-openai against a server on loopback in a process of its own; beside
  `create_agent` with SkillsMiddleware and `create_deep_agent(skills=...)`.

Exits with 1 where this project's ratio is over its goal.
"""

import argparse
import gc
import multiprocessing
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import turn
from langgraph.checkpoint.sqlite import SqliteSaver
from sessions import KEY, model_server

GOALS = {"growth": {480: 1.3}, "client": {3: 1.5, 50: 1.3, 100: 1.3}}
"""Of this project to the bare graph, by table and turn."""
QUESTION = "I am {}. How many orders came in last week, and which region sold the most of them?"
OURS, BARE = "skills-agent", "bare graph"

Table = Literal["growth", "client"]


class Thread:
    """One thread of one agent, and what each of its turns cost."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._config: Any = {"configurable": {"thread_id": "long"}}
        self.costs: list[float] = []

    def turn(self) -> None:
        """Run the next turn."""
        asked = {"messages": [("user", QUESTION.format(len(self.costs)))]}
        gc.collect()
        began = time.process_time()
        result = self._agent.invoke(asked, self._config)
        self.costs.append(time.process_time() - began)
        assert len(result["messages"]) == 2 * len(self.costs), len(result["messages"])

    def cost_at(self, number: int) -> float:
        """Return the median of the turns about one, in milliseconds."""
        spread = number // 20 or number // 2
        return 1000 * statistics.median(self.costs[max(0, number - 1 - spread) : number + spread])


def measure(table: Table, makers: dict[str, Any], turns: int, places: Sequence[int], place: Path) -> bool:
    """Run all threads to so many turns and print what they cost; True where a goal is missed."""
    folder = turn.write_skills(place / f"{table}-skills", 10)
    threads: dict[str, Thread] = {}
    for index, (name, make) in enumerate(makers.items()):
        connection = sqlite3.connect(place / f"{table}-{index}.sqlite", check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        threads[name] = Thread(make("plain", folder, SqliteSaver(connection)))
        # Imports, connections and caches are not those of the thread.
        make("plain", folder, SqliteSaver(connection)).invoke(
            {"messages": [("user", QUESTION.format("first"))]}, {"configurable": {"thread_id": "before"}}
        )
    for _ in range(turns):
        for thread in threads.values():
            thread.turn()
    return tell(table, threads, places)


def tell(table: Table, threads: dict[str, Thread], places: Sequence[int]) -> bool:
    """Print one table; True where a goal is missed."""
    heads = [f"turn {number}" for number in places]
    print(f"\n| {table}: CPU, ms (ratio) | {' | '.join(heads)} |\n|---|{'---:|' * len(places)}", flush=True)
    base = {number: threads[BARE].cost_at(number) for number in places}
    for name, thread in threads.items():
        costs = {number: thread.cost_at(number) for number in places}
        cells = [f"{cost:.1f} ({cost / base[number]:.2f})" for number, cost in costs.items()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    ratios = {number: threads[OURS].cost_at(number) / base[number] for number in places}
    missed = {number: goal for number, goal in GOALS[table].items() if ratios.get(number, 0) > goal}
    print(f"\ngoals {GOALS[table]}; missed: {sorted(missed) or 'none'}")
    return bool(missed)


def serve(sender: "Connection[str, str]") -> None:
    """Serve the model until the process is ended."""
    with model_server(0) as url:
        sender.send(url)
        time.sleep(3600)


@contextmanager
def server() -> Iterator[str]:
    """Serve the model in a process of its own: its CPU is not the agents'."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(sender,), daemon=True)
    process.start()
    try:
        yield receiver.recv()
    finally:
        process.terminate()
        process.join()


def over_http(make: Any) -> Any:
    """Return a maker of the same agent with OpenAI's client."""

    def made(kind: str, folder: Path, saver: Any) -> Any:
        return make(kind, folder, saver, model=_client())

    return made


def _client() -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="loopback", use_responses_api=False)


def main() -> int:
    """Measure, print, and compare with the goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=504, help="of the growth; 0: none")
    parser.add_argument("--client-turns", type=int, default=105, help="with the client; 0: none")
    parser.add_argument("--others", action="store_true", help="deepagents, too")
    chosen = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_STATE_HOME"] = f"{place}/state"
        makers: dict[str, Any] = {BARE: turn.bare, OURS: turn.ours}
        if chosen.turns:
            places = [number for number in (1, 2, 3, 5, 50, 240, 480) if 1.05 * number <= chosen.turns]
            missed |= measure("growth", makers, chosen.turns, places, Path(place))
        if chosen.others:
            makers |= {
                "create_agent + SkillsMiddleware": turn.with_middleware,
                "create_deep_agent(skills=...)": turn.deep_agent,
            }
        if chosen.client_turns:
            with server() as url:
                os.environ |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}
                places = [number for number in (1, 3, 50, 100) if 1.05 * number <= chosen.client_turns]
                clients = {name: over_http(make) for name, make in makers.items()}
                missed |= measure("client", clients, chosen.client_turns, places, Path(place))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
