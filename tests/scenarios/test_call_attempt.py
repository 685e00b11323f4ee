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
from tests.agents import Agent, CutOff, call, calls, write_skill
from tests.kit import MakeAgent

PAY = call("pay", amount=3)
RUN = call("run_script", skill="alpha", path="scripts/run.py")


class Payments:
    """A tool that is told its key, and can be cut off."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.cut_off = False

        @tool
        def pay(amount: int, runtime: ToolRuntime) -> str:
            """Pay."""
            self.attempts.append(call_attempt(runtime))
            if self.cut_off:
                raise CutOff
            return f"paid {amount}"

        pay.metadata = {"risk": "write"}
        self.tool = pay


@pytest.fixture
def payments() -> Payments:
    return Payments()


def agent_of(make_agent: MakeAgent, payments: Payments, thread: str = "thread") -> Agent:
    script = [calls(PAY), "done", calls(PAY), "done"]
    return make_agent(script, tools=[payments.tool], thread=thread, require_approval_for=frozenset({"run"}))


def test_the_second_attempt_has_the_key_of_the_first(make_agent: MakeAgent, payments: Payments) -> None:
    agent = agent_of(make_agent, payments)
    payments.cut_off = True
    with pytest.raises(CutOff):
        agent.say("go")
    payments.cut_off = False
    agent.run(None)
    agent.answer({"type": "approve"})
    (first, one), (second, two) = payments.attempts
    assert first == second
    assert (one, two) == (1, 2)
    assert re.fullmatch(r"[0-9a-f]{32}", first)


def test_the_same_call_again_and_in_another_thread_has_another_key(
    make_agent: MakeAgent, payments: Payments
) -> None:
    agent = agent_of(make_agent, payments)
    agent.say("go")
    agent.say("again")
    agent_of(make_agent, payments, "other").say("go")
    assert len({key for key, _ in payments.attempts}) == 3


def test_a_script_has_the_key_in_its_environment(
    make_agent: MakeAgent, skills_dir: Path, workspace: Path
) -> None:
    program = (
        "import json, os\n"
        "keys = {k: v for k, v in os.environ.items() if k.startswith('SKILLS_AGENT')}\n"
        "json.dump(keys, open('keys.json', 'w'))\n"
    )
    write_skill(skills_dir, "alpha", "Shows.", scripts__run_py=program)
    agent = make_agent(
        [calls(call("load_skill", name="alpha")), calls(RUN), "done"],
        require_approval_for=frozenset({"write"}),
    )
    agent.say("go")
    found = json.loads((workspace / "keys.json").read_text())
    assert sorted(found) == ["SKILLS_AGENT_CALL_ATTEMPT", "SKILLS_AGENT_CALL_KEY"]
    assert found["SKILLS_AGENT_CALL_ATTEMPT"] == "1"
    assert re.fullmatch(r"[0-9a-f]{32}", found["SKILLS_AGENT_CALL_KEY"])


def test_a_tool_that_no_agent_calls_has_no_key() -> None:
    runtime: Any = SimpleNamespace(config={})
    with pytest.raises(LookupError, match="not called by the agent"):
        call_attempt(runtime)
