"""skills-agent threads: see earlier conversations, go on from a step of one, and remove old ones."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, print_json, table
from skills_agent.graph.threads.dsn import without_password

if TYPE_CHECKING:
    from skills_agent.graph.settings import Settings


@click.group()
def threads() -> None:
    """See earlier conversations, go on from a step of one, remove old ones."""


@threads.command("list", epilog="\b\nExamples:\n  skills-agent threads list --json\n")
@options.workspace
@options.checkpointer
@options.as_json
def list_threads(workspace: Path | None, checkpointer: str | None, as_json: bool) -> None:
    """List threads, newest first: when, turns, status, and the first question."""
    from skills_agent.graph.cli.transcript import local_time
    from skills_agent.graph.threads.history import list_history

    found = list_history(_settings(workspace, checkpointer))
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


@threads.command(
    "show",
    epilog="\b\nExamples:\n"
    "  skills-agent threads show t-1f2e3d4c\n"
    "  skills-agent threads show t-1f2e3d4c --steps\n",
)
@click.argument("thread", callback=options.thread_id)
@click.option("--steps", is_flag=True, help="Show instead which nodes ran, and what each step changed.")
@options.workspace
@options.checkpointer
@options.as_json
def show_thread(
    thread: str, steps: bool, workspace: Path | None, checkpointer: str | None, as_json: bool
) -> None:
    """Show what was said and done in THREAD: calls, decisions, results, skills, plan and costs."""
    if steps:
        return _show_steps(thread, _settings(workspace, checkpointer), as_json=as_json)
    from skills_agent.graph.cli.transcript import as_text
    from skills_agent.graph.threads.history import read_history

    history = read_history(_settings(workspace, checkpointer), thread)
    if as_json:
        print_json(history.as_json())
    else:
        echo(as_text(history))
    return None


def _show_steps(thread: str, settings: "Settings", *, as_json: bool) -> None:
    from skills_agent.graph.cli.transcript import steps_text
    from skills_agent.graph.threads.history import archive_of
    from skills_agent.graph.threads.steps import read_steps

    with archive_of(settings, thread) as archive:
        steps = read_steps(archive, thread)
    if as_json:
        print_json({"thread": thread, "steps": [step.as_json() for step in steps]})
    else:
        echo(steps_text(thread, steps))


@threads.command(
    "fork",
    epilog="\b\nExamples:\n"
    "  skills-agent threads fork t-1f2e3d4c --at 7\n"
    "  skills-agent threads fork t-1f2e3d4c --at 7 --without-skill csv-report\n"
    "  skills-agent threads fork t-1f2e3d4c --at 7 --deny call-1-0-5e\n",
)
@click.argument("thread", callback=options.thread_id)
@click.option("--at", "at", metavar="STEP", required=True, help="A number of `threads show THREAD --steps`.")
@click.option(
    "--without-skill",
    "without",
    metavar="NAME",
    multiple=True,
    help="Unload a skill in the fork. Repeatable.",
)
@click.option(
    "--deny", metavar="CALL", multiple=True, help="Answer an open call as refused, by its id. Repeatable."
)
@click.option("--as", "new", callback=options.thread_id, metavar="ID", help="Name the new thread.")
@options.workspace
@options.checkpointer
@options.as_json
def fork(
    thread: str,
    *,
    at: str,
    without: tuple[str, ...],
    deny: tuple[str, ...],
    new: str | None,
    workspace: Path | None,
    checkpointer: str | None,
    as_json: bool,
) -> None:
    """Make a new thread of THREAD as it was after a step; THREAD stays as it is.

    Nothing runs yet. Calls without an answer at that step run only after they were judged again: by the
    gate, and by you where it asks.
    """
    from skills_agent.graph.cli.transcript import fork_text
    from skills_agent.graph.threads.fork import fork_thread
    from skills_agent.graph.threads.history import archive_of

    with archive_of(_settings(workspace, checkpointer), thread) as archive:
        made = fork_thread(archive, thread, at, new=new, without_skills=without, deny=deny)
    command = _way_on(made.status, made.thread, workspace, checkpointer)
    if as_json:
        print_json(made.as_json(command))
    else:
        echo(fork_text(made, command))


@threads.command(
    "prune",
    epilog="\b\nExamples:\n"
    "  skills-agent threads prune --older-than 30d --dry-run\n"
    "  skills-agent threads prune --keep 20 --yes\n"
    "  skills-agent threads prune t-1f2e3d4c --keep 100\n",
)
@click.argument("thread", required=False, callback=options.thread_id)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the N newest threads, or steps.")
@click.option("--older-than", metavar="AGE", help="Remove threads that did not move for 12h, 30d, 8w.")
@click.option("--dry-run", is_flag=True, help="Say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.workspace
@options.checkpointer
@options.as_json
def prune(
    thread: str | None,
    *,
    keep: int | None,
    older_than: str | None,
    dry_run: bool,
    yes: bool,
    workspace: Path | None,
    checkpointer: str | None,
    as_json: bool,
) -> None:
    """Remove threads, or the oldest steps of THREAD.

    Threads that wait for you, were cut off or run now stay. With --keep and --older-than a thread goes that
    is both. What was said before the oldest step that stays of a THREAD stays, too: it is no place to fork
    from any more. Records under .agent/runs stay.
    """
    if keep is None and (older_than is None or thread is not None):
        raise click.UsageError("say what stays: --keep N" + ("" if thread else ", or --older-than 30d"))
    if thread is not None and older_than is not None:
        raise click.UsageError("--older-than is for whole threads; of a THREAD, --keep N steps")
    from skills_agent.graph.cli import pruning

    if thread is not None and keep is not None:
        pruning.prune_steps(
            _settings(workspace, checkpointer), thread, keep, dry_run=dry_run, yes=yes, as_json=as_json
        )
    else:
        pruning.prune_threads(
            _settings(workspace, checkpointer), keep, older_than, dry_run=dry_run, yes=yes, as_json=as_json
        )


@threads.command("delete", epilog="\b\nExamples:\n  skills-agent threads delete t-1f2e3d4c\n")
@click.argument("thread", callback=options.thread_id)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.workspace
@options.checkpointer
@options.as_json
def delete(thread: str, yes: bool, workspace: Path | None, checkpointer: str | None, as_json: bool) -> None:
    """Delete THREAD whole, also when it waits or was cut off. Records under .agent/runs stay."""
    from skills_agent.graph.cli import pruning

    pruning.delete_thread(_settings(workspace, checkpointer), thread, yes=yes, as_json=as_json)


def _settings(workspace: Path | None, checkpointer: str | None) -> "Settings":
    from skills_agent.graph.settings import Settings

    return Settings.load(workspace, checkpointer=checkpointer)


def _way_on(status: str, thread: str, workspace: Path | None, checkpointer: str | None) -> str:
    """Return the command that goes on with a thread, for the shell the person is in."""
    words = {
        "done": ["ask", "QUESTION", "--thread", thread],
        "waiting": ["resume", thread, "--approve"],
        "unfinished": ["resume", thread],
    }[status]
    elsewhere = [] if workspace in (None, Path.cwd()) else ["--workspace", str(workspace)]
    if checkpointer:
        elsewhere += ["--checkpointer", without_password(checkpointer)]
    return shlex.join(["skills-agent", *words, *elsewhere])
