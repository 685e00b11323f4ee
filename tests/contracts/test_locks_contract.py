"""What every lock of threads keeps out, and when it ends."""

import fcntl
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from skills_agent.graph.threads.errors import LostLockError, ThreadBusyError
from skills_agent.graph.threads.locks import (
    FileLocks,
    LockTable,
    ThreadKey,
    ThreadLocks,
)
from skills_agent.server.postgres_locks import PostgresLock, PostgresLocks

KEY = ThreadKey("t")

HOLDER = """
import sys
from pathlib import Path

kind, place = sys.argv[1:]
if kind != "postgres":
    from skills_agent.graph.threads.locks import FileLocks, ThreadKey
    locks = FileLocks(Path(place))
else:
    from langgraph.checkpoint.postgres import PostgresSaver
    from skills_agent.graph.threads.locks import ThreadKey
    from skills_agent.server.postgres_locks import PostgresLocks
    entered = PostgresSaver.from_conn_string(place)
    locks = PostgresLocks(entered.__enter__())
release = locks.take(ThreadKey("t"))
print("held", flush=True)
sys.stdin.readline()
release()
print("released", flush=True)
sys.stdin.readline()
"""


class Kind:
    """One kind of lock: two holders of it in this process, and one in another."""

    def __init__(self, name: str, place: str, make: Callable[[], ThreadLocks]) -> None:
        self.first, self.second, self.place = make(), make(), place
        self._command = [sys.executable, "-c", HOLDER, name, place]

    def other_process(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process


@pytest.fixture(params=["file", "postgres"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    if request.param != "postgres":
        yield Kind(request.param, str(tmp_path / "locks"), lambda: FileLocks(tmp_path / "locks"))
        return
    dsn = request.getfixturevalue("postgres").new_database()
    with PostgresSaver.from_conn_string(dsn) as saver:
        yield Kind("postgres", dsn, lambda: PostgresLocks(saver))


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


def test_a_thread_is_held_once(kind: Kind) -> None:
    release = kind.first.take(KEY)
    with pytest.raises(ThreadBusyError, match="'t' is busy") as refused:
        kind.second.take(KEY)
    assert refused.value.thread == "t"
    release()
    kind.second.take(KEY)()


@pytest.mark.parametrize(
    "other", [ThreadKey("u"), ThreadKey("t", "node:1"), ThreadKey("", "t"), ThreadKey("t\0")]
)
def test_other_threads_and_graphs_within_others_are_free(kind: Kind, other: ThreadKey) -> None:
    release = kind.first.take(KEY)
    again = kind.second.take(other)
    with pytest.raises(ThreadBusyError):
        kind.second.take(KEY)
    again()
    release()


@pytest.mark.parametrize("name", ["a/../b", "x" * 5000, "ü\u202e\n", ""])
def test_any_name_can_be_held(kind: Kind, name: str) -> None:
    release = kind.first.take(ThreadKey(name))
    with pytest.raises(ThreadBusyError):
        kind.second.take(ThreadKey(name))
    release()


def test_a_refused_holder_does_not_keep_what_others_gave_back(kind: Kind) -> None:
    release = kind.first.take(KEY)
    other = kind.second.take(ThreadKey("u"))
    with pytest.raises(ThreadBusyError):
        kind.second.take(KEY)
    release()
    kind.first.take(KEY)()
    other()


def test_what_was_given_back_is_free_at_once(kind: Kind) -> None:
    other = kind.second.take(ThreadKey("u"))  # Its connection is open: it asks without delay.
    for _ in range(100):
        kind.first.take(KEY)()
        kind.second.take(KEY)()
    other()


@pytest.mark.slow
def test_another_process_is_kept_out_and_keeps_out(kind: Kind) -> None:
    process = kind.other_process()
    with pytest.raises(ThreadBusyError):
        kind.first.take(KEY)
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
    with pytest.raises(ThreadBusyError):
        kind.first.take(KEY)
    process.kill()
    process.communicate(timeout=30)
    # The server notices the end of a connection, and no event tells of it. The alarm ends a test in vain.
    is_free = False
    while not is_free:
        with suppress(ThreadBusyError):
            kind.first.take(KEY)()
            is_free = True


@pytest.mark.slow
def test_a_child_process_holds_nothing_of_its_parents(tmp_path: Path) -> None:
    """It would keep the locks of a parent that was killed, and could not be kept out by them."""
    folder = tmp_path / "locks"
    program = f"""
import os, signal, sys
from pathlib import Path
from skills_agent.graph.threads.locks import FileLocks, ThreadKey
from skills_agent.graph.threads.errors import LostLockError, ThreadBusyError
locks = FileLocks(Path({str(folder)!r}))
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
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
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


@pytest.mark.slow
def test_a_program_that_ends_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    program = f"""
from pathlib import Path
from skills_agent.graph.threads.locks import FileLocks, ThreadKey
locks = FileLocks(Path({str(folder)!r}))
for each in [locks.take(ThreadKey(str(number))) for number in range(3)]:
    each()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    locks = FileLocks(folder)
    locks.take(KEY)()
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
        for number in range(3_000):
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
    release, flock = locks.take(KEY), fcntl.flock
    between: list[bool] = []

    def late(file: int, operation: int) -> None:
        if not between:
            between.append(True)
            release()
            if is_taken_again:
                third.take(KEY)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    if not is_taken_again:
        other.take(KEY)
    with pytest.raises(ThreadBusyError):
        (other if is_taken_again else third).take(KEY)


def test_calls_of_one_task_share_a_lock_and_the_last_gives_it_back(tmp_path: Path) -> None:
    table, other = LockTable(FileLocks(tmp_path / "locks")), LockTable(FileLocks(tmp_path / "locks"))
    inner = ThreadKey("t", "node:1")
    first, second = table.take(inner), table.take(inner)
    first()
    with pytest.raises(ThreadBusyError):
        other.take(inner)
    second()
    other.take(inner)()


def test_a_connection_is_open_while_a_lock_is_held(postgres_dsn: str) -> None:
    with PostgresSaver.from_conn_string(postgres_dsn) as saver:

        def connections() -> int:
            query = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
            with saver._cursor() as cursor:
                row: Any = cursor.execute(query).fetchone()
            return int(row["n"])

        locks = PostgresLocks(saver)
        releases = [locks.take(ThreadKey(str(number))) for number in range(50)]
        assert connections() == 2
        for release in releases:
            release()
        release = locks.take(KEY)
        assert connections() <= 2
        release()


def lose(kind: Kind, held: Any) -> None:
    """Take a lock away from its holder, as a pooler, an administrator or `git clean` does."""
    if isinstance(held, PostgresLock):
        import psycopg  # noqa: PLC0415 - an extra of the project

        with psycopg.connect(kind.place, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [held.pid])
    else:
        for path in Path(kind.place).iterdir():
            path.unlink()


def test_a_lock_that_is_held_says_so(kind: Kind) -> None:
    held: Any = kind.first.take(KEY)
    held.check(begins=True)
    held()


def test_a_lost_lock_begins_nothing(kind: Kind) -> None:
    held: Any = kind.first.take(KEY)
    lose(kind, held)
    with pytest.raises(LostLockError, match="'t' was lost"):
        held.check(begins=True)


def test_a_lock_that_somebody_else_took_writes_nothing(kind: Kind) -> None:
    held: Any = kind.first.take(KEY)
    lose(kind, held)
    other: Any = kind.second.take(KEY)
    for begins in (True, False):
        with pytest.raises(LostLockError):
            held.check(begins=begins)
    other.check(begins=True)
    held()  # It is not that of the other any more.
    with pytest.raises(ThreadBusyError):
        kind.first.take(KEY)
    other.check(begins=True)
    other()


def test_what_lost_its_lock_can_take_it_again(kind: Kind) -> None:
    held: Any = kind.first.take(KEY)
    lose(kind, held)
    again: Any = kind.first.take(KEY)
    again.check(begins=True)
    held()
    again.check(begins=True)
    again()


def test_a_write_sees_in_its_own_transaction_that_the_lock_is_lost(postgres_dsn: str) -> None:
    """Nobody has taken it since: its token is still there."""
    import psycopg  # noqa: PLC0415 - an extra of the project

    with (
        PostgresSaver.from_conn_string(postgres_dsn) as saver,
        psycopg.connect(postgres_dsn, autocommit=True) as connection,
    ):
        held: Any = PostgresLocks(saver).take(KEY)
        cursor = connection.cursor()
        held.check_within(cursor, begins=True)
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [held.pid])
        held.check_within(cursor, begins=False)  # What ended is written.
        with pytest.raises(LostLockError, match="connection that held it broke"):
            held.check_within(cursor, begins=True)
        held()
