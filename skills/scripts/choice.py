"""Which runner runs the scripts of this machine: that of the extra sandbox, or plain control without it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.controlled import NOT_CHOSEN, ControlledRunner
from skills_agent.skills.scripts.environment import AS_ROOT, is_root
from skills_agent.skills.scripts.runner import CONTROLLED, HeldRun, ScriptRequest, ScriptResult, ScriptRunner

Wish = Literal["auto", "require", "off"]
"""The setting `sandbox`."""
NOT_INSTALLED: Final = "the extra sandbox is not installed: install skills-agent again, with it"


class Isolation(NamedTuple):
    """How scripts of this machine are isolated."""

    level: str | None
    """None: they are refused."""
    reason: str


@runtime_checkable
class OwnRunner(ScriptRunner, Protocol):
    """A runner of this project; a host's may be any other."""

    def why_not(self) -> str:
        """Return why it is no sandbox; empty where it is one. May run the sandbox, once a process."""

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent; return what came of it."""

    def look(self, command: str, call: str) -> list[str]:
        """Look at what a run in the background changed, by the key of its call; return what came of it.

        What a person is asked about is held for another call.
        """

    def held(self, call: str) -> HeldRun | None:
        """Return the run of a call, by its key, of whose changes a person decides, or has decided."""

    def settle(self, call: str, *, applied: bool, by: str, why: str = "") -> ScriptResult:
        """Apply the changes that a person was asked about, or drop them; return the result with that.

        `by` is who decides (`ScriptResult.settled_by`), `why` a sentence for the model. Raises ScriptError
        where nothing is held; also, as OSError, where they cannot be applied: then they are still held.
        """


class Sandbox:
    """Isolates scripts, and looks after what they did: an extra brings a module with these names.

    This one is none: scripts run under plain control, with a warning, or not at all.
    """

    def runner(
        self,
        wish: Wish,
        *,
        extras: Any = None,  # noqa: ARG002
        closed: Any = (),  # noqa: ARG002 - nothing can be hidden
        protected: Any = (),  # noqa: ARG002 - and nothing kept from being written
        records: Any = None,  # noqa: ARG002
        **control: Any,
    ) -> OwnRunner:
        """Return the runner for a setting, which starts nothing; `control` is what ControlledRunner takes.

        For a sandbox: the settings of `extras`, of which some may be its own, what is `closed` of the
        workspace, what is `protected` beside `PROTECTED`, and what returns the folder for `records`.
        """
        if wish == "off":
            return ControlledRunner(**control)
        return (_Refusal if wish == "require" else ControlledRunner)(**control, unsandboxed=NOT_INSTALLED)

    def isolation(
        self,
        wish: Wish,
        path: str | None = None,  # noqa: ARG002
        workspace: Path | None = None,  # noqa: ARG002
        state: Path | None = None,  # noqa: ARG002
    ) -> Isolation:
        """Return what a setting means here, with a state folder in more words; the rest as `find_program`."""
        if wish == "require":
            return Isolation(None, NOT_INSTALLED)
        return plain_isolation(NOT_CHOSEN if wish == "off" else NOT_INSTALLED)

    def diffs(self, state: Path, workspace: Path) -> Mapping[tuple[str, str], str]:  # noqa: ARG002
        """Return diffs of what runs changed, by the key of the call and the path, while they are kept."""
        return {}

    def pending_looks(self, records: Path) -> int:  # noqa: ARG002
        """Return how many runs were cut off with their agent, while nobody has looked at what they made."""
        return 0


class _Refusal(ControlledRunner):
    """Refuses every script."""

    def preflight(self, request: ScriptRequest) -> str:  # noqa: ARG002
        raise refused(self.unsandboxed)


def plain_isolation(reason: str) -> Isolation:
    """Return that scripts run under plain control."""
    return Isolation(CONTROLLED, f"{reason}. {AS_ROOT}" if is_root() else reason)


def refused(reason: str) -> ScriptError:
    """Return the error of every script where a sandbox is required, and none works."""
    return ScriptError(f"No script is run without a sandbox here (sandbox = require), and {reason}.")
