"""Run scripts under plain control: bounded in time, output, memory and parallelism, with a clean environment.

This is no sandbox: a script can read and write whatever its user can. docs/security.md says what holds.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from threading import BoundedSemaphore
from typing import NamedTuple

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.capture import Capture
from skills_agent.skills.scripts.environment import (
    PASSED_ON,
    allowed,
    script_environment,
    secrets_of,
    uv_cache,
)
from skills_agent.skills.scripts.interpreter import command_for, program_for
from skills_agent.skills.scripts.limits import ScriptLimits
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, Stop
from skills_agent.skills.scripts.supervised import Start, Supervised
from skills_agent.skills.scripts.watch import FLOOD_FACTOR, Watch
from skills_agent.skills.scripts.written import written_since


class PrivateFolder(NamedTuple):
    """Folders of one run, gone after it."""

    home: Path
    temporary: Path
    made_at: int
    """In the clock of the kernel's change times (ns)."""


class ControlledRunner:
    """Runs each script under a supervisor of its own, and leaves no process of it behind."""

    level = "controlled"

    def __init__(  # noqa: PLR0913 - one name for each limit
        self,
        *,
        timeout: float = 60,
        max_output: int = 100_000,
        environment: Mapping[str, str],
        passed_on: Collection[str] = PASSED_ON,
        max_parallel: int = 4,
        limits: ScriptLimits | None = None,
        secrets: Mapping[str, Collection[str]] | None = None,
        max_written: int = 50,
    ) -> None:
        """Set the limits of every run.

        `timeout` is in seconds, from the start of the process; `max_output` in bytes that are kept
        of each stream; `max_written` is how many written files are listed. Only the variables of
        `environment` that `passed_on` names reach a script, and those that `secrets` names for its skill.
        """
        self._timeout = timeout
        self._max_output = max_output
        self._environment = environment
        self._inherited = allowed(environment, passed_on)
        self._slots = BoundedSemaphore(max_parallel)
        self._limits = limits or ScriptLimits()
        self._secrets = secrets or {}
        self._max_written = max_written

    def level_for(self, request: ScriptRequest) -> str:  # noqa: ARG002 - the same for all
        """Return `controlled`."""
        return self.level

    def preflight(self, request: ScriptRequest) -> str | None:
        """Say which program or file is missing; None when nothing is."""
        try:
            self._command(request)
        except ScriptError as error:
            return str(error)
        return None

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run to the end, or to the limits. Raises ScriptError when the script cannot be started."""
        level = self.level_for(request)
        if not request.workdir.is_dir():
            raise ScriptError(f"Cannot start {request.title}: there is no folder {request.workdir}.")
        secrets = secrets_of(self._secrets, request, self._environment)
        stdout, stderr = (Capture(self._max_output, secrets.values()) for _ in range(2))
        with self._slots, _private_folder() as private:
            if request.shutdown():  # while it waited for its turn
                raise ScriptError(f"{request.title} was not started: the agent is being shut down.")
            start = self._start(request, secrets, private)
            started = time.monotonic()
            run = Supervised(start, stdin=request.stdin is not None)
            stdin = (request.stdin or "").encode(errors="replace")
            watch = Watch(run, stdin, stdout, stderr, FLOOD_FACTOR * self._max_output)
            stopped: Stop | None = None
            try:
                stopped = watch.until_end(started + self._timeout, request.shutdown)
            finally:
                watch.clean_up()
            seconds = time.monotonic() - started
            written = written_since(request.workdir, private.made_at, self._max_written)
        ending = _ending(watch.said, request.title)
        stopped = stopped or ending.stopped
        return ScriptResult(
            exit_code=None if stopped else self._exit_code(ending.code, request, stderr.text()),
            stdout=stdout.text(),
            stderr=stderr.text(),
            seconds=seconds,
            stopped=stopped,
            stdout_cut=stdout.cut,
            stderr_cut=stderr.cut,
            level=level,
            written=written.files,
            written_more=written.more,
            note=_advice(request, stderr.text()) if ending.code else "",
        )

    def _start(self, request: ScriptRequest, secrets: Mapping[str, str], private: PrivateFolder) -> Start:
        command = self._command(request)
        environment = script_environment(self._inherited, secrets, private.home, private.temporary)
        program = Path(command[0]).name
        if program == "uv" and (cache := uv_cache(self._environment)):
            environment["UV_CACHE_DIR"] = cache
        return Start(
            title=request.title,
            command=command,
            workdir=request.workdir,
            environment=environment,
            rlimits=self._limits.rlimits(program, self._timeout),
            memory=self._limits.memory,
            processes=self._limits.processes,
        )

    def _command(self, request: ScriptRequest) -> list[str]:
        path = self._inherited.get("PATH")
        if request.script is None:
            name, *args = request.args or ("",)
            return [program_for(name, path), *args]
        script = request.script.absolute()
        *program, _ = command_for(script, path)
        return [*program, str(self._place_of(request) / script.relative_to(files_of(request))), *request.args]

    def _place_of(self, request: ScriptRequest) -> Path:
        """Return where a script sees its skill: at the skill's own path while the same files are there."""
        is_there = request.mounted_at is not None and request.is_unchanged()
        return request.mounted_at if is_there and request.mounted_at else files_of(request)

    def _exit_code(self, code: int, request: ScriptRequest, stderr: str) -> int:  # noqa: ARG002
        return code


def files_of(request: ScriptRequest) -> Path:
    """Return the folder with the files of a script's skill."""
    assert request.script is not None  # noqa: S101 - for the type checker; callers ask before
    return (request.root or request.script.parent).absolute()


def _advice(request: ScriptRequest, stderr: str) -> str:
    """Say where a script can write, if it failed for writing where it cannot."""
    places = [str(place) for place in (request.mounted_at, request.root) if place]
    refused = "Permission denied" in stderr and any(place in stderr for place in places)
    if not refused and "Read-only file system" not in stderr:
        return ""
    return f"The skill's folder is read-only. Write to the workspace ({request.workdir}) or to $TMPDIR."


class _Ending(NamedTuple):
    code: int
    stopped: Stop | None


def _ending(said: str, title: str) -> _Ending:
    """Return what the supervisor reported. Raises ScriptError when the program did not start."""
    word, _, number = (said.splitlines() or [""])[-1].partition(" ")
    match word:
        case "exit":
            return _Ending(int(number), None)
        case "memory" | "processes":
            return _Ending(0, word)
        case "error":
            raise ScriptError(f"Cannot start {title}: {os.strerror(int(number))}.")
        case "started":  # and nothing more: the script killed its supervisor
            return _Ending(-SIGKILL, None)
        case _:
            raise ScriptError(f"Cannot start {title}: its supervisor did not start.")


@contextmanager
def _private_folder() -> Iterator[PrivateFolder]:
    folder = Path(tempfile.mkdtemp(prefix="skills-agent-"))
    try:
        home, temporary = folder / "home", folder / "tmp"
        home.mkdir()
        temporary.mkdir()
        yield PrivateFolder(home, temporary, folder.stat().st_ctime_ns)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
