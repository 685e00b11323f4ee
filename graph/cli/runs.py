"""skills-agent runs: what was asked, judged, approved and done, from the audit."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, local_time, print_json, table

if TYPE_CHECKING:
    from skills_agent.graph.audit.log import Verification


@click.group()
def runs() -> None:
    """See the record of every run, and whether anybody changed it."""


_thread = click.option("--thread", metavar="ID", help="Only of this thread.")


@runs.command("list", epilog="\b\nExamples:\n  skills-agent runs list --thread t-1f2e3d4c\n")
@_thread
@options.workspace
@options.as_json
def list_runs(thread: str | None, workspace: Path | None, as_json: bool) -> None:
    """List runs, newest first: a run is one turn of a thread."""
    from skills_agent.graph.cli.run_records import open_log, read_runs

    lines = [run.as_json() for run in read_runs(open_log(workspace), thread)]
    if as_json:
        print_json(lines)
    elif not lines:
        click.echo("No runs are recorded here yet.")
    else:
        rows: list[tuple[str, ...]] = [("RUN", "WHEN", "OUTCOME", "CALLS", "REFUSED", "BY", "REQUEST")]
        for line in lines:
            counts = str(line["calls"]), str(line["refused"])
            request = line["caller"] or "-", line["request"]
            rows.append((line["run"], local_time(line["time"]), line["outcome"], *counts, *request))
        table(rows)


@runs.command("show", epilog="\b\nExamples:\n  skills-agent runs show t-1f2e3d4c.1\n")
@click.argument("run")
@options.workspace
@options.as_json
def show_run(run: str, workspace: Path | None, as_json: bool) -> None:
    """Show what happened in RUN, in order."""
    from skills_agent.graph.cli.run_records import find_run, is_changed, open_log

    log = open_log(workspace)
    record = find_run(log, run)
    if is_changed(log, run):
        thread = line_of(str(record.events[0].get("thread")))
        click.echo(f"warning: this record was changed; see skills-agent runs verify {thread}", err=True)
    if as_json:
        print_json(list(record.events))
    else:
        echo(record.story())


@runs.command(
    "export", epilog="\b\nExamples:\n  skills-agent runs export --thread t-1f2e3d4c -o thread.jsonl\n"
)
@click.argument("run", required=False)
@_thread
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Not to stdout."
)
@options.workspace
def export_runs(run: str | None, thread: str | None, output: Path | None, workspace: Path | None) -> None:
    """Print the lines of RUN, of a thread, or of all, as they were written (JSON Lines).

    Secrets were taken out before they were written. The lines of a whole thread can be checked wherever
    they are; those of one run are a piece of their thread's chain.
    """
    if run and thread:
        raise click.UsageError("name a run or a thread, not both")
    from skills_agent.graph.cli.run_records import open_log, read_lines

    lines = read_lines(open_log(workspace), run, thread)
    if output is None:
        sys.stdout.buffer.writelines(line + b"\n" for line in lines)
        return
    content = b"".join(line + b"\n" for line in lines)
    try:
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
    except OSError as error:
        raise click.ClickException(f"Cannot write {output}: {error.strerror}.") from error


@runs.command(
    "verify", epilog="\b\nExamples:\n  skills-agent runs verify\n  skills-agent runs verify t-1f2e3d4c\n"
)
@click.argument("thread", required=False)
@options.workspace
@options.as_json
def verify_runs(thread: str | None, workspace: Path | None, as_json: bool) -> None:
    """Check that no line of the records was changed, removed, added or moved; exits with 1 if one was.

    What it cannot find: somebody who writes the whole rest of a file and its head anew. Keep the heads that
    --json prints on another machine, and compare.
    """
    from skills_agent.graph.cli.run_records import open_log, verify_threads

    threads = verify_threads(open_log(workspace), thread)
    if as_json:
        print_json(threads)
    elif not threads:
        click.echo("No runs are recorded here yet.")
    else:
        echo("\n".join(line for name, each in threads.items() for line in _verification_lines(name, each)))
    if any(verification.faults for verification in threads.values()):
        raise click.exceptions.Exit(1)


def _verification_lines(thread: str, verification: "Verification") -> Iterator[str]:
    name, torn = line_of(thread), verification.torn
    if not verification.faults:
        note = f" A killed process left {torn} bytes of a line at its end." if torn else ""
        yield f"{name}: {verification.lines} lines, as they were written.{note}"
    for fault in verification.faults:
        yield f"{name}: {f'line {fault.line}' if fault.line else 'the file'} {line_of(fault.text)}."
