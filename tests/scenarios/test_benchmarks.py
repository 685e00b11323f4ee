"""What the benchmarks measure of the agent that may not get worse."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import NoPostgresError, find_binaries

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


def test_no_session_loses_or_doubles_anything_on_either_database() -> None:
    """The benchmark checks every thread after its run; how long that took is no matter here."""
    try:
        find_binaries()
    except NoPostgresError as error:
        pytest.skip(str(error))
    options = ["--sessions", "8", "--seconds", "0.2", "--only", "tool"]
    command = [sys.executable, str(BENCHMARKS / "sessions.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    ways = [line.split(" | ")[:2] for line in done.stdout.splitlines() if line.startswith(("| sq", "| po"))]
    assert ways == [[f"| {saver}", path] for saver in ("sqlite", "postgres") for path in ("async", "sync")]


@pytest.mark.parametrize(("skills", "most"), [(30, 1.3), (105, 1.0)])
def test_prompts_cost_little_more_than_those_of_a_small_agent_and_less_with_many_skills(
    monkeypatch: pytest.MonkeyPatch, skills: int, most: float
) -> None:
    """They cost 1.5 times as much with 30 skills, and 1.2 times with 105."""
    pytest.importorskip("deepagents", reason="the extra `deepagents` is not installed")
    monkeypatch.syspath_prepend(BENCHMARKS)
    bench: Any = import_module("prompt_bill")
    kinds = {each.name: each for each in bench.KINDS}
    paid = [
        bench.bill_of(bench.requests_of(kinds[name], skills)).paid
        for name in ("skills-agent", "create_agent")
    ]
    assert paid[0] <= most * paid[1]
