"""Environments of packages that a person approved: what is in them, and that nothing runs on the way."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from extras.needs.tests.wheels import make_source, make_wheel, offline
from skills_agent.needs import python_packages
from skills_agent.needs.environments import Environments, wanted
from skills_agent.needs.packages import InstallError, listed
from skills_agent.needs.python_packages import packages_in
from skills_agent.skills.skill import Need

NEEDS = (Need("python", "outer", ">=1"), Need("program", "git"))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "index", "outer", requires="inner>=2")
    make_wheel(tmp_path / "index", "inner", "2.5")
    return tmp_path / "index"


@pytest.fixture(params=[True, False], ids=["pip", "uv"])
def environments(
    request: pytest.FixtureRequest, tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> Environments:
    if not (find_spec("pip") if request.param else shutil.which("uv")):
        pytest.skip("it is not here")
    monkeypatch.setattr(python_packages, "_HAS_PIP", request.param)
    return Environments(folder=tmp_path / "environments", environment=offline(index))


@pytest.mark.slow
def test_what_is_approved_is_what_is_installed_and_other_needs_are_asked_about_anew(
    environments: Environments,
) -> None:
    resolved = environments.resolve(wanted(NEEDS, "python").requirements, "python")
    found = [(each.name, each.version, len(each.hashes)) for each in listed("python", resolved)]
    assert found == [("inner", "2.5", 1), ("outer", "1.0", 1)]
    place = environments.install("python", resolved)
    assert environments.of(NEEDS, "python") is None  # nobody has approved it for these needs
    environments.approve(NEEDS, "python", resolved)
    assert environments.of(NEEDS, "python") == place
    program = "import outer, inner; print(outer.VERSION, inner.VERSION)"
    command = [str(place / "bin" / "python"), "-I", "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1.0 2.5\n"
    assert environments.of([Need("python", "outer", ">=2")], "python") is None
    assert environments.of([*NEEDS, Need("python", "more")], "python") is None
    same = Need("python", "outer", ">=1", said="elsewhere")
    assert environments.of([same, Need("program", "other")], "python") == place


def test_an_environment_that_is_not_whole_or_elsewhere_does_not_count(
    environments: Environments, tmp_path: Path
) -> None:
    resolved = environments.resolve(wanted(NEEDS, "python").requirements, "python")
    place = environments.install("python", resolved)
    environments.approve(NEEDS, "python", resolved)
    (place / "complete").unlink()
    assert environments.of(NEEDS, "python") is None
    (packages_in(place) / "left_over.py").touch()
    assert environments.install("python", resolved) == place
    assert not (packages_in(place) / "left_over.py").exists()
    (record,) = (environments.folder / "approved").iterdir()
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "complete").touch()
    record.write_text('{"environment": "../evil"}')
    assert environments.of(NEEDS, "python") is None


def test_another_file_of_the_same_version_is_refused(environments: Environments, index: Path) -> None:
    resolved = environments.resolve(wanted(NEEDS, "python").requirements, "python")
    make_wheel(index, "inner", "2.5", evil_py="")
    with pytest.raises(InstallError, match="not installed"):
        environments.install("python", resolved)
    environments.approve(NEEDS, "python", resolved)
    assert environments.of(NEEDS, "python") is None


@pytest.mark.slow
def test_no_code_of_a_package_runs_while_it_is_installed(environments: Environments, index: Path) -> None:
    ran = index / "ran"
    touch = f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"
    make_wheel(index, "starter", starter_pth=touch, sitecustomize_py="1/0")
    place = environments.install("python", environments.resolve(["starter"], "python"))
    assert not ran.exists()
    # It would have run: a Python of the environment does run it.
    subprocess.run([str(place / "bin" / "python"), "-c", ""], capture_output=True, check=False)
    assert ran.exists()


def test_a_package_without_a_wheel_is_refused(environments: Environments, index: Path) -> None:
    ran = index / "ran"
    make_source(index, "sourced", f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n")
    with pytest.raises(InstallError, match=r"sourced.* is not built"):
        environments.resolve(["sourced"], "python")
    assert not ran.exists()


@pytest.mark.slow
def test_a_login_is_not_shown(tmp_path: Path) -> None:
    address = {"PIP_NO_INDEX": "", "PIP_INDEX_URL": "http://me:secret@127.0.0.1:9/simple"}
    environments = Environments(folder=tmp_path / "environments", environment=offline(tmp_path) | address)
    with pytest.raises(InstallError) as caught:
        environments.resolve(["anything"], "python")
    assert "secret" not in str(caught.value)


def test_a_guess_is_not_asked_for() -> None:
    needs = [
        Need("python", "pyyaml", module="yaml"),
        Need("python", "parallel", module="parallel"),
        Need("python", "httpx", ">=0.27", extras=("http2",), marker='python_version > "3"'),
        Need("node", "left-pad"),
        Need("python", "re2", module="re2"),
    ]
    requirements, guesses, _ = wanted(needs, "python", ["added"])
    assert requirements == ("added", "google-re2", 'httpx[http2]>=0.27; python_version > "3"', "pyyaml")
    assert [need.module for need in guesses] == ["parallel"]
