"""What runs keep outside of the workspace, on both runners of this machine: HOME, scratch, and /tmp."""

import functools
import stat
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.report import describe
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptRunner
from tests.contracts import runner_contract
from tests.contracts.runner_contract import MakeRunner
from tests.machine import SANDBOX, Plain, Sandboxed

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def controlled(place: Path, **limits: Any) -> ScriptRunner:
    return Plain(workspace=place / "work", environment=ENVIRONMENT, limits=ScriptLimits(**limits))


def bwrap(place: Path, **limits: Any) -> ScriptRunner:
    if SANDBOX.level is None:
        pytest.skip(SANDBOX.reason)
    runner: ScriptRunner = Sandboxed(
        workspace=place / "work", environment=ENVIRONMENT, limits=ScriptLimits(**limits)
    )
    return runner


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("skill", "work", "state/home", "state/thread/scratch"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.fixture(params=[controlled, bwrap], ids=lambda make: make.__name__)
def make_runner(request: pytest.FixtureRequest, place: Path) -> MakeRunner:
    """Return what makes a runner."""
    return functools.partial(request.param, place)


def request_for(place: Path, body: str, *args: str) -> ScriptRequest:
    request = runner_contract.request_for(place, body, *args, name="script.sh")
    return replace(request, home=place / "state/home", scratch=place / "state/thread/scratch")


def test_a_home_is_there_in_the_next_run_and_in_one_beside_it(make_runner: MakeRunner, place: Path) -> None:
    request = request_for(place, 'cat "$HOME/count" 2>/dev/null; echo again >> "$HOME/count"')
    runner = make_runner()
    assert [runner.run(request).stdout for _ in range(3)] == ["", "again\n", "again\nagain\n"]
    assert runner.run(replace(request, scratch=None)).stdout == "again\n" * 3


def test_what_is_written_to_home_and_scratch_is_listed(make_runner: MakeRunner, place: Path) -> None:
    body = 'mkdir -p ~/.config; echo 12 > ~/.config/db; echo 345 > "$SKILL_SCRATCH/part.csv"; echo $HOME'
    result = make_runner().run(request_for(place, body))
    home, scratch = place / "state/home", place / "state/thread/scratch"
    kept = {each.path: each.size for each in result.kept}
    assert kept == {f"{home}/.config/db": 3, f"{scratch}/part.csv": 4}
    assert result.stdout == f"{home}\n"
    assert f"kept at:\n{home}/.config/db (3 bytes)\n{scratch}/part.csv (4 bytes)" in describe(result)


@pytest.mark.parametrize("folder", ["/tmp", "$TMPDIR"])
def test_what_is_left_in_tmp_is_moved_into_scratch(make_runner: MakeRunner, place: Path, folder: str) -> None:
    runner = make_runner()
    body = f'mkdir {folder}/out; echo data > "{folder}/out/a.csv"; : > {folder}/empty; echo {folder}'
    request = request_for(place, body)
    if runner.preflight(request) != "bwrap" and folder == "/tmp":
        pytest.skip("it is the machine's")
    result = runner.run(request)
    (kept,) = result.kept
    assert Path(kept.path).read_text() == "data\n"
    assert Path(kept.path).is_relative_to(place / "state/thread/scratch")
    assert kept.seen_as == f"{result.stdout.strip()}/out/a.csv"
    assert f"{kept.path} (5 bytes), written as {kept.seen_as}" in describe(result)
    # The next script reads it by that path.
    assert runner.run(request_for(place, 'cat "$1"', kept.path)).stdout == "data\n"
    assert [each.name for each in (place / "state/thread").iterdir()] == ["scratch"]


def test_without_a_place_to_keep_it_a_file_is_said_to_be_gone(make_runner: MakeRunner, place: Path) -> None:
    request = replace(
        request_for(place, 'echo data > "$TMPDIR/out.csv"; echo x > ~/y'), scratch=None, home=None
    )
    result = make_runner().run(request)
    assert not result.kept
    assert [Path(each.path).name for each in result.lost] == ["y", "out.csv"]
    assert "GONE with it:\n" in describe(result)
    assert not (place / "state/home/y").exists()


@pytest.mark.parametrize("folder", ["$HOME", "$TMPDIR", "$SKILL_SCRATCH", "."])
@pytest.mark.variants
@pytest.mark.skipif(find_spec("skills_agent.sandbox") is None, reason="the extra sandbox is not installed")
def test_what_a_run_adds_is_bounded_everywhere(make_runner: MakeRunner, place: Path, folder: str) -> None:
    body = f'cd "{folder}"; n=0; while :; do n=$((n+1)); : > file$n; done'
    assert make_runner(written_files=500).run(request_for(place, body)).stopped == "files"


def test_a_link_out_of_the_home_is_not_followed(make_runner: MakeRunner, place: Path) -> None:
    (place / "secret").mkdir()
    (place / "secret/key").write_text("of the person")
    (place / "state/home/link").symlink_to(place / "secret")
    (place / "state/home/file").symlink_to(place / "secret/key")
    result = make_runner().run(request_for(place, 'ln -s "$1" ~/new; ln -s "$1" $TMPDIR/t', str(place)))
    assert result.kept == ()
    assert list((place / "state/thread/scratch").iterdir()) == []


def test_a_sandboxed_script_does_not_reach_what_a_link_in_its_home_names(place: Path) -> None:
    (place / "secret").write_text("of the person")
    (place / "state/home/link").symlink_to(place / "secret")
    result = bwrap(place).run(request_for(place, "cat ~/link; echo x > ~/link"))
    assert "of the person" not in result.stdout
    assert (place / "secret").read_text() == "of the person"


def test_a_sandboxed_script_sees_no_other_home(place: Path) -> None:
    (place / "state/other").mkdir()
    (place / "state/other/key").write_text("of another skill")
    (place / "state/owner.json").write_text("{}")
    result = bwrap(place).run(request_for(place, 'ls -A "$HOME/.."; cat "$HOME/../other/key"; mv ~ ~2'))
    assert "other" not in result.stdout
    assert "owner" not in result.stdout
    assert (place / "state/home").is_dir()


def test_pipes_and_sockets_are_neither_waited_for_nor_kept(make_runner: MakeRunner, place: Path) -> None:
    body = (
        "mkfifo ~/pipe $TMPDIR/pipe $SKILL_SCRATCH/pipe\n"
        "python3 -c \"import socket, os; os.chdir(os.environ['TMPDIR']); "
        "socket.socket(socket.AF_UNIX).bind('s')\""
    )
    result = make_runner().run(request_for(place, body))
    assert result.kept == ()
    assert result.exit_code == 0 or result.level == "landlock"  # which lets it make no socket
    result = make_runner().run(request_for(place, "mkdir ~/dark && echo x > ~/dark/y && chmod 0 ~/dark"))
    assert result.exit_code == 0
    # What it closes to everybody does not stop the next one, and one that leaves nothing says nothing.
    result = make_runner().run(request_for(place, "mktemp -d >/dev/null; ls ~"))
    assert (result.stdout, result.kept, result.lost) == ("dark\npipe\n", (), ())


def test_no_file_that_a_script_keeps_gets_the_rights_of_another_user(place: Path) -> None:
    bwrap(place).run(request_for(place, "echo x > ~/x; chmod 4755 ~/x; echo y > /tmp/y; chmod 4755 /tmp/y"))
    for path in (place / "state").rglob("*"):
        assert not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
