"""Where a script sees the folder of its skill: the bytes of a snapshot, at the skill's own path."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from tests.machine import needs_bwrap

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
WHERE = """
import pathlib, sys
skill = pathlib.Path(__file__).parents[1]
project = (skill / "../../../project.txt").resolve()
print(sys.argv[0], __file__, (skill / "note.txt").read_text(), project.read_text())
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "project.txt").write_text("project")
    return folder


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return written(tmp_path / "cache" / "digest", "of the snapshot")


def written(folder: Path, note: str, script: str = WHERE) -> Path:
    (folder / "scripts").mkdir(parents=True)
    (folder / "note.txt").write_text(note)
    (folder / "scripts/where.py").write_text(script)
    return folder


def run(snapshot: Path, own: Path, workspace: Path, **more: Any) -> ScriptResult:
    runner = BwrapRunner(workspace=workspace, environment=ENVIRONMENT)
    return runner.run(replace(request_for(snapshot, own, workspace), **more))


def request_for(snapshot: Path, own: Path, workspace: Path, *, unchanged: bool = False) -> ScriptRequest:
    return ScriptRequest(
        *("demo", snapshot / "scripts/where.py", (), None, workspace),
        root=snapshot,
        mounted_at=own,
        is_unchanged=lambda: unchanged,
    )


def everything(folder: Path) -> set[str]:
    return {os.fspath(path) for path in folder.rglob("*") if path.name != ".agent"}


@needs_bwrap
@pytest.mark.parametrize(
    ("own", "is_there"),
    [
        (".claude/skills/demo", True),
        ("packages/api/demo", True),
        (".agent/skills/demo", True),
        (".agent/skills/demo", False),
    ],
)
@pytest.mark.variants
def test_a_script_sees_the_bytes_of_the_snapshot_at_the_skills_own_path(
    workspace: Path, snapshot: Path, own: str, is_there: bool
) -> None:
    if is_there:
        written(workspace / own, "of the live folder", "print('other bytes')")
    before = everything(workspace)

    result = run(snapshot, workspace / own, workspace)

    path = workspace / own / "scripts/where.py"
    assert result.stdout == f"{path} {path} of the snapshot project\n", result.stderr
    assert everything(workspace) == before


@needs_bwrap
@pytest.mark.parametrize("own", ["packages/gone", "project.txt", "/usr/lib/gone"])
def test_where_its_own_path_cannot_be_shown_a_script_runs_where_the_snapshot_is(
    workspace: Path, snapshot: Path, own: str
) -> None:
    (snapshot / "scripts/where.py").write_text("print(__file__)")
    assert run(snapshot, workspace / own, workspace).stdout == f"{snapshot}/scripts/where.py\n"


@needs_bwrap
@pytest.mark.parametrize("folder", [".git", ".claude", "packages", "packages/api", "packages/api/demo"])
@pytest.mark.variants
def test_no_folder_above_a_protected_one_can_be_renamed(workspace: Path, snapshot: Path, folder: str) -> None:
    (workspace / ".claude").mkdir()
    (workspace / ".git/hooks").mkdir(parents=True)
    own = written(workspace / "packages/api/demo", "of the live folder")
    (snapshot / "scripts/where.py").write_text(
        "import os, pathlib\n"
        "pathlib.Path('packages/api/new.txt').write_text('beside it')\n"
        f"os.rename({folder!r}, 'elsewhere')\n"
    )

    result = run(snapshot, own, workspace, in_background=True)

    refused, taken_back = "OSError" in result.stderr, any(folder in text for text in result.notices)
    assert (refused, taken_back) == (folder != ".claude", folder == ".claude")
    assert (workspace / "packages/api/new.txt").exists()
    assert (workspace / folder).is_dir()


@pytest.mark.parametrize("unchanged", [True, False])
def test_without_a_sandbox_the_own_folder_is_used_while_it_is_the_snapshot(
    workspace: Path, snapshot: Path, unchanged: bool
) -> None:
    own = written(workspace / ".claude/skills/demo", "of the live folder", "print('live')")
    (snapshot / "scripts/where.py").write_text("print('snapshot')")
    runner = ControlledRunner(environment=ENVIRONMENT)

    result = runner.run(request_for(snapshot, own, workspace, unchanged=unchanged))

    assert result.stdout == ("live\n" if unchanged else "snapshot\n")


@needs_bwrap
def test_a_skill_that_is_the_workspace_does_not_hide_it(workspace: Path, snapshot: Path) -> None:
    (snapshot / "scripts/where.py").write_text(
        "print(open('project.txt').read(), __file__); open('new', 'w')"
    )

    result = run(snapshot, workspace, workspace)

    assert result.stdout == f"project {snapshot}/scripts/where.py\n", result.stderr
    assert (workspace / "new").exists()


@needs_bwrap
def test_a_plugin_that_holds_what_its_script_needs_does_not_hide_it(workspace: Path, snapshot: Path) -> None:
    plugin = workspace / "plugin"
    home = plugin / "homes" / "demo"
    home.mkdir(parents=True)
    (home / "kept").write_text("kept")
    (snapshot / "scripts/where.py").write_text(
        "import os, pathlib\n"
        "print((pathlib.Path.home() / 'kept').read_text(), os.environ['CLAUDE_PLUGIN_ROOT'])"
    )
    result = run(snapshot, plugin, workspace, home=home)

    assert result.stdout == f"kept {snapshot}\n", result.stderr


@needs_bwrap
def test_a_script_that_starts_in_its_skill_writes_nothing_there(workspace: Path, snapshot: Path) -> None:
    own = written(workspace / ".claude/skills/demo", "of the live folder")
    (snapshot / "scripts/where.py").write_text(
        "import os; print(os.getcwd(), open('note.txt').read()); open('made', 'w')"
    )
    result = run(snapshot, own, workspace, in_skill=True)
    assert result.stdout == f"{own} of the snapshot\n"
    assert "Read-only file system" in result.stderr
    assert not (snapshot / "made").exists()


def test_without_a_sandbox_it_starts_in_a_copy_of_the_snapshot_and_not_in_its_own_folder(
    workspace: Path, snapshot: Path
) -> None:
    own = written(workspace / ".claude/skills/demo", "of the snapshot")
    (snapshot / "scripts/where.py").write_text(
        "import os; print(os.getcwd(), open('note.txt').read()); open('made', 'w')"
    )
    request = replace(request_for(snapshot, own, workspace, unchanged=True), in_skill=True)
    result = ControlledRunner(environment=ENVIRONMENT).run(request)
    where, _, note = result.stdout.partition(" ")
    assert (Path(where).name, note) == ("demo", "of the snapshot\n")
    assert not Path(where).is_relative_to(workspace)
    assert not [each for each in (where, own / "made", snapshot / "made") if Path(each).exists()]


@needs_bwrap
def test_a_run_that_is_refused_leaves_nothing_open(workspace: Path) -> None:
    (workspace / ".agent").symlink_to("elsewhere")
    runner = BwrapRunner(workspace=workspace, environment=ENVIRONMENT)
    request = ScriptRequest("", None, ("true",), None, workspace)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ScriptError, match=r"\.agent"):
        runner.run(request)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@needs_bwrap
def test_no_script_can_write_the_agents_own_python_where_that_is_the_workspace(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(workspace))
    runner = BwrapRunner(workspace=workspace, environment=ENVIRONMENT)
    with pytest.raises(ScriptError):
        runner.run(ScriptRequest("", None, ("touch", "planted.txt"), None, workspace))
    assert not (workspace / "planted.txt").exists()
