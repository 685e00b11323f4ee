"""What every script runner keeps, whatever its isolation."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts import ControlledRunner, ScriptRequest, ScriptResult, ScriptRunner

MakeRunner = Callable[..., ScriptRunner]
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OPENAI_API_KEY": "sk-very-secret", "LANG": "C.UTF-8"}


def controlled(**limits: Any) -> ScriptRunner:
    return ControlledRunner(environment=ENVIRONMENT, **limits)


@pytest.fixture(params=[controlled], ids=lambda make: make.__name__)
def make_runner(request: pytest.FixtureRequest) -> MakeRunner:
    """Return what makes a runner: one parameter for every implementation."""
    make: MakeRunner = request.param
    return make


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


def test_exit_code_and_both_streams_come_back(make_runner: MakeRunner, place: Path) -> None:
    body = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    result = make_runner().run(request_for(place, body))
    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")
    assert not result.timed_out
    assert result.seconds > 0


def test_the_level_of_isolation_is_in_the_result(make_runner: MakeRunner, place: Path) -> None:
    runner = make_runner()
    assert runner.run(request_for(place, "")).level == runner.level != ""


def test_arguments_reach_the_script_as_they_are(make_runner: MakeRunner, place: Path) -> None:
    arguments = ("a b", "$HOME", "; touch pwned", "*", "", "--flag=é", "'\"")
    result = make_runner().run(request_for(place, "import sys; print(sys.argv[1:])", *arguments))
    assert result.stdout == f"{list(arguments)}\n"
    assert not list((place / "work").iterdir())


def test_a_script_without_the_exec_bit_runs(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "echo from the shell", name="script.sh")
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
    body = "import time; print('begun'); time.sleep(60)"
    started = time.monotonic()
    result = make_runner(timeout=1).run(request_for(place, body))
    assert result.timed_out
    assert result.exit_code is None
    assert result.stdout == "begun\n"
    assert time.monotonic() - started < 10


def test_a_script_that_refuses_to_end_is_ended(make_runner: MakeRunner, place: Path) -> None:
    body = "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done"
    result = make_runner(timeout=0.5).run(request_for(place, body, name="script.sh"))
    assert result.timed_out
    assert result.seconds < 10


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
    result = make_runner(max_output=10_000, timeout=30).run(request_for(place, "yes", name="script.sh"))
    assert result.exit_code is None
    assert not result.timed_out
    assert len(result.stdout) < 11_000
    assert result.seconds < 15


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
    request.script.unlink()
    with pytest.raises(ScriptError):
        make_runner().run(request)


def test_a_missing_work_directory_is_refused(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, "")
    request.workdir.rmdir()
    with pytest.raises(ScriptError):
        make_runner().run(request)


def test_a_failed_run_leaves_the_runner_usable(make_runner: MakeRunner, place: Path) -> None:
    runner = make_runner(max_parallel=1)
    for _ in range(3):
        with pytest.raises(ScriptError):
            runner.run(request_for(place, "", "a\0b"))
    result: ScriptResult = runner.run(request_for(place, "print(1)"))
    assert result.stdout == "1\n"
