"""Every turn is `discover`, ..., `decide`, ..., `answer`, as `stream` shows it and interrupts stop at it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.types import Command

from skills_agent.graph.audit.log import RunLog
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

LOOK = calls(call("list_dir"))
WRITE = calls(call("write_file", path="a.txt", content="a"))
LOAD = calls(call("load_skill", name="alpha"))
UNKNOWN = calls(call("no_such_tool"))
Story = Callable[[MakeAgent, Path], list[list[str]]]


def nodes_of(agent: Agent, given: Any) -> list[str]:
    """Run what comes into a thread, and return its nodes as a client sees them."""
    given = {"messages": [HumanMessage(given)]} if isinstance(given, str) else given
    parts = agent.graph.stream(given, agent.config, stream_mode="updates")
    return [name for part in parts for name in part if name != "__interrupt__"]


def decided(decision: str) -> Any:
    return Command(resume={"decisions": [{"type": decision}]})


def events_of(agent: Agent) -> list[tuple[str, str]]:
    """Return the run and the kind of each event in the record of a thread."""
    records, is_whole = RunLog(agent.settings.audit_folder).records(agent.thread)
    assert is_whole
    return [(record["run"], record["type"]) for record in records]


def skill_of(workspace: Path) -> Path:
    return write_skill(workspace / ".agent" / "skills", "alpha", "Does alpha.", "Old.")


def change(skill: Path) -> None:
    file = skill / "SKILL.md"
    file.write_text(file.read_text().replace("Old.", "New."))


def hello(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    return [nodes_of(make_agent(["Hello."]), "Hi")]


def second_turn(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    agent = make_agent(["One.", "Two."])
    return [nodes_of(agent, "Hi"), nodes_of(agent, "And?")]


def skill_by_name(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill_of(workspace)
    return [nodes_of(make_agent(["Done."]), "/alpha now")]


def skill_by_mention(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill_of(workspace)
    return [nodes_of(make_agent(["Done."]), "Use $alpha.")]


def skill_of_the_caller(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill_of(workspace)
    return [nodes_of(make_agent(["Done."]), {"messages": [HumanMessage("Go.")], "skills": ["alpha"]})]


def skill_of_the_model(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill_of(workspace)
    return [nodes_of(make_agent([LOAD, "Done."]), "Go.")]


def skill_unloaded(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill_of(workspace)
    agent = make_agent([LOAD, "Done."])
    return [nodes_of(agent, "Go."), nodes_of(agent, "/unload alpha")]


def changed_skill(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill = skill_of(workspace)
    agent = make_agent(["One.", "Two."], on_change="refresh")
    first = nodes_of(agent, {"messages": [HumanMessage("Go.")], "skills": ["alpha"]})
    change(skill)
    second = nodes_of(agent, "Go on.")
    assert agent.values["skills_loaded"]["alpha"]["instructions"].strip() == "New."
    assert agent.values["usage"]["turn"] == 2
    return [first, second]


def changed_skill_with_a_question(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill = skill_of(workspace)
    agent = make_agent([LOAD, "One.", "Two."], on_change="ask")
    first = nodes_of(agent, "Go.")
    change(skill)
    return [first, nodes_of(agent, "Go on."), nodes_of(agent, decided("approve"))]


def allowed_call(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    return [nodes_of(make_agent([LOOK, "Done."]), "Look.")]


def two_calls(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    return [nodes_of(make_agent([calls(call("list_dir"), call("list_dir", path="./")), "Done."]), "Look.")]


def skill_beside_a_call(make_agent: MakeAgent, workspace: Path) -> list[list[str]]:
    skill_of(workspace)
    both = calls(call("load_skill", name="alpha"), call("list_dir"))
    return [nodes_of(make_agent([both, "Done."]), "Go.")]


def direct_result(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    @tool(return_direct=True)
    def report() -> str:
        """Report."""
        return "All is well."

    agent = make_agent([calls(call("report"))], tools=[report], require_approval_for=frozenset())
    nodes = nodes_of(agent, "Report.")
    assert (agent.values["answer"], agent.values["usage"]["thread"]["model_calls"]) == ("All is well.", 1)
    return [nodes]


def approved(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    agent = make_agent([WRITE, "Done."])
    return [nodes_of(agent, "Write."), nodes_of(agent, decided("approve"))]


def rejected(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    agent = make_agent([WRITE, "I leave it."])
    return [nodes_of(agent, "Write."), nodes_of(agent, decided("reject"))]


def superseded(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    agent = make_agent([WRITE, "Done."])
    return [nodes_of(agent, "Write."), nodes_of(agent, "Leave it.")]


def refused_by_policy(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    return [nodes_of(make_agent([WRITE, "It is not allowed."], approval="deny"), "Write.")]


def refused_again_and_again(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    return [nodes_of(make_agent([UNKNOWN, UNKNOWN, UNKNOWN, "I stop."]), "Go.")]


def rejected_again_and_again(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    agent = make_agent([WRITE, WRITE, WRITE, "I stop."])
    return [nodes_of(agent, "Write."), *(nodes_of(agent, decided("reject")) for _ in range(3))]


def spent_model_calls(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    return [nodes_of(make_agent([LOOK, LOOK, "I stop."], max_model_calls=2), "Go.")]


def spent_tool_calls(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    return [nodes_of(make_agent([LOOK, LOOK, "I stop."], max_tool_calls=1), "Go.")]


def long_history(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    past = [each for _ in range(40) for each in (HumanMessage("Well. " * 300), AIMessage("Noted. " * 100))]
    agent = make_agent(["Done."] * 41, context_window=8_000)
    return [nodes_of(agent, {"messages": [*past, HumanMessage("Go.")]})]


def failed_model(make_agent: MakeAgent, _: Path) -> list[list[str]]:
    agent = make_agent([Unsteady("Done.")])
    with pytest.raises(RuntimeError, match="no answer"):
        nodes_of(agent, "Hi")
    return [nodes_of(agent, None)]


STORIES: dict[Story, list[str]] = {
    hello: ["discover decide answer"],
    second_turn: ["discover decide answer", "discover decide answer"],
    skill_by_name: ["discover select load decide answer"],
    skill_by_mention: ["discover select load decide answer"],
    skill_of_the_caller: ["discover select load decide answer"],
    skill_of_the_model: ["discover decide select load decide answer"],
    skill_unloaded: ["discover decide select load decide answer", "discover select decide answer"],
    changed_skill: ["discover select load decide answer", "discover select load decide answer"],
    changed_skill_with_a_question: [
        "discover decide select load decide answer",
        "discover select",
        "approve load decide answer",
    ],
    allowed_call: ["discover decide gate act decide answer"],
    two_calls: ["discover decide gate act act decide answer"],
    skill_beside_a_call: ["discover decide select load gate act decide answer"],
    direct_result: ["discover decide gate act decide answer"],
    approved: ["discover decide gate", "approve act decide answer"],
    rejected: ["discover decide gate", "approve decide answer"],
    superseded: ["discover decide gate", "discover decide answer"],
    refused_by_policy: ["discover decide gate decide answer"],
    refused_again_and_again: ["discover decide gate decide gate decide gate answer"],
    rejected_again_and_again: [
        "discover decide gate",
        "approve decide gate",
        "approve decide gate",
        "approve answer",
    ],
    spent_model_calls: ["discover decide gate act decide answer"],
    spent_tool_calls: ["discover decide gate act decide answer"],
    long_history: ["discover summarize decide answer"],
    failed_model: ["decide answer"],
}
"""What is run, and the nodes of each invocation."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_turn_begins_with_discover_and_ends_with_answer(
    make_agent: MakeAgent, workspace: Path, story: Story
) -> None:
    assert [" ".join(nodes) for nodes in story(make_agent, workspace)] == STORIES[story]


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("node", ["discover", "decide", "answer"])
def test_a_client_stops_at_each_step_of_a_plain_turn_and_goes_on(
    make_agent: MakeAgent, when: str, node: str
) -> None:
    agent = make_agent(["Hello."])
    plain = ["discover", "decide", "answer"]
    at = plain.index(node) + (when == "interrupt_after")
    options: Any = {when: [node]}
    parts = agent.graph.stream({"messages": [HumanMessage("Hi")]}, agent.config, **options)
    assert [name for part in parts for name in part if name != "__interrupt__"] == plain[:at]
    assert agent.state.next == tuple(plain[at : at + 1])
    assert nodes_of(agent, None) == plain[at:]
    assert (agent.values["answer"], agent.values["usage"]["thread"]["model_calls"]) == ("Hello.", 1)
    assert agent.state.next == ()


def test_a_plain_turn_writes_five_checkpoints(make_agent: MakeAgent) -> None:
    """The input, its taking up, and one for each of the three nodes."""
    agent = make_agent(["One.", "Two."])
    for turn in (1, 2):
        agent.say("Hi")
        assert len([*agent.checkpointer.list(agent.config)]) == 5 * turn
        assert agent.values["usage"]["turn"] == turn
    assert agent.values["catalog"]["digest"]
    assert agent.values["usage"]["thread"]["model_calls"] == 2


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


def test_a_turn_whose_model_failed_is_a_turn_of_its_own(make_agent: MakeAgent) -> None:
    agent = make_agent([Unsteady("Two.")])
    with pytest.raises(RuntimeError, match="no answer"):
        agent.say("One?")
    assert agent.say("Two?")["answer"] == "Two."
    assert agent.values["usage"]["turn"] == 2
    assert events_of(agent) == [
        *(("thread.1", kind) for kind in ("run_started", "run_failed")),
        *(("thread.2", kind) for kind in ("run_started", "model_called", "run_ended")),
    ]


def test_a_model_call_that_is_made_again_is_of_the_same_turn(make_agent: MakeAgent) -> None:
    agent = make_agent([Unsteady("One.")])
    with pytest.raises(RuntimeError, match="no answer"):
        agent.say("One?")
    assert agent.run(None)["answer"] == "One."
    assert (agent.values["usage"]["turn"], agent.values["usage"]["thread"]["model_calls"]) == (1, 1)
    assert {run for run, _ in events_of(agent)} == {"thread.1"}
