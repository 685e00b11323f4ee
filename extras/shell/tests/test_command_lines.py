"""Command lines are judged by the commands in them: in questions, grants, skills and requests."""

from pathlib import Path
from typing import Any

import pytest

from extras.shell.tests.lines import FREE, YES, line
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent

SHELL: dict[str, Any] = {"enable_run_command": "on", "sandbox": "off"}
LOAD = calls(call("load_skill", name="alpha"))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("cd src && git log -3 | head; rm x", "A line of commands, in the workspace: `cd src`, `git log`, `"),
        ("f() { rm x; }; f", "It cannot be told which commands this line runs: read all of it."),
    ],
)
def test_the_question_names_the_commands_of_a_line(make_agent: MakeAgent, command: str, says: str) -> None:
    agent = make_agent([line(command), "done"], **SHELL)
    agent.say("go")
    assert says in agent.question


def test_a_grant_of_several_entries_serves_lines_of_these_commands_and_no_others(
    make_agent: MakeAgent, workspace: Path
) -> None:
    lines = [line(each) for each in ("touch a && mkdir b", "mkdir c; touch d", "touch e; rm a")]
    agent = make_agent([*lines, "done"], **SHELL)
    agent.say("go")
    pattern = "run_command(touch:*) run_command(mkdir:*)"
    agent.answer({"type": "approve", "grant": {"scope": "pattern", "pattern": pattern}})
    assert (workspace / "d").exists()
    assert "`rm a`" in agent.question
    assert not (workspace / "e").exists()


@pytest.fixture
def folder(skills_dir: Path) -> Path:
    """Return the folder of a skill with a script."""
    script = "import pathlib\nprint('hello from', pathlib.Path(__file__).parent.name)\n"
    return write_skill(skills_dir, "alpha", "Alpha.", scripts__hello_py=script)


def test_the_folder_of_a_loaded_skill_is_read_unasked(make_agent: MakeAgent, folder: Path) -> None:
    agent = make_agent([LOAD, line(f"cat {folder}/scripts/hello.py"), "done"], **SHELL)
    agent.say("load")
    assert "hello from" in agent.results("run_command")[0]


SKILLS = {"alpha": ["name: alpha", "hello from scripts"], "beta": ["There is no skill named 'beta'."]}


@pytest.mark.parametrize("skill", SKILLS)
def test_the_files_of_a_skill_are_there_once_it_is_loaded(
    make_agent: MakeAgent, folder: Path, skill: str
) -> None:
    command = 'cat "$SKILL_DIR/SKILL.md" | head -2; python3 $SKILL_DIR/scripts/hello.py'
    agent = make_agent([LOAD, line(command, skill=skill), "done"], **FREE)
    agent.say("go")
    assert all(text in agent.results("run_command")[0] for text in SKILLS[skill])


def test_who_leaves_the_skill_out_is_told_where_its_file_is(make_agent: MakeAgent, folder: Path) -> None:
    paths = ("python3 scripts/hello.py", "sh ~/.claude/skills/alpha/scripts/hello.py")
    lines = [line(each) for each in (*paths, "cd skills/alpha && node scripts/hello.py")]
    agent = make_agent([LOAD, *lines, "done"], **FREE)
    agent.say("go")
    while agent.state.interrupts:
        agent.answer(YES)
    hint = "scripts/hello.py is a file of the skill alpha, not of the workspace: use run_script"
    assert all(hint in each for each in agent.results("run_command"))
    assert len(agent.results("run_command")) == 3
