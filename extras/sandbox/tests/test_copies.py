"""A copy of a workspace, as a run gets it where no overlay can be mounted."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from extras.sandbox.tests.overlay import overlay, users
from skills_agent.sandbox import copies
from skills_agent.sandbox.copies import keep_copy, make_copies
from skills_agent.sandbox.layer import Layer, changes, touched_in
from skills_agent.skills.scripts.run_folders import next_tick

BEFORE = """
mkdir -p .agent .git sub/.git ro dark; echo x > .agent/x; echo x > .git/HEAD; echo x > sub/.git/HEAD
echo a > a; ln a hard; chmod 640 a; ln -s /etc out; ln -s a in; mkfifo pipe; echo x > ro/x; chmod 500 ro
touch -d 2001-01-01 ro sub a; python3 -c "open(b'n\\nl\\xff', 'w')"
"""


def copied(work: Path, store: Path, *, mounts: bool = True) -> Layer:
    store.mkdir()
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


# What a run does in its copy, and what somebody else does afterwards in the real folder.
KEPT = [
    ("true", "true"),
    ("echo z > a; touch -r b a; echo z > new; rm b; mkdir n; echo z > n/z", "true"),
    ("mv d e; mkdir d; mv e d/e; cp -p a d/c", "true"),
    ("mv a x; mv b a; mv x b", "true"),
    ("rm -r d; echo z > d; rm a; mkdir -p a/b; echo z > a/b/z", "mkdir n; echo n > n/n"),
    ("ln a ../../../hard; ln -f ../../../own b; ln -s / d/out; mkfifo p", "true"),
    ("rm -r d; ln -s /etc d; echo z >> a; chmod 000 .", "rm -r d; echo d > d"),
    ("chmod 500 d; chmod 000 d/e; chmod 4755 a", "echo more >> d/e/f; mv a b"),
    ("rm -rf .git; mkdir .git; echo z > .git/config", "mkdir -p n/.agent; mv d n"),
    ("echo z > d/z; chmod 000 d/z d", "mkdir -p d/z/y; chmod 500 d; ln -sf nowhere link"),
    ("mkdir -p n/n; echo z > n/n/z", "mkdir n; echo other > n/n; echo c > C; rm -r d; mkdir d"),
    ("true", "mv d x; mkdir d; cp -a x/. d; rm a; mkdir a; ln -s a here; rm link; mkdir link; echo > link/l"),
]


def shape(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return what is in a folder, but for what is the agent's and git's."""
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        status, name = path.lstat(), str(path.relative_to(folder))
        if {".git", ".agent"} & {*Path(name).parts[:1]}:
            continue
        is_file, is_link = stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode)
        content = path.read_bytes() if is_file else path.readlink() if is_link else None
        found[name] = status.st_mode, 0 if is_link else status.st_mtime_ns, content
    return found


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize(("script", "others"), KEPT)
def test_a_copy_that_is_kept_is_brought_up_to_date(script: str, others: str, user: int) -> None:
    with overlay(user, copied=True) as over:
        over.before(
            "mkdir -p .git d/e; echo a > a; echo b > b; echo f > d/e/f; ln -s a link; echo g > .git/g"
        )
        store = over.place / "upper"

        def laid() -> Layer:
            (store / "run").mkdir(exist_ok=True)
            moment = next_tick(store)
            (layer,) = make_copies(store / "run", [over.lower], moment, workspace=over.lower, mounts=True)
            assert shape(layer.content) == shape(over.lower)
            assert changes(layer) == []
            return layer

        def runs() -> None:
            (store / "own").write_text("own")
            layer = laid()
            done = over.shell("sh", "-euc", f'cd "$0"; {script}', str(layer.content))
            assert done.returncode == 0, done.stderr
            keep_copy(layer, touched_in(layer))
            over.before(others)
            for path in (store / "hard", store / "own"):
                path.write_text("evil")
            kept = {path.stat().st_ino for path in store.glob("copy-*/upper/d/e")}
            assert {path.stat().st_ino for path in laid().content.glob("d/e")} >= (
                kept if script == others == "true" else set()
            )

        over.call(runs)


def test_no_copy_is_kept_for_the_next_start_of_the_machine(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "d").mkdir()
    layer = copied(work, tmp_path / "run-1")
    inode = (layer.content / "d").stat().st_ino
    keep_copy(layer, touched_in(layer))
    (tmp_path / "boot_id").write_text("another")
    monkeypatch.setattr(copies, "BOOT", tmp_path / "boot_id")
    assert (copied(work, tmp_path / "run-2").content / "d").stat().st_ino != inode


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
