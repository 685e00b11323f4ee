"""Many sessions in one process, each with a thread of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import NoPostgresError, find_binaries

pytestmark = pytest.mark.slow

BENCHMARK = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "sessions.py"


def test_no_session_loses_or_doubles_anything_on_either_database() -> None:
    """The benchmark checks every thread after its run; how long that took is no matter here."""
    try:
        find_binaries()
    except NoPostgresError as error:
        pytest.skip(str(error))
    command = [sys.executable, str(BENCHMARK), "--sessions", "8", "--seconds", "0.2", "--only", "tool"]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    ways = [line.split(" | ")[:2] for line in done.stdout.splitlines() if line.startswith(("| sq", "| po"))]
    assert ways == [[f"| {saver}", path] for saver in ("sqlite", "postgres") for path in ("async", "sync")]
