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


def test_a_file_that_nobody_may_read_is_applied_and_not_taken_back(
    nobodys: Path,
) -> None:
    def applied() -> None:
        run = run_in(nobodys, {}, {"a": b"new", "d": 0o500, "d/f": b"new"})
        run.changes = [each._replace(mode=0) for each in run.changes]
        assert run.apply() == []
        assert {stat.S_IMODE(each.lstat().st_mode) for each in run.workspace.glob("[ad]")} == {0}
        assert (run.layer / "a").read_bytes() == b"new"  # it can be applied again after a crash
        assert [each.path for each in run.applier.undo()] == ["a"]

    as_nobody(applied)


TO_ALL: Tree = {"a": b"old", "b": b"old", "z": 0o755, "z/f": b"old", "gone": 0o555, "gone/f": b"old"}


@pytest.mark.parametrize(
    "refuse",
    [
        lambda folder: folder.chmod(0o555),
        pytest.param(
            lambda folder: os.chown(folder, 0, 0),
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
        assert run.applier.last() is None
        assert run.applier.recover() == []

    as_nobody(lambda: run_in(nobodys, TO_ALL, after))
    refuse(nobodys / "work" / "z")
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


@pytest.fixture(params=users(), ids=lambda user: f"uid-{user}")
def over(request: pytest.FixtureRequest) -> Iterator[Overlay]:
    with overlay(request.param) as made:
        yield made


@pytest.mark.parametrize("script", [each for each in SCRIPTS if "mkdir" in each or "chmod" in each])
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
