"""The supervisor is there for every script, so it must cost next to nothing; and it counts memory once."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skills_agent.skills.scripts import supervisor
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.scripts.supervised import SUPERVISOR


def test_next_to_nothing_is_imported() -> None:
    program = "import sys; before = set(sys.modules)\n" + SUPERVISOR[-1].replace(
        "supervisor.main(sys.argv[1:])", "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([*SUPERVISOR[:-1], program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"supervisor", "resource", "select", "_signal", "time"}


def test_no_program_but_a_wrapper_runs_in_the_supervisors_python(tmp_path: Path) -> None:
    program = (*SUPERVISOR[:-1], "import sys; print('supervisor' in sys.modules, flush=True)")
    request = ScriptRequest("", None, program, None, tmp_path)
    assert ControlledRunner(environment={}).run(request).stdout == "False\n"


MEBIBYTE = 1 << 20
HOLDS = {
    "own memory": "kept = bytearray(os.urandom(SIZE))",
    "memory that children share": "kept = bytearray(os.urandom(SIZE)); os.fork(); os.fork()",
    "shared memory": "kept = mmap.mmap(-1, SIZE); kept.write(bytes(SIZE)); os.fork()",
    "a memory file": "kept = os.memfd_create(''); os.write(kept, bytes(SIZE))",
    "a memory file of many": "kept = os.memfd_create(''); os.write(kept, bytes(SIZE)); os.fork(); os.fork()",
    "a memory file that is mapped": "kept = os.memfd_create(''); os.write(kept, bytes(SIZE)); "
    "kept = [mmap.mmap(kept, SIZE) for _ in range(2)]; [each[:] for each in kept]; os.fork()",
    "a mapping without its file": "file = os.memfd_create(''); os.write(file, bytes(SIZE)); "
    "kept = mmap.mmap(file, SIZE); os.close(file); kept[:]",
    "a segment": "c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p; n = c.shmget(0, SIZE, 0o1600); "
    "place = c.shmat(n, None, 0); ctypes.memset(place, 1, SIZE); c.shmdt(ctypes.c_void_p(place)); "
    "atexit.register(c.shmctl, n, 0, None)",
    "a segment that is attached": "c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p; "
    "n = c.shmget(0, SIZE, 0o1600); ctypes.memset(c.shmat(n, None, 0), 1, SIZE); c.shmctl(n, 0, None)",
}


@contextmanager
def family_of(body: str) -> Iterator[list[int]]:
    """Have a program that holds something, and its children; yield all of them."""
    me = "import atexit, ctypes, mmap, os, sys; SIZE = 60 << 20; first = os.getpid(); "
    end = "; os.write(1, b'.'); sys.stdin.read()"
    with subprocess.Popen(
        [*SUPERVISOR[:-1], me + body + end], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        ready = 2 ** body.count("os.fork()")
        assert program.stdout.read(ready) == b"." * ready
        yield [program.pid, *supervisor.family(program.pid)]
        assert program.stdin
        program.stdin.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("body", HOLDS.values(), ids=HOLDS)
@pytest.mark.variants
def test_what_a_family_holds_counts_once_wherever_it_is(body: str) -> None:
    with family_of(body) as pids:
        assert supervisor.MemoryUse(58 * MEBIBYTE).is_over(pids)
        assert not supervisor.MemoryUse(110 * MEBIBYTE).is_over(pids)
