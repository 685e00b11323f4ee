"""skills-agent ask: one question, one answer."""

import sys
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.skills.errors import UnknownSkillError

EXAMPLES = """\b
Examples:
  skills-agent ask "How many rows has orders.csv?"
  skills-agent ask "/csv-report total amount by region in orders.csv" --yes run
  skills-agent ask "Summarise the log" --skills-dir ~/my-skills --model openai:gpt-5-mini
  cat orders.csv | skills-agent ask "Which region sold most?"
  skills-agent ask -c "And the least?"
  cat question.txt | skills-agent ask - --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("question")
@click.option("--skill", "skills", metavar="NAME", multiple=True, help="Load this skill first. Repeatable.")
@options.thread
@options.newest
@click.option(
    "--request-id",
    "request_id",
    metavar="ID",
    help="With --thread: an id of this question. Sent again with it, it is the same turn, not a second one.",
)
@options.one_turn
def ask(
    question: str,
    *,
    skills: tuple[str, ...],
    thread: str | None,
    newest: bool,
    request_id: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Ask QUESTION and print the answer (`-` reads the question from stdin).

    What is piped in beside a question is attached to it: a short text as it is, all else as a file.
    Each step is printed as it happens. Calls that do more than read need an approval: on a
    terminal you are asked; elsewhere the run stops with exit code 3 and prints the command that
    resumes it.
    """
    from skills_agent.graph.cli.attached import read_piped, with_attached

    piped = b"" if question == "-" else read_piped()
    text = sys.stdin.read() if question == "-" else question
    if not text.strip():
        raise click.UsageError("the question is empty")
    if request_id is not None and not (request_id and thread):
        raise click.UsageError("--request-id is an id of a question of a thread: name that with --thread")

    from skills_agent.graph.cli.progress import Progress
    from skills_agent.graph.cli.thread import open_thread, person_says, print_turn, run_once

    with open_thread(thread, newest=newest, quiet=as_json, **chosen) as current:
        if text.lstrip().startswith("/"):  # A plain question needs no chat.
            from skills_agent.graph.cli.chat import unknown_command

            if fault := unknown_command(current, text):
                raise click.UsageError(fault)
        try:
            for name in skills:
                current.registry.refresh().find(name)
        except UnknownSkillError as error:
            raise click.UsageError(str(error)) from error
        progress = Progress({}, quiet=as_json)
        progress.did("thread", current.name)
        said = person_says(with_attached(text, piped, current.workspace), skills, request_id)
        if turn := current.earlier_turn(said):
            if turn.is_over:
                current.look_back(turn)
                print_turn(current)
                return
        elif current.interrupts:
            progress.did("note", "the open question of this thread is dropped: you said something new")
        run_once(current, said)
