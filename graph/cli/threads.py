"""skills-agent threads: see earlier conversations."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, print_json, table


@click.group()
def threads() -> None:
    """See earlier conversations."""


@threads.command("list", epilog="\b\nExamples:\n  skills-agent threads list --json\n")
@options.workspace
@options.checkpointer
@options.as_json
def list_threads(workspace: Path | None, checkpointer: str | None, as_json: bool) -> None:
    """List threads, newest first: when, turns, status, and the first question."""
    from skills_agent.graph.cli.history import list_history
    from skills_agent.graph.cli.transcript import local_time

    found = list_history(workspace, checkpointer)
    if as_json:
        print_json([line._asdict() for line in found])
    elif not found:
        click.echo('No threads yet. Begin one: skills-agent ask "QUESTION"')
    else:
        rows: list[tuple[str, ...]] = [("THREAD", "WHEN", "TURNS", "STATUS", "FIRST QUESTION")]
        rows += [
            (line.thread, local_time(line), str(line.turns), line.status, line.question) for line in found
        ]
        table(rows)


@threads.command("show", epilog="\b\nExamples:\n  skills-agent threads show t-1f2e3d4c\n")
@click.argument("thread", callback=options.thread_id)
@options.workspace
@options.checkpointer
@options.as_json
def show_thread(thread: str, workspace: Path | None, checkpointer: str | None, as_json: bool) -> None:
    """Show what was said and done in THREAD: calls, decisions, results, skills, plan and costs."""
    from skills_agent.graph.cli.history import read_history
    from skills_agent.graph.cli.transcript import as_text

    history = read_history(workspace, checkpointer, thread)
    if as_json:
        print_json(history.as_json())
    else:
        echo(as_text(history))
