"""What a sandbox shows of this machine: options for bubblewrap."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.sandbox import forwarder
from skills_agent.sandbox.seccomp import seccomp_program
from skills_agent.skills.confined import is_in
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.scripts.environment import is_root
from skills_agent.skills.scripts.interpreter import OWN_PYTHON
from skills_agent.skills.scripts.runner import NODE_MODULES

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
MAX_PLACES: Final = 300
"""Places that are mounted: each takes the longer, the more there are (100: some 30 ms, 300: 0.4 s)."""
MAX_HELD: Final = 200
"""Folders that are kept from being renamed; what is put in the place of others is found after the run."""


@cache
def isolation() -> tuple[str, ...]:
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


class Base(NamedTuple):
    """What every sandbox begins with."""

    options: list[str]
    descriptors: tuple[int, ...]
    """What the options read from: to be closed once bubblewrap has them."""


def base(*, network: bool) -> Base:
    """Return the options that isolate, filter system calls, and show the system; descriptors are opened."""
    copied = _copied(network=network)
    options = [*isolation(), *(["--share-net"] if network else []), *_system(copied, network=network)]
    descriptors = [*copied.values()]
    if program := seccomp_program(os.uname().machine):
        descriptors.append(_piped(program))
        options += ["--seccomp", str(descriptors[-1])]
    return Base(options, tuple(descriptors))


def _piped(content: bytes) -> int:
    """Return a descriptor that these bytes, which fit into a pipe, are read from."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


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
    """Yield the options that show the system: its programs, libraries and settings, read-only."""
    paths = [*SYSTEM, "/nix/store", *_of_etc(network=network)]
    links = {path: target for path in paths if (target := _link_into_usr(path))}
    # A mount takes a third of a millisecond: on most systems five of these are links.
    yield from (word for path, target in links.items() for word in ("--symlink", target, path))
    yield from (word for path, number in copied.items() for word in ("--file", str(number), path))
    yield from read_only(Path(path) for path in paths if path not in links and path not in copied)


def no_programs() -> Iterator[str]:
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


def proxy_places(proxy: Path | None) -> Iterator[str]:
    """Yield the options that show a program the proxy's socket, and what leads there."""
    if proxy:
        yield from ("--ro-bind", str(proxy), str(PROXY))
        yield from ("--ro-bind", forwarder.__file__, str(FORWARDER))


def node_modules(packages: Path | None) -> Iterator[str]:
    """Yield the options that show the Node packages of a skill."""
    if packages:
        yield from ("--ro-bind-try", str(packages / NODE_MODULES), str(INSIDE_MODULES))


def forwarding() -> tuple[str, ...]:
    """Return the program that leads from a sandbox to its proxy."""
    return (OWN_PYTHON, "-I", "-S", str(FORWARDER), str(PROXY / forwarder.SOCKET))


def work_folders(
    workspace: Path,
    views: Mapping[Path, Path],
    kept: Mapping[Path, Sequence[str]] | None = None,
    skill_folder: Path | None = None,
) -> list[str]:
    """Return the options for the folders that a script works in; later mounts lie on top of earlier ones.

    `views`: the folders that it writes in, with what it sees in their place, or themselves. `kept`: the paths
    in each that it must not write. Raises ScriptError for too many of these.
    """
    own, held = workspace / OWN_FOLDER, {}
    _make_own_folder(own)
    for folder, paths in (kept or {}).items():
        held[folder] = _held(folder, paths, [skill_folder] if skill_folder and folder == workspace else [])
    view = ["--bind", str(views[workspace])] if workspace in views else ["--ro-bind", str(workspace)]
    options = [*view, str(workspace), *held.get(workspace, ()), "--size", "4096", "--tmpfs", str(own)]
    for folder in sorted(views.keys() - {workspace}):
        options += ("--bind", str(views[folder]), str(folder), *held.get(folder, ()))
    return options


def repositories_of(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the `.git` of each folder, and where it is a file, the repository in the folder that it names."""
    for folder in folders:
        git, top = folder / GIT, folder.resolve()
        yield git
        if git.is_file():
            with git.open(encoding="utf-8", errors="replace") as file:
                named = file.read(4096).removeprefix("gitdir:").strip()
            place = Path(os.path.realpath(os.path.join(top, named.replace("\0", ""))))  # noqa: PTH118 - or absolute
            if top in place.parents:
                yield folder / place.relative_to(top)


def hidden(places: Iterable[Path]) -> Iterator[str]:
    """Yield the options that hide files and folders."""
    for place in places:
        if place.is_dir():
            yield from ("--size", "4096", "--tmpfs", str(place))
        elif place.exists():
            yield from ("--ro-bind", os.devnull, str(place))


def _held(folder: Path, paths: Sequence[str], more: list[Path]) -> Iterator[str]:
    """Yield the options that make paths in a folder read-only, and keep the folders above them in place.

    A mount point cannot be renamed, but a folder above it could, on the host, and another be put in its
    place. So each of these is mounted on itself, the outermost first.
    """
    if len(paths) > MAX_PLACES:
        raise ScriptError(
            f"Not run: {folder} holds more than {MAX_PLACES} repositories, or files with a name elsewhere: "
            "too many to keep a script from. The operator can choose a smaller one, or set workdir = thread."
        )
    places = [folder / path for path in paths]
    above = {parent for path in (*places, *more) for parent in path.parents if folder in parent.parents}
    above -= {each for each in above for path in places if is_in(str(each), str(path))}
    for each in sorted(above, key=lambda each: len(each.parts))[:MAX_HELD]:
        if each.is_dir() and not each.is_symlink():
            yield from ("--bind", str(each), str(each))
    yield from read_only(places)


def _make_own_folder(own: Path) -> None:
    """Make the agent's own folder if it is missing: a script could make it and put settings there."""
    try:
        own.mkdir(exist_ok=True)
    except OSError as error:
        raise ScriptError(f"Cannot hide {own} from scripts: {error.strerror}.") from error
    if own.is_symlink():
        raise ScriptError(f"Cannot hide {own} from scripts: it is a link. Make it a folder.")


def prefixes() -> list[Path]:
    """Return the folders of the agent's own Python, but for the system's."""
    prefixes = (sys.base_prefix, os.path.realpath(sys.base_prefix), sys.prefix)
    return [Path(prefix) for prefix in prefixes if prefix != "/usr"]


def programs(
    programs: Iterable[str], workspace: Path | None, installations: Iterable[str] = ()
) -> Iterator[Path]:
    """Yield what holds these programs, and Python, and is not shown yet: a parent before what is in it."""
    shown = [*SYSTEM]
    others = (path for path in installations if not (workspace and is_in(str(workspace), path)))
    for path in (*others, *map(str, prefixes())):  # also in the workspace, or around it: read-only
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


def read_only(paths: Iterable[Path]) -> list[str]:
    """Return the options that show paths read-only, where they are."""
    return [word for path in dict.fromkeys(map(str, paths)) for word in ("--ro-bind-try", path, path)]
