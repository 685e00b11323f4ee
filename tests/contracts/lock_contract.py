"""What every lock of threads keeps out, and when it ends.

Who has a kind of lock imports these tests beside a fixture `kind`.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from skills_agent.graph.threads.errors import LostLockError, ThreadBusyError
from skills_agent.graph.threads.locks import ThreadKey, ThreadLocks

KEY = ThreadKey("t")
HOLDER = """
release = locks.take(ThreadKey("t"))
print("held", flush=True)
sys.stdin.readline()
release()
print("released", flush=True)
sys.stdin.readline()
"""


class Kind:
    """One kind of lock: two holders of it in this process, and one in another."""

    def __init__(
        self, program: str, place: str, make: Callable[[], ThreadLocks], lose: Callable[[Any], None]
    ) -> None:
        """`program` makes `locks` of `place`; `lose` takes a lock away from its holder."""
        self.first, self.second, self.lose = make(), make(), lose
        self._command = [sys.executable, "-c", f"{program}\n{HOLDER}", place]

    def other_process(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    """A lock that waits where it has to refuse fails its test: no caller would ever get an answer."""

    def fail(*_: object) -> None:
        pytest.fail("a lock waits")

    earlier = signal.signal(signal.SIGALRM, fail)
    signal.alarm(300)  # Far more than a busy machine needs to start a server and a process.
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, earlier)


def assert_busy(locks: ThreadLocks, key: ThreadKey = KEY) -> None:
    with pytest.raises(ThreadBusyError, match=f"{key.thread!r} is busy" if key == KEY else None) as refused:
        locks.take(key)
    assert refused.value.thread == key.thread


@pytest.mark.parametrize(
    "other", [ThreadKey("u"), ThreadKey("t", "node:1"), ThreadKey("", "t"), ThreadKey("t\0")]
)
def test_a_thread_is_held_once_and_others_are_free(kind: Kind, other: ThreadKey) -> None:
    release = kind.first.take(KEY)
    again = kind.second.take(other)
    assert_busy(kind.second)
    again()
    release()
    kind.second.take(KEY)()


@pytest.mark.parametrize("name", ["a/../b", "x" * 5000, "ü\u202e\n", ""])
def test_any_name_can_be_held(kind: Kind, name: str) -> None:
    release = kind.first.take(ThreadKey(name))
    assert_busy(kind.second, ThreadKey(name))
    release()


def test_what_was_given_back_is_free_at_once(kind: Kind) -> None:
    other = kind.second.take(ThreadKey("u"))  # Its connection is open: it asks without delay.
    for _ in range(20):
        kind.first.take(KEY)()
        kind.second.take(KEY)()
    other()


@pytest.mark.slow
def test_another_process_is_kept_out_and_keeps_out(kind: Kind) -> None:
    process = kind.other_process()
    assert_busy(kind.first)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("release\n")
    process.stdin.flush()
    assert process.stdout.readline() == "released\n"
    kind.first.take(KEY)()
    process.communicate("end\n", timeout=30)
    assert process.returncode == 0


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_free(kind: Kind) -> None:
    process = kind.other_process()
    assert_busy(kind.first)
    process.kill()
    process.communicate(timeout=30)
    # The server notices the end of a connection, and no event tells of it. The alarm ends a test in vain.
    is_free = False
    while not is_free:
        with suppress(ThreadBusyError):
            kind.first.take(KEY)()
            is_free = True


def test_a_lost_lock_begins_nothing_and_one_that_somebody_else_took_writes_nothing(kind: Kind) -> None:
    held: Any = kind.first.take(KEY)
    held.check(begins=True)
    kind.lose(held)
    with pytest.raises(LostLockError, match="'t' was lost"):
        held.check(begins=True)
    other: Any = kind.second.take(KEY)
    for begins in (True, False):
        with pytest.raises(LostLockError):
            held.check(begins=begins)
    other.check(begins=True)
    held()  # It is not that of the other any more.
    assert_busy(kind.first)
    other.check(begins=True)
    other()


def test_what_lost_its_lock_can_take_it_again(kind: Kind) -> None:
    held: Any = kind.first.take(KEY)
    kind.lose(held)
    again: Any = kind.first.take(KEY)
    again.check(begins=True)
    held()
    again.check(begins=True)
    again()
