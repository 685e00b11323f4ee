"""Confine programs by Seatbelt, the sandbox of macOS, with a profile for its program `sandbox-exec`.

A profile is text, and nobody's names may become part of it: paths are handed over beside it (`-D`), and meant
by `(param "NAME")`. The kernel knows files by their real paths: no link on the way, and in the letter case of
the disk. `seatbelt.sb` is the part that every profile has.
"""

import ctypes
import fcntl
import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import ClassVar, Final

from skills_agent.sandbox.confined_runner import ConfinedRunner, Network, mark_of, try_confined
from skills_agent.sandbox.layered import Layers
from skills_agent.sandbox.probes import Probe, probed
from skills_agent.skills.confined import is_in, opened_folder
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.controlled import ScriptRun
from skills_agent.skills.scripts.supervised import KILL_SECONDS

SANDBOX_EXEC: Final = "/usr/bin/sandbox-exec"
"""By its path: in PATH, there may be another one."""
DEVELOPERS: Final = ("/var/db/xcode_select_link", "/Library/Developer/CommandLineTools")
"""Where the tools may be that /usr/bin/git and others there only stand for."""
READS: Final = "file-read* file-map-executable"
SHUT: Final = "file-read-data file-read-xattr file-map-executable process-exec*"
"""Not `file-read-metadata`: programs look at the folders above what is open to them."""
TO_PROXY: Final = """\
profile=$1; shift
exec "$0" -p "$profile(allow network-outbound (remote ip \\"localhost:${https_proxy##*:}\\"))" "$@"
"""
"""Starts `$0` when the proxy's port is known."""
WEAKER: Final = (
    "programs see which files exist, and have no limit of memory and processes together; they have no /tmp "
    "but $TMPDIR, no multiprocessing of Python, no servers of their own, and do not run in the background"
)
_GLOBAL_NAME, _NO_REPORT, _MOST_PIDS = 2, 0x40000000, 100_000


def launcher(
    read: Collection[Path],
    write: Collection[Path],
    *,
    closed: Collection[Path] = (),
    network: Network = "closed",
    programs: Collection[Path] | None = None,
    mark: str,
) -> list[str]:
    """Return what is put before a command, whose program is a path, to confine it.

    `read` (beside what is the system's), `write`, `network` and `programs` as of `landlock.launcher`;
    `closed`: what of the files to read is closed, but for those that are named in it. `mark` is what
    `processes_of` finds the processes by.
    """
    xcode = [each.parent for each in _developers() if each.parent.name == "Contents"]  # with what it loads
    opened, shut = ([*map(_kernel_path, paths)] for paths in ([*read, *xcode], closed))
    inside = [each for each in opened if any(is_in(each, top) for top in shut)]
    values = {"MARK": mark, "NETWORK": network}

    def rule(what: str, kind: str, paths: Collection[str]) -> str:
        named = {f"{kind}{at}": path for at, path in enumerate(paths)}
        values.update(named)
        filters = " ".join(f'(subpath (param "{name}"))' for name in named)
        return f"({what} {filters})\n" if filters else ""  # without one, it would be about all

    text = Path(__file__).with_suffix(".sb").read_text()
    text += rule(f"allow {READS} process-exec*", "READ", opened)
    text += rule(f"deny {SHUT}", "CLOSED", shut)
    text += rule(f"allow {READS} process-exec*", "INSIDE", inside)
    text += rule(f"allow {READS} process-exec* file-write*", "WRITE", [*map(_kernel_path, write)])
    text += "(deny process-exec*)\n" if programs is not None else ""
    text += rule("allow process-exec*", "PROGRAM", [*map(_kernel_path, programs or ())])
    text += "(deny file-write-setugid)\n"
    options = [word for name, value in values.items() for word in ("-D", f"{name}={value}")]
    if network == "proxy":
        return ["/bin/sh", "-c", TO_PROXY, SANDBOX_EXEC, text, *options]
    return [SANDBOX_EXEC, "-p", text, *options]


def _kernel_path(path: str | Path) -> str:
    """Return a path as the kernel names what is there, or would be."""
    real = os.path.realpath(path)
    with (
        suppress(OSError),
        opened_folder(real, getattr(os, "O_EVTONLY", os.O_RDONLY) | os.O_NONBLOCK) as place,
    ):
        if question := getattr(fcntl, "F_GETPATH", None):  # macOS; elsewhere there is no other spelling
            return os.fsdecode(fcntl.fcntl(place, question, bytes(1024)).rstrip(b"\0"))
    above, name = os.path.split(real)
    return os.path.join(_kernel_path(above), name) if name else real  # noqa: PTH118 - both are text


def _developers() -> list[Path]:
    """Return the folder of the tools that programs of /usr/bin stand for, if it is there."""
    places = (Path(os.path.realpath(place)) for place in DEVELOPERS)
    return [place for place in places if (place / "usr/bin").is_dir()][:1]


def processes_of(mark: str) -> list[int]:
    """Return the processes of a run, also those that left their parent and session: no profile is left.

    That of the run alone allows its mark, and no other name.
    """
    libc = ctypes.CDLL(None)
    libc.sandbox_check.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]  # the rest goes another way

    def is_denied(pid: int, name: str) -> int:
        asked = ctypes.c_char_p(name.encode())
        return int(libc.sandbox_check(pid, b"mach-lookup", _GLOBAL_NAME | _NO_REPORT, asked))

    pids = (ctypes.c_int * _MOST_PIDS)()
    count = max(0, libc.proc_listallpids(pids, ctypes.sizeof(pids)))
    return [pid for pid in pids[:count] if is_denied(pid, mark) == 0 and is_denied(pid, f"{mark}.not") == 1]


def end_all(mark: str) -> int:
    """Kill until no process of a run is left, new forks too; return how many there were.

    Raises ScriptError where they do not end.
    """
    ended = set[int]()
    deadline = time.monotonic() + KILL_SECONDS
    while pids := processes_of(mark):
        if time.monotonic() > deadline:
            raise ScriptError("What the run wrote is not looked at, for its processes do not end.")
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.update(pids)
    return len(ended)


def probe(*_: object) -> Probe:
    """Confine a program that tries what it must not, and leaves a process behind that has to be found."""
    return probed("Seatbelt", _tried)


@cache
def _tried() -> Probe:
    """Return what a trial shows; one that raises OSError or TimeoutExpired shows nothing, and is not kept."""
    if not os.path.exists(SANDBOX_EXEC) or not hasattr(ctypes.CDLL(None), "sandbox_check"):  # noqa: PTH110
        return Probe(None, "Seatbelt is not there (macOS has it)")
    mark = f"skills-agent.{token_hex(8)}"
    trial = try_confined(lambda given: launcher([], [given], mark=mark), "sleep 60 >&- 2>&- &")
    left = end_all(mark)
    if trial.returncode or not left:
        cause = trial.stderr.strip() or f"exit code {trial.returncode}, and {left} processes were found"
        return Probe(None, f"Seatbelt does not work here: {cause.removeprefix('sandbox-exec: ')}")
    return Probe(SANDBOX_EXEC, f"Seatbelt works, and is weaker: {WEAKER}")


@dataclass(kw_only=True, eq=False)
class SeatbeltRunner(ConfinedRunner):
    """Runs each script confined by Seatbelt."""

    level: ClassVar[str] = "seatbelt"
    probe_here = staticmethod(probe)
    launcher = staticmethod(launcher)

    def __post_init__(self) -> None:
        super().__post_init__()
        # What stands for the tools in /usr/bin asks for them in ways that the sandbox closes.
        tools = os.pathsep.join([*(f"{place}/usr/bin" for place in _developers()), "/usr/bin"])
        entries = self.environment.get("PATH", "").split(os.pathsep)
        path = os.pathsep.join(tools if entry == "/usr/bin" else entry for entry in entries)
        self.environment = {**self.environment, "PATH": path}

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Layers]:
        with super()._care(run) as layers:
            try:
                yield layers
            finally:
                end_all(mark_of(run))
