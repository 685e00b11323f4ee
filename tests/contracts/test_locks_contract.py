"""Locks of files, held against the contract of locks; and what is theirs alone."""

import fcntl
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.threads.errors import ThreadBusyError
from skills_agent.graph.threads.locks import FileLocks, LockTable, ThreadKey
from skills_agent.nodes.cancellation import Cancellation
from tests.contracts.lock_contract import *  # noqa: F403 - the tests
from tests.contracts.lock_contract import KEY, Kind

PROGRAM = """
import sys
from pathlib import Path
from skills_agent.graph.threads.locks import FileLocks, ThreadKey
locks = FileLocks(Path(sys.argv[1]))
"""


@pytest.fixture
def kind(tmp_path: Path) -> Kind:
    """Return locks of files; they are lost as `git clean` removes them."""
    folder = tmp_path / "locks"

    def lose(_: Any) -> None:
        for path in folder.iterdir():
            path.unlink()

    return Kind(PROGRAM, str(folder), lambda: FileLocks(folder), lose)


@pytest.mark.slow
def test_a_child_process_holds_nothing_of_its_parents(tmp_path: Path) -> None:
    """It would keep the locks of a parent that was killed, and could not be kept out by them."""
    folder = tmp_path / "locks"
    program = f"""{PROGRAM}
import os, signal
from skills_agent.graph.threads.errors import ThreadBusyError
locks.take(ThreadKey("t"))
if not os.fork():
    try:
        locks.take(ThreadKey("t"))
        print("not kept out", flush=True)
    except ThreadBusyError:
        print("kept out", flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", program, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "kept out\n"
    with pytest.raises(ThreadBusyError):
        FileLocks(folder).take(KEY)
    process.kill()
    process.wait()
    FileLocks(folder).take(KEY)()  # The child lives on.
    process.stdin.close()
    process.stdout.close()


def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    locks = FileLocks(folder)
    locks.take(KEY)()
    assert list(folder.iterdir()) == []
    shutil.rmtree(folder)
    release = locks.take(KEY)
    with pytest.raises(ThreadBusyError):
        FileLocks(folder).take(KEY)
    release()


@pytest.mark.slow
def test_of_many_that_want_a_few_threads_one_at_a_time_has_each(tmp_path: Path) -> None:
    everybody = [FileLocks(tmp_path / "locks") for _ in range(4)]
    holders, wrong = dict.fromkeys("abc", 0), list[str]()

    def use(locks: FileLocks) -> int:
        taken = 0
        for number in range(600):
            name = "abc"[number % 3]
            with suppress(ThreadBusyError):
                release = locks.take(ThreadKey(name))
                holders[name] += 1
                if holders[name] != 1:
                    wrong.append(name)
                holders[name] -= 1
                taken += 1
                release()
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(use, everybody))
    assert wrong == []
    assert all(taken)


@pytest.mark.parametrize("is_taken_again", [False, True])
def test_a_file_that_its_holder_removed_in_between_is_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken_again: bool
) -> None:
    """Two that lock two files of one name would both run."""
    locks, other, third = (FileLocks(tmp_path / "locks") for _ in range(3))
    between, flock = [locks.take(KEY)], fcntl.flock

    def late(file: int, operation: int) -> None:
        if between:
            between.pop()()
            if is_taken_again:
                third.take(KEY)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    if not is_taken_again:
        other.take(KEY)
    with pytest.raises(ThreadBusyError):
        (other if is_taken_again else third).take(KEY)


def test_calls_of_one_task_share_a_lock_and_the_last_gives_it_back(tmp_path: Path) -> None:
    table, other = LockTable(FileLocks(tmp_path / "locks")), FileLocks(tmp_path / "locks")
    inner = ThreadKey("t", "node:1")
    first, second = table.take(inner, Cancellation()), table.take(inner, Cancellation())
    first()
    with pytest.raises(ThreadBusyError):
        other.take(inner)
    second()
    other.take(inner)()
