"""Disks that cannot be written, are full, or hold what a newer version wrote."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import trust_file_of
from skills_agent.skills.policy.trust import TrustFileError, TrustList
from tests.graph.cli.command_line import CommandLine, Finished

pytestmark = pytest.mark.slow

MOUNTING = ["unshare", "--mount", "--map-root-user", "sh", "-ec"]
CAN_MOUNT = not subprocess.run(
    [*MOUNTING, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False
).returncode
needs_mounts = pytest.mark.skipif(not CAN_MOUNT, reason="no mount namespaces here")

Mounted = Callable[..., Finished]


@pytest.fixture
def mounted(cli: CommandLine, tmp_path: Path) -> Mounted:
    """Return a function that runs a command after mounts of its own: `mounted("mount ...", "threads list")`.

    `$STATE` and `$WORK` are the folders of the user's state and of the workspace.
    """

    def run(mounts: str, command: str) -> Finished:
        agent = f"cd $WORK; exec {sys.executable} -m skills_agent.graph.cli.main {command}"
        places = cli.environment({"STATE": str(tmp_path / "state"), "WORK": str(cli.workspace)})
        program = [*MOUNTING, f"{mounts}\n{agent}"]
        done = subprocess.run(program, env=places, cwd=cli.workspace, capture_output=True, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what the agent keeps in a folder that is mounted here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


READ_ONLY = """
mount --bind $STATE $STATE; mount -o remount,ro,bind $STATE
mount --bind $WORK $WORK; mount -o remount,ro,bind $WORK
"""
FULL = """
cp -a $STATE/. $STATE.kept; mount -t tmpfs -o size=2m tmpfs $STATE; cp -a $STATE.kept/. $STATE
head -c 3m /dev/zero > $STATE/filled 2> /dev/null || true
"""


@needs_mounts
@pytest.mark.parametrize("disk", [READ_ONLY, FULL])
def test_what_is_kept_on_a_disk_that_takes_nothing_is_read(
    cli: CommandLine, mounted: Mounted, state: Path, disk: str
) -> None:
    assert cli.run("ask", "Hello?", "--thread", "t", "--model", cli.script("Good morning.")).code == 0
    (state.parent / "state.kept").mkdir()
    shown = mounted(disk, "threads show t")
    assert (shown.code, "Good morning." in shown.out) == (0, True), shown.err
    assert "Hello?" in mounted(disk, "threads record t.1").out


@needs_mounts
@pytest.mark.parametrize("command", ["ask Hello? --thread t", "resume t", "threads delete t --yes"])
def test_what_would_write_on_a_read_only_disk_says_what_to_do(
    cli: CommandLine, mounted: Mounted, command: str
) -> None:
    cli.run("ask", "Hello?", "--thread", "t", "--model", cli.script("Good morning."))
    done = mounted(READ_ONLY, command)
    assert (done.code, done.out) == (1, "")
    (line,) = done.errors.splitlines()
    assert "read-only" in line.lower()


@needs_mounts
def test_a_log_that_a_killed_process_left_is_read_on_a_read_only_disk(
    cli: CommandLine, mounted: Mounted, state: Path
) -> None:
    model = cli.script("Good morning.", "Good evening.")
    cli.run("ask", "Hello?", "--thread", "t", "--model", model)
    (file,) = state.rglob("threads.sqlite")
    with closing(sqlite3.connect(file)) as connection:  # so that the next process does not empty the log
        connection.execute("SELECT * FROM checkpoints").fetchone()
        cli.run("ask", "And now?", "--thread", "t", "--model", model)
        shutil.copytree(state, state.parent / "copy")
    assert (state.parent / "copy" / file.relative_to(state)).with_name("threads.sqlite-wal").stat().st_size
    shutil.rmtree(state)
    (state.parent / "copy").rename(state)
    assert "Good evening." in mounted(READ_ONLY, "threads show t").out


@needs_mounts
@pytest.mark.parametrize(("filled", "options"), [("3m", "--json"), ("1950k", "--thread new")])
def test_a_full_disk_is_refused_before_a_thread_has_a_name(
    mounted: Mounted, state: Path, filled: str, options: str
) -> None:
    state.mkdir()
    (state.parent / "state.kept").mkdir()
    done = mounted(FULL.replace("3m", filled), f"ask Hello? {options}")
    assert (done.code, bool(done.out), '"thread"' in done.out) == (1, options == "--json", False)
    (line,) = done.errors.splitlines()
    assert ["full" in line, "Free some room" in line, "resume" in line] == [True, True, False]


FILL = """
import sys
from pathlib import Path
from skills_agent.graph.threads.errors import JournalError
from skills_agent.graph.threads.journals import FileJournal
from skills_agent.nodes.effects import JournalEntry
journal = FileJournal(Path(sys.argv[1], "own", "journal.sqlite"))
try:
    for number in range(1000):
        journal.put(JournalEntry.lost("t", f"{number}", "d" * 9000))
except JournalError as error:
    print(error)
"""


@needs_mounts
def test_a_disk_that_fills_up_in_the_middle_is_told_with_what_to_do(tmp_path: Path) -> None:
    """A script of the agent may have filled it."""
    (tmp_path / "fill.py").write_text(FILL)
    fill = f"mount -t tmpfs -o size=400k tmpfs /mnt; exec {sys.executable} {tmp_path / 'fill.py'} /mnt"
    done = subprocess.run([*MOUNTING, fill], capture_output=True, text=True, check=True)
    assert "full. Nothing is run that it could not record. Free some room" in done.stdout


def test_threads_of_a_newer_version_are_left_alone(cli: CommandLine, state: Path) -> None:
    cli.run("ask", "Hello?", "--thread", "t", "--model", cli.script("Good morning."))
    (file,) = state.rglob("threads.sqlite")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = file.read_bytes()
    for command in (["threads", "show", "t"], ["ask", "Hello?"], ["threads", "list"]):
        done = cli.run(*command)
        assert (done.code, done.out) == (1, "")
        assert "written by a newer version" in done.errors
    assert file.read_bytes() == before


def test_a_list_of_trust_of_a_newer_version_is_not_to_be_removed(cli: CommandLine) -> None:
    file = trust_file_of(Settings(workspace=cli.workspace, home=cli.home))
    file.parent.mkdir(parents=True)
    file.write_text('{"version": 2, "folders": {}}')
    with pytest.raises(TrustFileError, match=r"written by a newer version of skills-agent\. Use that one\."):
        TrustList(file).paths()
