"""skills-agent chat: a conversation in one process."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.errors import RunFailedError
from skills_agent.graph.cli.options import Choice
from skills_agent.graph.cli.printing import echo, is_terminal, line_of, table
from skills_agent.graph.cli.signals import ending_on_sigterm, exit_code_of, farewell
from skills_agent.skills.errors import UnknownSkillError
from skills_agent.skills.library.listing import first_sentence

if TYPE_CHECKING:  # `skills-agent -h` imports this module: LangGraph only where it runs
    from skills_agent.graph.cli.outcome import Outcome
    from skills_agent.graph.cli.progress import View
    from skills_agent.graph.cli.session import Session

HELP = """\
/SKILL-NAME what to do   load a skill and use it
/skills                  the skills that there are; * marks the loaded ones
/plan                    the agent's plan
/help                    this
/quit                    end (or Ctrl-D); the thread is kept"""

_COMMAND = re.compile(r"/(?P<name>[^\s/]+)(?=\s|$)")


@click.command(
    epilog="\b\nExamples:\n  skills-agent chat\n  skills-agent chat --thread t-1f2e3d4c --yes run\n"
)
@options.thread
@options.choices
def chat(thread: str | None, **chosen: Any) -> None:
    """Talk with the agent until /quit or Ctrl-D. Lines from a pipe are taken one by one.

    /SKILL-NAME with what to do loads a skill first; /skills, /plan and /help are answered here.
    """
    from skills_agent.graph.cli.session import open_session

    with open_session(Choice(**chosen), thread) as session:
        _converse(session)


def _converse(session: "Session") -> None:
    """Take lines from the person, or from a pipe, until they end.

    Ends with exit code 3 where a question stays open, and with the error of a model in a pipe.
    """
    click.echo(f"thread {session.thread}. /help for commands, /quit to end.")
    now = session.now()
    if now.status == "waiting":
        _turn(session, lambda _: now)
    elif now.status == "unfinished":
        _turn(session, session.go_on)
    with ending_on_sigterm(session.chat_command()):
        _take_lines(session)


def _take_lines(session: "Session") -> None:
    for line in _lines():
        command = _COMMAND.match(line)
        if command is None or _is_skill(session, command["name"]):
            _say(session, line)
        elif command["name"] in {"quit", "exit"}:
            return
        elif command["name"] in _COMMANDS:
            _COMMANDS[command["name"]](session)
        else:
            click.echo(f"There is no command and no skill {command[0]!r} here. /help lists what there is.")


def _lines() -> Iterator[str]:
    """Yield what is typed, without blank lines."""
    if is_terminal():
        import readline  # noqa: F401 - line editing and history for input()
    while True:
        try:
            line = input("\n> ") if is_terminal() else sys.stdin.readline()
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            click.echo("\n(Ctrl-D or /quit ends.)")
            continue
        if not line and not is_terminal():
            return
        if line.strip():
            yield line.strip()


def _say(session: "Session", line: str) -> None:
    _turn(session, lambda view: session.ask(line, (), view))


def _turn(session: "Session", run: Callable[["View"], "Outcome"]) -> None:
    from skills_agent.graph.cli.turn import WAITING, take_turn, tell

    try:
        outcome = take_turn(session, run)
    except RunFailedError as error:
        if not is_terminal():
            raise
        click.echo(f"error: {line_of(error.message)}", err=True)
        return
    tell(session, outcome)
    if outcome.questions:
        raise click.exceptions.Exit(WAITING)
    if code := exit_code_of(session.control):  # the turn was done before the signal could end it
        click.echo(farewell(code, session.chat_command()), err=True)
        raise click.exceptions.Exit(code)


def _is_skill(session: "Session", name: str) -> bool:
    try:
        session.registry.refresh().find(name)
    except UnknownSkillError:
        return False
    return name not in _COMMANDS


def _print_skills(session: "Session") -> None:
    loaded = set(session.now().loaded)
    skills = session.registry.refresh().skills
    table(
        [
            ("*" if each.name in loaded else " ", each.name, first_sentence(each.description))
            for each in skills
        ]
    )
    if not skills:
        click.echo("No skills yet. Put folders with a SKILL.md under .agent/skills.")


def _print_plan(session: "Session") -> None:
    from skills_agent.nodes.prompt import plan_text

    plan = session.snapshot().values.get("plan")
    echo(plan_text(plan) if plan else "There is no plan.")


def _print_help(session: "Session") -> None:
    del session
    click.echo(HELP)


_COMMANDS: Mapping[str, Callable[["Session"], None]] = {
    "skills": _print_skills,
    "plan": _print_plan,
    "help": _print_help,
}
