"""Runs one turn of the real graph, and again and again with a kill at every write of a checkpoint.

`python kill_program.py FOLDER`: for each kill point a workspace FOLDER/<number>, in which one process ran
until it was killed with SIGKILL and another one went on. FOLDER/0 is the run that nobody killed.
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

CONFIG: Any = {"configurable": {"thread_id": "thread"}}


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


def run(workspace: Path, asked: Any, point: int = 0) -> int:
    """Run the graph to its end, or to the kill; return how many writes there were."""
    replies: list[ScriptEntry] = [
        calls(call("load_skill", name="alpha"), call("load_skill", name="beta")),
        calls(call("read_resource", skill="alpha", path="a.txt"), call("list_dir"), call("no_such_tool")),
        "done",
    ]
    settings = Settings(workspace=workspace, home=workspace.parent, bundled_skills=False)
    with closing(sqlite3.connect(workspace / "threads.sqlite", check_same_thread=False)) as connection:
        saver = KillingSaver(connection)
        saver.setup()
        saver.point = point
        graph = build_graph(settings, model=ScriptedChatModel(replies)).compile(checkpointer=saver)
        graph.invoke(asked, CONFIG, durability="sync")
        return saver.writes


def forked(act: Callable[[], Any]) -> int:
    """Do it in a process of its own; return how that ended."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: Path) -> None:
    """Find the kill points in a run that nobody kills, and try each."""
    asked = {"messages": [HumanMessage("go", id="m")]}
    point = 0
    while True:
        workspace = folder / str(point)
        workspace.mkdir(parents=True)
        for name in ("alpha", "beta"):
            write_skill(workspace / ".agent" / "skills", name, "Does it.", a_txt="text")
        ended = forked(lambda place=workspace, at=point: run(place, asked, at))  # type: ignore[misc]
        if point and ended == 0:
            (workspace / "not-killed").touch()
            return
        assert ended == (-signal.SIGKILL if point else 0)
        if point:
            (workspace / "told-before").write_text(str(lines_told(workspace)))
            # Before the first checkpoint nothing of the request is kept: it is asked again.
            again = None if has_checkpoint(workspace) else asked
            assert forked(lambda place=workspace, asked=again: run(place, asked)) == 0  # type: ignore[misc]
        point += 1


def lines_told(workspace: Path) -> int:
    """Return how many events are in the record."""
    return sum(path.read_bytes().count(b"\n") for path in (workspace / ".agent" / "runs").glob("*.jsonl"))


def has_checkpoint(workspace: Path) -> bool:
    """Tell whether anything was kept."""
    with closing(sqlite3.connect(workspace / "threads.sqlite", check_same_thread=False)) as connection:
        return SqliteSaver(connection).get_tuple(CONFIG) is not None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
