"""What several commands share: where they work, options, and the examples under their help."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from skills_agent.skills.risk import RISKS, Risk

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_THREAD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass
class CommandRun:
    """One run of the command line; it is the object of click's context."""

    workspace: Path | None = None
    skills_dirs: tuple[Path, ...] = ()
    checkpointer: str = ""
    """As it was typed; empty: the setting."""
    has_json: bool = False
    """The one JSON value was printed."""


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


def shell_command(*words: str, workspace: Path | None) -> str:
    """Return a command of ours for the shell that the person is in."""
    elsewhere = [] if workspace in (None, Path.cwd()) else ["--workspace", str(workspace)]
    context = click.get_current_context(silent=True)
    invocation = context.find_object(CommandRun) if context else None
    if invocation and invocation.checkpointer:
        from skills_agent.graph.threads.opened import postgres

        if shown := postgres().without_password(invocation.checkpointer):
            elsewhere += ["--checkpointer", shown]
    return shlex.join(["skills-agent", *words, *elsewhere])


FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)

everywhere: Final = (
    click.Option(
        ["--workspace"],
        type=FOLDER,
        metavar="DIR",
        help="The folder where the agent works, with .agent/ in it. [default: current folder]",
    ),
    click.Option(
        ["--skills-dir", "skills_dirs"],
        type=FOLDER,
        metavar="DIR",
        multiple=True,
        help="Also use this folder of skills, or this skill. Repeatable.",
    ),
    click.Option(
        ["--checkpointer"],
        metavar="DSN",
        help="Keep threads in PostgreSQL: postgresql://user@host/name. [default: a file of this user]",
    ),
)
"""Options of all commands, which stand before a command or behind it."""


def _given(*names: str) -> Callable[[Decorated], Decorated]:
    def decorate(command: Decorated) -> Decorated:
        @wraps(command)
        def run(*args: Any, **more: Any) -> Any:
            invocation = click.get_current_context().ensure_object(CommandRun)
            return command(*args, **{name: getattr(invocation, name) for name in names}, **more)

        return run  # type: ignore[return-value]

    return decorate


workspace = _given("workspace")
"""Passes `--workspace` on as `workspace`."""
folders = _given("workspace", "skills_dirs")
"""Passes `--workspace` and each `--skills-dir` on."""

model = click.option(
    "--model",
    metavar="NAME",
    help="The model: offline, or <provider>:<model>. [default: see skills-agent model]",
)
yes = click.option(
    "--yes",
    callback=risks,
    metavar="KINDS",
    multiple=True,
    help=f"Do not ask about calls of these kinds, separated by commas: {', '.join(RISKS[1:])}.",
)
unasked = click.option("--yes", is_flag=True, help="Do not ask.")
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON value and nothing else, even for an error."
)
html = click.option("--html", type=click.File("w", "utf-8", lazy=True), metavar="FILE", help="Write a page.")
verbose = click.option("-v", "--verbose", is_flag=True, help="Print each event: verdicts, tokens, times.")
thread = click.option(
    "--thread", callback=thread_id, metavar="ID", help="Continue this thread, or start one with this name."
)
newest = click.option(
    "-c", "--continue", "newest", is_flag=True, help="Go on with the newest thread of this workspace."
)


def agent(command: Decorated) -> Decorated:
    """Add the options of a turn beside the thread's name."""
    return folders(model(yes(verbose(command))))
