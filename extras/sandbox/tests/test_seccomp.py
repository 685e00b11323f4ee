"""The filter of system calls: read by a machine of our own here, and by the kernel in real sandboxes."""

import re
import struct
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from skills_agent.sandbox.bwrap import BwrapRunner, probe
from skills_agent.sandbox.seccomp import (
    ARCHITECTURES,
    ERROR,
    OF_NETWORK,
    RULES,
    WITHOUT_NAMESPACES,
    WITHOUT_SCOPES,
    WITHOUT_TRUNCATE,
    DeniedCalls,
    call_numbers,
    seccomp_program,
)
from skills_agent.skills.scripts.runner import ScriptRequest

ALLOWED, KILLED, DENIED, NO_SUCH_CALL, NO_SUCH_FAMILY = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x50061
NO_MEMORY = 0x5000C
ASKED, NO_ACCESS, UNREACHABLE, NOT_SUPPORTED = 0x7FC00000, 0x5000D, 0x50065, 0x5005F
NUMBERS: Final = {machine: call_numbers(machine) for machine in ARCHITECTURES}
WITHOUT_ALL: Final = (*WITHOUT_NAMESPACES, *WITHOUT_SCOPES, *WITHOUT_TRUNCATE)
MORE: Final = (*WITHOUT_ALL, *OF_NETWORK["closed"])
PROXIED: Final = (*WITHOUT_ALL, *OF_NETWORK["proxy"])
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
needs_bwrap = pytest.mark.skipif(
    probe(ENVIRONMENT["PATH"]).program is None, reason=probe(ENVIRONMENT["PATH"]).reason
)
machines = pytest.mark.parametrize("machine", ARCHITECTURES)


class Instruction(NamedTuple):
    code: int
    skipped: int
    skipped_else: int
    value: int


def instructions(machine: str, more: tuple[DeniedCalls, ...] = ()) -> list[Instruction]:
    return [Instruction(*fields) for fields in struct.iter_unpack("<HBBI", seccomp_program(machine, more))]


def outcome(
    machine: str,
    call: int | str,
    *args: int,
    architecture: int | None = None,
    more: tuple[DeniedCalls, ...] = (),
) -> int:
    """Return what the kernel would do: the part of its virtual machine that the filter uses."""
    number = NUMBERS[machine][call] if isinstance(call, str) else call
    seen = struct.pack(
        "<IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *args, *[0] * (6 - len(args))
    )
    held, place, program = 0, 0, instructions(machine, more)
    while True:
        step = program[place]
        place += 1
        match step.code:
            case 0x06:
                return step.value
            case 0x20:
                (held,) = struct.unpack_from("<I", seen, step.value)
                continue
            case 0x15:
                holds = held == step.value
            case 0x35:
                holds = held >= step.value
            case 0x45:
                holds = bool(held & step.value)
        place += step.skipped if holds else step.skipped_else


@machines
def test_every_call_that_no_rule_names_is_allowed(machine: str) -> None:
    named = set(NUMBERS[machine].values())
    for number in set(range(1000)) - named:
        assert outcome(machine, number, *[2**64 - 1] * 6, more=MORE) == ALLOWED, number


@machines
def test_every_call_of_a_rule_without_conditions_is_denied(machine: str) -> None:
    for rule in (*RULES, *MORE, *PROXIED):
        expected = rule.action | (rule.error if rule.action == ERROR else 0)
        for call in rule.calls:
            if not rule.conditions and call in NUMBERS[machine]:
                assert outcome(machine, call, more=PROXIED if rule in PROXIED else MORE) == expected, call


BY_ARGUMENTS: Final[dict[tuple[DeniedCalls, ...], list[tuple[str, tuple[int, ...], int]]]] = {
    (): [  # in every sandbox
        ("clone", (0x11,), ALLOWED),  # fork
        ("clone", (0x3D0F00,), ALLOWED),  # a thread
        ("clone", (0x10000011,), DENIED),
        ("clone", (0x20000000 | 0x11,), DENIED),
        ("unshare", (0x200,), ALLOWED),  # CLONE_FS
        ("unshare", (0x80,), DENIED),
        ("unshare", (0x10020000,), DENIED),
        ("clone3", (0,), NO_SUCH_CALL),
        ("openat2", (0,), NO_SUCH_CALL),
        ("shmget", (0, 0x3FFF, 0o1600), ALLOWED),
        ("shmget", (0, 0x4000, 0o1600), NO_MEMORY),
        ("shmget", (0, 0x9000_0000, 0o1600), NO_MEMORY),
        ("shmget", (0, 1 << 32, 0o1600), NO_MEMORY),
        ("socket", (1, 1, 0), ALLOWED),
        ("socket", (2, 1, 6), ALLOWED),
        ("socket", (10, 2, 17), ALLOWED),
        ("socket", (16, 3, 0), ALLOWED),  # the list of interfaces
        ("socket", (16, 3, 12), NO_SUCH_FAMILY),  # nf_tables
        ("socket", (17, 3, 0), NO_SUCH_FAMILY),
        ("socket", (38, 5, 0), NO_SUCH_FAMILY),
        ("socket", (40, 1, 0), NO_SUCH_FAMILY),
        ("socket", (1 << 32 | 40, 1, 0), NO_SUCH_FAMILY),
        ("socketpair", (1, 1, 0), ALLOWED),
        ("ioctl", (0, 0x5401), ALLOWED),  # TCGETS
        ("ioctl", (0, 0x5412), DENIED),
        ("ioctl", (0, 1 << 32 | 0x5412), DENIED),  # CVE-2019-7303
        ("ioctl", (0, 0x541C), DENIED),
        ("chmod", (0, 0o755), ALLOWED),
        ("chmod", (0, 0o1777), ALLOWED),
        ("chmod", (0, 0o4755), DENIED),
        ("fchmod", (3, 0o2755), DENIED),
        ("fchmodat", (-100 % 2**64, 0, 0o4711), DENIED),
        ("fchmodat2", (-100 % 2**64, 0, 0o4711, 0), DENIED),
        ("open", (0, 0, 0o7777), ALLOWED),  # nothing is made: the mode is whatever was there
        ("open", (0, 0o101, 0o644), ALLOWED),
        ("open", (0, 0o101, 0o4755), DENIED),
        ("openat", (-100 % 2**64, 0, 0o101, 0o6755), DENIED),
        ("openat", (-100 % 2**64, 0, 0o20200001, 0o4755), DENIED),  # O_TMPFILE
        ("creat", (0, 0o4755), DENIED),
        ("mknod", (0, 0o104755), DENIED),
        ("mknodat", (3, 0, 0o10644, 0), ALLOWED),
    ],
    MORE: [  # where there are no namespaces
        ("socket", (1, 1, 0), NO_ACCESS),
        ("socket", (2, 1, 6), UNREACHABLE),
        ("socket", (10, 2, 17), UNREACHABLE),
        ("socket", (16, 3, 0), ALLOWED),
        ("socket", (40, 1, 0), NO_SUCH_FAMILY),
        ("socketpair", (1, 0o2004001, 0), ALLOWED),
        ("socketpair", (1, 0o2000005, 0), ALLOWED),
        ("socketpair", (1, 0o2000002, 0), NO_ACCESS),
        ("socketpair", (1, 3, 0), NO_ACCESS),
        ("chmod", (0, 0o755), ASKED),
        ("chmod", (0, 0o4755), DENIED),  # before anybody is asked
        ("prlimit64", (0, 7, 1), ALLOWED),
        ("prlimit64", (5, 7, 1), DENIED),
        ("setpriority", (0, 0, 5), ALLOWED),
        ("setpriority", (0, 5, 5), DENIED),
        ("setpriority", (2, 0, 5), DENIED),
        ("ioprio_set", (1, 0, 0), ALLOWED),
        ("ioprio_set", (3, 0, 0), DENIED),
        ("ioprio_set", (1, 5, 0), DENIED),
        ("ioctl", (0, 0x5401), ALLOWED),
        ("ioctl", (0, 0x40086602), DENIED),
        ("ioctl", (0, 0x8901), DENIED),
        ("fcntl", (0, 3), ALLOWED),
        ("fcntl", (0, 8), DENIED),
        ("kill", (-1 % 2**64, 9), ASKED),
    ],
    PROXIED: [  # a connection to the proxy is all that can be tried
        ("socket", (2, 0o2004001, 0), ALLOWED),
        ("socket", (2, 1, 6), ALLOWED),
        ("socket", (2, 1, 132), UNREACHABLE),
        ("socket", (2, 2, 0), UNREACHABLE),
        ("socket", (2, 3, 6), UNREACHABLE),
        ("socket", (10, 1, 0), UNREACHABLE),
        ("socket", (1, 1, 0), NO_ACCESS),
        ("sendto", (3, 0, 0, 0x20004000, 0, 0), NOT_SUPPORTED),
        ("sendto", (3, 0, 0, 0x4000, 0, 0), ALLOWED),
        ("sendmsg", (3, 0, 0x20000000), NOT_SUPPORTED),
        ("setsockopt", (3, 0, 4), DENIED),
        ("setsockopt", (3, 6, 4), ALLOWED),
    ],
}


@pytest.mark.parametrize("more", BY_ARGUMENTS, ids=["everywhere", "without namespaces", "to the proxy"])
def test_some_calls_are_denied_by_their_arguments(more: tuple[DeniedCalls, ...]) -> None:
    for call, args, expected in BY_ARGUMENTS[more]:
        assert outcome("x86_64", call, *args, more=more) == expected, (call, args)


@machines
def test_the_calls_of_other_architectures_end_the_program(machine: str) -> None:
    for other in {0x40000003, 0x40000028, *ARCHITECTURES.values()} - {ARCHITECTURES[machine]}:
        assert outcome(machine, 1, architecture=other) == KILLED
    assert outcome(machine, 0x40000000 | 101) == NO_SUCH_CALL  # ptrace of x32


@machines
def test_the_kernel_would_take_the_filter(machine: str) -> None:
    """Source: bpf_check_classic and seccomp_check_filter of the kernel."""
    program = instructions(machine, MORE)
    assert len(program) <= 4096
    assert program[-1].code == 0x06
    for place, step in enumerate(program):
        assert step.code in {0x06, 0x15, 0x20, 0x35, 0x45}
        if step.code not in {0x06, 0x20}:
            assert place + 1 + max(step.skipped, step.skipped_else) < len(program)
        if step.code == 0x20:
            assert step.value in range(0, 64, 4)


def test_a_machine_whose_calls_are_not_known_has_no_filter() -> None:
    assert seccomp_program("riscv64") == b""


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_the_numbers_are_those_of_the_kernel(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip("the headers of the kernel are not installed")
    text = Path(header).read_text()
    stated = {name: int(n) for name, n in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", text)}
    named = NUMBERS[machine]
    too_new = {"fchmodat2": 452, "open_tree_attr": 467}
    too_new |= {"setxattrat": 463, "removexattrat": 466, "file_setattr": 469}
    assert {name: (stated | too_new)[name] for name in named} == named


# --- in real sandboxes ---

PYTHON = """
import asyncio, multiprocessing, os, pathlib, shutil, socket, sqlite3, ssl, subprocess, tempfile, threading

def square(number):
    return number * number

async def child():
    process = await asyncio.create_subprocess_exec("true")
    return await process.wait()

if __name__ == "__main__":
    assert asyncio.run(child()) == 0
    with multiprocessing.Pool(2) as pool:
        assert pool.map(square, [1, 2]) == [1, 4]
    threading.Thread(target=print, args=("thread",)).start()
    ssl.create_default_context()
    socket.create_server(("127.0.0.1", 0)).close()
    sqlite3.connect("db").execute("create table t (a)")
    with tempfile.NamedTemporaryFile() as file:
        shutil.copy2(file.name, "copy")
    pathlib.Path("copy").chmod(0o755)
    assert subprocess.run(["sh", "-c", "exit 3"]).returncode == 3
    print("python")
"""


@needs_bwrap
def test_a_program_that_asks_for_much_of_the_kernel_runs(tmp_path: Path) -> None:
    (tmp_path / "skill").mkdir()
    (tmp_path / "work").mkdir()
    script = tmp_path / "skill/a.py"
    script.write_text(PYTHON)
    runner = BwrapRunner(workspace=tmp_path / "work", environment=ENVIRONMENT)
    result = runner.run(ScriptRequest("demo", script, (), None, tmp_path / "work"))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "thread\npython\n", "")
