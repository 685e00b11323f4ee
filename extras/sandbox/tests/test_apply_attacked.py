"""Changes that are applied while somebody works against it: scripts, clones, other runs, a full system."""

import ctypes
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

import pytest

from extras.sandbox.tests.real_trees import Run, Tree, next_moment, run_in, run_of, shape, write
from extras.sandbox.tests.test_apply_killed import killed_in_the_middle
from skills_agent.sandbox.apply import Applier, ApplyError
from skills_agent.sandbox.layered import LayerStore
from skills_agent.sandbox.overlay import make_layers
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.trees import remove_tree

CHANGE = Change("a", "added", "file", 3, "0" * 64, mode=0o644)
OUTSIDE = ("../a", "/a", "b/../a", "a\0")
NO_PATH = ("a//b", "./a", "a/", "")
OWN = (".agent/a", ".AGENT/a", ".agent/undo/a", ".agent", "../journal/a")


@pytest.fixture
def run(folder: Path) -> Run:
    """Return a run that changed a file, and added one in a folder."""
    before: Tree = {"a": b"old", "d": 0o755, "d/f": b"old"}
    return run_in(folder, before, {"a": b"new", "d": 0o755, "d/f": b"new", "d/g": b"new"})


def files_of_plans(run: Run) -> list[Path]:
    return [*(run.workspace / ".agent" / "undo").glob("0*")]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        *((CHANGE._replace(path=path), "leads out") for path in OUTSIDE),
        *((CHANGE._replace(path=path), "no path of a change") for path in NO_PATH),
        *((CHANGE._replace(path=path), "its own") for path in OWN[:-1]),
        (Change(".agent", "removed", "folder"), "its own"),
        (CHANGE._replace(kind="special"), "is no file, link or folder"),
        (CHANGE._replace(path="b"), "No such file"),
        (CHANGE, "is not what it was"),
        (CHANGE._replace(kind="link", target="/"), "is not what it was"),
        (CHANGE._replace(path="fifo", size=0, digest=sha256().hexdigest()), "is not what it was"),
    ],
)
def test_what_is_no_change_of_a_layer_is_refused(run: Run, refused: Change, why: str) -> None:
    os.mkfifo(run.layer / "fifo")
    untouched = shape(run.workspace)
    run.changes = [*run.changes[1:], refused]
    with pytest.raises(ApplyError, match=why):
        run.apply(over_conflicts=True)
    assert shape(run.workspace) == untouched
    assert files_of_plans(run) == []
    assert run.applier.recover() == []
    assert run.applier.last() == []


@pytest.mark.parametrize(
    ("own", "journal", "change"),
    [
        *((own, "../journal", Change("d", "removed", "folder")) for own in ("d/own", "d")),
        (".agent", "d/journal", Change("d", "removed", "folder")),
        ("d/Own", "../journal", CHANGE._replace(path="d/own/a")),
    ],
)
def test_what_the_agent_keeps_is_not_reached_wherever_it_is(
    run: Run, own: str, journal: str, change: Change
) -> None:
    applier = Applier(run.workspace, run.workspace / own, run.workspace / journal)
    with pytest.raises(ApplyError, match="its own"):
        applier.apply(run.layer, run.moment, [change], label="run")
    assert (run.workspace / "d" / "f").exists()


def test_a_file_that_has_another_name_in_the_layer_is_copied(run: Run) -> None:
    other = run.layer.parent / "held by a script"
    os.link(run.layer / "a", other)
    assert run.apply() == []
    other.write_bytes(b"!!!")
    assert (run.workspace / "a").read_bytes() == b"new"


@pytest.mark.parametrize("place", [".agent", ".agent/undo"])
def test_a_clone_that_brings_links_along_gets_nothing_written_there(run: Run, place: str) -> None:
    outside = write(run.workspace.parent / "outside", {"f": b"old"})
    (run.workspace / place).parent.mkdir(exist_ok=True)
    (run.workspace / place).symlink_to(outside)
    untouched = shape(run.workspace)
    with pytest.raises(ApplyError):
        run.apply()
    assert shape(run.workspace) == untouched
    assert [*outside.iterdir()] == [outside / "f"]


PLAN = [2, "x", "", 0.0, [], [["take", "a"]], {}, {}]
DAMAGED = (
    "",
    "{",
    "[" * 100_000,
    "null",
    *map(json.dumps, (PLAN[:7], [1, *PLAN[1:]], [*PLAN[:5], [["rm", "a"]], {}, {}])),
)


@pytest.mark.parametrize("state", ["plan", "undo"])
@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_plan_does_nothing_and_is_told(run: Run, text: str, state: str) -> None:
    untouched = shape(run.workspace)
    journal, name = run.workspace.parent / "journal", f"000001-{1:016x}"
    for inner in ("new", "before"):
        (run.workspace / ".agent/undo" / name / inner).mkdir(parents=True)
    journal.mkdir(mode=0o700)
    (journal / f"{name}.{state}").write_text(text)
    assert "its plan is damaged" in run.applier.recover()[0]
    assert [path.name for path in journal.glob("*-*")] == [f"{name}.damaged"]
    assert shape(run.workspace) == untouched
    (journal / f"{name}.{state}").write_text(json.dumps(PLAN))
    assert "cut off: all of them are" in run.applier.recover()[0]


def test_what_was_cut_off_is_ended_before_the_next_changes_are_applied(run: Run) -> None:
    killed_in_the_middle(run)
    run.changes = []
    assert run.apply() == []
    assert shape(run.workspace) == shape(run.layer)


def test_what_somebody_writes_between_a_crash_and_its_end_is_kept(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    killed_in_the_middle(run, lambda: not (run.workspace / "a").exists())
    (run.workspace / "a").write_bytes(b"mine")
    assert len(run.applier.recover()) == 1
    assert (run.workspace / "a").read_bytes() == b"new"
    (kept,) = (path for path in run.workspace.glob(".agent/undo/*/before/*") if path.read_bytes() == b"mine")
    assert f"wrote a meanwhile, and it is kept: {kept}" in caplog.text
    assert run.applier.undo() == []
    assert (run.workspace / "a").read_bytes() == b"old"


def test_changes_are_not_told_as_taken_back_while_a_link_is_on_the_way(folder: Path) -> None:
    before: Tree = {"d": 0o755, "e": 0o755}
    run = run_in(folder, before, {**before, "d/g": b"new", "e/h": b"new"})
    killed_in_the_middle(run)
    assert not (run.workspace / "e" / "h").exists()
    untouched = shape(write(folder / "outside", {}))
    for name in ("d", "e"):
        (run.workspace / name).rename(folder / name)
        (run.workspace / name).symlink_to(folder / "outside")
    with pytest.raises(ScriptError, match="half applied"):
        run.applier.recover()
    assert shape(folder / "outside") == untouched
    for name in ("d", "e"):
        (run.workspace / name).unlink()
        (folder / name).rename(run.workspace / name)
    assert len(run.applier.recover()) == 1
    assert shape(run.workspace).keys() in (shape(run.layer).keys(), before.keys())


def test_a_plan_in_the_workspace_is_none(run: Run) -> None:
    plan = killed_in_the_middle(run)
    own = run.workspace / ".agent"
    plan.rename(own / plan.name)
    untouched = shape(run.workspace)
    assert run.applier.recover() == []
    assert Applier(run.workspace, own, run.workspace.parent / "other journal").recover() == []
    assert shape(run.workspace) == untouched


@pytest.mark.parametrize("is_begun", [False, True])
def test_changes_whose_files_are_gone_are_told(run: Run, is_begun: bool) -> None:
    if is_begun:
        killed_in_the_middle(run)
    else:
        assert run.apply() == []
    for path in files_of_plans(run):
        path.rename(run.layer.parent / path.name)
    untouched = shape(run.workspace)
    if is_begun:
        assert "its files are gone" in run.applier.recover()[0]
    assert run.applier.last() == []
    with pytest.raises(ApplyError, match="no last changes that are kept"):
        run.applier.undo()
    assert shape(run.workspace) == untouched


@pytest.mark.slow
def test_links_that_are_swapped_in_lead_nothing_outside(run: Run) -> None:
    outside = write(run.workspace.parent / "outside", {"f": b"old", "other": b"old"})
    link, end = run.workspace.parent / "link", Event()
    link.symlink_to(outside)
    untouched = shape(outside)
    names = (-100, os.fsencode(run.workspace / "d"), -100, os.fsencode(link), 2)
    libc = ctypes.CDLL(None)

    def swap() -> None:
        while not end.is_set():
            for _ in range(2):
                assert libc.renameat2(*names) == 0  # each has the other's name, at one moment

    swapping = Thread(target=swap)
    swapping.start()
    ends: set[str] = set()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        run.moment = next_moment(run.layer.parent)
        for each in (run.apply, run.applier.undo, run.applier.recover):
            try:
                ends.add("conflict" if each() else "done")
            except ScriptError as error:
                ends.add(str(error))
    end.set()
    swapping.join()
    assert shape(outside) == untouched
    assert any("is reached by a link" in each for each in ends)
    assert {"conflict", "done"} <= ends
    run.applier.recover()
    state = shape(run.workspace)
    assert {path: each.content for path, each in state.items()} in (
        {"a": b"old", "d": b"", "d/f": b"old"},
        {"a": b"new", "d": b"", "d/f": b"new", "d/g": b"new"},
    )


def apply_one(folder: Path, moment: int, number: int) -> bool:
    """Apply a file of one of several runs, and one that all of them change; return whether it was applied."""
    run = run_of(folder / "work", folder / f"layer{number}")
    run.moment = moment
    run.changes = [each for each in run.changes if each.path in {"all", f"own{number}"}]
    return run.apply() == []


def test_of_runs_that_end_at_one_time_one_is_applied_and_the_rest_told(folder: Path) -> None:
    write(folder / "work", {"all": b"old"})
    for number in range(6):
        write(folder / f"layer{number}", {"all": b"%d" % number, f"own{number}": b"new"})
    with ProcessPoolExecutor(6, multiprocessing.get_context("fork")) as workers:
        applied = [*workers.map(partial(apply_one, folder, next_moment(folder)), range(6))]
    assert applied.count(True) == 1
    assert shape(folder / "work") == shape(folder / f"layer{applied.index(True)}")


def test_whoever_applies_changes_waits_for_another_one(run: Run) -> None:
    assert run.applier.last() == []
    with (run.workspace.parent / "journal" / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = Thread(target=run.apply)
        waiting.start()
        waiting.join(0.2)
        assert (run.workspace / "a").read_bytes() == b"old"
    waiting.join()
    assert (run.workspace / "a").read_bytes() == b"new"


def test_what_cannot_be_applied_waits_for_a_person(folder: Path) -> None:
    work = write(folder / "work", {".agent": "elsewhere"})
    store = LayerStore.of(folder, work)
    make = partial(make_layers, moment=next_moment(folder))
    with store.opened([work], make) as layers:
        write(layers.layers[work].content, {"a": b"new"})
        layers.look((), "", "run")
    ((asked,),) = layers.judged.values()
    assert (asked.change.path, asked.decision) == ("a", "ask")
    assert "Nothing was changed: .agent cannot be changed (Not a directory)" in layers.notices[0]


REMOVED = """
import sys; from pathlib import Path
from skills_agent.sandbox.apply import Applier
from skills_agent.skills.scripts.changes import Change
folder = Path(sys.argv[1])
applier = Applier(folder / "work", folder / "work" / ".agent", folder / "journal")
applier.apply(folder, 1 << 62, [Change("d", "removed", "folder")], label="run", over_conflicts=True)
"""
MOUNTED = 'mount $4 "$1/work/d/e" && touch "$1/work/d/e/f" && "$2" -c "$3" "$1"; ls -R "$1/work"'


@pytest.mark.parametrize("mount", ["-t tmpfs none", "--bind {}/outside"])
def test_what_is_mounted_in_a_folder_is_not_removed_with_it(folder: Path, mount: str) -> None:
    write(folder / "work", {"d": 0o755, "d/e": 0o755, "d/f": b"old"})
    write(folder / "outside", {})
    words = ("unshare", "-Urm", "sh", "-c", MOUNTED, "sh", str(folder), sys.executable, REMOVED)
    done = subprocess.run((*words, mount.format(folder)), capture_output=True, text=True)
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("nothing can be mounted here")
    assert "Nothing was changed: f cannot be changed (Invalid cross-device link)" in done.stderr
    assert "work/d:\ne\nf\n" in done.stdout
    assert "work/d/e:\nf\n" in done.stdout


def test_a_folder_that_is_too_deep_for_a_plan_is_not_removed(folder: Path) -> None:
    inner = os.open(write(folder / "work", {}), os.O_RDONLY)
    for number in range(25):
        name = "x" * 200 if number else "d"
        os.mkdir(name, dir_fd=inner)
        outer, inner = inner, os.open(name, os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)
    applier = Applier(folder / "work", folder / "own", folder / "journal")
    with pytest.raises(ApplyError, match="name too long"):
        applier.apply(folder, 1 << 62, [Change("d", "removed", "folder")], label="run")
    assert (folder / "work" / "d").is_dir()
    remove_tree(folder / "work")
