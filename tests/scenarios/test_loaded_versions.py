"""A thread reads and runs the version of a skill that it loaded, and what was approved is what runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents import FREE, Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import SANDBOXES, needs_bwrap

LOAD = calls(call("load_skill", name="alpha"))
RUN = calls(call("run_script", skill="alpha", path="scripts/run.py"))
READ = calls(call("read_resource", skill="alpha", path="references/notes.md"))
SCRIPT = """
from pathlib import Path
from helper import VERSION
here = Path(__file__).parent.parent
print(VERSION, (here / "references" / "notes.md").read_text().strip())
"""


def write_version(folder: Path, version: str) -> Path:
    shutil.rmtree(folder / "alpha", ignore_errors=True)
    files = {"helper_py": f"VERSION = {version!r}\n", "run_py": SCRIPT}
    scripts = {f"scripts__{name}": text for name, text in files.items()}
    notes = f"# Notes of {version}\n"
    return write_skill(
        folder, "alpha", "Counts.", f"Version {version}", references__notes_md=notes, **scripts
    )


@pytest.fixture
def skill(skills_dir: Path) -> Path:
    return write_version(skills_dir, "one")


def last_of(agent: Agent, tool: str) -> str:
    return str(agent.tool_messages(tool)[-1].text)


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("change", ["changed", "whole folder gone"])
def test_a_pinned_thread_reads_and_runs_what_it_loaded(
    make_agent: MakeAgent, skill: Path, sandbox: str, change: str
) -> None:
    agent = make_agent([LOAD, RUN, "one", READ, RUN, "two"], sandbox=sandbox, **FREE)
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
    if change == "changed":
        return
    # Where the snapshot is gone, too, one sentence says what to do.
    entry = agent.values["skills_loaded"]["alpha"]
    lost = {**entry, "digest": "0" * 64, "order": entry["order"] + 1}
    agent.graph.update_own_state(agent.config, {"skills_loaded": {"alpha": lost}}, as_node="answer")
    agent = make_agent([RUN, "ran"] * 5, sandbox=sandbox, checkpointer=agent.checkpointer, **FREE)
    assert agent.say("run")["answer"] == "ran"
    assert "Unload and load it to use what is there now." in last_of(agent, "run_script")


def test_an_earlier_checkpoint_runs_the_version_of_then(make_agent: MakeAgent, skill: Path) -> None:
    script = [LOAD, "loaded", RUN, "ran", RUN, "ran"]
    agent = make_agent(script, sandbox="off", on_change="refresh", **FREE)
    agent.say("go")
    then = agent.state.config
    write_version(skill.parent, "two")
    agent.say("run")
    assert "two # Notes of two" in last_of(agent, "run_script")
    agent.graph.update_state(then, {"messages": [("user", "run")]}, as_node="discover")
    agent.run(None)
    assert "one # Notes of one" in last_of(agent, "run_script")


OF_PROJECT = """
import pathlib
p = pathlib.Path(__file__)
project = p.parents[4] / "project.txt"
print(p, project.read_text() if project.exists() else "")
"""


@needs_bwrap
@pytest.mark.parametrize(("folder", "others"), [(".claude/skills", 0), ("own/skills", 1)])
def test_in_the_sandbox_a_skill_is_at_its_path_and_leaves_no_trace_there_when_it_is_gone(
    make_agent: MakeAgent, workspace: Path, folder: str, others: int
) -> None:
    (workspace / "project.txt").write_text("of the project")
    skill = write_skill(workspace / folder, "alpha", "Counts.", "{baseDir}", scripts__run_py=OF_PROJECT)
    if others:
        write_skill(workspace / folder, "beta", "Counts.")
    dirs = (workspace / "own/skills",)
    agent = make_agent([LOAD, RUN, "ran", RUN, "ran"], sandbox="require", skills_dirs=dirs, **FREE)
    agent.say("go")
    assert f"{skill}/scripts/run.py of the project" in last_of(agent, "run_script")
    assert agent.values["skills_loaded"]["alpha"]["instructions"] == str(skill)
    shutil.rmtree(skill)
    before = {each for each in workspace.rglob("*") if ".agent/" not in str(each)}
    agent.say("run")
    assert "exit code 0" in last_of(agent, "run_script")
    assert {each for each in workspace.rglob("*") if ".agent/" not in str(each)} == before


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


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_process_that_swaps_the_script_all_the_time_never_gets_other_bytes_run(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path, sandbox: str
) -> None:
    append = "open('log.txt', 'a').write('a')"
    script = write_skill(skills_dir, "alpha", "Appends.", scripts__run_py=append) / "scripts" / "run.py"
    agent = make_agent([LOAD, *[RUN, "done"] * 5], sandbox=sandbox, max_tool_calls=99)
    agent.say("go")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, script], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    try:
        swapper.stdout.readline()
        for number in range(5):
            agent.answer({"type": "approve"})
            if number < 4:
                agent.say("again")
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()
    assert (workspace / "log.txt").read_text() == "a" * 5
