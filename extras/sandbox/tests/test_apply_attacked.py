"""Changes that are applied while somebody works against it: scripts, clones, other runs, a full system."""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import pytest

from extras.sandbox.tests.real_trees import Run, Tree, next_moment, run_in, run_of, shape, write
from extras.sandbox.tests.test_apply_killed import is_killed, killed_in_the_middle
from skills_agent.sandbox.apply import Applier, ApplyError
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.trees import remove_tree
from tests.forked import run_forked

CHANGE = Change("a", "added", "file", 3, "0" * 64, mode=0o644)
OUTSIDE = ("../a", "/a", "b/../a", "a//b", "./a", "a/", "", "a\0")
OWN = (".agent/a", ".AGENT/a", ".agent/undo/a", ".agent")


@pytest.fixture
def run(folder: Path) -> Run:
    """Return a run that changed a file, and added one in a folder."""
    before: Tree = {"a": b"old", "d": 0o755, "d/f": b"old"}
    after: Tree = {"a": b"new", "d": 0o755, "d/f": b"new", "d/g": b"new"}
    return run_in(folder, before, after, own=folder / "work" / ".agent")


def files_of_plans(run: Run) -> list[Path]:
    return [*(run.workspace / ".agent" / "undo").glob("[0-9a-f]*")]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        *(
            (CHANGE._replace(path=path), "leads out")
            for path in ("../a", "/a", "b/../a", "a//b", "./a", "a/", "")
        ),
        *(
            (CHANGE._replace(path=path), "its own")
            for path in (".agent/a", ".AGENT/a", ".agent/undo/a", ".agent")
        ),
        (Change(".agent", "removed", "folder"), "its own"),
        (CHANGE._replace(kind="special"), "is no file, link or folder"),
        (CHANGE._replace(path="b"), "No such file"),
        (CHANGE, "is not what it was"),
        (CHANGE._replace(kind="link", target="/"), "is not what it was"),
    ],
)
def test_what_is_no_change_of_a_layer_is_refused(run: Run, refused: Change, why: str) -> None:
    untouched = shape(run.workspace)
    run.changes = [*run.changes[1:], refused]
    with pytest.raises(ApplyError, match=why):
        run.apply(over_conflicts=True)
    assert shape(run.workspace) == untouched
    assert files_of_plans(run) == []
    assert run.applier.recover() == []
    assert run.applier.last() is None


def test_a_file_that_has_another_name_in_the_layer_is_copied(run: Run) -> None:
    other = run.layer.parent / "held by a script"
    os.link(run.layer / "a", other)
    assert run.apply() == []
    other.write_bytes(b"!!!")
    assert (run.workspace / "a").read_bytes() == b"new"


def test_marks_of_the_overlay_do_not_come_along(run: Run) -> None:
    for name in ("user.overlay.opaque", "user.mine"):
        os.setxattr(run.layer / "a", name, b"y")
    assert run.apply() == []
    assert os.listxattr(run.workspace / "a") == ["user.mine"]


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


def hostile(plan: dict[str, object]) -> Iterator[bytes]:
    yield from (b"", b"{", b"[" * 100_000, b"null", json.dumps(plan).encode())
    others: list[dict[str, object]] = [
        {"version": 2},
        {"folder": "/elsewhere"},
        {"changes": [["a"]]},
        {"steps": [["remove", "a"]]},
        {"before": {"..": [0o777, 0, 0, 0]}},
        {"after": {"/": [0o777, 0, 0, 0]}},
    ]
    for path in ("../outside/f", "/etc/passwd", "d/../../outside/f", ""):
        others += [{"steps": [["take", path]]}, {"changes": [Change(path, "added", "file")]}]
    for other in others:
        yield json.dumps([*{**plan, **other}.values()]).encode()


def test_a_damaged_plan_does_nothing_and_is_told(run: Run) -> None:
    whole = {
        "version": 1,
        "folder": str(run.workspace),
        "label": "x",
        "run": "",
        "when": 0.0,
        "changes": [],
        "steps": [["take", "a"]],
        "before": {},
        "after": {},
    }
    untouched = shape(run.workspace.parent)
    for number, text in enumerate(hostile(whole), 1):
        for state in ("plan", "undo"):
            token = f"{number:016x}"
            for inner in ("new", "before"):
                (run.workspace / ".agent" / "undo" / token / inner).mkdir(parents=True, exist_ok=True)
            journal = run.workspace.parent / "journal"
            journal.mkdir(mode=0o700, exist_ok=True)
            (journal / f"{number:06}-{token}.{state}").write_bytes(text)
            (sentence,) = run.applier.recover()
            assert "its plan is damaged" in sentence
            assert [path.suffix for path in journal.glob("*-*")] == [".damaged"]
            (journal / f"{number:06}-{token}.damaged").unlink()
    every = {
        path: each for path, each in shape(run.workspace.parent).items() if not path.startswith("journal")
    }
    assert every == untouched


def test_a_whole_plan_is_carried_out(run: Run) -> None:
    """So what is refused above is refused for what is wrong in it."""
    journal, place = run.workspace.parent / "journal", run.workspace / ".agent" / "undo" / f"{1:016x}"
    for inner in ("new", "before"):
        (place / inner).mkdir(parents=True)
    journal.mkdir(mode=0o700)
    plan = [1, str(run.workspace), "x", "", 0.0, [], [["take", "a"]], {}, {}]
    (journal / f"000001-{place.name}.plan").write_text(json.dumps(plan))
    assert run.applier.recover() == ["The changes of x were cut off: all of them are applied now."]
    assert not (run.workspace / "a").exists()
    assert run.applier.undo() == []
    assert (run.workspace / "a").read_bytes() == b"old"


def test_what_was_cut_off_is_ended_before_the_next_changes_are_applied(run: Run) -> None:
    killed_in_the_middle(run)
    run.changes = []
    assert run.apply() == []
    assert shape(run.workspace) == shape(run.layer)


def test_what_somebody_writes_between_a_crash_and_its_end_is_kept(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(300):
        assert is_killed(number, run.apply)
        if not (run.workspace / "a").exists():
            break
        run.applier.recover()
        if run.applier.last():
            assert run.applier.undo() == []
        run.moment = next_moment(run.layer.parent)
    (run.workspace / "a").write_bytes(b"mine")
    assert len(run.applier.recover()) == 1
    assert (run.workspace / "a").read_bytes() == b"new"
    kept = [path for path in run.workspace.glob(".agent/undo/*/before/*") if path.read_bytes() == b"mine"]
    assert f"a: {kept[0]}" in caplog.text
    assert run.applier.undo() == []
    assert (run.workspace / "a").read_bytes() == b"old"


def test_changes_are_not_told_as_taken_back_while_a_link_is_on_the_way(folder: Path) -> None:
    before: Tree = {"d": 0o755, "e": 0o755}
    run = run_in(folder, before, {**before, "d/g": b"new", "e/h": b"new"}, own=folder / "own")
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


def test_a_folder_of_the_agent_is_not_removed_with_one_above_it(run: Run) -> None:
    applier = Applier(run.workspace, run.workspace / "d" / "own", run.layer.parent / "journal")
    with pytest.raises(ApplyError, match="its own"):
        applier.apply(run.layer, run.moment, [Change("d", "removed", "folder")], label="run")
    assert (run.workspace / "d" / "f").exists()


def test_a_plan_in_the_workspace_is_none(run: Run) -> None:
    plan = killed_in_the_middle(run)
    own = run.workspace / ".agent"
    plan.rename(own / plan.name)
    plan.parent.joinpath("lock").unlink()
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
        (sentence,) = run.applier.recover()
        assert "are gone" in sentence
    with pytest.raises(ApplyError, match="no last changes that are kept"):
        run.applier.undo()
    assert shape(run.workspace) == untouched


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
                ends.add(error.code)
    end.set()
    swapping.join()
    assert shape(outside) == untouched
    assert {"conflict", "done"} <= ends
    run.applier.recover()
    state = shape(run.workspace)
    assert {path: each.content for path, each in state.items()} in (
        {"a": b"old", "d": b"", "d/f": b"old"},
        {"a": b"new", "d": b"", "d/f": b"new", "d/g": b"new"},
    )


def apply_one(folder: Path, number: int, moment: int) -> bool:
    """Apply a file of one of several runs, and one that all of them change; return whether it was applied."""
    layer = folder / f"layer{number}"
    run = run_of(folder / "work", layer, folder / "work" / ".agent", folder / "journal")
    run.moment = moment
    run.changes = [each for each in run.changes if each.path in {"all", f"own{number}"}]
    return run.apply() == []


def several(folder: Path) -> int:
    write(folder / "work", {"all": b"old"})
    for number in range(6):
        write(folder / f"layer{number}", {"all": b"%d" % number, f"own{number}": b"new"})
    return next_moment(folder)


def test_of_runs_that_end_at_one_time_in_threads_one_is_applied_and_the_rest_told(folder: Path) -> None:
    moment = several(folder)
    with ThreadPoolExecutor(6) as pool:
        applied = [*pool.map(lambda number: apply_one(folder, number, moment), range(6))]
    assert_one_was_applied(folder, applied)


def test_of_runs_that_end_at_one_time_in_processes_one_is_applied_and_the_rest_told(folder: Path) -> None:
    moment = several(folder)

    def answered(number: int) -> None:
        (folder / f"answer{number}").write_text(str(apply_one(folder, number, moment)))

    processes = []
    for number in range(6):
        if not (process := os.fork()):
            os._exit(run_forked(answered, number))
        processes.append(process)
    assert [os.waitpid(process, 0)[1] for process in processes] == [0] * 6
    assert_one_was_applied(
        folder, [(folder / f"answer{number}").read_text() == "True" for number in range(6)]
    )


def assert_one_was_applied(folder: Path, applied: list[bool]) -> None:
    assert applied.count(True) == 1
    number = applied.index(True)
    assert shape(folder / "work") == shape(folder / f"layer{number}")


REMOVED = """
import sys; from pathlib import Path
from skills_agent.sandbox.apply import Applier
from skills_agent.skills.scripts.changes import Change
folder = Path(sys.argv[1])
applier = Applier(folder / "work", folder / "work" / ".agent", folder / "journal")
gone = [Change("d", "removed", "folder")]
print(applier.apply(folder / "layer", 1 << 62, gone, label="run", over_conflicts=True))
"""
MOUNTED = 'mount $4 "$1/work/d/e" && touch "$1/work/d/e/f" && "$2" -c "$3" "$1"; ls -R "$1/work"'


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        ("-t tmpfs none", "[Conflict(path='d/e', why='is another file system')]"),
        ("--bind {}/outside", "Nothing was changed: e cannot be changed (Device or resource busy)"),
    ],
)
def test_what_is_mounted_in_a_folder_is_not_removed_with_it(folder: Path, mount: str, why: str) -> None:
    write(folder / "work", {"d": 0o755, "d/e": 0o755, "d/f": b"old"})
    write(folder / "outside", {})
    words = ("unshare", "-Urm", "sh", "-c", MOUNTED, "sh", str(folder), sys.executable, REMOVED)
    done = subprocess.run((*words, mount.format(folder)), capture_output=True, text=True)
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("nothing can be mounted here")
    assert why in done.stdout + done.stderr
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
