"""A plain message is discovered for and answered in one step; all else has a step of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from skills_agent.graph.audit.log import RunLog
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent


def nodes_of(agent: Agent, text: str, **asked: Any) -> list[str]:
    """Run one turn and return its nodes."""
    given: Any = {"messages": [HumanMessage(text)], **asked}
    return [name for update in agent.graph.stream(given, agent.config) for name in update]


def events_of(agent: Agent) -> list[tuple[str, str]]:
    """Return the run and the kind of each event in the record of a thread."""
    records, is_whole = RunLog(agent.settings.audit_folder).records(agent.thread)
    assert is_whole
    return [(record["run"], record["type"]) for record in records]


def test_a_plain_turn_writes_three_checkpoints(make_agent: MakeAgent) -> None:
    agent = make_agent(["One.", "Two."])
    for turn in (1, 2):
        assert nodes_of(agent, "Hi") == ["decide"]
        assert len([*agent.checkpointer.list(agent.config)]) == 3 * turn
        assert agent.values["usage"]["turn"] == turn
    assert agent.values["catalog"]["digest"]
    assert agent.values["usage"]["thread"]["model_calls"] == 2


def test_a_turn_is_discovered_for_once(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(call("update_plan", goal="Go", steps=[])), "Done."])
    assert nodes_of(agent, "Hi") == ["decide", "gate", "act", "decide"]
    assert agent.values["usage"]["turn"] == 1
    assert agent.values["usage"]["this_turn"]["model_calls"] == 2


@pytest.mark.parametrize("asked", ["/alpha now", "Use $alpha."])
def test_what_may_name_a_skill_begins_with_discover(
    make_agent: MakeAgent, workspace: Path, asked: str
) -> None:
    write_skill(workspace / ".agent" / "skills", "alpha", "Does alpha.")
    assert nodes_of(make_agent(["Done."]), asked) == ["discover", "select", "load", "decide"]


def test_a_caller_who_names_a_skill_begins_with_discover(make_agent: MakeAgent, workspace: Path) -> None:
    write_skill(workspace / ".agent" / "skills", "alpha", "Does alpha.")
    assert nodes_of(make_agent(["Done."]), "Go.", skills=["alpha"])[:2] == ["discover", "select"]


def test_calls_that_were_left_open_are_answered_by_discover(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(call("write_file", path="a.txt", content="a")), "Done."])
    agent.say("Write.")
    assert nodes_of(agent, "Leave it.") == ["discover", "decide"]


def test_a_skill_that_changed_on_disk_is_loaded_anew_before_the_model_is_asked(
    make_agent: MakeAgent, workspace: Path
) -> None:
    root = write_skill(workspace / ".agent" / "skills", "alpha", "Does alpha.", "Old.")
    agent = make_agent(["One.", "Two."], on_change="refresh")
    agent.say("Go.", skills=["alpha"])
    (root / "SKILL.md").write_text("---\nname: alpha\ndescription: Does alpha.\n---\n\nNew.\n")
    assert nodes_of(agent, "Go on.") == ["decide", "select", "load", "decide"]
    assert agent.values["skills_loaded"]["alpha"]["instructions"].strip() == "New."
    assert agent.values["usage"]["turn"] == 2


class Unsteady:
    """A scripted reply that fails the first time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.has_failed = False

    def __call__(self, messages: Sequence[BaseMessage]) -> Any:
        if not self.has_failed:
            self.has_failed = True
            raise RuntimeError("no answer")
        return AIMessage(self.text)


def test_a_turn_whose_first_step_failed_is_a_turn_of_its_own(make_agent: MakeAgent) -> None:
    agent = make_agent([Unsteady("Two.")])
    with pytest.raises(RuntimeError, match="no answer"):
        agent.say("One?")
    assert agent.say("Two?")["answer"] == "Two."
    assert agent.values["usage"]["turn"] == 2
    assert events_of(agent) == [
        *(("thread.1", kind) for kind in ("run_started", "run_failed")),
        *(("thread.2", kind) for kind in ("run_started", "model_called", "run_ended")),
    ]


def test_a_first_step_that_is_made_again_is_the_same_turn(make_agent: MakeAgent) -> None:
    agent = make_agent([Unsteady("One.")])
    with pytest.raises(RuntimeError, match="no answer"):
        agent.say("One?")
    assert agent.run(None)["answer"] == "One."
    assert (agent.values["usage"]["turn"], agent.values["usage"]["thread"]["model_calls"]) == (1, 1)
    assert {run for run, _ in events_of(agent)} == {"thread.1"}
