"""Rules that a host registers: what they may widen (a question), and what they may not (a refusal)."""

import re
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.services import Services
from skills_agent.nodes.judge import Judge
from skills_agent.skills.policy import Call, Opinion
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentState
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

WRITE = call("write_file", path="out.txt", content="x")
OTHER = call("write_file", path="other.txt", content="x")
POLICY = Path(__file__).resolve().parents[2] / "docs" / "policy.md"


def allow_all(call: Call) -> str:
    return "allow"


def guard_out(call: Call) -> Opinion | None:
    return Opinion("deny", "out.txt is closed today") if call.path == "out.txt" else None


def ask_all(call: Call) -> Opinion:
    return Opinion("ask", "Four eyes")


def verdicts_of(agent: Agent) -> list[tuple[str, str]]:
    return [(each["decision"], each["by"]) for each in agent.values["verdicts"].values()]


@pytest.mark.parametrize(
    ("approvers", "settings", "verdicts", "written"),
    [
        ([allow_all], {}, [("allow", "approver"), ("allow", "approver")], ["other.txt", "out.txt"]),
        ([allow_all, guard_out], {}, [("deny", "approver"), ("allow", "approver")], ["other.txt"]),
        ([guard_out], {}, [("deny", "approver"), ("ask", "policy")], []),
        ([ask_all], {"require_approval_for": ()}, [("ask", "approver")] * 2, []),
        ([ask_all], {"allowed_tools": "preapprove"}, [("ask", "approver")] * 2, []),
        ([allow_all], {"max_tool_calls": 1}, [("allow", "approver"), ("deny", "budget")], ["out.txt"]),
    ],
)
def test_the_strictest_opinion_counts_and_comes_before_what_was_said_in_advance(
    make_agent: MakeAgent, workspace: Path, approvers: Any, settings: Any, verdicts: Any, written: list[str]
) -> None:
    home = workspace.parent / "home"
    write_skill(home / ".agent" / "skills", "writer", "Writes.\nallowed-tools: Write")
    agent = make_agent([calls(WRITE, OTHER), "done"], approvers=approvers, **settings)
    agent.say("go", skills=["writer"])
    assert verdicts_of(agent)[-2:] == verdicts
    assert sorted(path.name for path in workspace.glob("*.txt")) == written
    reasons = [each["reason"] for each in agent.values["verdicts"].values() if each["decision"] == "deny"]
    assert all("closed today" in each for each in reasons if guard_out in approvers)


@pytest.mark.parametrize(("approver", "wanted"), [(ask_all, OTHER), (guard_out, WRITE)])
def test_no_grant_answers_one(make_agent: MakeAgent, workspace: Path, approver: Any, wanted: Any) -> None:
    first = call("write_file", path="first.txt", content="x")
    agent = make_agent([calls(first), calls(wanted), "done"], approvers=[approver])
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "thread"}})
    assert verdicts_of(agent) == [("ask" if approver is ask_all else "deny", "approver")]
    assert [path.name for path in workspace.glob("*.txt")] == ["first.txt"]


def test_an_approver_is_asked_about_what_a_person_edited(make_agent: MakeAgent, workspace: Path) -> None:
    agent = make_agent([calls(OTHER), "done"], approvers=[guard_out])
    agent.say("go")
    agent.answer({"type": "edit", "edited_action": {"name": "write_file", "args": WRITE["args"]}})
    assert not (workspace / "out.txt").exists()
    assert verdicts_of(agent) == [("deny", "approver")]


def test_yes_does_not_answer_an_approver(make_agent: MakeAgent) -> None:
    services = Services(make_agent([]).settings, approvers=[ask_all], yes={"write"})
    judge = Judge(services.policy, AgentState(), Context(), None, services.library.shared)
    assert judge.verdict(judge.call("write_file", WRITE["args"])).decision == "ask"


@pytest.mark.parametrize(
    ("wanted", "settings", "asked", "by"),
    [
        (WRITE, {"exclude_tools": ("Write",)}, {}, "policy"),
        (WRITE, {}, {"context": Context(exclude_tools=("write_file",))}, "caller"),
        (WRITE, {}, {"skills": ["careful"]}, "skill"),
        (call("write_file", path="out.txt"), {}, {}, "error"),
        (call("no_such"), {}, {}, "error"),
    ],
)
def test_no_approver_allows_what_was_refused_before(
    make_agent: MakeAgent, skills_dir: Path, workspace: Path, wanted: Any, settings: Any, asked: Any, by: str
) -> None:
    write_skill(skills_dir, "careful", "Careful.\ndisallowed-tools: Write")
    agent = make_agent([calls(wanted), "done"], approvers=[allow_all], **settings)
    agent.say("go", **asked)
    assert not (workspace / "out.txt").exists()
    assert verdicts_of(agent) == [("deny", by)]


def test_the_approver_in_the_documentation_does_what_it_says(
    make_agent: MakeAgent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = POLICY.read_text(encoding="utf-8").partition("## Approvers")[2]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert program is not None
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HOME", str(workspace.parent / "home"))
    names: dict[str, Any] = {}
    exec(program[1], names)
    wanted = [call("write_file", path=f"public/{name}.md", content="x") for name in ("report", "other")]
    agent = make_agent([calls(*wanted), "done"], approvers=[names["only_reports"]])
    assert agent.say("go")["answer"] == "done"
    assert [path.name for path in (workspace / "public").iterdir()] == ["report.md"]
