"""What every script runner keeps, whatever its isolation.

Who has a runner imports these tests beside a fixture `make_runner`.
"""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, ScriptRunner

MakeRunner = Callable[..., ScriptRunner]
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OPENAI_API_KEY": "sk-very-secret", "LANG": "C.UTF-8"}
GROWING_LIMITS = (0.5, 2, 8, 32, 128)
"""Seconds: a program has begun within one of them, on a busy machine within a later one."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "skill").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def request_for(
    place: Path, body: str, *args: str, name: str = "script.py", stdin: str | None = None
) -> ScriptRequest:
    script = place / "skill" / name
    script.write_text(body)
    return ScriptRequest("demo", script, args, stdin, place / "work")


def test_exit_code_streams_and_isolation_come_back(make_runner: MakeRunner, place: Path) -> None:
    runner = make_runner()
    body = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    request = request_for(place, body)
    result = runner.run(request)
    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")
    assert result.level == runner.preflight(request) != ""
    assert result.stopped is None
    assert result.seconds > 0


LONG = "zeile ü\n" * 50_000


@pytest.mark.parametrize(
    ("body", "stdin", "stdout", "code"),
    [
        ("echo from the shell", None, "from the shell\n", 0),  # the file has no exec bit
        ("cat", LONG, LONG, 0),  # larger than a pipe
        ("echo done", LONG, "done\n", 0),  # its stdin is not read
        ("yes | head -n 1; echo ${PIPESTATUS[0]}", None, "y\n141\n", 0),
        ("kill -SEGV $$", None, "", -11),
    ],
    ids=["plain", "large", "unread", "broken pipe", "signal"],
)
def test_a_shell_script_runs_as_in_a_shell(
    make_runner: MakeRunner, place: Path, body: str, stdin: str | None, stdout: str, code: int
) -> None:
    request = request_for(place, body, name="script.sh", stdin=stdin)
    assert request.script is not None
    request.script.chmod(0o644)
    result = make_runner(max_output=1_000_000).run(request)
    assert (result.stdout, result.exit_code) == (stdout, code)


def test_a_script_has_its_arguments_and_works_in_the_work_directory(
    make_runner: MakeRunner, place: Path
) -> None:
    (place / "skill" / "beside.py").write_text("VALUE = 5")
    arguments = ("a b", "$HOME", "; touch pwned", "*", "", "--flag=é", "'\"")
    body = "import beside, sys; print(beside.VALUE, sys.argv[1:]); open('made.txt', 'w').write('x')"
    assert make_runner().run(request_for(place, body, *arguments)).stdout == f"5 {list(arguments)}\n"
    assert [each.name for each in (place / "work").glob("[!.]*")] == ["made.txt"]
    assert sorted(each.name for each in (place / "skill").iterdir()) == ["beside.py", "script.py"]


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


def test_output_is_utf_8_and_text_where_it_is_not(make_runner: MakeRunner, place: Path) -> None:
    body = "import sys; print('größe 🚀', flush=True); sys.stdout.buffer.write(b'caf\\xe9 \\xff\\n')"
    assert make_runner().run(request_for(place, body)).stdout == "größe 🚀\ncaf\ufffd \ufffd\n"


def test_secrets_and_the_home_of_the_agent_are_not_inherited(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner().run(request_for(place, "env; echo $HOME; echo ~", name="script.sh"))
    assert "sk-very-secret" not in result.stdout
    assert "PATH=" in result.stdout
    assert str(Path.home()) not in result.stdout.splitlines()


def stopped_once_it_has_begun(make_runner: MakeRunner, request: ScriptRequest) -> ScriptResult:
    for limit in GROWING_LIMITS:
        result = make_runner(timeout=limit).run(request)
        assert result.stopped == "time"
        if result.stdout:
            break
    assert result.stdout == "begun\n"
    return result


def test_a_time_limit_ends_the_script_and_keeps_what_it_said(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "import time; print('begun'); time.sleep(600)")
    assert stopped_once_it_has_begun(make_runner, request).exit_code is None


@pytest.mark.slow
def test_a_script_that_refuses_to_end_is_ended(make_runner: MakeRunner, place: Path) -> None:
    body = "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done"
    stopped_once_it_has_begun(make_runner, request_for(place, body, name="script.sh"))


def test_output_past_the_limit_is_cut_and_counted(make_runner: MakeRunner, place: Path) -> None:
    body = "import sys; sys.stdout.write('a' * 5_000 + 'z' * 5_000); sys.stderr.write('e' * 10)"
    result = make_runner(max_output=1_000).run(request_for(place, body))
    assert (result.exit_code, result.stdout_cut, len(result.stdout) < 1_100) == (0, 9_000, True)
    assert (result.stdout[0], result.stdout[-1]) == ("a", "z")
    assert (result.stderr, result.stderr_cut) == ("e" * 10, 0)


def test_endless_output_ends_the_script(make_runner: MakeRunner, place: Path) -> None:
    result = make_runner(max_output=10_000, timeout=100).run(request_for(place, "yes", name="script.sh"))
    assert (result.exit_code, result.stopped, len(result.stdout) < 11_000) == (None, "output", True)


@pytest.mark.parametrize("argument", ["a\0b", "\ud800", "x" * 5_000_000], ids=["nul", "half", "long"])
def test_an_argument_no_process_takes_is_refused(make_runner: MakeRunner, place: Path, argument: str) -> None:
    runner = make_runner(max_parallel=1)
    for _ in range(2):
        with pytest.raises(ScriptError, match=r"script\.py"):
            runner.run(request_for(place, "", argument))
    assert runner.run(request_for(place, "print(1)")).stdout == "1\n"


@pytest.mark.parametrize("missing", ["script", "work"])
def test_a_missing_script_or_work_folder_is_refused(
    make_runner: MakeRunner, place: Path, missing: str
) -> None:
    request = request_for(place, "")
    (place / "skill" / "script.py").unlink() if missing == "script" else shutil.rmtree(request.workdir)
    with pytest.raises(ScriptError):
        make_runner().run(request)


@pytest.mark.parametrize(
    ("source", "trusted", "granted"), [("user", True, True), ("project", False, False), ("mine", False, True)]
)
def test_a_granted_secret_reaches_its_skill_and_no_other(
    make_runner: MakeRunner, place: Path, source: str, trusted: bool, granted: bool
) -> None:
    runner = make_runner(secrets={"demo": ["OPENAI_API_KEY"], "demo@mine": ["OPENAI_API_KEY"], "x": ["LANG"]})
    request = request_for(place, "echo ${#OPENAI_API_KEY}", name="script.sh")
    request = replace(request, source=source, trusted=trusted)
    lengths = [runner.run(replace(request, skill=each)).stdout for each in ("demo", "other", "")]
    assert lengths == ["14\n" if granted else "0\n", "0\n", "0\n"]


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


def test_a_program_is_run_by_its_name(make_runner: MakeRunner, place: Path) -> None:
    (place / "work" / "here.txt").touch()
    request = ScriptRequest("", None, ("ls", "-1"), None, place / "work")
    assert make_runner().run(request).stdout == "here.txt\n"
    with pytest.raises(ScriptError, match="no-such-program"):
        make_runner().run(replace(request, args=("no-such-program",)))


def test_javascript_runs_where_node_is(make_runner: MakeRunner, place: Path) -> None:
    """`fetch` and WebAssembly reserve gigabytes of addresses that they do not use."""
    if not shutil.which("node", path=ENVIRONMENT["PATH"]):
        pytest.skip("node is not installed")
    body = (
        "import fs from 'node:fs'; fs.writeFileSync('made.txt', 'x')\n"
        "const answer = await fetch('data:text/plain,fetched').then(each => each.text())\n"
        "const memory = new WebAssembly.Memory({initial: 1})\n"
        "console.log(process.argv[2], answer, memory.buffer.byteLength)"
    )
    result = make_runner().run(request_for(place, body, "a b", name="script.mjs"))
    assert result.stdout == "a b fetched 65536\n", result.stderr
    assert (place / "work" / "made.txt").exists()


def line(place: Path, command: str, *, cwd: str | None = None, timeout: float | None = None) -> ScriptRequest:
    """Return the request for a command line."""
    work = place / "work"
    args = ("bash", "--noprofile", "--norc", "-c", command)
    start = work / cwd if cwd else None
    return ScriptRequest("", None, args, "from stdin", work, cwd=start, command=command, timeout=timeout)


def test_a_command_line_is_run_by_a_shell_where_it_is_told(make_runner: MakeRunner, place: Path) -> None:
    (place / "work/sub").mkdir()
    result = make_runner().run(
        line(place, "cat | tr a-z A-Z; pwd; echo $((1 + 1)) >&2; touch ../made; exit 3", cwd="sub")
    )
    assert (result.exit_code, result.stderr) == (3, "2\n")
    assert result.stdout == f"FROM STDIN{place}/work/sub\n"
    assert (place / "work/made").exists()


@pytest.mark.slow
def test_a_request_may_have_another_time_limit_than_its_runner(make_runner: MakeRunner, place: Path) -> None:
    longer = make_runner(timeout=0.1).run(line(place, "sleep 0.5; echo whole", timeout=60))
    assert (longer.exit_code, longer.stdout) == (0, "whole\n")
    assert make_runner(timeout=600).run(line(place, "sleep 600", timeout=0.5)).stopped == "time"
