"""What every script runner keeps, whatever its isolation."""

import functools
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest

from skills_agent.sandbox.bwrap import BwrapRunner, probe
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.library.snapshots import SnapshotStore
from skills_agent.skills.scripts.command_line import command_request
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, ScriptRunner, WrittenFile
from skills_agent.sources.external_runner import ExternalRunner
from tests.waiting import until

MakeRunner = Callable[..., ScriptRunner]
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OPENAI_API_KEY": "sk-very-secret", "LANG": "C.UTF-8"}
GROWING_LIMITS = (0.5, 2, 8, 32, 128)
"""Seconds: a program has begun within one of them, on a busy machine within a later one."""


SLOW = pytest.mark.slow


def controlled(place: Path, **limits: Any) -> ScriptRunner:
    return ControlledRunner(environment=ENVIRONMENT, **limits)


def bwrap(place: Path, **limits: Any) -> ScriptRunner:
    if probe(ENVIRONMENT["PATH"]).program is None:
        pytest.skip(probe(ENVIRONMENT["PATH"]).reason)
    return BwrapRunner(workspace=place / "work", environment=ENVIRONMENT, **limits)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "skill").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def external(place: Path, **limits: Any) -> ScriptRunner:
    return ExternalRunner(ShellBackend(), workdir=str(place / "work"), environment=ENVIRONMENT, **limits)


class Answer(NamedTuple):
    """What deepagents' backends answer."""

    output: str
    exit_code: int | None
    truncated: bool = False


class ShellBackend:
    """A backend like deepagents' sandboxes, on this machine."""

    def execute(self, command: str, *, timeout: int | None = None) -> Answer:
        ran = subprocess.run(
            ["sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={"PATH": ENVIRONMENT["PATH"], "SECRET_OF_THE_MACHINE": "sk-very-secret"},
        )
        return Answer(ran.stdout + ran.stderr, ran.returncode)


@pytest.fixture(
    params=[controlled, pytest.param(bwrap, marks=SLOW), pytest.param(external, marks=SLOW)],
    ids=["controlled", "bwrap", "external"],
)
def make_runner(request: pytest.FixtureRequest, place: Path) -> MakeRunner:
    """Return what makes a runner: one parameter for every implementation."""
    return functools.partial(request.param, place)


@pytest.fixture(params=[controlled, pytest.param(bwrap, marks=SLOW)], ids=["controlled", "bwrap"])
def make_local_runner(request: pytest.FixtureRequest, place: Path) -> MakeRunner:
    """Return the same for the runners of this machine."""
    return functools.partial(request.param, place)


def request_for(
    place: Path, body: str, *args: str, name: str = "script.py", stdin: str | None = None
) -> ScriptRequest:
    script = place / "skill" / name
    script.write_text(body)
    return ScriptRequest("demo", script, args, stdin, place / "work")


def test_exit_code_and_both_streams_come_back(make_runner: MakeRunner, place: Path) -> None:
    body = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    result = make_runner().run(request_for(place, body))
    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")
    assert result.stopped is None
    assert result.seconds > 0


def test_the_level_of_isolation_is_in_the_result(make_runner: MakeRunner, place: Path) -> None:
    runner = make_runner()
    request = request_for(place, "")
    assert runner.run(request).level == runner.preflight(request) != ""


def test_arguments_reach_the_script_as_they_are(make_runner: MakeRunner, place: Path) -> None:
    arguments = ("a b", "$HOME", "; touch pwned", "*", "", "--flag=é", "'\"")
    result = make_runner().run(request_for(place, "import sys; print(sys.argv[1:])", *arguments))
    assert result.stdout == f"{list(arguments)}\n"
    assert not list((place / "work").glob("[!.]*"))


def test_a_script_without_the_exec_bit_runs(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "echo from the shell", name="script.sh")
    assert request.script is not None
    request.script.chmod(0o644)
    assert make_runner().run(request).stdout == "from the shell\n"


def test_the_script_works_in_the_work_directory(make_runner: MakeRunner, place: Path) -> None:
    make_runner().run(request_for(place, "open('made.txt', 'w').write('x')"))
    assert (place / "work" / "made.txt").read_text() == "x"


def test_the_skill_folder_is_left_as_it_was(make_runner: MakeRunner, place: Path) -> None:
    (place / "skill" / "beside.py").write_text("VALUE = 5")
    result = make_runner().run(request_for(place, "import beside; print(beside.VALUE)"))
    assert result.stdout == "5\n"
    assert sorted(each.name for each in (place / "skill").iterdir()) == ["beside.py", "script.py"]


def test_stdin_is_closed_unless_given(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner().run(request_for(place, "import sys; print(repr(sys.stdin.read()))"))
    assert result.stdout == "''\n"


def test_the_agents_own_stdin_is_not_the_scripts(make_runner: MakeRunner, place: Path) -> None:
    ours = os.dup(0)
    reading, writing = os.pipe()
    try:
        os.dup2(reading, 0)
        os.write(writing, b"typed by a person")
        os.close(writing)
        result = make_runner().run(request_for(place, "import sys; print(repr(sys.stdin.read()))"))
    finally:
        os.dup2(ours, 0)
        os.close(ours)
        os.close(reading)
    assert result.stdout == "''\n"


def test_a_given_stdin_of_any_size_reaches_the_script(make_runner: MakeRunner, place: Path) -> None:
    text = "zeile ü\n" * 50_000
    body = "import sys; text = sys.stdin.read(); print(text[:8], len(text))"
    result = make_runner().run(request_for(place, body, stdin=text))
    assert result.stdout == f"zeile ü\n {len(text)}\n"


def test_a_script_that_ignores_its_stdin_ends(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner().run(request_for(place, "print('done')", stdin="x" * 1_000_000))
    assert (result.exit_code, result.stdout) == (0, "done\n")


def test_input_and_output_larger_than_a_pipe_do_not_block(make_runner: MakeRunner, place: Path) -> None:
    text = "x" * 500_000
    result = make_runner(max_output=1_000_000).run(request_for(place, "cat", name="script.sh", stdin=text))
    assert result.stdout == text


def test_output_that_is_not_utf_8_is_text_all_the_same(make_runner: MakeRunner, place: Path) -> None:
    body = r"import sys; sys.stdout.buffer.write(b'caf\xe9 \xff\n')"
    assert make_runner().run(request_for(place, body)).stdout == "caf\ufffd \ufffd\n"


def test_python_output_is_utf_8_whatever_the_locale(make_runner: MakeRunner, place: Path) -> None:
    assert make_runner().run(request_for(place, "print('größe 🚀')")).stdout == "größe 🚀\n"


def test_secrets_of_the_agent_are_not_inherited(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner().run(request_for(place, "env", name="script.sh"))
    assert "sk-very-secret" not in result.stdout
    assert "PATH=" in result.stdout


def test_home_is_not_the_agents(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner().run(request_for(place, "echo $HOME; echo ~", name="script.sh"))
    assert str(Path.home()) not in result.stdout.splitlines()


def test_a_time_limit_ends_the_script_and_keeps_what_it_said(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "import time; print('begun'); time.sleep(600)")
    for limit in GROWING_LIMITS:
        result = make_runner(timeout=limit).run(request)
        assert result.stopped == "time"
        assert result.exit_code is None
        if result.stdout:
            break
    assert result.stdout == "begun\n"


@pytest.mark.slow
def test_a_script_that_refuses_to_end_is_ended(make_runner: MakeRunner, place: Path) -> None:
    body = "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done"
    request = request_for(place, body, name="script.sh")
    for limit in GROWING_LIMITS:
        result = make_runner(timeout=limit).run(request)
        assert result.stopped == "time"
        if result.stdout:
            break
    assert result.stdout == "begun\n"


def test_output_past_the_limit_is_cut_and_counted(make_runner: MakeRunner, place: Path) -> None:
    body = "import sys; sys.stdout.write('a' * 5_000 + 'z' * 5_000); sys.stderr.write('e' * 10)"
    result = make_runner(max_output=1_000).run(request_for(place, body))
    assert result.exit_code == 0
    assert result.stdout_cut == 9_000
    assert result.stdout.startswith("a")
    assert result.stdout.endswith("z")
    assert len(result.stdout) < 1_100
    assert (result.stderr, result.stderr_cut) == ("e" * 10, 0)


def test_endless_output_ends_the_script(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner(max_output=10_000, timeout=100).run(request_for(place, "yes", name="script.sh"))
    assert result.exit_code is None
    assert result.stopped == "output"
    assert len(result.stdout) < 11_000


def test_a_broken_pipe_ends_a_program_as_in_a_shell(make_runner: MakeRunner, place: Path) -> None:
    body = "yes | head -n 1; echo ${PIPESTATUS[0]}"
    assert make_runner().run(request_for(place, body, name="script.sh")).stdout == "y\n141\n"


def test_death_by_signal_is_a_negative_exit_code(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner().run(request_for(place, "kill -SEGV $$", name="script.sh"))
    assert result.exit_code == -11


@pytest.mark.parametrize("argument", ["a\0b", "\ud800"])
def test_an_argument_that_no_process_can_take_is_refused(
    make_runner: MakeRunner, place: Path, argument: str
) -> None:
    with pytest.raises(ScriptError, match=r"script\.py"):
        make_runner().run(request_for(place, "", argument))


def test_arguments_longer_than_the_system_takes_are_refused(make_runner: MakeRunner, place: Path) -> None:
    with pytest.raises(ScriptError, match=r"script\.py"):
        make_runner().run(request_for(place, "", "x" * 5_000_000))


def test_a_missing_script_is_refused(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "")
    assert request.script is not None
    request.script.unlink()
    with pytest.raises(ScriptError):
        make_runner().run(request)


def test_a_missing_work_directory_is_refused(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "")
    shutil.rmtree(request.workdir)
    with pytest.raises(ScriptError):
        make_runner().run(request)


def test_a_failed_run_leaves_the_runner_usable(make_runner: MakeRunner, place: Path) -> None:
    runner = make_runner(max_parallel=1)
    for _ in range(3):
        with pytest.raises(ScriptError):
            runner.run(request_for(place, "", "a\0b"))
    result: ScriptResult = runner.run(request_for(place, "print(1)"))
    assert result.stdout == "1\n"


def test_files_that_the_script_writes_are_listed_with_their_sizes(
    make_local_runner: MakeRunner, place: Path
) -> None:
    (place / "work" / "old.txt").write_text("old")
    (place / "work" / "changed.txt").write_text("old")
    body = "mkdir sub; echo hello >sub/new.txt; echo more >>changed.txt; cat old.txt >/dev/null"
    result = make_local_runner().run(request_for(place, body, name="script.sh"))
    assert result.written == (WrittenFile("changed.txt", 8), WrittenFile("sub/new.txt", 6))


def test_a_long_list_of_written_files_is_cut(make_local_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "touch a b c d e", name="script.sh")
    result = make_local_runner(max_written=2).run(request)
    assert ([each.path for each in result.written], result.written_more) == (["a", "b"], 3)


@pytest.mark.parametrize(
    ("source", "trusted", "granted"),
    [("user", True, True), ("project", False, False), ("mine", False, True)],
)
def test_a_granted_secret_reaches_its_skill_and_no_other(
    make_runner: MakeRunner, place: Path, source: str, trusted: bool, granted: bool
) -> None:
    runner = make_runner(secrets={"demo": ["OPENAI_API_KEY"], "demo@mine": ["OPENAI_API_KEY"], "x": ["LANG"]})
    request = request_for(place, "echo ${#OPENAI_API_KEY}", name="script.sh")
    request = replace(request, source=source, trusted=trusted)
    assert runner.run(request).stdout == ("14\n" if granted else "0\n")
    assert runner.run(replace(request, skill="other")).stdout == "0\n"
    assert runner.run(replace(request, skill="")).stdout == "0\n"


def test_a_secret_is_taken_out_of_the_output_before_it_is_cut(make_runner: MakeRunner, place: Path) -> None:
    body = (
        "import base64, os, sys; key = os.environ['OPENAI_API_KEY']\n"
        "sys.stderr.write('é' + key); sys.stderr.flush(); sys.stdout.write(key[:5]); sys.stdout.flush()\n"
        "print(key[5:], base64.b64encode(b'x:' + key.encode()).decode(), key.encode().hex())"
    )
    runner = make_runner(secrets={"demo": ["OPENAI_API_KEY"]}, max_output=1_000)
    result = runner.run(request_for(place, body))
    assert result.stderr == "é[secret]"
    assert result.stdout.startswith("[secret] eD")
    assert result.stdout.count("[secret]") == 3
    cut = make_runner(secrets={"demo": ["OPENAI_API_KEY"]}, max_output=20).run(
        request_for(place, "printf 'xxxxx%sxxxxx' $OPENAI_API_KEY$OPENAI_API_KEY", name="script.sh")
    )
    assert re.fullmatch(r"xxxxx\[secr\n\[\d+ bytes cut\]\ncret\]xxxxx", cut.stdout)


def test_each_run_has_a_home_and_a_temporary_folder_of_its_own(make_runner: MakeRunner, place: Path) -> None:
    body = 'ls -A "$HOME" "$TMPDIR" | grep -c mark; touch "$HOME/mark" "$TMPDIR/mark"; pwd'
    runner = make_runner()
    for _ in range(2):
        result = runner.run(request_for(place, body, name="script.sh"))
        assert result.stdout == f"0\n{place / 'work'}\n"
        assert result.stderr == ""


def test_a_script_may_start_in_the_folder_of_its_skill(make_runner: MakeRunner, place: Path) -> None:
    (place / "skill/scripts").mkdir()
    (place / "skill/scripts/other.sh").write_text("echo other")
    request = request_for(place, "sh ./scripts/other.sh; cat script.sh | wc -l", name="script.sh")
    result = make_runner().run(replace(request, in_skill=True, root=place / "skill"))
    assert result.stdout == "other\n0\n", result.stderr


def test_a_script_finds_its_skill_and_the_project(make_local_runner: MakeRunner, place: Path) -> None:
    body = 'cat "$CLAUDE_SKILL_DIR/note" "$SKILL_DIR/note"; cd "$CLAUDE_PROJECT_DIR" && pwd'
    (place / "skill/note").write_text("n\n")
    result = make_local_runner().run(request_for(place, body, name="script.sh"))
    assert result.stdout == f"n\nn\n{place / 'work'}\n"


def test_a_program_is_run_by_its_name(make_runner: MakeRunner, place: Path) -> None:
    (place / "work" / "here.txt").touch()
    request = ScriptRequest("", None, ("ls", "-1"), None, place / "work")
    assert make_runner().run(request).stdout == "here.txt\n"
    with pytest.raises(ScriptError, match="no-such-program"):
        make_runner().run(replace(request, args=("no-such-program",)))


def test_preflight_says_what_is_missing_and_starts_nothing(
    make_local_runner: MakeRunner, place: Path
) -> None:
    runner = make_local_runner()
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


def test_a_limit_of_memory_holds_for_all_processes_together(
    make_local_runner: MakeRunner, place: Path
) -> None:
    result = make_local_runner(limits=ScriptLimits(memory=200 << 20)).run(request_for(place, EATERS))
    assert (result.stopped, result.exit_code) == ("memory", None)
    assert result.seconds < 100


def test_a_limit_of_processes_holds(make_local_runner: MakeRunner, place: Path) -> None:
    result = make_local_runner(limits=ScriptLimits(processes=20)).run(request_for(place, SLEEPERS))
    # In a sandbox that is not root's, the kernel refuses the next process instead.
    assert result.stopped == "processes" or re.fullmatch(r"1\d and no more\n", result.stdout)
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
    make_local_runner: MakeRunner, place: Path, limits: ScriptLimits, body: str, shown: str
) -> None:
    result = make_local_runner(limits=limits, timeout=100).run(request_for(place, body))
    assert result.exit_code not in {0, None}
    assert shown in result.stderr
    assert result.stopped is None


def test_javascript_runs_where_node_is(make_runner: MakeRunner, place: Path) -> None:
    if not shutil.which("node", path=ENVIRONMENT["PATH"]):
        pytest.skip("node is not installed")
    body = "import fs from 'node:fs'; fs.writeFileSync('made.txt', 'x'); console.log(process.argv[2])"
    assert make_runner().run(request_for(place, body, "a b", name="script.mjs")).stdout == "a b\n"
    assert (place / "work" / "made.txt").exists()


def test_node_fetches_and_runs_webassembly(make_runner: MakeRunner, place: Path) -> None:
    """Both reserve gigabytes of addresses that they do not use."""
    if not shutil.which("node", path=ENVIRONMENT["PATH"]):
        pytest.skip("node is not installed")
    body = (
        "const answer = await fetch('data:text/plain,fetched').then(each => each.text())\n"
        "console.log(answer, new WebAssembly.Memory({initial: 1}).buffer.byteLength)"
    )
    result = make_runner().run(request_for(place, body, name="script.mjs"))
    assert result.stdout == "fetched 65536\n", result.stderr


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
def test_what_is_copied_of_a_skill_can_be_filled_in_and_removed(
    make_local_runner: MakeRunner, place: Path, name: str
) -> None:
    """By the modes: root writes to every file, whatever they are."""
    if name.endswith("mjs") and not shutil.which("node", path=ENVIRONMENT["PATH"]):
        pytest.skip("node is not installed")
    request = request_for(place, COPIES[name], name=name)
    (place / "skill" / "forms").mkdir()
    (place / "skill" / "forms" / "a.txt").write_text("a")
    (place / "skill" / "form.txt").write_text("Dear,")
    snapshot = SnapshotStore(place / "cache").take(place / "skill")
    (place / "skill" / "form.txt").write_text("Another version.")
    result = make_local_runner().run(replace(request, script=snapshot.folder / name, root=snapshot.folder))
    assert result.exit_code == 0, result.stderr
    assert (place / "work" / "one.txt").read_text() == "Dear,"
    copied = [place / "work" / each for each in ("one.txt", "all", "all/a.txt")]
    assert all(each.stat().st_mode & stat.S_IWUSR for each in copied)


def test_a_script_changes_no_snapshot_and_what_it_lost_is_listed(
    make_local_runner: MakeRunner, place: Path
) -> None:
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
    result = make_local_runner().run(replace(request, script=script, root=snapshot.folder))
    assert store.open(snapshot.digest) == snapshot
    assert (snapshot.folder / "log.txt").read_text() == "begun"
    lost = [Path(each.path).name for each in result.lost]
    assert lost == ([] if "Read-only file system" in result.stderr else ["log.txt"])


# --- command lines ---


def line(place: Path, command: str, **more: Any) -> ScriptRequest:
    request = command_request(command, workspace=place / "work", **more)
    return replace(request, stdin="from stdin")


def test_a_command_line_is_run_by_a_shell(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner().run(line(place, "cat | tr a-z A-Z; echo $((1 + 1)) >&2; exit 3"))
    assert (result.exit_code, result.stdout, result.stderr) == (3, "FROM STDIN", "2\n")


def test_a_command_line_starts_where_it_is_told(make_runner: MakeRunner, place: Path) -> None:
    (place / "work/sub").mkdir()
    result = make_runner().run(line(place, "pwd; touch ../made", cwd="sub"))
    assert result.stdout == f"{place}/work/sub\n"
    assert (place / "work/made").exists()


@pytest.mark.slow
def test_a_request_may_have_another_time_limit_than_its_runner(make_runner: MakeRunner, place: Path) -> None:
    longer = make_runner(timeout=0.1).run(line(place, "sleep 0.5; echo whole", timeout=60))
    assert (longer.exit_code, longer.stdout) == (0, "whole\n")
    assert make_runner(timeout=600).run(line(place, "sleep 600", timeout=0.5)).stopped == "time"


@pytest.mark.slow
def test_output_is_told_as_it_comes_and_holds_no_secret(
    make_local_runner: MakeRunner, place: Path, monkeypatch: pytest.MonkeyPatch
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
    runner = make_local_runner(secrets={"demo": ["DEPLOY_KEY"]})
    request = replace(request_for(place, body), on_output=lambda *chunk: told.append(chunk))
    result = runner.run(request)
    assert result.stdout == "begun\n[secret]\nvery-secr-and-on\n"
    assert told[0][1].startswith(b"begun")
    assert b"".join(chunk for _, chunk in told).decode() == result.stdout
    assert not any(b"very-secr" in chunk and b"-and-on" not in chunk for _, chunk in told)


def test_what_runs_in_the_background_takes_no_turn_of_others(
    make_local_runner: MakeRunner, place: Path
) -> None:
    runner = make_local_runner(max_parallel=1)
    ends = Event()
    waits = replace(
        line(place, "echo begun; sleep 600"),
        in_background=True,
        stop=lambda: "request" if ends.is_set() else None,
    )
    with ThreadPoolExecutor() as pool:
        running = pool.submit(runner.run, waits)
        assert runner.run(line(place, "echo beside")).stdout == "beside\n"
        ends.set()
        assert running.result().stopped == "request"


def test_what_another_run_was_approved_to_write_meanwhile_stays(
    make_local_runner: MakeRunner, place: Path
) -> None:
    runner, ends = make_local_runner(), Event()
    work = place / "work"
    waits = replace(
        line(place, "touch begun; sleep 600"),
        in_background=True,
        stop=lambda: "request" if ends.is_set() else None,
    )
    with ThreadPoolExecutor() as pool:
        running = pool.submit(runner.run, waits)
        until((work / "begun").exists)
        approved = replace(line(place, "echo approved > .envrc"), writable=(work / ".envrc",))
        assert runner.run(approved).notices == ()
        ends.set()
        assert running.result().notices == ()
    assert (work / ".envrc").read_text() == "approved\n"
