"""Answer what the kernel asks about calls of a confined program (`seccomp_unotify`), until it ends.

Imported by `confined.py` alone, which this module goes on with, and importing next to nothing.
"""

import _signal  # type: ignore[import-not-found]  # `signal` would cost as much as the rest
import _socket
import errno
import posix  # `os` would cost two milliseconds
import select
import struct
from fcntl import ioctl
from posix import _exit as end_at_once

from attributes import PLACES, change, memory, signed  # type: ignore[import-not-found]  # there are no packages
from supervisor import release_streams  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:  # type checkers know the name: importing `typing` would cost as much as all the rest
    from collections.abc import Mapping, Sequence

RECEIVE, SEND, IS_VALID, ADD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
"""SECCOMP_IOCTL_NOTIF_RECV, -SEND, -ID_VALID, -ADDFD."""
REQUEST, ANSWER, ADDED = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI"), struct.Struct("=QIIII")
GO_ON = 1
"""The kernel does what was asked for: safe where the numbers in the call were all that was looked at."""
REAP_MS = 50
"""Between two looks for adopted orphans that ended."""
AT_NUMBER = 1
"""SECCOMP_ADDFD_FLAG_SETFD."""


def serve(
    connection: "_socket.socket",
    child: int,
    calls: "Mapping[int, str]",
    written: "Sequence[bytes]",
    port: int,
) -> None:
    """Answer what the kernel asks until the child ends, and end as it did. Does not return.

    `calls`: names by numbers. `written`: the real paths of the files and folders that may be changed. `port`:
    that of this machine which may be connected to.
    """
    for number in (_signal.SIGINT, _signal.SIGQUIT):  # of a terminal: the program decides
        _signal.signal(number, _signal.SIG_IGN)
    poll = select.poll()
    poll.register(posix.pidfd_open(child), select.POLLIN)
    listener = received(connection)
    release_streams()
    if listener is not None:
        poll.register(listener, select.POLLIN)
    while True:
        ready = dict(poll.poll(REAP_MS))
        reap(child)
        if listener in ready:
            if ready[listener] & select.POLLIN:
                answer_next(listener, calls, written, port)
            else:  # nothing is left that could ask
                poll.unregister(listener)


def received(connection: "_socket.socket") -> "int | None":
    """Return the descriptor of the listener; None where the program ended before it was confined."""
    _, controls, *_ = connection.recvmsg(1, 64)
    connection.close()
    return struct.unpack("i", controls[0][2][:4])[0] if controls else None


def reap(child: int) -> None:
    """Bury what ended, and end as the child where that did: with its exit code, or by its signal."""
    pid = child
    while pid:
        pid, state = posix.waitpid(-1, posix.WNOHANG)
        if pid == child:
            code = posix.waitstatus_to_exitcode(state)
            if code < 0:
                if -code != _signal.SIGKILL:
                    _signal.signal(-code, _signal.SIG_DFL)
                posix.kill(posix.getpid(), -code)
            end_at_once(code)


def answer_next(listener: int, calls: "Mapping[int, str]", written: "Sequence[bytes]", port: int) -> None:
    """Answer a request."""
    request = bytearray(REQUEST.size)
    try:
        ioctl(listener, RECEIVE, request)
        number, pid, _, call, _, _, *arguments = REQUEST.unpack(request)

        def is_valid() -> None:
            ioctl(listener, IS_VALID, struct.pack("Q", number))

        code = flags = 0
        try:
            if calls[call] in PLACES:
                change(pid, calls[call], arguments, written, is_valid)
            elif calls[call] == "connect":
                connected, flags_of_it = connect(pid, arguments, port)
                added = (number, AT_NUMBER, connected.fileno(), arguments[0] & 0xFFFF_FFFF, flags_of_it)
                ioctl(listener, ADD, ADDED.pack(*added))
            else:
                check_signal(signed(arguments[0]))
                flags = GO_ON
        except OSError as error:
            code = error.errno or errno.EPERM
        except (ValueError, OverflowError):
            code = errno.EINVAL
        ioctl(listener, SEND, ANSWER.pack(number, 0, -code, flags))
    except OSError as error:
        if error.errno != errno.ENOENT:  # its process ended
            raise


def check_signal(target: int) -> None:
    """Raise OSError where a signal would reach a process which this one does not look after.

    For versions of Landlock that let signals through. Every process of the program descends from this one,
    which adopts orphans. `target` is meant as by `kill`: 0 is the sender's group, and all its groups are of
    sessions that began below this process. A group is refused once its leader has ended, and -1 always.
    """
    above = first = of_process(abs(target), "status", b"PPid")
    while above > 1 and above != posix.getpid():
        above = of_process(above, "status", b"PPid")
    if target and above <= 1:
        raise OSError(errno.ESRCH if first < 0 else errno.EPERM, "no process of this program")


def connect(pid: int, arguments: "Sequence[int]", port: int) -> "tuple[_socket.socket, int]":
    """Return a connection to a port of this machine, and the flags of what it is put in the place of.

    That is what a process wants to connect, which could change the address after it was looked at. Raises
    OSError for another address.
    """
    address = struct.pack("=H", _socket.AF_INET) + struct.pack(">H4B", port, 127, 0, 0, 1)
    if memory(pid, arguments[1], len(address)) != address:
        raise OSError(errno.ENETUNREACH, "only the proxy is reached")
    flags = of_process(pid, f"fdinfo/{signed(arguments[0])}", b"flags", 8)
    if flags < 0:
        raise OSError(errno.EBADF, "it is not open")
    connected = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    connected.connect(("127.0.0.1", port))
    connected.setblocking(not flags & posix.O_NONBLOCK)
    return connected, flags & posix.O_CLOEXEC


def of_process(pid: int, file: str, name: bytes, base: int = 10) -> int:
    """Return a number that the kernel says of a process; -1 where there is none."""
    try:
        with open(f"/proc/{pid}/{file}", "rb") as opened:  # noqa: PTH123
            content = opened.read()
    except OSError:
        return -1
    # The process may have given itself a name, which stands there, too, but without a real end of a line.
    return int(content.partition(b"\n%s:\t" % name)[2].split(None, 1)[0], base)
