"""A program that starts another one, outlives it, and ends everything that it started.

Its arguments: CONTROL STATUS PARENT TERM_FROM MEMORY PROCESSES RLIMITS PROGRAM [ARGUMENT ...].

CONTROL and STATUS are numbers of descriptors. A byte from CONTROL asks the script to end (SIGTERM);
its end means that the agent closed it or is dead, however it died: everything is killed. STATUS gets
`started PID`, `error ERRNO` if it could not be started, and then one of `exit CODE` (negative: a signal),
`memory`, `processes`; its end says that no process of the run is left. Written in one thread and importing
next to nothing: it is started for every script.
"""

import _signal  # type: ignore[import-not-found]  # `signal` would cost as much as the rest
import posix  # `os` would cost a millisecond, as would the end of Python
import resource
import select
import sys
import time
from posix import _exit as end_at_once

TYPE_CHECKING = False
if TYPE_CHECKING:  # type checkers know the name: importing `typing` would cost as much as all the rest
    from collections.abc import Iterator

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
KEYCTL, KEYCTL_JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1
"""The C library has no function for this call, only its number."""
SIGKILL, SIGTERM = _signal.SIGKILL, _signal.SIGTERM
LOOKOUT_MS = 50
REST = 10
"""So many times as long as a look took, nothing is looked at: it costs a tenth of a processor at most."""


class Suppressed:
    """Pass over errors of these classes, as `contextlib.suppress` does, which is slow to import."""

    def __init__(self, *classes: type[BaseException]) -> None:
        self.classes = classes

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self.classes)


def main(arguments: list[str]) -> None:
    """Run the program, watch it, and report."""
    control, status, parent, term_from, memory, processes = map(int, arguments[:6])
    limits = [pair.split("=") for pair in arguments[6].split(",")]
    for descriptor in (control, status):
        posix.set_inheritable(descriptor, False)
    prctl(PR_SET_CHILD_SUBREAPER)
    prctl(PR_SET_NO_NEW_PRIVS)
    leave_keyring()
    child = start(arguments[7:], limits, status, sys.orig_argv[: -len(arguments) - 1] if term_from else [])
    release_streams()
    held = MemoryUse(memory)
    outcome = watch(child, control, parent, term_from, held, processes)
    code = end_all(child)
    for number, _ in held.segments():  # they would outlive all
        of_libc("shmctl", number, 0, None)
    report(status, outcome or f"exit {code}")
    end_at_once(0)


def start(command: list[str], limits: list[list[str]], status: int, own: list[str]) -> int:
    """Start the program in a session of its own, and return its number.

    It reports itself: it could kill this process before that had come to it. What a wrapper begins with that
    is as this one, `own` words and code, needs no start of Python, which takes 6 ms.
    """
    child = posix.fork()
    if not child:
        errno = 1
        posix.setsid()
        report(status, f"started {posix.getpid()}")
        prctl(PR_SET_PDEATHSIG, SIGKILL)
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # which Python ignores
            _signal.signal(number, _signal.SIG_DFL)
        for name, value in limits:
            limit(getattr(resource, f"RLIMIT_{name}"), int(value))
        if own and command[: len(own)] == own:
            code, *sys.argv[1:] = command[len(own) :]
            exec(code, {})  # noqa: S102 - as its own start would
        try:
            posix.execve(command[0], command, posix.environ)
        except OSError as error:
            errno = error.errno or 1
        finally:
            report(status, f"error {errno}")
            end_at_once(127)
    return child


def limit(kind: int, value: int) -> None:
    """Lower one limit, as far as the one that holds already allows."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with Suppressed(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(kind, (value, value))


def release_streams() -> None:
    """Leave the script's streams to the script: the agent has to notice when they end."""
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for descriptor in (0, 1, 2):
        posix.dup2(nothing, descriptor)
    posix.close(nothing)


def watch(child: int, control: int, parent: int, term_from: int, held: "MemoryUse", processes: int) -> str:
    """Return when the program ended (""), when a limit is met (its name), or when the agent is gone."""
    pause = LOOKOUT_MS
    lookout = select.poll()
    lookout.register(control, select.POLLIN | select.POLLHUP)
    with Suppressed(AttributeError, OSError):  # otherwise an exit is noticed at the next look-out
        lookout.register(posix.pidfd_open(child), select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in lookout.poll(pause)]
        if control in ready:
            if not posix.read(control, 16):
                return ""
            for pid in [-child] if sys.platform == "darwin" else family(posix.getpid())[term_from:]:
                kill(pid, SIGTERM)
        if has_ended(child) or posix.getppid() != parent:
            return ""
        pids = family(posix.getpid())
        bury(pids, child)
        if len(pids) > processes:
            return "processes"
        begun = time.monotonic()
        if held.is_over(pids):
            return "memory"
        pause = max(LOOKOUT_MS, int(1000 * REST * (time.monotonic() - begun)))


def has_ended(child: int) -> bool:
    """Return whether the child ended; it is not reaped, so that nobody gets the number of its group."""
    if sys.platform != "darwin" or hasattr(posix, "waitid"):  # which Python has on macOS since 3.13
        return posix.waitid(posix.P_PID, child, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT) is not None
    with Suppressed(ProcessLookupError):  # as for every process that has ended
        event = select.kevent(child, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        return bool(select.kqueue().control([event], 1, 0))
    return True


def end_all(child: int) -> int:
    """Kill until nothing is left, new forks too, and return the child's exit code (negative: a signal)."""
    with Suppressed(OSError):
        posix.killpg(child, SIGKILL)
        while sys.platform == "darwin":  # where no list has the new forks, nor is the dead child one of them
            posix.killpg(child, SIGKILL)
            time.sleep(0.001)
    code = 0
    while True:
        for pid in family(posix.getpid()):
            kill(pid, SIGKILL)
        try:
            while (reaped := posix.waitpid(-1, posix.WNOHANG))[0]:
                if reaped[0] == child:
                    code = posix.waitstatus_to_exitcode(reaped[1])
        except ChildProcessError:
            return code
        time.sleep(0.001)


def family(ancestor: int) -> list[int]:
    """Return every descendant, a parent before its children."""
    pids = [ancestor]
    for pid in pids:
        with Suppressed(OSError):
            for task in posix.listdir(f"/proc/{pid}/task"):
                pids += map(int, read(f"/proc/{pid}/task/{task}/children").split())
    return pids[1:]


class MemoryUse:
    """What the processes of a run hold together, pages that they share counted once.

    The kernel's limits of a process leave memory files (memfd) and segments of System V out. What of these is
    mapped is seen twice, as a file and as a shared page: the larger sum counts, at least half of all.
    """

    def __init__(self, limit: int) -> None:
        """Begin; the limit is in bytes."""
        self._limit = limit
        self._seen: set[int] = set()
        self._devices = set[int]()
        """The file systems in memory: the kernel's own, with memory files, and /dev/shm."""
        with Suppressed(AttributeError, OSError):
            descriptor = posix.memfd_create("")
            self._devices |= {posix.fstat(descriptor).st_dev, posix.stat("/dev/shm").st_dev}  # noqa: S108
            posix.close(descriptor)

    def is_over(self, pids: list[int]) -> bool:
        """Look closely only where the processes hold too much when each is counted whole."""
        self._seen.update(pids)
        files = {key: size for pid in pids for key, size in self._open_files(pid)}
        held = sum(files.values()) + sum(size for _, size in self.segments())
        if held + sum(sum(resident(pid)) for pid in pids) <= self._limit:
            return False
        shares = [share(pid) for pid in pids]
        return sum(own for own, _ in shares) + max(held, sum(shared for _, shared in shares)) > self._limit

    def _open_files(self, pid: int) -> "Iterator[tuple[tuple[int, int], int]]":
        """Yield the open files in memory that no folder names, and the bytes of each."""
        with Suppressed(OSError):
            for name in posix.listdir(f"/proc/{pid}/fd"):
                with Suppressed(OSError):
                    status = posix.stat(f"/proc/{pid}/fd/{name}")
                    if status.st_dev in self._devices:
                        yield (status.st_dev, status.st_ino), 512 * status.st_blocks

    def segments(self) -> "Iterator[tuple[int, int]]":
        """Yield the segments of System V that a process of the run made, and the bytes of each.

        Those of a sandbox are not seen from here: its filter of system calls bounds them.
        """
        for line in read("/proc/sysvipc/shm").splitlines()[1:]:
            _, number, _, _, maker, *_, in_memory, swapped = map(int, line.split())
            if maker in self._seen:
                yield number, in_memory + swapped


def resident(pid: int) -> tuple[int, int]:
    """Return the bytes that a process holds in memory but for files: its own, and those that it may share."""
    return numbers(f"/proc/{pid}/status", b"RssAnon:", b"RssShmem:")


def share(pid: int) -> tuple[int, int]:
    """Return the same, each page divided by those who share it."""
    shares = numbers(f"/proc/{pid}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")
    return shares if any(shares) else resident(pid)


def numbers(path: str, *names: bytes) -> tuple[int, int]:
    """Return two numbers of a file of the kernel, which says them in kilobytes, in bytes."""
    lines = [line.split() for line in read(path).splitlines()]
    found = {line[0]: 1024 * int(line[1]) for line in lines if line and line[0] in names}
    return found.get(names[0], 0), found.get(names[1], 0)


def read(path: str) -> bytes:
    """Return what is in a file of the kernel; nothing where it cannot be read."""
    with Suppressed(OSError), open(path, "rb") as file:  # noqa: PTH123
        return file.read()
    return b""


def bury(pids: list[int], child: int) -> None:
    """Reap adopted orphans that ended, and leave the child to `end_all`."""
    for pid in pids:
        if pid != child:
            with Suppressed(OSError):
                posix.waitpid(pid, posix.WNOHANG)


def kill(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with Suppressed(OSError):
        posix.kill(pid, number)


def report(status: int, line: str) -> None:
    """Tell the agent, if it is still there."""
    with Suppressed(OSError):
        posix.write(status, f"{line}\n".encode())


def prctl(option: int, value: int = 1) -> bool:
    """Set an attribute of this process; False where the system has no such."""
    return sys.platform == "linux" and of_libc("prctl", option, value, 0, 0, 0) == 0


def leave_keyring() -> bool:
    """Change to a session keyring that is new and empty: the old one may hold secrets of the user."""
    number = KEYCTL.get(posix.uname().machine) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
    return number is not None and of_libc("syscall", number, KEYCTL_JOIN_SESSION_KEYRING, None) != -1


def of_libc(function: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library, as `ctypes.CDLL(None)` does, which is slow to import."""
    import _ctypes  # noqa: PLC0415 - of use on Linux alone

    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), function)  # type: ignore[arg-type]
    return int(_ctypes.call_cdeclfunction(address, arguments))
