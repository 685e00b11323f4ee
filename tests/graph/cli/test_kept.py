"""The doctor on what is kept: what the copies of loaded skills weigh, and which of them no thread uses."""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.threads.references import is_needed
from tests.graph.cli.command_line import LOAD, CommandLine


@pytest.fixture(autouse=True)
def _own_homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Homes of skills lie in the state folder, which the tests of a process share."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def loaded(cli: CommandLine) -> CommandLine:
    """Return a cli with a thread `rain` that has loaded a skill."""
    assert cli.run("ask", "Load", "--thread", "rain", *cli.plays(LOAD, "Loaded.")).code == 0
    return cli


def snapshots(cli: CommandLine) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = cli.run("doctor", "--json").value["kept"]
    return kept


def remove(cli: CommandLine, name: str = "unused") -> list[str]:
    removed: list[str] = cli.run("doctor", "--remove", name, "--yes", "--json").value["removed"]
    return removed


def clear(cli: CommandLine) -> list[str]:
    """Remove what no thread uses and is old."""
    for path in (cli.home / ".cache" / "skills-agent" / "snapshots").rglob("*"):
        os.utime(path, (0, 0))
    return remove(cli)


def test_what_no_thread_needs_is_removed_and_nothing_of_a_moment_ago(loaded: CommandLine) -> None:
    (snapshot,) = snapshots(loaded)
    assert (snapshot["note"], snapshot["used"]) == ("rain-gauge", True)
    text = loaded.run("doctor", "--all").out
    assert (snapshot["name"] in text, f"{snapshot['bytes']:,}" in text) == (True, True)
    assert loaded.run("threads", "delete", "rain", "--yes").code == 0
    assert remove(loaded) == []
    assert clear(loaded) == [snapshot["name"]]
    assert (snapshots(loaded), clear(loaded)) == ([], [])


def test_what_a_fork_needs_is_kept_when_its_origin_is_deleted(loaded: CommandLine) -> None:
    step = loaded.run("threads", "show", "rain", "--steps", "--json").value["steps"][-1]["number"]
    assert loaded.run("threads", "fork", "rain", "--at", str(step)).code == 0
    assert loaded.run("threads", "delete", "rain", "--yes").code == 0
    assert clear(loaded) == []
    shutil.rmtree(loaded.state)  # with a workspace that is gone, its needs are
    assert len(clear(loaded)) == 1


def test_what_a_thread_has_loaded_goes_by_its_name_alone(loaded: CommandLine) -> None:
    shutil.rmtree(loaded.skills / "rain-gauge")
    assert (clear(loaded), len(snapshots(loaded))) == ([], 1)
    assert len(remove(loaded, "snapshot/*")) == 1
    assert snapshots(loaded) == []


def test_what_cannot_be_searched_needs_all_that_was_noted_for_it(tmp_path: Path) -> None:
    digest = "0" * 64
    assert is_needed(digest, "AsyncPostgresSaver")
    assert is_needed(digest, f"process {os.getpid()}")
    (tmp_path / "no.sqlite").write_text("no database")
    assert is_needed(digest, str(tmp_path / "no.sqlite"))
    with sqlite3.connect(tmp_path / "secret.sqlite") as connection:
        connection.execute("CREATE TABLE checkpoints (type TEXT, checkpoint BLOB)")
        connection.execute("INSERT INTO checkpoints VALUES ('msgpack+aes', x'00')")
    connection.close()
    assert is_needed(digest, str(tmp_path / "secret.sqlite"))
