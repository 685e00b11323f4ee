"""Runs that work in the folders themselves: what the judge does not allow is taken back, and held."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from extras.sandbox.tests.overlay import Overlay, overlay, users
from extras.sandbox.tests.real_trees import shape
from extras.sandbox.tests.test_apply_killed import killing
from skills_agent.sandbox import before, held_runs, real_folder
from skills_agent.sandbox.after import After, look_at_rest, looked_after
from skills_agent.sandbox.choice import pending_looks
from skills_agent.sandbox.layer import Layer
from skills_agent.sandbox.layered import LayerStore
from skills_agent.skills.scripts.run_folders import next_tick
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from tests.forked import run_forked

BEFORE = r"""
mkdir -p .vscode src deep/er real links/gh .github/workflows pkg/__pycache__ caught
for each in .envrc .npmrc .vscode/tasks.json .github/workflows/old.yml src/app.py notes deep/er/.envrc \
    real/tasks.json pkg/m.py pkg/__pycache__/m.pyc; do echo mine > $each; done
printf '#!/bin/sh\necho mine\n' > run.sh; chmod 755 run.sh
ln .npmrc other; ln -s real one; ln -s one .idea; ln -s src/envrc .zshenv; ln -s links/gh .husky
ln -s src way; ln -s /etc mine
mkdir -p node_modules/a/__pycache__ node_modules/.bin closed
for each in a/x.js a/kept.md a/__pycache__/m.pyc; do echo mine > node_modules/$each; done
ln -s ../a/x.js node_modules/.bin/x; echo mine > closed/.envrc; chmod 0 closed
"""
RESULT = ScriptResult(0, "", "", 0.0, None, 0, 0, "controlled")


@dataclass
class Scene:
    """A folder that runs work in, of one user."""

    over: Overlay

    @property
    def work(self) -> Path:
        return self.over.lower

    def store(self, protected: tuple[str, ...] = ("/own", "kept.*")) -> LayerStore:
        return LayerStore.of(self.over.place / "upper", self.work, protected)

    @contextmanager
    def run(self, script: str, writable: tuple[str, ...] = (), call: str = "key") -> Iterator[After]:
        """Run a script in the folder, and look at what it did when the block ends."""
        paths = tuple(self.work / each for each in writable)
        request = ScriptRequest("", None, ("x.sh",), None, self.work, writable=paths, call=call)
        with looked_after(self.store(), [self.work], request) as after:
            next_tick(self.over.place / "upper")
            done = self.over.shell("sh", "-euc", script)
            assert done.returncode == 0, done.stderr
            yield after

    def held(self) -> dict[str, str]:
        """Return what a person is asked about, with what they see of it."""
        held = held_runs.held(self.store(), "key")
        return {asked.judged.change.path: asked.text for asked in held.asked} if held else {}


@pytest.fixture(params=users(), ids=lambda user: f"uid-{user}")
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with overlay(request.param) as made:
        made.before(BEFORE)
        yield Scene(made)


# What a script does, what a person is asked about then, and what is refused.
TAKEN: list[tuple[str, str, str]] = [
    ("echo more >> notes; echo x > new; rm src/app.py; ln -s src in; ln -s /usr/bin/env python", "", ""),
    ("echo evil > .envrc", ".envrc", ""),
    ("rm .envrc", ".envrc", ""),
    ("mv .envrc x", ".envrc", ""),
    ("chmod 666 .envrc; touch .npmrc", ".envrc", ""),
    ("mkdir -p a/b; echo evil > a/b/.envrc; chmod 000 a/b a .", "a/b/.envrc", ""),
    ("rm -r .vscode; mkdir .vscode; echo evil > .vscode/x", ".vscode/tasks.json .vscode/x", ""),
    ("mv .vscode v; ln -s v .vscode", ".vscode .vscode/tasks.json v v/tasks.json", ""),
    ("mv deep d; mkdir deep deep/er; echo evil > deep/er/.envrc", "d/er/.envrc deep/er/.envrc", ""),
    ("rm -r deep; echo x > deep", "", "?"),
    ("echo evil >> run.sh", "run.sh", ""),
    ("rm run.sh; ln -s notes run.sh", "run.sh", ""),
    ("rm way; ln -s deep way", "way", ""),
    ("cp run.sh copy.sh; printf '#!/bin/sh' > pkg/new", "copy.sh pkg/new", ""),
    ("echo evil > real/tasks.json; rm one; mkdir one", "one real/tasks.json", ""),
    ("rm .idea; mkdir .idea; echo evil > .idea/tasks.json", ".idea .idea/tasks.json", ""),
    (f"echo evil > .aider{'x' * 249}", f".aider{'x' * 249}", ""),
    ("echo evil > src/envrc; echo evil > links/gh/x", "links/gh/x src/envrc", ""),
    ("echo evil > kept.txt", "kept.txt", ""),
    ("mkdir n; cd n; git init -q .; git init -q --bare b", "?", ""),
    ("mkdir -p node_modules/a; cd node_modules/a; git init -q .", "?", ""),
    ("cd node_modules/a; echo '#!' | tee x.js y kept.md; chmod 755 x.js", "node_modules/a/kept.md", ""),
    ("cd node_modules; echo x > a/__pycache__/m.pyc; ln -s /etc a/o", "", "node_modules/a/o"),
    ("cd node_modules; mv a b; mkdir -p a/c; ln -s / a/c/out; mkfifo p; rm b/x.js", "?", ""),
    ("echo evil > other", "", ".npmrc"),
    ("ln -s /etc out; ln -s ../.. src/up; ln -s out/x a; ln -s mine/x b; mkfifo p", "", "a b out p src/up"),
    ("truncate -s 300M holes; chmod 755 holes; truncate -s 1M small; chmod 755 small", "small", "holes"),
    ("chmod 4755 src/app.py || true; touch sticky; chmod 1777 sticky", "", "?"),
    ("mkdir new new/__pycache__; echo evil | tee pkg/__pycache__/m.pyc > new/__pycache__/n.pyc", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("script", "asked", "refused"), TAKEN, ids=[str(n) for n in range(len(TAKEN))])
def test_what_is_not_allowed_is_taken_back_and_held(
    scene: Scene, script: str, asked: str, refused: str
) -> None:
    def look() -> None:
        old = shape(scene.work)
        with scene.run(script) as after:
            made = shape(scene.work)
        now, found = shape(scene.work), scene.held()
        taken = {each.change.path: each.decision for each in after.finished(RESULT).changes}
        assert [path for path in taken if now.get(path) != old.get(path)] == []
        assert [
            path for path in made if path.endswith(".pyc") and now.get(path) == made[path] != old.get(path)
        ] == []
        if "?" not in (asked, refused):
            assert {*asked.split()} == {*found}
            assert {*refused.split()} == {path for path, each in taken.items() if each == "deny"}
        assert all(path in " ".join(after.notices) for path in [*taken][:10])
        if found:
            settled = held_runs.settle(scene.store(), "key", applied=True, by="")
            assert held_runs.settle(scene.store(), "key", applied=False, by="") == settled
            told = settled.notices[-1]
            assert told.startswith("Applied"), told
        now = shape(scene.work)
        others = {path for path, each in made.items() if each.content and now.get(path) != each}
        assert {path for path in others if not path.endswith(".pyc")} <= taken.keys() - found.keys()

    scene.over.call(look)


APPROVED = [
    (
        ".github/workflows/ci.yml",
        "cd .github/workflows; for n in ci old evil; do echo x > $n.yml; done",
        ["ci.yml", "old.yml"],
    ),
    (
        ".circleci/config.yml",
        "mkdir .circleci; cd .circleci; echo x > config.yml; echo x > evil",
        ["config.yml"],
    ),
]


@pytest.mark.parametrize(("path", "script", "there"), APPROVED)
def test_only_what_was_approved_is_written(scene: Scene, path: str, script: str, there: list[str]) -> None:
    def look() -> None:
        with scene.run(script, writable=(path,)):
            pass
        assert sorted(each.name for each in (scene.work / path).parent.iterdir()) == there
        assert (scene.work / path).read_text() == "x\n"
        assert (scene.work / ".github/workflows/old.yml").read_text() == "mine\n"

    scene.over.call(look)


def test_what_git_was_approved_to_write_meanwhile_is_for_no_other(scene: Scene) -> None:
    def look() -> None:
        with scene.run("mkdir -p n/.git/modules/m; touch n/.git/modules/m/config") as after:
            after.allow([scene.work / "n/.git/modules/m"])
        assert not (scene.work / "n/.git").exists()

    scene.over.call(look)


def test_what_somebody_else_changes_meanwhile_is_kept_whatever_is_decided(scene: Scene) -> None:
    def look() -> None:
        with scene.run("true") as after:
            (scene.work / ".envrc").write_text("the person's")
            assert ".envrc" in after.look("other")[0]
            (scene.work / ".envrc").write_text("the person's again")
            (scene.work / ".vscode/tasks.json").write_text("approved")
            after.allow([scene.work / ".vscode/tasks.json"])
        assert (scene.work / ".envrc").read_text() == "mine\n"
        assert (scene.work / ".vscode/tasks.json").read_text() == "approved"
        assert scene.held() == {
            ".envrc": "@@ -1 +1 @@\n-mine\n+the person's again\n\\ No newline at end of file\n"
        }
        told = [
            held_runs.settle(scene.store(), call, applied=False, by="").notices[-1]
            for call in ("other", "key")
        ]
        for text, content in zip(told, ("the person's", "the person's again"), strict=True):
            folder = text.partition(" lies in ")[2].removesuffix(" for a month.")
            assert (Path(folder) / "0/upper/.envrc").read_text() == content

    scene.over.call(look)


def test_what_another_run_made_is_not_what_was_there_before(scene: Scene) -> None:
    def look() -> None:
        with scene.run(
            "echo evil > .envrc; echo evil > .zshrc; printf '#!/bin/sh' > new.sh", call="first"
        ) as first:
            with scene.run("echo fine > notes", call=""):
                first.look("")
                assert (scene.work / ".envrc").read_text() == "mine\n"
            assert (scene.work / ".envrc").read_text() == "mine\n"
            assert (scene.work / "notes").read_text() == "fine\n"
        assert [name for name in (".zshrc", "new.sh") if (scene.work / name).exists()] == []

    scene.over.call(look)


def test_what_cannot_be_taken_back_is_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "MAX_COPIED", 10)

    def look() -> None:
        evil = "echo evil > run.sh; printf '#!/bin/sh' > notes"
        deep = "import os\nfor _ in range(210): os.mkdir('d'); os.chdir('d')\nos.mkdir('.git')"
        with scene.run(f'{evil}; python3 -c "{deep}"') as after:
            pass
        left, unseen = after.notices
        assert "notes, run.sh: it changed, and could not be taken back" in left
        assert "not looked at" in unseen
        assert (scene.work / "notes").read_text() == "#!/bin/sh"

    scene.over.call(look)


def test_what_is_nearest_to_the_top_of_a_large_folder_is_looked_at(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_folder, "MAX_ENTRIES", 500)
    scene.over.before(
        "for a in 1 2 3 4 5 6 7 8 9; do for b in 1 2 3 4 5 6 7 8 9; do mkdir -p big/$a/$b; cd big/$a/$b;"
        "touch .envrc 1 2 3 4 5 6 7 8 9 0; cd ../../..; done; done"
    )

    def look() -> None:
        paths = [".envrc", "deep/er/.envrc", "big/.zshrc", "new/a/b/c/.envrc"]
        with scene.run(f"mkdir -p new/a/b/c; echo evil | tee {' '.join(paths)} big/*/*/.envrc") as after:
            pass
        told, _ = after.notices
        assert "Not looked at: big/" in told
        assert scene.held().keys() >= {*paths}
        assert {each.read_text() for each in scene.work.glob("big/*/*/.envrc")} == {"", "evil\n"}

    scene.over.call(look)


def test_nothing_outside_is_reached_by_a_link_that_another_run_swaps(scene: Scene) -> None:
    def look() -> None:
        outside = scene.over.place / "upper/outside"
        outside.mkdir()
        (outside / ".envrc").write_text("outside")
        place = scene.over.place / "upper/copies"
        found = before.Look.of(scene.store(), scene.work, place, "", [])
        (scene.work / "deep/er/.envrc").write_text("evil")
        (scene.work / "src/.envrc").write_text("evil")
        changes = found.changes()
        for name in ("deep/er", "src"):
            (scene.work / name).rename(scene.work / f"moved-{name[-2:]}")
            (scene.work / name).symlink_to(outside)
        layer = Layer(scene.work, scene.over.place / "upper/look/upper", 0)
        layer.content.mkdir(parents=True)
        judged = scene.store().decided(changes, layer, [], {})
        taken = [each for each in judged if each.decision != "allow"]
        assert found.take_back(taken, layer, held_runs.taker(scene.store(), layer)) == []
        assert {"deep/er/.envrc", "src/.envrc"} <= {*found.left}
        assert (outside / ".envrc").read_text() == "outside"
        assert [*outside.iterdir()] == [outside / ".envrc"]

    scene.over.call(look)


CUT_OFF = (
    "echo evil > .envrc; rm -r .vscode; mkdir -p n; git -C n init -q .; echo more >> notes; ln -sfn /etc out"
)


def killed_in_a_run(scene: Scene, calls: int = 0, script: str = CUT_OFF) -> bool:
    """Kill an agent after a script, before its call of that number that changes something."""

    def run() -> None:
        with scene.run(script):
            if calls:
                killing(calls, bool)
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    return run_forked(run) == -signal.SIGKILL


def test_a_run_that_was_cut_off_is_looked_at_at_the_next_start(scene: Scene) -> None:
    def look() -> None:
        assert killed_in_a_run(scene)
        state = scene.over.place / "upper"
        assert [pending_looks(state) for _ in range(2)] == [1, 1]
        (scene.work / ".zshrc").write_text("the person's")
        os.utime(next(state.glob("layers/run-*/lock")), ns=(0, 0))  # it had ended before that
        (lock,) = state.glob("layers/run-*/lock")
        told = look_at_rest(scene.store())
        assert [word in " ".join(told) for word in (".zshrc", ".envrc", "stays: look at it")] == [True] * 3
        assert (scene.work / ".envrc").read_text() == "evil\n"
        assert not lock.exists()
        assert pending_looks(state) == 0
        assert look_at_rest(scene.store()) == []
        (scene.work / ".envrc").write_text("mine\n")
        scene.over.before("rm -r n out; mkdir .vscode")
        (scene.work / ".vscode/tasks.json").write_text("mine\n")

        assert killed_in_a_run(scene)
        (notice,) = look_at_rest(scene.store())
        with scene.run("true"):
            assert look_at_rest(scene.store()) == []  # it goes on
        assert (
            (scene.work / ".envrc").read_text() == (scene.work / ".vscode/tasks.json").read_text() == "mine\n"
        )
        assert (scene.work / "notes").read_text() == "mine\nmore\nmore\n"
        assert [os.path.lexists(scene.work / each) for each in ("n/.git", "out")] == [False, False]
        assert ".envrc" in notice
        (place,) = state.glob("layers/kept-*/0/upper/.envrc")
        assert str(place.parents[2]) in notice

    scene.over.call(look)


@pytest.mark.parametrize("scene", users()[:1], indirect=True)
@pytest.mark.parametrize("every", [23, pytest.param(3, marks=pytest.mark.slow)])
def test_an_agent_that_is_killed_while_it_takes_back_loses_nothing(scene: Scene, every: int) -> None:
    def look() -> None:
        for number in range(1, 2000, every):
            for path in ("n", "out", ".envrc", ".vscode"):
                scene.over.shell("rm", "-rf", str(scene.work / path))
            scene.over.shell("sh", "-c", "mkdir .vscode; echo mine | tee .envrc > .vscode/tasks.json")
            was_killed = killed_in_a_run(scene, number, "echo evil > .envrc; rm -r .vscode; ln -sfn /etc out")
            look_at_rest(scene.store())
            held_runs.recover(scene.store())
            kept = (scene.over.place / "upper/layers").glob("[hk]*/0/upper/.envrc")
            assert (scene.work / ".envrc").read_text() == "mine\n", number
            assert "evil\n" in {place.read_text() for place in kept}, number
            for place in (scene.over.place / "upper/layers").glob("[hk]*"):
                scene.over.shell("rm", "-rf", str(place))
            if not was_killed:
                return
        raise AssertionError

    scene.over.call(look)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[[["/", "x", 1, {}]], [], ""]', "[" * 100_000])
def test_a_damaged_record_of_a_run_stops_nothing(scene: Scene, text: str) -> None:
    def look() -> None:
        run = scene.store().folder / "run-1"
        run.mkdir()
        (run / "before.json").write_text(text)
        assert "is not known" in look_at_rest(scene.store())[0]
        assert not run.exists()

    scene.over.call(look)
