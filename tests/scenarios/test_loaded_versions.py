"""A thread reads and runs the version of a skill that it loaded, and what was approved is what runs."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import SANDBOX, SANDBOXES

LOAD = calls(call("load_skill", name="alpha"))
RUN = calls(call("run_script", skill="alpha", path="scripts/run.py"))
READ = calls(call("read_resource", skill="alpha", path="references/notes.md"))
SCRIPT = """
from pathlib import Path
from helper import VERSION
here = Path(__file__).parent.parent
print(VERSION, (here / "references" / "notes.md").read_text().strip())
"""


@pytest.fixture
def skill(skills_dir: Path) -> Path:
    return write_version(skills_dir, "one")


def write_version(folder: Path, version: str) -> Path:
    shutil.rmtree(folder / "alpha", ignore_errors=True)
    return write_skill(
        folder,
        "alpha",
        "Counts.",
        f"Version {version}",
        scripts__run_py=SCRIPT,
        scripts__helper_py=f"VERSION = {version!r}\n",
        references__notes_md=f"# Notes of {version}\n",
    )


def last_of(agent: Agent, tool: str) -> str:
    return str(agent.tool_messages(tool)[-1].text)


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("change", ["changed", "whole folder gone"])
def test_a_pinned_thread_reads_and_runs_what_it_loaded(
    make_agent: MakeAgent, skill: Path, sandbox: str, change: str
) -> None:
    free: Any = {"require_approval_for": frozenset(), "sandbox": sandbox}
    agent = make_agent([LOAD, RUN, "one", READ, RUN, "two"], **free)
    agent.say("go")
    assert "one # Notes of one" in last_of(agent, "run_script")
    if change == "changed":
        write_version(skill.parent, "two")
    else:
        shutil.rmtree(skill.parent)
    agent.say("again")
    assert "# Notes of one" in last_of(agent, "read_resource")
    assert "one # Notes of one" in last_of(agent, "run_script")
    assert skill.exists() == (change == "changed")


def test_going_on_from_an_earlier_checkpoint_runs_the_version_of_then(
    make_agent: MakeAgent, skill: Path
) -> None:
    free: Any = {"require_approval_for": frozenset(), "sandbox": "off", "on_change": "refresh"}
    agent = make_agent([LOAD, "loaded", RUN, "ran", RUN, "ran"], **free)
    agent.say("go")
    then = agent.state.config
    write_version(skill.parent, "two")
    agent.say("run")
    assert "two # Notes of two" in last_of(agent, "run_script")
    agent.graph.update_state(then, {"messages": [("user", "run")]}, as_node="discover")
    agent.run(None)
    assert "one # Notes of one" in last_of(agent, "run_script")


def test_paths_from_the_skill_to_its_project_hold_in_the_sandbox(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path
) -> None:
    if SANDBOX.level is None:
        pytest.skip(SANDBOX.reason)
    (workspace / "project.txt").write_text("of the project")
    skill = write_skill(
        skills_dir,
        "alpha",
        "Counts.",
        "{baseDir}",
        scripts__run_py="import pathlib; p = pathlib.Path(__file__)\n"
        "print(p, (p.parents[4] / 'project.txt').read_text())",
    )
    agent = make_agent([LOAD, RUN, "one"], require_approval_for=frozenset(), sandbox="require")
    agent.say("go")
    assert f"{skill}/scripts/run.py of the project" in last_of(agent, "run_script")
    assert agent.values["skills_loaded"]["alpha"]["instructions"] == str(skill)


@pytest.mark.parametrize(("folder", "others"), [(".claude/skills", 0), ("own", 1)])
def test_a_skill_whose_folder_is_gone_leaves_no_trace_on_the_host(
    make_agent: MakeAgent, workspace: Path, folder: str, others: int
) -> None:
    if SANDBOX.level is None:
        pytest.skip(SANDBOX.reason)
    place = workspace / folder
    skill = write_skill(place, "alpha", "Counts.", "x", scripts__run_py="print(__file__)")
    if others:
        write_skill(place, "beta", "Counts.", "x")
    agent = make_agent(
        [LOAD, "loaded", RUN, "ran"],
        require_approval_for=frozenset(),
        sandbox="require",
        skills_dirs=(workspace / "own",),
    )
    agent.say("go")
    shutil.rmtree(skill)
    before = sorted(workspace.rglob("*"))
    agent.say("run")
    assert "exit code 0" in last_of(agent, "run_script")
    assert [each for each in sorted(workspace.rglob("*")) if ".agent/" not in str(each)] == [
        each for each in before if ".agent/" not in str(each)
    ]


SWAPPER = """
import os, sys
script = sys.argv[1]
print("ready", flush=True)
while True:
    for text in ("open('log.txt', 'a').write('b')", "open('log.txt', 'a').write('c')"):
        with open(script + ".new", "w") as file:
            file.write(text)
        os.replace(script + ".new", script)
"""


@pytest.fixture
def swapped(skills_dir: Path) -> Path:
    skill = write_skill(
        skills_dir, "alpha", "Appends.", "x", scripts__run_py="open('log.txt', 'a').write('a')"
    )
    return skill / "scripts" / "run.py"


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_process_that_swaps_the_script_all_the_time_never_gets_other_bytes_run(
    make_agent: MakeAgent, workspace: Path, swapped: Path, sandbox: str
) -> None:
    approvals = 5
    agent = make_agent([LOAD, *[RUN, "done"] * approvals], sandbox=sandbox, max_tool_calls=99)
    agent.say("go")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, swapped], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    try:
        swapper.stdout.readline()
        for number in range(approvals):
            agent.answer({"type": "approve"})
            if number < approvals - 1:
                agent.say("again")
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()
    assert (workspace / "log.txt").read_text() == "a" * approvals


def test_a_version_that_is_gone_is_said_in_one_sentence(make_agent: MakeAgent, skill: Path) -> None:
    agent = make_agent([LOAD, "loaded", RUN, "ran"], require_approval_for=frozenset(), sandbox="off")
    agent.say("go")
    entry = agent.values["skills_loaded"]["alpha"]
    lost = {**entry, "digest": "0" * 64, "order": entry["order"] + 1}
    agent.graph.update_own_state(agent.config, {"skills_loaded": {"alpha": lost}}, as_node="answer")
    assert agent.say("run")["answer"] == "ran"
    assert "Unload and load it to use what is there now." in last_of(agent, "run_script")
