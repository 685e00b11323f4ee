"""The sandbox, as the core asks for it: the names are those of `Sandbox`."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from skills_agent.sandbox import kept_changes
from skills_agent.sandbox.after import WatchedRunner
from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.copies import can_clone
from skills_agent.sandbox.held_runs import CUT_OFF
from skills_agent.sandbox.landlock import LandlockRunner
from skills_agent.sandbox.layered import LAYERS
from skills_agent.sandbox.layered_runner import LayeredRunner
from skills_agent.sandbox.overlay import why_not_mounted
from skills_agent.sandbox.settings import SandboxSettings
from skills_agent.skills.scripts.choice import Isolation, OwnRunner, Wish, plain_isolation
from skills_agent.skills.scripts.controlled import NOT_CHOSEN
from skills_agent.skills.scripts.environment import AS_ROOT_IN_SANDBOX, is_root
from skills_agent.skills.scripts.runner import HeldRun, ScriptRequest, ScriptResult

diffs = kept_changes.diffs


def sandboxes(platform: str = sys.platform) -> tuple[type[LayeredRunner], ...]:
    """Return the sandboxes of a system, the best first."""
    if platform == "darwin":
        from skills_agent.sandbox.seatbelt import SeatbeltRunner  # noqa: PLC0415 - of use on macOS alone

        return (SeatbeltRunner,)
    return (BwrapRunner, LandlockRunner)


def runner(
    wish: Wish, *, extras: Mapping[str, Any] = {}, closed: Collection[Path] = (), **control: Any
) -> OwnRunner:
    """Return the runner for a setting: a sandbox, or plain control; what runs did is looked at in all."""
    plain = WatchedRunner(**control)
    if wish == "off":
        return plain
    control |= {"network": SandboxSettings.of(extras).network, "closed": closed}
    return ChosenRunner([kind(**control) for kind in sandboxes()], plain if wish == "auto" else None)


def isolation(
    wish: Wish, path: str | None = None, workspace: Path | None = None, state: Path | None = None
) -> Isolation:
    """Return what a setting means here; with `state`, also what runs write into. Runs the sandboxes once."""
    if wish == "off":
        return plain_isolation(NOT_CHOSEN)
    note = f". {AS_ROOT_IN_SANDBOX}" if is_root() else ""
    reasons: list[str] = []
    is_certain = True
    for kind in sandboxes():
        tried = kind.probe_here(path, workspace)
        reasons.append(tried.reason)
        is_certain = is_certain and tried.is_certain
        if is_certain and tried.program:
            view = _view(workspace, state, mounts=kind.mounts)
            return Isolation(kind.level, f"{'; '.join(reasons)}{view}{note}")
    if wish == "require" or not is_certain:
        return Isolation(None, "; ".join(reasons))
    return plain_isolation("; ".join(reasons))


def _view(workspace: Path | None, state: Path | None, *, mounts: bool) -> str:
    """Return what runs write into, where that is known."""
    if not workspace or not state:
        return ""
    folder = next(each for each in (state, *state.parents) if each.is_dir())
    try:
        why = why_not_mounted(workspace, folder) if mounts else "this sandbox has no mounts"
        if not why:
            return "; runs write into layers (overlayfs)"
        kind = "clones" if can_clone(folder, workspace) else "copies"
    except (OSError, TimeoutExpired) as error:
        kind, why = "layers or copies", str(error)
    return f"; runs write into {kind} of the workspace, for no layer can be mounted ({why})"


def pending_looks(records: Path) -> int:
    """Return how many runs were cut off with their agent, while nobody has looked at what they made."""
    return sum(1 for pattern in CUT_OFF for _ in (records / LAYERS).glob(pattern))


@dataclass(frozen=True)
class ChosenRunner:
    """Uses the first sandbox that works, else plain control; finds out at the first use.

    Where that cannot be found out, that sandbox is asked, and refuses.
    """

    sandboxes: Sequence[LayeredRunner]
    """The best first."""
    plain: WatchedRunner | None
    """None: nothing runs without a sandbox."""

    def _runner(self) -> WatchedRunner:
        for each in self.sandboxes:
            tried = each.probe()
            if tried.program or not tried.is_certain:
                return each
        return self._unsandboxed or self.sandboxes[0]

    @cached_property
    def _unsandboxed(self) -> WatchedRunner | None:
        return replace(self.plain, unsandboxed=self.why_not()) if self.plain else None

    def preflight(self, request: ScriptRequest) -> str:
        return self._runner().preflight(request)

    def run(self, request: ScriptRequest) -> ScriptResult:
        return self._runner().run(request)

    def held(self, call: str) -> HeldRun | None:
        return self.sandboxes[0].held(call)

    def settle(self, call: str, *, applied: bool, by: str, why: str = "") -> ScriptResult:
        return self._runner().settle(call, applied=applied, by=by, why=why)

    def look(self, command: str, call: str) -> list[str]:
        return self._runner().look(command, call)

    def why_not(self) -> str:
        """Return why no sandbox works here; empty where one does."""
        reasons = [each.why_not() for each in self.sandboxes]
        return "; ".join(reasons) if all(reasons) else ""

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent, in a sandbox or not."""
        return self._runner().finish_looks()
