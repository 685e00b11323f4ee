"""What runs the scripts of skills on this machine. Imports no LangGraph."""

from functools import partial
from pathlib import Path

from skills_agent.graph.hooks import first
from skills_agent.graph.places import make_state_folder, process_environment
from skills_agent.graph.settings import Settings
from skills_agent.graph.shared_folders import shared_folders
from skills_agent.skills.policy.lines import NO_READER
from skills_agent.skills.scripts.choice import (
    NoSandbox,
    Sandbox,
    choose_runner,
    isolation_here,
    no_shell_here,
    why_no_shell,
)
from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.runner import ScriptRunner


def sandbox_here() -> Sandbox:
    """Return the sandbox that is installed."""
    sandbox: Sandbox = first("runner", NoSandbox)
    return sandbox


def why_no_shell_here(settings: Settings, runner: ScriptRunner | None = None) -> str:
    """Return why no command lines are run here; empty where they are. `runner` is that of a host."""
    if first("lines") is None:
        return NO_READER
    if runner is not None:
        return why_no_shell(settings.enable_run_command, runner)
    path = process_environment().get("PATH")  # To know it takes no runner.
    here = partial(isolation_here, settings.sandbox, sandbox_here(), path, settings.workspace)
    return no_shell_here(settings.enable_run_command, here)


def make_runner(
    settings: Settings, protected: tuple[str, ...] = (), closed: tuple[Path, ...] = ()
) -> ScriptRunner:
    """Return what runs scripts. Nothing is started yet. Raises SettingsError."""
    return choose_runner(
        settings.sandbox,
        sandbox_here(),
        workspace=settings.workspace,
        network=settings.network_skills,
        closed=closed,
        protected=protected,
        records=partial(make_state_folder, settings),
        timeout=settings.script_timeout,
        max_output=settings.max_script_output,
        max_written=settings.max_written_files,
        environment=process_environment(),
        secrets=settings.script_secrets,
        shared=shared_folders(settings),
        limits=ScriptLimits(
            memory=settings.script_memory,
            file_size=settings.script_file_size,
            written_bytes=settings.script_written_bytes,
            written_files=settings.script_written_files,
            kept_bytes=settings.script_kept_bytes,
            open_files=settings.script_open_files,
            processes=settings.script_processes,
            cpu_seconds=settings.script_cpu_seconds,
        ),
    )
