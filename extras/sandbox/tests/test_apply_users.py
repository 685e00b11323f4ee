"""Changes that are applied by users with few rights, and those of scripts in real overlays."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from extras.sandbox.tests.overlay import NOBODY, Overlay, overlay, users
from extras.sandbox.tests.real_trees import Seen, Tree, next_moment, run_in, run_of, shape
from extras.sandbox.tests.test_apply_killed import killed_in_the_middle
from extras.sandbox.tests.test_layer import BEFORE, SCRIPTS
from skills_agent.sandbox.apply import Applier, ApplyError
from skills_agent.sandbox.layer import changes
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.trees import remove_tree
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


READ_ONLY: Tree = {"d": 0o555, "d/f": b"old", "d/e": 0o555, "d/e/g": b"old", "a": 0o555, "a/b": b"old"}


def test_folders_without_the_right_to_write_are_changed_and_given_back(nobodys: Path) -> None:
    def applied() -> None:
        after: Tree = {"d": 0o555, "d/f": b"new", "a": 0o700, "a/c": 0o500, "a/c/d": b"new", "x": 0o300}
        run = run_in(nobodys, READ_ONLY, after, own=nobodys / "own")
        untouched, wanted = shape(run.workspace), shape(run.layer)
        assert run.apply() == []
        assert shape(run.workspace) == wanted
        assert run.applier.undo() == []
        assert shape(run.workspace) == untouched

    as_nobody(applied)


def test_a_file_that_nobody_may_read_can_be_applied_again_after_a_crash(nobodys: Path) -> None:
    def applied() -> None:
        run = run_in(nobodys, {}, {"a": b"new"}, own=nobodys / "own")
        run.changes = [each._replace(mode=0) for each in run.changes]
        assert run.apply() == []
        assert stat.S_IMODE((run.workspace / "a").stat().st_mode) == 0
        assert (run.layer / "a").read_bytes() == b"new"

    as_nobody(applied)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes folders of another user")
@pytest.mark.parametrize("disk", ["same", "other"])
def test_changes_that_cannot_all_be_applied_are_all_taken_back(nobodys: Path, disk: str) -> None:
    own = nobodys / "own"
    if disk == "other":
        own = Path("/dev/shm", nobodys.name)
        if not own.parent.is_dir():
            pytest.skip("there is one file system")

    def written() -> None:
        before: Tree = {"a": b"old", "b": b"old", "z": 0o755, "z/f": b"old", "gone": 0o755, "gone/f": b"old"}
        run_in(nobodys, before, {"a": b"new", "b": 0o755, "z": 0o755, "z/f": b"new"}, own=own)

    def applied() -> None:
        untouched = shape(nobodys / "work")
        run = run_of(nobodys / "work", nobodys / "layer", own, nobodys / "journal")
        with pytest.raises(ApplyError, match="Permission denied"):
            run.apply()
        assert shape(run.workspace) == untouched
        assert run.applier.last() is None
        assert run.applier.recover() == []

    as_nobody(written)
    os.chown(nobodys / "work" / "z", 0, 0)
    as_nobody(applied)
    if disk == "other":
        remove_tree(own)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes folders of another user")
def test_changes_that_are_half_applied_are_told_until_they_can_be_ended(nobodys: Path) -> None:
    own, journal = nobodys / "own", nobodys / "journal"

    def killed() -> None:
        run = run_in(
            nobodys,
            {"a": 0o755, "a/f": b"old", "z": 0o755, "z/f": b"old"},
            {"a": 0o755, "a/f": b"new", "z": 0o755, "z/f": b"new"},
            own=own,
        )
        killed_in_the_middle(run)

    def recovered() -> None:
        with pytest.raises(ScriptError, match="half applied") as raised:
            Applier(nobodys / "work", own, journal).recover()
        assert raised.value.code == "half-applied"
        with pytest.raises(ScriptError, match="half applied"):
            Applier(nobodys / "work", own, journal).undo()

    as_nobody(killed)
    for name in ("a", "z"):
        os.chown(nobodys / "work" / name, 0, 0)
    as_nobody(recovered)
    for name in ("a", "z"):
        os.chown(nobodys / "work" / name, NOBODY, NOBODY)
    as_nobody(lambda: Applier(nobodys / "work", own, journal).recover())
    assert shape(nobodys / "work") == shape(nobodys / "layer")


@pytest.fixture(params=users(), ids=lambda user: f"uid-{user}")
def over(request: pytest.FixtureRequest) -> Iterator[Overlay]:
    with overlay(request.param) as made:
        yield made


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_did_in_an_overlay_is_what_it_would_have_done(over: Overlay, script: str) -> None:
    over.place.chmod(0o777)
    over.before(BEFORE)
    plain = over.place / "plain"
    over.shell("cp", "-a", "--", str(over.lower), str(plain))
    over.run(script)
    over.shell("sh", "-euc", f"cd {plain}; {script}")

    def applied() -> None:
        moment = next_moment(over.place / "work")
        applier = Applier(over.lower, over.lower / ".agent", over.place / "upper.journal")
        found = changes(over.layer)
        wanted = [each for each in found if each.kind != "special" or each.act == "removed"]
        untouched = contents(over.lower)
        assert applier.apply(over.place / "upper", moment, wanted, label="script") == []
        if wanted == found:
            assert contents(over.lower) == contents(plain)
        if wanted:
            assert applier.undo() == []
        assert contents(over.lower) == untouched

    if over.user == os.geteuid():
        applied()
    else:
        as_nobody(applied)


def contents(folder: Path) -> dict[str, Seen]:
    """Return a tree without its times: a script is run twice here."""
    return {path: each._replace(mtime=0) for path, each in shape(folder).items()}
