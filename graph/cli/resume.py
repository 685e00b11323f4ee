"""skills-agent resume: go on with a thread that waits or was cut off."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.working import loading
from skills_agent.graph.hooks import hook
from skills_agent.graph.threads.errors import ThreadError

if TYPE_CHECKING:  # `skills-agent resume -h` needs no LangGraph
    from skills_agent.graph.cli.thread import GraphInput, OpenThread

EXAMPLES: Final = options.examples(
    "resume t-1f2e3d4c --approve",
    "resume t-1f2e3d4c --approve --always skill",
    'resume t-1 --approve --always "run_script(scripts/*.py)"',
    'resume t-1 --reject --message "The other file"',
    'resume t-1f2e3d4c --message "The second"',
    "resume t-1f2e3d4c --decisions answers.json",
)


@click.command(epilog=EXAMPLES)
@click.argument("thread", callback=options.thread_id, required=False)
@click.option("--approve", "answer", flag_value="approve", help="Run the open calls.")
@click.option("--reject", "answer", flag_value="reject", help="Refuse the open calls.")
@click.option(
    "--message", metavar="TEXT", default="", help="Your words: with --reject, or to a question of the agent."
)
@click.option(
    "--always",
    metavar="SCOPE",
    help="With --approve: do not ask again about this tool for its `skill`, or in this `thread`, or about "
    "calls that an entry as in allowed-tools permits.",
)
@click.option(
    "--decisions",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="A JSON file (- is stdin): a list with an answer for each open call, in the order shown.",
)
@click.option(
    "--attempt",
    "attempts",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="With an answer about a call that was cut off: to which attempt. Repeatable.",
)
@options.agent
@options.as_json
def resume(
    thread: str | None,
    *,
    answer: str | None,
    message: str,
    always: str | None,
    decisions: TextIO | None,
    attempts: tuple[int, ...],
    as_json: bool,
    verbose: bool,
    **chosen: Any,
) -> None:
    """Go on with THREAD: answer its open question, or finish a turn that was cut off.

    Without THREAD it is the only one that waits or was cut off; of several, their names are printed.
    Without an answer you are asked on a terminal; elsewhere the open question is printed. Each of
    --decisions is {"type": "approve"} (with "grant": {"scope": "skill"}, "thread", or "pattern" and
    "pattern": ENTRY), {"type": "reject", "message": TEXT}, {"type": "edit", "edited_action":
    {"name": TOOL, "args": {...}}}, or {"type": "respond", "message": TEXT} for a question of the agent.
    An approval about a call that was cut off is for one attempt: the command that is printed with the
    question names it. The thread keeps its skill folders and its model; --yes holds for this command alone.
    """
    answer = answer or ("respond" if message else None)
    if message and answer == "approve":
        raise click.UsageError("--message goes with --reject, or answers a question of the agent")
    if always and answer != "approve":
        raise click.UsageError("--always goes with --approve")
    if decisions and answer:
        raise click.UsageError("--decisions says it for each call: leave out the other answers")
    if attempts and not (answer or decisions):
        raise click.UsageError("--attempt goes with an answer")

    with loading():
        from skills_agent.graph.cli.thread import open_thread, run_once
    from skills_agent.skills.policy.verdict import AnswerRefusedError

    thread = thread or _the_open_one(chosen["workspace"], as_json=as_json)
    decision = _read(decisions) if decisions else _decision(answer, message, always)
    with open_thread(thread, must_exist=True, quiet=as_json, **chosen) as current:
        current.progress.is_verbose = verbose
        for later in hook("held") if current.status == "done" else ():
            later.ask(current)
        try:
            run_once(current, _input(current, decision, attempts))
        except AnswerRefusedError as error:
            raise click.UsageError(str(error)) from error


def _input(
    thread: "OpenThread", decision: dict[str, Any] | list[Any] | None, attempts: Collection[int]
) -> "GraphInput":
    """Return the input that goes on: with one decision for all open calls, or one for each.

    `attempts` are those of cut-off calls that the decision is for. Raises ThreadError where there is
    nothing to resume, or nothing to answer, or where it is for another attempt.
    """
    from skills_agent.graph.cli.approval import make_answer

    if thread.status == "done":
        raise ThreadError(f"Thread {thread.name} has nothing to resume: its last turn is answered.")
    if decision is None:
        return None
    if thread.status == "unfinished":
        raise ThreadError(
            f"Thread {thread.name} has no open question: it was cut off. To go on: {thread.resume_command}"
        )
    asked = thread.attempts
    if attempts and sorted(set(attempts)) != asked:
        of = f"attempt {', '.join(map(str, asked))} of a call" if asked else "no call that was cut off"
        raise ThreadError(
            f"The open question of thread {thread.name} is about {of}. Read it, and answer again: "
            f"{thread.resume_command}"
        )
    # A command that is typed again would run a call once more after each crash.
    decisions = decision if isinstance(decision, list) else [decision]
    is_approved = any(isinstance(each, dict) and each.get("type") != "reject" for each in decisions)
    if is_approved and not attempts and max(asked, default=1) > 1:
        raise click.UsageError(f"say which attempt is answered: {thread.approve_command}")
    return make_answer(thread.interrupts, decision)


def _the_open_one(workspace: Path | None, *, as_json: bool) -> str:
    """Return the thread that waits or was cut off; more than one is wrong usage, and they are named."""
    from skills_agent.graph.cli.threads import open_threads

    with open_threads(workspace) as opened:
        names = {
            each.thread: each.status for each in opened.list() if each.status in {"waiting", "unfinished"}
        }
    if not names:
        raise ThreadError("No thread waits here, and none was cut off.")
    if len(names) > 1:
        listed = ", ".join(f"{name} ({status})" for name, status in names.items())
        raise click.UsageError(f"name one of these threads: {listed}")
    (name,) = names
    if not as_json:
        click.echo(f"Thread {name}:")
    return name


def _decision(answer: str | None, message: str, always: str | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    grant = {"scope": always} if always in {"skill", "thread"} else {"scope": "pattern", "pattern": always}
    return {"type": answer} | ({"message": message} if message else {}) | ({"grant": grant} if always else {})


def _read(file: TextIO) -> list[Any]:
    try:
        decisions = json.load(file)
    except ValueError as error:
        raise click.UsageError(f"--decisions is not JSON: {error}") from error
    if not isinstance(decisions, list):
        raise click.UsageError("--decisions must be a JSON list, with one answer for each open call")
    return decisions
