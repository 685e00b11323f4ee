"""skills-agent ask: one question, one answer."""

import select
import sys
from typing import Any, Final

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.working import loading
from skills_agent.skills.text import count

EXAMPLES: Final = options.examples(
    'ask "How many rows does orders.csv have?"',
    'ask "/csv-report orders.csv" --yes run',
    'ask "Hello?" --model openai:gpt-5-mini',
    'ask -c "And the lowest?"',
    "ask - --json < question.txt",
)
MAX_PIPED: Final = 100_000
"""Characters of what is piped in: about 25,000 tokens."""
_PATIENCE: Final = 3
"""Seconds until something must have come: a program may have left a pipe open that it never writes to."""


@click.command(epilog=EXAMPLES)
@click.argument("question")
@click.option("--skill", "skills", metavar="NAME", multiple=True, help="Load this skill first. Repeatable.")
@options.thread
@options.newest
@options.agent
@options.as_json
def ask(
    question: str,
    *,
    skills: tuple[str, ...],
    thread: str | None,
    newest: bool,
    as_json: bool,
    verbose: bool,
    **chosen: Any,
) -> None:
    """Ask QUESTION and print the answer (`-` reads the question from stdin).

    /SKILL-NAME at the beginning loads that skill first, as --skill does. Text that is piped in beside a
    question is attached to it. Each step is printed as it happens. Calls that do more than read need an
    approval: on a terminal you are asked; elsewhere the run stops with exit code 3 and prints the command
    that resumes it.
    """
    piped = "" if question == "-" else _piped()
    text = sys.stdin.read() if question == "-" else question
    if not text.strip():
        raise click.UsageError("the question is empty")
    text = " ".join([*(f"/{name}" for name in skills), text])

    with loading():
        from skills_agent.graph.cli.thread import open_thread, run_once, says, unknown_name

    with open_thread(thread, newest=newest, quiet=as_json, **chosen) as current:
        current.progress.is_verbose = verbose
        if fault := unknown_name(current, text):
            raise click.UsageError(fault)
        run_once(current, says(text, _attached(piped)))


def _piped() -> str:
    """Return the text that is piped in; nothing on a terminal.

    Where nothing comes at all, a line on stderr says that the question is asked without it. Raises UsageError
    for what is too long, or no text.
    """
    if sys.stdin.isatty():
        return ""
    has_begun, _, _ = select.select([sys.stdin], [], [], _PATIENCE)
    if not has_begun:
        click.echo(
            f"Nothing came on stdin in {_PATIENCE} s: the question is asked without it (none: < /dev/null).",
            err=True,
        )
        return ""
    piped = sys.stdin.buffer.read(4 * MAX_PIPED + 1)
    try:
        text = piped.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or len(text) > MAX_PIPED:
        raise click.UsageError(
            f"stdin is no text, or has more than {MAX_PIPED:,} characters: save it in the workspace, and "
            "name the file in the question"
        )
    return text if text.strip() else ""


def _attached(piped: str) -> str:
    lines = count(len(piped.splitlines()), "line")
    return piped and f"\n\nFrom stdin ({lines}, to the end of this message):\n\n{piped}"
