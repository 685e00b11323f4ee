"""How the supervisor is started: it is there for every script, so it must cost next to nothing."""

import os
import py_compile
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from skills_agent.skills.scripts import supervisor
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.scripts.supervised import ISOLATED, supervisor_file


def test_next_to_nothing_is_imported() -> None:
    program = (
        "import os, sys\n"
        "before = set(sys.modules)\n"
        f"exec(compile(open({supervisor.__file__!r}).read(), 'supervisor.py', 'exec'), {{'__name__': 'x'}})\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )

    done = subprocess.run([*ISOLATED, "-c", program], capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) <= {"resource", "select", "_signal"}


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the program, which is the one that is started."""
    path = tmp_path / "supervisor.py"
    path.write_bytes(Path(supervisor.__file__).read_bytes())
    monkeypatch.setattr(supervisor, "__file__", str(path))
    return path


def test_the_compiled_program_is_started_where_there_is_one(copy: Path) -> None:
    assert supervisor_file() == str(copy)

    compiled = py_compile.compile(str(copy))

    assert compiled == cache_from_source(str(copy)) == supervisor_file()
    request = ScriptRequest("", None, (sys.executable, "-c", "print('ran')"), None, copy.parent)
    assert ControlledRunner(environment=os.environ).run(request).stdout == "ran\n"


def test_what_was_compiled_of_another_source_is_not_started(copy: Path) -> None:
    py_compile.compile(str(copy))
    copy.write_text(copy.read_text() + "\n# Changed.\n")
    assert supervisor_file() == str(copy)


def test_what_another_python_compiled_is_not_started(copy: Path) -> None:
    compiled = Path(str(py_compile.compile(str(copy))))
    compiled.write_bytes(b"\0\0\r\n" + compiled.read_bytes()[4:])
    assert supervisor_file() == str(copy)


def test_a_program_whose_check_is_left_out_is_not_started(copy: Path) -> None:
    py_compile.compile(str(copy), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert supervisor_file() == str(copy)


MEBIBYTE = 1 << 20
HOLDS = {
    "own memory": "kept = bytearray(os.urandom(SIZE))",
    "memory that children share": "kept = bytearray(os.urandom(SIZE)); os.fork(); os.fork()",
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
        [*ISOLATED, "-c", me + body + end], stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
        assert supervisor.Memory(58 * MEBIBYTE).is_over(pids)
        assert not supervisor.Memory(110 * MEBIBYTE).is_over(pids)


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of this process's control group, in one that stands for the kernel's."""
    own = tmp_path / "groups"
    own.write_text("1:name=systemd:/x\n0::/user.slice/app.slice/agent.scope\n")
    monkeypatch.setattr(supervisor, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(supervisor, "OWN_GROUPS", str(own))
    scope = tmp_path / "user.slice" / "app.slice" / "agent.scope"
    scope.mkdir(parents=True)
    for folder in (scope, *scope.parents[:3]):
        (folder / "cgroup.subtree_control").write_text("cpu pids\n")
    return scope


def test_memory_is_limited_in_a_control_group_where_one_can_be_made(scope: Path) -> None:
    (scope.parent / "cgroup.subtree_control").write_text("cpu memory\n")

    group = Path(supervisor.memory_group(256))

    assert group.parent == scope.parent
    assert (group / "memory.max").read_text() == "256"
    (group / "memory.events").write_text("high 0\nmax 7\noom 1\noom_kill 2\n")
    assert supervisor.was_over(str(group))
    (group / "memory.events").write_text("high 0\nmax 7\noom 0\noom_kill 0\n")
    assert not supervisor.was_over(str(group))


def test_no_control_group_is_made_where_none_has_limits(scope: Path) -> None:
    # In the own one are processes: it could have no groups with limits.
    (scope / "cgroup.subtree_control").write_text("cpu memory\n")
    assert supervisor.memory_group(256) == ""
    assert not supervisor.was_over("")


def test_an_empty_control_group_is_removed(scope: Path) -> None:
    assert not supervisor.was_over(str(scope.parent / "none"))
    (scope / "cgroup.subtree_control").unlink()
    supervisor.was_over(str(scope))
    assert not scope.exists()
