"""The API of threads: list, read, fork, prune and delete what a checkpointer keeps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, Self

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import StateSnapshot

from skills_agent.graph.build import wire
from skills_agent.graph.kept_folders import forget_scratch
from skills_agent.graph.langgraph_inside import config_inside, thread_ids
from skills_agent.graph.serialisation import RecordTypeError
from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import compact, config_of, newest_of, open_database, options_of
from skills_agent.graph.threads.errors import ThreadError, unknown_thread
from skills_agent.graph.threads.fork import Fork, fork_thread
from skills_agent.graph.threads.steps import ThreadStep, read_steps
from skills_agent.graph.threads.thread import ThreadStatus, name_of_fork, status_of
from skills_agent.nodes.fork import NAMESPACE, TASK_ID, fork_journal
from skills_agent.skills.errors import list_names
from skills_agent.state.records import GrantRecord, LoadedSkill, PlanRecord, UsageRecord
from skills_agent.state.transcript import answers_by_step, is_refusal, is_synthetic, shown_calls_of

Ruling = Literal["allowed", "approved", "edited", "rejected", "refused", "open"]
"""What became of a call: allowed or refused by policy, one of a person's answers, or not answered yet."""

_RULINGS: Final[Mapping[str, Ruling]] = {"approve": "approved", "edit": "edited", "reject": "rejected"}
_AGE = re.compile(r"(?P<number>[1-9]\d{0,4})(?P<unit>[hdw])")  # 99999w is within the calendar
_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class ThreadSummary(NamedTuple):
    """One thread in a list."""

    thread: str
    when: str
    """Of the last step: ISO 8601, UTC."""
    turns: int
    status: ThreadStatus | Literal["unreadable"]
    question: str
    """The first one."""


@dataclass(frozen=True)
class ThreadCall:
    """One tool call and what came of it."""

    id: str
    tool: str
    args: dict[str, Any]
    ruling: Ruling
    result: str
    inside: tuple["ThreadMessage", ...] = ()
    """What was said and done in the fork that answers the call."""


@dataclass(frozen=True)
class ThreadMessage:
    """One message of a person or of the agent."""

    id: str
    role: Literal["user", "agent", "request"]
    """`request`: skills that the person or the caller asked for."""
    text: str
    calls: tuple[ThreadCall, ...] = ()


@dataclass(frozen=True)
class ThreadRecord:
    """One thread, whole."""

    summary: ThreadSummary
    messages: tuple[ThreadMessage, ...]
    skills: tuple[LoadedSkill, ...]
    """The ledger, unloaded ones included, in the order of loading."""
    plan: PlanRecord | None
    usage: UsageRecord | None
    grants: tuple[GrantRecord, ...]
    held: tuple[dict[str, str], ...]
    """Calls of which changes wait for a person, as in the output of a turn."""

    def as_json(self) -> dict[str, Any]:
        """Return the thread for a machine."""
        fields = asdict(self)
        return {**fields.pop("summary")._asdict(), **fields}


class Threads:
    """The threads of a compiled agent, with every checkpointer that can list.

    An asynchronous one is called from another thread than its loop's: `asyncio.to_thread(threads.list)`.
    """

    def __init__(self, graph: CompiledAgent) -> None:
        """Read nothing yet. Raises ThreadError for a graph that was compiled without a checkpointer."""
        if not isinstance(graph, CompiledAgent):
            raise ThreadError("Threads are those of build_graph(...).compile(checkpointer=...).")
        self.graph = graph
        self._saver = graph.saver_of("")

    @classmethod
    @contextmanager
    def open(cls, settings: Settings) -> Iterator[Self]:
        """Open the threads that the command line keeps for these settings.

        A workspace without any stays so. Raises DatabaseError.
        """
        with open_database(settings, create=False) as saver:
            yield cls(wire(Services(settings)).compile(checkpointer=saver))

    def list(self) -> Sequence[ThreadSummary]:
        """Return all threads, the one that moved last first."""
        return [self._summary(thread) for thread in thread_ids(self._saver)]

    def newest(self) -> str:
        """Return the id of the thread that moved last and is none of an eval case. Raises ThreadError."""
        return newest_of(thread_ids(self._saver))

    def _summary(self, thread: str) -> ThreadSummary:
        try:
            return _summary(thread, self.graph.get_state(config_of(thread)))
        except RecordTypeError as error:
            # One that cannot be read hides no other.
            return ThreadSummary(thread, "", 0, "unreadable", f"not read: it holds {error.type}")

    def read(self, thread: str) -> ThreadRecord:
        """Return one thread with its messages, skills, plan, usage and grants. Raises ThreadError."""
        snapshot = self.snapshot(thread)
        return _record(thread, snapshot, self._messages(thread, snapshot))

    def _messages(self, thread: str, snapshot: StateSnapshot, around: str = "") -> tuple[ThreadMessage, ...]:
        """Return the messages of a thread, or of a fork in it that is at `around`, with its own forks."""
        values = snapshot.values
        messages: list[AnyMessage] = values.get("messages") or []
        grants: dict[str, GrantRecord] = values.get("grants") or {}
        steps = zip(messages, answers_by_step(messages), strict=True)
        forks = self.forks(thread, snapshot, around)
        inside = {call: self._messages(thread, state, place) for call, place, state in forks}
        return tuple(
            _message(message, answers, grants, inside)
            for message, answers in steps
            if not isinstance(message, ToolMessage)
        )

    def forks(
        self, thread: str, snapshot: StateSnapshot, around: str = ""
    ) -> Iterator[tuple[str, str, StateSnapshot]]:
        """Yield each fork of a thread, or of the fork at `around`: the call that it answers, place, state.

        Those that go on are among them.
        """
        results = (each for each in snapshot.values.get("messages") or () if isinstance(each, ToolMessage))
        artifacts = (each.artifact for each in results if isinstance(each.artifact, Mapping))
        ended = [str(each[NAMESPACE]) for each in artifacts if NAMESPACE in each]
        prefix = f"{around}|" if around else ""
        going_on = [f"{prefix}{task.name}:{task.id}" for task in snapshot.tasks if task.name == "fork"]
        for place in (*ended, *going_on):
            state = self.graph.get_state(config_inside(self._saver, thread, place))
            if messages := state.values.get("messages"):
                yield str(messages[0].id).removeprefix(TASK_ID), place, state

    def _journals(
        self, thread: str, snapshot: StateSnapshot, around: str = "", above: str = ""
    ) -> Iterator[str]:
        """Yield what the journal calls the forks of a thread, or of the fork at `around`."""
        for call, place, state in self.forks(thread, snapshot, around):
            name = fork_journal(snapshot.values.get("messages") or [], call, above)
            yield name_of_fork(thread, name)
            yield from self._journals(thread, state, place, name)

    def snapshot(self, thread: str) -> StateSnapshot:
        """Return LangGraph's snapshot of a thread. Raises ThreadError."""
        snapshot = self.graph.get_state(config_of(thread))
        if snapshot.created_at is None:
            raise unknown_thread(thread, thread_ids(self._saver))
        return snapshot

    def check(self, *threads: str) -> None:
        """Raise ThreadError for the first of these ids that is no thread's, readable or not."""
        known = thread_ids(self._saver)
        for thread in threads:
            if thread not in known:
                raise unknown_thread(thread, known)

    def steps(self, thread: str) -> Sequence[ThreadStep]:
        """Return the steps of a thread, oldest first. Raises ThreadError."""
        self.snapshot(thread)
        return read_steps(self.graph, thread)

    def fork(
        self,
        thread: str,
        at: str | int,
        *,
        new: str | None = None,
        without_skills: Sequence[str] = (),
    ) -> Fork:
        """Make a new thread of a thread as it was after a step; nothing runs yet.

        `at` is the number of a step, or the id of its checkpoint. `without_skills` are unloaded in the new
        thread. Raises ThreadError.
        """
        self.snapshot(thread)
        return fork_thread(self.graph, thread, str(at), new=new, without_skills=without_skills)

    def revoke(self, thread: str, grant: str) -> None:
        """Revoke what a person granted in a thread. An open question stays open.

        Raises ThreadError for no such thread or grant.
        """
        snapshot = self.snapshot(thread)
        grants = snapshot.values.get("grants") or {}
        if grant not in grants:
            text = f"There is no grant {grant!r} in thread {thread}. Grants: {list_names([*grants])}."
            raise ThreadError(text, code="unknown-grant")
        update = {"grants": {grant: {**grants[grant], "revoked": True}}}
        if status_of(snapshot) == "done":  # Beside a step it would be lost where a client updates the state.
            options = options_of(self._saver, thread) or None
            self.graph.update_own_state(config_of(thread, options), update, as_node="answer")
        else:
            self.graph.update_beside(config_of(thread), update)

    def delete(self, *threads: str) -> None:
        """Delete threads whole, whatever their status.

        Raises ThreadError; of one that runs, a ThreadBusyError.
        """
        self.check(*threads)
        for thread in threads:
            with self.graph.locked(config_of(thread)):
                journals = [thread]
                with suppress(RecordTypeError):  # what cannot be read leaves the entries of its forks
                    journals += self._journals(thread, self.graph.get_state(config_of(thread)))
                # In this order: a thread without its journal would repeat effects, entries without a thread
                # only take room.
                self._saver.delete_thread(thread)
                for name in journals:
                    self.graph.services.journal_of(self._saver, self.graph.store).forget(name)
                forget_scratch(self.graph.services.settings, thread)

    def compact(self) -> None:
        """Give the room of deleted threads back to the disk."""
        compact(self._saver)

    def prune(self, *, older_than: timedelta | str, dry_run: bool = False) -> Sequence[str]:
        """Delete the threads that are done and older than an age, and return their ids.

        `older_than` is a duration, or a text such as 12h, 30d or 8w. Raises ThreadError.
        """
        age = parse_age(older_than) if isinstance(older_than, str) else older_than
        before = datetime.now(UTC) - age
        done = (line for line in self.list() if line.when and line.status == "done")
        names = [line.thread for line in done if datetime.fromisoformat(line.when) < before]
        if not dry_run:
            self.delete(*names)
        return names


def parse_age(text: str) -> timedelta:
    """Return a duration such as 12h, 30d or 8w. Raises ThreadError."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise ThreadError(f"An age is 1h to 99999w, such as 30d; not {text!r}", code="invalid-age")
    return int(match["number"]) * _UNITS[match["unit"]]


def _summary(thread: str, snapshot: StateSnapshot) -> ThreadSummary:
    messages = snapshot.values.get("messages") or []
    first = next((str(message.text) for message in messages if isinstance(message, HumanMessage)), "")
    turns = (snapshot.values.get("usage") or {}).get("turn", 0)
    status = "waiting" if snapshot.values.get("held") else status_of(snapshot)
    return ThreadSummary(thread, snapshot.created_at or "", turns, status, first)


def _record(thread: str, snapshot: StateSnapshot, messages: tuple[ThreadMessage, ...]) -> ThreadRecord:
    values = snapshot.values
    grants: dict[str, GrantRecord] = values.get("grants") or {}
    ledger: dict[str, LoadedSkill] = values.get("skills_loaded") or {}
    return ThreadRecord(
        summary=_summary(thread, snapshot),
        messages=messages,
        skills=tuple(sorted(ledger.values(), key=lambda skill: skill["order"])),
        plan=values.get("plan"),
        usage=values.get("usage"),
        grants=tuple(grants.values()),
        held=tuple(values.get("held") or ()),
    )


def _message(
    message: AnyMessage,
    results: Mapping[str, ToolMessage],
    grants: Mapping[str, GrantRecord],
    inside: Mapping[str, tuple[ThreadMessage, ...]],
) -> ThreadMessage:
    text = str(message.text)
    if not isinstance(message, AIMessage):
        return ThreadMessage(str(message.id), "user", text)
    calls = []
    for call in shown_calls_of(message):
        name, result = call["id"] or "", results.get(call["id"] or "")
        ruling, text_of = _ruling(result, grants.get(name)), str(result.text) if result else ""
        own = inside.get(name, ())
        calls.append(ThreadCall(name, call["name"], call["args"], ruling, text_of, own))
    is_request = is_synthetic(message) and bool(message.tool_calls)
    return ThreadMessage(str(message.id), "request" if is_request else "agent", text, tuple(calls))


def _ruling(result: ToolMessage | None, grant: GrantRecord | None) -> Ruling:
    if grant:
        return _RULINGS[grant["decision"]]
    if result is None:
        return "open"
    return "refused" if is_refusal(result) else "allowed"
