"""The runner for other machines keeps what every runner keeps, and believes nothing that these say."""

import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deepagents")
from deepagents.backends import LocalShellBackend
from deepagents.backends.protocol import FileDownloadResponse, FileUploadResponse

from extras.sandbox.tests.real_trees import shape
from extras.sandbox.tests.test_held_changes import killed
from skills_agent.sandbox import remote_tree
from skills_agent.sandbox.external_runner import ExternalRunner
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.runner import ScriptResult
from tests.contracts.runner_contract import *  # noqa: F403 - the tests
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner, line, request_for
from tests.forked import run_forked
from tests.waiting import until

pytestmark = pytest.mark.slow
Lie = Callable[[bytes], bytes | None]


class LyingBackend(LocalShellBackend):
    """A sandbox of deepagents on this machine, which lies about files of some names."""

    def __init__(self, lies: Mapping[str, Lie] = {}) -> None:
        variables = {"PATH": ENVIRONMENT["PATH"], "SECRET_OF_THE_MACHINE": "sk-very-secret"}
        super().__init__(virtual_mode=False, env=variables)
        self.lies, self.archives = lies, list[int]()

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        self.archives += [len(content) for path, content in files if path.endswith("fresh")]
        return super().upload_files(files)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        for answer in (answers := super().download_files(paths)):
            if (lie := self.lies.get(Path(answer.path).name)) and answer.content is not None:
                answer.content = lie(answer.content)
        return answers


@pytest.fixture
def make_runner(place: Path) -> MakeRunner:
    """Return what makes a runner."""
    return lambda **options: replace(runner_of(place), **options)


@pytest.fixture
def work(place: Path) -> Path:
    """Return a workspace with secrets, a repository, a link that leads out, and files."""
    work = place / "work"
    for path in (".env", "sub/id_rsa", "sub/.npmrc", ".git/config", "node_modules/x/.npmrc", "made", "old"):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("mine\n")
    (work / "large").write_bytes(os.urandom(100_000))
    (place / "outside").mkdir()
    (work / "link").symlink_to(place / "outside")
    return work


def run(place: Path, command: str, lies: Mapping[str, Lie] = {}, call: str = "") -> ScriptResult:
    return runner_of(place, lies).run(replace(line(place, command), call=call))


def runner_of(place: Path, lies: Mapping[str, Lie] = {}) -> ExternalRunner:
    (place / "state").mkdir(exist_ok=True)
    return ExternalRunner(
        LyingBackend(lies),
        workspace=place / "work",
        environment=ENVIRONMENT,
        folders=str(place / "there"),
        records=lambda: place / "state",
    )


def test_what_differs_is_sent_and_what_is_secret_is_not(place: Path, work: Path) -> None:
    told = run(place, "find . -name '[!.]*' -o -name '.?*' | sort")
    there = "./large ./link ./made ./node_modules ./node_modules/x ./node_modules/x/.npmrc ./old ./sub"
    assert told.stdout.split() == there.split()
    assert told.notices == ("Not sent to the other machine: .git, .agent, .env, sub/.npmrc, sub/id_rsa.",)
    (work / "made").write_text("by write_file\n")
    (work / "old").unlink()
    assert (runner := runner_of(place)).run(line(place, "cat made; ls old")).stdout == "by write_file\n"
    assert max(runner.backend.archives) < 1_000


def test_a_secret_of_a_skill_is_not_sent(place: Path) -> None:
    (place / "skill/.env").write_text("KEY")
    (place / "skill/.eslintrc").write_text("template")
    request = replace(request_for(place, "ls -A", name="script.sh"), in_skill=True)
    told = runner_of(place).run(request)
    assert told.stdout == ".eslintrc\nscript.sh\n"
    assert told.notices == ("Not sent to the other machine: .agent, .env.",)


def test_what_changed_there_is_decided_about_here(place: Path, work: Path) -> None:
    command = f"echo new >made; rm old; echo >tool; chmod +x tool; ln -s {place} out; mkfifo pipe; pwd"
    result = run(place, command, call="key")
    assert result.stdout == f"{work}\n"
    judged = [f"{each.change.path} {each.decision}" for each in result.changes]
    assert judged == ["made allow", "old allow", "out deny", "pipe deny", "tool ask"]
    assert ((work / "made").read_text(), (work / "old").exists()) == ("new\n", False)
    assert not any(os.path.lexists(work / name) for name in ("tool", "out", "pipe"))
    runner = runner_of(place)  # of another process
    assert "tool" in str(runner.held("key"))
    assert "wrote made (+1), tool (+1)" in runner.settle("key", applied=True, by="approval").changed
    for _ in range(2):
        assert runner._store.applier(work).undo() == []
    assert ((work / "made").read_text(), (work / "old").exists()) == ("mine\n", True)


def test_what_was_not_sent_stays_as_it_is(place: Path, work: Path) -> None:
    told = run(place, "echo X >.env; mkdir -p .git/hooks; echo X >.git/hooks/pre-commit; echo new >made")
    assert "Not taken, for it was not sent: .env, .git, .git/hooks" in told.notices[1]
    assert ((work / "made").read_text(), (work / ".env").read_text()) == ("new\n", "mine\n")
    assert [*(work / ".git").iterdir()] == [work / ".git/config"]
    assert "sub/id_rsa was moved or removed" in run(place, "rm -r sub made").notices[1]
    assert (work / "made").exists()


def swap(old: bytes, new: bytes) -> Lie:
    return lambda raw: raw.replace(old, new)


LIES: dict[str, dict[str, Lie]] = {
    "above": {"after.names": swap(b"./new", b"./../new")},
    "folder-above": {"after.names": swap(b"./new", b"./..")},
    "too-deep": {
        "after.names": lambda raw: b"".join(b"." + b"/d" * depth + b"\0" for depth in range(1, 251)),
        "after.stats": lambda raw: b"41ed 0\n" * 250,
    },
    "absolute": {"after.names": swap(b"./new", b"/tmp/new")},
    "through-a-link": {"after.names": swap(b"./new", b"./link/new")},
    "in-no-folder": {"after.names": swap(b"./new", b"./none/new")},
    "too-few": {"after.names": swap(b"./new\0", b"")},
    "no-list": {"after.names": lambda _: None},
    "long-list": {"after.names": lambda raw: raw + b"x" * remote_tree.MAX_LISTED},
    "many-files": {
        "after.names": lambda raw: b"".join(b"./%d\0" % number for number in range(50_001)),
        "after.stats": lambda raw: b"41ed 0\n" * 50_001,
    },
    "large-file": {"after.stats": swap(b" 4\n", b" 10000000000\n")},
    "no-mode": {"after.stats": swap(b"81a4", b"f" * 30)},
    "no-sums": {"after.sums": lambda _: b""},
    "other-bytes": {"bytes": lambda _: b"evil"},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_machine_that_lies_reaches_nothing(place: Path, work: Path, lie: str) -> None:
    before = shape(work)
    lies = {"bytes": lambda _: b"new\n" * 2, **LIES[lie]}
    result = run(place, "echo new >new; echo new >made; rm -r old", lies)
    assert "Nothing that it changed is applied: " in result.notices[1]
    assert (shape(work), [*(place / "outside").iterdir()]) == (before, [])


def test_what_it_cannot_do_is_refused(place: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request, runner = line(place, "echo"), runner_of(place)
    for change in ({"in_background": True}, {"repository": place}, {"cwd": place}):
        with pytest.raises(ScriptError, match=r"the other machine|working directory"):
            runner.run(replace(request, **change))
    answers = [FileUploadResponse("", "permission_denied")]
    monkeypatch.setattr(runner.backend, "upload_files", lambda _: answers)
    with pytest.raises(ScriptError, match="cannot be sent to the other machine: permission_denied"):
        runner.run(request)
    monkeypatch.setattr(remote_tree, "MAX_SENT", 50_000)
    with pytest.raises(ScriptError, match="MiB differ"):
        runner.run(request)


def test_two_agents_take_turns_in_the_workspace_there(place: Path, work: Path) -> None:
    with ThreadPoolExecutor() as pool:
        longer = pool.submit(run, place, "touch begun; sleep 1; echo a >a")
        until(lambda: any(place.glob("there-*/begun")))
        assert "No such file" in run(place, "ls a; echo b >b").stderr
        assert longer.result().changed == "wrote a (+1), begun"
    assert ((work / "a").exists(), (work / "b").exists()) == (True, True)
    with pytest.raises(ScriptError, match="another agent ran something"):
        run(place, "echo", {"before.names": lambda raw: raw if run(place, "touch c") else None})


@pytest.mark.parametrize(("when", "name"), [("before", ".plan"), ("after", ".plan"), ("after", ".done")])
def test_killed_in_the_middle_all_is_applied_or_nothing(
    place: Path, work: Path, when: str, name: str
) -> None:
    assert run_forked(killed, when, name, lambda: run(place, "echo new >made; rm old")) == -signal.SIGKILL
    assert run(place, "cat made").stdout == ("new\n" if when == "after" else "mine\n")
    assert (work / "made").read_text() == ("new\n" if when == "after" else "mine\n")
    assert (work / "old").exists() == (when == "before")
