"""An agent that is killed while it applies changes, before every system call that changes something."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from extras.sandbox.tests.real_trees import Run, Tree, next_moment, run_in, shape
from tests.forked import run_forked

OLD: Tree = {"a": 0o755, "a/b": b"old", "c": b"old", "d": "c", "e": 0o755, "e/f": 0o500, "e/f/g": b"old"}
NEW: Tree = {"a": b"new", "c": 0o711, "c/c": b"new", "d": b"new", "e": 0o700, "e/f": "g", "e/g": b"#!new"}
BEFORE: Tree = {**OLD, "same": 0o755, "same/h": b"old", "gone": b"old", "moded": 0o755}
AFTER: Tree = {**NEW, "same": 0o755, "same/h": b"new", "same/i": 0o555, "same/i/j": b"new", "moded": 0o700}
CHANGING = (
    "open",
    "os.rename",
    "os.link",
    "os.mkdir",
    "os.rmdir",
    "os.remove",
    "os.chmod",
    "os.symlink",
    "os.utime",
)


def killing(number: int, function: Callable[[], object]) -> None:
    """Run a function, and kill this process before its call of that number that changes something."""
    left = number

    def hook(event: str, _: object) -> None:
        nonlocal left
        if event in CHANGING:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    function()


def is_killed(number: int, function: Callable[[], object]) -> bool:
    return run_forked(killing, number, function) == -signal.SIGKILL


def killed_in_the_middle(run: Run, is_reached: Callable[[], bool] | None = None) -> Path:
    """Kill an agent when the first file has come to its place, or another point is; return the plan."""
    for number in range(300):
        assert is_killed(number, run.apply)
        every = {each.content for each in shape(run.workspace).values()}
        if is_reached() if is_reached else b"new" in every:
            (plan,) = (run.workspace.parent / "journal").glob("*.plan")
            return plan
        run.applier.recover()
        if run.applier.last():
            assert run.applier.undo() == []
        run.moment = next_moment(run.layer.parent)
    raise AssertionError(number)


class Scene:
    """A run that can be had again and again, in the same folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.before = shape(self.fresh().workspace)
        self.after = shape(folder / "layer")

    def fresh(self) -> Run:
        for name in ("work", "layer", "journal"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        return run_in(self._folder, BEFORE, AFTER)

    def left(self) -> list[str]:
        """Return what lies about in the agent's own folders, but for what can be taken back."""
        states = [path.suffix for path in (self._folder / "journal").glob("*-*")]
        kept = [path.name for path in (self._folder / "work/.agent/undo").glob("0*")]
        return [state for state in states if state not in {".done", ".undone"}] + kept[len(states) :]


@pytest.fixture
def scene(folder: Path) -> Scene:
    return Scene(folder)


every = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])


@every
def test_a_killed_apply_leaves_all_or_nothing(scene: Scene, every: int) -> None:
    ends = []
    for number in range(0, 1000, every):
        run = scene.fresh()
        was_killed = is_killed(number, run.apply)
        sentences = run.applier.recover()
        state = shape(run.workspace)
        assert state in (scene.before, scene.after), number
        assert shape(run.layer) == scene.after  # it can be applied again
        assert scene.left() == []
        assert run.applier.recover() == []
        ends.append((state == scene.after, bool(sentences)))
        if state == scene.after:
            assert run.applier.undo() == []
            assert shape(run.workspace) == scene.before
        if not was_killed:
            break
    assert ends == sorted(ends, key=lambda end: end[0])  # from one call on, the changes are applied
    assert {(False, False), (True, True), (True, False)} == {*ends}


@every
def test_a_killed_undo_leaves_all_or_nothing(scene: Scene, every: int) -> None:
    ends = set()
    for number in range(0, 1000, every):
        run = scene.fresh()
        assert run.apply() == []
        was_killed = is_killed(number, run.applier.undo)
        run.applier.recover()
        state = shape(run.workspace)
        assert state in (scene.before, scene.after), number
        assert scene.left() == []
        ends.add(state == scene.before)
        if not was_killed:
            break
    assert ends == {True, False}


@pytest.mark.slow
def test_a_recovery_that_is_killed_is_ended_by_the_next_one(scene: Scene) -> None:
    for first in range(0, 1000, 3):
        run = scene.fresh()
        if not is_killed(first, run.apply):
            break
        for number in range(0, 1000, 7):
            if not is_killed(number, run.applier.recover):
                break
        assert shape(run.workspace) in (scene.before, scene.after), first
        assert run.applier.recover() == []
