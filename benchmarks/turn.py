"""What a turn costs besides the model: `python benchmarks/turn.py [--rounds N] [--others]`.

Two kinds of turns, with a model that answers at once and a SQLite file:

- plain: one model call.
- skill: three model calls; the first asks for a skill, the second for a tool, the third answers.

They are run by this project's graph with 10 and with 1,000 skills, and by a bare graph of two nodes (model,
tools) that stores its messages as deltas; with `--others` by `create_deep_agent(skills=...)`, and by
`create_agent` with SkillsMiddleware, too. A turn is the first of a new thread; each agent has its own file.
Rounds are interleaved: the machine may be busy. Prints medians of CPU (of all threads) and of wall time, as
ratios to the bare graph. Exits with 1 where a ratio is over its aim. Then: what the snapshot of a skill
costs in such a turn.
"""

import argparse
import gc
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from typing_extensions import TypedDict, override

from skills_agent.graph import Settings, build_graph
from skills_agent.skills.library.snapshots import SnapshotStore
from skills_agent.skills.sources import DirectorySource
from skills_agent.state.reducers import merge_messages

AIMS = {"plain": 1.8, "skill": 1.5}
"""Of this project with 10 skills, to the bare graph."""
AIM_OF_MANY = 1.1
"""Of this project with 1,000 skills, to itself with 10."""
WANTED = "skill-7"


class Playing(BaseChatModel):
    """Plays its steps: the n-th message of a turn is the n-th step."""

    steps: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "playing"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        # As the models of providers do.
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools])

    @override
    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        done = sum(isinstance(message, ToolMessage) for message in messages)
        message = self.steps[done].model_copy(update={"id": None})
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def count_rows(path: str) -> str:
    """Count the rows of a table."""
    return f"{path} has 120 rows."


count_rows.metadata = {"risk": "read"}


def steps(kind: str, first: str, args: dict[str, Any]) -> list[AIMessage]:
    """Return what the model says in a turn; `first` is the tool that brings a skill's instructions."""
    answer = AIMessage("There are 120 rows.")
    if kind == "plain":
        return [answer]
    calls = [(first, args, "call-1"), ("count_rows", {"path": "orders.csv"}, "call-2")]
    asked = [
        AIMessage("", tool_calls=[{"name": name, "args": given, "id": id_, "type": "tool_call"}])
        for name, given, id_ in calls
    ]
    return [*asked, answer]


class BareState(TypedDict):
    """The state of the bare graph."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages)]


def bare(kind: str, folder: Path, saver: BaseCheckpointSaver[Any], model: BaseChatModel | None = None) -> Any:
    """Return a graph of two nodes: the model, and its tools."""

    @tool
    def load_skill(name: str) -> str:
        """Load a skill's instructions."""
        return (folder / name / "SKILL.md").read_text()

    tools: list[BaseTool] = [load_skill, count_rows]
    chosen = (model or Playing(steps=steps(kind, "load_skill", {"name": WANTED}))).bind_tools(tools)
    system = SystemMessage("You are a careful assistant that works with tools.")

    def ask(state: BareState) -> dict[str, Any]:
        return {"messages": [chosen.invoke([system, *state["messages"]])]}

    graph: Any = StateGraph(BareState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def ours(kind: str, folder: Path, saver: BaseCheckpointSaver[Any], model: BaseChatModel | None = None) -> Any:
    """Return this project's agent."""
    model = model or Playing(steps=steps(kind, "load_skill", {"name": WANTED}))
    # Not among the skills: the record of each run would be a change of their folder.
    workspace = folder.with_name(f"{folder.name}-workspace")
    workspace.mkdir(exist_ok=True)
    settings = Settings(workspace=workspace, home=workspace)
    graph = build_graph(
        settings, model=model, tools=[count_rows], sources=[DirectorySource(folder, "folder")]
    )
    return graph.compile(checkpointer=saver)


def deep_agent(
    kind: str, folder: Path, saver: BaseCheckpointSaver[Any], model: BaseChatModel | None = None
) -> Any:
    """Return deepagents' own agent with the skills; it reads them with its read_file."""
    from deepagents import create_deep_agent
    from deepagents.backends import FilesystemBackend

    model = model or Playing(steps=steps(kind, "read_file", {"file_path": f"/{WANTED}/SKILL.md"}))
    backend = FilesystemBackend(root_dir=folder, virtual_mode=True)
    return create_deep_agent(model, tools=[count_rows], skills=["/"], backend=backend, checkpointer=saver)


def with_middleware(
    kind: str, folder: Path, saver: BaseCheckpointSaver[Any], model: BaseChatModel | None = None
) -> Any:
    """Return langchain's agent with deepagents' SkillsMiddleware, and a tool that reads a skill."""
    from deepagents.backends import FilesystemBackend
    from deepagents.middleware.skills import SkillsMiddleware
    from langchain.agents import create_agent

    @tool
    def read_file(file_path: str) -> str:
        """Read a file."""
        return (folder / file_path.lstrip("/")).read_text()

    model = model or Playing(steps=steps(kind, "read_file", {"file_path": f"/{WANTED}/SKILL.md"}))
    skills: Any = SkillsMiddleware(
        backend=FilesystemBackend(root_dir=folder, virtual_mode=True), sources=["/"]
    )
    return create_agent(model, tools=[count_rows, read_file], middleware=[skills], checkpointer=saver)


class Cost(NamedTuple):
    """Seconds of one turn."""

    cpu: float
    wall: float


class Side:
    """One agent with a file of its own."""

    def __init__(self, make: Callable[..., Any], kind: str, folder: Path, place: Path) -> None:
        self._connection = sqlite3.connect(place, check_same_thread=False)
        # As the command line does.
        self._connection.execute("PRAGMA synchronous = FULL")
        self._agent = make(kind, folder, SqliteSaver(self._connection))
        self._threads = count()
        self.costs: list[Cost] = []

    def turn(self) -> None:
        """Run the first turn of a new thread and keep what it cost."""
        config: Any = {"configurable": {"thread_id": str(next(self._threads))}}
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        result = self._agent.invoke({"messages": [("user", "How many rows does orders.csv have?")]}, config)
        self.costs.append(Cost(time.process_time() - cpu, time.perf_counter() - wall))
        assert result["messages"][-1].text == "There are 120 rows.", result["messages"]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def median(self) -> Cost:
        """Return the medians, without the first round."""
        return Cost(*(statistics.median(values) for values in zip(*self.costs[1:], strict=True)))


def main() -> int:
    """Measure, print, and compare with the aims."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--others", action="store_true", help="deepagents, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folders = {number: write_skills(Path(place) / str(number), number) for number in (10, 1000)}
        makers: dict[str, tuple[Callable[..., Any], int]] = {
            "bare graph": (bare, 10),
            "skills-agent, 10 skills": (ours, 10),
            "skills-agent, 1,000 skills": (ours, 1000),
        }
        if chosen.others:
            makers |= {
                "create_agent + SkillsMiddleware, 10": (with_middleware, 10),
                "create_agent + SkillsMiddleware, 1,000": (with_middleware, 1000),
                "create_deep_agent(skills=...), 10": (deep_agent, 10),
                "create_deep_agent(skills=...), 1,000": (deep_agent, 1000),
            }
        missed = False
        for kind in AIMS:
            medians = measure(makers, folders, kind, chosen.rounds, Path(place))
            missed |= tell(kind, medians)
        tell_of_snapshots(chosen.rounds, Path(place))
    return int(missed)


def measure(
    makers: dict[str, tuple[Callable[..., Any], int]],
    folders: dict[int, Path],
    kind: str,
    rounds: int,
    place: Path,
) -> dict[str, Cost]:
    """Return the medians of one kind of turn, by the agent's name."""
    sides = {
        name: Side(make, kind, folders[number], place / f"{kind}-{index}.sqlite")
        for index, (name, (make, number)) in enumerate(makers.items())
    }
    for _ in range(rounds + 1):
        for side in sides.values():
            side.turn()
    medians = {name: side.median() for name, side in sides.items()}
    for side in sides.values():
        with closing(side):
            pass
    return medians


def tell(kind: str, medians: dict[str, Cost]) -> bool:
    """Print one table; True where an aim is missed."""
    base = medians["bare graph"]
    print(f"\n| {kind} turn | CPU | wall | CPU, ms | wall, ms |\n|---|---:|---:|---:|---:|")
    for name, cost in medians.items():
        ratios = f"{cost.cpu / base.cpu:.2f} | {cost.wall / base.wall:.2f}"
        print(f"| {name} | {ratios} | {cost.cpu * 1000:.1f} | {cost.wall * 1000:.1f} |")
    few, many = medians["skills-agent, 10 skills"], medians["skills-agent, 1,000 skills"]
    ratio, growth = few.cpu / base.cpu, many.cpu / few.cpu
    print(f"\nto the bare graph {ratio:.2f}, aim {AIMS[kind]}")
    print(f"1,000 to 10 skills {growth:.2f}, aim {AIM_OF_MANY}")
    return ratio > AIMS[kind] or growth > AIM_OF_MANY


def tell_of_snapshots(rounds: int, place: Path) -> None:
    """Print what a turn costs more that loads a skill of 20 files and 200 KB: the first time, and later."""
    small, typical, changing = (write_skills(place / name, 10) for name in ("small", "typical", "changing"))
    for folder in (typical, changing):
        for number in range(19):
            (folder / WANTED / f"{number}.bin").write_bytes(os.urandom(10_000))
    sides = [
        Side(ours, "skill", folder, place / f"snapshots-{folder.name}.sqlite")
        for folder in (small, typical, changing)
    ]
    for _ in range(rounds + 1):
        # Another version of the skill: to be measured and copied.
        (changing / WANTED / "0.bin").write_bytes(os.urandom(10_000))
        for side in sides:
            side.turn()
    base, later, first = (side.median() for side in sides)
    print("\n| turn that loads | CPU | wall | CPU more, ms | wall more, ms |\n|---|---:|---:|---:|---:|")
    for name, cost in (("20 files, 200 KB, first time", first), ("the same, later", later)):
        ratios = f"{cost.cpu / base.cpu:.2f} | {cost.wall / base.wall:.2f}"
        more = f"{(cost.cpu - base.cpu) * 1000:.1f} | {(cost.wall - base.wall) * 1000:.1f}"
        print(f"| {name} | {ratios} | {more} |")
    print("\nto a skill of one file; aims: 5 ms more the first time, 1 ms more later")
    took = snapshot_times(changing / WANTED, place / "snapshots", rounds)
    print("of which the snapshot itself, CPU: {:.1f} ms the first time, {:.1f} ms later;".format(*took))
    print("the rest is the list of 19 resources in the state and in the prompt")
    for side in sides:
        side.close()


def snapshot_times(skill: Path, store: Path, rounds: int) -> tuple[float, float]:
    """Return the medians of CPU, in ms, of a snapshot that is made, and of one that is there."""
    # A clock that is ahead: a file of now counts as one that has not changed for a while.
    snapshots = SnapshotStore(store, clock=lambda: time.time_ns() + 10**10)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        (skill / "0.bin").write_bytes(os.urandom(10_000))
        for kind in times:
            started = time.process_time()
            snapshots.take(skill)
            kind.append((time.process_time() - started) * 1000)
    return statistics.median(times[0]), statistics.median(times[1])


def write_skills(folder: Path, number: int) -> Path:
    """Write skills with a description of 200 characters and instructions of 40 lines."""
    for index in range(number):
        root = folder / f"skill-{index}"
        root.mkdir(parents=True)
        description = f"Answers questions about table {index}. ".ljust(200, "x")
        body = "\n".join(f"{line}. Look at column {line} of the table." for line in range(40))
        text = f"---\nname: skill-{index}\ndescription: {description}\n---\n\n{body}\n"
        (root / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


if __name__ == "__main__":
    sys.exit(main())
