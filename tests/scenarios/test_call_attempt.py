"""Every call has a key that its second attempt has, too: what it asks for can be done once."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.prebuilt import ToolRuntime

from skills_agent.graph import call_attempt
from tests.agents import FREE, CutOff, call, calls, write_skill
from tests.kit import MakeAgent

PAY = calls(call("pay", amount=3))
RUN = call("run_script", skill="alpha", path="scripts/run.py")


def test_a_second_attempt_has_the_key_of_the_first_and_no_other_call(make_agent: MakeAgent) -> None:
    attempts: list[tuple[str, int]] = []

    @tool
    def pay(amount: int, runtime: ToolRuntime) -> str:
        """Pay."""
        attempts.append(call_attempt(runtime))
        if len(attempts) == 1:
            raise CutOff
        return f"paid {amount}"

    pay.metadata = {"risk": "write"}
    one, other = (make_agent([PAY, "done"] * 2, tools=[pay], thread=name, **FREE) for name in "ab")
    with pytest.raises(CutOff):
        one.say("go")
    one.run(None)
    one.answer({"type": "approve"})
    one.say("again")
    other.say("go")
    assert [attempt for _, attempt in attempts] == [1, 2, 1, 1]
    first, second, *others = (key for key, _ in attempts)
    assert first == second
    assert len({first, *others}) == 3
    assert re.fullmatch(r"[0-9a-f]{32}", first)


def test_a_script_finds_its_key(make_agent: MakeAgent, skills_dir: Path, workspace: Path) -> None:
    program = (
        "import json, os\n"
        "keys = {k: v for k, v in os.environ.items() if k.startswith('SKILLS_AGENT')}\n"
        "json.dump(keys, open('keys.json', 'w'))\n"
    )
    write_skill(skills_dir, "alpha", "Shows.", scripts__run_py=program)
    make_agent([calls(call("load_skill", name="alpha")), calls(RUN), "done"], **FREE).say("go")
    found = json.loads((workspace / "keys.json").read_text())
    assert found.keys() == {"SKILLS_AGENT_CALL_ATTEMPT", "SKILLS_AGENT_CALL_KEY"}
    assert found["SKILLS_AGENT_CALL_ATTEMPT"] == "1"
    assert re.fullmatch(r"[0-9a-f]{32}", found["SKILLS_AGENT_CALL_KEY"])


def test_a_tool_that_no_agent_calls_has_no_key() -> None:
    runtime: Any = SimpleNamespace(config={})
    with pytest.raises(LookupError, match="not called by the agent"):
        call_attempt(runtime)
