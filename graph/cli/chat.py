"""skills-agent chat: a conversation in one process."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import is_terminal, print_error, waiting_text
from skills_agent.graph.cli.signals import INTERRUPTED, ending_on_sigterm, exit_code_of, leave
from skills_agent.skills.errors import SkillsAgentError

if TYPE_CHECKING:  # `skills-agent -h` imports this module: LangGraph is imported where it runs
    from skills_agent.graph.cli.thread import OpenThread

_COMMANDS: Final = {
    "/skills": "all skills, and which are loaded",
    "/unload": "SKILL-NAME: take a skill out of the thread",
    "/help": "this",
    "/quit": "end (or Ctrl-D); the thread is kept",
}
_KEYS: Final = """\
/SKILL-NAME and a task loads that skill first. Enter sends; Esc-Enter or Alt-Enter, or \\ at the end of a
line, begin a new line. What is pasted is one message. Tab completes commands and skills. Arrow keys and
Ctrl-R bring back what you typed; what begins with a space is not kept. Ctrl-C drops what you typed, and ends
where there is nothing."""
HISTORY: Final = "chat-history"
"""A file of the workspace's state folder."""


@click.command(epilog=options.examples("chat", "chat --thread t-1f2e3d4c --yes run"))
@options.thread
@options.newest
@options.agent
def chat(thread: str | None, *, newest: bool, **chosen: Any) -> None:
    """Talk with the agent until /quit or Ctrl-D. From a pipe, each line is a message.

    /SKILL-NAME and a task loads that skill first. /help lists the commands and the keys; they need no model.
    """
    from skills_agent.graph.cli.skills import print_catalog
    from skills_agent.graph.cli.thread import open_thread, unknown_name

    with open_thread(thread, newest=newest, **chosen) as current:
        click.echo(f"thread {current.name}. /help for commands, /quit to end.")
        if held := current.snapshot.values.get("held"):
            click.echo(waiting_text(held, current.resume_command), err=True)
        if current.status != "done":
            _turn(current, None)
        with ending_on_sigterm(_again(current)):
            for line in _typed(current) if is_terminal() else filter(None, map(str.strip, sys.stdin)):
                match line.split()[0]:
                    case "/quit":
                        return
                    case "/skills":
                        print_catalog(current.services.settings, current.catalog, current.loaded)
                    case "/help":
                        rows = (f"{name:<10} {about}" for name, about in _COMMANDS.items())
                        click.echo("\n".join([*rows, "", _KEYS]))
                    case _ if fault := unknown_name(current, line, tuple(_COMMANDS)):
                        click.echo(f"{fault} /help lists what there is.")
                    case _:
                        _turn(current, line)


def _again(thread: "OpenThread") -> str:
    return thread.command("chat", "--thread", thread.name)


def _typed(thread: "OpenThread") -> Iterator[str]:
    """Return the messages that a person types, each of one or more lines."""
    import readline  # noqa: F401 - line editing for the answers to questions

    from skills_agent.graph.cli.prompt import TextPrompt
    from skills_agent.graph.user_folders import make_state_folder

    prompt = TextPrompt(make_state_folder(thread.services.settings) / HISTORY)
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
            if not prompt.dropped:
                leave(INTERRUPTED, _again(thread))
            continue
        if text.strip():
            yield text.strip()


def _turn(thread: "OpenThread", text: str | None) -> None:
    from skills_agent.graph.cli.thread import INCOMPLETE, TurnError, print_turn, says, take_turn

    try:
        take_turn(thread, says(text) if text else None)
        print_turn(thread)
    except SkillsAgentError as error:
        if not is_terminal() or error.code not in {TurnError.code, INCOMPLETE}:
            raise
        print_error(str(error))
        return
    if code := exit_code_of(thread.control):  # the turn was done before the signal could end it
        leave(code, _again(thread))
