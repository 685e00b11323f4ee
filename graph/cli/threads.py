"""skills-agent threads: see earlier conversations, go on from a step of one, and remove old ones."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.garbage import imports_done
from skills_agent.graph.cli.printing import (
    ask_for_yes,
    echo,
    is_terminal,
    local_time,
    print_json,
    table,
)
from skills_agent.graph.threads.database import is_eval_thread
from skills_agent.graph.threads.errors import AgeError, list_first
from skills_agent.skills.text import count

T = TypeVar("T")

if TYPE_CHECKING:
    from skills_agent.graph.threads.threads import Threads


@click.group()
def threads() -> None:
    """See earlier conversations, go on from a step of one, remove old ones."""


@threads.command("list", epilog=options.examples("threads list --json"))
@click.option("--evals", "with_evals", is_flag=True, help="Also list the threads of eval cases.")
@options.database
@options.as_json
def list_threads(with_evals: bool, as_json: bool, **database: Any) -> None:
    """List threads, newest first: when, turns, status, and the first question."""
    with open_threads(**database) as opened:
        every = _shown(opened, opened.list())
        summaries = [each for each in every if with_evals or not is_eval_thread(each.thread)]
    if as_json:
        print_json([summary._asdict() for summary in summaries])
        return
    table(
        [
            (each.thread, local_time(each.when), str(each.turns), each.status, each.question)
            for each in summaries
        ],
        header=("THREAD", "WHEN", "TURNS", "STATUS", "FIRST QUESTION"),
        empty='No threads yet. Begin one: skills-agent ask "QUESTION"',
    )
    if hidden := len(every) - len(summaries):
        click.echo(f"Not listed: {count(hidden, 'thread')} of eval cases (--evals).")


@threads.command(
    "show", epilog=options.examples("threads show t-1f2e3d4c", "threads show t-1f2e3d4c --steps")
)
@click.argument("thread", callback=options.thread_id)
@click.option("--steps", is_flag=True, help="Show instead which nodes ran, and what each step changed.")
@options.database
@options.as_json
def show_thread(thread: str, steps: bool, as_json: bool, **database: Any) -> None:
    """Show what was said and done in THREAD: calls, decisions, results, skills, plan and costs."""
    from skills_agent.graph.cli.transcript import as_text, steps_text

    with open_threads(**database) as opened:
        if steps:
            listed = _shown(opened, opened.steps(thread))
            value = {"thread": thread, "steps": [step.as_json() for step in listed]}
            text = steps_text(thread, listed)
        else:
            record = _shown(opened, opened.read(thread))
            value, text = record.as_json(), as_text(record)
    print_json(value) if as_json else echo(text)


@threads.command(
    "fork",
    epilog=options.examples("threads fork t-1f2e3d4c --at 7 --without-skill csv-report"),
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
@click.option("--as", "new", callback=options.thread_id, metavar="ID", help="Name the new thread.")
@options.database
@options.as_json
def fork(
    thread: str,
    *,
    at: str,
    without: tuple[str, ...],
    new: str | None,
    as_json: bool,
    **database: Any,
) -> None:
    """Make a new thread of THREAD as it was after a step; THREAD stays as it is.

    Nothing runs yet. Calls without an answer at that step run only after they were judged again: by the
    gate, and by you where it asks.
    """
    from skills_agent.graph.cli.transcript import fork_text

    with open_threads(**database) as opened:
        made = _shown(opened, opened.fork(thread, at, new=new, without_skills=without))
    is_done = made.status == "done"
    words = ("ask", "QUESTION", "--thread", made.thread) if is_done else ("resume", made.thread)
    command = options.shell_command(*words, **database)
    print_json({**made._asdict(), "resume": command}) if as_json else echo(fork_text(made, command))


@threads.command(
    "prune",
    epilog=options.examples("threads prune --older-than 30d --dry-run", "threads prune --keep 20 --yes"),
)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the N newest threads.")
@click.option("--older-than", metavar="AGE", help="Remove threads that did not move for 12h, 30d, 8w.")
@click.option("--dry-run", is_flag=True, help="Say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.database
@options.as_json
def prune(
    *, keep: int | None, older_than: str | None, dry_run: bool, yes: bool, as_json: bool, **database: Any
) -> None:
    """Remove old threads.

    Threads that wait for you, were cut off or run now stay. With --keep and --older-than a thread goes that
    is both. Records under .agent/runs stay.
    """
    if keep is None and older_than is None:
        raise click.UsageError("say what stays: --keep N, or --older-than 30d")
    with open_threads(**database) as opened:
        try:
            pruned = opened.prune(keep=keep, older_than=older_than, dry_run=True)
        except AgeError as error:
            raise click.UsageError(f"--older-than: {error}") from error
        names = f"{count(len(pruned.threads), 'thread')}: {list_first(pruned.threads, '--json')}"
        if pruned.threads and not dry_run:
            _remove(opened, pruned.threads, f"Remove {names}?", yes=yes)
    if as_json:
        print_json({**pruned._asdict(), "dry_run": dry_run})
        return
    echo(f"{'Would remove' if dry_run else 'Removed'} {names if pruned.threads else 'nothing'}.")
    if pruned.kept_open:
        kept = list_first(pruned.kept_open, "--json")
        echo(f"Not done, so kept: {kept}. One of them: skills-agent threads delete THREAD")


@threads.command("unload", epilog=options.examples("threads unload t-1f2e3d4c csv-report"))
@click.argument("thread", callback=options.thread_id)
@click.argument("skill", metavar="NAME")
@options.database
def unload(thread: str, skill: str, **database: Any) -> None:
    """Take the skill NAME out of THREAD; no model is asked."""
    with open_threads(**database) as opened:
        opened.unload(thread, skill)
    echo(f"Unloaded {skill} in {thread}.")


@threads.command("delete", epilog=options.examples("threads delete t-1f2e3d4c"))
@click.argument("thread", callback=options.thread_id)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.database
@options.as_json
def delete(thread: str, yes: bool, as_json: bool, **database: Any) -> None:
    """Delete THREAD whole, also when it waits or was cut off. Records under .agent/runs stay."""
    with open_threads(**database) as opened:
        opened.check(thread)
        _remove(opened, [thread], f"Delete thread {thread}?", yes=yes)
    print_json({"threads": [thread]}) if as_json else echo(f"Removed thread {thread}.")


def open_threads(
    workspace: Path | None = None, checkpointer: str | None = None, *, create: bool = False
) -> AbstractContextManager["Threads"]:
    """Open the threads of a workspace, or of the database that the command line names."""
    from skills_agent.graph.settings import Settings
    from skills_agent.graph.threads.threads import Threads

    imports_done()
    return Threads.open(Settings.load(workspace, checkpointer=checkpointer), create=create)


def _shown(opened: "Threads", value: T) -> T:
    """Return what a thread keeps, in clear, without secrets."""
    shown: T = opened.graph.services.audit.redaction.whole(value)
    return shown


def _remove(opened: "Threads", threads: Sequence[str], question: str, *, yes: bool) -> None:
    if not yes:
        if not is_terminal():
            raise click.UsageError("nobody can be asked here: say --yes, or --dry-run to see what would go")
        ask_for_yes(question)
    opened.delete(*threads)
    opened.compact()
