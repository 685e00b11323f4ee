"""A skill that needs what is not here: said in the receipt and before a question."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from extras.needs.tests.wheels import make_wheel, offline
from skills_agent.graph.machine import machine_of
from skills_agent.needs.environments import wanted
from skills_agent.needs.gather import gather
from skills_agent.needs.machine import ThisMachine
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import SANDBOX, SANDBOXES, needs_installer, needs_shell

PROGRAM = "program-that-nobody-has"
DESCRIPTION = f'Draw.\nmetadata: {{"openclaw": {{"requires": {{"bins": ["{PROGRAM}"]}}}}}}'
RECEIPT = (
    f"Not here, though draw needs it: {PROGRAM} (program), package-that-nobody-has (Python package). What "
    "depends on it fails. Where the task needs it, ask the person for it: skills-agent doctor draw "
    f"--install; install {PROGRAM} as its makers say."
)


def test_the_receipt_names_what_is_missing_and_what_brings_it(
    skills_dir: Path, make_agent: MakeAgent
) -> None:
    files = {"scripts__run_py": "print('drawn')\n", "requirements_txt": "package-that-nobody-has\n"}
    write_skill(skills_dir, "draw", DESCRIPTION, **files)
    agent = make_agent([calls(call("load_skill", name="draw")), "Done."])
    agent.say("Draw.")
    (receipt,) = agent.results("load_skill")
    assert receipt.splitlines() == ["Loaded draw: 1 line, 1 script, 1 other file.", RECEIPT]


OUTER = "import outer\nprint('outer', outer.VERSION, 'by', __import__('sys').prefix)\n"


def bring(agent: Agent, skill: Path, index: Path) -> Path:
    """Install what a skill needs, as a person does by the command line; return where it is."""
    machine = machine_of(agent.settings)
    assert isinstance(machine, ThisMachine)
    environments = replace(machine.environments, environment=offline(index))
    needs = gather(skill)
    resolved = environments.resolve(wanted(needs, "python").requirements, "python")
    place = environments.install("python", resolved)
    environments.approve(needs, "python", resolved)
    return place


@needs_installer
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.slow
def test_a_script_runs_with_the_packages_that_a_person_approved(
    skills_dir: Path, make_agent: MakeAgent, tmp_path: Path, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_wheel(tmp_path / "index", "outer")
    write_skill(skills_dir, "packed", "Packed.", scripts__run_py=OUTER, requirements_txt="outer\n")
    load, run = call("load_skill", name="packed"), call("run_script", skill="packed", path="scripts/run.py")
    agent = make_agent([calls(load), calls(run), "Done.", calls(run), "Done."], sandbox=sandbox)
    agent.say("Run it.")
    (refused,) = agent.tool_messages("run_script")
    assert str(refused.content).startswith(
        "Cannot run run.py: it imports outer, which no package brings here. A person can bring what packed "
        "needs: skills-agent doctor packed --install The packages were not resolved: "
    )
    assert not agent.state.interrupts  # nobody was asked about a script that would surely fail
    place = bring(agent, skills_dir / "packed", tmp_path / "index")
    agent.say("Again.")
    agent.answer({"type": "approve"})
    result = agent.tool_messages("run_script")[-1]
    assert f"outer 1.0 by {place}" in str(result.content)


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.path.append('x')\nimport outer\n",
        "try:\n    import outer\nexcept ImportError:\n    outer = None\n",
        "def late():\n    import outer\n",
        "import beside\n",
        "import msgspec\n",
    ],
)
@pytest.mark.variants
def test_a_script_that_may_work_is_asked_about(skills_dir: Path, make_agent: MakeAgent, source: str) -> None:
    write_skill(skills_dir, "maybe", "Maybe.", scripts__run_py=source, scripts__beside_py="")
    load, run = call("load_skill", name="maybe"), call("run_script", skill="maybe", path="scripts/run.py")
    agent = make_agent([calls(load), calls(run), "Done."])
    agent.say("Run it.")
    assert agent.state.interrupts


@needs_shell
@pytest.mark.slow
def test_a_command_line_of_a_skill_finds_its_packages(
    skills_dir: Path, make_agent: MakeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if SANDBOX.level is None:
        pytest.skip("the sandbox does not work here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_wheel(tmp_path / "index", "outer")
    write_skill(skills_dir, "packed", "Packed.", requirements_txt="outer\n")
    command = "python -c 'import outer; print(outer.VERSION)' | cat"
    look = call("run_command", command=command, skill="packed")
    nobodys = call("run_command", command=command)
    load = call("load_skill", name="packed")
    agent = make_agent([calls(load), calls(look), "Done.", calls(look), "Done.", calls(nobodys), "Done."])
    agent.say("Look.")
    agent.answer({"type": "approve"})
    (failed,) = agent.tool_messages("run_command")
    assert "A person can bring what packed needs: skills-agent doctor packed --install" in failed.text
    bring(agent, skills_dir / "packed", tmp_path / "index")
    agent.say("Again.")
    agent.answer({"type": "approve"})
    assert "1.0" in agent.tool_messages("run_command")[-1].text
    agent.say("Without its name.")
    agent.answer({"type": "approve"})
    advice = "A command has the packages of a loaded skill (packed) where its argument skill names it."
    assert advice in agent.tool_messages("run_command")[-1].text


def run_of_command(agent: Agent) -> str:
    """Have it run the one command of its script, and approve what is asked; return the result."""
    agent.say("Run it.")
    while agent.state.interrupts:
        agent.answer({"type": "approve"})
    return agent.results("run_command")[-1]


@needs_shell
@pytest.mark.parametrize(
    ("command", "is_said"),
    [
        ("pandoc a.md -o a.html", True),
        ("pandoc a.md | head -1", True),
        ("command -v pandoc || true", False),
    ],
)
def test_a_command_that_lacks_a_program_is_told_what_brings_it(
    make_agent: MakeAgent, command: str, is_said: bool
) -> None:
    if shutil.which("pandoc") or not shutil.which("apt-get"):
        pytest.skip("pandoc is here, or no apt-get")
    replies = [calls(call("run_command", command=command)), "Done."]
    result = run_of_command(make_agent(replies, enable_run_command="on", sandbox="off"))
    assert ("The program pandoc is not here: sudo apt-get install pandoc" in result) is is_said


@needs_shell
def test_a_module_of_the_skill_is_not_advised_as_a_package(skills_dir: Path, make_agent: MakeAgent) -> None:
    write_skill(skills_dir, "late", "Late.", scripts__run_py="", lib__sanitize_core_py="")
    run = call("run_command", skill="late", command="python3 -c 'import sanitize_core'")
    replies = [calls(call("load_skill", name="late")), calls(run), "Done."]
    result = run_of_command(make_agent(replies, enable_run_command="on"))
    assert "the skill's own lib/sanitize_core.py" in result
    assert "--with" not in result
