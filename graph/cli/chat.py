"""skills-agent chat: a conversation in one process."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, is_terminal, line_of, print_error, print_section, table
from skills_agent.graph.cli.signals import INTERRUPTED, ending_on_sigterm, exit_code_of, leave
from skills_agent.skills.errors import SkillSkippedError, UnknownSkillError

if TYPE_CHECKING:  # `skills-agent -h` imports this module: LangGraph is imported where it runs
    from skills_agent.graph.cli.completion import ChatCompleter
    from skills_agent.graph.cli.thread import OpenThread

_COMMANDS: Final = {
    "skills": ("", "all skills; * marks the loaded ones"),
    "unload": ("SKILL-NAME", "take a skill out of the thread"),
    "plan": ("", "the agent's plan"),
    "model": ("[NAME]", "which model answers; with a name: let this one answer from now on"),
    "thread": ("[ID]", "which thread this is; with an id: go on in that one"),
    "usage": ("", "what the thread has cost"),
    "help": ("", "this"),
    "quit": ("", "end (or Ctrl-D); the thread is kept"),
}
"""What each takes, and does."""
_KEYS: Final = """\
Enter sends. Esc-Enter or Alt-Enter, or \\ at the end of a line, begin a new line. What is pasted is one
message. Tab completes commands, skills, threads, and files after @ or with a / in them. Arrow keys and Ctrl-R
bring back what you typed; what begins with a space is not kept. Ctrl-C drops what you typed; twice ends."""

_COMMAND = re.compile(r"/(?P<name>[^\s/]+)(?=\s|$)[ \t]*(?P<argument>\S*)")
HISTORY: Final = "chat-history"
"""A file of the workspace's state folder."""


@click.command(epilog=options.examples("chat", "chat --thread t-1f2e3d4c --yes run"))
@options.thread
@options.newest
@options.choices
def chat(thread: str | None, *, newest: bool, **chosen: Any) -> None:
    """Talk with the agent until /quit or Ctrl-D. From a pipe, each line is a message.

    /SKILL-NAME and a task loads that skill first. /help lists the commands and the keys; they need no model.
    """
    from skills_agent.graph.cli.thread import open_thread

    with open_thread(thread, newest=newest, **chosen) as current:
        other = _converse(current)
    for option in ("model", "system_prompt", "skills_dirs"):  # Another thread has its own.
        chosen.pop(option)
    while other:
        with open_thread(other, must_exist=True, **chosen) as current:
            other = _converse(current)


def _converse(thread: "OpenThread") -> str | None:
    """Talk until the person leaves the thread, and return which one they go on in."""
    click.echo(f"thread {thread.name}. /help for commands, /quit to end.")
    if thread.status != "done":
        _turn(thread, None)
    with ending_on_sigterm(thread.command("chat", "--thread", thread.name)):
        for line in _typed(thread) if is_terminal() else _piped():
            command = _COMMAND.match(line)
            name, argument = (command["name"], command["argument"]) if command else ("", "")
            if name in {"quit", "exit"}:
                return None
            if name == "thread" and (other := _other_thread(thread, argument)):
                return other
            _answer(thread, line, name, argument)
    return None


def _answer(thread: "OpenThread", line: str, name: str, argument: str) -> None:
    match name:
        case "thread":  # It was answered.
            pass
        case "skills":
            _print_skills(thread)
        case "plan":
            _print_plan(thread)
        case "model":
            _choose_model(thread, argument)
        case "usage":
            _print_usage(thread)
        case "help":
            click.echo(_help())
        case _ if fault := unknown_command(thread, line, tuple(_COMMANDS)):
            click.echo(f"{fault} /help lists what there is.")
        case _:
            _turn(thread, line)


def _help() -> str:
    rows = [("SKILL-NAME what to do", "load a skill and use it")]
    rows += [(f"{name} {argument}", about) for name, (argument, about) in _COMMANDS.items()]
    return "\n".join([*(f"/{usage:<23} {about}" for usage, about in rows), "", _KEYS])


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


def _piped() -> Iterator[str]:
    while line := sys.stdin.readline():
        if line.strip():
            yield line.strip()


def _typed(thread: "OpenThread") -> Iterator[str]:
    """Return the messages that a person types, each of one or more lines."""
    import readline  # noqa: F401 - line editing for the answers to questions

    from skills_agent.graph.cli.prompt import TextPrompt
    from skills_agent.graph.cli.prompt_history import PrivateHistory
    from skills_agent.graph.places import state_folder

    prompt = TextPrompt(PrivateHistory(state_folder(thread.agent.services.settings) / HISTORY))
    is_leaving = False
    while True:
        try:
            text = prompt.read("\n> ", completer=_completer(thread))
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            if is_leaving and not prompt.dropped:
                leave(INTERRUPTED, thread.command("chat", "--thread", thread.name))
            is_leaving = True
            click.echo("(Ctrl-C again, Ctrl-D or /quit ends.)")
            continue
        is_leaving = False
        if text.strip():
            yield text.strip()


def _completer(thread: "OpenThread") -> "ChatCompleter":
    from skills_agent.graph.cli.completion import ChatCompleter
    from skills_agent.graph.langgraph_inside import thread_ids

    catalog, settings = thread.registry.refresh(), thread.agent.services.settings
    skills = {skill.name: skill.description for skill in catalog.skills if skill.user_invocable}
    commands = {name: about for name, (_, about) in _COMMANDS.items()}
    arguments = {
        "unload": dict.fromkeys(thread.loaded, ""),
        "model": dict.fromkeys(
            [thread.model, *(name for name in settings.allowed_models if "*" not in name)], ""
        ),
        "thread": dict.fromkeys(thread_ids(thread.saver), ""),
    }
    return ChatCompleter({**skills, **commands}, arguments, thread.workspace)


def _other_thread(thread: "OpenThread", name: str) -> str:
    """Return the thread that a person wants to go on in; empty, and it is said why, for none."""
    from skills_agent.graph.langgraph_inside import thread_ids
    from skills_agent.graph.threads.errors import UnknownThreadError

    names = thread_ids(thread.saver)
    if name in names and name != thread.name:
        return name
    echo(str(UnknownThreadError(name, names)) if name and name != thread.name else f"thread {thread.name}")
    return ""


def _choose_model(thread: "OpenThread", name: str) -> None:
    from difflib import get_close_matches

    from skills_agent.graph.models.errors import ModelError, ModelNotAllowedError, UnknownModelError

    try:
        if name:
            thread.use_model(name)
    except (ModelNotAllowedError, UnknownModelError) as error:
        model = name.partition(":")[2] or name
        allowed = [each.replace("*", model) for each in thread.agent.services.settings.allowed_models]
        near = get_close_matches(name, [thread.model, *allowed], n=1, cutoff=0.5)
        echo(f"{error}{f' Did you mean {near[0]}?' if near else ''}")
    except ModelError as error:
        echo(str(error))
    else:
        echo(thread.model)


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
    from skills_agent.skills.library.listing import first_sentence

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
