"""skills-agent resume: go on with a thread that waits or was cut off."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from skills_agent.graph.cli import options
from skills_agent.graph.threads.errors import ThreadError
from skills_agent.skills.text import count

EXAMPLES = """\b
Examples:
  skills-agent resume t-1f2e3d4c --approve
  skills-agent resume t-1f2e3d4c --approve --always skill
  skills-agent resume t-1f2e3d4c --approve --pattern "run_script(scripts/*.py)"
  skills-agent resume t-1f2e3d4c --reject --message "Use the other file"
  skills-agent resume t-1f2e3d4c --answer "The second one"
  skills-agent resume --all
  echo '[{"type": "approve"}, {"type": "reject"}]' | skills-agent resume t-1f2e3d4c --decisions -
"""


@click.command(epilog=EXAMPLES)
@click.argument("thread", callback=options.thread_id, required=False)
@click.option("--all", "is_all", is_flag=True, help="Every thread that was cut off or waits.")
@click.option("--approve", is_flag=True, help="Run the open calls.")
@click.option("--reject", is_flag=True, help="Refuse the open calls.")
@click.option("--answer", "words", metavar="TEXT", help="Answer a question of the agent: words, or a number.")
@click.option("--message", metavar="TEXT", default="", help="With --reject: a message for the model.")
@click.option(
    "--always",
    type=click.Choice(["skill", "thread"]),
    help="With --approve: do not ask again about this tool for its skill, or in this thread.",
)
@click.option(
    "--pattern", metavar="ENTRY", help="With --approve: do not ask again about calls that ENTRY permits."
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
@options.one_turn
def resume(
    thread: str | None,
    *,
    is_all: bool,
    approve: bool,
    reject: bool,
    words: str | None,
    message: str,
    always: str | None,
    pattern: str | None,
    decisions: TextIO | None,
    attempts: tuple[int, ...],
    as_json: bool,
    **chosen: Any,
) -> None:
    """Go on with THREAD: answer its open question, or finish a turn that was cut off.

    Without THREAD it is the only one that waits or was cut off; of several, their names are printed.
    Without an answer you are asked on a terminal; elsewhere the open question is printed. Each of
    --decisions is {"type": "approve"} (with "grant": {"scope": "skill"}, "thread", or "pattern" and
    "pattern": ENTRY), {"type": "reject", "message": TEXT}, {"type": "edit", "edited_action":
    {"name": TOOL, "args": {...}}}, or {"type": "respond", "message": TEXT} for a question of the agent.
    An approval about a call that was cut off is for one attempt: the
    command that is printed with the question names it. The thread keeps its skill folders and its
    model; --yes holds for this command alone. --all finishes what was cut off, one thread after the
    other, and asks about what waits; elsewhere than on a terminal it says which threads wait.
    """
    answer, message = _answer(approve, reject, words, message)
    if is_all and thread:
        raise click.UsageError("name a THREAD, or --all")
    if is_all and (answer or decisions):
        raise click.UsageError("--all takes no answer: it is for one thread")
    if message and answer not in {"reject", "respond"}:
        raise click.UsageError("--message goes with --reject")
    if (always or pattern) and answer != "approve":
        raise click.UsageError("--always and --pattern go with --approve")
    if decisions and answer:
        raise click.UsageError("--decisions says it for each call: leave out --approve and --reject")
    if attempts and not (answer or decisions):
        raise click.UsageError("--attempt goes with an answer")
    if always and pattern:
        raise click.UsageError("--always and --pattern are two different grants: name one")

    if is_all:
        _resume_all(as_json=as_json, **chosen)
        return

    from skills_agent.graph.cli.thread import open_thread, run_once
    from skills_agent.skills.policy.verdict import AnswerRefusedError

    thread = thread or _the_open_one(as_json=as_json, **chosen)
    decision = _read(decisions) if decisions else _decision(answer, message, always, pattern)
    with open_thread(thread, must_exist=True, quiet=as_json, **chosen) as current:
        graph_input = current.resume_input(decision, attempts)
        try:
            run_once(current, graph_input)
        except AnswerRefusedError as error:
            raise click.UsageError(str(error)) from error


def _answer(approve: bool, reject: bool, words: str | None, message: str) -> tuple[str | None, str]:
    if approve and reject:
        raise click.UsageError("--approve and --reject are two answers: name one")
    answer = "approve" if approve else "reject" if reject else None
    if words is None:
        return answer, message
    if answer or message:
        raise click.UsageError("--answer is for a question of the agent: leave out --approve and --reject")
    return "respond", words


def _the_open_one(*, as_json: bool, **chosen: Any) -> str:
    """Return the thread that waits or was cut off; more than one is wrong usage, and they are named."""
    names = _open_ones(**chosen)
    if not names:
        raise ThreadError("No thread waits here, and none was cut off.")
    if len(names) > 1:
        listed = ", ".join(f"{name} ({status})" for name, status in names.items())
        raise click.UsageError(f"name one of these threads, or --all: {listed}")
    (name,) = names
    if not as_json:
        click.echo(f"Thread {name}:")
    return name


def _open_ones(
    *, workspace: Path | None = None, checkpointer: str | None = None, **_: Any
) -> Mapping[str, str]:
    """Return the status of each thread that waits or was cut off, the newest first."""
    from skills_agent.graph.cli.threads import open_threads

    with open_threads(workspace, checkpointer) as opened:
        return {
            each.thread: each.status for each in opened.list() if each.status in {"waiting", "unfinished"}
        }


def _resume_all(*, as_json: bool, **chosen: Any) -> None:
    """Go on with every thread that is not done; a fault of one keeps no other from it.

    Exits with 1 where one has failed, else with 3 where one waits.
    """
    from skills_agent.graph.cli.thread import open_thread, run_once
    from skills_agent.skills.errors import SkillsAgentError

    open_ones = _open_ones(**chosen)
    codes = {0}
    for name in open_ones:
        if not as_json:
            click.echo(f"Thread {name}:")
        try:
            with open_thread(name, must_exist=True, quiet=as_json, **chosen) as current:
                run_once(current, current.resume_input(None))
        except click.exceptions.Exit as left:
            codes.add(left.exit_code)
        except SkillsAgentError as error:
            click.echo(f"Error: {error}", err=True)
            codes.add(1)
    if not as_json:
        click.echo(f"{count(len(open_ones), 'thread')} gone on with." if open_ones else "No thread waits.")
    if other := codes - {0}:
        raise click.exceptions.Exit(min(other))


def _decision(
    answer: str | None, message: str, always: str | None, pattern: str | None
) -> dict[str, Any] | None:
    if answer is None:
        return None
    decision: dict[str, Any] = {"type": answer}
    if message:
        decision["message"] = message
    if always or pattern:
        decision["grant"] = {"scope": always} if always else {"scope": "pattern", "pattern": pattern}
    return decision


def _read(file: TextIO) -> list[Any]:
    try:
        decisions = json.load(file)
    except ValueError as error:
        raise click.UsageError(f"--decisions is not JSON: {error}") from error
    if not isinstance(decisions, list):
        raise click.UsageError("--decisions must be a JSON list, with one answer for each open call")
    return decisions
