"""Threads as they were kept."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import StateSnapshot

from skills_agent.graph.build import wire
from skills_agent.graph.services import make_services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import (
    Saver,
    config_of,
    has_threads,
    open_database,
    store_of,
    thread_ids,
)
from skills_agent.graph.threads.errors import UnknownThreadError
from skills_agent.nodes.effects import Journal
from skills_agent.state.records import GrantRecord, LoadedSkill, PlanRecord, UsageRecord
from skills_agent.state.transcript import SYNTHETIC, calls_of

Status = Literal["done", "waiting", "unfinished"]
"""`unfinished`: cut off in the middle, by a crash, Ctrl-C or SIGTERM."""
Ruling = Literal["allowed", "approved", "edited", "rejected", "refused", "open"]
"""What became of a call: allowed or refused by policy, one of a person's answers, or not answered yet."""

_ANSWERS: dict[Literal["approve", "edit", "reject"], Ruling] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
}


class ThreadLine(NamedTuple):
    """One thread in a list."""

    thread: str
    when: str
    """Of the last step: ISO 8601, UTC."""
    turns: int
    status: Status
    question: str
    """The first one."""


class PastCall(NamedTuple):
    """One tool call and what came of it."""

    tool: str
    args: dict[str, Any]
    ruling: Ruling
    result: str


class Said(NamedTuple):
    """One message of a person or of the agent."""

    role: Literal["user", "agent", "request"]
    """`request`: skills that the person or the caller asked for."""
    text: str
    calls: tuple[PastCall, ...] = ()


class History(NamedTuple):
    """One thread, whole."""

    line: ThreadLine
    said: tuple[Said, ...]
    skills: tuple[LoadedSkill, ...]
    """The ledger, unloaded ones included, in the order of loading."""
    plan: PlanRecord | None
    usage: UsageRecord | None
    grants: tuple[GrantRecord, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the thread for a machine."""
        messages = [
            {"role": said.role, "text": said.text, "calls": [call._asdict() for call in said.calls]}
            for said in self.said
        ]
        kept = {"skills": self.skills, "plan": self.plan, "usage": self.usage, "grants": self.grants}
        return {**self.line._asdict(), "messages": messages, **kept}


def list_history(settings: Settings) -> list[ThreadLine]:
    """Return the threads of a workspace or a database, the one that moved last first."""
    if not has_threads(settings):
        return []
    with open_archive(settings) as archive:
        return [_line(thread, archive.snapshot(thread)) for thread in thread_ids(archive.saver)]


def read_history(settings: Settings, thread: str) -> History:
    """Return one thread; raises UnknownThreadError."""
    with archive_of(settings, thread) as archive:
        return _history(thread, archive.existing(thread))


@contextmanager
def archive_of(settings: Settings, thread: str) -> Iterator["Archive"]:
    """Open the place of a thread; raises UnknownThreadError where there is none, and makes nothing."""
    if not has_threads(settings):
        raise UnknownThreadError(thread, ())
    with open_archive(settings) as archive:
        yield archive


class Archive(NamedTuple):
    """The threads of a workspace or a database, and the graph that reads them."""

    saver: Saver
    runs: CompiledAgent
    journal: Journal
    """Of the same threads."""

    def snapshot(self, thread: str) -> StateSnapshot:
        """Return a thread as it is now; an empty snapshot where there is none."""
        return self.runs.get_state(config_of(thread))

    def existing(self, thread: str) -> StateSnapshot:
        """Return a thread as it is now; raises UnknownThreadError."""
        snapshot = self.snapshot(thread)
        if snapshot.created_at is None:
            raise UnknownThreadError(thread, thread_ids(self.saver))
        return snapshot


@contextmanager
def open_archive(settings: Settings) -> Iterator[Archive]:
    """Open the threads of a workspace or a database to read, copy and remove them."""
    with open_database(settings) as saver:
        services = make_services(settings)
        store = store_of(saver)
        runs = wire(services).compile(checkpointer=saver, store=store)
        yield Archive(saver, runs, services.keeper.journals.of(saver, store))


def status_of(snapshot: StateSnapshot) -> Status:
    """Return whether a thread is done, waits for a person, or was cut off."""
    if snapshot.interrupts:
        return "waiting"
    # `snapshot.next` leaves out tasks that a deferred node still waits for.
    return "unfinished" if snapshot.tasks else "done"


def _line(thread: str, snapshot: StateSnapshot) -> ThreadLine:
    messages = snapshot.values.get("messages") or []
    first = next((str(message.text) for message in messages if isinstance(message, HumanMessage)), "")
    turns = (snapshot.values.get("usage") or {}).get("turn", 0)
    return ThreadLine(thread, snapshot.created_at or "", turns, status_of(snapshot), first)


def _history(thread: str, snapshot: StateSnapshot) -> History:
    values = snapshot.values
    messages: list[AnyMessage] = values.get("messages") or []
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    grants: dict[str, GrantRecord] = values.get("grants") or {}
    ledger: dict[str, LoadedSkill] = values.get("skills_loaded") or {}
    return History(
        line=_line(thread, snapshot),
        said=tuple(
            _said(message, results, grants) for message in messages if not isinstance(message, ToolMessage)
        ),
        skills=tuple(sorted(ledger.values(), key=lambda skill: skill["order"])),
        plan=values.get("plan"),
        usage=values.get("usage"),
        grants=tuple(grants.values()),
    )


def _said(message: AnyMessage, results: Mapping[str, ToolMessage], grants: Mapping[str, GrantRecord]) -> Said:
    text = str(message.text)
    if not isinstance(message, AIMessage):
        return Said("user", text)
    calls = tuple(
        PastCall(
            call["name"],
            call["args"],
            _ruling(call["id"] or "", results, grants),
            str(results[call["id"] or ""].text) if call["id"] in results else "",
        )
        for call in calls_of(message)
    )
    return Said("request" if _asked_for(message) else "agent", text, calls)


def _asked_for(message: AIMessage) -> bool:
    """Tell whether no model wrote this: it stands for skills that the person or the caller named."""
    return all(message.additional_kwargs.get(key) == value for key, value in SYNTHETIC.items())


def _ruling(call_id: str, results: Mapping[str, ToolMessage], grants: Mapping[str, GrantRecord]) -> Ruling:
    if call_id in grants:
        return _ANSWERS[grants[call_id]["decision"]]
    if call_id not in results:
        return "open"
    return "refused" if (results[call_id].id or "").startswith("refused-") else "allowed"
