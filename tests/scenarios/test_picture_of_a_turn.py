"""Every turn is `discover`, ..., `decide`, ..., `answer`, as `stream` shows it and interrupts stop at it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.types import Command

from skills_agent.graph.audit.log import RunLog
from tests.agents import FREE, Agent, call, calls, write_skill
from tests.kit import MakeAgent

LOOK = calls(call("list_dir"))
WRITE = calls(call("write_file", path="a.txt", content="a"))
LOAD = calls(call("load_skill", name="alpha"))
UNKNOWN = calls(call("no_such_tool"))
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
REJECT: Any = Command(resume={"decisions": [{"type": "reject"}]})
CHANGE = "the skill changes on disk"


def nodes_of(agent: Agent, given: Any) -> list[str]:
    """Run what comes into a thread, and return its nodes as a client sees them."""
    given = {"messages": [HumanMessage(given)]} if isinstance(given, str) else given
    parts = agent.graph.stream(given, agent.config, stream_mode="updates")
    return [name for part in parts for name in part if name != "__interrupt__"]


def events_of(agent: Agent) -> list[tuple[str, str]]:
    """Return the run and the kind of each event in the record of a thread."""
    records, is_whole = RunLog(agent.settings.audit_folder).records(agent.thread)
    assert is_whole
    return [(record["run"], record["type"]) for record in records]


@tool(return_direct=True)
def report() -> str:
    """Report."""
    return "All is well."


TWO = calls(call("list_dir"), call("list_dir", path="./"))
BESIDE = calls(call("load_skill", name="alpha"), call("list_dir"))
WITH_ALPHA = {"messages": [HumanMessage("Go.")], "skills": ["alpha"]}
PAST = [each for _ in range(40) for each in (HumanMessage("Well. " * 300), AIMessage("Noted. " * 100))]
LONG = {"messages": [*PAST, HumanMessage("Go.")]}
PLAIN, NAMED = "discover decide answer", "discover select load decide answer"
LOADS, UNLOADS = "discover decide select load decide answer", "discover select decide answer"
CALLS, ASKS = "discover decide gate act decide answer", "discover decide gate"
DONE = "approve act decide answer"
REFUSES, AGAIN, STOPS = "discover decide gate decide answer", "approve decide gate", "approve answer"
THRICE = "discover decide gate decide gate decide gate answer"
ASKS_ANEW, CHANGED = "discover select", "approve load decide answer"
BOTH = "discover decide select load gate act decide answer"
WANTS_TWO, SUMS_UP = "discover decide gate act act decide answer", "discover summarize decide answer"
REFRESH, ASK, DENY = {"on_change": "refresh"}, {"on_change": "ask"}, {"approval": "deny"}
REPORT = calls(call("report"))
OUT_OF_CALLS, OUT_OF_TOOLS = {"max_model_calls": 2}, {"max_tool_calls": 1}
Story = tuple[list[Any], list[Any], dict[str, Any], list[str]]
STORIES: dict[str, Story] = {
    "hello": (["Hello."], ["Hi"], {}, [PLAIN]),
    "a second turn": (["One.", "Two."], ["Hi", "And?"], {}, [PLAIN, PLAIN]),
    "a skill by its name": (["Done."], ["/alpha now"], {}, [NAMED]),
    "a skill that is mentioned": (["Done."], ["Use $alpha."], {}, [NAMED]),
    "a skill of the caller": (["Done."], [WITH_ALPHA], {}, [NAMED]),
    "a skill of the model": ([LOAD, "Done."], ["Go."], {}, [LOADS]),
    "a skill unloaded": ([LOAD, "Done."], ["Go.", "/unload alpha"], {}, [LOADS, UNLOADS]),
    "a changed skill": (["One.", "Two."], [WITH_ALPHA, CHANGE, "On."], REFRESH, [NAMED, NAMED]),
    "a question of it": ([LOAD, "1", "2"], ["Go.", CHANGE, "On.", APPROVE], ASK, [LOADS, ASKS_ANEW, CHANGED]),
    "an allowed call": ([LOOK, "Done."], ["Look."], {}, [CALLS]),
    "two calls": ([TWO, "Done."], ["Look."], {}, [WANTS_TWO]),
    "a skill beside a call": ([BESIDE, "Done."], ["Go."], {}, [BOTH]),
    "a direct result": ([REPORT], ["Report."], {"tools": [report], **FREE}, [CALLS]),
    "approved": ([WRITE, "Done."], ["Write.", APPROVE], {}, [ASKS, DONE]),
    "rejected": ([WRITE, "I leave it."], ["Write.", REJECT], {}, [ASKS, "approve decide answer"]),
    "superseded": ([WRITE, "Done."], ["Write.", "Leave it."], {}, [ASKS, PLAIN]),
    "refused by policy": ([WRITE, "Not allowed."], ["Write."], DENY, [REFUSES]),
    "refused thrice": ([UNKNOWN] * 3 + ["I stop."], ["Go."], {}, [THRICE]),
    "rejected thrice": ([WRITE] * 3 + ["I stop."], ["Go.", *[REJECT] * 3], {}, [ASKS, AGAIN, AGAIN, STOPS]),
    "spent model calls": ([LOOK, LOOK, "I stop."], ["Go."], OUT_OF_CALLS, [CALLS]),
    "spent tool calls": ([LOOK, LOOK, "I stop."], ["Go."], OUT_OF_TOOLS, [CALLS]),
    "a long history": (["Done."] * 41, [LONG], {"context_window": 8_000}, [SUMS_UP]),
}  # fmt: skip
"""What the model says, what comes into the thread, settings, and the nodes of each invocation."""


@pytest.mark.parametrize("story", STORIES)
def test_each_turn_is_discover_to_answer(make_agent: MakeAgent, skills_dir: Path, story: str) -> None:
    replies, sent, settings, expected = STORIES[story]
    skill = write_skill(skills_dir, "alpha", "Does alpha.", "Old.") / "SKILL.md"
    agent = make_agent(replies, **settings)
    ran = []
    for each in sent:
        if each is CHANGE:
            skill.write_text(skill.read_text().replace("Old.", "New."))
        else:
            ran.append(" ".join(nodes_of(agent, each)))
    assert ran == expected
    if CHANGE in sent:
        assert agent.values["skills_loaded"]["alpha"]["instructions"].strip() == "New."
    if settings.get("tools"):
        assert (agent.values["answer"], agent.values["usage"]["thread"]["model_calls"]) == ("All is well.", 1)


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("node", ["discover", "decide", "answer"])
def test_a_client_stops_at_each_step_and_goes_on(make_agent: MakeAgent, when: str, node: str) -> None:
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
        usage = agent.values["usage"]
        assert (usage["turn"], usage["thread"]["model_calls"]) == (turn, turn)
    assert agent.values["catalog"]["digest"]


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


@pytest.mark.parametrize("is_same", [False, True])
def test_a_failed_turn_goes_on_or_is_a_turn_of_its_own(make_agent: MakeAgent, is_same: bool) -> None:
    agent = make_agent([Unsteady("Fine.")])
    with pytest.raises(RuntimeError, match="no answer"):
        agent.say("One?")
    assert nodes_of(agent, None if is_same else "Two?") == PLAIN.split()[is_same:]
    usage, turns = agent.values["usage"], 1 if is_same else 2
    assert (agent.values["answer"], usage["turn"], usage["thread"]["model_calls"]) == ("Fine.", turns, 1)
    assert {run for run, _ in events_of(agent)} == {f"thread.{turn}" for turn in range(1, turns + 1)}
    if not is_same:
        kinds = ["run_started", "run_failed", "run_started", "model_called", "run_ended"]
        assert [kind for _, kind in events_of(agent)] == kinds
