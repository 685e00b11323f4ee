"""skills-agent resume: go on with a thread that waits or was cut off."""

from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.options import Choice

EXAMPLES = """\b
Examples:
  skills-agent resume t-1f2e3d4c --approve
  skills-agent resume t-1f2e3d4c --approve --always skill
  skills-agent resume t-1f2e3d4c --approve --pattern "run_script(scripts/*.py)"
  skills-agent resume t-1f2e3d4c --reject --message "Use the other file"
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
@options.choices
@options.as_json
def resume(
    thread: str,
    answer: str | None,
    message: str,
    always: str | None,
    pattern: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Go on with THREAD: answer its open question, or finish a run that was cut off.

    Without --approve or --reject you are asked on a terminal; elsewhere the open question is
    printed. Folders of skills and the model are those of the thread; --yes is for what comes next.
    """
    if message and answer != "reject":
        raise click.UsageError("--message goes with --reject")
    if (always or pattern) and answer != "approve":
        raise click.UsageError("--always and --pattern go with --approve")
    if always and pattern:
        raise click.UsageError("--always and --pattern are two different grants: name one")

    from skills_agent.graph.cli.session import open_session
    from skills_agent.graph.cli.turn import resume_once

    decision: dict[str, Any] | None = None if answer is None else {"type": answer}
    if decision and always:
        decision["grant"] = {"scope": always}
    if decision and pattern:
        decision["grant"] = {"scope": "pattern", "pattern": pattern}
    if message:
        decision = {"type": "reject", "message": message}
    with open_session(Choice(**chosen), thread, must_exist=True) as session:
        resume_once(session, decision, as_json=as_json)
