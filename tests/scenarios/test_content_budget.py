"""What the instructions of loaded skills may take of the model's window; and how a person unloads one."""

from pathlib import Path
from typing import Any

import pytest

from skills_agent.nodes import select
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

SIZE = 60_000
"""Bytes of a skill, which are about 15,000 tokens."""
NAMES = [f"skill-{number}" for number in range(9)]
ROOM_FOR_ONE: Any = {"context_window": 51_200}


@pytest.fixture(autouse=True)
def skills(skills_dir: Path) -> None:
    for name in NAMES:
        write_skill(skills_dir, name, "Large.", f"{name} " + "x" * SIZE)
    write_skill(skills_dir, "small", "Small.", "SMALL\n")


def loaded(agent: Agent) -> list[str]:
    return sorted(name for name, each in agent.values["skills_loaded"].items() if not each["unloaded"])


def test_large_skills_that_a_person_names_leave_the_thread_able_to_answer(make_agent: MakeAgent) -> None:
    """Nine of 60 KB each: `I could not ask the model: 136,978 tokens`, in each turn that followed."""
    agent = make_agent(["one", "two"])
    assert agent.say("go", skills=NAMES)["answer"] == "one"
    assert loaded(agent) == NAMES[:4]
    refused = [each for each in agent.tool_messages("load_skill") if each.status == "error"]
    assert len(refused) == 5
    assert refused[0].text.startswith(
        "Skill skill-4 was not loaded: its instructions take about 15,002 tokens; skill-0, skill-1, "
        "skill-2, skill-3 take 60,008 of the 64,000 that loaded skills may take of the model's window "
        "(128,000). Unload one"
    )
    assert "/unload NAME" in refused[0].text
    assert agent.say("again")["answer"] == "two"


def test_parallel_requests_cannot_overspend_together_and_what_fits_is_loaded(make_agent: MakeAgent) -> None:
    wanted = [call("load_skill", name=name) for name in (*NAMES[:2], "small")]
    agent = make_agent([calls(*wanted), "done"], **ROOM_FOR_ONE)
    agent.say("go")
    assert loaded(agent) == ["skill-0", "small"]


def test_what_a_person_unloads_makes_room_in_the_same_message(make_agent: MakeAgent) -> None:
    agent = make_agent(["one", "two"], **ROOM_FOR_ONE)
    agent.say("/skill-0")
    agent.say("/unload skill-0 /skill-1 go on")
    assert loaded(agent) == ["skill-1"]


def test_a_skill_of_that_name_keeps_its_command(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "unload", "Unloads ships.", "SHIPS\n")
    agent = make_agent(["one"])
    agent.say("/unload small")
    assert loaded(agent) == ["unload"]


def test_what_is_shown_counts_and_not_what_is_cut(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "long", "Long.", "\n".join(["z" * 99] * 6_000))
    agent = make_agent(["done"])
    agent.say("/long")
    assert loaded(agent) == ["long"]


def test_a_required_skill_that_does_not_fit_is_noted(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "report", "Reports.\nrequires: [skill-0, skill-1]", "REPORT\n")
    agent = make_agent(["done"], **ROOM_FOR_ONE)
    agent.say("/report")
    assert loaded(agent) == ["report", "skill-0"]
    (receipt,) = agent.tool_messages("load_skill")
    assert "report requires skill-1, which was not loaded: its instructions take about 15,002" in receipt.text


def test_activations_with_other_arguments_count_each(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "deploy", "Deploys.", "Deploy to $ARGUMENTS. " + "x" * SIZE)
    agent = make_agent(["one", "two", "three"], context_window=64_000)
    for place in ("a", "b", "c"):
        agent.say(f"/deploy {place}")
    texts = [(each.status, each.text.partition(":")[0]) for each in agent.tool_messages("load_skill")]
    assert texts == [
        ("success", "Loaded deploy"),
        ("success", "Activated deploy again, with other arguments."),
        ("error", "Skill deploy was not activated again"),
    ]


def test_a_person_unloads_a_skill_with_a_message(make_agent: MakeAgent) -> None:
    agent = make_agent(["one"])  # No model is asked about the others.
    agent.say("go", skills=["small", "skill-0"])
    assert agent.say("/unload small")["answer"].startswith("The user unloaded small.")
    agent.say("/unload nothing")
    assert [each.text for each in agent.tool_messages("unload_skill")] == [
        "The user unloaded small. Its instructions are out of the conversation.",
        "Skill 'nothing' is not loaded. Loaded skills: skill-0.",
    ]
    assert loaded(agent) == ["skill-0"]


@pytest.mark.parametrize(
    ("text", "is_summarized", "left"), [("go on", True, ["skill-0"]), ("/unload skill-0", False, [])]
)
def test_what_a_person_unloads_is_out_before_a_summary_is_thought_of(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch, text: str, is_summarized: bool, left: list[str]
) -> None:
    monkeypatch.setattr(select, "CONTENT_SHARE", 0.9)
    agent = make_agent(["one"] * 5, context_window=31_500)
    for said in ("/skill-0", "y" * 32_000, "y" * 24_000):
        agent.say(said)
    asked: Any = {"messages": [("user", text)]}
    nodes = [name for update in agent.graph.stream(asked, agent.config) for name in update]
    assert ("summarize" in nodes) == is_summarized
    assert loaded(agent) == left
