"""The records of a workspace that comes from somebody else: no link in it is followed."""

import os
import shutil
from pathlib import Path

import pytest

from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.private_files import folder_name
from skills_agent.skills.confined import ConfinedError
from tests.kit import MakeAgent

T = folder_name("t")
STARTED = {"type": "run_started", "thread": "t"}


@pytest.mark.parametrize("link", [".agent", ".agent/runs"])
def test_no_record_is_written_or_read_through_a_link_of_the_workspace(
    make_agent: MakeAgent, workspace: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, link: str
) -> None:
    """Attack: a cloned repository has `.agent`, or `runs` in it, as a link to a folder of the person."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (workspace / link).parent.mkdir(exist_ok=True)
    (workspace / link).symlink_to(theirs)
    agent = make_agent(["hello"])
    assert agent.say("hi")["answer"] == "hello"
    assert list(theirs.iterdir()) == []
    assert "audit cannot be written" in caplog.text
    (theirs / "runs").mkdir()
    for folder in (theirs, theirs / "runs"):
        (folder / "t.jsonl").write_text('{"seq": 1, "hash": ""}\n')
    log = RunLog(agent.settings.audit_folder, workspace)
    with pytest.raises(ConfinedError, match="reached by a link"):
        log.threads()
    with pytest.raises(ConfinedError, match="reached by a link"):
        log.lines("t")


@pytest.fixture
def runs(workspace: Path) -> Path:
    folder = workspace / ".agent" / "runs"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def log(runs: Path, workspace: Path) -> RunLog:
    return RunLog(runs, workspace)


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_record_that_is_a_link_or_a_fifo_is_not_listed_and_not_read(
    log: RunLog, runs: Path, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "secret").write_text("secret\n")
    for name in ("t.jsonl", "t.head"):
        (runs / name).symlink_to(tmp_path / "secret") if kind == "link" else os.mkfifo(runs / name)
    assert log.threads() == []
    with pytest.raises(ConfinedError):
        log.lines("t")


def test_a_head_that_is_a_fifo_is_not_waited_for_and_hides_no_other_record(log: RunLog, runs: Path) -> None:
    os.mkfifo(runs / f"{T}.head")
    with pytest.raises(OSError, match="No such device"):
        log.append("t", [STARTED])
    (runs / f"{T}.jsonl").write_bytes(b"{}\n")
    assert log.lines(T) == [b"{}"]
    assert "no head file" in log.verify(T).faults[-1]


@pytest.mark.parametrize("head", ["0", "-3", "9" * 5_000])
def test_a_head_with_an_impossible_number_is_none(log: RunLog, runs: Path, head: str) -> None:
    (runs / "t.head").write_text(f"{head} {'x' * 64}")
    assert log.verify("t").faults == []
    (runs / "t.jsonl").write_bytes(b"{}\n")
    assert "no head file" in log.verify("t").faults[-1]


@pytest.mark.parametrize("number", ["-1", "true", "1" + "0" * 18, "9" * 4_300])
def test_a_line_with_an_impossible_number_is_no_record_and_ends_nothing(
    log: RunLog, runs: Path, number: str
) -> None:
    """Attack: the next number of the chain is one that Python does not print."""
    (runs / f"{T}.jsonl").write_text(f'{{"seq":{number},"hash":"x"}}\n')
    (record,) = log.append("t", [STARTED])
    assert record["seq"] == 1


def test_a_folder_that_the_operator_names_elsewhere_may_be_a_link(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    log = RunLog(tmp_path / "runs", workspace)
    log.append("t", [STARTED])
    assert len(log.lines(T)) == 1
    assert (tmp_path / "disk" / f"{T}.jsonl").is_file()


def test_a_folder_that_is_removed_or_replaced_while_it_is_in_use_is_noticed(
    log: RunLog, runs: Path, tmp_path: Path
) -> None:
    """Attack: a script or a `git clean` moves the folder away, and puts a link to it there."""
    log.append("t", [STARTED])
    moved = runs.rename(tmp_path / "moved")
    log.append("t", [STARTED])
    assert len(log.lines(T)) == 1
    shutil.rmtree(runs)
    runs.symlink_to(moved)
    with pytest.raises(ConfinedError, match="reached by a link"):
        log.append("t", [STARTED])
    assert len((moved / f"{T}.jsonl").read_bytes().splitlines()) == 1
