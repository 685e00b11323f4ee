"""skills-agent chat: a conversation in one process."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import is_terminal, print_error, waiting_text
from skills_agent.graph.cli.signals import INTERRUPTED, TERMINATED, ending_on_sigterm, exit_code_of, leave
from skills_agent.graph.cli.working import loading
from skills_agent.skills.errors import SkillsAgentError

if TYPE_CHECKING:  # `skills-agent -h` imports this module: LangGraph is imported where it runs
    from skills_agent.graph.cli.thread import OpenThread

_COMMANDS: Final = {
    "/skills": "all skills, and which are loaded",
    "/unload": "SKILL-NAME: take a skill out of the thread",
    "/resume": "go on with a turn that was stopped, or answer what was left open",
    "/help": "this",
    "/quit": "end (or Ctrl-D); the thread is kept",
}
_KEYS: Final = """\
/SKILL-NAME and a task loads that skill first. Enter sends; Esc-Enter or Alt-Enter, or \\ at the end of a
line, begin a new line. What is pasted is one message. Tab completes commands and skills. Arrow keys and
Ctrl-R bring back what you typed; what begins with a space is not kept. Ctrl-C stops what the agent does, then
drops what you typed; twice where there is nothing, it ends the chat."""
HISTORY: Final = "chat-history"
"""A file of the workspace's state folder."""


@click.command(epilog=options.examples("chat", "chat --thread t-1f2e3d4c --yes run"))
@options.thread
@options.newest
@options.agent
def chat(thread: str | None, *, newest: bool, verbose: bool, **chosen: Any) -> None:
    """Talk with the agent until /quit or Ctrl-D. From a pipe, each line is a message.

    /SKILL-NAME and a task loads that skill first. /help lists the commands and the keys; they need no model.
    """
    with loading():
        from skills_agent.graph.cli.thread import open_thread
        from skills_agent.graph.cli.transcript import print_end

    with open_thread(thread, newest=newest, **chosen) as current:
        current.progress.is_verbose = verbose
        click.echo(f"thread {current.name}. /help for commands, /quit to end.")
        if held := current.snapshot.values.get("held"):
            click.echo(waiting_text(held, current.resume_command), err=True)
        if is_terminal():
            print_end(current.snapshot.values)
        if current.status == "waiting":
            _turn(current, None)
        elif current.status == "unfinished":
            click.echo("The last turn was cut off. Say what to do now, or /resume.")
        with ending_on_sigterm(_again(current)):
            for line in _typed(current) if is_terminal() else filter(None, map(str.strip, sys.stdin)):
                if line.split()[0] == "/quit":
                    return
                _take(current, line)


def _take(thread: "OpenThread", line: str) -> None:
    """Do what a command says, or take a turn with a message."""
    from skills_agent.graph.cli.skills import print_catalog
    from skills_agent.graph.cli.thread import unknown_name

    match line.split(maxsplit=1)[0]:
        case "/skills":
            print_catalog(thread.services.settings, thread.catalog, thread.loaded)
        case "/resume" if thread.status == "done":
            click.echo("Nothing was stopped or left open.")
        case "/resume":
            _turn(thread, None)
        case "/help":
            rows = (f"{name:<10} {about}" for name, about in _COMMANDS.items())
            click.echo("\n".join([*rows, "", _KEYS]))
        case _ if fault := unknown_name(thread, line, tuple(_COMMANDS)):
            click.echo(f"{fault} /help lists what there is.")
        case _:
            _turn(thread, line)


def _again(thread: "OpenThread") -> str:
    return thread.command("chat", "--thread", thread.name)


def _typed(thread: "OpenThread") -> Iterator[str]:
    """Return the messages that a person types, each of one or more lines."""
    import readline  # noqa: F401 - line editing for the answers to questions

    from skills_agent.graph.cli.prompt import TextPrompt
    from skills_agent.graph.user_folders import make_state_folder

    prompt = TextPrompt(make_state_folder(thread.services.settings) / HISTORY)
    is_leaving = False
    while True:
        skills = {
            f"/{skill.name}": skill.description for skill in thread.catalog.skills if skill.user_invocable
        }
        try:
            text = prompt.read("\n> ", words={**skills, **_COMMANDS})
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            if is_leaving and not prompt.dropped:
                leave(INTERRUPTED, _again(thread))
            is_leaving = not prompt.dropped
            if is_leaving:
                click.echo("Ctrl-C again ends the chat.")
            continue
        is_leaving = False
        if text.strip():
            yield text.strip()


def _turn(thread: "OpenThread", text: str | None) -> None:
    from skills_agent.graph.cli.thread import INCOMPLETE, TurnError, print_turn, says, take_turn

    try:
        take_turn(thread, says(text) if text else None)
        if thread.is_stopped or (thread.interrupts and is_terminal()):
            stopped = "Stopped" if thread.is_stopped else "Not answered"
            click.echo(f"{stopped}. Say what to do instead, or /resume.")
            return
        print_turn(thread)
    except SkillsAgentError as error:
        if not is_terminal() or error.code not in {TurnError.code, INCOMPLETE}:
            raise
        print_error(str(error))
        return
    if exit_code_of(thread.control) == TERMINATED:  # the turn was done before the signal could end it
        leave(TERMINATED, _again(thread))
