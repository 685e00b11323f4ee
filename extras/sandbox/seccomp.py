"""The filter of system calls that a script in the sandbox runs under: what is denied, and why.

The table becomes a program of classic BPF, which bubblewrap hands to the kernel (`--seccomp`). Made here
because it is little: the one Python binding of libseccomp needs that library, which bubblewrap does not
bring. Everything else is allowed: programs of all kinds have to run.
Source of the layout: linux/seccomp.h, linux/filter.h, and asm/unistd.h of both machines.
"""

import struct
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal, NamedTuple

EPERM, ENOMEM, ENOSYS, EAFNOSUPPORT = 1, 12, 38, 97
NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWCGROUP, -IPC, -NET, -NS, -PID, -USER, -UTS; -TIME is a signal's number to `clone`."""
CREATE: Final = 0o20000100
"""O_CREAT and O_TMPFILE: without them, a mode means nothing."""
SETID: Final = 0o6000
ALL: Final = 0xFFFF_FFFF
AF_NETLINK: Final = 16
FAMILIES: Final = (1, 2, 10, AF_NETLINK)
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


SEGMENTS_WHY: Final = (
    "of 16 KiB and more: no limit counts segments of System V; programs use /dev/shm, which is bounded"
)
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
    DeniedCalls(("chmod", "fchmod", "creat"), SETID_WHY, (Condition(1, "has", (SETID,)),)),
    DeniedCalls(("fchmodat", "fchmodat2"), SETID_WHY, (Condition(2, "has", (SETID,)),)),
    DeniedCalls(("mknod",), SETID_WHY, (Condition(1, "has", (SETID,)),)),
    DeniedCalls(("mknodat",), SETID_WHY, (Condition(2, "has", (SETID,)),)),
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

CALLS: Final = """
open 2 -, ioctl 16 29, shmget 29 194, socket 41 198, socketpair 53 199, clone 56 220, creat 85 -,
chmod 90 -, fchmod 91 52, ptrace 101 117, syslog 103 116, mknod 133 -, pivot_root 155 41, chroot 161 51,
acct 163 89, settimeofday 164 170, mount 165 40, umount2 166 39, swapon 167 224, swapoff 168 225,
reboot 169 142, iopl 172 -, ioperm 173 -, init_module 175 105, delete_module 176 106, quotactl 179 60,
clock_settime 227 112, kexec_load 246 104, add_key 248 217, request_key 249 218, keyctl 250 219,
openat 257 56, mknodat 259 33, fchmodat 268 53, unshare 272 97, perf_event_open 298 241,
open_by_handle_at 304 265, setns 308 268, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
finit_module 313 273, memfd_create 319 279, kexec_file_load 320 294, bpf 321 280, userfaultfd 323 282,
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, open_tree 428 428,
move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, clone3 435 435,
openat2 437 437, pidfd_getfd 438 438, mount_setattr 442 442, quotactl_fd 443 443, memfd_secret 447 447,
fchmodat2 452 452, open_tree_attr 467 467
"""
"""Name, and number on x86_64 and on aarch64."""
ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32: Final = 0x40000000
"""The bit of the numbers of x86_64's second set of calls."""

ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, IS, AT_LEAST, HAS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16


def _opcode(code: int, value: int, skipped: int = 0, skipped_else: int = 0) -> bytes:
    """Return one instruction: after a comparison, how many are skipped where it holds, and where not."""
    return struct.pack("<HBBI", code, skipped, skipped_else, value)


@cache
def seccomp_program(machine: str) -> bytes:
    """Return the filter for a machine (as in `uname -m`); nothing for one whose calls are not known here."""
    if machine not in ARCHITECTURES:
        return b""
    column = 1 + list(ARCHITECTURES).index(machine)
    numbers = {words[0]: words[column] for words in map(str.split, CALLS.split(","))}
    steps = [
        *(_opcode(LOAD, ARCHITECTURE_AT), _opcode(IS, ARCHITECTURES[machine], 1), _opcode(RETURN, KILL)),
        *(_opcode(LOAD, NUMBER_AT), _opcode(AT_LEAST, X32, 0, 1), _opcode(RETURN, ERROR | ENOSYS)),
    ]
    for rule in RULES:
        steps += _steps(rule, [int(numbers[call]) for call in rule.calls if numbers[call] != "-"])
    steps.append(_opcode(RETURN, ALLOW))
    return b"".join(steps)


def _steps(rule: DeniedCalls, numbers: list[int]) -> list[bytes]:
    """Return the part for a rule: what does not match leaves it at its end, with the number loaded."""
    if not numbers:
        return []
    steps = [_opcode(RETURN, ERROR | rule.error)]
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
