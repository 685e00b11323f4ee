"""Programs of a command line that verdicts go by the names of are the system's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skills_agent.shell.command_line import command_request
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.scripts.controlled import ControlledRunner
from tests.machine import Sandboxed, needs_bwrap
from tests.skills.scripts.test_programs import SYSTEM, elsewhere, install, workspace

__all__ = ["elsewhere", "workspace"]

NAMES = ("cat", "git", "timeout", "ls", "bash", "env", "xargs", "made-up")


@pytest.mark.parametrize("kind", [ControlledRunner, pytest.param(Sandboxed, marks=needs_bwrap)])
def test_what_verdicts_go_by_the_name_of_is_never_the_projects(
    workspace: Path, kind: Callable[..., OwnRunner]
) -> None:
    """A `cat` is not asked about, and a grant of `git log` is meant for git."""
    for name in NAMES:
        install(workspace / ".venv/bin", name, f"echo PLANTED {name}")
    install(workspace / ".venv/bin", "jq", "echo PLANTED jq")
    runner = kind(workspace=workspace, environment={"PATH": f"{workspace}/.venv/bin:{SYSTEM}"})
    line = "cat x; git --version; timeout 5 ls; bash -c 'ls | xargs env cat'; made-up; jq"
    result = runner.run(command_request(line, workspace=workspace))
    planted = [each for each in result.stdout.splitlines() if "PLANTED" in each]
    assert planted == ["PLANTED made-up"]
    assert "git version" in result.stdout


def test_git_that_only_the_project_has_does_not_write(workspace: Path, elsewhere: Path) -> None:
    install(workspace / ".venv/bin", "git", "echo PLANTED")
    (workspace / ".git").mkdir()
    path = f"{workspace}/.venv/bin:tools:{elsewhere}"
    runner = ControlledRunner(workspace=workspace, environment={"PATH": path})
    with pytest.raises(ScriptError, match="git is only in"):
        runner.preflight(command_request("git commit -m x", workspace=workspace))
