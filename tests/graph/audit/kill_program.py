"""Runs one turn of the real graph, and again and again with a kill before or after a write of a checkpoint.

`python kill_program.py points FOLDER`: for each kill point a workspace FOLDER/<number>, in which one process
ran until it was killed with SIGKILL and another one went on. FOLDER/0 is the run that nobody killed.
`python kill_program.py script FOLDER`: a script of the run kills the agent, and another one goes on.
"""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel, ScriptEntry
from skills_agent.graph.settings import Settings
from tests.agents import call, calls, write_skill
from tests.forked import run_forked

CONFIG: Any = {"configurable": {"thread_id": "thread"}}
ASKED: Any = {"messages": [HumanMessage("go", id="m")]}
REPLIES: list[ScriptEntry] = [
    calls(call("load_skill", name="alpha"), call("load_skill", name="beta")),
    calls(call("read_resource", skill="alpha", path="a.txt"), call("list_dir"), call("no_such_tool")),
    "done",
]
OF_A_KILLER: list[ScriptEntry] = [
    calls(call("load_skill", name="killer")),
    calls(call("run_script", skill="killer", path="scripts/run.py")),
    "done",
]
KILLER = """
import os, pathlib, signal
agent = pathlib.Path("agent")
if agent.exists():
    pid = int(agent.read_text())
    agent.unlink()
    os.kill(pid, signal.SIGKILL)
"""

_ONE_BY_ONE = Lock()


class KillingSaver(SqliteSaver):
    """Ends its process before or after the n-th write; counts them otherwise."""

    point = 0
    writes = 0

    def _counted(self, write: Callable[[], Any]) -> Any:
        with _ONE_BY_ONE:
            self._kill_at(2 * self.writes + 1)
            result = write()
            self._kill_at(2 * self.writes + 2)
            self.writes += 1
        return result

    def _kill_at(self, moment: int) -> None:
        if moment == self.point:
            os.kill(os.getpid(), signal.SIGKILL)

    def put(self, *args: Any, **kwargs: Any) -> Any:
        return self._counted(lambda: super(KillingSaver, self).put(*args, **kwargs))

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        self._counted(lambda: super(KillingSaver, self).put_writes(*args, **kwargs))


def run(workspace: Path, asked: Any, point: int = 0, replies: list[ScriptEntry] = REPLIES) -> None:
    """Run the graph to its end, or to the kill."""
    settings = Settings(
        workspace=workspace,
        home=workspace.parent,
        bundled_skills=False,
        sandbox="off",
        require_approval_for=frozenset(),
    )
    with closing(sqlite3.connect(workspace / "threads.sqlite", check_same_thread=False)) as connection:
        saver = KillingSaver(connection)
        saver.setup()
        saver.point = point
        graph = build_graph(settings, model=ScriptedChatModel(replies)).compile(checkpointer=saver)
        graph.invoke(asked, CONFIG, durability="sync")


def at_points(folder: Path) -> None:
    """Find the kill points in a run that nobody kills, and try some, before writes and after them."""
    point = 0
    while True:
        workspace = folder / str(point)
        for name in ("alpha", "beta"):
            write_skill(workspace / ".agent" / "skills", name, "Does it.", a_txt="text")
        if not run_forked(run, workspace, ASKED, point) and point:
            return
        if point:
            (workspace / "told-before").write_text(str(lines_told(workspace)))
            # Before the first checkpoint nothing of the request is kept: it is asked again.
            assert not run_forked(run, workspace, None if has_checkpoint(workspace) else ASKED)
        point += 3 if point else 1


def by_its_script(workspace: Path) -> None:
    """Run a graph that a script of it kills, and go on."""
    write_skill(workspace / ".agent" / "skills", "killer", "Kills.", scripts__run_py=KILLER)

    def begin() -> None:
        (workspace / "agent").write_text(str(os.getpid()))
        run(workspace, ASKED, replies=OF_A_KILLER)

    assert run_forked(begin) == -signal.SIGKILL
    assert not run_forked(run, workspace, None, 0, OF_A_KILLER)


def lines_told(workspace: Path) -> int:
    """Return how many events are in the record."""
    return sum(path.read_bytes().count(b"\n") for path in (workspace / ".agent" / "runs").glob("*.jsonl"))


def has_checkpoint(workspace: Path) -> bool:
    """Tell whether anything was kept."""
    with closing(sqlite3.connect(workspace / "threads.sqlite", check_same_thread=False)) as connection:
        return SqliteSaver(connection).get_tuple(CONFIG) is not None


if __name__ == "__main__":
    {"points": at_points, "script": by_its_script}[sys.argv[1]](Path(sys.argv[2]))
