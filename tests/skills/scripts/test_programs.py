"""The programs that scripts want: found, replaced by another, or missing."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skills_agent.graph.machine import sandbox_here
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.choice import Wish
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.own_files import own_entries
from skills_agent.skills.scripts.programs import (
    find_program,
    global_modules,
    path_outside,
    shadowed,
    shim_targets,
    without_shims,
)
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptRunner
from skills_agent.skills.scripts.supervised import SUPERVISOR
from tests.forked import run_forked
from tests.machine import Sandboxed, needs_bwrap, runner_here

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".venv/bin").mkdir(parents=True)
    return folder


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def install(folder: Path, name: str, body: str = "") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


# --- attacks: a program that somebody else put there ---


def spy(folder: Path, name: str, witness: Path) -> None:
    """Put a program there that leaves a trace and then does what it is asked."""
    install(folder, name, f'touch {witness}\nexec /usr/bin/{name} "$@"')


@needs_bwrap
@pytest.mark.parametrize("entry", ["{work}/.venv/bin", ".venv/bin", "."])
def test_a_bwrap_of_the_workspace_never_runs(
    workspace: Path, elsewhere: Path, tmp_path: Path, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a project's virtual environment active, its folder is the first in PATH."""
    witness = tmp_path / "pwned"
    for folder in (workspace, workspace / ".venv/bin"):
        spy(folder, "bwrap", witness)
        spy(folder, "prlimit", witness)
    monkeypatch.chdir(workspace)
    path = f"{entry.format(work=workspace)}:{SYSTEM}"
    (elsewhere / "script.sh").write_text("echo ran")
    runner = Sandboxed(workspace=workspace, environment={"PATH": path})

    result = runner.run(ScriptRequest("demo", elsewhere / "script.sh", (), None, workspace))

    assert (result.stdout, result.level) == ("ran\n", "bwrap")
    assert sandbox_here().isolation("require", path, workspace).level == "bwrap"
    assert not witness.exists()


@pytest.mark.parametrize("sandbox", ["off", pytest.param("require", marks=needs_bwrap)])
@pytest.mark.parametrize("name", ["bash", "sh"])
def test_no_interpreter_of_the_workspace_runs_the_script_of_a_skill(
    workspace: Path, elsewhere: Path, sandbox: Wish, name: str
) -> None:
    spy(workspace / ".venv/bin", name, workspace / "pwned")
    (elsewhere / "script").write_text(f"#!/usr/bin/env {name}\necho ran")
    environment = {"PATH": f"{workspace}/.venv/bin:{SYSTEM}"}
    runner = runner_here(sandbox, workspace=workspace, environment=environment)

    assert runner.run(ScriptRequest("demo", elsewhere / "script", (), None, workspace)).stdout == "ran\n"
    assert not (workspace / "pwned").exists()


def test_the_supervisor_does_not_run_in_a_virtual_environment() -> None:
    assert not Path(SUPERVISOR[0]).is_symlink()
    assert Path(SUPERVISOR[0]).is_relative_to(os.path.realpath(sys.base_prefix))


def test_a_folder_that_everybody_can_write_to_or_one_below_it_is_passed_over(elsewhere: Path) -> None:
    place = elsewhere / "open/bin"
    install(place, "node")
    assert find_program("node", str(place), Path("/")).path is None  # all is the workspace
    place.chmod(0o777)
    assert find_program("node", str(place)) == (
        None,
        f"node is only in {place}, which everybody can write to.",
    )
    place.chmod(0o755)
    place.parent.chmod(0o777)
    assert find_program("node", str(place)).path is None
    place.parent.chmod(0o1777)  # nobody can rename what is another's
    assert find_program("node", str(place)).path == f"{place}/node"
    assert find_program("sh", "/usr/bin:/bin", Path("/")).path in {"/usr/bin/sh", "/bin/sh"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_passed_over(elsewhere: Path) -> None:
    install(elsewhere, "node")
    os.chown(elsewhere, 4242, -1)
    found = find_program("node", str(elsewhere))
    assert found == (None, f"node is only in {elsewhere}, which belongs to another user.")


def test_a_link_into_the_workspace_is_passed_over(workspace: Path, elsewhere: Path) -> None:
    target = install(workspace / "tools", "node")
    (elsewhere / "node").symlink_to(target)
    (workspace.parent / "tools").symlink_to(workspace / "tools")
    for folder in (elsewhere, workspace.parent / "tools"):
        assert find_program("node", str(folder), workspace).path is None
        assert find_program("node", f"{folder}:{SYSTEM}", workspace).path != f"{folder}/node"


@pytest.mark.parametrize("entry", ["", ".", "tools"])
def test_a_relative_entry_is_passed_over(
    workspace: Path, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(workspace, "made-up")
    install(workspace / "tools", "made-up")
    monkeypatch.chdir(workspace)
    assert find_program("made-up", f"{entry}:/nowhere").path is None


def test_what_runs_outside_of_the_sandbox_is_given_folders_that_a_program_is_taken_from(
    workspace: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    (workspace / "tools").mkdir()
    (elsewhere / "link").symlink_to(workspace / "tools")
    (elsewhere / "open").mkdir()
    (elsewhere / "open").chmod(0o777)
    refused = f".::tools:{workspace}/.venv/bin:{elsewhere}/link:{elsewhere}/open:{elsewhere}/gone"
    assert path_outside(f"{refused}:{SYSTEM}:tools", workspace) == SYSTEM


# --- what users of virtual environments and of version managers expect ---


def test_without_a_sandbox_programs_of_the_project_are_refused_and_relative_entries_left_out(
    workspace: Path,
) -> None:
    install(workspace / ".venv/bin", "pytest")
    runner = ControlledRunner(environment={"PATH": f"{workspace}/.venv/bin:{SYSTEM}"}, workspace=workspace)
    with pytest.raises(ScriptError, match=r"pytest is only in .*, which is in the workspace\."):
        runner.preflight(ScriptRequest("", None, ("pytest",), None, workspace))
    runner = ControlledRunner(environment={"PATH": f".:{SYSTEM}::tools"}, workspace=workspace)
    result = runner.run(ScriptRequest("", None, ("sh", "-c", "echo $PATH"), None, workspace))
    assert result.stdout == f"{SYSTEM}\n"


@needs_bwrap
def test_in_the_sandbox_a_script_finds_the_programs_of_the_project(workspace: Path, elsewhere: Path) -> None:
    install(workspace / ".venv/bin", "tool", "echo of the project")
    (elsewhere / "script.sh").write_text("tool")
    runner = Sandboxed(workspace=workspace, environment={"PATH": f"{workspace}/.venv/bin:{SYSTEM}"})
    result = runner.run(ScriptRequest("demo", elsewhere / "script.sh", (), None, workspace))
    assert result.stdout == "of the project\n"


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (["versions/18.2.0/bin", "versions/20.10.0/bin", "versions/20.9.1/bin"], "versions/20.10.0/bin"),
        (["installs/nodejs/18.0.0/bin", "installs/nodejs/22.1.0/bin"], "installs/nodejs/22.1.0/bin"),
        ([], "shims"),
    ],
)
def test_a_shim_of_a_version_manager_stands_for_the_program_behind_it(
    elsewhere: Path, places: list[str], expected: str
) -> None:
    install(elsewhere / "shims", "node", "exit 9")
    for place in places:
        install(elsewhere / place, "node")
    assert find_program("node", f"{elsewhere}/shims").path == f"{elsewhere}/{expected}/node"


RUNNERS = [ControlledRunner, pytest.param(Sandboxed, marks=needs_bwrap)]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("versions", ["versions", "installs/python"])
def test_what_a_script_calls_by_name_is_behind_the_shim_too(
    workspace: Path, elsewhere: Path, runner: Callable[..., ScriptRunner], versions: str
) -> None:
    install(elsewhere / "shims", "tool", "exit 9")
    install(elsewhere / versions / "3.9.1/bin", "old-tool", "echo old")
    for version in ("3.9.1", "3.11.2", "3.10.4"):
        install(elsewhere / versions / version / "bin", "tool", f"echo {version}")
    (elsewhere / "script.sh").write_text("tool\n/usr/bin/env tool\nold-tool")
    (workspace / ".python-version").write_text("3.10.4\n")
    run = runner(workspace=workspace, environment={"PATH": f"{elsewhere}/shims:{SYSTEM}"}).run
    result = run(ScriptRequest("demo", elsewhere / "script.sh", (), None, workspace))
    assert (result.exit_code, result.stdout) == (0, "3.11.2\n3.11.2\nold\n"), result.stderr


@pytest.mark.parametrize("entry", ["shut", "shut/bin", "shut/shims", "shut/deep/shims"])
def test_a_folder_of_path_that_cannot_be_read_is_one_without_programs(elsewhere: Path, entry: str) -> None:
    """As under `sudo -u`, where PATH is another user's."""
    is_root = os.geteuid() == 0
    (elsewhere / "shut/deep").mkdir(parents=True)
    (elsewhere / "shut").chmod(0o700 if is_root else 0)
    path = f"{elsewhere / entry}:{SYSTEM}"

    def look() -> None:
        if is_root:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        assert find_program("sh", path, elsewhere).path
        assert without_shims(path) == path
        assert shim_targets(path) == []
        assert shadowed(["ls"], path, elsewhere) == []
        assert f"/{Path(entry).parts[0]}" in own_entries(elsewhere, path, ())[-1]
        global_modules(path, elsewhere)

    assert run_forked(look) == 0
    (elsewhere / "shut").chmod(0o700)
