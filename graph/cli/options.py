"""What several commands share: options, and the examples under their help."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from skills_agent.skills.policy.risk import RISKS, Approval, Risk

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def examples(*commands: str) -> str:
    """Return commands of ours, without their first word, as the examples under a command's help."""
    return "\b\nExamples:\n" + "".join(f"  skills-agent {command}\n" for command in commands)


def risks(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> frozenset[Risk]:
    """Return the kinds that texts with commas name; an unknown one is wrong usage."""
    words = {word.strip() for word in ",".join(value).split(",") if word.strip()}
    if unknown := sorted(words - set(RISKS)):
        raise click.BadParameter(
            f"there is no kind {unknown[0]!r}; kinds: {', '.join(RISKS)}.", ctx=ctx, param=param
        )
    return frozenset(risk for risk in RISKS if risk in words)


def thread_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return an id that is safe in a file, a URL and a shell; any other one is wrong usage."""
    if value is not None and not _THREAD.fullmatch(value):
        raise click.BadParameter(
            "use letters, digits, `.`, `_` and `-`, at most 64 of them.", ctx=ctx, param=param
        )
    return value


def shell_command(*words: str, workspace: Path | None, checkpointer: str | None) -> str:
    """Return a command of ours for the shell that the person is in; a password is never in it."""
    from skills_agent.graph.threads.opened import find_postgres

    elsewhere = [] if workspace in (None, Path.cwd()) else ["--workspace", str(workspace)]
    if checkpointer and (found := find_postgres()) and (dsn := found.without_password(checkpointer)):
        elsewhere += ["--checkpointer", dsn]
    return shlex.join(["skills-agent", *words, *elsewhere])


FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)

workspace = click.option(
    "--workspace",
    type=FOLDER,
    metavar="DIR",
    help="The folder where the agent works, with .agent/ in it. [default: current folder]",
)
checkpointer = click.option(
    "--checkpointer",
    metavar="DSN",
    help="Keep threads in a database: postgresql://user@host/name. [default: a file of yours]",
)
skills_dirs = click.option(
    "--skills-dir",
    "skills_dirs",
    type=FOLDER,
    metavar="DIR",
    multiple=True,
    help="Also use this folder of skills, or this skill. Repeatable.",
)
model = click.option(
    "--model",
    metavar="NAME",
    help="The model: offline, or <provider>:<model>. [default: openai with a key, else offline]",
)
system_prompt = click.option(
    "--system-prompt",
    metavar="TEXT",
    help="Add this to the agent's instructions. Kept with the thread.",
)
yes = click.option(
    "--yes",
    callback=risks,
    metavar="KINDS",
    multiple=True,
    help=f"Do not ask about calls of these kinds, separated by commas: {', '.join(RISKS[1:])}.",
)
unasked = click.option("--yes", is_flag=True, help="Do not ask.")
approval = click.option(
    "--approval",
    type=click.Choice(get_args(Approval)),
    help="For a call that needs an approval: ask, deny it, or fail the run. [default: ask]",
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON value and nothing else: an error, too."
)
show_secrets = click.option(
    "--show-secrets", is_flag=True, help="With --json: leave secrets in what is printed."
)
thread = click.option(
    "--thread", callback=thread_id, metavar="ID", help="Continue this thread, or begin one of this name."
)
newest = click.option(
    "-c", "--continue", "newest", is_flag=True, help="Go on with the newest thread of this workspace."
)


def choices(command: Decorated) -> Decorated:
    """Add the options of `open_thread`."""
    for option in (checkpointer, workspace, approval, yes, system_prompt, model, skills_dirs):
        command = option(command)
    return command


def one_turn(command: Decorated) -> Decorated:
    """Add what `ask` and `resume` print, and the options of `open_thread`."""
    return choices(as_json(show_secrets(command)))


def database(command: Decorated) -> Decorated:
    """Add the options of `open_threads`."""
    return workspace(checkpointer(command))


def folders(command: Decorated) -> Decorated:
    """Add the options that say where skills are."""
    return workspace(skills_dirs(command))
