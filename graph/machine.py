"""This machine, for skills: what runs their scripts, and holds their needs against what is here.

Imports no LangGraph.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from skills_agent.graph.hooks import first
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.user_folders import (
    cache_folder,
    make_state_folder,
    process_environment,
    user_config_folder,
    user_state_folder,
)
from skills_agent.skills.machine import Machine, Needs
from skills_agent.skills.policy.command_lines import NO_READER
from skills_agent.skills.policy.secret_paths import is_wide
from skills_agent.skills.scripts.choice import OwnRunner, Sandbox
from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.runner import CONFINED, ScriptRunner
from skills_agent.skills.scripts.shared_folders import SharedFolder
from skills_agent.skills.skill import Need
from skills_agent.skills.sources.directory import STANDARD_FOLDERS

_WRITABLE: Final = "rw:"


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
    settings: Settings,
    protected: tuple[str, ...] = (),
    closed: tuple[Path, ...] = (),
    kind: Callable[..., ScriptRunner] | None = None,
) -> ScriptRunner:
    """Return what runs scripts, by default in the sandbox. Nothing is started yet. Raises SettingsError."""
    kind = kind or partial(sandbox_here().runner, settings.sandbox, extras=settings.extras)
    return kind(
        workspace=settings.workspace,
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


def shared_folders(settings: Settings) -> dict[str, tuple[SharedFolder, ...]]:
    """Return the folders of each skill that the setting `script_folders` names. Raises SettingsError."""
    return {
        skill: tuple(_shared(text, settings) for text in texts)
        for skill, texts in settings.script_folders.items()
    }


def _shared(text: str, settings: Settings) -> SharedFolder:
    place = Path(text.removeprefix(_WRITABLE))
    if place.parts[:1] == ("~",):
        place = settings.home.joinpath(*place.parts[1:])
    if not place.is_absolute() or ".." in place.parts:
        raise SettingsError(f"Setting script_folders: {text!r} must be an absolute path, or begin with ~/.")
    real = Path(os.path.realpath(place))
    if is_wide(real, settings.home):
        raise SettingsError(
            f"Setting script_folders: {text!r} is a home folder, or holds one. Share a folder in it: in the "
            "rest are secrets, and settings that other programs obey."
        )
    if any(real.is_relative_to(each) or each.is_relative_to(real) for each in _believed(settings)):
        raise SettingsError(f"Setting script_folders: in {text!r} is what the agent itself believes or runs.")
    is_in_home = place.is_relative_to(settings.home)
    in_home = PurePosixPath(place.relative_to(settings.home)) if is_in_home else None
    return SharedFolder(real, text.startswith(_WRITABLE), in_home)


def _believed(settings: Settings) -> list[Path]:
    """Return the folders of the agent and of skills, and the workspace, which has rules of its own."""
    own = [cache_folder(settings), user_state_folder(settings), user_config_folder(settings)]
    skills = [*settings.skills_dirs, *(settings.home / name for name in STANDARD_FOLDERS)]
    return [Path(os.path.realpath(folder)) for folder in (*own, *skills, settings.workspace)]
