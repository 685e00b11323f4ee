"""What is kept of hooks in a thread: answers that are revoked, versions that are gone, notes of a call."""

import shutil
from pathlib import Path

from langgraph.types import Command

from skills_agent.graph import Threads
from tests.agents import Agent, Notes, call, calls, write_skill
from tests.kit import MakeAgent

WRITE = calls(call("write_file", path="a.txt", content="x"))
LOAD = calls(call("load_skill", name="alpha"))
HOOKS = "hooks:\n  PreToolUse:\n    - hooks:\n        - command: exit 0"


def loaded(make_agent: MakeAgent, skills: Path) -> Agent:
    """Return an agent whose thread has a skill with a hook, which a person approved."""
    write_skill(skills, "alpha", f"Counts.\n{HOOKS}")
    agent = make_agent([LOAD, "one", WRITE, "two"], require_approval_for={"run"})
    agent.say("hi")
    agent.answer({"type": "approve"})
    return agent


def test_an_answer_that_is_revoked_holds_no_more(make_agent: MakeAgent, skills_dir: Path) -> None:
    agent = loaded(make_agent, skills_dir)
    Threads(agent.graph).revoke(agent.thread, *agent.values["grants"])
    agent.say("again")
    assert "nobody has approved its hooks" in agent.results("write_file")[0]


def test_hooks_whose_version_is_gone_have_denied(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path
) -> None:
    agent = loaded(make_agent, skills_dir)
    shutil.rmtree(skills_dir)
    for snapshots in (tmp_path / "home").rglob("snapshots"):
        shutil.rmtree(snapshots)
    agent.say("again")
    assert "a hook of the skill alpha denies it" in agent.results("write_file")[0]


def test_what_a_hook_says_is_said_once_where_the_tool_asks(make_agent: MakeAgent) -> None:
    notes = Notes()
    notes.question = "really?"
    own = {"PreToolUse": [{"hooks": [{"command": """echo '{"systemMessage": "mind it"}'"""}]}]}
    asked = calls(call("note", text="a"))
    agent = make_agent([asked, "done"], tools=[notes.tool], hooks_handlers=own, require_approval_for=())
    agent.say("hi")
    (question,) = agent.state.interrupts
    agent.run(Command(resume={question.id: "yes"}))
    assert agent.results("note")[0].count("mind it") == 1
