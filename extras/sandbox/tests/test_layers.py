"""What scripts change is looked at before it counts: tried for real, as this user and as nobody."""

import signal
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from extras.sandbox.tests.agent_program import OnCopies
from extras.sandbox.tests.test_hostile_scripts import PATH, Host, agents, host, user
from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.overlay import mounting, mounts_below
from skills_agent.skills.scripts.runner import ScriptRequest
from tests.waiting import PATIENCE, until

__all__ = ["agents", "host", "user"]

LAYERS_WORK = bool(mounting(Path.cwd(), Path(gettempdir())))
needs_layers = pytest.mark.skipif(not LAYERS_WORK, reason="no layers can be mounted here")
pytestmark = [pytest.mark.slow, needs_layers]


@pytest.fixture(params=["overlay", "copy"])
def project(host: Host, request: pytest.FixtureRequest) -> Host:
    """Return a machine with some files in the workspace."""
    host.level, host.view = "bwrap", request.param
    (host.work / "src").mkdir()
    (host.work / "src/app.py").write_text("print('mine')\n")
    (host.work / "old.csv").write_text("old\n")
    (host.work / "run.sh").write_text("#!/bin/sh\n")
    (host.work / "run.sh").chmod(0o755)
    return host


def decided(result: dict[str, Any]) -> dict[str, str]:
    """Return what was decided about each change."""
    return {change[0]: decision for change, decision, _ in result["changes"]}


def files(folder: Path) -> dict[str, str]:
    """Return the files of a folder, but the agent's own."""
    paths = (path for path in folder.rglob("*") if not path.is_relative_to(folder / ".agent"))
    return {str(path.relative_to(folder)): path.read_text() for path in paths if path.is_file()}


@pytest.mark.parametrize(
    ("body", "expected", "changed"),
    [
        (
            "echo a > a; echo b >> src/app.py",
            {"a": "allow", "src/app.py": "allow"},
            "wrote a (+1), src/app.py (+1)",
        ),
        ("rm old.csv; echo 1 > 1", {"old.csv": "allow", "1": "allow"}, "wrote 1 (+1); removed old.csv"),
        ("mkdir -p a/b; touch a/b/1 a/b/2 a/b/3 a/b/4 x", {}, "wrote 4 files under a/b, x"),
        ("touch 1 2 3 4 5 6", {}, "wrote 1, 2, 3, 4 and 2 more"),
        ("echo X=1 > .env", {".env": "ask"}, "left out .env (+1)"),
        (
            "mkdir .vscode; echo {} > .vscode/tasks.json",
            {".vscode": "ask", ".vscode/tasks.json": "ask"},
            None,
        ),
        ("echo evil >> run.sh", {"run.sh": "ask"}, "left out run.sh (+1)"),
        ("cp run.sh new.sh", {"new.sh": "ask"}, "left out new.sh (+1)"),
        ("ln -s /etc/passwd leak", {"leak": "deny"}, "left out leak"),
        ("mkfifo pipe", {"pipe": "deny"}, "left out pipe"),
        ("cp -r .git sub", {}, None),
        ("touch old.csv; mv old.csv x; mv x old.csv", {}, ""),
    ],
)
def test_each_change_is_applied_asked_about_or_left_out(
    project: Host, body: str, expected: dict[str, str], changed: str | None
) -> None:
    before = files(project.work)
    result = project.run(body)
    assert result["exit_code"] == 0, result
    assert changed is None or result["changed"] == changed
    if expected:
        assert decided(result) == expected
    after = files(project.work)
    allowed = {path for path, decision in decided(result).items() if decision == "allow"}
    really = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert really == {path for path in allowed if path in before or path in after}
    assert not any(path.is_symlink() for path in project.work.iterdir() if path.name != "link")


def test_killed_while_the_workspace_is_copied_nothing_is_left_or_told(host: Host) -> None:
    host.level, host.view = "bwrap", "copy"
    for name in range(300):
        (host.work / str(name)).write_text("x")
    with host.started("touch made", timeout=PATIENCE) as agent:
        while not any(host.records.glob("layers/run-*/0/upper/*")):
            pass  # not a moment is lost
        agent.process.send_signal(signal.SIGKILL)
        agent.process.wait(PATIENCE)
    assert not any(host.records.glob("layers/run-*/0/lower"))
    assert host.run("true")["notices"] == []
    assert not any(host.records.glob("layers/run-*"))


@pytest.mark.parametrize(
    ("files_of", "body", "told"),
    [
        ({"data/big": 300}, "test -s data/big && >data/new && ! : >> data/big", ["in it: data/big."]),
        ({"data/big": 300}, "mv data other && mkdir data", ["read-only", "data/big was moved or removed"]),
        ({f"d{n // 100}/{n}": 0.875 for n in range(300)}, "test -s d0/1 && ! >d0/x && >d1/x", ["in it: d0."]),
        ({f"big{n}": 300 for n in range(51)}, "true", []),
    ],
    ids=["file", "moved with its folder", "folder", "too much of it"],
)
def test_what_is_too_large_to_be_copied_is_there_to_be_read(
    host: Host, files_of: dict[str, float], body: str, told: list[str]
) -> None:
    host.level, host.view = "bwrap", "copy"
    for path, size in files_of.items():
        (host.work / path).parent.mkdir(exist_ok=True)
        with (host.work / path).open("wb") as file:
            file.truncate(int(size * (1 << 20)))
    result = host.run(body)
    assert "workdir = thread" in result["refused"] if not told else result["exit_code"] == 0
    assert all(part in notice for part, notice in zip(told, result.get("notices", []), strict=True))
    assert {path: (host.work / path).stat().st_size / (1 << 20) for path in files_of} == files_of


def test_what_somebody_changed_meanwhile_is_not_written_over(project: Host) -> None:
    with project.started("echo script > old.csv; echo new > report.md; sleep 2", timeout=PATIENCE) as agent:
        until(lambda: any(project.records.glob("layers/run-*/0/upper/report.md")))
        (project.work / "old.csv").write_text("the person's")
        result = agent.answer()
    assert (project.work / "old.csv").read_text() == "the person's"
    assert set(decided(result).values()) == {"ask"}


def test_a_workspace_that_is_reached_by_a_link(project: Host) -> None:
    link = project.place / "by-link"
    link.symlink_to(project.work)
    result = project.run("pwd; echo new > report.md", workdir=link)
    assert (project.work / "report.md").read_text() == "new\n", result


@pytest.mark.parametrize("kind", [BwrapRunner, OnCopies])
@pytest.mark.parametrize("place", [".", ".git"])
def test_beside_git_nothing_of_the_workspace_is_executed(
    tmp_path: Path, kind: type[BwrapRunner], place: str
) -> None:
    (work := tmp_path / "work").mkdir()
    made = f"git init -q; touch a; git add a; echo > a; mkdir .git/m; cp /bin/true {place}/x"
    subprocess.run(made, cwd=work, shell=True, check=True)
    runner = kind(workspace=work, environment={"PATH": PATH}, records=lambda: tmp_path)
    git = ("git", "-c", f"diff.external={place}/x", "diff", "a")
    for repository in (work / ".git", work / ".git/m"):
        request = ScriptRequest("", None, git, None, work, repository=repository, writable=(repository,))
        assert f"cannot exec '{place}/x': Permission denied" in runner.run(request).stderr


def test_what_is_mounted_in_a_workspace_is_seen(tmp_path: Path) -> None:
    inner = tmp_path / "a b" / "inner"
    inner.mkdir(parents=True)
    told = "from skills_agent.sandbox.overlay import *; print([*mounts_below(Path(sys.argv[1]))])"
    line = f'mount -t tmpfs none "$1/a b/inner" && "$2" -c "import sys; {told}" "$1"'
    command = ["unshare", "-Urm", "sh", "-c", line, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"[{inner!r}]\n"
    assert not [*mounts_below(tmp_path)]
