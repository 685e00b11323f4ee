"""A program that starts another one, outlives it, and ends everything that it started.

`python -I -S supervisor.py CONTROL STATUS PARENT TERM_FROM MEMORY PROCESSES RLIMITS PROGRAM [ARGUMENT ...]`

CONTROL and STATUS are numbers of descriptors. A byte from CONTROL asks the script to end (SIGTERM);
its end means that the agent closed it or is dead, however it died: everything is killed. STATUS gets
`started PID`, `error ERRNO` if it could not be started, and then one of `exit CODE` (negative: a signal),
`memory`, `processes`; its end says that no process of the run is left. Written in one thread and importing
next to nothing: it is started for every script.
"""

import _signal  # type: ignore[import-not-found]  # `signal` would cost as much as the rest
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # type checkers know the name: importing `typing` would cost as much as all the rest
    from collections.abc import Callable, Container, Iterator

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
KEYCTL, KEYCTL_JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1
"""The C library has no function for this call, only its number."""
SIGKILL, SIGTERM = _signal.SIGKILL, _signal.SIGTERM
IGNORED_BY_PYTHON = (_signal.SIGPIPE, _signal.SIGXFSZ)
LOOKOUT_MS = 50
REST = 10
"""So many times as long as a look took, nothing is looked at: it costs a tenth of a processor at most."""
BLOCK_BYTES = 512
CGROUPS, OWN_GROUPS = "/sys/fs/cgroup", "/proc/self/cgroup"


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
    limits = [
        (name, int(value)) for name, _, value in (pair.partition("=") for pair in arguments[6].split(","))
    ]
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)
    prctl(PR_SET_CHILD_SUBREAPER)
    prctl(PR_SET_NO_NEW_PRIVS)
    leave_keyring()
    group = memory_group(memory)
    child = start(arguments[7:], limits, status, group)
    release_streams()
    held = Memory(memory)
    outcome = watch(child, control, parent, term_from, held, processes)
    code = end_all(child)
    for number, _ in held.segments():  # they would outlive all
        of_libc("shmctl", number, 0, None)
    report(status, "memory" if was_over(group) else outcome or f"exit {code}")


def start(command: list[str], limits: list[tuple[str, int]], status: int, group: str) -> int:
    """Start the program in a session of its own, and return its number.

    It reports itself: it could kill this process before that had come to it.
    """
    child = os.fork()
    if not child:
        errno = 1
        try:
            os.setsid()
            report(status, f"started {os.getpid()}")
            prctl(PR_SET_PDEATHSIG, SIGKILL)
            for number in IGNORED_BY_PYTHON:
                _signal.signal(number, _signal.SIG_DFL)
            for name, value in limits:
                limit(getattr(resource, f"RLIMIT_{name}"), value)
            if group:
                write(f"{group}/cgroup.procs", "0")
            os.execve(command[0], command, os.environ)  # noqa: S606 - the purpose
        except OSError as error:
            errno = error.errno or 1
        finally:
            report(status, f"error {errno}")
            os._exit(127)
    return child


def limit(kind: int, value: int) -> None:
    """Lower one limit, as far as the one that holds already allows."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with Suppressed(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(kind, (value, value))


def release_streams() -> None:
    """Leave the script's streams to the script: the agent has to notice when they end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def watch(child: int, control: int, parent: int, term_from: int, held: "Memory", processes: int) -> str:
    """Return when the program ended (""), when a limit is met (its name), or when the agent is gone."""
    pause = LOOKOUT_MS
    lookout = select.poll()
    lookout.register(control, select.POLLIN | select.POLLHUP)
    with Suppressed(AttributeError, OSError):  # otherwise an exit is noticed at the next look-out
        lookout.register(os.pidfd_open(child), select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in lookout.poll(pause)]
        if control in ready:
            if not os.read(control, 16):
                return ""
            for pid in family(os.getpid())[term_from:]:
                kill(pid, SIGTERM)
        # It is not reaped yet, so that the number of its process group is not given again.
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended or os.getppid() != parent:
            return ""
        pids = family(os.getpid())
        bury(pids, child)
        if len(pids) > processes:
            return "processes"
        begun = time.monotonic()
        if held.is_over(pids):
            return "memory"
        pause = max(LOOKOUT_MS, int(1000 * REST * (time.monotonic() - begun)))


def end_all(child: int) -> int:
    """Kill until nothing is left, new forks too, and return the child's exit code (negative: a signal)."""
    with Suppressed(OSError):
        os.killpg(child, SIGKILL)
    code = 0
    rest = select.poll()
    while True:
        for pid in family(os.getpid()):
            kill(pid, SIGKILL)
        try:
            while True:
                pid, state = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid == child:
                    code = os.waitstatus_to_exitcode(state)
        except ChildProcessError:
            return code
        rest.poll(1)


def family(ancestor: int) -> list[int]:
    """Return every descendant, a parent before its children."""
    pids = [ancestor]
    listed = os.access(f"/proc/self/task/{ancestor}/children", os.R_OK)
    children = children_by_task if listed else children_of_all()
    for pid in pids:
        pids += children(pid)
    return pids[1:]


def children_by_task(pid: int) -> list[int]:
    """Return the children of every thread of a process."""
    pids: list[int] = []
    with Suppressed(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib costs milliseconds
            with Suppressed(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                pids += map(int, file.read().split())
    return pids


def children_of_all() -> "Callable[[int], list[int]]":
    """Return the same from a look at every process, for kernels that have no lists of children."""
    families: dict[int, list[int]] = {}
    with Suppressed(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            with Suppressed(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                parent = int(file.read().rpartition(b")")[2].split()[1])
                families.setdefault(parent, []).append(int(name))
    return lambda pid: families.get(pid, [])


class Memory:
    """What the processes of a run hold together, pages that they share counted once.

    The kernel's limits of a process leave memory files (memfd) and segments of System V out.
    """

    def __init__(self, limit: int) -> None:
        """Begin; the limit is in bytes."""
        self._limit = limit
        self._seen: set[int] = set()
        self._own, self._devices = 0, set[int]()
        """The file systems in memory: the kernel's own, with memory files and segments, and /dev/shm."""
        with Suppressed(AttributeError, OSError):
            descriptor = os.memfd_create("")
            self._own = os.fstat(descriptor).st_dev
            os.close(descriptor)
            self._devices |= {self._own, os.stat("/dev/shm").st_dev}  # noqa: PTH116, S108

    def is_over(self, pids: list[int]) -> bool:
        """Look closely only where the processes hold too much when each is counted whole."""
        self._seen.update(pids)
        files = {key: size for pid in pids for key, size in self._open_files(pid)}
        files |= {(self._own, number): size for number, size in self.segments()}
        held = sum(files.values())
        whole = [resident(pid) for pid in pids]
        if held + sum(whole) <= self._limit:
            return False
        for pid, most in zip(pids, whole, strict=True):
            held += most if (share := self._share(pid, files)) is None else share
        return held > self._limit

    def _open_files(self, pid: int) -> "Iterator[tuple[tuple[int, int], int]]":
        """Yield the open files in memory that no folder names, and the bytes of each."""
        with Suppressed(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with Suppressed(OSError):
                    status = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                    if status.st_dev in self._devices:
                        yield (status.st_dev, status.st_ino), status.st_blocks * BLOCK_BYTES

    def segments(self) -> "Iterator[tuple[int, int]]":
        """Yield the segments of System V that a process of the run made, and the bytes of each.

        Those of a sandbox are not seen from here: its filter of system calls bounds them.
        """
        for line in read("/proc/sysvipc/shm").splitlines()[1:]:
            _, number, _, _, maker, *_, in_memory, swapped = map(int, line.split())
            if maker in self._seen:
                yield number, in_memory + swapped

    def _share(self, pid: int, counted: "Container[tuple[int, int]]") -> int | None:
        """Return the bytes of a process without files, each page divided by those who share it."""
        kilobytes, is_counted, is_file = 0, False, False
        lines = read(f"/proc/{pid}/smaps").splitlines()
        for line in lines:
            name, *fields = line.split()
            if not name.endswith(b":"):
                major, minor = (int(each, 16) for each in fields[2].split(b":"))
                key = os.makedev(major, minor), int(fields[3])
                is_counted, is_file = key in counted, key[1] != 0 and key[0] not in self._devices
            elif name == (b"Anonymous:" if is_file else b"Pss:") and not is_counted:
                kilobytes += int(fields[0])
        return 1024 * kilobytes if lines else None


def resident(pid: int) -> int:
    """Return the bytes that a process holds in memory, but for files."""
    lines = read(f"/proc/{pid}/status").splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith((b"RssAnon:", b"RssShmem:")))


def memory_group(limit: int) -> str:
    """Make a control group whose processes hold no more; return its folder, empty where none can be made.

    It is the kernel that counts there, also what no look finds. Groups of version 2, beside a group that this
    process is in: one with processes cannot have groups with limits in it.
    """
    lines = read(OWN_GROUPS).decode().splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), "")
    while len(own) > 1:
        own = own.rpartition("/")[0]
        above = f"{CGROUPS}{own}"
        if b"memory" in read(f"{above}/cgroup.subtree_control").split() and os.access(above, os.W_OK):
            group = f"{above}/skills-agent-{os.getpid()}"
            with Suppressed(OSError):
                os.mkdir(group)  # noqa: PTH102
                for name, value in (("max", str(limit)), ("swap.max", "0"), ("oom.group", "1")):
                    write(f"{group}/memory.{name}", value)
                return group
    return ""


def was_over(group: str) -> bool:
    """Remove a group whose processes have ended; return whether the kernel ended them."""
    counts = dict(line.split() for line in read(f"{group}/memory.events").splitlines())
    with Suppressed(OSError):
        os.rmdir(group)  # noqa: PTH106
    return int(counts.get(b"oom_kill", 0)) > 0


def read(path: str) -> bytes:
    """Return what is in a file of the kernel; nothing where it cannot be read."""
    with Suppressed(OSError), open(path, "rb") as file:  # noqa: PTH123
        return file.read()
    return b""


def write(path: str, text: str) -> None:
    """Write to a file of the kernel, where it can be written."""
    with Suppressed(OSError), open(path, "wb", buffering=0) as file:  # noqa: PTH123
        file.write(text.encode())


def bury(pids: list[int], child: int) -> None:
    """Reap adopted orphans that ended, and leave the child to `end_all`."""
    for pid in pids:
        if pid != child:
            with Suppressed(OSError):
                os.waitpid(pid, os.WNOHANG)


def kill(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with Suppressed(OSError):
        os.kill(pid, number)


def report(status: int, line: str) -> None:
    """Tell the agent, if it is still there."""
    with Suppressed(OSError):
        os.write(status, f"{line}\n".encode())


def prctl(option: int, value: int = 1) -> bool:
    """Set an attribute of this process; False where the system has no such."""
    return sys.platform == "linux" and of_libc("prctl", option, value, 0, 0, 0) == 0


def leave_keyring() -> bool:
    """Change to a session keyring that is new and empty: the old one may hold secrets of the user."""
    number = KEYCTL.get(os.uname().machine) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
    return number is not None and of_libc("syscall", number, KEYCTL_JOIN_SESSION_KEYRING, None) != -1


def of_libc(function: str, *arguments: int | None) -> int:
    """Call a function of the C library, as `ctypes.CDLL(None)` does, which is slow to import."""
    import _ctypes  # noqa: PLC0415 - of use on Linux alone

    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), function)  # type: ignore[arg-type]
    return int(_ctypes.call_cdeclfunction(address, arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
