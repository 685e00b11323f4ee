"""The records of a workspace that comes from somebody else: no link in it is followed."""

import os
from pathlib import Path

import pytest

from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.private_files import folder_name
from skills_agent.skills.confined import ConfinedError, LinkOnTheWayError
from tests.conftest import MakeAgent


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
    with pytest.raises(LinkOnTheWayError, match="reached by a link"):
        log.threads()
    with pytest.raises(LinkOnTheWayError):
        log.lines("t")


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_record_that_is_a_link_or_a_fifo_is_not_listed_and_not_read(
    workspace: Path, tmp_path: Path, kind: str
) -> None:
    runs = workspace / ".agent" / "runs"
    runs.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret\n")
    for name in ("t.jsonl", "t.head"):
        (runs / name).symlink_to(tmp_path / "secret") if kind == "link" else os.mkfifo(runs / name)
    log = RunLog(runs, workspace)
    assert log.threads() == []
    with pytest.raises(ConfinedError):
        log.lines("t")


def test_a_folder_that_the_operator_names_elsewhere_may_be_a_link(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    log = RunLog(tmp_path / "runs", workspace)
    log.append("t", [{"type": "run_started", "thread": "t"}])
    assert len(log.lines(folder_name("t"))) == 1
    assert (tmp_path / "disk" / (folder_name("t") + ".jsonl")).is_file()
