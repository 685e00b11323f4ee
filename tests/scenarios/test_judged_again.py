"""What was judged in one run and runs in another: `act` judges again, by what holds then."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from skills_agent.graph.threads.threads import Threads
from skills_agent.state.context import Context
from tests.agents import FREE, Agent, call, calls, write_skill
from tests.kit import MakeAgent

WRITE = calls({**call("write_file", path="canary", content="x"), "id": "call-w"})
SCRIPT = "import os\nopen('log.txt', 'a').write(os.environ.get('TOKEN', 'none') + ' ')\n"
RUN = calls(call("run_script", skill="alpha", path="scripts/run.py"))
LOAD = calls(call("load_skill", name="alpha"))


@pytest.fixture
def approved(make_agent: MakeAgent) -> Agent:
    """Return an agent with a call that ann approved, and that is not run yet."""
    agent = make_agent([WRITE, "done"])
    agent.say("go", context=Context(user_id="ann"))
    answer: Any = Command(resume={"decisions": [{"type": "approve"}]})
    agent.graph.invoke(answer, agent.config, context=Context(user_id="ann"), interrupt_before=["act"])
    return agent


def test_an_approval_of_one_user_does_not_run_for_another(approved: Agent, workspace: Path) -> None:
    approved.run(None, Context(user_id="bob"))
    assert not (workspace / "canary").exists()
    assert "confirmed" in approved.tool_messages("write_file")[0].text


def test_what_policy_refuses_by_now_is_not_run_for_an_approval_of_before(
    make_agent: MakeAgent, approved: Agent, workspace: Path
) -> None:
    excluded = ("write_file",)
    later = make_agent(approved.model, checkpointer=approved.checkpointer, exclude_tools=excluded)
    later.run(None, Context(user_id="ann"))
    assert not (workspace / "canary").exists()
    assert "turned off" in later.tool_messages("write_file")[0].text


def test_a_skill_that_the_agent_loaded_itself_is_trusted_and_stays_so_in_a_fork(
    make_agent: MakeAgent, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "the-secret-token")
    write_skill(tmp_path / "given", "alpha", "Runs.", scripts__run_py=SCRIPT)
    agent = make_agent(
        [LOAD, RUN, "done", RUN, "done"],
        skills_dirs=(tmp_path / "given",), script_secrets={"alpha": ("TOKEN",)}, sandbox="off",
    )  # fmt: skip
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})
    assert (workspace / "log.txt").read_text() == "the-secret-token "
    threads = Threads(agent.graph)
    fork = threads.fork("thread", threads.steps("thread")[-1].number, new="copy")
    assert fork.status == "done"
    agent.config = {"configurable": {"thread_id": "copy"}}
    agent.say("again")
    assert agent.state.interrupts == ()
    assert (workspace / "log.txt").read_text() == "the-secret-token the-secret-token "


def test_calls_of_one_step_share_the_budget_in_act(make_agent: MakeAgent, workspace: Path) -> None:
    """The gate allowed them all, under another limit; each is judged beside the others."""
    writes = [call("write_file", path=f"f{number}", content="x") for number in range(4)]
    agent = make_agent([calls(*writes), "done"], max_tool_calls=4, **FREE)
    agent.graph.invoke({"messages": [HumanMessage("go")]}, agent.config, interrupt_before=["act"])
    make_agent(agent.model, checkpointer=agent.checkpointer, max_tool_calls=2, **FREE).run(None)
    assert sorted(path.name for path in workspace.glob("f*")) == ["f0", "f1"]
