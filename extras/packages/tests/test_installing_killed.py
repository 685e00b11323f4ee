"""Processes that install, update and remove skills are killed at random moments, and run out of room."""

import random
import resource
import shutil
import time
from pathlib import Path

import pytest

from extras.packages.tests.installs import Installs
from skills_agent.packages.target import Target
from tests.graph.cli.command_line import CommandLine

pytestmark = pytest.mark.slow

KILLS = 30
NAMES = ("ask", "bow", "cry")


def versions(cli: CommandLine) -> dict[str, str]:
    installs = Installs(cli.workspace)
    installs.target = Target(cli.workspace / ".agent" / "skills", installs.state)
    return installs.versions()


def test_a_kill_at_a_random_moment_leaves_each_skill_whole(cli: CommandLine) -> None:
    shared = Installs(cli.workspace)
    for name in NAMES:
        shared.write(name, "version-0", files=15)
    commands = {
        "install": ("skills", "install", "./shared", "--all", "--yes", "--force"),
        "update": ("skills", "update", "--yes"),
        "uninstall": ("skills", "uninstall", *NAMES, "--yes"),
    }
    start = time.monotonic()
    assert cli.run_process(*commands["install"]).code == 0
    lasts = time.monotonic() - start
    for number in range(1, KILLS + 1):
        for name in NAMES:
            shared.write(name, f"version-{number}", files=15)
        before = versions(cli)
        kind = ("install", "update", "uninstall")[number % 3] if before else "install"
        process = cli.start(*commands[kind])
        time.sleep(
            random.uniform(lasts / 3, lasts)
        )  # when it is killed is what differs: nothing is waited for
        process.kill()
        process.communicate()
        now = versions(cli)
        assert set(now.values()) <= {*before.values(), f"version-{number}"}, (kind, now)
        assert kind == "uninstall" or before.keys() <= now.keys()
        assert cli.run("skills", "verify").code == 0, kind
        assert len(set(versions(cli).values())) < 2
        folder = cli.workspace / ".agent" / "skills"
        left = {each.name for each in folder.iterdir()} if folder.exists() else set()
        assert left - {"skills.lock"} == versions(cli).keys()
        assert cli.run(*commands["install"]).code == 0


@pytest.mark.parametrize("room", [0, 200, 3_000, 9_000, 14_000])
def test_without_room_nothing_is_changed(cli: CommandLine, room: int) -> None:
    """Files may have `room` bytes: a write beyond fails as on a full disk."""
    shared = Installs(cli.workspace)
    large = shared.write("ask", "old") / "ask" / "large.md"
    large.write_text("x" * 10_000)
    assert cli.run("skills", "install", "./shared", "--yes").code == 0
    folder: Path = cli.workspace / ".agent" / "skills"
    before = (folder / "skills.lock").read_text()
    large.write_text("y" * 12_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        process = cli.start("skills", "install", "./shared", "--yes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    _, errors = process.communicate()
    if process.returncode:
        assert "Traceback" not in errors
        assert (folder / "skills.lock").read_text() == before
        assert (folder / "ask" / "large.md").read_text() == "x" * 10_000
    assert process.returncode or room >= 12_000
    assert cli.run("skills", "verify").code == 0
    assert {each.name for each in folder.iterdir()} == {"ask", "skills.lock"}
    shutil.rmtree(folder)
