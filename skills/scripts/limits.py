"""What one run may use of the machine."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MEBIBYTE: Final = 1 << 20

RESERVES_WITHOUT_USE: Final = frozenset({"bun", "deno"})
"""Programs that reserve far more addresses than memory: a limit of addresses would end them at once."""


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """Limits of one run; each holds where the system can hold it (docs/security.md says where)."""

    memory: int = 2048 * MEBIBYTE
    """Bytes: of each process, held by the kernel; of all together, held by the supervisor's look-outs."""
    file_size: int = 256 * MEBIBYTE
    """Bytes of one file, and of /tmp in a sandbox."""
    open_files: int = 1024
    processes: int = 256
    """Processes of one run at a time."""
    cpu_seconds: int | None = None
    """Of each process; None: what the time limit allows on every processor."""

    def rlimits(self, program: str, timeout: float) -> dict[str, int]:
        """Return the resource limits of a process, as their names after RLIMIT_.

        DATA counts what can be written and is not shared: a reservation costs nothing. AS is there
        for shared mappings, which DATA leaves out.
        """
        limits = {
            "CORE": 0,
            "CPU": self.cpu_seconds or int(timeout * (os.cpu_count() or 1)) + 1,
            "DATA": self.memory,
            "AS": 4 * self.memory,
            "FSIZE": self.file_size,
            "NOFILE": self.open_files,
        }
        if Path(program).name in RESERVES_WITHOUT_USE:
            del limits["AS"]
        return limits
