"""Which isolation is used, and that it is said."""

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from skills_agent.sandbox import choice, landlock, overlay, probes
from skills_agent.sandbox.bwrap import probe
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts import environment
from skills_agent.skills.scripts.choice import Isolation, OwnRunner, Wish
from skills_agent.skills.scripts.runner import ScriptRequest

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """Return a PATH with a bubblewrap that this machine refuses the namespaces."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "bwrap").write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n"
    )
    (folder / "prlimit").write_text("#!/bin/sh\n")
    for each in folder.iterdir():
        each.chmod(0o755)
    return f"{folder}:/nowhere"


@pytest.fixture
def no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand for an old kernel, or for a container that refuses it."""
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)


def runner_for(sandbox: Wish, request: ScriptRequest, path: str) -> OwnRunner:
    return choice.runner(sandbox, workspace=request.workdir, environment={"PATH": path})


def test_a_sandbox_that_works_is_used(request_here: ScriptRequest) -> None:
    if probe(SYSTEM).program is None:
        pytest.skip(probe(SYSTEM).reason)
    choices: tuple[Wish, ...] = ("auto", "require")
    for sandbox in choices:
        assert runner_for(sandbox, request_here, SYSTEM).run(request_here).level == "bwrap"
    assert runner_for("off", request_here, SYSTEM).run(request_here).level == "controlled"


@pytest.mark.skipif(landlock.probe().program is None, reason=landlock.probe().reason)
@pytest.mark.parametrize("sandbox", ["auto", "require"])
def test_without_namespaces_landlock_is_used(request_here: ScriptRequest, broken: str, sandbox: Wish) -> None:
    runner = runner_for(sandbox, request_here, broken)
    assert runner.preflight(request_here) == runner.run(request_here).level == "landlock"
    assert runner.why_not() == ""
    with pytest.raises(ScriptError, match="in the background works in the workspace itself"):
        runner.preflight(replace(request_here, in_background=True))
    level, reason = choice.isolation(sandbox, broken)
    assert level == "landlock"
    assert "No permissions to create new namespace; Landlock" in reason
    assert landlock.WEAKER in reason


@pytest.mark.usefixtures("no_landlock")
def test_without_one_the_fall_back_is_told_once(
    request_here: ScriptRequest, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    runner = runner_for("auto", request_here, broken)
    with caplog.at_level(logging.WARNING):
        assert runner.preflight(request_here) == "controlled"
        for _ in range(2):
            result = runner.run(request_here)
    assert (result.stdout, result.level) == ("ran\n", "controlled")
    (record,) = (each for each in caplog.records if "WITHOUT a sandbox" in each.message)
    assert "WITHOUT a sandbox" in record.message
    assert "No permissions to create new namespace" in record.message


@pytest.mark.parametrize("sandbox", ["auto", "require"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [("#!/bin/sh\nexec sleep 600\n", "did not start within 0.5 seconds"), ("no program", "cannot be run")],
    ids=["too slow", "not started"],
)
@pytest.mark.slow
def test_a_sandbox_that_nobody_could_try_is_not_one_that_does_not_work(
    request_here: ScriptRequest,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    sandbox: Wish,
    answer: str,
    told: str,
) -> None:
    """On a starved machine, scripts would run without one."""
    program = Path(broken.partition(":")[0], "bwrap")
    refusal = program.read_text()
    program.write_text(answer)
    with monkeypatch.context() as patched:
        patched.setattr(probes, "PROBE_SECONDS", 0.5)
        runner = runner_for(sandbox, request_here, broken)
        for ask in (runner.run, runner.preflight):
            with pytest.raises(ScriptError, match=f"not known, for bubblewrap {told}"):
                ask(request_here)
        assert choice.isolation(sandbox, broken).level is None
    program.write_text(refusal)
    assert "No permissions" in choice.isolation(sandbox, broken).reason


@pytest.mark.usefixtures("no_landlock")
@pytest.mark.parametrize(
    ("sandbox", "level"), [("auto", "controlled"), ("require", None), ("off", "controlled")]
)
def test_a_doctor_can_say_what_a_setting_comes_to(sandbox: Wish, level: str | None, broken: str) -> None:
    found = choice.isolation(sandbox, broken)
    assert found.level == level
    assert ("No permissions" in found.reason) is (sandbox != "off")
    assert choice.isolation("require", "/nowhere") == Isolation(
        None, f"bubblewrap is not installed (bwrap is not in PATH); {landlock.probe().reason}"
    )


@pytest.mark.skipif(probe(SYSTEM).program is None, reason=probe(SYSTEM).reason)
def test_a_doctor_can_say_what_runs_write_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "MOUNTING", ("false",))
    found = choice.isolation("auto", SYSTEM, Path.cwd(), tmp_path / "state").reason
    assert "copies of the workspace, for no layer can be mounted (exit code 1)" in found
    assert (tmp_path / "state").exists() is False


@pytest.mark.skipif(os.geteuid() != 0, reason="this user is not root")
def test_root_is_warned_once_a_process_where_no_sandbox_holds_scripts(
    request_here: ScriptRequest, caplog: pytest.LogCaptureFixture
) -> None:
    environment.warn_of_root.cache_clear()
    if choice.isolation("auto", SYSTEM).level == "bwrap":
        runner_for("auto", request_here, SYSTEM).preflight(request_here)
        assert not [each for each in caplog.records if each.name.endswith("environment")]
        assert "those in the workspace alone" in choice.isolation("auto", SYSTEM).reason
    for _ in range(2):
        runner_for("off", request_here, SYSTEM).run(request_here)
    (record,) = (each for each in caplog.records if each.name.endswith("environment"))
    assert "they can change every file of this machine" in record.message
    assert "they can change every file of this machine" in choice.isolation("off", SYSTEM).reason
