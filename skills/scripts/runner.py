"""What runs a script: the request, the result, and the protocol between them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """One script to run."""

    skill: str
    """Name of the skill that it belongs to."""
    script: Path
    args: tuple[str, ...]
    stdin: str | None
    """Text for the standard input; None leaves it closed (the script reads end-of-file at once)."""
    workdir: Path


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What came of a run."""

    exit_code: int | None
    """Negative for the signal that ended it (-11: SIGSEGV); None when the runner stopped it."""
    stdout: str
    """Beginning and end of the output when it was cut, with a line at the cut that says so."""
    stderr: str
    seconds: float
    timed_out: bool
    stdout_cut: int
    """Bytes that were left out."""
    stderr_cut: int
    level: str
    """The isolation that was really used: `controlled`, ..."""


class ScriptRunner(Protocol):
    """Something that runs scripts at one level of isolation."""

    level: str

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run to the end, or to the runner's limits.

        A failing script is a result. Raises ScriptError when the script cannot be started.
        """
        ...
