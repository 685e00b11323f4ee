"""The reader of command lines, as the core asks it."""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from skills_agent.shell.command_line import command_request
from skills_agent.shell.command_lines import permits_line, touches_line
from skills_agent.shell.commands import SimpleCommand, moved
from skills_agent.shell.protected import protected_in_command
from skills_agent.shell.reading import NAMED_BY_VERDICTS, read_paths, stays_inside
from skills_agent.shell.shell import take_apart
from skills_agent.skills.policy.command_patterns import Words
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.protected import ProtectedPath
from skills_agent.skills.scripts.runner import ScriptRequest

_SUBCOMMAND: Final = re.compile(r"[a-z][a-z-]*")


class ShellLines:
    """Reads command lines of bash; the names are those of `CommandLines`."""

    judged_by_name: Collection[str] = NAMED_BY_VERDICTS

    def programs(self, command: str) -> tuple[str, ...] | None:
        line = take_apart(command)
        return None if line is None else tuple(filter(None, map(_name_of, line)))

    def permits(self, patterns: Collection[Words], call: Call) -> bool:
        return permits_line(patterns, self._line_of(call), call.places.workspace)

    def touches(self, pattern: Words, call: Call) -> bool:
        return touches_line(pattern, self._line_of(call))

    def only_reads(self, call: Call) -> bool:
        paths, at = read_paths(self._line_of(call)), call.places
        return paths is not None and stays_inside(paths, at.workspace, at.start, at.readable, at.closed)

    def protected(
        self, command: str, workspace: Path, more: Iterable[str], workdir: Path | None, *, cwd: str
    ) -> Iterator[ProtectedPath]:
        return protected_in_command(command, workspace, more, workdir, cwd=cwd)

    def request(
        self, command: str, *, workspace: Path, workdir: Path | None = None, cwd: str | None = None
    ) -> ScriptRequest:
        return command_request(command, workspace=workspace, workdir=workdir, cwd=cwd)

    def _line_of(self, call: Call) -> tuple[SimpleCommand, ...] | None:
        """Return the commands of a call's line from its folder on; None for one that is not understood."""
        line, folder = take_apart(call.command or ""), call.args.get("cwd")
        if line is None or not folder:
            return line
        return moved(line, folder) if isinstance(folder, str) and "\0" not in folder else None


def _name_of(command: SimpleCommand) -> str:
    """Return how a person calls a command: `git log`, `head`."""
    words = [word.raw if word.text is None else word.text for word in command.words[:2]]
    return " ".join(words if _SUBCOMMAND.fullmatch(words[-1]) else words[:1]) if words else ""


LINES: Final = ShellLines()
