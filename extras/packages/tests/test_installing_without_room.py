"""A process that installs skills runs out of room."""

import resource
import shutil
from pathlib import Path

import pytest

from extras.packages.tests.installs import Installs
from tests.graph.cli.command_line import CommandLine

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("room", [200, 9_000])
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
        # A cut-off cache of a module would outlive the test.
        process = cli.start("skills", "install", "./shared", "--yes", PYTHONDONTWRITEBYTECODE="1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    _, errors = process.communicate()
    if process.returncode:
        assert "Traceback" not in errors
        assert (folder / "skills.lock").read_text() == before
        assert (folder / "ask" / "large.md").read_text() == "x" * 10_000
    assert process.returncode
    assert cli.run("skills", "install", "--locked", "--check").code == 0
    assert {each.name for each in folder.iterdir()} == {"ask", "skills.lock"}
    shutil.rmtree(folder)
