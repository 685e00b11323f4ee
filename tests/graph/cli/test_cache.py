"""skills-agent cache: what the copies of loaded skills weigh, and which of them no thread needs."""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.threads.references import is_needed
from tests.graph.cli.command_line import CommandLine

LOAD = {"content": "", "tool_calls": [{"name": "load_skill", "args": {"name": "rain-gauge"}}]}


@pytest.fixture
def loaded(tmp_path: Path) -> CommandLine:
    """Return a cli with a thread `rain` that has loaded a skill."""
    cli = CommandLine(tmp_path)
    folder, model = str(cli.write_skill()), cli.script(LOAD, "Loaded.")
    assert cli.run("ask", "Load", "--thread", "rain", "--skills-dir", folder, "--model", model).code == 0
    return cli


def snapshots(cli: CommandLine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli.run("cache", "show", "--json").value["snapshots"]
    return found


def make_old(cli: CommandLine) -> None:
    for path in (cli.home / ".cache" / "skills-agent" / "snapshots").rglob("*"):
        os.utime(path, (0, 0))


def clear(cli: CommandLine, *options: str) -> list[str]:
    make_old(cli)
    return [each["digest"] for each in cli.run("cache", "clear", "--json", *options).value["removed"]]


def test_show_tells_sizes_and_what_is_needed(loaded: CommandLine) -> None:
    (snapshot,) = snapshots(loaded)
    assert (snapshot["skill"], snapshot["files"], snapshot["needed"]) == ("rain-gauge", 2, True)
    text = loaded.run("cache", "show").out
    assert snapshot["digest"][:12] in text
    assert f"{snapshot['size']:,} bytes" in text


def test_an_empty_cache_is_shown_and_cleared(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    assert "0 snapshots" in cli.run("cache", "show").out
    assert clear(cli) == []


def test_clear_keeps_what_a_thread_has_loaded(loaded: CommandLine) -> None:
    shutil.rmtree(loaded.skills / "rain-gauge")
    assert clear(loaded) == []
    assert len(snapshots(loaded)) == 1


def test_clear_keeps_what_a_fork_needs_when_its_origin_is_deleted(loaded: CommandLine) -> None:
    step = loaded.run("threads", "show", "rain", "--steps", "--json").value["steps"][-1]["number"]
    assert loaded.run("threads", "fork", "rain", "--at", str(step), "--as", "copy").code == 0
    assert loaded.run("threads", "delete", "rain", "--yes").code == 0
    assert clear(loaded) == []


def test_clear_removes_what_no_thread_needs(loaded: CommandLine) -> None:
    (snapshot,) = snapshots(loaded)
    assert loaded.run("threads", "delete", "rain", "--yes").code == 0
    assert clear(loaded) == [snapshot["digest"]]
    assert snapshots(loaded) == []


def test_clear_removes_what_was_needed_in_a_workspace_that_is_gone(loaded: CommandLine) -> None:
    shutil.rmtree(loaded.state)
    assert len(clear(loaded)) == 1


def test_clear_keeps_what_was_loaded_a_moment_ago(loaded: CommandLine) -> None:
    assert loaded.run("threads", "delete", "rain", "--yes").code == 0
    assert loaded.run("cache", "clear", "--json").value["removed"] == []


def test_clear_all_removes_everything_and_warns(loaded: CommandLine) -> None:
    make_old(loaded)
    cleared = loaded.run("cache", "clear", "--all")
    assert "Removed 1 snapshot," in cleared.out
    assert "loaded anew" in cleared.err
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
