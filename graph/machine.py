"""This machine, for skills: what runs their scripts here, and what holds their needs against it.

Imports no LangGraph.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from skills_agent.graph.hooks import first
from skills_agent.graph.settings import Settings
from skills_agent.graph.shared_folders import shared_folders
from skills_agent.graph.user_folders import make_state_folder, process_environment
from skills_agent.skills.machine import Machine, Needs
from skills_agent.skills.policy.command_lines import NO_READER
from skills_agent.skills.scripts.choice import OwnRunner, Sandbox
from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.runner import CONFINED, ScriptRunner
from skills_agent.skills.skill import Need


def sandbox_here() -> Sandbox:
    """Return the sandbox that is installed."""
    sandbox: Sandbox = first("runner", Sandbox())
    return sandbox


def shell_of(settings: Settings, runner: ScriptRunner | None) -> Callable[[], str]:
    """Return what says why this machine cannot offer the tools of a shell; empty where it can.

    That there is one is found out once: what was not there may be there the next time.
    """
    has_shell = False

    def why_not() -> str:
        nonlocal has_shell
        reason = "" if has_shell else why_no_shell_here(settings, runner)
        has_shell = not reason
        return f"no shell here: {reason}" if reason else ""

    return why_not


def why_no_shell_here(settings: Settings, runner: ScriptRunner | None = None) -> str:
    """Return why no command lines are run here; empty where they are. `runner` is that of a host."""
    if first("lines") is None:
        return NO_READER
    if settings.enable_run_command == "off":
        return "the operator turned it off (setting enable_run_command)"
    if settings.enable_run_command == "on":
        return ""
    if isinstance(runner, OwnRunner):
        return runner.why_not()
    if runner is not None:
        return "the host's runner may be no sandbox (enable_run_command = on offers it all the same)"
    path = process_environment().get("PATH")  # To know it takes no runner.
    here = sandbox_here().isolation(settings.sandbox, path, settings.workspace)
    return "" if here.level in CONFINED else here.reason


def make_runner(
    settings: Settings, protected: tuple[str, ...] = (), closed: tuple[Path, ...] = ()
) -> ScriptRunner:
    """Return what runs scripts. Nothing is started yet. Raises SettingsError."""
    return sandbox_here().runner(
        settings.sandbox,
        workspace=settings.workspace,
        extras=settings.extras,
        closed=closed,
        protected=protected,
        records=partial(make_state_folder, settings),
        timeout=settings.script_timeout,
        environment=process_environment(),
        secrets=settings.script_secrets,
        shared=shared_folders(settings),
        limits=ScriptLimits(memory=settings.script_memory),
    )


def machine_of(
    settings: Settings, unreachable: Callable[[], Mapping[str, str]] = dict, *, is_elsewhere: bool = False
) -> Machine:
    """Return what needs of skills are held against.

    `unreachable` says which MCP servers cannot be reached, and why; `is_elsewhere`: a host's runner runs
    scripts on what is not known here.
    """
    needs = first("needs")
    machine: Machine = needs.machine(settings, unreachable, is_elsewhere=is_elsewhere) if needs else Machine()
    return machine


def gather_now(folder: Path, skill_file: str) -> tuple[Need, ...]:
    """Return what the skill in a folder needs as it is now; nothing where nobody reads it."""
    needs: Needs | None = first("needs")
    return needs.gather_now(folder, skill_file) if needs else ()
