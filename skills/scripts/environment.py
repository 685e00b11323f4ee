"""What a script gets of the machine: variables by an allow-list, granted secrets, and limits."""

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from skills_agent.skills.scripts.programs import absolute_entries, without_shims
from skills_agent.skills.scripts.runner import ScriptRequest

logger = logging.getLogger(__name__)

MEBIBYTE: Final = 1 << 20
INHERITED: Final = frozenset({"PATH", "LANG", "TZ"})
FIXED: Final = {
    "PYTHONUTF8": "1",
    "PYTHONIOENCODING": "utf-8",
    # Output before a time limit is worth more than speed, and a skill's folder stays as it is.
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
AS_ROOT: Final = (
    "Scripts run as root, without a sandbox: they can change every file of this machine. "
    "Run the agent as another user, or in a container of its own."
)
AS_ROOT_IN_SANDBOX: Final = (
    "Scripts run as root in the sandbox: of root's files they can change those in the workspace alone. "
    "Run the agent as another user to prevent that."
)
_PR_SET_DUMPABLE: Final = 4


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """Limits of one run; each holds where the system can hold it (docs/sandbox.md says where)."""

    memory: int = 2048 * MEBIBYTE
    """Bytes: of each process, held by the kernel; of all together, held by the supervisor's looks."""
    file_size: int = 256 * MEBIBYTE
    """Bytes of one file, and of /dev/shm in a sandbox."""
    written_bytes: int = 2048 * MEBIBYTE
    """What a run may add to the disk: working directory, kept home, scratch and temporary folder together."""
    written_files: int = 100_000
    """Files, folders and links that it may add there."""
    open_files: int = 1024
    processes: int = 256
    """Processes of one run at a time."""
    cpu_seconds: int | None = None
    """Of each process; None: what the time limit allows on every processor."""

    def rlimits(self, timeout: float) -> dict[str, int]:
        """Return the resource limits of a process, as their names after RLIMIT_.

        DATA counts memory that can be written and is not shared. There is no limit of addresses: WebAssembly
        and Node's `fetch`, which is written in it, reserve gigabytes that they never use.
        """
        return {
            "CORE": 0,
            "CPU": self.cpu_seconds or int(timeout * (os.cpu_count() or 1)) + 1,
            "DATA": self.memory,
            "FSIZE": self.file_size,
            "NOFILE": self.open_files,
        }


def inherited_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every script inherits: where programs are, language and time zone."""
    kept = {name: value for name, value in environment.items() if name in INHERITED or name.startswith("LC_")}
    return kept | {"PATH": without_shims(absolute_entries(kept["PATH"]))} if "PATH" in kept else kept


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


@cache
def warn_of_root() -> None:
    """Warn once a process where scripts run as root without a sandbox."""
    if is_root():
        logger.warning(AS_ROOT)


def is_granted(grants: Collection[str], request: ScriptRequest) -> bool:
    """Return whether the operator named this skill: as `name@source`, or as `name` if its source is trusted.

    A repository can bring a skill of any name. It must not get what was meant for another.
    """
    return f"{request.skill}@{request.source}" in grants or (request.trusted and request.skill in grants)


def secrets_of(
    granted: Mapping[str, Collection[str]], request: ScriptRequest, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the secrets of the request's skill that are set, by their variables' names."""
    names = {name for skill, names in granted.items() if is_granted((skill,), request) for name in names}
    return {name: environment[name] for name in sorted(names) if environment.get(name)}


def make_undumpable() -> bool:
    """Have the kernel refuse the agent's /proc/<agent>/environ, /mem and ptrace to its user's processes.

    It also refuses core dumps, debuggers and profilers that attach from outside. It stops neither root nor
    a child that was forked and has not started another program. False on other systems than Linux.
    """
    from skills_agent.skills.scripts.supervisor import prctl  # noqa: PLC0415 - POSIX systems alone can import it

    return prctl(_PR_SET_DUMPABLE, 0)
