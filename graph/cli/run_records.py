"""The records of runs, as the audit keeps them."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from skills_agent.graph.audit.log import Checked, RunLog
from skills_agent.graph.settings import Settings, audit_folder_of
from skills_agent.graph.threads.names import folder_name
from skills_agent.skills.errors import SkillsAgentError

Record = dict[str, Any]
Outcome = Literal["done", "cut short", "waiting", "failed", "superseded", "unfinished", "forked"]
"""`superseded`: a new message came while it waited or was cut off; `unfinished`: under way, or cut off."""


_MAX_NAMED = 8


class UnknownRunError(SkillsAgentError):
    """No record of that run is kept in the workspace."""

    code: ClassVar[str] = "unknown-run"

    def __init__(self, run: str, records: Sequence[str]) -> None:
        self.run = run
        self.records = tuple(records)
        listed = ", ".join(records[:_MAX_NAMED]) or "none yet"
        more = ", ... (all: skills-agent runs list)" if len(records) > _MAX_NAMED else ""
        super().__init__(f"There is no record of {run!r} here. Records: {listed}{more}.")


class Run(NamedTuple):
    """One turn of a thread, and what happened in it."""

    run: str
    events: Sequence[Record]
    is_last: bool
    """Whether its thread has no later one."""

    def of(self, kind: str) -> list[Record]:
        """Return its events of one type."""
        return [each for each in self.events if each.get("type") == kind]

    @property
    def started(self) -> Record:
        """Return its first event."""
        return self.events[0]

    @property
    def asked(self) -> Record:
        """Return who asked what; empty where its beginning is not in the file."""
        return next(iter([*self.of("run_started"), *self.of("thread_forked")]), {})

    @property
    def outcome(self) -> Outcome:
        """Return what it came to, as its last events tell."""
        if ended := self.of("run_ended"):
            return "cut short" if ended[-1].get("outcome") == "cut short" else "done"
        if not self.is_last:
            return "superseded"
        if self.events[-1].get("type") == "run_failed":
            return "failed"
        if all(each.get("type") in ("thread_forked", "state_updated") for each in self.events):
            return "forked"
        return "waiting" if self._is_asked else "unfinished"

    @property
    def _is_asked(self) -> bool:
        """Tell whether a question is open; a call may be asked about again, where it was cut off."""
        newest = {
            each.get("call_id"): each.get("type")
            for each in self.events
            if each.get("type") in ("approval_asked", "approval_answered", "call_ended")
        }
        return "approval_asked" in newest.values()

    def as_json(self) -> Record:
        """Return it as one line of a list."""
        models, ended = self.of("model_called"), self.of("call_ended")
        return {
            "run": self.run,
            "thread": self.started.get("thread"),
            "time": self.started.get("time"),
            "caller": self.asked.get("caller"),
            "outcome": self.outcome,
            "request": self.asked.get("request", ""),
            "skills": [each.get("skill") for each in self.of("skill_loaded")],
            "calls": len(ended),
            "refused": sum(each.get("decision") == "deny" for each in self.of("call_judged")),
            "input_tokens": sum(_number(each, "input_tokens") for each in models),
            "output_tokens": sum(_number(each, "output_tokens") for each in models),
        }


def open_log(workspace: Path | None) -> RunLog:
    """Return the audit of a workspace; nothing is made."""
    return RunLog(audit_folder_of(Settings.load(workspace)))


def all_runs(log: RunLog, thread: str | None = None) -> list[Run]:
    """Return the runs of all threads or of one, the newest first; raises UnknownRunError."""
    return [run for name in _names(log, thread) for run in reversed(_runs(log, name))]


def find_run(log: RunLog, run: str) -> Run:
    """Return one run; raises UnknownRunError."""
    name = folder_name(run.rpartition(".")[0])
    found = next((each for each in _runs(log, name) if each.run == run), None)
    if found is None:
        raise UnknownRunError(run, [each.run for each in all_runs(log)])
    return found


def exported(log: RunLog, run: str | None, thread: str | None) -> Iterator[bytes]:
    """Yield lines as they were written, of one run, one thread or all; raises UnknownRunError."""
    if run is not None:
        find_run(log, run)
        lines = log.lines(folder_name(run.rpartition(".")[0]))
        yield from (line for line in lines if _record(line).get("run") == run)
        return
    for name in _names(log, thread):
        yield from log.lines(name)


def checked(log: RunLog, thread: str | None) -> dict[str, Checked]:
    """Return what is wrong with the records, by thread; raises UnknownRunError."""
    return {_thread(log, name): log.verify(name) for name in _names(log, thread)}


def local(time: object) -> str:
    """Return a time of a record on the clock of the person who reads it."""
    try:
        return f"{datetime.fromisoformat(str(time)).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return "unknown time"


def _number(record: Record, key: str) -> int:
    found = record.get(key)
    return found if isinstance(found, int) else 0


def _names(log: RunLog, thread: str | None) -> list[str]:
    names = log.threads()
    if thread is None:
        return names
    if folder_name(thread) not in names:
        raise UnknownRunError(thread, [_thread(log, name) for name in names])
    return [folder_name(thread)]


def _thread(log: RunLog, name: str) -> str:
    lines = log.lines(name)
    return str(_record(lines[0]).get("thread") or name) if lines else name.partition(".")[0]


def _runs(log: RunLog, name: str) -> list[Run]:
    runs: dict[str, list[Record]] = {}
    for line in log.lines(name):
        record = _record(line)
        if record:
            runs.setdefault(str(record.get("run")), []).append(record)
    last = next(reversed(runs), None)
    return [Run(run, events, run == last) for run, events in runs.items()]


def _record(line: bytes) -> Record:
    """Return a line's record; empty where it is none: `verify` says so."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
