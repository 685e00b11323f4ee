"""No point of a run is known at which a kill loses anything, or repeats an effect in silence.

Here some points of each way; `make crash` tries all of them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.graph.cli.command_line import without_machine_warnings
from tests.postgres import NoPostgresError, find_binaries

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parent.parent.parent


def crash(*options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the program, which says of each way what it tried."""
    command = [sys.executable, "-m", "tests.crash", *options]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert "kill points" in done.stdout
    return done


@pytest.mark.parametrize(
    ("durability", "invoke", "unknown", "start"),
    [
        ("sync", "async", "approve", "1"),
        ("async", "sync", "approve", "6"),
        ("exit", "sync", "reject", "11"),
    ],
)
def test_a_killed_run_goes_on_with_sqlite(durability: str, invoke: str, unknown: str, start: str) -> None:
    """A journal in a file."""
    way = ("--durability", durability, "--invoke", invoke, "--unknown", unknown)
    crash("--saver", "sqlite", *way, "--every", "16", "--start", start)


def test_a_killed_run_goes_on_with_postgresql() -> None:
    """A journal in the database, written in one step with a look at the lock."""
    try:
        find_binaries()
    except NoPostgresError as error:
        pytest.skip(str(error))
    way = ("--durability", "async", "--invoke", "async", "--unknown", "reject")
    crash("--saver", "postgres", *way, "--every", "16", "--start", "8")


SYNC = ("--saver", "sqlite", "--durability", "sync", "--invoke", "sync", "--unknown")


def test_a_run_that_is_killed_twice_goes_on() -> None:
    assert "killed twice" in crash(*SYNC, "approve", "--again", "--every", "24", "--start", "6").stdout


def test_every_way_of_every_round_is_told_and_one_finding_fails_them_all() -> None:
    done = crash(*SYNC, "reject", "--points", "9999", "--rounds", "2", "--jobs", "2", code=1)
    assert without_machine_warnings(done.stderr) == ""
    told = done.stdout.splitlines()
    assert all("unknown: reject: " in line for line in told[::2])
    assert told[1::2] == ["  point 9999: the run has fewer than 9999 points now"] * 2
