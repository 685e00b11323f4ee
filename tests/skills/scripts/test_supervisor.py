"""How the supervisor is started: it is there for every script, so it must cost next to nothing."""

import os
import py_compile
import subprocess
import sys
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
