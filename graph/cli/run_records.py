"""The runs in the audit's files: each is the record of one turn of a thread. Imports no LangGraph."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from skills_agent.graph.audit import events
from skills_agent.graph.audit.log import MOST, Record, RunLog, Verification, read, without_repetitions
from skills_agent.graph.cli.printing import local_time
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.errors import list_first
from skills_agent.skills.errors import DetailedError, SkillsAgentError
from skills_agent.skills.text import count

RunOutcome = Literal["done", "cut short", "waiting", "failed", "superseded", "unfinished", "forked"]
"""`superseded`: a new message came while it waited or was cut off; `unfinished`: under way, or cut off."""

_LIST: Final = "skills-agent runs list"


class UnknownRunError(DetailedError, SkillsAgentError):
    """No record of that run is kept in the workspace."""

    sentence = "There is no record of {run!r} here. Records: {records}."
    run: str
    records: str


class RunRecord(NamedTuple):
    """The record of one turn of a thread."""

    run: str
    events: Sequence[Record]
    """At least one, in order."""
    is_last: bool
    """Whether its thread has no later one."""

    @property
    def beginning(self) -> Record:
        """Return the event that says who asked what; empty where it is not in the file."""
        return next(iter([*self._of("run_started"), *self._of("thread_forked")]), {})

    @property
    def outcome(self) -> RunOutcome:
        """Return what the run came to, as its last events tell."""
        if ended := self._of("run_ended"):
            return "cut short" if ended[-1].get("outcome") == "cut short" else "done"
        if not self.is_last:
            return "superseded"
        if self.events[-1].get("type") == "run_failed":
            return "failed"
        if len(self._of("thread_forked", "state_updated")) == len(self.events):
            return "forked"
        # A call that was cut off may be asked about again: its newest event counts.
        newest = {
            event.get("call_id"): event.get("type")
            for event in self._of("approval_asked", "approval_answered", "call_ended")
        }
        return "waiting" if "approval_asked" in newest.values() else "unfinished"

    def as_json(self) -> Record:
        """Return the run as one line of a list."""
        models, beginning = self._of("model_called"), self.beginning
        return {
            "run": self.run,
            "thread": self.events[0].get("thread"),
            "time": self.events[0].get("time"),
            "caller": beginning.get("caller"),
            "outcome": self.outcome,
            "request": beginning.get("request", ""),
            "skills": [event.get("skill") for event in self._of("skill_loaded")],
            "calls": len(self._of("call_ended")),
            "refused": sum(event.get("decision") == "deny" for event in self._of("call_judged")),
            "input_tokens": sum(_number(event, "input_tokens") for event in models),
            "output_tokens": sum(_number(event, "output_tokens") for event in models),
            "cache_read_tokens": sum(_number(event, "cache_read_tokens") for event in models),
            "cache_creation_tokens": sum(_number(event, "cache_creation_tokens") for event in models),
        }

    def story(self) -> str:
        """Return the run as a person reads it. All of it is untrusted."""
        summary, beginning = self.as_json(), self.beginning
        lines = [
            f"Run {self.run}: {self.outcome}, {local_time(summary['time'])}{_caller_text(beginning)}",
            f"Asked: {beginning.get('request', '(the beginning is not in the record)')}",
            "",
        ]
        for event in self.events:
            clock = local_time(event.get("time"))[-8:]
            lines.append(f"{clock}  {event.get('node', '')!s:<9} {events.line_of(event)}")
        tokens = f"{summary['input_tokens']} + {summary['output_tokens']} tokens"
        if summary["cache_read_tokens"]:
            tokens += f", {summary['cache_read_tokens']} of them cached"
        calls = count(summary["calls"], "call")
        return "\n".join([*lines, "", f"{calls}, {summary['refused']} refused, {tokens}"])

    def _of(self, *kinds: str) -> list[Record]:
        return [event for event in self.events if event.get("type") in kinds]


def open_log(settings: Settings) -> RunLog:
    """Return the audit of a workspace; nothing is made."""
    return RunLog(settings.audit_folder, settings.workspace)


def read_runs(log: RunLog, thread: str | None = None) -> list[RunRecord]:
    """Return the runs of all threads or of one, the newest first; raises UnknownRunError."""
    return [run for name in _files(log, thread) for run in reversed(_runs(log, name))]


def find_run(log: RunLog, run: str) -> RunRecord:
    """Return one run; raises UnknownRunError."""
    match = next((record for record in _runs(log, _file_of(run)) if record.run == run), None)
    if match is None:
        raise UnknownRunError(run, list_first([each.run for each in read_runs(log)], _LIST))
    return match


def verify_threads(log: RunLog, thread: str | None) -> dict[str, Verification]:
    """Return what is wrong with the records, by thread; raises UnknownRunError."""
    return {_thread(log, name): log.verify(name) for name in _files(log, thread)}


def is_changed(log: RunLog, run: str) -> bool:
    """Return whether somebody changed the file of a run."""
    return bool(log.verify(_file_of(run)).faults)


def _caller_text(beginning: Record) -> str:
    try:
        return ", " + msgspec.convert(beginning, events.RunStarted).caller_text()
    except (msgspec.ValidationError, UnicodeEncodeError):  # half a character is no text
        return ""


def _number(record: Record, name: str) -> int:
    value = record.get(name)
    return value if isinstance(value, int) and 0 <= value < MOST else 0


def _file_of(run: str) -> str:
    return folder_name(run.rpartition(".")[0])


def _files(log: RunLog, thread: str | None) -> list[str]:
    names = log.threads()
    if thread is None:
        return names
    if folder_name(thread) not in names:
        raise UnknownRunError(thread, list_first([_thread(log, name) for name in names], _LIST))
    return [folder_name(thread)]


def _thread(log: RunLog, name: str) -> str:
    first = next(filter(None, map(read, log.lines(name))), None)
    return str(first.get("thread") or name) if first else name.partition(".")[0]


def _runs(log: RunLog, name: str) -> list[RunRecord]:
    runs: dict[str, list[Record]] = {}
    for record in without_repetitions(filter(None, map(read, log.lines(name)))):
        runs.setdefault(str(record.get("run")), []).append(record)
    last = next(reversed(runs), None)
    return [RunRecord(run, records, run == last) for run, records in runs.items()]
