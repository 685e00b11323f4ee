"""Changes that are applied by users with few rights."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from extras.sandbox.tests.overlay import NOBODY
from extras.sandbox.tests.real_trees import Tree, run_in, run_of, shape
from extras.sandbox.tests.test_apply_killed import killed_in_the_middle
from skills_agent.sandbox.apply import Applier, ApplyError
from skills_agent.skills.errors import ScriptError
from tests.forked import run_forked


def as_nobody(function: Callable[[], object]) -> None:
    """Run a function as a user who has no rights but his own."""
    if os.geteuid() != 0:
        function()
        return

    def dropped() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        function()

    assert run_forked(dropped) == 0


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """Return a folder that another user has, outside of pytest's, which nobody may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield folder


def test_a_file_that_nobody_may_read_is_applied_and_not_taken_back(nobodys: Path) -> None:
    def applied() -> None:
        run = run_in(nobodys, {}, {"a": b"new"})
        run.changes = [each._replace(mode=0) for each in run.changes]
        assert run.apply() == []
        assert stat.S_IMODE((run.workspace / "a").lstat().st_mode) == 0
        assert (run.layer / "a").read_bytes() == b"new"  # it can be applied again after a crash
        assert [each.path for each in run.applier.undo()] == ["a"]

    as_nobody(applied)


def test_folders_without_rights_are_filled_and_removed_and_given_back(nobodys: Path) -> None:
    def applied() -> None:
        before: Tree = {"gone": 0o555, "gone/e": 0o500, "gone/e/f": b"old"}
        run = run_in(nobodys, before, {"d": 0o700, "d/f": b"new", "d/x": 0o300})
        run.changes = [each._replace(mode=0) if each.path == "d" else each for each in run.changes]
        untouched, wanted = shape(run.workspace), shape(run.layer)
        assert run.apply() == []
        assert stat.S_IMODE((run.workspace / "d").stat().st_mode) == 0
        (run.workspace / "d").chmod(0o700)
        assert shape(run.workspace) == wanted
        assert run.applier.undo() == []
        assert shape(run.workspace) == untouched

    as_nobody(applied)


TO_ALL: Tree = {"a": b"old", "b": b"old", "z": 0o755, "z/f": b"old", "gone": 0o555, "gone/f": b"old"}


@pytest.mark.parametrize(
    "refuse",
    [
        lambda work: (work / "z").chmod(0o555),
        pytest.param(
            lambda work: os.chown(work / "gone", 0, 0),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="makes folders of another user"),
        ),
    ],
    ids=["without the right", "of another user"],
)
def test_changes_that_cannot_all_be_applied_are_all_taken_back(
    nobodys: Path, refuse: Callable[[Path], object]
) -> None:
    after: Tree = {"a": b"new", "b": 0o755, "z": 0o755, "z/f": b"new"}

    def applied() -> None:
        untouched = shape(nobodys / "work")
        run = run_of(nobodys / "work", nobodys / "layer")
        run.changes = [each for each in run.changes if each.path != "z"]
        with pytest.raises(ApplyError, match="Permission denied"):
            run.apply()
        assert shape(run.workspace) == untouched
        assert run.applier.last() == []
        assert run.applier.recover() == []

    as_nobody(lambda: run_in(nobodys, TO_ALL, after))
    refuse(nobodys / "work")
    as_nobody(applied)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes folders of another user")
def test_changes_that_are_half_applied_are_told_until_they_can_be_ended(nobodys: Path) -> None:
    applier = Applier(nobodys / "work", nobodys / "work" / ".agent", nobodys / "journal")
    trees = [{"a": 0o755, "a/f": content, "z": 0o755, "z/f": content} for content in (b"old", b"new")]

    def refused() -> None:
        for each in (applier.recover, applier.undo):
            with pytest.raises(ScriptError, match="half applied") as raised:
                each()
            assert raised.value.code == "half-applied"

    def owned_by(user: int) -> None:
        for name in ("a", "z"):
            os.chown(nobodys / "work" / name, user, user)

    as_nobody(lambda: killed_in_the_middle(run_in(nobodys, *trees)))
    owned_by(0)
    as_nobody(refused)
    owned_by(NOBODY)
    as_nobody(applier.recover)
    assert shape(nobodys / "work") == shape(nobodys / "layer")
