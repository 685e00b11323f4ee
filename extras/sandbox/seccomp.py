"""The filter of system calls that a script in the sandbox runs under: what is denied, and why.

The table becomes a program of classic BPF, which bubblewrap hands to the kernel (`--seccomp`). Made here
because it is little: the one Python binding of libseccomp needs that library, which bubblewrap does not
bring. Everything else is allowed: programs of all kinds have to run.
Source of the layout: linux/seccomp.h, linux/filter.h, and asm/unistd.h of both machines.
"""

import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

EPERM, ENOMEM, EACCES, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT, ENETUNREACH = 1, 12, 13, 38, 95, 97, 101
ERROR, NOTIFY = 0x00050000, 0x7FC00000
NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWCGROUP, -IPC, -NET, -NS, -PID, -USER, -UTS; -TIME is a signal's number to `clone`."""
CREATE: Final = 0o20000100
"""O_CREAT and O_TMPFILE: without them, a mode means nothing."""
SETID: Final = 0o6000
ALL: Final = 0xFFFF_FFFF
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
FAMILIES: Final = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
"""Unix, IPv4, IPv6, netlink."""
TERMINAL_REQUESTS: Final = (0x5412, 0x541C, 0x5423)
"""TIOCSTI, TIOCLINUX, TIOCSETD."""


class Condition(NamedTuple):
    """What an argument is compared with, in its lower 32 bits: of most, the kernel reads no others."""

    argument: int
    """Its place, from 0."""
    kind: Literal["has", "is", "is not"]
    values: tuple[int, ...]
    """`has`: one mask, of which any bit counts."""
    upper: bool = False
    """Whether the upper 32 bits are meant: of a size, the kernel reads them, too."""


class DeniedCalls(NamedTuple):
    """Calls that are denied."""

    calls: tuple[str, ...]
    why: str
    conditions: tuple[Condition, ...] = ()
    """Denied only when all of them hold."""
    error: int = EPERM
    action: int = ERROR
    """`NOTIFY` asks the process that holds the filter's listener instead."""


SEGMENTS_WHY: Final = "of 16 KiB and more: no limit counts these, either"
SETID_WHY: Final = (
    "not with the setuid or setgid bit: outside, whoever runs such a file gets the rights of its owner"
)

RULES: Final = (
    DeniedCalls(("keyctl", "add_key", "request_key"), "the kernel keeps secrets of the user in keyrings"),
    DeniedCalls(
        ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"),
        "they read and change other processes",
    ),
    DeniedCalls(
        ("io_uring_setup", "io_uring_enter", "io_uring_register"),
        "it does what other calls do, past this filter",
    ),
    DeniedCalls(("bpf", "userfaultfd", "perf_event_open"), "holes in the kernel are used through them"),
    DeniedCalls(
        (
            *("mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr"),
            *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at"),
        ),
        "they change what the sandbox shows, or go around it",
    ),
    DeniedCalls(("setns",), "it enters another sandbox, or leaves this one"),
    DeniedCalls(
        ("unshare", "clone"),
        "with a new namespace: there, a program has rights of root over parts of the kernel",
        (Condition(0, "has", (NEW_NAMESPACES,)),),
    ),
    DeniedCalls(("clone3",), "a filter cannot see its flags; programs use `clone` instead", error=ENOSYS),
    DeniedCalls(
        ("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
        "they change the kernel",
    ),
    DeniedCalls(
        (
            *("reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog"),
            *("settimeofday", "clock_settime", "iopl", "ioperm"),
        ),
        "they are for the machine's administrator",
    ),
    DeniedCalls(
        ("socket", "socketpair"),
        "other families than Unix, IPv4, IPv6 and netlink reach past the sandbox (AF_VSOCK) or are full of "
        "holes (AF_PACKET, AF_ALG ...)",
        (Condition(0, "is not", FAMILIES),),
        EAFNOSUPPORT,
    ),
    DeniedCalls(
        ("socket",),
        "of netlink, programs need the list of interfaces and addresses",
        (Condition(0, "is", (AF_NETLINK,)), Condition(2, "is not", (0,))),
        EAFNOSUPPORT,
    ),
    DeniedCalls(
        ("ioctl",),
        "TIOCSTI and TIOCLINUX type into a terminal, TIOCSETD loads modules",
        (Condition(1, "is", TERMINAL_REQUESTS),),
    ),
    DeniedCalls(("chmod", "fchmod", "creat", "mknod"), SETID_WHY, (Condition(1, "has", (SETID,)),)),
    DeniedCalls(("fchmodat", "fchmodat2", "mknodat"), SETID_WHY, (Condition(2, "has", (SETID,)),)),
    DeniedCalls(("open",), SETID_WHY, (Condition(1, "has", (CREATE,)), Condition(2, "has", (SETID,)))),
    DeniedCalls(("openat",), SETID_WHY, (Condition(2, "has", (CREATE,)), Condition(3, "has", (SETID,)))),
    DeniedCalls(("openat2",), "a filter cannot see its mode; programs use `openat` instead", error=ENOSYS),
    DeniedCalls(
        ("memfd_create", "memfd_secret"),
        "no limit counts files in memory; programs use /dev/shm instead, which is bounded",
        error=ENOSYS,
    ),
    DeniedCalls(("shmget",), SEGMENTS_WHY, (Condition(1, "has", (-1 << 14 & ALL,)),), ENOMEM),
    DeniedCalls(("shmget",), SEGMENTS_WHY, (Condition(1, "has", (ALL,), upper=True),), ENOMEM),
)

OF_ATTRIBUTES: Final = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utimensat")
"""Calls that change a file which may lie anywhere, as far as its owner is the user."""
OTHER_PROCESS: Final = "it sets what holds for a process; with a number, for every one of the user"
FLAG_REQUESTS: Final = (0x40086602, 0x401C5820, 0x40806685, 0x800C6613)
"""FS_IOC_SETFLAGS, -FSSETXATTR, -ENABLE_VERITY, -SET_ENCRYPTION_POLICY."""

WITHOUT_NAMESPACES: Final = (
    DeniedCalls(
        (
            *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
            *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
        ),
        "they reach what other programs of the user share by a number or a name",
        error=ENOSYS,
    ),
    DeniedCalls(
        ("socket",),
        "servers of the system listen at paths, such as Docker's, and no rule of Landlock is about those",
        (Condition(0, "is", (AF_UNIX,)),),
        EACCES,
    ),
    DeniedCalls(
        ("socketpair",),
        "without a connection: such a socket sends to every path",
        (Condition(1, "has", (2,)),),  # SOCK_DGRAM, SOCK_RAW
        EACCES,
    ),
    DeniedCalls(
        ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity"),
        OTHER_PROCESS,
        (Condition(0, "is not", (0,)),),
    ),
    DeniedCalls(("setpriority",), OTHER_PROCESS, (Condition(0, "is not", (0,)),)),
    DeniedCalls(("ioprio_set",), OTHER_PROCESS, (Condition(0, "is not", (1,)),)),
    DeniedCalls(("setpriority", "ioprio_set"), OTHER_PROCESS, (Condition(1, "is not", (0,)),)),
    DeniedCalls(("fanotify_init",), "it tells of files anywhere"),
    DeniedCalls(OF_ATTRIBUTES, "whoever asked for a path is told by it where the file lies", action=NOTIFY),
    DeniedCalls(
        ("chown", "lchown", "fchown", "fchownat"),
        "nothing is done, and programs of root unpack archives all the same",
        error=0,
    ),
    DeniedCalls(
        ("utime", "utimes", "futimesat", "setxattrat", "removexattrat", "file_setattr"),
        "they do what older or newer calls do, which programs use then",
        error=ENOSYS,
    ),
    DeniedCalls(
        ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
        "of files anywhere; programs take it for a file system without attributes",
        error=EOPNOTSUPP,
    ),
    DeniedCalls(("ioctl",), "of files that can be read only", (Condition(1, "is", FLAG_REQUESTS),)),
)
"""What namespaces of processes, of IPC and of mounts make harmless."""
NO_NETWORK: Final = "there is no network of its own, without a way out"
OF_PROXY: Final = (
    "to the proxy leads a connection of TCP over IPv4, which is made from outside, and nothing else"
)
TCP: Final = (1, 0o4001, 0o2000001, 0o2004001)
"""SOCK_STREAM, with or without SOCK_NONBLOCK and SOCK_CLOEXEC."""
FAST_OPEN: Final = 0x20000000
OF_NETWORK: Final[Mapping[str, tuple[DeniedCalls, ...]]] = {
    "closed": (
        DeniedCalls(("socket",), NO_NETWORK, (Condition(0, "is", (AF_INET, AF_INET6)),), ENETUNREACH),
    ),
    "proxy": (
        DeniedCalls(("socket",), OF_PROXY, (Condition(0, "is", (AF_INET6,)),), ENETUNREACH),
        DeniedCalls(
            ("socket",), OF_PROXY, (Condition(0, "is", (AF_INET,)), Condition(1, "is not", TCP)), ENETUNREACH
        ),
        DeniedCalls(
            ("socket",),
            OF_PROXY,
            (Condition(0, "is", (AF_INET,)), Condition(2, "is not", (0, 6))),  # SCTP connects by other calls
            ENETUNREACH,
        ),
        DeniedCalls(("bind", "listen"), "whoever connects to it from outside is told", error=EACCES),
        DeniedCalls(("connect",), OF_PROXY, action=NOTIFY),
        DeniedCalls(("sendto", "sendmmsg"), OF_PROXY, (Condition(3, "has", (FAST_OPEN,)),), EOPNOTSUPP),
        DeniedCalls(("sendmsg",), OF_PROXY, (Condition(2, "has", (FAST_OPEN,)),), EOPNOTSUPP),
        DeniedCalls(
            ("setsockopt",),
            "IP_OPTIONS has packets go by other machines",
            (Condition(1, "is", (0,)), Condition(2, "is", (4,))),
        ),
    ),
    "open": (),
}
OF_SIGNALS: Final = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
WITHOUT_SCOPES: Final = (
    DeniedCalls(OF_SIGNALS, "whoever asked for is told by it whose process it is", action=NOTIFY),
    DeniedCalls(
        ("pidfd_send_signal",), "a filter cannot see to which process; programs use `kill`", error=ENOSYS
    ),
    DeniedCalls(
        ("fcntl",),
        "F_SETOWN and F_SETOWN_EX have the kernel send signals to a process",
        (Condition(1, "is", (8, 15)),),
    ),
    DeniedCalls(("ioctl",), "FIOSETOWN and SIOCSPGRP do so, too", (Condition(1, "is", (0x8901, 0x8902)),)),
)
"""What the sixth version of Landlock does by itself."""
WITHOUT_TRUNCATE: Final = (DeniedCalls(("truncate",), "Landlock before its third version lets it through"),)

CALLS: Final = """
open 2 -, ioctl 16 29, shmget 29 194, shmat 30 196, shmctl 31 195, socket 41 198, connect 42 203,
sendto 44 206, sendmsg 46 211, bind 49 200, listen 50 201, socketpair 53 199, setsockopt 54 208,
clone 56 220, kill 62 129, semget 64 190, semop 65 193, semctl 66 191, msgget 68 186, msgsnd 69 189,
msgrcv 70 188, msgctl 71 187, fcntl 72 25, truncate 76 45, creat 85 -, chmod 90 -, fchmod 91 52, chown 92 -,
fchown 93 55, lchown 94 -, ptrace 101 117, syslog 103 116, rt_sigqueueinfo 129 138, utime 132 -,
mknod 133 -, setpriority 141 140, sched_setparam 142 118, sched_setscheduler 144 119, pivot_root 155 41,
chroot 161 51, acct 163 89, settimeofday 164 170, mount 165 40, umount2 166 39, swapon 167 224,
swapoff 168 225, reboot 169 142, iopl 172 -, ioperm 173 -, init_module 175 105, delete_module 176 106,
quotactl 179 60, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15,
fremovexattr 199 16, tkill 200 130, sched_setaffinity 203 122, semtimedop 220 192, clock_settime 227 112,
tgkill 234 131, utimes 235 -, mq_open 240 180, mq_unlink 241 181, kexec_load 246 104, add_key 248 217,
request_key 249 218, keyctl 250 219, ioprio_set 251 30, openat 257 56, mknodat 259 33, fchownat 260 54,
futimesat 261 -, fchmodat 268 53, unshare 272 97, utimensat 280 88, rt_tgsigqueueinfo 297 240,
perf_event_open 298 241, fanotify_init 300 262, prlimit64 302 261, open_by_handle_at 304 265,
sendmmsg 307 269, setns 308 268, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
finit_module 313 273, sched_setattr 314 274, memfd_create 319 279, kexec_file_load 320 294, bpf 321 280,
userfaultfd 323 282, pidfd_send_signal 424 424, io_uring_setup 425 425, io_uring_enter 426 426,
io_uring_register 427 427, open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431,
fsmount 432 432, fspick 433 433, clone3 435 435, openat2 437 437, pidfd_getfd 438 438,
mount_setattr 442 442, quotactl_fd 443 443, memfd_secret 447 447, fchmodat2 452 452, setxattrat 463 463,
removexattrat 466 466, open_tree_attr 467 467, file_setattr 469 469
"""
"""Name, and number on x86_64 and on aarch64."""
ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32: Final = 0x40000000
"""The bit of the numbers of x86_64's second set of calls."""

ALLOW, KILL = 0x7FFF0000, 0x80000000
LOAD, IS, AT_LEAST, HAS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16


def _opcode(code: int, value: int, skipped: int = 0, skipped_else: int = 0) -> bytes:
    """Return one instruction: after a comparison, how many are skipped where it holds, and where not."""
    return struct.pack("<HBBI", code, skipped, skipped_else, value)


def call_numbers(machine: str) -> dict[str, int]:
    """Return the numbers of calls by their names, as far as a machine of `ARCHITECTURES` has them."""
    column = 1 + list(ARCHITECTURES).index(machine)
    words = map(str.split, CALLS.split(","))
    return {each[0]: int(each[column]) for each in words if each[column] != "-"}


@cache
def seccomp_program(machine: str, more: tuple[DeniedCalls, ...] = ()) -> bytes:
    """Return the filter for a machine (as in `uname -m`); nothing for one whose calls are not known here.

    The first rule that matches counts; those of `more` come after the others.
    """
    if machine not in ARCHITECTURES:
        return b""
    numbers = call_numbers(machine)
    steps = [
        *(_opcode(LOAD, ARCHITECTURE_AT), _opcode(IS, ARCHITECTURES[machine], 1), _opcode(RETURN, KILL)),
        *(_opcode(LOAD, NUMBER_AT), _opcode(AT_LEAST, X32, 0, 1), _opcode(RETURN, ERROR | ENOSYS)),
    ]
    for rule in (*RULES, *more):
        steps += _steps(rule, [numbers[call] for call in rule.calls if call in numbers])
    steps.append(_opcode(RETURN, ALLOW))
    return b"".join(steps)


def _steps(rule: DeniedCalls, numbers: list[int]) -> list[bytes]:
    """Return the part for a rule: what does not match leaves it at its end, with the number loaded."""
    if not numbers:
        return []
    steps = [_opcode(RETURN, rule.action | (rule.error if rule.action == ERROR else 0))]
    if rule.conditions:
        steps += [_opcode(LOAD, NUMBER_AT)]
    for condition in reversed(rule.conditions):
        steps = [*_comparison(condition, len(steps) - 1), *steps]
    return [*_one_of(numbers, len(steps)), *steps]


def _comparison(condition: Condition, to_end: int) -> Iterator[bytes]:
    yield _opcode(LOAD, ARGUMENTS_AT + 8 * condition.argument + 4 * condition.upper)
    if condition.kind == "has":
        yield _opcode(HAS, condition.values[0], 0, to_end)
    elif condition.kind == "is":
        yield from _one_of(condition.values, to_end)
    else:
        for left, value in zip(range(len(condition.values) - 1, -1, -1), condition.values, strict=True):
            yield _opcode(IS, value, left + to_end)


def _one_of(values: tuple[int, ...] | list[int], to_end: int) -> list[bytes]:
    last = len(values) - 1
    return [_opcode(IS, value, last - at, to_end if at == last else 0) for at, value in enumerate(values)]
