"""skills-agent ask: one question, one answer."""

import sys
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.options import Choice

EXAMPLES = """\b
Examples:
  skills-agent ask "How many rows has orders.csv?"
  skills-agent ask "/csv-report total amount by region in orders.csv" --yes run
  skills-agent ask "Summarise the log" --skills-dir ~/my-skills --model openai:gpt-5-mini
  cat question.txt | skills-agent ask - --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("question")
@click.option("--skill", "skills", metavar="NAME", multiple=True, help="Load this skill first. Repeatable.")
@options.thread
@options.choices
@options.as_json
def ask(question: str, skills: tuple[str, ...], thread: str | None, as_json: bool, **chosen: Any) -> None:
    """Ask QUESTION and print the answer (`-` reads the question from stdin).

    What each step does is printed as it happens. Calls that are not plain reading need an
    approval: on a terminal you are asked; elsewhere the run stops with exit code 3 and prints
    the command that resumes it.
    """
    text = sys.stdin.read() if question == "-" else question
    if not text.strip():
        raise click.UsageError("the question is empty")

    from skills_agent.graph.cli.turn import ask_once, session_of_a_run

    with session_of_a_run(Choice(**chosen), thread, as_json=as_json) as session:
        ask_once(session, text, skills, as_json=as_json)
