"""Run scripts in a bubblewrap sandbox, under the same supervisor as everywhere: docs/security.md.

Bubblewrap hands on the environment that it was started with: `--setenv` would put secrets on a command line
that every user of the machine can read.
"""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from skills_agent.sandbox import forwarder
from skills_agent.sandbox.closed_network import NO_RETRIES, closed_network_text, open_network_text
from skills_agent.sandbox.protected_files import Watch
from skills_agent.sandbox.seccomp import seccomp_program
from skills_agent.sandbox.shared_folders import shared_with
from skills_agent.sandbox.supervised import ProgramStart
from skills_agent.skills import posix
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.network import lookups
from skills_agent.skills.network.addresses import IsAllowed, is_public
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.environment import is_granted, is_root
from skills_agent.skills.scripts.interpreter import OWN_PYTHON, packages_of
from skills_agent.skills.scripts.programs import absolute_entries, find_program, shim_targets
from skills_agent.skills.scripts.run_folders import RunFolders
from skills_agent.skills.scripts.runner import NODE_MODULES, ScriptRequest, ScriptResult

ISOLATION: Final = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--hostname", "sandbox", "--proc", "/proc", "--dev", "/dev"),
)
READ_ONLY_OF_PROC: Final = ("sys", "fs")
HIDDEN_OF_PROC: Final = (
    *("acpi", "kcore", "keys", "kmsg", "latency_stats", "sched_debug", "scsi"),
    *("sysrq-trigger", "timer_list"),
)
"""About the machine and not about the script's processes: containers hide them, too."""
NOBODY: Final = "65534"
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC: Final = (
    *("alternatives", "ld.so.cache", "localtime", "timezone", "mime.types"),
    *("nsswitch.conf", "passwd", "group", "protocols", "services", "fonts", "ssl", "pki"),
    "ca-certificates/extracted",
)
ETC_OF_NETWORK: Final = ("resolv.conf", "hosts", "gai.conf")
LOOPBACK: Final = b"127.0.0.1 localhost\n::1 localhost\n"
"""What a closed network knows by name: scripts start servers, and wait for `localhost`."""
OWN_FOLDER: Final = ".agent"
"""It holds the agent's settings and checkpoints: hidden."""
INSIDE: Final = Path("/tmp")  # noqa: S108 - where a script sees its temporary folder
INSIDE_MODULES: Final = Path("/", NODE_MODULES)
"""Above every script: ES modules are found there, too, which do not look into NODE_PATH."""
PROXY: Final = Path("/run/skills-agent/proxy")
FORWARDER: Final = Path("/run/skills-agent/forwarder.py")
SIGNAL_OFFSET: Final = 128
MAX_HELD: Final = 200
"""Folders that are kept from being renamed; what is put in the place of others is found after the run."""


PROBE_SECONDS: Final = 30
"""How long the sandbox may take to start a program that does nothing: a starved machine is slow."""


class Probe(NamedTuple):
    """Whether the sandbox works here."""

    program: str | None
    """Where bubblewrap is; None when it does not work."""
    reason: str
    is_certain: bool = True
    """False where it could not be tried to the end: that is no "no", and the next probe tries again."""


def probe(path: str | None = None, workspace: Path | None = None) -> Probe:
    """Run the sandbox, because containers and AppArmor may refuse it; arguments as in `find_program`."""
    try:
        return _tried(path, workspace)
    except subprocess.TimeoutExpired:
        return Probe(None, f"bubblewrap did not start within {PROBE_SECONDS} seconds", is_certain=False)
    except OSError as error:
        return Probe(None, f"bubblewrap cannot be run: {error}", is_certain=False)


@lru_cache(maxsize=8)
def _tried(path: str | None, workspace: Path | None) -> Probe:
    """Return what a trial shows; one that raises OSError or TimeoutExpired shows nothing, and is not kept."""
    program, elsewhere = find_program("bwrap", path, workspace)
    limiter, _ = find_program("prlimit", path, workspace)
    if not program:
        return Probe(None, f"bubblewrap is not installed ({elsewhere or 'bwrap is not in PATH'})")
    if not limiter:
        return Probe(None, "prlimit is not installed (a program of util-linux)")
    filters, copied = _filter_descriptors(), _copied(network=False)
    command = [program, *_filter_options(filters), *_isolation(), *_system(copied, network=False)]
    command += [*_read_only(_programs((limiter,), workspace)), limiter, "--nproc=8", "true"]
    try:
        trial = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
            pass_fds=(*filters, *copied.values()),
        )
    finally:
        for descriptor in (*filters, *copied.values()):
            os.close(descriptor)
    if trial.returncode:
        cause = (trial.stderr.strip().splitlines() or [f"exit code {trial.returncode}"])[-1]
        return Probe(None, f"bubblewrap does not work here: {cause.removeprefix('bwrap: ')}")
    return Probe(program, "works")


@dataclass(kw_only=True, eq=False)
class BwrapRunner(ControlledRunner):
    """Runs each script in a sandbox of its own."""

    workspace: Path
    """A script sees everything of it but the agent's own folder."""
    closed: Collection[Path] = ()
    """What is hidden of it: secrets, where it is as wide as the home folder."""
    network: Collection[str] = ()
    """The skills that may reach it, as `name` or `name@source`."""
    is_allowed: IsAllowed = is_public
    """Which addresses an open network leads to. For tests, whose servers have no public address."""
    level: ClassVar[str] = "bwrap"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.workspace = self.workspace.absolute()

    def preflight(self, request: ScriptRequest) -> str:
        """Return `bwrap` or `bwrap with network`, and the folders that are shared. Raises ScriptError.

        That is raised where the sandbox does not work, too.
        """
        self._program()
        super().preflight(request)
        hosts = ", ".join(map(str, request.hosts))
        level = f"{self.level}, network: {hosts}" if hosts else self.level
        if is_granted(self.network, request):
            level = "bwrap with network"
        return ", with ".join([level, *map(str, shared_with(self.shared, request))])

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run as every runner; say what a program wanted of the network that is not open to it."""
        if is_granted(self.network, request):
            return super().run(request)
        refused: Mapping[str, str] = {}
        with ExitStack() as outside:
            heard = outside.enter_context(lookups.hearing())
            request = replace(request, lookups=heard.place)
            if request.hosts:
                from skills_agent.sandbox.proxy import serving  # noqa: PLC0415 - most have none

                proxy = outside.enter_context(serving(request.hosts, is_allowed=self.is_allowed))
                request, refused = replace(request, proxy=proxy.folder), proxy.refused
            result = super().run(request)
        names = () if result.exit_code == 0 else heard.names
        if request.hosts:
            wanted = open_network_text(request.hosts, refused, names)
        else:
            wanted = "" if result.exit_code == 0 else closed_network_text(result.stderr, names)
        return replace(result, note=" ".join(filter(None, [result.note, wanted])))

    def why_not(self) -> str:
        """Return why the sandbox does not work here; empty where it does. Runs it once a process."""
        tried = self.probe()
        return "" if tried.program else tried.reason

    def probe(self) -> Probe:
        """Return whether the sandbox works for this runner."""
        return probe(self.environment.get("PATH"), self.workspace)

    @contextmanager
    def _skill_folder(
        self,
        request: ScriptRequest,
        places: RunFolders,  # noqa: ARG002 - without a sandbox there is a copy
    ) -> Iterator[Path | None]:
        path = request.mounted_at.resolve() if request.mounted_at else request.folder
        own = self.workspace / OWN_FOLDER
        if path is not None and any(each.is_relative_to(path) for each in self._not_to_hide(request)):
            yield request.folder
        elif path is None or path.is_relative_to(own) or (path.is_dir() and any(path.iterdir())):
            yield path
        elif path.is_relative_to(self.workspace):
            with _mount_point(path) as is_there:
                yield path if is_there else request.folder
        else:  # bubblewrap makes it in a file system of its own, but for folders that it shows read-only
            shown = (*map(Path, SYSTEM), *_prefixes())
            yield request.folder if any(map(path.is_relative_to, shown)) else path

    def _not_to_hide(self, request: ScriptRequest) -> Iterator[Path]:
        """Yield what a script needs that the folder of its skill, or of its plugin, may hold at its place."""
        yield from (self.workspace, *_prefixes(), *(each.path for each in shared_with(self.shared, request)))
        yield from filter(None, (request.packages, request.home, request.scratch))
        yield from [Path(request.python)] if request.python else []

    def _written_folders(self, request: ScriptRequest) -> list[Path]:
        workdir = request.workdir.absolute()
        if workdir == self.workspace:
            return [workdir]
        return [workdir] if workdir.is_relative_to(self.workspace) else [self.workspace, workdir]

    def _empty_repository(self, folder: Path) -> AbstractContextManager[object]:
        """Have a `.git` where there is none: an empty one means nothing to git, and can be read-only."""
        place = folder / ".git"
        is_used = os.path.lexists(place) and (not place.is_dir() or any(place.iterdir()))
        return nullcontext() if is_used or place.is_symlink() else _mount_point(place)

    def _deal_with(self, made: Sequence[str], watch: Watch) -> str:
        try:
            place = os.path.relpath(watch.put_aside(self.workspace, made), self.workspace)
        except OSError as error:
            return f"It could not be put aside ({error.strerror}). {super()._deal_with(made, watch)}"
        return f"It was put aside, into {place}. A path that the arguments name is asked about, and stays."

    def _start(
        self,
        request: ScriptRequest,
        secrets: Mapping[str, str],
        places: RunFolders,
        folder: Path | None,
        watches: Sequence[Watch],
    ) -> ProgramStart:
        inner = super()._start(request, secrets, places, folder, watches)
        limiter = find_program("prlimit", self.environment.get("PATH"), self.workspace).path or "prlimit"
        behind_shims = shim_targets(absolute_entries(self.environment.get("PATH", "")))
        network = is_granted(self.network, request)
        program, work = self._program(), [*_work_folders(self.workspace, watches, folder)]
        copied = _copied(network=network)  # Nothing below raises: they would stay open.
        size = str(self.limits.file_size)
        hidden = [self.workspace / OWN_FOLDER, *self.closed]
        command = [
            *(*_isolation(), *(("--share-net",) if network else ())),
            *_system(copied, network=network),
            *(_no_programs() if request.is_alone else ()),
            *("--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
            *("--bind", str(places.temporary), str(INSIDE)),
            *work,
            *_hidden(hidden[1:]),
            *_read_only(
                map(Path, (inner.command[0], limiter, *([sys.executable] if request.proxy else [])))
                if request.is_alone
                else _programs((inner.command[0], limiter), self.workspace, behind_shims)
            ),
            *_read_only([request.packages] if request.packages else []),
            *_node_modules(request.node_packages),
            *_proxy_places(request.proxy),
            *(("--ro-bind", str(request.lookups), str(lookups.SOCKET)) if request.lookups else ()),
            *(("--ro-bind", str(request.folder), str(folder)) if folder else ()),
            *_read_only(each.path for each in shared_with(self.shared, request) if not each.is_writable),
            *(word for place in places.kept for word in ("--bind", str(place), str(place))),
            *(word for place in hidden if place.is_dir() for word in ("--remount-ro", str(place))),
            *("--remount-ro", "/", "--chdir", str(inner.workdir.absolute()), "--"),
            *(limiter, f"--nproc={self.limits.processes}", "--"),
            *(_forwarding() if request.proxy else ()),
            *inner.command,
        ]
        more = {} if network or request.proxy else dict(NO_RETRIES)
        cache = {"UV_CACHE_DIR": str(INSIDE / ".cache")} if "UV_CACHE_DIR" in inner.environment else {}
        filters = _filter_descriptors()
        return replace(
            inner,
            workdir=request.start,
            command=[program, *_filter_options(filters), *command],
            environment={**more, **inner.environment, **cache},
            # The monitor outside, the first one inside, and the forwarder.
            processes=inner.processes + 2 + bool(request.proxy),
            wrapped=True,
            descriptors=(*filters, *copied.values()),
        )

    def _temporary_inside(self, places: RunFolders) -> Path:  # noqa: ARG002 - it is the same for every run
        return INSIDE

    def _modules_inside(self, request: ScriptRequest) -> Path | None:
        return INSIDE_MODULES if request.node_packages else None

    def _command(self, request: ScriptRequest, folder: Path | None) -> list[str]:
        """Refuse a script whose packages cannot be fetched, too: the error of uv is hard to understand."""
        command = super()._command(request, folder)
        is_open = bool(request.hosts) or is_granted(self.network, request)
        is_offline = Path(command[0]).name == "uv" and not is_open
        if is_offline and request.script and (packages := packages_of(request.script)):
            raise ScriptError(
                f"Cannot run {request.title}: it needs packages ({', '.join(packages)}), and {request.skill} "
                "has no network in the sandbox to fetch them. A person can bring them once: skills-agent "
                f"skills needs {request.skill} --install. The operator can give it (network_skills)."
            )
        return command

    def _program(self) -> str:
        tried = self.probe()
        if not tried.is_certain:
            raise ScriptError(
                f"Not run: whether the sandbox works here is not known, for {tried.reason}. Try again; "
                "without a sandbox only `sandbox = off` runs it."
            )
        if tried.program is None:
            raise ScriptError(
                f"No script is run without a sandbox here (sandbox = require), and {tried.reason}."
            )
        return tried.program

    def _exit_code(self, code: int, request: ScriptRequest, stderr: str) -> int:
        if code == 1 and stderr.startswith("bwrap: "):
            raise ScriptError(f"Cannot start {request.title}: the sandbox failed ({stderr.strip()}).")
        is_signal = SIGNAL_OFFSET < code < SIGNAL_OFFSET + signal.NSIG  # 255 is what ssh ends with
        return SIGNAL_OFFSET - code if is_signal else code


@cache
def _isolation() -> tuple[str, ...]:
    """Return the options of every sandbox of this machine.

    To the kernel, the root of a sandbox is root where a file's owner counts, also as another number: so
    what has no namespace of its own is covered.
    """
    options = [*ISOLATION]
    if is_root():
        options += ["--unshare-user", "--uid", NOBODY, "--gid", NOBODY]
    for name in READ_ONLY_OF_PROC:
        options += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for path in (Path("/proc", name) for name in HIDDEN_OF_PROC):
        if path.is_dir():
            options += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            options += ["--ro-bind", os.devnull, str(path)]
    return tuple(options)


def _filter_descriptors() -> tuple[int, ...]:
    """Return what bubblewrap reads the filter of system calls from; none where there is no filter."""
    program = seccomp_program(os.uname().machine)
    if not program:
        return ()
    return (_piped(program),)


def _piped(content: bytes) -> int:
    """Return a descriptor that these bytes, which fit into a pipe, are read from."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


def _filter_options(descriptors: Iterable[int]) -> Iterator[str]:
    for descriptor in descriptors:
        yield from ("--seccomp", str(descriptor))


def _copied(*, network: bool) -> dict[str, int]:
    """Open the small files of `/etc` that a sandbox gets a copy of: a mount takes ten times as long."""
    opened = {} if network else {"/etc/hosts": _piped(LOOPBACK)}
    for path in _of_etc(network=network):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                opened[path] = descriptor
            else:
                os.close(descriptor)
    return opened


def _system(copied: Mapping[str, int], *, network: bool) -> Iterator[str]:
    paths = [*SYSTEM, "/nix/store", *_of_etc(network=network)]
    links = {path: target for path in paths if (target := _link_into_usr(path))}
    # A mount takes a third of a millisecond: on most systems five of these are links.
    yield from (word for path, target in links.items() for word in ("--symlink", target, path))
    yield from (word for path, number in copied.items() for word in ("--file", str(number), path))
    yield from _read_only(Path(path) for path in paths if path not in links and path not in copied)


def _no_programs() -> Iterator[str]:
    """Yield the options that leave no program to start, not even a shell."""
    for folder in (f"{top}/{name}" for top in ("/usr/local", "/usr", "") for name in ("bin", "sbin")):
        if os.path.isdir(folder) and not os.path.islink(folder):  # noqa: PTH112, PTH114 - paths are text here
            yield from ("--tmpfs", folder)


def _of_etc(*, network: bool) -> list[str]:
    return [f"/etc/{name}" for name in ((*ETC, *ETC_OF_NETWORK) if network else ETC)]


def _link_into_usr(path: str) -> str:
    """Return where a link leads, if that is in `/usr`, which is shown whole; empty for anything else."""
    try:
        target = os.readlink(path)  # noqa: PTH115 - as it is written
    except OSError:
        return ""
    places = (os.path.normpath(os.path.join(os.path.dirname(path), target)), os.path.realpath(path))  # noqa: PTH118, PTH120
    return target if all(place.startswith("/usr/") for place in places) and os.path.exists(path) else ""  # noqa: PTH110


def _proxy_places(proxy: Path | None) -> Iterator[str]:
    """Yield the options that show a program the proxy's socket, and what leads there."""
    if proxy:
        yield from ("--ro-bind", str(proxy), str(PROXY))
        yield from ("--ro-bind", forwarder.__file__, str(FORWARDER))


def _node_modules(packages: Path | None) -> Iterator[str]:
    if packages:
        yield from ("--ro-bind-try", str(packages / NODE_MODULES), str(INSIDE_MODULES))


def _forwarding() -> tuple[str, ...]:
    return (OWN_PYTHON, "-I", "-S", str(FORWARDER), str(PROXY / forwarder.SOCKET))


def _work_folders(workspace: Path, watches: Sequence[Watch], skill_folder: Path | None) -> Iterator[str]:
    """Yield the options for the folders that a script works in; later mounts lie on top of earlier ones."""
    in_workspace = [watch for watch in watches if watch.folder == workspace]
    yield from ("--bind" if in_workspace else "--ro-bind", str(workspace), str(workspace))
    own = workspace / OWN_FOLDER
    _make_own_folder(own)
    for watch in in_workspace:
        yield from _protecting(watch, [skill_folder] if skill_folder else [])
    yield from ("--size", "4096", "--tmpfs", str(own))
    for watch in watches:
        if watch not in in_workspace:
            yield from ("--bind", str(watch.folder), str(watch.folder))
            yield from _protecting(watch, [])


def _hidden(places: Iterable[Path]) -> Iterator[str]:
    for place in places:
        if place.is_dir():
            yield from ("--size", "4096", "--tmpfs", str(place))
        elif place.exists():
            yield from ("--ro-bind", os.devnull, str(place))


def _protecting(watch: Watch, more: list[Path]) -> Iterator[str]:
    """Yield the options that make protected files read-only, and keep the folders above them in place."""
    mounts = watch.mounts()
    kept = [path for path, is_writable in mounts if not is_writable]
    outermost = [path for path in kept if not any(each in path.parents for each in kept)]
    yield from _held_in_place([*outermost, *more], watch.folder, kept)
    for path, is_writable in mounts:
        yield from ("--bind" if is_writable else "--ro-bind-try", str(path), str(path))


def _held_in_place(mounts: Iterable[Path], workspace: Path, read_only: Iterable[Path]) -> Iterator[str]:
    """Yield the options that keep a script from renaming the folders above a mount.

    A mount point cannot be renamed, but a folder above it could, on the host, and another be put in its
    place. So each of these is mounted on itself, the outermost first.
    """
    above = {parent for path in mounts for parent in path.parents if workspace in parent.parents}
    above -= {folder for folder in above for each in read_only if folder == each or each in folder.parents}
    for folder in sorted(above, key=lambda folder: len(folder.parts))[:MAX_HELD]:
        if folder.is_dir() and not folder.is_symlink():
            yield from ("--bind", str(folder), str(folder))


@contextmanager
def _mount_point(path: Path) -> Iterator[bool]:
    """Have an empty folder at a path in the workspace for the time of a run; yield whether there is one.

    A skill whose own folder is gone is mounted there. To remove it would also unmount it in the sandbox of
    another run, so every run locks it, and only one that holds the lock alone removes it.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        posix.fcntl.flock(descriptor, posix.fcntl.LOCK_SH)
        yield path.is_dir()
    finally:
        with suppress(OSError):  # another run uses it, or it is not empty any more
            posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX | posix.fcntl.LOCK_NB)
            for folder in made or [path]:
                folder.rmdir()
        os.close(descriptor)


def _make_own_folder(own: Path) -> None:
    """Make the agent's own folder if it is missing: a script could make it and put settings there."""
    try:
        own.mkdir(exist_ok=True)
    except OSError as error:
        raise ScriptError(f"Cannot hide {own} from scripts: {error.strerror}.") from error
    if own.is_symlink():
        raise ScriptError(f"Cannot hide {own} from scripts: it is a link. Make it a folder.")


def _prefixes() -> list[Path]:
    prefixes = (sys.base_prefix, os.path.realpath(sys.base_prefix), sys.prefix)
    return [Path(prefix) for prefix in prefixes if prefix != "/usr"]


def _programs(
    programs: Iterable[str], workspace: Path | None, installations: Iterable[str] = ()
) -> Iterator[Path]:
    """Yield what holds these programs, and Python, and is not shown yet: a parent before what is in it."""
    shown = [*SYSTEM]
    others = (path for path in installations if not (workspace and _is_in(str(workspace), [path])))
    for path in (*others, *map(str, _prefixes())):  # also in the workspace, or around it: read-only
        if not _is_in(path, shown):
            yield Path(path)
            shown.append(path)
    shown += [str(workspace)] if workspace else []
    for program in programs:
        for path in (program, os.path.realpath(program)):
            if not _is_in(path, shown):
                yield Path(path).parent.parent if _is_installation(Path(path).parent) else Path(path)


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return f"{path}/".startswith(tuple(f"{folder}/" for folder in folders))


def _is_installation(folder: Path) -> bool:
    """Return whether a version manager put one version of a program there: it needs the files beside it."""
    return folder.name == "bin" and not {"versions", "installs"}.isdisjoint(folder.parts)


def _read_only(paths: Iterable[Path]) -> Iterator[str]:
    for path in dict.fromkeys(paths):
        yield from ("--ro-bind-try", str(path), str(path))
