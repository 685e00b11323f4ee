"""run_command with a skill: its files, HOME and packages are there; and a hint where it was left out."""

from pathlib import Path

import pytest

from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

SCRIPT = "import pathlib\nprint('hello from', pathlib.Path(__file__).parent.name)\n"


@pytest.fixture(autouse=True)
def skill(skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Alpha.", scripts__hello_py=SCRIPT)


def ran(make_agent: MakeAgent, **args: object) -> Agent:
    load = calls(call("load_skill", name="alpha"))
    agent = make_agent(
        [load, calls(call("run_command", **args)), "done"],
        require_approval_for=(),
        enable_run_command="on",
    )
    agent.say("go")
    if agent.state.interrupts:
        agent.answer({"type": "approve"})
    return agent


def told(agent: Agent) -> str:
    return agent.tool_messages("run_command")[0].text


def test_the_files_of_the_skill_are_there(make_agent: MakeAgent) -> None:
    agent = ran(
        make_agent,
        command='cat "$SKILL_DIR/SKILL.md" | head -2; python3 $SKILL_DIR/scripts/hello.py',
        skill="alpha",
    )
    assert "name: alpha" in told(agent)
    assert "hello from scripts" in told(agent)


def test_a_skill_that_is_not_loaded_is_refused(make_agent: MakeAgent) -> None:
    assert "There is no skill named 'beta'." in told(ran(make_agent, command="ls", skill="beta"))


@pytest.mark.parametrize(
    "command",
    [
        "python3 scripts/hello.py",
        "sh ~/.claude/skills/alpha/scripts/hello.py",
        "cd skills/alpha && node scripts/hello.py",
    ],
)
def test_who_leaves_the_skill_out_is_told_where_its_file_is(make_agent: MakeAgent, command: str) -> None:
    text = told(ran(make_agent, command=command))
    assert "scripts/hello.py is a file of the skill alpha, not of the workspace: use run_script" in text
