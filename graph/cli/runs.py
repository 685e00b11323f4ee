"""skills-agent runs: what was asked, judged, approved and done, from the audit."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json, table


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
    from skills_agent.graph.cli.run_records import all_runs, local, open_log

    found = [run.as_json() for run in all_runs(open_log(workspace), thread)]
    if as_json:
        print_json(found)
    elif not found:
        click.echo("No runs are recorded here yet.")
    else:
        rows: list[tuple[str, ...]] = [("RUN", "WHEN", "OUTCOME", "CALLS", "REFUSED", "BY", "REQUEST")]
        rows += [
            (
                *(each["run"], local(each["time"]), each["outcome"], str(each["calls"])),
                *(str(each["refused"]), each["caller"] or "-", each["request"]),
            )
            for each in found
        ]
        table(rows)


@runs.command("show", epilog="\b\nExamples:\n  skills-agent runs show t-1f2e3d4c.1\n")
@click.argument("run")
@options.workspace
@options.as_json
def show_run(run: str, workspace: Path | None, as_json: bool) -> None:
    """Tell what happened in RUN, in order."""
    from skills_agent.graph.cli.run_records import find_run, open_log
    from skills_agent.graph.cli.run_story import story
    from skills_agent.graph.threads.names import folder_name

    log = open_log(workspace)
    found = find_run(log, run)
    if log.verify(folder_name(run.rpartition(".")[0])).faults:
        thread = found.started.get("thread")
        click.echo(
            f"warning: this record was changed; see skills-agent runs verify {line_of(str(thread))}", err=True
        )
    if as_json:
        print_json(list(found.events))
    else:
        echo(story(found))


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
    from skills_agent.graph.cli.run_records import exported, open_log

    lines = exported(open_log(workspace), run, thread)
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
    from skills_agent.graph.cli.run_records import checked, open_log

    found = checked(open_log(workspace), thread)
    if as_json:
        print_json({name: _as_json(each) for name, each in found.items()})
    else:
        for name, each in found.items():
            torn = f" A killed process left {each.torn} bytes of a line at its end." if each.torn else ""
            if not each.faults:
                click.echo(f"{line_of(name)}: {each.lines} lines, as they were written.{torn}")
            for fault in each.faults:
                where = f"line {fault.line}" if fault.line else "the file"
                click.echo(f"{line_of(name)}: {where} {line_of(fault.text)}.")
        if not found:
            click.echo("No runs are recorded here yet.")
    if any(each.faults for each in found.values()):
        raise click.exceptions.Exit(1)


def _as_json(checked: Any) -> dict[str, Any]:
    head = checked.head
    return {
        "lines": checked.lines,
        "head": head.hash if head else None,
        "faults": [{"line": fault.line, "text": fault.text} for fault in checked.faults],
        "torn": checked.torn,
    }
