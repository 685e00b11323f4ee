"""What the core asks whoever reads command lines, an extra; without one, no line is understood."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.approval_text import Content
from skills_agent.skills.policy.command_patterns import Words
from skills_agent.skills.policy.protected import ProtectedPath, protected_in_text

if TYPE_CHECKING:
    from skills_agent.skills.scripts.runner import ScriptRequest

Called = Any
"""A `Call` of patterns.py, which holds the reader of its line."""

NO_READER: Final = "the extra shell is not installed: install skills-agent again, with it"


class CommandLines(Protocol):
    """Reads command lines: an extra brings a module. What stands here understands none.

    No pattern permits such a line, and each may do what is forbidden.
    """

    judged_by_name: Collection[str] = ()
    """Programs that verdicts go by the names of: whoever runs one sees to it that it is the system's."""

    def literal(self, command: str) -> str:
        """Return a line as it is read, judged, shown and run: one that does the same."""
        return command

    def contents(self, call: Called) -> list[Content]:
        """Return what a person sees of a call's line."""
        return [Content("A command, in the workspace:", str(call.command), "sh")]

    def programs(self, command: str) -> tuple[str, ...] | None:  # noqa: ARG002
        """Return how a person calls the commands of a line: `git log`; None where it is not understood."""
        return None

    def permits(self, patterns: Collection[Words], call: Called) -> bool:  # noqa: ARG002
        """Return whether every command of a call's line is surely what one of some patterns says."""
        return False

    def touches(self, pattern: Words, call: Called) -> bool:  # noqa: ARG002
        """Return whether a command of it may do what a pattern says: one that is unclear counts."""
        return True

    def only_reads(self, call: Called) -> bool:  # noqa: ARG002
        """Return whether it surely reads what may be read, and does nothing else."""
        return False

    def protected(
        self, command: str, workspace: Path, more: Iterable[str], workdir: Path | None, *, cwd: str
    ) -> Iterator[ProtectedPath]:
        """Yield what is protected of the paths that it names, and may change."""
        return protected_in_text(command, workspace, more, workdir, cwd=cwd)

    def request(self, command: str, **places: Any) -> "ScriptRequest":  # noqa: ARG002
        """Return the request to run it; `places`: workspace, workdir and cwd. Raises ScriptError."""
        raise ScriptError(f"The command {command!r} cannot be run: {NO_READER}.")


class _NoLines(CommandLines):
    """Understands no line."""


NO_LINES: Final = _NoLines()
