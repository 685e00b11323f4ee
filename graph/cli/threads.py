"""skills-agent threads: see earlier conversations, go on from a step of one, and remove old ones."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.lazy import LazyGroup
from skills_agent.graph.cli.printing import confirm, echo, local_time, print_json, table
from skills_agent.graph.cli.working import loading
from skills_agent.graph.hooks import Command, needed
from skills_agent.skills.errors import list_names
from skills_agent.skills.text import count

T = TypeVar("T")

if TYPE_CHECKING:
    from skills_agent.graph.threads.threads import Threads


_RECORD = Command(
    "skills_agent.graph.cli.record:record", "Show the record of runs, and whether anybody changed it."
)


@click.group(cls=LazyGroup, path="threads", late={"record": _RECORD})
def threads() -> None:
    """See earlier conversations and their records, or go on from a step."""


@threads.command("list", epilog=options.examples("threads list --json"))
@options.workspace
@options.as_json
def list_threads(workspace: Path | None, as_json: bool) -> None:
    """List the threads of this workspace, newest first, without those of eval cases."""
    from skills_agent.graph.threads.database import is_eval_thread

    with open_threads(workspace) as opened:
        summaries = [each for each in _shown(opened, opened.list()) if not is_eval_thread(each.thread)]
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


@threads.command(
    "show", epilog=options.examples("threads show t-1f2e3d4c", "threads show t-1f2e3d4c --steps")
)
@click.argument("thread", required=False, callback=options.thread_id)
@click.option("--steps", is_flag=True, help="Show instead which nodes ran, and what each step changed.")
@options.html
@options.workspace
@options.as_json
def show_thread(
    thread: str | None, steps: bool, html: TextIO | None, workspace: Path | None, as_json: bool
) -> None:
    """Show what was said and done in THREAD, by default in the newest one of this workspace.

    Calls, your decisions, their results, skills, plan and costs.
    """
    from skills_agent.graph.cli.transcript import as_text, steps_text

    with open_threads(workspace) as opened:
        thread = thread or opened.newest()
        if html:
            whole = _shown(opened, opened.read(thread)), _shown(opened, opened.steps(thread))
            needed("pages", "--html")(html, *whole, opened.graph)
        if steps:
            listed = _shown(opened, opened.steps(thread))
            value = {"thread": thread, "steps": [step._asdict() for step in listed]}
            text = steps_text(thread, listed)
        else:
            record = _shown(opened, opened.read(thread))
            value, text = record.as_json(), as_text(record)
    if html and html.name == "-":  # The page is on stdout, and nothing else.
        return
    print_json(value) if as_json else echo(f"Wrote {html.name}." if html else text)


@threads.command("revoke", epilog=options.examples("threads revoke t-1f2e3d4c call-0-1"))
@click.argument("thread", callback=options.thread_id)
@click.argument("decision", metavar="ID")
@options.workspace
def revoke(thread: str, decision: str, workspace: Path | None) -> None:
    """Take back the grant ID of THREAD, so that you are asked again."""
    with open_threads(workspace) as opened:
        opened.revoke(thread, decision)
    echo(f"Revoked {decision} in {thread}.")


@threads.command("fork", epilog=options.examples("threads fork t-1f2e3d4c --at 7"))
@click.argument("thread", callback=options.thread_id)
@click.option("--at", metavar="STEP", required=True, help="A number of `threads show THREAD --steps`.")
@options.workspace
@options.as_json
def fork(thread: str, *, at: str, workspace: Path | None, as_json: bool) -> None:
    """Start a new thread from THREAD as it was after a step.

    THREAD stays as it is, and nothing runs yet. Calls without an answer at that step run only after they were
    judged again: by the gate, and by you where it asks.
    """
    from skills_agent.graph.cli.transcript import fork_text

    with open_threads(workspace) as opened:
        made = _shown(opened, opened.fork(thread, at))
    words = ("ask", "QUESTION", "--thread", made.thread) if made.status == "done" else ("resume", made.thread)
    command = options.shell_command(*words, workspace=workspace)
    print_json({**made._asdict(), "resume": command}) if as_json else echo(fork_text(made, command))


@threads.command(
    "delete", epilog=options.examples("threads delete t-1f2e3d4c", "threads delete --older-than 30d --yes")
)
@click.argument("names", metavar="[THREAD]...", nargs=-1)
@click.option(
    "--older-than", metavar="AGE", help="All that are done and have not changed for this long: 12h, 30d, 8w."
)
@options.unasked
@options.workspace
@options.as_json
def delete(
    names: tuple[str, ...], older_than: str | None, yes: bool, workspace: Path | None, as_json: bool
) -> None:
    """Delete each THREAD, or all old ones.

    A THREAD that waits or was cut off is deleted, too. Records under .agent/runs stay.
    """
    if bool(names) == bool(older_than):
        raise click.UsageError("say which: THREAD..., or --older-than 30d")
    with open_threads(workspace) as opened:
        if older_than:
            names = tuple(opened.prune(older_than=older_than, dry_run=True))
        opened.check(*names)
        listed = f"{count(len(names), 'thread')}: {list_names(names)}" if names else "nothing"
        if names:
            confirm(f"Remove {listed}?", yes=yes)
        opened.delete(*names)
        opened.compact()
    print_json({"threads": list(names)}) if as_json else echo(f"Removed {listed}.")


def open_threads(workspace: Path | None = None) -> AbstractContextManager["Threads"]:
    """Open the threads of a workspace; where there are none, nothing is made."""
    with loading():
        from skills_agent.graph.settings import Settings
        from skills_agent.graph.threads.threads import Threads

    return Threads.open(Settings.load(workspace))


def _shown(opened: "Threads", value: T) -> T:
    """Return what a thread keeps, in clear, without secrets."""
    return cast("T", opened.graph.services.audit.redaction.whole(value))
