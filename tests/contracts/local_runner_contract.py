"""What every runner of this machine keeps beside what `runner_contract.py` has."""

import os
import re
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.library.snapshots import SnapshotStore
from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.runner import WrittenFile
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner, line, request_for
from tests.waiting import until


def test_files_that_a_script_writes_are_listed_with_sizes(make_runner: MakeRunner, place: Path) -> None:
    for name in ("old.txt", "changed.txt"):
        (place / "work" / name).write_text("old")
    body = "mkdir sub; echo hello >sub/new.txt; echo more >>changed.txt; cat old.txt >/dev/null"
    result = make_runner().run(request_for(place, body, name="script.sh"))
    assert result.written == (WrittenFile("changed.txt", 8), WrittenFile("sub/new.txt", 6))
    result = make_runner(max_written=2).run(request_for(place, "touch a b c d e", name="script.sh"))
    assert ([each.path for each in result.written], result.written_more) == (["a", "b"], 3)


def test_a_script_finds_its_skill_and_the_project(make_runner: MakeRunner, place: Path) -> None:
    body = 'cat "$CLAUDE_SKILL_DIR/note" "$SKILL_DIR/note"; cd "$CLAUDE_PROJECT_DIR" && pwd'
    (place / "skill/note").write_text("n\n")
    result = make_runner().run(request_for(place, body, name="script.sh"))
    assert result.stdout == f"n\nn\n{place / 'work'}\n"


def test_preflight_says_what_is_missing_and_starts_nothing(make_runner: MakeRunner, place: Path) -> None:
    runner = make_runner()
    request = request_for(place, "#!/usr/bin/env no-such-language\ntouch started", name="script")
    with pytest.raises(ScriptError, match="no-such-language"):
        runner.preflight(request)
    assert runner.preflight(request_for(place, "touch started", name="script.sh"))
    assert not list((place / "work").glob("[!.]*"))


EATERS = """
import subprocess, sys, time
eat = "import time; kept = bytearray(90 << 20); time.sleep(600)"
all = [subprocess.Popen([sys.executable, "-c", eat]) for _ in range(4)]
time.sleep(600)
"""
SLEEPERS = """
import subprocess, time
all = []
try:
    while len(all) < 60:
        all.append(subprocess.Popen(["sleep", "600"]))
except OSError:
    print(len(all), "and no more")
else:
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("limits", "body", "stopped"),
    [(ScriptLimits(memory=200 << 20), EATERS, "memory"), (ScriptLimits(processes=20), SLEEPERS, "processes")],
    ids=["memory", "processes"],
)
def test_a_limit_holds_for_all_processes_together(
    make_runner: MakeRunner, place: Path, limits: ScriptLimits, body: str, stopped: str
) -> None:
    result = make_runner(limits=limits).run(request_for(place, body))
    # In a sandbox that is not root's, the kernel refuses the next process instead.
    is_refused = stopped == "processes" and re.fullmatch(r"1\d and no more\n", result.stdout)
    assert is_refused or (result.stopped, result.exit_code) == (stopped, None)
    assert result.seconds < 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "body", "shown"),
    [
        (ScriptLimits(memory=300 << 20), "bytearray(1500 << 20)", "MemoryError"),
        (ScriptLimits(file_size=1 << 20), "open('big', 'wb').write(bytes(2 << 20))", "OSError"),
        (ScriptLimits(open_files=32), "all = [open('/dev/null') for _ in range(64)]", "OSError"),
        (ScriptLimits(cpu_seconds=1), "while True: pass", ""),
    ],
    ids=["memory", "file", "open-files", "cpu"],
)
def test_a_limit_of_one_process_holds(
    make_runner: MakeRunner, place: Path, limits: ScriptLimits, body: str, shown: str
) -> None:
    result = make_runner(limits=limits, timeout=100).run(request_for(place, body))
    assert result.exit_code not in {0, None}
    assert shown in result.stderr
    assert result.stopped is None


COPIES = {
    "copy.sh": 'cp "$SKILL_DIR/form.txt" one.txt; cp -r "$SKILL_DIR/forms" all',
    "copy.py": (
        "import os, shutil; own = os.environ['SKILL_DIR']\n"
        "shutil.copy(own + '/form.txt', 'one.txt'); shutil.copytree(own + '/forms', 'all')"
    ),
    "copy.mjs": (
        "import fs from 'node:fs'; const own = process.env.SKILL_DIR\n"
        "fs.copyFileSync(own + '/form.txt', 'one.txt'); fs.cpSync(own + '/forms', 'all', {recursive: true})"
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_what_is_copied_of_a_skill_can_be_changed(make_runner: MakeRunner, place: Path, name: str) -> None:
    """By the modes: root writes to every file, whatever they are."""
    if name.endswith("mjs") and not shutil.which("node", path=ENVIRONMENT["PATH"]):
        pytest.skip("node is not installed")
    request = request_for(place, COPIES[name], name=name)
    (place / "skill" / "forms").mkdir()
    (place / "skill" / "forms" / "a.txt").write_text("a")
    (place / "skill" / "form.txt").write_text("Dear,")
    snapshot = SnapshotStore(place / "cache").take(place / "skill")
    (place / "skill" / "form.txt").write_text("Another version.")
    result = make_runner().run(replace(request, script=snapshot.folder / name, root=snapshot.folder))
    assert result.exit_code == 0, result.stderr
    assert (place / "work" / "one.txt").read_text() == "Dear,"
    copied = [place / "work" / each for each in ("one.txt", "all", "all/a.txt")]
    assert all(each.stat().st_mode & stat.S_IWUSR for each in copied)


def test_a_script_changes_no_snapshot_and_is_told_so(make_runner: MakeRunner, place: Path) -> None:
    """Without a sandbox it gets a copy, in one the snapshot is read-only."""
    body = 'echo more >>"$SKILL_DIR/log.txt"; rm "$SKILL_DIR/other.txt"; true'
    request = request_for(place, body, name="write.sh")
    for name in ("log.txt", "other.txt"):
        (place / "skill" / name).write_text("begun")
    store = SnapshotStore(place / "cache")
    snapshot = store.take(place / "skill")
    for file in snapshot.folder.iterdir():  # made long ago
        os.utime(file, (1, 1))
    script = snapshot.folder / "write.sh"
    result = make_runner().run(replace(request, script=script, root=snapshot.folder))
    assert store.open(snapshot.digest) == snapshot
    assert (snapshot.folder / "log.txt").read_text() == "begun"
    lost = [Path(each.path).name for each in result.lost]
    assert lost == ([] if "Read-only file system" in result.stderr else ["log.txt"])


@pytest.mark.slow
def test_output_is_told_as_it_comes_and_holds_no_secret(
    make_runner: MakeRunner, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that is written in two pieces is held back until it is whole; what is none is not."""
    body = """
import os, time
first, rest = os.environ["DEPLOY_KEY"][:9], os.environ["DEPLOY_KEY"][9:]
print("begun", flush=True)
time.sleep(0.3)
print(first, end="", flush=True)
time.sleep(0.3)
print(rest)
print(first, end="", flush=True)
time.sleep(0.3)
print("-and-on")
"""
    told: list[tuple[str, bytes]] = []
    monkeypatch.setitem(ENVIRONMENT, "DEPLOY_KEY", "very-secret-value")
    runner = make_runner(secrets={"demo": ["DEPLOY_KEY"]})
    request = replace(request_for(place, body), on_output=lambda *chunk: told.append(chunk))
    result = runner.run(request)
    assert result.stdout == "begun\n[secret]\nvery-secr-and-on\n"
    assert told[0][1].startswith(b"begun")
    assert b"".join(chunk for _, chunk in told).decode() == result.stdout
    assert not any(b"very-secr" in chunk and b"-and-on" not in chunk for _, chunk in told)


def test_a_run_in_the_background_leaves_others_alone(make_runner: MakeRunner, place: Path) -> None:
    runner, ends, work = make_runner(max_parallel=1), Event(), place / "work"
    begins = line(place, "touch begun; sleep 600")
    waits = replace(begins, in_background=True, stop=lambda: "request" if ends.is_set() else None)
    try:
        runner.preflight(waits)
    except ScriptError as error:
        pytest.skip(str(error))
    with ThreadPoolExecutor() as pool:
        running = pool.submit(runner.run, waits)
        until((work / "begun").exists)
        approved = replace(line(place, "echo approved > .envrc"), writable=(work / ".envrc",))
        assert runner.run(approved).notices == ()
        ends.set()
        ended = running.result()
    assert (ended.stopped, ended.notices) == ("request", ())
    assert (work / ".envrc").read_text() == "approved\n"
