"""Installing is killed at every point: each skill is the old or the new one, and the next command tidies up.

A point is an audit event of Python: every file that is opened, made, renamed, removed, and every call of the
C library. The process that is killed is a fork of this one.
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from extras.packages.tests.installs import Installs
from skills_agent.packages.errors import PackageError
from tests.forked import run_forked

pytestmark = pytest.mark.slow


def killed_at(point: int, action: Callable[[], Any]) -> None:
    """Do something in this process, which is killed at a point of it."""
    left = point

    def hook(event: str, _: tuple[Any, ...]) -> None:
        nonlocal left
        if event.partition(".")[0] in {"open", "os", "shutil", "tempfile", "fcntl", "ctypes"}:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    action()


def prepared(place: Path) -> Installs:
    """Return a folder with two installed skills, of which newer versions are offered, and of a third one."""
    installs = Installs(place)
    for name in ("ask", "bow"):
        installs.write(name, "old")
    installs.install()
    for name in ("ask", "bow", "cry"):
        installs.write(name, "new")
    return installs


def assert_whole(installs: Installs, *, is_removal: bool) -> None:
    allowed = {"ask": {"old", "new"}, "bow": {"old", "new"}, "cry": {"new"}}
    versions = installs.versions()
    for name, version in versions.items():
        assert version in allowed[name], versions
    assert is_removal or {"ask", "bow"} <= versions.keys()


@pytest.mark.parametrize("is_removal", [False, True], ids=["update", "removal"])
def test_a_kill_at_any_point_leaves_each_skill_whole(tmp_path: Path, *, is_removal: bool) -> None:
    """Of each three points one, another one each time: a kill takes long."""
    point, killed = random.randint(-2, 0), -signal.SIGKILL
    while killed:
        point += 3
        installs = prepared(tmp_path / str(point))
        action = partial(installs.uninstall, "ask", "bow") if is_removal else installs.install
        killed = run_forked(killed_at, point, action)
        assert_whole(installs, is_removal=is_removal)
        # The next command may be killed, too.
        run_forked(killed_at, random.randrange(1, 40), installs.target.settle)
        assert_whole(installs, is_removal=is_removal)
        installs.target.settle()
        installs.assert_settled()
        assert len(set(installs.versions().values())) < 2
    assert point > 50


def test_racing_installers_leave_one_version_of_each_skill(tmp_path: Path) -> None:
    places = []
    for number in range(4):
        installs = Installs(tmp_path)
        installs.shared = tmp_path / f"shared-{number}"
        for name in ("ask", "bow", "cry"):
            installs.write(name, f"version-{number}")
        places.append(installs)

    def race(installs: Installs) -> None:
        for _ in range(10):
            try:
                installs.install(force=True)
            except PackageError as error:
                assert "while this was shown" in str(error)  # noqa: PT017 - only one of them may win
            else:
                return

    processes = []
    for installs in places:
        if not (process := os.fork()):
            os._exit(run_forked(race, installs))
        processes.append(process)
    assert [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in processes] == [0] * 4
    assert len(set(places[0].versions().values())) == 1
    places[0].target.settle()
    places[0].assert_settled()


def test_a_reader_sees_the_old_or_the_new_skill(tmp_path: Path) -> None:
    installs = Installs(tmp_path)
    installs.write("ask", "version-0", files=20)
    installs.install()

    def read_until_end() -> None:
        while not (tmp_path / "end").exists():
            folder = os.open(installs.folder / "ask", os.O_RDONLY)
            try:
                said = set()
                for name in ("SKILL.md", *(f"scripts/{number}.sh" for number in range(20))):
                    with open(os.open(name, os.O_RDONLY, dir_fd=folder)) as file:  # noqa: PTH123
                        said.add(file.read().split()[-1])
            except FileNotFoundError:  # it was replaced and removed meanwhile: never at its own place
                continue
            finally:
                os.close(folder)
            assert len(said) == 1, said

    if not (reader := os.fork()):
        os._exit(run_forked(read_until_end))
    for number in range(1, 30):
        installs.write("ask", f"version-{number}", files=20)
        installs.install()
    (tmp_path / "end").touch()
    assert os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == 0
