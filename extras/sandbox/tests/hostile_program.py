"""A program that tries what a sandbox must refuse: arguments OUTSIDE PORT DESCRIPTOR VICTIM.

It runs in a folder that it may write, and prints a JSON object: what became of each try by its name, "OPEN"
where it succeeded, and else the name of the error. OUTSIDE holds `secret`, `tool`, `folder` and the sockets
`server` and `datagrams`; beside it lies `readable/file`; VICTIM is the number of a process of the same user.
What succeeds does no harm to the machine.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

OUTSIDE = Path(sys.argv[1])
PORT, DESCRIPTOR, VICTIM = map(int, sys.argv[2:])
SECRET = OUTSIDE / "secret"
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
TRIES: dict[str, Callable[[], object]] = {}
NUMBERS = """
ptrace 101 117, process_vm_readv 310 270, mount 165 40, prlimit64 302 261, fchmodat2 452 452,
pidfd_open 434 434, pidfd_getfd 438 438, rt_sigqueueinfo 129 138, ioprio_set 251 30
"""
"""On x86_64 and on aarch64."""
CALLS = {name: tuple(map(int, numbers)) for name, *numbers in map(str.split, NUMBERS.split(","))}


def call(name: str, *arguments: int | bytes | None) -> int:
    result: int = LIBC.syscall(CALLS[name][os.uname().machine == "aarch64"], *arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def attempt(name: str) -> Callable[[Callable[[], object]], None]:
    def keep(function: Callable[[], object]) -> None:
        TRIES[name] = function

    return keep


def connected(family: int, kind: int, address: object) -> None:
    with socket.socket(family, kind) as one:
        one.connect(address)  # type: ignore[arg-type]
        one.send(b"x")


def through_descriptor(change: Callable[[int], object], path: Path, flags: int) -> object:
    descriptor = os.open(path, flags)
    try:
        return change(descriptor)
    finally:
        os.close(descriptor)


def linked(name: str, target: Path) -> Path:
    link = Path(name)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return link


@attempt("write through a link")
def _() -> object:
    return linked("link", SECRET).write_text("x")


@attempt("chmod through a link")
def _() -> None:
    os.chmod(linked("link", SECRET), 0o777)


@attempt("chmod by way of a linked folder")
def _() -> None:
    os.chmod(linked("folder link", OUTSIDE) / "secret", 0o777)


@attempt("chmod by a descriptor of a folder")
def _() -> object:
    return through_descriptor(lambda at: os.chmod("secret", 0o777, dir_fd=at), OUTSIDE, os.O_PATH)


@attempt("hard link in, then write")
def _() -> object:
    os.link(SECRET, "got")
    return Path("got").write_text("x")


@attempt("datagrams of a pair go to every path")
def _() -> object:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", str(OUTSIDE / "datagrams"))


@attempt("signal by way of a pipe")
def _() -> object:
    """Refused late, at the write, without an error: whoever runs this looks whether the victim lives."""
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, VICTIM)
    fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writing, b"x")
    raise PermissionError(errno.EPERM, "nothing happened")


@attempt("a descriptor of the agent")
def _() -> object:
    return os.read(DESCRIPTOR, 1)


READABLE = OUTSIDE.parent / "readable/file"
DIRECTORY = -100
TRIES |= {
    "read": SECRET.read_text,
    "list": lambda: os.listdir(OUTSIDE),
    "write": lambda: SECRET.write_text("x"),
    "truncate": lambda: os.truncate(SECRET, 0),
    "make a file": (OUTSIDE / "new").touch,
    "make a folder": (OUTSIDE / "new").mkdir,
    "make a link": lambda: (OUTSIDE / "new").symlink_to("/"),
    "make a FIFO": lambda: os.mkfifo(OUTSIDE / "new"),
    "remove": SECRET.unlink,
    "remove a folder": (OUTSIDE / "folder").rmdir,
    "rename": lambda: SECRET.rename(OUTSIDE / "new"),
    "rename into the given folder": lambda: SECRET.rename("got"),
    "rename out of it": lambda: linked("l", SECRET).rename(OUTSIDE / "new"),
    "hard link of what can be read": lambda: os.link(READABLE, "got"),
    "rename of what can be read": lambda: READABLE.rename("got"),
    "rename the given folder": lambda: Path.cwd().rename(f"{Path.cwd()}2"),
    "rename a folder above": lambda: OUTSIDE.parent.rename(f"{OUTSIDE.parent}2"),
    "hard link out": lambda: os.link(sys.argv[0], OUTSIDE / "new"),
    "execute": lambda: subprocess.run([OUTSIDE / "tool"], check=True),
    "shared memory of the user": lambda: Path("/dev/shm/sandbox-test").touch(),
    "write to /tmp": lambda: Path("/tmp/sandbox-test").touch(),
    "chmod": lambda: SECRET.chmod(0o777),
    "chmod of a folder whose name begins alike": lambda: os.chmod(f"{Path.cwd()}-beside", 0o777),
    "chmod from here": lambda: os.chmod(os.path.relpath(SECRET), 0o777),
    "chmod by /proc": lambda: os.chmod(f"/proc/{os.getpid()}/root/{SECRET}", 0o777),
    "chmod by an opened path": lambda: through_descriptor(
        lambda at: os.chmod(f"/proc/self/fd/{at}", 0o777), SECRET, os.O_PATH
    ),
    "chmod of a device": lambda: os.chmod("/dev/null", stat.S_IMODE(Path("/dev/null").stat().st_mode)),
    "fchmod of what can be read": lambda: through_descriptor(
        lambda at: os.fchmod(at, 0o777), READABLE, os.O_RDONLY
    ),
    "fchmodat2": lambda: call("fchmodat2", DIRECTORY, os.fsencode(SECRET), 0o777, 0),
    "times": lambda: os.utime(SECRET, (1, 1)),
    "times of now": lambda: os.utime(SECRET),
    "times of what can be read": lambda: through_descriptor(os.utime, READABLE, os.O_RDONLY),
    "extended attribute": lambda: os.setxattr(SECRET, "user.test", b"x"),
    "extended attribute of what can be read": lambda: through_descriptor(
        lambda at: os.setxattr(at, "user.test", b"x"), READABLE, os.O_RDONLY
    ),
    "flags of what can be read": lambda: through_descriptor(
        lambda at: fcntl.ioctl(at, 0x40086602, bytes(8)), READABLE, os.O_RDONLY
    ),
    "set-id bit": lambda: os.chmod(linked("l", Path(sys.argv[0])), 0o4755),
    "device": lambda: os.mknod("device", stat.S_IFBLK | 0o666, os.makedev(8, 0)),
    "socket file": lambda: os.mknod("socket", stat.S_IFSOCK | 0o666),
    "TCP": lambda: connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT)),
    "TCP 6": lambda: connected(socket.AF_INET6, socket.SOCK_STREAM, ("::1", PORT)),
    "another port": lambda: connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT ^ 1)),
    "UDP": lambda: connected(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT)),
    "TCP server": lambda: socket.create_server(("127.0.0.1", 0)),
    "Unix socket by its path": lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, str(OUTSIDE / "server")),
    "Unix datagrams": lambda: connected(socket.AF_UNIX, socket.SOCK_DGRAM, str(OUTSIDE / "server")),
    "abstract Unix socket": lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, f"\0sandbox-test-{PORT}"),
    "signal": lambda: os.kill(VICTIM, signal.SIGTERM),
    "signal to a group": lambda: os.killpg(os.getpgid(VICTIM), signal.SIGTERM),
    "queued signal": lambda: call("rt_sigqueueinfo", VICTIM, signal.SIGTERM, bytes(128)),
    "signal to the one above": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "ptrace": lambda: call("ptrace", 16, VICTIM, 0, 0),
    "memory of a process": lambda: call("process_vm_readv", VICTIM, None, 0, None, 0, 0),
    "take a descriptor": lambda: call("pidfd_getfd", call("pidfd_open", VICTIM, 0), 0, 0),
    "limits of a process": lambda: call("prlimit64", VICTIM, 4, None, bytes(16)),
    "priority of a process": lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 19),
    "priority of the user": lambda: os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0)),
    "processors of a process": lambda: os.sched_setaffinity(VICTIM, {0}),
    "input and output of a process": lambda: call("ioprio_set", 1, VICTIM, 0x4007),
    "/proc of the one above: mem": lambda: Path(f"/proc/{os.getppid()}/mem").read_bytes(),
    "/proc of the one above: environ": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "settings of the kernel": lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "mount": lambda: call("mount", b"none", b".", b"tmpfs", 0, None),
    "terminal": lambda: os.open("/dev/tty", os.O_RDWR),
}
for each in ("environ", "maps", "mem", "auxv", "io", "syscall"):
    TRIES[f"/proc of a process: {each}"] = Path(f"/proc/{VICTIM}/{each}").read_bytes
for each in ("cwd", "root", "fd/0", "map_files"):
    TRIES[f"/proc of a process: {each}"] = partial(os.listdir, f"/proc/{VICTIM}/{each}")


def outcome(action: Callable[[], object]) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "OPEN"


print(json.dumps({name: outcome(action) for name, action in TRIES.items()}))
