"""Run scripts under plain control: bounded in time, output and parallelism, with a clean environment.

This is no sandbox: a script can read and write whatever its user can. See security.md, 1.6.
"""

import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from threading import BoundedSemaphore
from typing import Final

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.interpreter import command_for
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.scripts.watch import Watch

PASSED_ON: Final = ("PATH", "LANG", "LC_*", "TZ", "TMPDIR")
"""The variables that a script inherits; a `*` at the end stands for any ending."""


class ControlledRunner:
    """Runs each script in a session of its own, and leaves nothing of its process group behind."""

    level = "controlled"

    def __init__(
        self,
        *,
        timeout: float = 60,
        max_output: int = 100_000,
        environment: Mapping[str, str],
        passed_on: Collection[str] = PASSED_ON,
        max_parallel: int = 4,
    ) -> None:
        """Set the limits of every run.

        `timeout` is in seconds, from the start of the process; `max_output` in bytes that are kept
        of each stream. Only the variables of `environment` that `passed_on` names reach a script.
        """
        self._timeout = timeout
        self._max_output = max_output
        self._inherited = _allowed(environment, passed_on)
        self._uv_cache = _uv_cache(environment)
        self._slots = BoundedSemaphore(max_parallel)

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run to the end, or to the limits. Raises ScriptError when the script cannot be started."""
        command = [*command_for(request.script.absolute(), self._inherited.get("PATH")), *request.args]
        environment = self._environment(request.workdir, command[0])
        with self._slots:
            started = time.monotonic()
            process = _start(request, command, environment)
            watch = Watch(process, (request.stdin or "").encode(errors="replace"), self._max_output)
            try:
                ended = watch.until_end(started + self._timeout)
            finally:
                watch.clean_up()
        return ScriptResult(
            exit_code=process.returncode if ended == "exited" else None,
            stdout=watch.stdout.text(),
            stderr=watch.stderr.text(),
            seconds=time.monotonic() - started,
            timed_out=ended == "timed-out",
            stdout_cut=watch.stdout.cut,
            stderr_cut=watch.stderr.cut,
            level=self.level,
        )

    def _environment(self, workdir: Path, program: str) -> dict[str, str]:
        fixed = {
            "HOME": str(workdir.absolute()),
            "PYTHONUTF8": "1",
            "PYTHONIOENCODING": "utf-8",
            # Output before a time limit is worth more than speed, and a skill's folder stays as it is.
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if Path(program).name == "uv" and self._uv_cache:
            fixed["UV_CACHE_DIR"] = self._uv_cache
        return {"LANG": "C.UTF-8", **self._inherited, **fixed}


def _start(
    request: ScriptRequest, command: list[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - an argument list, and running scripts is the purpose
            command,
            cwd=request.workdir,
            env=environment,
            stdin=subprocess.DEVNULL if request.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise ScriptError(f"Cannot start {request.script.name}: {error.strerror}.") from error
    except ValueError as error:  # a NUL or a lone surrogate in an argument
        raise ScriptError(f"Cannot start {request.script.name}: bad argument ({error}).") from error


def _allowed(environment: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    exact = {name for name in names if not name.endswith("*")}
    prefixes = tuple(name.removesuffix("*") for name in names if name.endswith("*"))
    return {
        name: value
        for name, value in environment.items()
        if name in exact or (prefixes and name.startswith(prefixes))
    }


def _uv_cache(environment: Mapping[str, str]) -> str | None:
    """Return the cache that uv uses outside of a run: with HOME replaced, it would start a new one."""
    if environment.get("UV_CACHE_DIR"):
        return environment["UV_CACHE_DIR"]
    if environment.get("XDG_CACHE_HOME"):
        return str(Path(environment["XDG_CACHE_HOME"], "uv"))
    home = environment.get("HOME")
    return str(Path(home, ".cache", "uv")) if home else None
