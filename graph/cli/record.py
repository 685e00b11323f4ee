"""skills-agent threads record: what was asked, judged, approved and done. Imports no LangGraph."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click

from skills_agent.graph.audit import events
from skills_agent.graph.audit.events import Record
from skills_agent.graph.audit.log import MOST, RunLog, read, without_repetitions
from skills_agent.graph.audit.redaction import redaction_of
from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, local_time, print_json, table
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.settings import Settings
from skills_agent.skills.errors import SkillsAgentError, did_you_mean, list_names
from skills_agent.skills.text import count

RunOutcome = Literal["done", "cut short", "waiting", "failed", "superseded", "unfinished", "forked"]
"""`superseded`: a new message came while it waited or was cut off; `unfinished`: under way, or cut off."""

_NONE: Final = "No runs are recorded here yet."
_COLUMNS: Final = ("run", "time", "outcome", "calls", "refused", "caller", "request")
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")


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
        models = self._of("model_called")
        return {
            "run": self.run,
            "thread": self.events[0].get("thread"),
            "time": self.events[0].get("time"),
            "caller": self.beginning.get("caller"),
            "outcome": self.outcome,
            "request": self.beginning.get("request", ""),
            "skills": [event.get("skill") for event in self._of("skill_loaded")],
            "calls": len(self._of("call_ended")),
            "refused": sum(event.get("decision") == "deny" for event in self._of("call_judged")),
            **{name: sum(_number(event.get(name)) for event in models) for name in _TOKENS},
        }

    def story(self) -> str:
        """Return the run as a person reads it. All of it is untrusted."""
        summary = self.as_json()
        lines = [
            f"Run {self.run}: {self.outcome}, {local_time(summary['time'])}{self._caller_text()}",
            f"Asked: {self.beginning.get('request', '(the beginning is not in the record)')}",
            "",
        ]
        for event in self.events:
            clock = local_time(event.get("time"))[-8:]
            lines.append(f"{clock}  {event.get('node', '')!s:<9} {events.line_of(event)}")
        cached = summary["cache_read_tokens"]
        tokens = f"{summary['input_tokens']} + {summary['output_tokens']} tokens"
        tokens += f", {cached} of them cached" if cached else ""
        calls = count(summary["calls"], "call")
        return "\n".join([*lines, "", f"{calls}, {summary['refused']} refused, {tokens}"])

    def _caller_text(self) -> str:
        try:
            return f", {events.caller_text(self.beginning)}"
        except (KeyError, TypeError):
            return ""

    def _of(self, *kinds: str) -> list[Record]:
        return [event for event in self.events if event.get("type") in kinds]


@click.command(
    epilog=options.examples(
        "threads record",
        "threads record t-1f2e3d4c",
        "threads record t-1f2e3d4c.1",
        "threads record --verify",
    )
)
@click.argument("name", metavar="[THREAD|RUN]", required=False)
@click.option(
    "--verify",
    is_flag=True,
    help="Check that no line was changed, removed, added or moved; exits with 1 if one was.",
)
@options.workspace
@options.as_json
def record(*, name: str | None, verify: bool, workspace: Path | None, as_json: bool) -> None:
    """Show the record of all runs, of the runs of THREAD, or of one RUN.

    A run is one turn of a thread; the newest is first. --verify cannot detect somebody who rewrites the whole
    rest of a file and its head: keep the heads that --verify --json prints on another machine, and compare.
    """
    settings = Settings.load(workspace)
    log = RunLog(settings.audit_folder, settings.workspace)
    if verify:
        _verify(log, _files(log, name), as_json=as_json)
    elif run := _run(log, name or ""):
        _show(settings, log, run, as_json=as_json)
    else:
        _list(log, _files(log, name), as_json=as_json)


def _list(log: RunLog, names: Sequence[str], *, as_json: bool) -> None:
    lines = [run.as_json() for name in names for run in reversed(_runs(log, name))]
    if as_json:
        print_json(lines)
        return
    rows = [{**line, "time": local_time(line["time"]), "caller": line["caller"] or "-"} for line in lines]
    cells, header = ([str(row[name]) for name in _COLUMNS] for row in rows), map(str.upper, _COLUMNS)
    table([*cells], header=[*header], empty=_NONE)


def _show(settings: Settings, log: RunLog, run: RunRecord, *, as_json: bool) -> None:
    shown = redaction_of(settings).whole(run)
    thread = run.run.rpartition(".")[0]
    if log.verify(folder_name(thread)).faults:
        command = f"skills-agent threads record {line_of(thread)} --verify"
        click.echo(f"warning: this record was changed; see {command}", err=True)
    print_json(list(shown.events)) if as_json else echo(shown.story())


def _verify(log: RunLog, names: Sequence[str], *, as_json: bool) -> None:
    threads = {_thread(log, name): log.verify(name) for name in names}
    if as_json:
        print_json(threads)
    elif not threads:
        click.echo(_NONE)
    else:
        for name, each in threads.items():
            torn = f", and {each.torn} bytes of one that a killed process left" if each.torn else ""
            for line in each.faults or [f"{each.lines} lines, as they were written{torn}"]:
                echo(f"{line_of(name)}: {line_of(line)}.")
    if any(verification.faults for verification in threads.values()):
        raise click.exceptions.Exit(1)


def _files(log: RunLog, name: str | None) -> list[str]:
    names = log.threads()
    if name is None:
        return names
    if (own := folder_name(name)) in names:
        # Those of its forks have no name that a file can have.
        forks = (each for each in names if "." not in each and _thread(log, each).startswith(f"{name}/"))
        return [own, *forks]
    threads = [_thread(log, each) for each in names]
    hint = did_you_mean(name, threads) or f"Records: {list_names(threads)}."
    raise SkillsAgentError(f"There is no record of {name!r} here. {hint}", code="unknown-run")


def _run(log: RunLog, name: str) -> RunRecord | None:
    return next((each for each in _runs(log, folder_name(name.rpartition(".")[0])) if each.run == name), None)


def _thread(log: RunLog, name: str) -> str:
    first = next(filter(None, map(read, log.lines(name))), None)
    return str(first.get("thread") or name) if first else name.partition(".")[0]


def _runs(log: RunLog, name: str) -> list[RunRecord]:
    runs: dict[str, list[Record]] = {}
    for record in without_repetitions(filter(None, map(read, log.lines(name)))):
        runs.setdefault(str(record.get("run")), []).append(record)
    last = next(reversed(runs), None)
    return [RunRecord(run, records, run == last) for run, records in runs.items()]


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < MOST else 0
