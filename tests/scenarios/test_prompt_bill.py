"""What the agent sends for the same tasks beside others, by the benchmark."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


@pytest.mark.parametrize(("skills", "most"), [(30, 1.3), (105, 1.0)])
def test_prompts_cost_little_more_than_those_of_a_small_agent_and_less_with_many_skills(
    monkeypatch: pytest.MonkeyPatch, skills: int, most: float
) -> None:
    """They cost 1.5 times as much with 30 skills, and 1.2 times with 105."""
    pytest.importorskip("deepagents", reason="the extra `deepagents` is not installed")
    monkeypatch.syspath_prepend(BENCHMARKS)
    bench: Any = import_module("prompt_bill")
    kinds = {each.name: each for each in bench.KINDS}
    ours, other = (
        bench.bill_of(bench.requests_of(kinds[name], skills)).paid
        for name in ("skills-agent", "create_agent")
    )
    assert ours <= most * other
