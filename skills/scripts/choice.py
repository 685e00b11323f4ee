"""Which runner runs the scripts of this machine, and which of the programs that skills need it has."""

import logging
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.controlled import NOT_CHOSEN, ControlledRunner
from skills_agent.skills.scripts.environment import AS_ROOT, AS_ROOT_IN_SANDBOX, is_root
from skills_agent.skills.scripts.programs import find_program
from skills_agent.skills.scripts.runner import (
    CONTROLLED,
    SANDBOXED,
    ScriptRequest,
    ScriptResult,
    ScriptRunner,
)

logger = logging.getLogger(__name__)

Wish = Literal["auto", "require", "off"]
"""The setting `sandbox`."""
Offer = Literal["auto", "on", "off"]
"""Whether a shell is offered: where a sandbox works, by the operator's word, never."""


_BY_WORD: Final = {"on": "", "off": "the operator turned it off (setting enable_run_command)"}


class Isolation(NamedTuple):
    """How scripts of this machine are isolated."""

    level: str | None
    """None: they are refused."""
    reason: str


class Probe(NamedTuple):
    """Whether a sandbox works here."""

    program: str | None
    """Where its program is; None when it does not work."""
    reason: str
    is_certain: bool = True
    """False where it could not be tried to the end: that is no "no", and the next probe tries again."""


class SandboxedRunner(ScriptRunner, Protocol):
    """Runs scripts in a sandbox, and refuses them where that does not work."""

    def probe(self) -> Probe:
        """Return whether the sandbox works for this runner."""

    def why_not(self) -> str:
        """Return why it does not; empty where it does. Runs it once a process."""

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent; return what came of it."""


class Sandbox(Protocol):
    """What an extra brings to isolate scripts: a class of runners."""

    def __call__(self, *args: Any, **kwargs: Any) -> SandboxedRunner:
        """Return a runner. Nothing is started yet.

        It takes what ControlledRunner takes, `network` (the skills that may reach it, as `name` or
        `name@source`) and `closed` (what is hidden of the workspace).
        """

    def tried(self, path: str | None = None, workspace: Path | None = None) -> Probe:
        """Run the sandbox, and return whether it works here; arguments as in `find_program`."""


class NoSandbox:
    """Stands for the sandbox where no extra brings one: refuses every script."""

    reason: Final = "the extra sandbox is not installed: install skills-agent again, with it"

    def __init__(self, **_: Any) -> None:
        """Take what other runners take."""

    @classmethod
    def tried(cls, path: str | None = None, workspace: Path | None = None) -> Probe:  # noqa: ARG003
        """Return that there is none."""
        return Probe(None, cls.reason)

    def probe(self) -> Probe:
        """Return that there is none."""
        return self.tried()

    def why_not(self) -> str:
        """Return that there is none."""
        return self.reason

    def preflight(self, request: ScriptRequest) -> str:  # noqa: ARG002
        """Raise ScriptError."""
        raise refused(self.reason)

    def run(self, request: ScriptRequest) -> ScriptResult:  # noqa: ARG002
        """Raise ScriptError."""
        raise refused(self.reason)

    def finish_looks(self) -> list[str]:
        """Return nothing: nothing ran."""
        return []


class Program(NamedTuple):
    """A program that skills may need."""

    name: str
    path: str | None
    """Where it is; None when neither it nor a substitute is installed."""
    purpose: str
    """What does not run without it, in plain words."""
    substitutes: tuple[str, ...] = ()
    """Programs that would do as well."""
    elsewhere: str = ""
    """A sentence about where it is, if it is only where it is not taken from."""


def choose_runner(
    wish: Wish,
    sandbox: Sandbox,
    *,
    workspace: Path,
    network: Collection[str] = (),
    closed: Collection[Path] = (),
    **control: Any,
) -> ScriptRunner:
    """Return the runner for a setting; `control` is what ControlledRunner takes. Nothing is started yet."""
    if wish == "off":
        return ControlledRunner(workspace=workspace, **control)
    sandboxed = sandbox(workspace=workspace, network=network, closed=closed, **control)
    plain = ControlledRunner(workspace=workspace, **control)
    return sandboxed if wish == "require" else AutoRunner(sandboxed, plain)


def isolation_here(
    wish: Wish, sandbox: Sandbox, path: str | None, workspace: Path | None = None
) -> Isolation:
    """Return what a setting means on this machine. Runs the sandbox once; arguments as in `find_program`."""
    note, note_inside = (f". {AS_ROOT}", f". {AS_ROOT_IN_SANDBOX}") if is_root() else ("", "")
    if wish == "off":
        return Isolation(CONTROLLED, f"{NOT_CHOSEN}{note}")
    result = sandbox.tried(path, workspace)
    if result.program:
        return Isolation(SANDBOXED, f"{result.program} works{note_inside}")
    if wish == "require" or not result.is_certain:
        return Isolation(None, result.reason)
    return Isolation(CONTROLLED, f"{result.reason}{note}")


def why_no_shell(offer: Offer, runner: ScriptRunner) -> str:
    """Return why no command lines are run; empty where they are. May run the sandbox, once a process."""
    if offer != "auto":
        return _BY_WORD[offer]
    match runner:
        case AutoRunner(sandboxed):
            return sandboxed.why_not()
        case ControlledRunner() | NoSandbox():
            return runner.why_not()
    return "the host's runner may be no sandbox (enable_run_command = on offers it all the same)"


def no_shell_here(offer: Offer, isolation: Callable[[], Isolation]) -> str:
    """Return the same from what is known of this machine, which is asked only where it matters."""
    if offer != "auto":
        return _BY_WORD[offer]
    here = isolation()
    return "" if here.level == SANDBOXED else here.reason


@dataclass(frozen=True)
class AutoRunner:
    """Uses the sandbox if it works, else plain control; finds out at the first use, and logs a warning.

    Where that cannot be found out, the sandbox is asked, and refuses.
    """

    sandboxed: SandboxedRunner
    plain: ControlledRunner

    def _runner(self) -> ScriptRunner:
        tried = self.sandboxed.probe()
        return self.sandboxed if tried.program or not tried.is_certain else self._unsandboxed

    @cached_property
    def _unsandboxed(self) -> ScriptRunner:
        logger.warning(
            "scripts run WITHOUT a sandbox: %s. They can read and write whatever this user can "
            "(sandbox = require refuses to run them so)",
            self.sandboxed.why_not(),
        )
        return self.plain

    def preflight(self, request: ScriptRequest) -> str:
        return self._runner().preflight(request)

    def run(self, request: ScriptRequest) -> ScriptResult:
        return self._runner().run(request)

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent, in a sandbox or not."""
        return [*self.sandboxed.finish_looks(), *self.plain.finish_looks()]


def refused(reason: str) -> ScriptError:
    """Return the error of every script where a sandbox is required, and none works."""
    return ScriptError(f"No script is run without a sandbox here (sandbox = require), and {reason}.")


PURPOSES: Final = {
    ("bash", "sh"): "scripts in .sh, .bash",
    ("node", "bun", "deno"): "scripts in .js, .mjs, .cjs",
    ("uv",): "Python scripts that name the packages they need (PEP 723)",
    ("git",): "skills that read a repository",
}
"""By a program and those that would do as well: what it is for."""


def wanted_programs(path: str | None = None, workspace: Path | None = None) -> tuple[Program, ...]:
    """Look for every program that skills may need; arguments as in `find_program`."""
    programs = [Program("python", sys.executable, "scripts in .py")]
    for (name, *substitutes), purpose in PURPOSES.items():
        found = [find_program(program, path, workspace) for program in (name, *substitutes)]
        place = next((each.path for each in found if each.path), None)
        elsewhere = next((each.elsewhere for each in found if each.elsewhere), "")
        programs.append(Program(name, place, purpose, tuple(substitutes), "" if place else elsewhere))
    return tuple(programs)
