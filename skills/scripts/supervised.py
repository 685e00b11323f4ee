"""Start a program under the supervisor, and talk to the two of them.

The lifeline is a pipe of which this process holds the writing end: it closes when the agent says so, and
when the agent dies, even by SIGKILL. (PR_SET_PDEATHSIG alone would fire when the thread ends that started
the program, and reaches no grandchild.)
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts import supervisor

SUPERVISOR: Final = (sys.executable, "-I", "-S", "-X", "utf8", supervisor.__file__)


@dataclass(frozen=True, slots=True)
class Start:
    """Everything that the system is asked for when a program starts."""

    title: str
    """What a person calls it."""
    command: Sequence[str]
    workdir: Path
    environment: Mapping[str, str]
    rlimits: Mapping[str, int]
    memory: int
    """Bytes of all processes together."""
    processes: int
    wrapped: bool = False
    """Whether the first process is a wrapper that is not to be asked to end."""
    pass_fds: tuple[int, ...] = ()


class Supervised:
    """A running program, its streams, and its supervisor."""

    def __init__(self, start: Start, *, stdin: bool) -> None:
        """Start both. Raises ScriptError when the system refuses."""
        control, self._lifeline = os.pipe()
        self.status, status = os.pipe()
        limits = ",".join(f"{name}={value}" for name, value in start.rlimits.items())
        options = (control, status, os.getpid(), int(start.wrapped), start.memory, start.processes, limits)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list, and running scripts is the purpose
                [*SUPERVISOR, *map(str, options), *start.command],
                cwd=start.workdir,
                env=dict(start.environment),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(control, status, *start.pass_fds),
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            os.close(self._lifeline)
            os.close(self.status)
            raise ScriptError(f"Cannot start {start.title}: {_cause(error)}.") from error
        finally:
            os.close(control)
            os.close(status)
        self.stdin, self.stdout, self.stderr = (
            self._process.stdin,
            self._process.stdout,
            self._process.stderr,
        )

    def ask_to_end(self) -> None:
        """Have SIGTERM sent to every process of the run."""
        with suppress(OSError):
            os.write(self._lifeline, b"T")

    def end(self) -> None:
        """Have everything killed; `status` ends when it is."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def release(self, said: str) -> None:
        """Give everything back, after `status` has ended; `said` is what came from it.

        A script under plain control can kill its supervisor. Then its process group is killed from here.
        """
        self.end()
        os.close(self.status)
        with suppress(subprocess.TimeoutExpired):  # it waits for a process that the kernel cannot end
            self._process.wait(1)
        started = [line.partition(" ")[2] for line in said.splitlines() if line.startswith("started ")]
        if started and len(said.splitlines()) == 1:
            with suppress(OSError):
                os.killpg(int(started[0]), SIGKILL)


def _cause(error: OSError | ValueError) -> str:
    # A ValueError: a NUL or a lone surrogate in an argument.
    return error.strerror or str(error) if isinstance(error, OSError) else f"bad argument ({error})"
