"""Which Python runs a script, where the agent's own will not do."""

from pathlib import Path

import pytest

from skills_agent.needs.environments import Environments
from skills_agent.needs.machine import ThisMachine
from skills_agent.skills.errors import PackagesMissingError
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.skill import Need

NEWEST = "python3.16"


def machine(programs: Path) -> ThisMachine:
    """Return a machine with a stand-in for a newer Python in PATH."""
    programs.mkdir(exist_ok=True)
    (programs / NEWEST).write_text("#!/bin/sh\n")
    (programs / NEWEST).chmod(0o755)
    environment = {"PATH": str(programs)}
    environments = Environments(folder=programs / "environments", environment=environment)
    return ThisMachine(environment=environment, secrets={}, environments=environments)


def request(skill: Path, **files: str) -> ScriptRequest:
    skill.mkdir()
    for name, text in files.items():
        (skill / f"{name}.py").write_text(text)
    return ScriptRequest("s", skill / "run.py", (), None, skill, root=skill)


@pytest.mark.parametrize("source", ["", "# /// script\n# requires-python = '>=3.16'\n# ///\n"])
def test_what_is_said_of_versions_is_obeyed(tmp_path: Path, source: str) -> None:
    needs = () if source else (Need("program", "python", ">=3.16"),)
    equipped = machine(tmp_path / "bin").equip(request(tmp_path / "s", run=source), needs)
    assert equipped.python == str(tmp_path / "bin" / NEWEST)


@pytest.mark.parametrize("needs", [(), (Need("program", "python", ">=99"),)])
def test_the_agents_python_runs_what_asks_for_no_other_or_for_one_that_is_nowhere(
    tmp_path: Path, needs: tuple[Need, ...]
) -> None:
    assert not machine(tmp_path / "bin").equip(request(tmp_path / "s", run="print(1)\n"), needs).python


def test_a_script_is_refused_where_a_module_beside_it_imports_what_is_nowhere(tmp_path: Path) -> None:
    asked = request(tmp_path / "s", run="import beside\n", beside="import nowhere_at_all\n")
    with pytest.raises(PackagesMissingError, match=r"run\.py: it imports nowhere_at_all"):
        machine(tmp_path / "bin").equip(asked, ())


def test_a_script_that_changes_its_path_is_refused_for_a_known_package_alone(tmp_path: Path) -> None:
    changes = "import sys\nsys.path.insert(0, '..')\n"
    asked = request(tmp_path / "s", run=f"{changes}import somewhere_else\n")
    assert machine(tmp_path / "bin").equip(asked, ()).script == asked.script
    (tmp_path / "s" / "run.py").write_text(f"{changes}import rdkit, somewhere_else\n")
    with pytest.raises(PackagesMissingError, match="it imports rdkit, which"):
        machine(tmp_path / "bin").equip(asked, ())
