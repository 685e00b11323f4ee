"""What the gate costs for one call, with 10 loaded skills and 200 patterns: `python benchmarks/gate.py`.

Prints the median of each mode in milliseconds, and its ratio to a gate without any loaded skill. Exits
with 1 where a call costs more than the budget of 1 ms.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

from langchain_core.messages.tool import ToolCall, tool_call
from langgraph.runtime import Runtime

from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.policy import Policy
from skills_agent.skills.policy.permission import Mode
from skills_agent.state.context import Context
from skills_agent.state.records import GrantRecord, LoadedSkill
from skills_agent.state.schema import AgentState

SKILLS = 10
PATTERNS = 20
"""Of each skill."""
GRANTS = 50
ROUNDS = 300
BUDGET = 1.0
"""Milliseconds a call."""

CALLS = [
    tool_call(name="write_file", args={"path": "not/listed.txt", "content": ""}, id="1"),
    tool_call(name="read_file", args={"path": "a.txt"}, id="2"),
    tool_call(name="run_script", args={"skill": "skill-9", "path": "scripts/last.py", "args": ["x"]}, id="3"),
    tool_call(name="grep", args={"pattern": "x", "path": "src"}, id="4"),
]


def main() -> int:
    """Measure, print, and compare with the budget."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        settings = Settings(workspace=folder, home=folder, bundled_skills=False)
        policy = Services(settings).policy
        empty = _median(partial(_judge, policy, state=AgentState()))
        print(f"{'no skill loaded':<16} {empty:.3f} ms a call")
        worst = 0.0
        for mode in get_args(Mode):
            moded = replace(policy, mode=mode)
            took = _median(partial(_judge, moded))
            print(f"{mode:<16} {took:.3f} ms a call, {took / empty:.1f} times")
            worst = max(worst, took)
    print(f"{SKILLS} skills, {SKILLS * PATTERNS} patterns, {GRANTS} grants; budget {BUDGET} ms")
    return int(worst > BUDGET)


def _judge(policy: Policy, call: ToolCall, state: AgentState | None = None) -> object:
    """Judge one call as the only one of its step: nothing is shared with others."""
    state = STATE if state is None else state
    judge = Judge(policy, state, Context(), None, policy.registry(Runtime()))
    return judge.verdict(judge.call(call["name"], call["args"]))


def _median(judge: Callable[[ToolCall], object]) -> float:
    times = []
    for number in range(ROUNDS):
        call = CALLS[number % len(CALLS)]
        begin = time.perf_counter()
        judge(call)
        times.append(time.perf_counter() - begin)
    return 1_000 * statistics.median(times)


def _skill(number: int) -> LoadedSkill:
    listed = [f"Bash(program-{number}-{each} sub *)" for each in range(PATTERNS // 2)]
    listed += [f"Write(folder-{number}/**/{each}-*.md)" for each in range(PATTERNS // 2)]
    return LoadedSkill(
        name=f"skill-{number}", source="user", path=f"/nowhere/skill-{number}/SKILL.md", digest="",
        instructions="", lines=1, allowed_tools=listed, disallowed_tools=["Bash(rm:*)"], model=None,
        asked_by="model", reason="", call_id="", order=number, unloaded=False,
    )  # fmt: skip


def _grant(number: int) -> GrantRecord:
    return GrantRecord(
        id=str(number), scope="pattern", tool="write_file", decision="approve", args={}, message="",
        revoked=False, pattern=f"Write(granted-{number}/*)", skill=None, user=None, contents={}, digest="",
    )  # fmt: skip


STATE = AgentState(
    skills_loaded={f"skill-{number}": _skill(number) for number in range(SKILLS)},
    grants={str(number): _grant(number) for number in range(GRANTS)},
)

if __name__ == "__main__":
    sys.exit(main())
