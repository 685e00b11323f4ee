"""What a person grants beyond one call: for whom, for what, and until when. And what exactly is approved."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from skills_agent.graph.settings import registry_of
from skills_agent.skills.errors import SkillError
from skills_agent.state.context import Context
from tests.agents import Agent, assert_asked_again, call, calls, write_skill
from tests.kit import MakeAgent

SCRIPT = "import sys\nopen('log.txt', 'a').write(sys.argv[1])\n"
EVIL = "open('log.txt', 'w').write('evil')\n"
LOAD = calls(call("load_skill", name="alpha"), call("load_skill", name="beta"))
APPROVE: Any = {"type": "approve"}
OTHER = "scripts/other.py"


def run(args: str, skill: str = "alpha", path: str = "scripts/run.py") -> dict[str, Any]:
    return calls(call("run_script", skill=skill, path=path, args=[args]))


def write(path: str) -> dict[str, Any]:
    return calls(call("write_file", path=path, content="x"))


def approve(scope: str, **more: Any) -> dict[str, Any]:
    return {"type": "approve", "grant": {"scope": scope, **more}}


def pattern(text: str) -> dict[str, Any]:
    return approve("pattern", pattern=text)


@pytest.fixture(autouse=True)
def skills(skills_dir: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        write_skill(skills_dir, name, "Appends.", scripts__run_py=SCRIPT, scripts__other_py=SCRIPT)


@pytest.fixture
def asked(make_agent: MakeAgent) -> Any:
    """Return a function that runs to the first question."""

    def make(*replies: Any, context: Context | None = None, load: Any = LOAD, **more: Any) -> Agent:
        agent = make_agent([*([load] if load else []), *replies, *["done"] * 3], **more)
        agent.say("go", context=context)
        return agent

    return make


def is_open(agent: Agent) -> bool:
    return bool(agent.state.interrupts)


def resume(agent: Agent, decision: Any = APPROVE) -> Any:
    (interrupt,) = agent.state.interrupts
    return Command(resume={interrupt.id: {"decisions": [decision]}})


def log(workspace: Path) -> str:
    return (workspace / "log.txt").read_text() if (workspace / "log.txt").exists() else ""


@pytest.mark.parametrize(
    ("wanted", "answer", "ran"),
    [
        ([run("a"), run("b", path=OTHER), run("c", "beta")], approve("skill"), "ab"),
        ([run("a"), run("a")], APPROVE, "a"),
        ([run("a"), run("a")], approve("call"), "a"),
        ([run("a"), run("b"), run("c", path=OTHER)], pattern("run_script(scripts/r*.py)"), "ab"),
        ([run("a"), run("b", "beta")], pattern("run_script(scripts/*.py)"), "a"),
        ([write("out/a"), write("out/b"), write("c")], pattern("Write(out/*)"), "ab"),
        ([write("a"), write("b"), run("c")], approve("thread"), "ab"),
        # a skill that is loaded later
        ([write("a"), calls(call("load_skill", name="gamma")), write("b")], approve("thread"), "a"),
    ],
)
def test_a_grant_serves_the_calls_of_its_scope_and_the_next_one_is_asked_about(
    asked: Any, workspace: Path, wanted: list[Any], answer: Any, ran: str
) -> None:
    agent = asked(*wanted)
    agent.answer(answer)
    assert is_open(agent)
    agent.answer({"type": "reject"})
    written = "".join(sorted(each.name for each in [*workspace.glob("[abc]"), *workspace.glob("out/*")]))
    assert log(workspace) + written == ran


@pytest.mark.parametrize(("on_change", "ran"), [("refresh", "a"), ("pin", "ab")])
def test_it_is_for_one_version(
    asked: Any, workspace: Path, skills_dir: Path, on_change: str, ran: str
) -> None:
    agent = asked(run("a"), "paused", run("b"), on_change=on_change)
    agent.answer(approve("skill"))
    (skills_dir / "alpha" / "scripts" / "run.py").write_text(EVIL)
    agent.say("on")
    assert is_open(agent) == (on_change == "refresh")
    assert log(workspace) == ran


@pytest.mark.parametrize("more", [{}, {"scope": "skill", "contents": {"alpha": "DIGEST"}}])
def test_a_grant_of_an_older_build_serves_nothing(asked: Any, more: dict[str, Any]) -> None:
    agent = asked(run("a"), "paused", run("b"))
    agent.answer(APPROVE)
    if more:
        more = {**more, "contents": {"alpha": agent.values["skills_loaded"]["alpha"]["digest"]}}
    old = {"id": "old", "scope": "thread", "tool": "run_script", "decision": "approve", "args": {},
           "message": "", "revoked": False, **more}  # fmt: skip
    agent.graph.update_own_state(agent.config, {"grants": {"old": old}}, as_node="answer")
    agent.say("on")
    assert is_open(agent)


UNFIT: list[dict[str, Any]] = [
    approve("always"),
    approve("pattern"),
    pattern(""),
    pattern("Ba*"),
    pattern("write_file"),
    pattern("run_script(scripts/other.py)"),
    approve("skill", pattern="run_script"),
    approve("thread", pattern="run_script"),
    approve("skill", skill="beta"),
    {"type": "approve", "grant": "thread"},
    {"type": "reject", "grant": {"scope": "thread"}},
]


def test_a_grant_that_does_not_fit_is_refused_and_the_question_stays_open(asked: Any) -> None:
    agent = asked(run("a"))
    for answer in UNFIT:
        agent.answer(answer)
        assert_asked_again(agent)
    assert not agent.values.get("grants")
    agent = asked(write("a.txt"), thread="a call that names no skill")
    agent.answer(approve("skill"))
    assert_asked_again(agent, "names no skill")


def until_act(agent: Agent, answer: Any) -> None:
    """Answer the question, and stop before the call runs."""
    agent.graph.invoke(answer, agent.config, interrupt_before=["act"])
    assert agent.state.next == ("act",)


def change(name: str) -> Callable[[Path], object]:
    return lambda skill: (skill / name).write_text(EVIL)


@pytest.mark.parametrize(
    ("changed", "when", "sandbox"),
    [
        (change("scripts/run.py"), "before the answer", "auto"),
        (change("scripts/run.py"), "before the run", "off"),
        (change("scripts/helper.py"), "in ainvoke", "auto"),
        (change("SKILL.md"), "before the run", "off"),
        (shutil.rmtree, "before the answer", "auto"),
        (shutil.rmtree, "before the run", "off"),
    ],
)
async def test_what_was_approved_runs_whatever_of_the_skill_changes(
    asked: Any, workspace: Path, skills_dir: Path, changed: Callable[[Path], object], when: str, sandbox: str
) -> None:
    agent = asked(run("a"), sandbox=sandbox)
    answer = resume(agent)
    if when == "before the answer":
        changed(skills_dir / "alpha")
        agent.run(answer)
    elif when == "before the run":
        until_act(agent, answer)
        changed(skills_dir / "alpha")
        agent.run(None)
    else:
        await agent.graph.ainvoke(answer, agent.config, interrupt_before=["act"])
        changed(skills_dir / "alpha")
        await agent.graph.ainvoke(None, agent.config)
    assert log(workspace) == "a"
    assert agent.tool_messages("run_script")[0].status == "success"


@pytest.mark.parametrize("when", ["before the answer", "before the run"])
def test_a_call_of_a_version_that_was_replaced_since_is_not_run(
    asked: Any, workspace: Path, skills_dir: Path, when: str
) -> None:
    agent = asked(run("a"))
    (skills_dir / "alpha" / "scripts" / "run.py").write_text(EVIL)
    ledger = agent.values["skills_loaded"]["alpha"]
    registry = registry_of(agent.settings, ())
    (ref,) = [each.ref for each in registry.refresh().skills if each.name == "alpha"]
    other = {**ledger, "digest": registry.load(ref).digest, "order": ledger["order"] + 1}
    replaced, answer = {"skills_loaded": {"alpha": other}}, resume(agent)
    if when == "before the answer":
        agent.graph.update_beside(agent.config, replaced)
        agent.run(answer)
    else:
        until_act(agent, answer)
        agent.graph.update_own_state(agent.config, replaced, as_node="approve")
        agent.run(None)
    assert log(workspace) == ""
    assert "not what was approved" in agent.tool_messages("run_script")[0].text


def test_no_grant_holds_for_a_version_that_the_person_did_not_see(asked: Any) -> None:
    agent = asked(run("a"))
    ledger = agent.values["skills_loaded"]["alpha"]
    other = {**ledger, "digest": "0" * 64, "order": ledger["order"] + 1}
    answer = resume(agent, approve("skill"))
    agent.graph.update_beside(agent.config, {"skills_loaded": {"alpha": other}})
    agent.run(answer)
    (grant,) = agent.values["grants"].values()
    assert (grant["scope"], grant["contents"]) == ("call", {})


def test_a_question_that_is_an_error_ends_the_run_first(make_agent: MakeAgent, workspace: Path) -> None:
    """cases.md 21."""
    wanted = calls(call("list_dir"), call("write_file", path="a.txt", content="x"))
    agent = make_agent([wanted, "done"], approval="fail")
    with pytest.raises(SkillError, match="needs an approval"):
        agent.say("go")
    assert not agent.tool_messages("list_dir")
    assert agent.state.next == ("gate",)
    asking = make_agent([wanted, "done"], checkpointer=agent.checkpointer)
    asking.run(None)
    asking.answer(APPROVE)
    assert (workspace / "a.txt").exists()


@pytest.mark.parametrize("approval", ["deny", "fail"])
def test_with_nobody_to_ask_a_changed_skill_stays(asked: Any, skills_dir: Path, approval: str) -> None:
    agent = asked("paused", approval=approval, on_change="ask")
    with (skills_dir / "alpha" / "SKILL.md").open("a") as file:
        file.write("\nmore\n")
    agent.say("on")
    assert not is_open(agent)
    assert "more" not in agent.values["skills_loaded"]["alpha"]["instructions"]


@pytest.mark.parametrize("path", ["../../../../pipe", "{workspace}/pipe", "scripts/none.py", "scripts"])
def test_nobody_looks_at_or_asks_about_what_is_no_script(asked: Any, workspace: Path, path: str) -> None:
    """A pipe would hold up whoever reads its first line; the gate looks before anybody approved."""
    os.mkfifo(workspace / "pipe")
    place = path.format(workspace=workspace)
    agent = asked(calls(call("run_script", skill="alpha", path=place)))
    assert not is_open(agent)
    (refused,) = agent.tool_messages("run_script")
    assert refused.status == "error"
    assert place in refused.text


def test_a_grant_for_one_source_never_serves_the_same_skill_of_another(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path, workspace: Path
) -> None:
    shutil.copytree(skills_dir / "alpha", tmp_path / "home/.agent/skills/alpha")
    unload = calls(call("unload_skill", name="alpha"))
    load_own = calls(call("load_skill", name="alpha@user"))
    agent = make_agent([load_own, run("a"), run("b"), unload, "done", run("c"), "done"])
    agent.say("go")
    agent.answer(approve("skill"))
    agent.say("/alpha@project")
    assert log(workspace) == "ab"
    assert agent.values["skills_loaded"]["alpha"]["source"] == "project"
    assert is_open(agent)


def test_a_granted_call_is_still_refused_where_policy_refuses_it(asked: Any, workspace: Path) -> None:
    agent = asked(write("a.txt"), "paused", write("b.txt"), load=None)
    agent.answer(approve("thread"))
    agent.say("on", context=Context(exclude_tools=("write_file",)))
    assert not (workspace / "b.txt").exists()
