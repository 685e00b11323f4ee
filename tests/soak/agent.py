"""What one process does with one thread: a single operation, in one of the ways of the library."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, StateSnapshot

from skills_agent.graph import build_graph
from skills_agent.graph.models.provider import make_models
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.backends import JOURNAL_FILE
from skills_agent.graph.threads.threads import Threads
from skills_agent.graph.user_folders import state_folder
from skills_agent.nodes.model_errors import ModelCallError
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.state.context import Context
from tests.agents import write_skill
from tests.forked import told
from tests.openai_server import KEY
from tests.soak.provider import SKILL

SCRIPTS_DID, NOTES_DID = "scripts.txt", "notes.txt"
"""One token a line, for each effect that took place."""
OUTCOME, STATUS = "outcome.json", "status.json"
APPEND = f"""
import sys, time

time.sleep(0.05)
with open({SCRIPTS_DID!r}, "a") as effects:
    effects.write(sys.argv[1] + "\\n")
print("did", sys.argv[1], flush=True)
time.sleep(0.15)
"""

Way = Literal["invoke", "stream", "ainvoke", "astream"]


@dataclass(frozen=True)
class Place:
    """Where the threads of one saver are."""

    folder: Path
    url: str
    """Of the provider."""
    dsn: str = ""
    """Of the database; empty with SQLite."""

    def prepare(self) -> None:
        """Make what the agent works with."""
        write_skill(self.folder / ".agent" / "skills", SKILL, "Appends.", scripts__append_py=APPEND)
        (self.folder / "home").mkdir()

    @property
    def settings(self) -> Settings:
        """Return what the operator says."""
        return Settings(
            workspace=self.folder, home=self.folder / "home", bundled_skills=False, sandbox="off",
            model="openai:soak", model_parameters={"max_retries": 0}, max_model_calls=30,
            require_approval_for=frozenset({"run"}),
        )  # fmt: skip

    @property
    def journal(self) -> Path:
        """Return the file of the journal; with PostgreSQL there is none."""
        return state_folder(self.settings) / JOURNAL_FILE

    def done(self) -> list[str]:
        """Return the tokens of all effects that took place, as often as they did."""
        files = [self.folder / name for name in (SCRIPTS_DID, NOTES_DID)]
        return [token for file in files if file.exists() for token in file.read_text().split()]


@dataclass(frozen=True)
class Operation:
    """One invocation of the graph. JSON-native."""

    thread: str
    say: str = ""
    """What the person says; empty: nothing."""
    request: str = ""
    """The id of what is said."""
    results: tuple[str, ...] = ()
    """Ids of calls that the client says were successful, before what is said."""
    answers: dict[str, Any] | None = None
    """To open questions, by their ids."""
    way: Way = "invoke"
    durability: Literal["sync", "async"] = "async"
    cancel_after: float | None = None
    """Seconds after which an asynchronous one is cancelled, or a stream closed."""
    clock: float = 0
    """Seconds by which the clock of this process is wrong."""

    @property
    def message(self) -> Any:
        """Return what the graph is given."""
        if self.answers is not None:
            return Command(resume=self.answers)
        lies: list[BaseMessage] = [
            ToolMessage("Successfully handled tool call.", tool_call_id=each) for each in self.results
        ]
        if not self.say:
            return None
        return {"messages": [*lies, HumanMessage(self.say, id=self.request)]}

    def text(self) -> str:
        """Return it for a report."""
        return json.dumps({name: value for name, value in asdict(self).items() if value})


def import_everything(place: Place) -> None:
    """Import what an operation needs, once for all processes that are forked of this one."""
    os.environ.update({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": place.url})
    make_models(place.settings, None).choose(Context())
    import openai.resources.chat  # noqa: F401, PLC0415 - the client imports it at the first request


def perform(place: Place, operation: Operation) -> None:
    """Do it, and keep what became of it."""
    _shift_clock(operation.clock)
    outcome = {"error": "", "text": ""}
    try:
        if operation.way in {"ainvoke", "astream"}:
            asyncio.run(_perform_async(place, operation))
        else:
            _perform_sync(place, operation)
    except (SkillsAgentError, asyncio.CancelledError, TimeoutError) as error:
        kind = ModelCallError if isinstance(error, ModelCallError) else type(error)
        outcome = {"error": kind.__name__, "text": str(error)}
    (place.folder / OUTCOME).write_text(json.dumps(outcome))


def look(place: Place, thread: str) -> None:
    """Keep what a person sees of a thread."""
    with _compiled(place) as graph:
        status = _told(graph.get_state({"configurable": {"thread_id": thread}}))
    (place.folder / STATUS).write_text(json.dumps(status))


def fork(place: Place, thread: str, new: str, chance: float) -> None:
    """Make a new thread of a thread as it was after some step, and keep what a person sees of it."""
    with _compiled(place) as graph:
        steps = Threads(graph).steps(thread)
        try:
            Threads(graph).fork(thread, str(1 + int(chance * len(steps))), new=new)
        except SkillsAgentError as error:
            (place.folder / STATUS).write_text(json.dumps({"error": str(error)}))
            return
    look(place, new)


def set_up(place: Place) -> None:
    """Make the tables of a database."""
    with _opened(place, SqliteSaver, PostgresSaver) as saver:
        saver.setup()


def _shift_clock(seconds: float) -> None:
    if not seconds:
        return
    nanoseconds, now = time.time_ns, time.time
    time.time_ns = lambda: nanoseconds() + int(seconds * 1e9)
    time.time = lambda: now() + seconds


def _perform_sync(place: Place, operation: Operation) -> None:
    with _compiled(place) as graph:
        config: Any = {"configurable": {"thread_id": operation.thread}}
        if operation.way == "invoke":
            graph.invoke(operation.message, config, durability=operation.durability)
            return
        until = time.monotonic() + (operation.cancel_after or 1000)
        with closing(graph.stream(operation.message, config, durability=operation.durability)) as stream:
            any(time.monotonic() > until for _ in stream)


async def _perform_async(place: Place, operation: Operation) -> None:
    async with _opened(place, AsyncSqliteSaver, AsyncPostgresSaver) as saver:
        graph = _builder(place).compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": operation.thread}}

        async def run() -> None:
            if operation.way == "ainvoke":
                await graph.ainvoke(operation.message, config, durability=operation.durability)
                return
            async for _ in graph.astream(operation.message, config, durability=operation.durability):
                pass

        await asyncio.wait_for(run(), operation.cancel_after)


def _builder(place: Place) -> Any:
    return build_graph(place.settings, tools=[_note(place.folder / NOTES_DID)])


def _note(file: Path) -> BaseTool:
    @tool
    def note(text: str) -> str:
        """Note something, without a question."""
        with file.open("a") as notes:
            notes.write(f"{text}\n")
        time.sleep(0.05)
        return f"did {text}"

    note.metadata = {"risk": "write"}
    return note


@contextmanager
def _compiled(place: Place) -> Iterator[Any]:
    with _opened(place, SqliteSaver, PostgresSaver) as saver:
        yield _builder(place).compile(checkpointer=saver)


def _opened(place: Place, sqlite: Any, postgres: Any) -> Any:
    file = str(place.folder / "threads.sqlite")
    return postgres.from_conn_string(place.dsn) if place.dsn else sqlite.from_conn_string(file)


def _told(snapshot: StateSnapshot) -> dict[str, Any]:
    return {
        "messages": [told(each) for each in snapshot.values.get("messages") or []],
        "questions": {each.id: each.value["action_requests"] for each in snapshot.interrupts},
        "is_open": bool(snapshot.tasks),
    }
