"""A copy of a workspace, as a run gets it where no overlay can be mounted."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.sandbox.copies import make_copies
from skills_agent.sandbox.layer import Layer, changes

BEFORE = """
mkdir -p .agent .git sub/.git ro dark; echo x > .agent/x; echo x > .git/HEAD; echo x > sub/.git/HEAD
echo a > a; ln a hard; chmod 640 a; ln -s /etc out; ln -s a in; mkfifo pipe; echo x > ro/x; chmod 500 ro
touch -d 2001-01-01 ro sub a; python3 -c "open(b'n\\nl\\xff', 'w')"
"""


def copied(work: Path, store: Path, *, mounts: bool = True) -> Layer:
    (layer,) = make_copies(store, [work], 0, workspace=work, mounts=mounts)
    return layer


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize("mounts", [True, False])
def test_a_copy_is_as_its_original_but_for_what_is_the_agents_and_gits(
    work: Path, tmp_path: Path, mounts: bool
) -> None:
    subprocess.run(["sh", "-euc", BEFORE], cwd=work, check=True)
    layer = copied(work, tmp_path / "run", mounts=mounts)
    assert layer.before
    assert {path.name for path in layer.content.iterdir()} == {path.name for path in work.iterdir()}
    for path in layer.before:
        own, copy = (work / path).lstat(), (layer.content / path).lstat()
        assert own.st_ino != copy.st_ino
        if stat.S_ISREG(own.st_mode) or stat.S_ISDIR(own.st_mode):
            assert (own.st_mode, own.st_mtime_ns) == (copy.st_mode, copy.st_mtime_ns), path
    assert (layer.content / "hard").stat().st_nlink == 1
    assert (layer.content / "out").readlink() == Path("/etc")
    assert not [*(layer.content / ".agent").iterdir()]
    assert (layer.content / ".git").is_symlink() is not mounts
    assert changes(layer) == []


CHURN = """
import os, shutil, sys
while True:
    for make in (
        lambda: os.symlink("/etc", "x"),
        lambda: open("x", "w").write("y" * 9999),
        lambda: os.mkfifo("x"),
        lambda: os.makedirs("x/y"),
    ):
        make()
        shutil.rmtree("x") if os.path.isdir("x") and not os.path.islink("x") else os.unlink("x")
"""


def test_a_workspace_that_changes_while_it_is_copied_makes_no_changes_and_no_error(
    work: Path, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", CHURN], cwd=work) as churning:
        try:
            for number in range(100):
                layer = copied(work, tmp_path / f"run-{number}")
                assert changes(layer) == []
        finally:
            churning.kill()
