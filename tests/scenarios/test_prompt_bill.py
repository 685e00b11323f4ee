"""What the agent sends for the same tasks beside others, by the benchmark."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCHMARK = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "prompt_bill.py"


def test_prompts_cost_little_more_than_those_of_a_small_agent_and_less_with_many_skills() -> None:
    """They cost 1.5 times as much with 30 skills, and 1.2 times with 105."""
    pytest.importorskip("deepagents", reason="the extra `deepagents` is not installed")

    done = subprocess.run([sys.executable, str(BENCHMARK)], capture_output=True, text=True)

    assert "Traceback" not in done.stderr
    rows = dict(re.findall(r"\| (\d+) \| skills-agent .* \| ([\d.]+) \|", done.stdout))
    assert rows.keys() == {"30", "105"}
    assert float(rows["30"]) <= 1.3
    assert float(rows["105"]) <= 1.0
