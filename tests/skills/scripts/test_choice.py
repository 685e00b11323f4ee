"""Which runner runs scripts where no sandbox is installed, and that it is said."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts import supervisor
from skills_agent.skills.scripts.choice import NoSandbox, Wish, choose_runner, isolation_here, why_no_shell
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptRunner

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
MISSING = "the extra sandbox is not installed: install skills-agent again, with it"


@pytest.fixture
def request_here(tmp_path: Path) -> ScriptRequest:
    script = tmp_path / "skill" / "script.py"
    script.parent.mkdir()
    (tmp_path / "work").mkdir()
    script.write_text("print('ran')")
    return ScriptRequest("demo", script, (), None, tmp_path / "work")


def runner_for(wish: Wish, request: ScriptRequest) -> ScriptRunner:
    return choose_runner(wish, NoSandbox, workspace=request.workdir, environment={"PATH": SYSTEM})


def test_without_a_sandbox_scripts_run_under_plain_control_and_that_is_told_once(
    request_here: ScriptRequest, caplog: pytest.LogCaptureFixture
) -> None:
    runner = runner_for("auto", request_here)
    with caplog.at_level(logging.WARNING):
        results = [runner.run(request_here) for _ in range(2)]
    assert [(each.stdout, each.level) for each in results] == [("ran\n", "controlled")] * 2
    (record,) = (each for each in caplog.records if each.name.endswith("choice"))
    assert f"WITHOUT a sandbox: {MISSING}" in record.message


def test_a_sandbox_that_is_turned_off_is_not_asked_for(request_here: ScriptRequest) -> None:
    assert runner_for("off", request_here).run(request_here).level == "controlled"


def test_a_required_sandbox_that_is_not_installed_refuses_and_says_what_to_install(
    request_here: ScriptRequest,
) -> None:
    runner = runner_for("require", request_here)
    for ask in (runner.run, runner.preflight):
        with pytest.raises(ScriptError, match=f"\\(sandbox = require\\), and {MISSING}"):
            ask(request_here)


@pytest.mark.parametrize(
    ("wish", "level"), [("auto", "controlled"), ("require", None), ("off", "controlled")]
)
def test_a_doctor_can_say_what_a_setting_comes_to(wish: Wish, level: str | None) -> None:
    found = isolation_here(wish, NoSandbox, SYSTEM)
    assert found.level == level
    assert (MISSING in found.reason) is (wish != "off")


@pytest.mark.parametrize("wish", ["auto", "require", "off"])
def test_no_shell_is_offered_unasked(wish: Wish, request_here: ScriptRequest) -> None:
    assert why_no_shell("auto", runner_for(wish, request_here))
    assert not why_no_shell("on", runner_for(wish, request_here))


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_an_undumpable_process_stays_so() -> None:
    body = (
        "import ctypes; from skills_agent.skills.scripts.environment import make_undumpable\n"
        "print(make_undumpable(), ctypes.CDLL(None).prctl(PR_GET_DUMPABLE := 3, 0, 0, 0, 0))"
    )
    run = [sys.executable, "-c", body]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "True 0\n"


def test_the_supervisor_starts_without_the_site_packages() -> None:
    """It is started for every script: nothing of the project is imported by it."""
    run = [sys.executable, "-I", "-S", "-X", "importtime", supervisor.__file__, "0"]
    said = subprocess.run(run, capture_output=True, text=True, check=False).stderr
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines() if "|" in line}
    assert not imported & {"subprocess", "signal", "re", "typing", "pathlib", "site"}
