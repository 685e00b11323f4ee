"""skills-agent resume: go on with a thread that waits or was cut off."""

import json
from typing import Any, TextIO

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.options import Choice

EXAMPLES = """\b
Examples:
  skills-agent resume t-1f2e3d4c --approve
  skills-agent resume t-1f2e3d4c --approve --always skill
  skills-agent resume t-1f2e3d4c --approve --pattern "run_script(scripts/*.py)"
  skills-agent resume t-1f2e3d4c --reject --message "Use the other file"
  echo '[{"type": "approve"}, {"type": "reject"}]' | skills-agent resume t-1f2e3d4c --decisions -
"""


@click.command(epilog=EXAMPLES)
@click.argument("thread", callback=options.thread_id)
@click.option("--approve", "answer", flag_value="approve", help="Run what is asked about.")
@click.option("--reject", "answer", flag_value="reject", help="Do not run it.")
@click.option("--message", metavar="TEXT", default="", help="With --reject: what to tell the model.")
@click.option(
    "--always",
    type=click.Choice(["skill", "thread"]),
    help="With --approve: do not ask again about this tool, for its skill or in this thread.",
)
@click.option(
    "--pattern", metavar="ENTRY", help="With --approve: do not ask again about what ENTRY takes in."
)
@click.option(
    "--decisions",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="A JSON list with an answer for each open call, in the order shown; - is stdin.",
)
@options.choices
@options.as_json
def resume(
    thread: str,
    *,
    answer: str | None,
    message: str,
    always: str | None,
    pattern: str | None,
    decisions: TextIO | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Go on with THREAD: answer its open question, or finish a run that was cut off.

    Without an answer you are asked on a terminal; elsewhere the open question is printed. Each of
    --decisions is {"type": "approve"} (with "grant": {"scope": "skill"}, "thread", or "pattern" and
    "pattern": ENTRY), {"type": "reject", "message": TEXT}, or {"type": "edit", "edited_action":
    {"name": TOOL, "args": {...}}}. Folders of skills and the model are
    those of the thread; --yes is for what comes next.
    """
    if message and answer != "reject":
        raise click.UsageError("--message goes with --reject")
    if (always or pattern) and answer != "approve":
        raise click.UsageError("--always and --pattern go with --approve")
    if decisions and answer:
        raise click.UsageError("--decisions says it for each call: leave out --approve and --reject")
    if always and pattern:
        raise click.UsageError("--always and --pattern are two different grants: name one")

    from skills_agent.graph.cli.turn import resume_once, session_of_a_run

    decision: dict[str, Any] | None = None if answer is None else {"type": answer}
    if decision and always:
        decision["grant"] = {"scope": always}
    if decision and pattern:
        decision["grant"] = {"scope": "pattern", "pattern": pattern}
    if message:
        decision = {"type": "reject", "message": message}
    answers = _read(decisions) if decisions else decision
    with session_of_a_run(Choice(**chosen), thread, as_json=as_json, must_exist=True) as session:
        resume_once(session, answers, as_json=as_json)


def _read(file: TextIO) -> list[Any]:
    try:
        decisions = json.load(file)
    except ValueError as error:
        raise click.UsageError(f"--decisions is not JSON: {error}") from error
    if not isinstance(decisions, list):
        raise click.UsageError("--decisions must be a JSON list, with one answer for each open call")
    return decisions
