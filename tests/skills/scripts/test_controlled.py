"""What plain control adds: nothing stays behind, and nothing holds up the agent."""

import fcntl
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from tests.waiting import until

PATH = "/usr/local/bin:/usr/bin:/bin"

# Whoever inherits descriptor 9 holds the lock until it is dead.
HOLD_LOCK = "exec 9>lock; python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'; "


def run(
    place: Path, body: str, name: str = "script.sh", *, environment: Any = None, **limits: Any
) -> ScriptResult:
    (place / name).write_text(body)
    runner = ControlledRunner(environment=environment or {"PATH": PATH}, **limits)
    return runner.run(ScriptRequest("demo", place / name, (), None, place))


def run_until_begun(place: Path, body: str) -> ScriptResult:
    """Run a script to a time limit within which it says something: on a busy machine, to a later one."""
    for limit in (0.5, 2, 8, 32, 128):
        if (result := run(place, body, timeout=limit)).stdout:
            break
    return result


def wait_until_all_are_dead(place: Path) -> None:
    """Wait for the lock that the script's processes hold."""

    def is_free() -> bool:
        with (place / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    until(is_free)


@pytest.mark.slow
def test_grandchildren_that_ignore_sigterm_are_killed_at_the_time_limit(tmp_path: Path) -> None:
    body = HOLD_LOCK + "trap '' TERM; (sleep 600 & sleep 600) & echo begun; wait"
    result = run_until_begun(tmp_path, body)
    assert (result.stopped, result.stdout) == ("time", "begun\n")
    wait_until_all_are_dead(tmp_path)


def test_a_background_child_does_not_outlive_its_script(tmp_path: Path) -> None:
    result = run(tmp_path, HOLD_LOCK + "sleep 600 >/dev/null 2>&1 & echo done")
    assert (result.exit_code, result.stdout) == (0, "done\n")
    wait_until_all_are_dead(tmp_path)
    for start in ("", "setsid "):  # with its output, too, and in a session of its own
        result = run(tmp_path, f"{start}sleep 600 & echo done", timeout=600)
        assert (result.exit_code, result.stdout) == (0, "done\n")


def test_a_script_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    result = run(tmp_path, "exec >&- 2>&-; sleep 0.2; touch made; exit 3")
    assert result.exit_code == 3
    assert (tmp_path / "made").exists()


@pytest.mark.slow
def test_a_script_may_end_in_order_at_sigterm(tmp_path: Path) -> None:
    body = "trap 'echo tidy; exit 0' TERM; echo begun; while :; do sleep 0.05; done"
    result = run_until_begun(tmp_path, body)
    assert (result.stopped, result.exit_code, result.stdout) == ("time", None, "begun\ntidy\n")


def test_only_listed_variables_are_inherited(tmp_path: Path) -> None:
    secret = ("HOME", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV")
    environment = {"PATH": PATH, "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", **dict.fromkeys(secret, "/tmp/x")}
    body = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(run(tmp_path, body, name="script.py", environment=environment).stdout)
    fixed = {"PYTHONUTF8", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
    places = {"HOME", "TMPDIR", "SKILL_DIR", "CLAUDE_SKILL_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PROJECT_DIR"}
    # This one is there on machines with packages of Node for everybody.
    assert set(seen) - {"NODE_PATH"} == {"PATH", "LC_ALL", "TZ", "LANG"} | fixed | places
    assert seen["TZ"] == "Asia/Tokyo"


def test_a_file_that_the_system_cannot_run_is_no_result(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    with pytest.raises(ScriptError, match=r"Cannot start .*program: Exec format error"):
        ControlledRunner(environment={}).run(ScriptRequest("", None, (str(program),), None, tmp_path))


def test_what_was_written_just_before_a_run_is_not_the_runs(tmp_path: Path) -> None:
    for _ in range(20):  # the clock of files stands still for some milliseconds
        assert not run(tmp_path, "true").written


def test_nothing_is_dumped_and_memory_that_is_only_reserved_is_not_limited() -> None:
    limits = ScriptLimits(memory=100).rlimits(60)
    assert (limits["CORE"], limits["DATA"], limits.get("AS"), limits["CPU"] >= 60) == (0, 100, None, True)
    assert ScriptLimits(cpu_seconds=7).rlimits(60)["CPU"] == 7


def test_no_more_scripts_run_at_once_than_allowed(tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text("mkdir busy || exit 1; sleep 0.05; rmdir busy")
    runner = ControlledRunner(environment={"PATH": PATH}, max_parallel=1)
    request = ScriptRequest("demo", script, (), None, tmp_path)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(runner.run, [request] * 8))
    assert [result.exit_code for result in results] == [0] * 8
