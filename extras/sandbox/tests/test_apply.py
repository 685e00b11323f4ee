"""Changes that are applied to a real folder, and taken back: what a person finds there."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras.sandbox.tests.real_trees import (
    FIFO,
    Tree,
    changes_between,
    next_moment,
    run_in,
    seen,
    shape,
    write,
)
from skills_agent.sandbox.apply import KEPT, Applier, ApplyError
from skills_agent.skills.scripts.changes import Change
from tests.examples import trying

HELD: Tree = {"kept": 0o755, "kept/other.txt": b"other"}
CASES: dict[str, tuple[Tree, Tree]] = {
    "files": ({"a": b"old", "b": b"old", "c": b"old"}, {"a": b"new", "b": b"", "d": b"new"}),
    "executables": ({"a": b"old", "b": b"#!old", "c": b"#!old"}, {"a": b"#!new", "b": b"new", "d": b"#!new"}),
    "links": ({"a": "/nowhere", "b": "kept"}, {"a": "kept", "c": "kept/other.txt"}),
    "folders": ({"a": 0o755, "b": 0o755, "f": FIFO}, {"a": 0o700, "c": 0o750}),
    "folders added in one another": ({}, {"a": 0o755, "a/b": 0o711, "a/b/c": b"new", "a/d": b"new"}),
    "folder with content removed": ({"a": 0o750, "a/b": 0o711, "a/b/c": b"old", "a/l": "b", "a/f": FIFO}, {}),
    "folder that nobody may write to added": ({}, {"a": 0o555, "a/b": 0o500, "a/b/c": b"new"}),
    "names of every kind": (
        {"-rf": b"old", "a\nb": b"old", "\udcff\udcfe": b"old"},
        {**dict.fromkeys(("-rf", "a\nb", "\udcff\udcfe", " ", "x" * 255), b"new"), "é\u202e": "\udcff"},
    ),
    "other kinds of things": (
        {"a": b"old", "b": "kept", "c": b"old", "d": "kept", "e": FIFO, "f": 0o755, "f/other.txt": b"old"},
        {
            "a": "kept",
            "b": b"new",
            "c": 0o755,
            "c/b": b"new",
            "d": 0o755,
            "d/e": b"new",
            "e": b"new",
            "f": "kept",
        },
    ),
    "much at a time": (
        {"a": 0o755, "a/b": b"old", "c": b"old", "d": "c", "e": 0o755, "e/f": 0o755, "e/f/g": b"old"},
        {"a": b"new", "c": 0o711, "c/c": b"new", "d": b"new", "e": 0o700, "e/f": "g", "e/g": b"#!new"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_changes_are_applied_and_taken_back_to_the_byte(folder: Path, name: str) -> None:
    before, after = CASES[name]
    run = run_in(folder, {**HELD, **before}, {**HELD, **after})
    untouched, wanted, exact = shape(run.workspace), shape(run.layer), seen(run.workspace)

    assert run.apply() == []
    assert shape(run.workspace) == wanted
    assert shape(run.layer) == wanted  # what is in it can be looked at still
    assert [(plan.label, plan.changes) for plan in run.applier.last()] == [("run.py", run.changes)]

    assert run.applier.undo() == []
    assert shape(run.workspace) == untouched
    back = seen(run.workspace).items()
    assert exact.items() - back <= {each for each in exact.items() if each[0] in wanted}
    assert run.applier.last() == []


NODES = st.one_of(
    st.binary(max_size=2), st.sampled_from([b"#!", "a", "/nowhere", 0o755, 0o755, 0o755, 0o500, FIFO])
)
TREES = st.dictionaries(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join), NODES, max_size=12
)


def whole(tree: dict[str, bytes | str | int]) -> Tree:
    """Return a tree that can be written: what is in no folder is left out."""
    kept: dict[str, bytes | str | int] = {}
    for path, node in sorted(tree.items()):
        above = kept.get(path.rpartition("/")[0], 0o755 if "/" not in path else b"")
        if isinstance(above, int) and above != FIFO:
            kept[path] = node
    return kept


@given(TREES, TREES)
@trying(300)
def test_any_tree_becomes_any_other_and_is_given_back(
    before: dict[str, bytes | str | int], after: dict[str, bytes | str | int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        run = run_in(folder, whole(before), whole(after))
        untouched, wanted = shape(run.workspace), shape(run.layer)
        if any(each.kind == "special" and each.act != "removed" for each in run.changes):
            with pytest.raises(ApplyError, match="is no file, link or folder"):
                run.apply()
            assert shape(run.workspace) == untouched
            return
        assert run.apply() == []
        assert shape(run.workspace) == wanted
        if run.changes:
            assert run.applier.undo() == []
        assert shape(run.workspace) == untouched


def wrote(path: str, content: bytes) -> Callable[[Path], object]:
    return lambda root: (root / path).write_bytes(content)


def made(path: str) -> Callable[[Path], object]:
    return lambda root: (root / path).mkdir()


def removed(path: str) -> Callable[[Path], object]:
    return lambda root: shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()


def moded(path: str, mode: int) -> Callable[[Path], object]:
    return lambda root: (root / path).chmod(mode)


def all_of(*acts: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda root: [act(root) for act in acts]


def linked(path: str) -> Callable[[Path], object]:
    """Put a link to a folder outside in the place of a folder."""

    def put(root: Path) -> None:
        (root / path).rename(root.parent / "outside")
        (root / path).symlink_to(root.parent / "outside")

    return put


FOLDER: Tree = {"d": 0o755, "d/f": b"old", "d/e": 0o755, "d/e/g": b"old"}
MEANWHILE: dict[str, tuple[Tree, Tree, Callable[[Path], object], list[str]]] = {
    "changed file edited": ({"a": b"old"}, {"a": b"new"}, wrote("a", b"mine"), ["a"]),
    "changed file edited alike": ({"a": b"old"}, {"a": b"new"}, wrote("a", b"new"), []),
    "changed file moded": ({"a": b"old"}, {"a": b"new"}, moded("a", 0o600), ["a"]),
    "changed file removed": ({"a": b"old"}, {"a": b"new"}, removed("a"), ["a"]),
    "changed link edited": ({"a": "x"}, {"a": "y"}, all_of(removed("a"), wrote("a", b"")), ["a"]),
    "changed folder moded": ({"a": 0o755}, {"a": 0o700}, moded("a", 0o711), ["a"]),
    "changed folder removed": ({"a": 0o755}, {"a": 0o700}, removed("a"), ["a"]),
    "added file written": ({}, {"a": b"new"}, wrote("a", b"mine"), ["a"]),
    "added file is a folder": ({}, {"a": b"new"}, made("a"), ["a"]),
    "added folder made": ({}, {"a": 0o755, "a/b": b"new"}, made("a"), []),
    "added folder is a file": ({}, {"a": 0o755, "a/b": b"new"}, wrote("a", b"mine"), ["a"]),
    "removed file edited": ({"a": b"old"}, {}, wrote("a", b"mine"), ["a"]),
    "removed file removed": ({"a": b"old"}, {}, removed("a"), []),
    "file in removed folder edited": (FOLDER, {}, wrote("d/e/g", b"mine"), ["d/e/g"]),
    "file in removed folder added": (FOLDER, {}, wrote("d/e/h", b"mine"), ["d/e", "d/e/h"]),
    "replaced file edited": ({"a": b"old"}, {"a": 0o755}, wrote("a", b"mine"), ["a"]),
    "folder above removed": (
        FOLDER,
        {**FOLDER, "d/e/h": b"new", "d/f": b"new"},
        removed("d"),
        ["d", "d/e", "d/f"],
    ),
    "something else edited": (FOLDER, {**FOLDER, "d/h": b"new"}, wrote("d/f", b"mine"), []),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_nothing_is_applied_over_what_somebody_changed_meanwhile(folder: Path, name: str) -> None:
    before, after, meanwhile, conflicting = MEANWHILE[name]
    run = run_in(folder, before, after)
    meanwhile(run.workspace)
    untouched = shape(run.workspace)
    conflicts = run.apply()
    assert [each.path for each in conflicts] == conflicting
    if conflicting:
        assert shape(run.workspace) == untouched
        assert run.applier.last() == []
        assert run.apply(over_conflicts=True) == []  # a person said so
    for path, node in shape(run.layer).items():
        if after[path] != before.get(path):
            assert shape(run.workspace)[path]._replace(mtime=0) == node._replace(mtime=0)
    if run.applier.last():
        assert run.applier.undo() == []
        assert shape(run.workspace) == untouched


def test_what_is_there_is_no_place_for_what_was_added_however_old_it_is(folder: Path) -> None:
    run = run_in(folder, {}, {"a": b"new"})
    write(run.workspace, {"a": b"old"})
    run.moment = 1 << 62
    assert [each.path for each in run.apply()] == ["a"]


@pytest.mark.parametrize("over_conflicts", [False, True])
def test_nothing_is_applied_through_a_link_whoever_says_so(folder: Path, over_conflicts: bool) -> None:
    run = run_in(folder, FOLDER, {**FOLDER, "d/f": b"new", "d/e/h": b"new"})
    linked("d")(run.workspace)
    untouched = shape(folder / "outside")
    with pytest.raises(ApplyError, match="is reached by a link, or by what is no folder"):
        run.apply(over_conflicts=over_conflicts)
    assert shape(folder / "outside") == untouched


SINCE: dict[str, tuple[Tree, Tree, Callable[[Path], object], list[str]]] = {
    "changed file edited": ({"a": b"old"}, {"a": b"new"}, wrote("a", b"mine"), ["a"]),
    "changed file moded": ({"a": b"old"}, {"a": b"new"}, moded("a", 0o600), ["a"]),
    "changed folder moded": ({"a": 0o755}, {"a": 0o700}, moded("a", 0o711), ["a"]),
    "added file removed": ({}, {"a": b"new"}, removed("a"), ["a"]),
    "added folder filled": ({}, {"a": 0o755}, wrote("a/mine", b""), []),
    "added folder removed": ({}, {"a": 0o755}, removed("a"), []),
    "changed folder is a file": (
        {"a": 0o755},
        {"a": 0o700},
        all_of(removed("a"), wrote("a", b""), moded("a", 0o700)),
        ["a"],
    ),
    "added folder is a file": ({}, {"a": 0o755}, all_of(removed("a"), wrote("a", b"")), ["a"]),
    "removed file is there": ({"a": b"old"}, {}, wrote("a", b"mine"), ["a"]),
    "removed folder is there": ({"a": 0o755}, {}, made("a"), []),
    "removed folder is a file": ({"a": 0o755}, {}, wrote("a", b"mine"), ["a"]),
    "file of a removed folder is there": (
        FOLDER,
        {},
        all_of(made("d"), wrote("d/f", b"mine")),
        ["d/f"],
    ),
    "folder in the place of a file filled": ({"a": b"old"}, {"a": 0o755}, wrote("a/mine", b""), ["a"]),
    "folder above removed": (FOLDER, {"d": 0o755, "d/f": b"new"}, removed("d"), ["d/f"]),
    "folder above is a link": (FOLDER, {"d": 0o755, "d/f": b"new"}, linked("d"), ["d/f"]),
    "something else edited": (FOLDER, {**FOLDER, "d/h": b"new"}, wrote("d/f", b"mine"), []),
}


@pytest.mark.parametrize("name", SINCE)
def test_nothing_is_taken_back_that_somebody_changed_since(folder: Path, name: str) -> None:
    before, after, since, conflicting = SINCE[name]
    run = run_in(folder, before, after)
    assert run.apply() == []
    since(run.workspace)
    untouched = shape(run.workspace)
    conflicts = run.applier.undo()
    assert [each.path for each in conflicts] == conflicting
    if conflicting:
        assert shape(run.workspace) == untouched
        assert run.applier.last()
    elif "mine" in name or "filled" in name or "else" in name:
        assert untouched.keys() >= shape(run.workspace).keys()


def test_the_last_runs_are_taken_back_one_after_the_other(folder: Path) -> None:
    workspace = write(folder / "work", {"a": b"0"})
    applier = Applier(workspace, folder / "own", folder / "journal")
    for number in range(1, KEPT + 3):
        layer = write(folder / f"layer{number}", {"a": b"%d" % number})
        found = changes_between(workspace, layer)
        assert applier.apply(layer, next_moment(folder), found, label=f"run {number}", run=str(number)) == []
    assert len([*(folder / "own" / "undo").glob("[0-9a-f]*")]) == KEPT
    for number in range(KEPT + 2, 2, -1):
        assert [plan.label for plan in applier.last()] == [f"run {number}"]
        assert applier.undo() == []
        assert (workspace / "a").read_bytes() == b"%d" % (number - 1)
    with pytest.raises(ApplyError, match="has no last changes that are kept"):
        applier.undo()


def test_what_is_kept_is_bounded_by_what_it_takes_on_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_agent.sandbox.apply.MAX_KEPT", 1 << 20)
    workspace = write(folder / "work", {"big": b"x" * (2 << 20), "small": b"old", "sparse": b""})
    os.truncate(workspace / "sparse", 2 << 30)
    applier = Applier(workspace, folder / "own", folder / "journal")

    def remove(name: str) -> None:
        found = [Change(name, "removed", "file")]
        assert applier.apply(folder, next_moment(folder), found, label=name, run=name) == []

    remove("small")
    remove("sparse")
    assert (applier.undo(), (workspace / "sparse").stat().st_size) == ([], 2 << 30)
    assert applier.notices == []
    remove("big")
    assert applier.notices == ["`undo` cannot take it back: it replaced more than 1 MiB."]
    assert [*(folder / "own" / "undo").glob("[0-9a-f]*/before/*")] == []
    with pytest.raises(ApplyError, match="has no last changes that are kept"):
        applier.undo()  # not the run before it, either


def test_a_run_that_changed_nothing_is_not_what_is_taken_back(folder: Path) -> None:
    run = run_in(folder, {}, {"a": b"new"})
    assert run.apply() == []
    assert run.apply() == []  # all is as it shall be
    assert len([*(run.workspace / ".agent" / "undo").glob("[0-9a-f]*")]) == 1
    assert run.applier.apply(run.layer, run.moment, [], label="nothing") == []
    assert [plan.label for plan in run.applier.last()] == ["run.py"]


def test_bits_that_give_rights_are_not_applied(folder: Path) -> None:
    run = run_in(folder, {"e": 0o2755}, {"a": b"#!new", "d": 0o755, "e": 0o700})
    run.changes = [each._replace(mode=each.mode | 0o7000) for each in run.changes]
    (run.layer / "a").chmod(0o7755)
    if os.geteuid() == 0:
        os.setxattr(run.layer / "a", "security.capability", bytes.fromhex("0100000200040000") + bytes(12))
    assert run.apply() == []
    assert shape(run.workspace)["a"].mode == shape(run.workspace)["d"].mode == 0o755
    assert os.listxattr(run.workspace / "a") == []
    assert shape(run.workspace)["e"].mode == 0o2700  # it stays its group's


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_a_changed_file_stays_its_owners(folder: Path) -> None:
    run = run_in(folder, {"a": b"old"}, {"a": b"new"})
    os.chown(run.workspace / "a", 65534, 65534)
    run.moment = next_moment(folder)
    assert run.apply() == []
    assert (run.workspace / "a").stat().st_uid == 65534
    assert run.applier.undo() == []
    assert (run.workspace / "a").stat().st_uid == 65534
