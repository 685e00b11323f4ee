"""skills-agent chat: a conversation in one process."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, is_terminal, line_of, print_error, print_section, table
from skills_agent.graph.cli.signals import ending_on_sigterm, exit_code_of, leave
from skills_agent.skills.errors import SkillSkippedError, UnknownSkillError

if TYPE_CHECKING:  # `skills-agent -h` imports this module: LangGraph is imported where it runs
    from skills_agent.graph.cli.thread import OpenThread

HELP = """\
/SKILL-NAME what to do   load a skill and use it
/skills                  all skills; * marks the loaded ones
/unload SKILL-NAME       take a skill out of the thread
/plan                    the agent's plan
/model                   which model answers
/usage                   what the thread has cost
/help                    this
/quit                    end (or Ctrl-D); the thread is kept"""

_COMMANDS = ("skills", "unload", "plan", "model", "usage", "help", "quit")
_COMMAND = re.compile(r"/(?P<name>[^\s/]+)(?=\s|$)")


@click.command(epilog=options.examples("chat", "chat --thread t-1f2e3d4c --yes run"))
@options.thread
@options.newest
@options.choices
def chat(thread: str | None, *, newest: bool, **chosen: Any) -> None:
    """Talk with the agent until /quit or Ctrl-D. From a pipe, each line is a message.

    /SKILL-NAME and a task loads that skill first. /skills, /plan, /model, /usage and /help need no model.
    """
    from skills_agent.graph.cli.thread import open_thread

    with open_thread(thread, newest=newest, **chosen) as current:
        _converse(current)


def _converse(thread: "OpenThread") -> None:
    click.echo(f"thread {thread.name}. /help for commands, /quit to end.")
    if thread.status != "done":
        _turn(thread, None)
    with ending_on_sigterm(thread.command("chat", "--thread", thread.name)):
        for line in _lines():
            if not _answer(thread, line):
                return


def _answer(thread: "OpenThread", line: str) -> bool:
    command = _COMMAND.match(line)
    match command["name"] if command else "":
        case "quit" | "exit":
            return False
        case "skills":
            _print_skills(thread)
        case "plan":
            _print_plan(thread)
        case "model":
            echo(thread.model)
        case "usage":
            _print_usage(thread)
        case "help":
            click.echo(HELP)
        case _ if fault := unknown_command(thread, line, _COMMANDS):
            click.echo(f"{fault} /help lists what there is.")
        case _:
            _turn(thread, line)
    return True


def unknown_command(thread: "OpenThread", text: str, commands: Sequence[str] = ()) -> str:
    """Say that a text begins with `/NAME` and nothing usable has that name; empty for any other text."""
    command = _COMMAND.match(text)
    if command is None:
        return ""
    from difflib import get_close_matches

    catalog, name = thread.registry.refresh(), command["name"]
    if name == "unload":  # The graph does it, in any client.
        return ""
    try:
        catalog.find(name)
    except SkillSkippedError as error:
        return str(error)
    except UnknownSkillError:
        names = [*commands, *(skill.name for skill in catalog.skills if skill.user_invocable)]
        near = " or ".join(f"/{each}" for each in get_close_matches(name, names))
        what = "command and no skill" if commands else "skill"
        return f"There is no {what} {'/' + name!r} here.{f' Did you mean {near}?' if near else ''}"
    return ""


def _lines() -> Iterator[str]:
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


def _turn(thread: "OpenThread", text: str | None) -> None:
    from skills_agent.graph.cli.thread import (
        IncompleteAnswerError,
        TurnError,
        person_says,
        print_turn,
        take_turn,
    )

    try:
        take_turn(thread, person_says(text) if text else None)
        print_turn(thread)
    except (TurnError, IncompleteAnswerError) as error:
        if not is_terminal():
            raise
        print_error(str(error))
        return
    if code := exit_code_of(thread.control):  # the turn was done before the signal could end it
        leave(code, thread.command("chat", "--thread", thread.name))


def _print_skills(thread: "OpenThread") -> None:
    from skills_agent.graph.cli.doctor import untrusted_in_place
    from skills_agent.skills.library.catalog import first_sentence

    catalog = thread.registry.refresh()
    rows = [
        ("*" if skill.name in thread.loaded else " ", skill.name, first_sentence(skill.description))
        for skill in catalog.skills
    ]
    table(rows, empty="No skills yet. Put folders with a SKILL.md under .agent/skills.")
    in_place = untrusted_in_place(thread.agent.services.settings, catalog)
    print_section("Untrusted", map(line_of, in_place.values()))


def _print_usage(thread: "OpenThread") -> None:
    from skills_agent.graph.cli.transcript import cost_text

    usage = thread.snapshot.values.get("usage")
    click.echo(cost_text(usage["thread"]) if usage else "Nothing was asked yet.")


def _print_plan(thread: "OpenThread") -> None:
    from skills_agent.nodes.prompt import plan_text

    plan = thread.snapshot.values.get("plan")
    echo(plan_text(plan) if plan else "There is no plan.", "prose")
