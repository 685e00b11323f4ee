"""An effect takes place once: what is done is not done again, and what is unknown is asked about."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from skills_agent.graph.machine import make_runner
from skills_agent.graph.threads.backends import JOURNAL_FILE
from skills_agent.graph.threads.journals import FileJournal
from skills_agent.graph.user_folders import state_folder
from skills_agent.skills.policy.verdict import ApprovalNeededError
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, ScriptRunner
from tests.agents import FREE, Agent, CutOff, Notes, assert_asked_again, call, calls, write_skill
from tests.forked import run_forked
from tests.kit import MakeAgent

RUN = call("run_script", skill="alpha", path="scripts/run.py", args=["x"])
NOTE = call("note", text="n")
GO: Any = {"messages": [HumanMessage("go")]}
APPROVE: dict[str, Any] = {"type": "approve"}
SCRIPT = "import sys\nopen('log.txt','a').write(sys.argv[1])\n"


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def noting(make_agent: MakeAgent, notes: Notes) -> Callable[..., Agent]:
    """Return what makes an agent that notes without a question: scripts alone are asked about."""

    def make(*replies: Any, **more: Any) -> Agent:
        return make_agent([*replies, "done"], tools=[notes.tool], require_approval_for={"run"}, **more)

    return make


def cut(agent: Agent, notes: Notes, act: Callable[[], object]) -> Agent:
    """Cut off a run after its effect took place, before it was told."""
    notes.crashes = 1
    with pytest.raises(CutOff):
        act()
    return agent


@pytest.fixture
def cut_off(noting: Any, notes: Notes) -> Agent:
    agent: Agent = noting(calls(NOTE))
    return cut(agent, notes, lambda: agent.say("go"))


def test_an_unknown_outcome_is_asked_about_in_the_form_of_an_approval(cut_off: Agent, notes: Notes) -> None:
    cut_off.run(None)
    (question,) = cut_off.state.interrupts
    (request,) = question.value["action_requests"]
    assert (request["name"], request["args"]) == ("note", {"text": "n"})
    first, *_, last = request["description"].split("\n\n")
    started = datetime.fromisoformat(request["outcome_unknown"]["started"]).astimezone()
    assert first == (
        f"**Outcome unknown:** note was started at {started:%H:%M %Z} (attempt 1) and cut off before its "
        "result was kept. Whether it did its work is unknown."
    )
    assert "Approve: run it again." in last
    assert request["outcome_unknown"]["attempt"] == 1
    assert question.value["review_configs"] == [
        {"action_name": "note", "allowed_decisions": ["approve", "reject"]}
    ]
    for decisions in (
        [{"type": "edit", "edited_action": NOTE}],
        [{**APPROVE, "grant": {"scope": "thread"}}],
        [APPROVE, {"type": "reject"}],
        [],
    ):
        cut_off.answer(*decisions)
        assert_asked_again(cut_off)
    assert notes.taken == ["n"]


def test_an_attempt_that_is_cut_off_again_is_asked_about_again(cut_off: Agent, notes: Notes) -> None:
    """One approval is one attempt."""
    cut_off.run(None)
    cut(cut_off, notes, lambda: cut_off.answer(APPROVE))
    cut_off.run(None)
    assert "attempt 2" in cut_off.question
    cut_off.answer({"type": "reject"})
    assert notes.taken == ["n", "n"]


@pytest.mark.parametrize("approval", ["deny", "fail"])
def test_where_nobody_is_asked_it_is_not_run_again(
    cut_off: Agent, noting: Any, notes: Notes, approval: str
) -> None:
    later = noting(calls(NOTE), checkpointer=cut_off.checkpointer, approval=approval)
    if approval == "fail":
        with pytest.raises(ApprovalNeededError, match="unknown"):
            later.run(None)
    else:
        later.run(None)
        assert "nobody is asked here" in later.tool_messages("note")[0].text
    assert notes.taken == ["n"]


class CutOffRunner:
    """A runner whose first script runs, and is cut off before its result is told."""

    def __init__(self, runner: ScriptRunner) -> None:
        self.preflight = runner.preflight
        self._run = runner.run
        self._crashes = 1

    def run(self, request: ScriptRequest) -> ScriptResult:
        result = self._run(request)
        self._crashes -= 1
        if self._crashes == 0:
            raise CutOff
        return result


@pytest.mark.parametrize("declared", ["scripts/other.py scripts/run.py", "my-scripts/run.py"])
def test_a_script_that_is_declared_idempotent_runs_again_without_a_question(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path, declared: str
) -> None:
    description = f"Appends.\nmetadata:\n  idempotent: {declared}"
    write_skill(skills_dir, "alpha", description, scripts__run_py=SCRIPT)
    replies = [calls(call("load_skill", name="alpha"), RUN), "done"]
    runner = CutOffRunner(make_runner(make_agent([]).settings, ()))
    agent = make_agent(replies, parts={"runner": runner}, **FREE)
    with pytest.raises(CutOff):
        agent.say("go")
    agent.run(None)
    is_declared = "scripts/run.py" in declared.split()
    assert bool(agent.state.interrupts) != is_declared
    assert (workspace / "log.txt").read_text() == ("xx" if is_declared else "x")
    if is_declared:
        assert "declares it idempotent" in agent.tool_messages("run_script")[0].text


def test_the_same_call_again_is_another_effect(noting: Any, notes: Notes) -> None:
    agent = noting(calls(NOTE, NOTE), calls(NOTE), "done", calls(NOTE))
    agent.say("go")
    agent.say("once more")
    assert notes.taken == ["n"] * 4
    assert len(agent.tool_messages("note")) == 4


def test_a_new_message_is_told_what_a_superseded_call_did(noting: Any, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Appends.", scripts__run_py=SCRIPT)
    agent = noting(calls(call("load_skill", name="alpha"), NOTE, RUN))
    agent.say("go")
    assert len(agent.state.interrupts) == 1
    agent.say("never mind")
    assert agent.tool_messages("note")[0].text == "noted n"
    assert "superseded" in agent.tool_messages("run_script")[0].text


def test_an_unknown_outcome_stays_unknown_after_a_new_message_and_is_asked_about_when_it_is_wanted_again(
    noting: Any, notes: Notes
) -> None:
    agent = noting(calls(NOTE), calls(NOTE))
    cut(agent, notes, lambda: agent.say("go"))
    agent.say("do it")
    assert "Outcome unknown" in agent.tool_messages("note")[0].text
    assert len(agent.state.interrupts) == 1
    assert notes.taken == ["n"]
    agent.answer(APPROVE)
    assert notes.taken == ["n", "n"]


@pytest.fixture
def wanted_again(make_agent: MakeAgent, notes: Notes) -> Agent:
    """Return an agent whose approved effect was cut off, and whose model asks for it again."""
    agent = make_agent([calls(NOTE), calls(NOTE), "done"], tools=[notes.tool])
    agent.say("go")
    cut(agent, notes, lambda: agent.answer(APPROVE))
    agent.say("do it")
    return agent


def test_an_effect_that_is_wanted_again_is_asked_about_once(wanted_again: Agent, notes: Notes) -> None:
    """The question is that of an approval, and says first that an earlier attempt's outcome is unknown."""
    (request,) = wanted_again.asked
    first = request["description"].partition("\n\n")[0]
    assert first.startswith("**Outcome unknown:** note was started at ")
    assert "To approve this call is to run it again." in first
    wanted_again.answer(APPROVE)
    assert notes.taken == ["n", "n"]
    assert wanted_again.values["answer"] == "done"
    assert "A person had it run again" in wanted_again.tool_messages("note")[-1].text


def test_an_effect_that_is_wanted_again_and_rejected_stays_unknown(wanted_again: Agent, notes: Notes) -> None:
    wanted_again.answer({"type": "reject", "message": "It is there."})
    assert notes.taken == ["n"]
    told = wanted_again.tool_messages("note")[-1].text
    assert told.startswith("Outcome unknown: note was started at ")
    assert 'A person decided not to run it again, and said: "It is there."' in told


def test_an_approval_that_told_of_one_attempt_is_none_for_the_next(wanted_again: Agent, notes: Notes) -> None:
    cut(wanted_again, notes, lambda: wanted_again.answer(APPROVE))
    wanted_again.run(None)
    assert len(wanted_again.state.interrupts) == 1
    assert notes.taken == ["n", "n"]


def replay(agent: Agent) -> Any:
    """Go on from the newest checkpoint before the effect, as LangGraph's own replay does."""
    before = next(each for each in agent.graph.get_state_history(agent.config) if each.next == ("act",))
    return agent.graph.invoke(None, before.config)


def test_a_replay_from_before_the_call_takes_its_result_and_not_its_effect(noting: Any, notes: Notes) -> None:
    agent = noting(calls(NOTE))
    agent.say("go")
    assert replay(agent)["answer"] == "done"
    assert notes.taken == ["n"]
    ended = agent.events("call_started", "call_ended")
    assert [each["type"] for each in ended] == ["call_started", "call_ended", "call_ended"]
    assert ended[-1]["reused"]


@pytest.mark.parametrize("saver", ["sqlite"], indirect=True)
def test_a_replay_from_before_the_call_keeps_what_a_person_said_of_it(
    noting: Any, notes: Notes, saver: Any
) -> None:
    agent = noting(calls(NOTE), checkpointer=saver)
    cut(agent, notes, lambda: agent.say("go"))
    # The checkpoint that it started from was not stored, as it happens with durability `async`.
    journal = FileJournal(state_folder(agent.settings) / JOURNAL_FILE)
    (call_id,) = agent.values["verdicts"]
    entry = journal.get("thread", call_id)
    assert entry is not None
    journal.put(replace(entry, checkpoint="lost"))
    agent.run(None)
    agent.answer({"type": "reject"})
    assert (replay(agent)["answer"], notes.taken) == ("done", ["n"])
    assert "Outcome unknown" in agent.tool_messages("note")[-1].text


def test_a_verdict_holds_for_the_arguments_that_were_judged(noting: Any, notes: Notes) -> None:
    agent = noting(calls(NOTE))
    agent.graph.interrupt_before_nodes = ["act"]
    agent.say("go")
    ((call_id, verdict),) = agent.values["verdicts"].items()
    assert (verdict["decision"], verdict["by"]) == ("allow", "policy")
    edited = {call_id: {**verdict, "args": {"text": "something else"}}}
    agent.graph.interrupt_before_nodes = []
    agent.graph.update_own_state(agent.config, {"verdicts": edited}, as_node="gate")
    agent.run(None)
    (refused,) = agent.tool_messages("note")
    assert "is confirmed here" in refused.text
    assert notes.taken == []


def test_a_thread_that_is_not_kept_has_no_journal(noting: Any, notes: Notes) -> None:
    agent = noting(calls(NOTE))
    agent.graph.copy({"checkpointer": None}).invoke(GO)
    assert notes.taken == ["n"]
    assert not (state_folder(agent.settings) / JOURNAL_FILE).exists()


@pytest.mark.parametrize("then", ["memory", "sqlite"])
def test_memory_is_over_with_its_saver(
    make_agent: MakeAgent, notes: Notes, tmp_path: Path, then: str
) -> None:
    """Programs name their thread "1" each time they are run: another one of that name asks about nothing."""
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as on_disk:
        for saver in (InMemorySaver(), on_disk if then == "sqlite" else InMemorySaver()):
            agent = make_agent([calls(NOTE), "done"], tools=[notes.tool], checkpointer=saver)
            agent.say("go")
            assert agent.answer(APPROVE)["answer"] == "done"
    assert notes.taken == ["n", "n"]


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_file_that_was_written_in_a_lost_run_is_no_reason_against_its_own_call(
    make_agent: MakeAgent, workspace: Path, tmp_path: Path, decision: str
) -> None:
    """Killed after its approval, before anything of it is stored: the file differs from what was asked."""

    def kill(_: Any) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    def run(asked: Any, reply: Any) -> Any:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            write = call("write_file", path="notes.txt", content="n")
            agent = make_agent([calls(write), reply, "done"], checkpointer=saver)
            if isinstance(asked, str):
                asked = Command(resume={agent.state.interrupts[0].id: {"decisions": [{"type": asked}]}})
            agent.graph.invoke(asked, agent.config, durability="exit")
            return agent.tool_messages("write_file")

    run(GO, "")
    assert run_forked(run, "approve", kill) == -signal.SIGKILL
    assert (workspace / "notes.txt").read_text() == "n"
    (told,) = run(decision, "done")
    if decision == "approve":
        assert told.text == "Wrote notes.txt: 1 bytes, 1 line."
    else:
        assert "in a run that was cut off. A person rejected it afterwards." in told.text


@pytest.mark.parametrize("says", [True, False])
async def test_what_a_cancelled_coroutine_returns_all_the_same_is_its_result(
    make_agent: MakeAgent, says: bool
) -> None:
    """Where it says nothing, the outcome is unknown. The run that goes on tells the end of the call."""
    began, taken = asyncio.Event(), []

    @tool
    async def send(text: str) -> str:
        """Send."""
        taken.append(text)
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if says:
                return "sent nothing: cancelled"
            raise
        return "never"

    send.metadata = {"risk": "write"}
    agent = make_agent([calls(call("send", text="x")), "done"], tools=[send], **FREE)
    run = asyncio.ensure_future(agent.graph.ainvoke(GO, agent.config))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    told = [each["type"] for each in agent.events() if each["node"] == "act"]
    assert told == ["call_started"]
    await agent.graph.ainvoke(None, agent.config)
    if says:
        assert len(agent.events("call_started", "call_ended")) == 2
        assert [each.text for each in agent.tool_messages("send")] == ["sent nothing: cancelled"]
    else:
        agent.answer({"type": "reject"})
    assert (agent.values["answer"], taken) == ("done", ["x"])
