"""A loaded skill that changes on disk: pinned and reported, loaded anew, or asked about."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, write_skill
from tests.kit import MakeAgent


@pytest.fixture
def skill(skills_dir: Path) -> Path:
    return write_skill(skills_dir, "alpha", "Counts.", "OLD TEXT\n") / "SKILL.md"


class Prompts:
    """Answers every turn and keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, messages: Any) -> str:
        self.seen.append("\n".join(str(message.content) for message in messages))
        return "done"


def loaded_then_changed(make_agent: MakeAgent, skill: Path, prompts: Prompts, **settings: Any) -> Agent:
    agent = make_agent([prompts] * 5, **settings)
    agent.say("hi", skills=["alpha"])
    skill.write_text(skill.read_text().replace("OLD", "NEW AND LONGER"))
    return agent


def test_pin_keeps_the_loaded_text_and_says_so(make_agent: MakeAgent, skill: Path) -> None:
    prompts = Prompts()
    agent = loaded_then_changed(make_agent, skill, prompts)
    agent.say("again")
    assert "OLD TEXT" in prompts.seen[-1]
    assert "NEW AND LONGER" not in prompts.seen[-1]
    (changed,) = agent.values["catalog"]["changed"]
    assert (changed["name"], changed["change"]) == ("alpha", "changed")


def test_refresh_loads_the_new_text_at_the_next_turn_once(make_agent: MakeAgent, skill: Path) -> None:
    prompts = Prompts()
    agent = loaded_then_changed(make_agent, skill, prompts, on_change="refresh")
    agent.say("again")
    agent.say("and again")
    for prompt in prompts.seen[1:]:
        assert "NEW AND LONGER TEXT" in prompt
        assert "OLD TEXT" not in prompt
        assert "Different on disk" not in prompt
    assert len(agent.tool_messages("load_skill")) == 2
    assert agent.values["skills_loaded"]["alpha"]["asked_by"] == "operator"


def test_ask_waits_for_a_person_and_loads_what_is_approved(make_agent: MakeAgent, skill: Path) -> None:
    prompts = Prompts()
    agent = loaded_then_changed(make_agent, skill, prompts, on_change="ask")
    agent.say("again")
    (interrupt,) = agent.state.interrupts
    (action,) = interrupt.value["action_requests"]
    assert action["name"] == "load_skill"
    assert "changed on disk" in action["description"]
    assert interrupt.value["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]
    result = agent.answer({"type": "approve"})
    assert result["answer"] == "done"
    assert "NEW AND LONGER" in prompts.seen[-1]


def test_ask_keeps_the_text_that_a_person_kept_and_does_not_ask_again(
    make_agent: MakeAgent, skill: Path
) -> None:
    prompts = Prompts()
    agent = loaded_then_changed(make_agent, skill, prompts, on_change="ask")
    agent.say("again")
    agent.answer({"type": "reject"})
    assert "OLD TEXT" in prompts.seen[-1]
    agent.say("third")
    assert not agent.state.interrupts
    assert "OLD TEXT" in prompts.seen[-1]
    skill.write_text(skill.read_text().replace("NEW", "EVEN NEWER"))
    agent.say("fourth")
    assert agent.state.interrupts


def test_other_skills_of_the_turn_do_not_wait_for_the_question(
    make_agent: MakeAgent, skill: Path, skills_dir: Path
) -> None:
    write_skill(skills_dir, "beta", "Counts.", "BETA TEXT\n")
    prompts = Prompts()
    agent = loaded_then_changed(make_agent, skill, prompts, on_change="ask")
    agent.say("again", skills=["beta"])
    assert {task.name for task in agent.state.tasks} == {"load", "approve"}
    agent.answer({"type": "approve"})
    assert "BETA TEXT" in prompts.seen[-1]
    assert "NEW AND LONGER" in prompts.seen[-1]
    assert len(prompts.seen) == 2
