"""A command line: the request for it, and what a shell's exit code says of it."""

from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Final

from skills_agent.shell.git_commands import GIT_ENVIRONMENT, arguments, git_write
from skills_agent.shell.reading import NAMED_BY_VERDICTS
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.text import one_line

SHELL: Final = ("bash", "--noprofile", "--norc", "-c")
MAX_COMMAND: Final = 100_000
"""Bytes: Linux takes 128 KiB for one argument."""
_MAX_SHOWN: Final = 200
_OWN_FOLDER: Final = ".agent"
SIGNAL_OFFSET: Final = 128


def command_request(
    command: str,
    *,
    workspace: Path,
    workdir: Path | None = None,
    cwd: str | None = None,
    timeout: float | None = None,
) -> ScriptRequest:
    """Return the request for a command line, which bash runs without any of its files of settings.

    A git command that writes in a repository is started without a shell, as the one program of its run.
    `workdir` is a thread's folder, where it has one of its own. `cwd` is where it starts, from there or
    absolute. Raises ScriptError for a line that no shell can run, for one in which git writes beside others,
    and for a folder outside of the workspace.
    """
    if not command.strip():
        raise ScriptError("The command is empty.")
    if "\0" in command:
        raise ScriptError("The command has a NUL in it: no program can be given one. Leave it out.")
    if (size := len(command.encode(errors="replace"))) > MAX_COMMAND:
        raise ScriptError(
            f"The command is too long: {size:,} bytes, and a shell takes {MAX_COMMAND:,}. Put long text into "
            "stdin, or into a file with write_file."
        )
    folder = workdir or workspace
    start = folder / (cwd or "")
    git = git_write(command, start, folder)
    return ScriptRequest(
        skill="",
        script=None,
        args=("git", *arguments(git, start)) if git else (*SHELL, command),
        stdin=None,
        workdir=folder,
        cwd=None if cwd is None else _start_in(cwd, folder, workspace),
        command=command,
        timeout=timeout,
        variables=GIT_ENVIRONMENT if git else {},
        repository=git.repository.common if git else None,
        judged_by_name=NAMED_BY_VERDICTS,
    )


def _start_in(cwd: str, folder: Path, workspace: Path) -> Path:
    """Return a folder of the workspace as the workspace is named, without links on its way."""
    if "\0" in cwd or not (folder / cwd).is_dir():
        raise ScriptError(f"Cannot start in {one_line(cwd, _MAX_SHOWN)!r}: there is no such folder.")
    real = (folder / cwd).resolve()
    for root in (folder, workspace):
        top = root.resolve()
        inside = real.relative_to(top) if real.is_relative_to(top) else None
        is_agents = inside is not None and root == workspace and inside.parts[:1] == (_OWN_FOLDER,)
        if inside is not None and not is_agents:
            return root / inside
    raise ScriptError(
        f"Cannot start in {one_line(cwd, _MAX_SHOWN)!r}: that is not a folder of the workspace that commands "
        "may work in. Leave out cwd to start in the working directory."
    )


def explained(result: ScriptResult, request: ScriptRequest) -> ScriptResult:
    """Return the result of a command line as one of a program: a shell says a signal by a number."""
    code = result.exit_code
    if not request.command or code is None or code - SIGNAL_OFFSET not in set(Signals):
        return result
    return replace(result, exit_code=SIGNAL_OFFSET - code)
