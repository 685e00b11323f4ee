"""A program that confines itself by Landlock and a filter of system calls, and starts another one.

Its arguments: HANDLED FILTER CALLS RULE ... -- PROGRAM [ARGUMENT ...]; `landlock.py` makes them.

There are two processes, as with bubblewrap: this one stays, answers what the kernel asks about the program's
calls (`broker.py`), and ends as the program ended. Its rights to files are the same. It lies one domain above
the program, which can neither signal nor read it. Importing next to nothing: it is started for every script.
"""

import _signal  # type: ignore[import-not-found]  # `signal` would cost as much as the rest
import _socket
import posix  # `os` would cost two milliseconds
import stat
import struct
from posix import _exit as end_at_once

from supervisor import (  # type: ignore[import-not-found]  # there are no packages here
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    of_libc,
    prctl,
)

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
SECCOMP = {"x86_64": 317, "aarch64": 277}
CAPSET = {"x86_64": 126, "aarch64": 91}
CAPABILITY_VERSION = 0x20080522
SET_MODE_FILTER, NEW_LISTENER = 1, 8
PATH_BENEATH = 1
OF_FILES = 0b111 | 1 << 14
"""The rights that can be given to a file: to execute, write, read and truncate it."""
MAKE_BLOCK, REFER, TRUNCATE = 1 << 11, 1 << 13, 1 << 14
FAILED, NOT_STARTED = 1, 127


def main(arguments: list[str]) -> None:
    """Confine this process, start the program, and serve it. Does not return."""
    from broker import serve  # type: ignore[import-not-found]  # noqa: PLC0415 - as confined, it is not found

    end = arguments.index("--")
    handled, program, calls = arguments[:3]
    command = arguments[end + 1 :]
    files, scopes = map(int, handled.split(","))
    try:
        posix.closerange(3, 0x7FFFFFFF)
        drop_rights()
        rules = [rule.split(":", 1) for rule in arguments[3:end]]
        written = restrict(files, scopes, [(int(rights), path) for rights, path in rules])
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        prctl(PR_SET_CHILD_SUBREAPER)
        parent = posix.getpid()
        if not (child := posix.fork()):
            ours.close()
            start(command, parent, theirs, bytes.fromhex(program), files, scopes)
    except OSError as error:
        fail(f"cannot confine {command[0]}: {error.strerror}", FAILED)
    theirs.close()
    names = dict(pair.split("=") for pair in calls.split(","))
    port = int(posix.environ[b"https_proxy"].rpartition(b":")[2]) if "connect" in names.values() else 0
    serve(ours, child, {int(number): name for number, name in names.items()}, written, port)


def start(
    command: list[str], parent: int, sender: "_socket.socket", program: bytes, files: int, scopes: int
) -> None:
    """Put the program into a domain of its own under the filter, and become it. Does not return."""
    code, doing = FAILED, "confine"
    try:
        check(of_libc("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0), "to end a program with this one")
        if posix.getppid() != parent:
            end_at_once(FAILED)
        posix.setsid()  # a signal to its own group reaches nothing else
        # A domain in which REFER is not given moves no file to another folder, whatever it handles.
        right = files & REFER or MAKE_BLOCK
        restrict(right, scopes, [(files & REFER, "/")])
        listener = filter_calls(program)
        sender.sendmsg([b"l"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener))])
        posix.close(listener)
        sender.close()
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores them, and a program would
            _signal.signal(number, _signal.SIG_DFL)
        code, doing = NOT_STARTED, "start"
        posix.execve(command[0], command, posix.environ)
    except OSError as error:
        fail(f"cannot {doing} {command[0]}: {error.strerror}", code)


def drop_rights() -> None:
    """Give up every right of root; with no_new_privs, a program that is started later gets none, either."""
    check(of_libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header = struct.pack("II", CAPABILITY_VERSION, 0)
    check(system_call(CAPSET[posix.uname().machine], header, bytes(24)), "to give up rights")


def restrict(files: int, scopes: int, rules: "list[tuple[int, str]]") -> list[bytes]:
    """Take all handled rights away but those of the rules; return the real paths of what may be written.

    A path that is not there, or cannot be reached, gives no right.
    """
    attributes = struct.pack("QQQ", files, 0, scopes)
    ruleset = check(system_call(CREATE_RULESET, attributes, len(attributes), 0), "a ruleset of Landlock")
    written = []
    for rights, path in rules:
        try:
            place = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
        except OSError:
            continue
        allowed = rights & files
        if not stat.S_ISDIR(posix.fstat(place).st_mode):
            allowed &= OF_FILES
        if allowed:
            rule = struct.pack("=Qi", allowed, place)
            check(system_call(ADD_RULE, ruleset, PATH_BENEATH, rule, 0), f"a rule for {path}")
        if rights & TRUNCATE:  # a device has not this one: its attributes are not the program's
            written.append(posix.readlink(b"/proc/self/fd/%d" % place))
        posix.close(place)
    check(system_call(RESTRICT_SELF, ruleset, 0), "Landlock")
    posix.close(ruleset)
    return written


def filter_calls(program: bytes) -> int:
    """Install the filter, and return the descriptor of its listener."""
    import _ctypes  # noqa: PLC0415 - as below
    from _ctypes import _SimpleCData as SimpleCData  # noqa: PLC0415

    byte = type("Byte", (SimpleCData,), {"_type_": "c"})
    steps = (byte * len(program)).from_buffer(bytearray(program))  # type: ignore[operator, attr-defined]
    header = struct.pack("HxxxxxxQ", len(program) // 8, _ctypes.addressof(steps))
    number = SECCOMP[posix.uname().machine]
    return check(system_call(number, SET_MODE_FILTER, NEW_LISTENER, header), "a filter that asks")


def system_call(number: int, *arguments: "int | bytes") -> int:
    """Make a call that the C library has no function for."""
    return int(of_libc("syscall", number, *arguments))


def check(result: int, what: str) -> int:
    """Return what a call returned; raise OSError where it failed."""
    if result == -1:
        raise OSError(0, f"the system refuses {what}")
    return result


def fail(text: str, code: int) -> None:
    """Say why the program does not run, and end."""
    posix.write(2, f"landlock: {text}\n".encode(errors="replace"))
    end_at_once(code)
