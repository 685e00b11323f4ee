"""Which runner runs the scripts: the sandbox where it works, or what the operator said."""

import logging
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from skills_agent.skills.scripts.bwrap import BwrapRunner, probe
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, ScriptRunner

logger = logging.getLogger(__name__)

Sandbox = Literal["auto", "require", "off"]


def choose_runner(
    sandbox: Sandbox, *, workspace: Path, network: Collection[str] = (), **control: Any
) -> ScriptRunner:
    """Return the runner for a setting; `control` is what ControlledRunner takes. Nothing is started yet."""
    if sandbox == "off":
        return ControlledRunner(**control)
    sandboxed = BwrapRunner(workspace=workspace, network=network, **control)
    if sandbox == "require":
        return sandboxed
    return AutoRunner(sandboxed, ControlledRunner(**control))


class Isolation(NamedTuple):
    """What scripts of this machine run in."""

    level: str | None
    """None: they are refused."""
    reason: str


def isolation_here(sandbox: Sandbox, path: str | None) -> Isolation:
    """Find out what a setting comes to on this machine; `path` as in PATH. Runs the sandbox once."""
    if sandbox == "off":
        return Isolation(ControlledRunner.level, "the sandbox is turned off (setting sandbox)")
    tried = probe(path)
    if tried.program:
        return Isolation(BwrapRunner.level, f"{tried.program} works")
    return Isolation(None if sandbox == "require" else ControlledRunner.level, tried.reason)


class AutoRunner:
    """Uses the sandbox if it works, and else plain control; finds out at the first use, and says so."""

    def __init__(self, sandboxed: BwrapRunner, plain: ControlledRunner) -> None:
        self._sandboxed = sandboxed
        self._plain = plain

    @cached_property
    def _chosen(self) -> ScriptRunner:
        tried = self._sandboxed.probe()
        if tried.program:
            return self._sandboxed
        logger.warning(
            "scripts run WITHOUT a sandbox: %s. They can read and write whatever this user can "
            "(sandbox = require refuses to run them so)",
            tried.reason,
        )
        return self._plain

    def level_for(self, request: ScriptRequest) -> str:
        """Return the level that is really used."""
        return self._chosen.level_for(request)

    def preflight(self, request: ScriptRequest) -> str | None:
        """Say what is missing for the level that is used."""
        return self._chosen.preflight(request)

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run at the level that is used."""
        return self._chosen.run(request)
