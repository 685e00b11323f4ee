"""The reader of command lines of bash, as the core asks it: the names are those of `CommandLines`."""

import re
from collections.abc import Collection
from typing import Final

from skills_agent.shell.command_line import command_request
from skills_agent.shell.command_lines import permits_line, touches_line
from skills_agent.shell.commands import SimpleCommand, moved
from skills_agent.shell.protected import protected_in_command
from skills_agent.shell.reading import NAMED_BY_VERDICTS, read_paths, stays_inside
from skills_agent.shell.shell import take_apart
from skills_agent.skills.policy.command_patterns import Words
from skills_agent.skills.policy.patterns import Call

_SUBCOMMAND: Final = re.compile(r"[a-z][a-z-]*")


judged_by_name: Collection[str] = NAMED_BY_VERDICTS
protected = protected_in_command
request = command_request


def programs(command: str) -> tuple[str, ...] | None:
    """Return how a person calls the commands of a line; None for one that is not understood."""
    line = take_apart(command)
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
    line, folder = take_apart(call.command or ""), call.args.get("cwd")
    if line is None or not folder:
        return line
    return moved(line, folder) if isinstance(folder, str) and "\0" not in folder else None


def _name_of(command: SimpleCommand) -> str:
    """Return how a person calls a command: `git log`, `head`."""
    words = [word.raw if word.text is None else word.text for word in command.words[:2]]
    return " ".join(words if _SUBCOMMAND.fullmatch(words[-1]) else words[:1]) if words else ""
