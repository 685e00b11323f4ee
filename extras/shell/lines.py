"""The reader of command lines of bash, as the core asks it: the names are those of `CommandLines`.

Of a line in which git writes beside other commands, the first section is looked at: the tool asks about the
others when their turn comes.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from skills_agent.shell import messages
from skills_agent.shell.command_line import command_request
from skills_agent.shell.command_lines import permits_line, touches_line
from skills_agent.shell.commands import SimpleCommand, moved
from skills_agent.shell.git_lines import first_of, runs_of
from skills_agent.shell.protected import protected_in_command
from skills_agent.shell.reading import NAMED_BY_VERDICTS, read_paths, stays_inside
from skills_agent.shell.shell import take_apart
from skills_agent.skills.policy.approval_text import MAX_NAMED, Content, code
from skills_agent.skills.policy.command_patterns import Words
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.protected import ProtectedPath
from skills_agent.skills.scripts.runner import ScriptRequest

_LATER: Final = "Asked about when its turn comes, and not approved with this:"
_SUBCOMMAND: Final = re.compile(r"[a-z][a-z-]*")


judged_by_name: Collection[str] = NAMED_BY_VERDICTS
literal = messages.literal


def contents(call: Call) -> list[Content]:
    """Return what a person sees of a line: what this question is about, and what comes behind it."""
    command, named = str(call.command), list(dict.fromkeys(call.programs or ()))
    label, first = "A command, in the workspace:", first_of(command)
    if len(named) > 1:
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        label = f"A line of commands, in the workspace: {', '.join(map(code, named[:MAX_NAMED]))}{more}:"
    rest = command.removeprefix(first).strip()
    return [Content(label, first, "sh"), *([Content(_LATER, rest, "sh")] if rest else [])]


def protected(
    command: str, workspace: Path, more: Iterable[str], workdir: Path | None, *, cwd: str
) -> Iterator[ProtectedPath]:
    """Yield what is protected of the paths that it names, and may change."""
    for text in runs_of(first_of(command)):
        yield from protected_in_command(text, workspace, more, workdir, cwd=cwd)


def request(command: str, **places: Any) -> ScriptRequest:
    """Return the request to run it, or the first of several. Raises ScriptError, also for another of them."""
    return [command_request(text, **places) for text in runs_of(command)][0]  # noqa: RUF015 - each is looked at


def programs(command: str) -> tuple[str, ...] | None:
    """Return how a person calls the commands of a line; None for one that is not understood."""
    line = take_apart(first_of(command))
    return None if line is None else tuple(filter(None, map(_name_of, line)))


def permits(patterns: Collection[Words], call: Call) -> bool:
    """Return whether every command of a call's line is surely what one of some patterns says."""
    return permits_line(patterns, _line_of(call), call.places.workspace)


def touches(pattern: Words, call: Call) -> bool:
    """Return whether a command of a call's line may do what a pattern says."""
    return touches_line(pattern, _line_of(call))


def only_reads(call: Call) -> bool:
    """Return whether a call's line surely reads what may be read, and does nothing else."""
    paths, at = read_paths(_line_of(call)), call.places
    return paths is not None and stays_inside(paths, at.workspace, at.start, at.readable, at.closed)


def _line_of(call: Call) -> tuple[SimpleCommand, ...] | None:
    """Return the commands of a call's line from its folder on; None for one that is not understood."""
    line = take_apart(first_of(call.command or ""))
    if line is None or not call.args.get("cwd"):
        return line
    return moved(line, call.cwd) if call.cwd else None


def _name_of(command: SimpleCommand) -> str:
    """Return how a person calls a command: `git log`, `head`."""
    words = [word.raw if word.text is None else word.text for word in command.words[:2]]
    return " ".join(words if _SUBCOMMAND.fullmatch(words[-1]) else words[:1]) if words else ""
