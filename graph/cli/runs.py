"""skills-agent runs: what was asked, judged, approved and done, from the audit."""

from collections.abc import Iterator
from pathlib import Path

import click

from skills_agent.graph.audit.log import Record, Verification
from skills_agent.graph.audit.redaction import redaction_of
from skills_agent.graph.cli import options, run_records
from skills_agent.graph.cli.printing import echo, line_of, local_time, print_json, table
from skills_agent.graph.settings import Settings


@click.group()
def runs() -> None:
    """See the record of every run, and whether anybody changed it."""


@runs.command("list", epilog=options.examples("runs list --thread t-1f2e3d4c"))
@click.option("--thread", metavar="ID", help="Only of this thread.")
@options.workspace
@options.as_json
def list_runs(thread: str | None, workspace: Path | None, as_json: bool) -> None:
    """List runs, newest first: a run is one turn of a thread."""
    lines = [
        run.as_json() for run in run_records.read_runs(run_records.open_log(Settings.load(workspace)), thread)
    ]
    if as_json:
        print_json(lines)
        return
    header = ("RUN", "WHEN", "OUTCOME", "CALLS", "REFUSED", "BY", "REQUEST")
    table(list(map(_row, lines)), header=header, empty="No runs are recorded here yet.")


@runs.command("show", epilog=options.examples("runs show t-1f2e3d4c.1"))
@click.argument("run")
@options.workspace
@options.as_json
def show_run(run: str, workspace: Path | None, as_json: bool) -> None:
    """Show what happened in RUN, in order."""
    settings = Settings.load(workspace)
    log = run_records.open_log(settings)
    record = redaction_of(settings).whole(run_records.find_run(log, run))
    if run_records.is_changed(log, run):
        thread = line_of(str(record.events[0].get("thread")))
        click.echo(f"warning: this record was changed; see skills-agent runs verify {thread}", err=True)
    if as_json:
        print_json(list(record.events))
    else:
        echo(record.story())


@runs.command("verify", epilog=options.examples("runs verify", "runs verify t-1f2e3d4c"))
@click.argument("thread", required=False)
@options.workspace
@options.as_json
def verify_runs(thread: str | None, workspace: Path | None, as_json: bool) -> None:
    """Check that no line of the records was changed, removed, added or moved; exits with 1 if one was.

    What it cannot find: somebody who writes the whole rest of a file and its head anew. Keep the heads that
    --json prints on another machine, and compare.
    """
    threads = run_records.verify_threads(run_records.open_log(Settings.load(workspace)), thread)
    if as_json:
        print_json(threads)
    elif not threads:
        click.echo("No runs are recorded here yet.")
    else:
        for name, each in threads.items():
            click.echo("\n".join(_verification_lines(name, each)))
    if any(verification.faults for verification in threads.values()):
        raise click.exceptions.Exit(1)


def _row(line: Record) -> tuple[str, ...]:
    counts = str(line["calls"]), str(line["refused"])
    return (
        line["run"],
        local_time(line["time"]),
        line["outcome"],
        *counts,
        str(line["caller"] or "-"),
        str(line["request"]),
    )


def _verification_lines(thread: str, verification: Verification) -> Iterator[str]:
    name, torn = line_of(thread), verification.torn
    if not verification.faults:
        note = f" A killed process left {torn} bytes of a line at its end." if torn else ""
        yield f"{name}: {verification.lines} lines, as they were written.{note}"
    for fault in verification.faults:
        yield f"{name}: {f'line {fault.line}' if fault.line else 'the file'} {line_of(fault.text)}."
