"""A loaded skill that changes on disk: pinned and reported, loaded anew, or asked about."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, Recorder, write_skill
from tests.kit import MakeAgent


@pytest.fixture
def skill(skills_dir: Path) -> Path:
    return write_skill(skills_dir, "alpha", "Counts.", "OLD TEXT\n") / "SKILL.md"


def loaded_then_changed(make_agent: MakeAgent, skill: Path, prompts: Recorder, **settings: Any) -> Agent:
    agent = make_agent(prompts.entries, **settings)
    agent.say("hi", skills=["alpha"])
    skill.write_text(skill.read_text().replace("OLD", "NEW AND LONGER"))
    return agent


@pytest.mark.parametrize(
    ("on_change", "answer", "shown", "asked_by"),
    [
        ("pin", None, "OLD TEXT", "caller"),
        ("refresh", None, "NEW AND LONGER TEXT", "operator"),
        ("ask", "approve", "NEW AND LONGER TEXT", "operator"),
        ("ask", "reject", "OLD TEXT", "caller"),
    ],
)
def test_a_changed_skill_is_pinned_loaded_anew_or_asked_about_once(
    make_agent: MakeAgent, skill: Path, on_change: str, answer: str | None, shown: str, asked_by: str
) -> None:
    prompts = Recorder(["done"] * 5)
    agent = loaded_then_changed(make_agent, skill, prompts, on_change=on_change)
    agent.say("again")
    assert bool(agent.state.interrupts) == bool(answer)
    if answer:
        (interrupt,) = agent.state.interrupts
        assert [each["name"] for each in agent.asked] == ["load_skill"]
        assert interrupt.value["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]
        agent.answer({"type": answer})
    agent.say("and again")
    assert not agent.state.interrupts
    is_new = shown != "OLD TEXT"
    for prompt in prompts.texts[1:]:
        assert ("NEW AND LONGER TEXT" in prompt, "OLD TEXT" in prompt) == (is_new, not is_new)
    assert agent.values["skills_loaded"]["alpha"]["asked_by"] == asked_by
    changed = [each["change"] for each in agent.values["catalog"]["changed"]]
    assert changed == ([] if is_new else ["changed"])
    skill.write_text(skill.read_text().replace("NEW", "EVEN NEWER"))
    agent.say("fourth")
    assert bool(agent.state.interrupts) == bool(answer)


def test_other_skills_do_not_wait_for_it(make_agent: MakeAgent, skill: Path, skills_dir: Path) -> None:
    write_skill(skills_dir, "beta", "Counts.", "BETA TEXT\n")
    prompts = Recorder(["done"] * 5)
    agent = loaded_then_changed(make_agent, skill, prompts, on_change="ask")
    agent.say("again", skills=["beta"])
    assert {task.name for task in agent.state.tasks} == {"load", "approve"}
    agent.answer({"type": "approve"})
    assert "BETA TEXT" in prompts.texts[-1]
    assert "NEW AND LONGER" in prompts.texts[-1]
    assert len(prompts.texts) == 2
