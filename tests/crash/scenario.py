"""What is run and killed: the real graph on one thread, one invocation a process."""

import asyncio
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, StateSnapshot
from typing_extensions import override

from skills_agent.graph.build import wire
from skills_agent.graph.models.scripted import ScriptedChatModel, ScriptEntry
from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.backends import JOURNAL_FILE
from skills_agent.graph.threads.journals import FileJournal
from skills_agent.graph.user_folders import make_state_folder, state_folder
from skills_agent.nodes.model_call import ModelCall
from tests.agents import call, calls, write_skill
from tests.crash.points import FILE, AsyncKilling, Killing, KillingJournal, Points
from tests.forked import told

THREAD = "crash"
QUESTION = "Append twice, and note it."
ANSWER = "Both are done."
SECOND_QUESTION = "Note the same again."
SECOND_ANSWER = "Noted twice."
EFFECTS, NOTES, INSIDE = "effects.txt", "notes.txt", "inside.txt"
ALIVE = "script.lock"
"""Locked by a script as long as it lives."""

SCRIPT = f"""
import fcntl, os, signal, sys

alive = open({ALIVE!r}, "w")
fcntl.flock(alive, fcntl.LOCK_EX)

def reach(name):
    with open({FILE!r}, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = 1 + len(file.readlines())
        file.write(name + "\\n")
        file.flush()
    agent, target = map(int, open("agent.txt").read().split())
    if number == target:
        os.kill(agent, signal.SIGKILL)
        signal.pause()  # whoever started this ends it now

reach("in the script, before its effect")
with open({EFFECTS!r}, "a") as effects:
    effects.write(sys.argv[1] + "\\n")
reach("in the script, after its effect")
print("appended", sys.argv[1])
"""

ALONE = "Work alone."
RUN = call("run_script", skill="alpha", path="scripts/append.py", args=["line"])
STEPS = [{"id": "1", "title": "append", "status": "in_progress"}]
REPLIES: list[Any] = [
    calls(call("load_skill", name="alpha"), call("load_skill", name="beta")),
    calls(
        *(RUN, call("read_file", path="seen.txt"), call("note", text="first")),
        call("update_plan", goal="append", steps=STEPS),
    ),
    # The same once more: this is no repetition, the model wants it.
    calls(RUN),
    calls(call("load_skill", name="gamma", arguments=ALONE)),
    ANSWER,
    # A second turn, with a call like one of the first.
    calls(call("note", text="first")),
    SECOND_ANSWER,
]
ALONE_REPLIES: list[Any] = [
    calls(call("note", text=ALONE)),
    lambda prompt: f"inside: {prompt[-1].text}",  # what came of the effect
]
UNKNOWN = "Whether it did its work is unknown"


class Way(NamedTuple):
    """How a scenario is run."""

    saver: Literal["sqlite", "postgres"]
    durability: Literal["sync", "async", "exit"]
    is_async: bool
    """With `ainvoke` and the asynchronous saver."""
    unknown: Literal["approve", "reject"]
    """What the person says about a call whose outcome is unknown."""
    again: bool = False
    """Killed once more, somewhere in what comes after the first kill."""

    @property
    def title(self) -> str:
        """Return what a person calls it."""
        twice = ", killed twice" if self.again else ""
        invoked = "ainvoke" if self.is_async else "invoke"
        return f"{self.saver}, durability {self.durability}, {invoked}, unknown: {self.unknown}{twice}"


class FreshIds(ScriptedChatModel):
    """Asks with new ids at every call, as real models do."""

    points: Points

    def __init__(self, script: Sequence[ScriptEntry], points: Points) -> None:
        super().__init__(script, points=points)

    @override
    def reply(
        self, messages: Sequence[BaseMessage], tools: frozenset[str], records: ModelCall | None
    ) -> AIMessage:
        self.points.reach("before the model")
        is_alone = ALONE in next(each for each in messages if isinstance(each, HumanMessage)).text
        reply = ScriptedChatModel(ALONE_REPLIES).reply if is_alone else super().reply
        message = reply(messages, tools, records)
        wanted = [{**each, "id": f"call-{secrets.token_hex(4)}"} for each in message.tool_calls]
        return message.model_copy(update={"id": f"{message.id}-{secrets.token_hex(4)}", "tool_calls": wanted})


@dataclass(frozen=True)
class Workspace:
    """The folder of one scenario."""

    folder: Path
    dsn: str
    """Of the database; empty with SQLite."""
    thread: str

    def prepare(self) -> None:
        """Make what the scenario works with."""
        skills = self.folder / ".agent" / "skills"
        write_skill(skills, "alpha", "Appends.", scripts__append_py=SCRIPT)
        write_skill(skills, "beta", "Does nothing.")
        write_skill(skills, "gamma", "Works alone.\ncontext: fork")
        (self.folder / "seen.txt").write_text("seen\n")

    def lines(self, name: str) -> int:
        """Return how often an effect took place."""
        file = self.folder / name
        return len(file.read_text().splitlines()) if file.exists() else 0


def step(place: Workspace, way: Way, target: int) -> None:
    """Do what a caller does who finds the thread as it is: one invocation. What it came to is kept."""
    (place.folder / "agent.txt").write_text(f"{os.getpid()} {target}")
    points = Points(place.folder, target)
    status = asyncio.run(_step_async(place, way, points)) if way.is_async else _step_sync(place, way, points)
    (place.folder / "status.json").write_text(json.dumps(status))


def _step_sync(place: Workspace, way: Way, points: Points) -> dict[str, Any]:
    config: Any = {"configurable": {"thread_id": place.thread}}
    with _saver(place, is_async=False) as saver:
        runs = _compiled(place, way, points, saver)
        asked = _next(place, way, runs.get_state(config))
        if asked is not DONE:
            runs.invoke(asked, config, durability=way.durability)
        return _told(runs.get_state(config))


async def _step_async(place: Workspace, way: Way, points: Points) -> dict[str, Any]:
    config: Any = {"configurable": {"thread_id": place.thread}}
    async with _saver(place, is_async=True) as saver:
        runs = _compiled(place, way, points, saver)
        asked = _next(place, way, await runs.aget_state(config))
        if asked is not DONE:
            await runs.ainvoke(asked, config, durability=way.durability)
        return _told(await runs.aget_state(config))


DONE: Any = object()


def _next(place: Workspace, way: Way, snapshot: StateSnapshot) -> Any:
    """Return what the caller says now: the question, an answer, nothing; DONE where all is done."""
    if not snapshot.values.get("messages"):
        return {"messages": [HumanMessage(QUESTION)]}
    answers: dict[str, Any] = {}
    for each in snapshot.interrupts:
        unknown = [UNKNOWN in request["description"] for request in each.value["action_requests"]]
        with (place.folder / "asked.log").open("a") as log:
            log.writelines(f"{way.unknown}\n" for is_unknown in unknown if is_unknown)
        decisions = [{"type": way.unknown if is_unknown else "approve"} for is_unknown in unknown]
        answers[each.id] = {"decisions": decisions}
    if answers:
        return Command(resume=answers)
    if snapshot.tasks or not snapshot.values.get("answer"):
        return None
    if snapshot.values["answer"] == ANSWER:
        return {"messages": [HumanMessage(SECOND_QUESTION)]}
    return DONE


def _told(snapshot: StateSnapshot) -> dict[str, Any]:
    values = snapshot.values

    def of(name: str) -> dict[str, Any]:
        return values.get(name) or {}

    is_done = not snapshot.tasks and not snapshot.interrupts and values.get("answer") == SECOND_ANSWER
    return {
        "done": is_done,
        "answer": values.get("answer"),
        "messages": [told(each) for each in values.get("messages") or []],
        "loaded": sorted(name for name, each in of("skills_loaded").items() if not each["unloaded"]),
        "resources": sorted(of("skill_resources")),
        "grants": sorted(f"{each['tool']} {each['decision']}" for each in of("grants").values()),
        "plan": values.get("plan"),
        "usage": values.get("usage"),
    }


def _compiled(place: Workspace, way: Way, points: Points, saver: Any) -> Any:
    saver.points, saver.is_slow = points, way.durability == "async"
    own: Any = {"bundled_skills": False, "sandbox": "off", "require_approval_for": frozenset({"run"})}
    settings = Settings(workspace=place.folder, home=place.folder / "home", **own)
    file = state_folder(settings) / JOURNAL_FILE
    journal: Any = KillingFileJournal(file, partial(make_state_folder, settings))
    if place.dsn:
        from tests.crash.postgres import KillingPostgresJournal  # noqa: PLC0415 - of an extra

        journal = KillingPostgresJournal(place.dsn)
    journal.points = points
    model = FreshIds(REPLIES, points)
    services = Services(settings, model=model, tools=[_note(place, points)], journal=journal)
    return wire(services).compile(checkpointer=saver)


def _note(place: Workspace, points: Points) -> BaseTool:
    @tool
    def note(text: str) -> str:
        """Note something, without a question."""
        file = place.folder / (INSIDE if text == ALONE else NOTES)
        with points.around("the effect of a tool"), file.open("a") as notes:
            notes.write(f"{text}\n")
        return "noted"

    note.metadata = {"risk": "write"}
    return note


class KillingFileJournal(KillingJournal, FileJournal):
    """A file, as the agent keeps for threads in SQLite."""


class KillingSqlite(Killing, SqliteSaver):
    """SQLite."""


class KillingAsyncSqlite(AsyncKilling, AsyncSqliteSaver):
    """SQLite."""


def _saver(place: Workspace, *, is_async: bool) -> Any:
    if not place.dsn:
        kind = KillingAsyncSqlite if is_async else KillingSqlite
        return kind.from_conn_string(str(place.folder / "threads.sqlite"))
    from tests.crash import postgres  # noqa: PLC0415 - of an extra

    of_server = postgres.KillingAsyncPostgres if is_async else postgres.KillingPostgres
    return of_server.from_conn_string(place.dsn)
