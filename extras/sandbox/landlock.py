"""Confine programs by Landlock and a filter of system calls, where there are no user namespaces.

What is confined sees the paths of this machine, not a view of it: there is no folder that looks empty, no
read-only folder inside a writable one, no network, processes or IPC of its own. So the filter refuses more
than bubblewrap's does, and `broker.py` does what Landlock has no rule about.
Source: Documentation/userspace-api/landlock.rst and seccomp_filter.rst of the kernel.
"""

import ctypes
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final

from skills_agent.sandbox import seccomp
from skills_agent.sandbox.confined_runner import ConfinedRunner, Network, try_confined
from skills_agent.sandbox.mounts import ETC, ETC_OF_NETWORK, SYSTEM
from skills_agent.sandbox.probes import Probe, probed
from skills_agent.skills.scripts.supervised import PYTHON, small_program

CONFINED: Final = small_program("confined", os.path.dirname(__file__))  # noqa: PTH120
CREATE_RULESET: Final = 444
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, REMOVE_FOLDER, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_FOLDER, MAKE_FILE, MAKE_FIFO, MAKE_LINK = (1 << bit for bit in (7, 8, 10, 12))
REFER, TRUNCATE = (1 << bit for bit in (13, 14))
OF_FIRST_VERSION: Final = (1 << 13) - 1
NEW_RIGHTS: Final = {2: REFER, 3: TRUNCATE}
"""The rights to files that later versions of Landlock know."""
SCOPES, SCOPES_SINCE = 0b11, 6
"""Abstract Unix sockets and signals."""
READ: Final = EXECUTE | READ_FILE | READ_FOLDER
CHANGE: Final = (
    (WRITE_FILE | TRUNCATE | REMOVE_FOLDER | REMOVE_FILE)
    | (MAKE_FOLDER | MAKE_FILE | MAKE_FIFO | MAKE_LINK | REFER)
)  # fmt: skip
"""Not to make devices and sockets."""
DEVICES: Final = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
ETC_TOO: Final = (
    *("debian_version", "host.conf", "lsb-release", "os-release"),
    *(f"{top}/{name}" for top in ("ssl", "pki/tls") for name in ("certs", "cert.pem", "openssl.cnf")),
    "pki/ca-trust",
)
"""Programs fail where these are there and cannot be read."""
WEAKER: Final = (
    "programs see which files exist, and other processes' command lines; they have no /tmp but $TMPDIR, no "
    "shared memory (multiprocessing of Python), no servers of their own, and do not run in the background"
)
MAX_ENTRIES: Final = 5_000
"""Of a folder in which something is closed: each of the others has a rule of its own."""


def launcher(
    read: Iterable[Path],
    write: Iterable[Path],
    *,
    closed: Collection[Path] = (),
    network: Network = "closed",
    programs: Iterable[Path] | None = None,
    mark: str = "",  # noqa: ARG001 - its supervisor finds all processes
    version: int | None = None,
) -> list[str]:
    """Return what is put before a command, whose program is a path, to confine it; it opens no descriptor.

    `read`: files and folders to read, but for what is `closed` of them; `write`: also to change. Nothing else
    is open to it but the system's, /proc and a few devices. `programs`: what of that may be executed; None:
    all. A path that is not there gives no right, and a link stands for what it leads to. `version` is that of
    Landlock, if not the kernel's own.
    Raises OSError where the kernel or the machine has no such sandbox.
    """
    version = landlock_version() if version is None else version
    machine = os.uname().machine
    more = (*seccomp.WITHOUT_NAMESPACES, *seccomp.OF_NETWORK[network])
    more += seccomp.WITHOUT_SCOPES if version < SCOPES_SINCE else ()
    files = OF_FIRST_VERSION | sum(right for since, right in NEW_RIGHTS.items() if since <= version)
    more += () if files & TRUNCATE else seccomp.WITHOUT_TRUNCATE
    program = seccomp.seccomp_program(machine, more)
    if version < 1 or not program:
        raise OSError(f"no Landlock for programs on this machine ({machine}, version {version})")
    numbers = seccomp.call_numbers(machine)
    asked = (name for rule in more if rule.action == seccomp.NOTIFY for name in rule.calls)
    calls = ",".join(f"{numbers[name]}={name}" for name in asked if name in numbers)
    readable = READ if programs is None else READ & ~EXECUTE
    rules = [
        *(f"{READ_FILE | WRITE_FILE}:{path}" for path in DEVICES),
        *(f"{readable}:{path}" for path in ("/proc", *system_paths())),
        *(f"{readable}:{each}" for path in read for each in _around(path, closed)),
        *(f"{readable | CHANGE}:{path}" for path in write),
        *(f"{READ}:{path}" for path in programs or ()),
    ]
    return [
        *CONFINED,
        f"{files},{SCOPES if version >= SCOPES_SINCE else 0}",
        program.hex(),
        calls,
        *rules,
        "--",
    ]


def landlock_version() -> int:
    """Return the version of Landlock that this kernel speaks; 0 where it has none, or is not Linux."""
    if not sys.platform.startswith("linux"):
        return 0
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return max(0, int(call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def system_paths() -> list[Path]:
    """Return what every program may read of the system: its programs, libraries and settings."""
    names = sorted({*ETC, *ETC_OF_NETWORK, *ETC_TOO} - {"ssl", "pki"})  # they hold private keys, too
    return [*map(Path, SYSTEM), Path("/nix/store"), *(Path("/etc", name) for name in names)]


def probe(*_: object) -> Probe:
    """Confine a program that tries what it must not: containers may refuse Landlock or the filter."""
    return probed("Landlock", lambda: _tried(landlock_version()))


@lru_cache(maxsize=2)
def _tried(version: int) -> Probe:
    """Return what a trial shows; one that raises OSError or TimeoutExpired shows nothing, and is not kept."""
    if not version:
        return Probe(None, "Landlock is not there, or not allowed (Linux from 5.13 has it)")
    trial = try_confined(lambda given: launcher([], [given]))
    if trial.returncode:
        cause = trial.stderr.strip().removeprefix("landlock: ") or f"exit code {trial.returncode}"
        return Probe(None, f"Landlock does not work here: {cause}")
    return Probe(PYTHON, f"Landlock {version} works, and is weaker: {WEAKER}")


@dataclass(kw_only=True, eq=False)
class LandlockRunner(ConfinedRunner):
    """Runs each script confined by Landlock and a filter of system calls."""

    level: ClassVar[str] = "landlock"
    probe_here = staticmethod(probe)
    launcher = staticmethod(launcher)


def _around(folder: Path, closed: Collection[Path]) -> Iterator[Path]:
    """Yield what is in a folder but for what is closed: itself, where nothing is.

    Landlock can close nothing in an open folder. What a link leads to is open where that itself is.
    """
    if folder not in closed and not any(folder in path.parents for path in closed):
        yield folder
    elif folder not in closed:
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                if not entry.is_symlink():
                    yield from _around(folder / entry.name, closed)
