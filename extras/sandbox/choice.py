"""The sandbox, as the core asks for it: the names are those of `Sandbox`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from skills_agent.sandbox.bwrap import BwrapRunner, probe
from skills_agent.sandbox.copies import can_clone
from skills_agent.sandbox.layered import CUT_OFF, LAYERS
from skills_agent.sandbox.overlay import why_not_mounted
from skills_agent.sandbox.settings import SandboxSettings
from skills_agent.sandbox.unfinished import UnfinishedRuns
from skills_agent.sandbox.watched import WatchedRunner
from skills_agent.skills.scripts.choice import Isolation, OwnRunner, Wish, plain_isolation
from skills_agent.skills.scripts.controlled import NOT_CHOSEN
from skills_agent.skills.scripts.environment import AS_ROOT_IN_SANDBOX, is_root
from skills_agent.skills.scripts.runner import CONTROLLED, SANDBOXED, HeldRun, ScriptRequest, ScriptResult


def runner(
    wish: Wish, *, extras: Mapping[str, Any] = {}, closed: Collection[Path] = (), **control: Any
) -> OwnRunner:
    """Return the runner for a setting: bubblewrap, or plain control; what runs did is looked at in both."""
    plain = WatchedRunner(**control)
    if wish == "off":
        return plain
    sandboxed = BwrapRunner(network=SandboxSettings.of(extras).network, closed=closed, **control)
    return sandboxed if wish == "require" else AutoRunner(sandboxed, plain)


def isolation(
    wish: Wish, path: str | None = None, workspace: Path | None = None, state: Path | None = None
) -> Isolation:
    """Return what a setting means here; with `state`, also what runs write into. Runs the sandbox once."""
    if wish == "off":
        return plain_isolation(NOT_CHOSEN)
    tried = probe(path, workspace)
    if tried.program:
        view = f"; {_view(path, workspace, state)}" if workspace and state else ""
        note = f". {AS_ROOT_IN_SANDBOX}" if is_root() else ""
        return Isolation(SANDBOXED, f"{tried.program} works{view}{note}")
    if wish == "require" or not tried.is_certain:
        return Isolation(None, tried.reason)
    return plain_isolation(tried.reason)


def _view(path: str | None, workspace: Path, state: Path) -> str:
    """Return what runs write into."""
    folder = next(each for each in (state, *state.parents) if each.is_dir())
    try:
        if not (why := why_not_mounted(path, workspace, folder)):
            return "runs write into layers (overlayfs)"
        kind = "clones" if can_clone(folder, workspace) else "copies"
    except (OSError, TimeoutExpired) as error:
        kind, why = "layers or copies", str(error)
    return f"runs write into {kind} of the workspace, for no layer can be mounted ({why})"


def pending_looks(records: Path) -> int:
    """Return how many runs were cut off with their agent, while nobody has looked at what they made."""
    layers = sum(1 for pattern in CUT_OFF for _ in (records / LAYERS).glob(pattern))
    return layers + sum(UnfinishedRuns(lambda: records, level).pending() for level in (CONTROLLED, SANDBOXED))


@dataclass(frozen=True)
class AutoRunner:
    """Uses the sandbox if it works, else plain control; finds out at the first use.

    Where that cannot be found out, the sandbox is asked, and refuses.
    """

    sandboxed: BwrapRunner
    plain: WatchedRunner

    def _runner(self) -> WatchedRunner:
        tried = self.sandboxed.probe()
        return self.sandboxed if tried.program or not tried.is_certain else self._unsandboxed

    @cached_property
    def _unsandboxed(self) -> WatchedRunner:
        return replace(self.plain, unsandboxed=self.sandboxed.why_not())

    def preflight(self, request: ScriptRequest) -> str:
        return self._runner().preflight(request)

    def run(self, request: ScriptRequest) -> ScriptResult:
        return self._runner().run(request)

    def held(self, call: str) -> HeldRun | None:
        return self.sandboxed.held(call)

    def settle(self, call: str, *, applied: bool) -> ScriptResult:
        return self.sandboxed.settle(call, applied=applied)

    def why_not(self) -> str:
        return self.sandboxed.why_not()

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent, in a sandbox or not."""
        return [*self.sandboxed.finish_looks(), *self.plain.finish_looks()]
