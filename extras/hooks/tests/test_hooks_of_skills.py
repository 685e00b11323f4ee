"""Hooks of a skill: who lets them run, how long they live, and what is kept of them in a thread."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from skills_agent.graph import Subagent, Threads, build_graph
from skills_agent.skills.policy.verdict import ApprovalNeededError
from skills_agent.state.context import Context
from tests.agents import Agent, CutOff, Notes, call, calls, write_skill
from tests.forked import run_forked
from tests.kit import MakeAgent

WRITE = calls(call("write_file", path="a.txt", content="x"))
OTHER = calls(call("write_file", path="b.txt", content="x"))
LOAD = calls(call("load_skill", name="alpha"))
UNLOAD = calls(call("unload_skill", name="alpha"))
APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}
ASKED: dict[str, Any] = {"require_approval_for": frozenset({"run"})}
Turn = Callable[..., Agent]
DENY = "echo no >&2; exit 2"


def write_hooked(skills: Path, command: str, more: str = "", **files: str) -> Path:
    """Write the skill alpha with one hook."""
    handler = f"type: command\n          command: {json.dumps(command)}{more}"
    hooks = f"hooks:\n  PreToolUse:\n    - matcher: Write|Edit\n      hooks:\n        - {handler}"
    return write_skill(skills, "alpha", f"Counts.\n{hooks}", **files)


def results(agent: Agent, tool: str = "write_file") -> list[str]:
    return agent.results(tool)


@pytest.fixture
def turn(make_agent: MakeAgent, skills_dir: Path) -> Turn:
    """Return a function that writes alpha with a hook before writes, and runs a turn that loads it first."""

    def run(command: str, *replies: Any, more: str = "", **settings: Any) -> Agent:
        write_hooked(skills_dir, command, more)
        script = [LOAD, *(replies or [WRITE]), "done"]
        agent = make_agent(script, **{"require_approval_for": (), **settings})
        agent.say("hi")
        return agent

    return run


def test_a_hook_holds_while_its_skill_is_loaded(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_hooked(skills_dir, DENY)
    agent = make_agent([WRITE, LOAD, WRITE, UNLOAD, WRITE, "done"], **ASKED)
    agent.say("hi")
    assert "PreToolUse Write|Edit -> echo no" in agent.question
    agent.answer(APPROVE)
    assert [each["skill"] for each in agent.values["grants"].values()] == ["alpha"]
    first, second, third = results(agent)
    assert second == "Not run: a hook of the skill alpha denies it: no."
    assert "Not run" not in first + third


def test_a_person_who_rejects_turns_the_hooks_off_in_the_thread(turn: Turn) -> None:
    agent = turn(DENY, WRITE, UNLOAD, LOAD, **ASKED)
    agent.answer(REJECT)
    assert not agent.state.interrupts
    assert "The hooks of alpha do not run" in results(agent, "load_skill")[0]
    assert "Not run" not in results(agent)[0]


@pytest.mark.parametrize("how", ["deny", "fail", "no checkpointer"])
def test_what_nobody_has_approved_lets_no_call_pass(
    make_agent: MakeAgent, skills_dir: Path, workspace: Path, how: str
) -> None:
    write_hooked(skills_dir, "exit 0")
    agent = make_agent([LOAD, WRITE, "done"], approval="ask" if " " in how else how, **ASKED)
    if how == "fail":
        with pytest.raises(ApprovalNeededError, match="a hook of alpha"):
            agent.say("hi")
        return
    graph = agent.graph if how == "deny" else build_graph(agent.settings, model=agent.model).compile()
    state = graph.invoke({"messages": [HumanMessage("hi")]}, agent.config)
    assert not (workspace / "a.txt").exists()
    assert "nobody has approved its hooks here" in str(state["messages"][-2].text)


def test_the_answer_holds_for_that_content_of_the_skill_and_no_other(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    skill = write_hooked(skills_dir, "exit 0")
    agent = make_agent([LOAD, "one", UNLOAD, LOAD, "two", UNLOAD, LOAD, "three"], **ASKED)
    agent.say("hi")
    agent.answer(APPROVE)
    agent.say("again")
    assert not agent.state.interrupts
    (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text().replace("exit 0", "exit 2"))
    agent.say("again")
    assert "-> exit 2" in agent.question


def test_a_trusted_skill_is_not_asked_about(make_agent: MakeAgent, tmp_path: Path) -> None:
    write_hooked(tmp_path / "home" / ".agent" / "skills", DENY)
    agent = make_agent([LOAD, WRITE, "done"], **ASKED)
    agent.say("hi")
    assert "denies it: no" in results(agent)[0]


def test_the_hooks_are_those_of_the_version_that_was_loaded(make_agent: MakeAgent, skills_dir: Path) -> None:
    check = "import sys\nprint('as loaded', file=sys.stderr)\nsys.exit(2)"
    skill = write_hooked(skills_dir, "scripts/check.py", scripts__check_py=check)
    agent = make_agent([LOAD, "one", WRITE, "two"], require_approval_for=())
    agent.say("hi")
    (skill / "scripts" / "check.py").write_text("print('changed')")
    (skill / "SKILL.md").write_text("---\nname: alpha\ndescription: Counts.\n---\n")
    agent.say("again")
    assert results(agent) == ["Not run: a hook of the skill alpha denies it: as loaded."]


def test_what_a_hook_changes_is_dropped(turn: Turn, workspace: Path) -> None:
    agent = turn("touch made.txt; ls >&2; exit 2", sandbox="require")
    assert "made.txt" in results(agent)[0]
    assert not (workspace / "made.txt").exists()


def test_a_hook_that_does_not_end_denies(turn: Turn) -> None:
    agent = turn("sleep 60", more="\n          timeout: 0.5")
    assert "was ended (time)" in results(agent)[0]


def test_a_skill_cannot_keep_itself_loaded(make_agent: MakeAgent, skills_dir: Path) -> None:
    hooks = "hooks:\n  PreToolUse:\n    - hooks:\n        - command: exit 2"
    write_skill(skills_dir, "alpha", f"Counts.\n{hooks}")
    agent = make_agent([LOAD, UNLOAD, WRITE, "done"], require_approval_for=())
    agent.say("hi")
    assert "Not run" not in results(agent, "unload_skill")[0] + results(agent)[0]


def test_runs_count_for_the_budget_of_scripts_and_what_is_over_it_denies(turn: Turn) -> None:
    agent = turn("exit 0", WRITE, OTHER, max_script_runs=1)
    assert agent.values["usage"]["this_turn"]["script_runs"] == 1
    assert "budget of 1 script runs" in results(agent)[1]


@pytest.mark.parametrize("by", ["operator", "caller"])
def test_policy_that_denies_scripts_denies_hooks_as_well(
    make_agent: MakeAgent, skills_dir: Path, by: str
) -> None:
    write_hooked(skills_dir, "exit 0")
    excluded: dict[str, Any] = {"exclude_tools": ("Bash",)}
    agent = make_agent(
        [LOAD, WRITE, "done"], require_approval_for=(), **(excluded if by == "operator" else {})
    )
    agent.say("hi", context=Context(**(excluded if by == "caller" else {})))
    assert "could not be started" in results(agent)[0]


def test_a_hook_that_allows_skips_no_question(turn: Turn) -> None:
    allow = """echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'"""
    agent = turn(allow, require_approval_for={"write"})
    assert agent.asked[0]["name"] == "write_file"


def test_once_is_once_for_a_load(turn: Turn) -> None:
    agent = turn(DENY, WRITE, OTHER, UNLOAD, LOAD, OTHER, more="\n          once: true")
    assert ["Not run" in each for each in results(agent)] == [True, False, True]


def test_an_answer_that_is_revoked_holds_no_more(turn: Turn) -> None:
    agent = turn("exit 0", "one", WRITE, **ASKED)
    agent.answer(APPROVE)
    Threads(agent.graph).revoke(agent.thread, *agent.values["grants"])
    agent.say("again")
    assert "nobody has approved its hooks" in results(agent)[0]


def test_hooks_whose_version_is_gone_have_denied(turn: Turn, skills_dir: Path, tmp_path: Path) -> None:
    agent = turn("exit 0", "one", WRITE)
    for folder in (skills_dir, *(tmp_path / "home").rglob("snapshots")):
        shutil.rmtree(folder)
    agent.say("again")
    assert "a hook of the skill alpha denies it" in results(agent)[0]


def test_what_a_hook_says_is_said_once_where_the_tool_asks(make_agent: MakeAgent) -> None:
    notes = Notes()
    notes.question = "really?"
    own = {"PreToolUse": [{"hooks": [{"command": """echo '{"systemMessage": "mind it"}'"""}]}]}
    note = calls(call("note", text="a"))
    agent = make_agent([note, "done"], tools=[notes.tool], hooks_handlers=own, require_approval_for=())
    agent.say("hi")
    (question,) = agent.state.interrupts
    agent.run(Command(resume={question.id: "yes"}))
    assert results(agent, "note")[0].count("mind it") == 1


@contextmanager
def kept(make_agent: MakeAgent, folder: Path, command: str, tool: str = "write_file") -> Iterator[Agent]:
    asked = WRITE if tool == "write_file" else calls(call(tool, path="."))
    hooks = {"PreToolUse": [{"hooks": [{"command": command}]}]}
    with SqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        yield make_agent(
            [asked, "done"], checkpointer=saver, require_approval_for=(), hooks_handlers=hooks, sandbox="off"
        )


@pytest.mark.parametrize("tool", ["write_file", "list_dir"])
def test_a_hook_that_is_killed_with_the_agent_does_not_run_twice(
    make_agent: MakeAgent, tmp_path: Path, workspace: Path, tool: str
) -> None:
    ran = tmp_path / "ran"
    command = f"echo x >> {ran}; kill -9 $(cat {tmp_path}/agent); sleep 60"

    def run() -> None:
        (tmp_path / "agent").write_text(str(os.getpid()))
        with kept(make_agent, tmp_path, command, tool) as agent:
            agent.say("hi")

    assert run_forked(run) == -signal.SIGKILL
    with kept(make_agent, tmp_path, command, tool) as agent:
        state = agent.run(None)
        assert state["answer"] == "done"
        assert "cut off with the agent" in results(agent, tool)[0]
    assert ran.read_text() == "x\n"
    assert not (workspace / "a.txt").exists()


@pytest.mark.parametrize("risk", ["read", "write"])
def test_a_decision_is_not_made_again_where_the_journal_has_it(
    make_agent: MakeAgent, tmp_path: Path, risk: str
) -> None:
    notes, ran = Notes(), tmp_path / "ran"
    notes.tool.metadata, notes.crashes = {"risk": risk}, 1
    hooks = {"PreToolUse": [{"hooks": [{"command": f"echo x >> {ran}"}]}]}
    settings: Any = {"hooks_handlers": hooks, "sandbox": "off", "require_approval_for": ()}
    agent = make_agent([calls(call("note", text="a")), "done"], tools=[notes.tool], **settings)
    with pytest.raises(CutOff):
        agent.say("hi")
    agent.run(None)
    if risk == "write":
        agent.answer(APPROVE)
    assert notes.taken == ["a", "a"]
    assert ran.read_text() == "x\n"


class AskedTwice:
    """A model that does a task itself, where it is asked for one, and gives it to a subagent before."""

    def __init__(self, tool: dict[str, Any]) -> None:
        self.replies = {
            "hi": [LOAD, calls(call("task", agent="helper", task="do it")), "done"],
            "do it": [tool, "did"],
        }

    def __call__(self, messages: Any) -> Any:
        asked = next(str(each.content) for each in messages if isinstance(each, HumanMessage))
        return self.replies["do it" if "do it" in asked else "hi"].pop(0)


@pytest.mark.parametrize("own", [False, True])
def test_a_hook_judges_the_calls_of_forks_and_their_tasks(
    make_agent: MakeAgent, skills_dir: Path, workspace: Path, own: bool
) -> None:
    write_hooked(skills_dir, DENY)
    model = AskedTwice(WRITE)
    hooks = {"PreToolUse": [{"matcher": "task", "hooks": [{"command": "exit 2"}]}]} if own else {}
    helper = Subagent(name="helper", description="Helps.")
    settings: Any = {"require_approval_for": (), "hooks_handlers": hooks}
    state = make_agent([model] * 9, parts={"subagents": [helper]}, **settings).say("hi")
    (task,) = (each for each in state["messages"] if each.name == "task")
    assert not (workspace / "a.txt").exists()
    assert ("denies it" in str(task.text)) == own
