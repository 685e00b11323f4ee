"""What runs scripts where no sandbox is installed, and that it is said."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.choice import OwnRunner, Sandbox, Wish
from skills_agent.skills.scripts.runner import ScriptRequest

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
MISSING = "the extra sandbox is not installed: install skills-agent again, with it"


def runner_for(wish: Wish, request: ScriptRequest) -> OwnRunner:
    return Sandbox().runner(wish, workspace=request.workdir, environment={"PATH": SYSTEM}, protected=("x",))


@pytest.mark.parametrize(("wish", "warnings"), [("auto", 1), ("off", 0)])
def test_without_a_sandbox_scripts_run_under_plain_control_and_that_is_told_once(
    request_here: ScriptRequest, caplog: pytest.LogCaptureFixture, wish: Wish, warnings: int
) -> None:
    runner = runner_for(wish, request_here)
    with caplog.at_level(logging.WARNING):
        results = [runner.run(request_here) for _ in range(2)]
    assert [(each.stdout, each.level) for each in results] == [("ran\n", "controlled")] * 2
    told = [each.message for each in caplog.records if "WITHOUT a sandbox" in each.message]
    assert len(told) == warnings
    assert all(MISSING in each for each in told)


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
def test_a_doctor_can_say_what_a_setting_comes_to(wish: Wish, level: str | None, tmp_path: Path) -> None:
    found = Sandbox().isolation(wish)
    assert found.level == level
    assert (MISSING in found.reason) is (wish != "off")
    assert Sandbox().pending_looks(tmp_path) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_an_undumpable_process_stays_so() -> None:
    body = (
        "import ctypes; from skills_agent.skills.scripts.environment import make_undumpable\n"
        "print(make_undumpable(), ctypes.CDLL(None).prctl(PR_GET_DUMPABLE := 3, 0, 0, 0, 0))"
    )
    run = [sys.executable, "-c", body]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "True 0\n"
