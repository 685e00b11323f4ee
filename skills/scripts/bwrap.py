"""Run scripts in a bubblewrap sandbox, under the same supervisor as everywhere.

The script sees the system read-only, its skill's folder read-only, the workspace, and nothing else of
the disk; no other process, no network, no socket of the host. Its environment is that of plain control:
bubblewrap hands on what it was started with (`--setenv` would put secrets on a command line that every
user of the machine can read).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from skills_agent.skills.errors import SandboxMissingError, ScriptError
from skills_agent.skills.scripts.controlled import ControlledRunner, PrivateFolder, files_of
from skills_agent.skills.scripts.environment import is_granted
from skills_agent.skills.scripts.interpreter import packages_of
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.scripts.supervised import Start

ISOLATION: Final = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--hostname", "sandbox", "--proc", "/proc", "--dev", "/dev"),
)
SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on most systems, folders on others."""
ETC: Final = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "mime.types"),
    *("nsswitch.conf", "passwd", "group", "protocols", "services", "fonts", "ssl", "ca-certificates", "pki"),
)
ETC_OF_NETWORK: Final = ("resolv.conf", "hosts", "gai.conf")
OWN_FOLDER: Final = ".agent"
"""Settings and checkpoints of the agent are there: hidden."""
READ_ONLY: Final = (".agents", ".claude", ".git/hooks", ".git/config")
"""What others would carry out or obey later. Only where it exists: a sandbox cannot protect a name."""
INSIDE: Final = Path("/tmp")  # noqa: S108 - a file system of its own
HOME: Final = INSIDE / "home"
SIGNAL_OFFSET: Final = 128
OF_BUBBLEWRAP: Final = 2
"""Processes: the monitor outside, and the first one inside."""


class Probe(NamedTuple):
    """Whether the sandbox works here."""

    program: str | None
    """Where bubblewrap is; None when it does not work."""
    reason: str
    """Why it does not, or its version."""


@lru_cache(maxsize=8)
def probe(path: str | None = None) -> Probe:
    """Find out by running it; `path` is where it is searched, as in PATH.

    That the program is there says nothing: containers and AppArmor refuse it the namespaces.
    """
    program, limiter = (shutil.which(name, path=path) for name in ("bwrap", "prlimit"))
    if not program:
        return Probe(None, "bubblewrap is not installed (bwrap is not in PATH)")
    if not limiter:
        return Probe(None, "prlimit (of util-linux) is not in PATH")
    trial = [program, *ISOLATION, *_system(network=False), limiter, "--nproc=8", "true"]
    try:
        tried = subprocess.run(trial, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return Probe(None, f"bubblewrap cannot be run: {error}")
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
        return Probe(None, f"bubblewrap does not work here: {said.removeprefix('bwrap: ')}")
    return Probe(program, "works")


class BwrapRunner(ControlledRunner):
    """Runs each script in a sandbox of its own."""

    level = "bwrap"

    def __init__(self, *, workspace: Path, network: Collection[str] = (), **control: Any) -> None:
        """Set the limits of every run.

        Of `workspace` a script sees everything but the agent's own folder. `network` are the skills
        that may reach it, as `name` or `name@source`. The rest is as for ControlledRunner.
        """
        super().__init__(**control)
        self._workspace = workspace.absolute()
        self._network = network

    def probe(self) -> Probe:
        """Tell whether the sandbox works here."""
        return probe(self._inherited.get("PATH"))

    def level_for(self, request: ScriptRequest) -> str:
        """Return `bwrap` or `bwrap with network`. Raises ScriptError where the sandbox does not work."""
        self._program()
        return "bwrap with network" if is_granted(self._network, request) else self.level

    def preflight(self, request: ScriptRequest) -> str | None:
        """Say what is missing, the sandbox included."""
        try:
            self.level_for(request)
            self._need_network(request, self._command(request))
        except ScriptError as error:
            return str(error)
        return None

    def _start(self, request: ScriptRequest, secrets: Mapping[str, str], private: PrivateFolder) -> Start:
        inner = super()._start(request, secrets, private)
        self._need_network(request, inner.command)
        network = is_granted(self._network, request)
        size = str(self._limits.file_size)
        command = [
            *(self._program(), *ISOLATION, *(("--share-net",) if network else ())),
            *_system(network=network),
            *("--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
            *("--size", size, "--tmpfs", str(INSIDE), "--dir", str(HOME)),
            *_workplace(self._workspace, request.workdir.absolute()),
            *_read_only(_programs(inner.command[0], self._workspace)),
            *(_skill(files_of(request), self._place_of(request), self._workspace) if request.script else ()),
            *("--remount-ro", str(self._workspace / OWN_FOLDER)),
            *("--remount-ro", "/", "--chdir", str(request.workdir.absolute()), "--"),
            *("prlimit", f"--nproc={self._limits.processes}", "--"),
            *inner.command,
        ]
        own = {"HOME": str(HOME), "TMPDIR": str(INSIDE)}
        if "UV_CACHE_DIR" in inner.environment:
            own["UV_CACHE_DIR"] = str(HOME / ".cache")
        return replace(
            inner,
            command=command,
            environment={**inner.environment, **own},
            processes=inner.processes + OF_BUBBLEWRAP,
            wrapped=True,
        )

    def _place_of(self, request: ScriptRequest) -> Path:
        """Return where a script sees its skill: at the skill's own path, also when that folder is gone."""
        if request.mounted_at is None:
            return files_of(request)
        place = request.mounted_at.resolve()
        return place if _is_mountable(place, self._workspace) else files_of(request)

    def _need_network(self, request: ScriptRequest, command: Sequence[str]) -> None:
        """Refuse what would end in an error of uv that nobody understands."""
        if request.script is None or Path(command[0]).name != "uv" or is_granted(self._network, request):
            return
        if packages := packages_of(request.script):
            raise ScriptError(
                f"Cannot run {request.title}: it needs packages ({', '.join(packages)}), and {request.skill} "
                "has no network in the sandbox to fetch them. The operator can give it (network_skills)."
            )

    def _program(self) -> str:
        tried = self.probe()
        if tried.program is None:
            raise SandboxMissingError(tried.reason)
        return tried.program

    def _exit_code(self, code: int, request: ScriptRequest, stderr: str) -> int:
        """Translate bubblewrap's code for a death by signal; its own failures are no result."""
        if code == 1 and stderr.startswith("bwrap: "):
            raise ScriptError(f"Cannot start {request.title}: the sandbox failed ({stderr.strip()}).")
        return SIGNAL_OFFSET - code if code > SIGNAL_OFFSET else code


def _system(*, network: bool) -> list[str]:
    """Return the options for what every program needs of the system."""
    options = ["--ro-bind", "/usr", "/usr"]
    for each in SYSTEM:
        folder = Path(each)
        if folder.is_symlink():
            options += ["--symlink", os.fspath(folder.readlink()), each]
        elif folder.is_dir():
            options += ["--ro-bind", each, each]
    wanted = (*ETC, *ETC_OF_NETWORK) if network else ETC
    return [*options, *_tried("/nix/store"), *(part for name in wanted for part in _tried(f"/etc/{name}"))]


def _tried(path: str) -> tuple[str, str, str]:
    return ("--ro-bind-try", path, path)


def _workplace(workspace: Path, workdir: Path) -> Iterator[str]:
    """Yield the options for the folders that a script works in: what is mounted later lies on top."""
    beneath = workdir != workspace and workdir.is_relative_to(workspace)
    yield from ("--ro-bind" if beneath else "--bind", str(workspace), str(workspace))
    own = workspace / OWN_FOLDER
    _make(own)
    yield from ("--size", "4096", "--tmpfs", str(own))
    yield from _read_only(folder for each in READ_ONLY if not (folder := workspace / each).is_symlink())
    if workdir != workspace:
        yield from ("--bind", str(workdir), str(workdir))


def _make(own: Path) -> None:
    """Have the agent's own folder: a script could make it where it is not, and put settings there."""
    try:
        own.mkdir(exist_ok=True)
    except OSError as error:
        raise ScriptError(f"Cannot hide {own} from scripts: {error.strerror}.") from error
    if own.is_symlink():
        raise ScriptError(f"Cannot hide {own} from scripts: it is a link. Make it a folder.")


def _programs(program: str, workspace: Path) -> Iterator[Path]:
    """Yield what is needed outside of the system: this Python, and the program itself."""
    prefixes = [Path(each) for each in (sys.base_prefix, os.path.realpath(sys.base_prefix), sys.prefix)]
    yield from (prefix for prefix in prefixes if prefix != Path("/usr"))
    seen = [Path("/usr"), workspace, *map(Path, SYSTEM), *prefixes]
    for each in (Path(program), Path(os.path.realpath(program))):
        if not any(each.is_relative_to(folder) for folder in seen):
            yield each


def _skill(files: Path, place: Path, workspace: Path) -> Iterator[str]:
    """Yield the options that show a skill's files at its place, read-only.

    Where the folder is gone, the mount point is made inside the sandbox: on a file system of its own that
    shows what lies beside it.
    """
    ancestor = _existing(place)
    if ancestor not in {place, workspace} and _is_closed(ancestor, workspace):
        yield from ("--size", "4096", "--tmpfs", str(ancestor))
        yield from _read_only(sorted(ancestor.iterdir()))
    yield from ("--ro-bind", str(files), str(place))


def _is_mountable(place: Path, workspace: Path) -> bool:
    """Return whether a skill can be shown at its place without a trace on the host.

    It cannot where the sandbox would make a folder of the workspace, or in a folder of the system.
    """
    ancestor = _existing(place)
    if ancestor == place:
        return True
    if place.is_relative_to(workspace):
        return place.is_relative_to(workspace / OWN_FOLDER) or _is_closed(ancestor, workspace)
    return not any(place.is_relative_to(each) for each in ("/usr", *SYSTEM, sys.prefix, sys.base_prefix))


def _is_closed(folder: Path, workspace: Path) -> bool:
    """Return whether scripts cannot write to a folder of the workspace anyway."""
    return any(folder.is_relative_to(workspace / each) for each in READ_ONLY)


def _existing(path: Path) -> Path:
    """Return the path, or its nearest ancestor that exists."""
    return next(each for each in (path, *path.parents) if each.is_dir())


def _read_only(paths: Collection[Path] | Iterator[Path]) -> Iterator[str]:
    for path in dict.fromkeys(paths):
        if path.exists():
            yield from ("--ro-bind", str(path), str(path))
