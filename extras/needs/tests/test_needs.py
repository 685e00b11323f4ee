"""skills-agent doctor SKILL, show and doctor: what a skill needs, and what of it is here."""

from pathlib import Path
from typing import Any

import pytest

from extras.needs.tests.wheels import make_wheel
from tests.agents import write_skill
from tests.graph.cli.command_line import CommandLine
from tests.machine import needs_installer


@pytest.fixture
def draw(cli: CommandLine) -> Path:
    return write_skill(
        cli.skills,
        "draw",
        "Draw.\ncompatibility: Requires Python 3.8+ (DRAW_KEY)",
        scripts__run_py="import msgspec, nobody_has_this\n",
    )


def test_needs_says_what_is_here_what_is_not_and_where_it_is_said(cli: CommandLine, draw: Path) -> None:
    del draw
    done = cli.run("doctor", "draw", "--skills-dir", str(cli.skills))
    assert [line.split() for line in done.out.splitlines()] == [
        ["python>=3.8", "program", "here", "compatibility"],
        ["DRAW_KEY", "variable", "not", "here", "compatibility"],
        ["msgspec", "Python", "package", "here", "scripts/run.py:1"],
        ["nobody_has_this", "Python", "package", "not", "here", "scripts/run.py:1"],
        [],
        ["What", "would", "help"],
        ["skills-agent", "doctor", "draw", "--install", "--skills-dir", str(cli.skills / "draw")],
        [*["set", "DRAW_KEY,", "and", "the", "setting", "script_secrets:", "draw"], "=", '["DRAW_KEY"]'],
    ]


@pytest.fixture
def packed(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A skill that needs a package; this person's packages come from a folder alone."""
    make_wheel(tmp_path / "index", "outer")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = cli.home / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[global]\nno-index = true\nfind-links = {tmp_path / 'index'}\n")
    return write_skill(
        cli.skills,
        "packed",
        "Packed.",
        requirements_txt="outer\n",
        scripts__run_py="import outer, nobody_names_it\n",
    )


@needs_installer
def test_a_list_that_nobody_approves_is_not_installed(cli: CommandLine, packed: Path) -> None:
    del packed
    done = cli.run("doctor", "packed", "--install", "--skills-dir", str(cli.skills))
    assert done.code == 3
    assert "outer" in done.out
    assert "Nothing was installed" in done.out
    told = cli.run("doctor", "packed", "--json", "--skills-dir", str(cli.skills)).value
    assert told["environment"] is None
    assert told["needs"][0]["is_missing"]


@needs_installer
@pytest.mark.slow
def test_an_approved_list_is_installed_and_used(cli: CommandLine, packed: Path) -> None:
    done = cli.run("doctor", "packed", "--install", "--yes", "--skills-dir", str(cli.skills))
    assert done.code == 0
    assert "import nobody_names_it" in done.out
    assert "outer  1.0  sha256:" in done.out
    told = cli.run("doctor", "packed", "--json", "--skills-dir", str(cli.skills)).value
    assert Path(told["environment"]).is_dir()
    assert [need["name"] for need in told["needs"] if need["is_missing"]] == ["nobody_names_it"]
    (packed / "requirements.txt").write_text("outer>=1\n")
    changed = cli.run("doctor", "packed", "--json", "--skills-dir", str(cli.skills)).value
    assert changed["environment"] is None


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("name", ["../x", "a @ https://x/a.whl", "--pre"])
def test_what_is_no_name_of_a_package_is_wrong_usage(cli: CommandLine, name: str) -> None:
    done = cli.run("doctor", "packed", "--with", name, "--skills-dir", str(cli.skills))
    assert (done.code, done.out) == (2, "")


def test_nothing_is_approved_for_all_skills_without_needs(cli: CommandLine) -> None:
    write_skill(cli.skills, "plain", "Plain.")
    install = ["doctor", "plain", "--install", "--yes", "--with", "pandas"]
    done = cli.run(*install, "--skills-dir", str(cli.skills))
    assert (done.code, done.out) == (2, "")
    assert "no file of plain shows that it needs a package of Python" in done.err


def kept(cli: CommandLine) -> dict[str, Any]:
    """Return what doctor says of the one environment that is kept."""
    shown = cli.run("doctor", "--json").value["kept"]
    (found,) = (each for each in shown if each["name"].startswith("packages/"))
    return dict(found)


def remove(cli: CommandLine, name: str) -> list[str]:
    removed: list[str] = cli.run("doctor", "--remove", name, "--yes", "--json").value["removed"]
    return removed


@pytest.mark.slow
def test_packages_that_are_kept_are_listed_and_removed(cli: CommandLine, packed: Path) -> None:
    cli.run("doctor", "packed", "--install", "--yes", "--skills-dir", str(cli.skills))
    there = kept(cli)
    assert (there["used"], there["bytes"] > 0) == (True, True)
    assert there["note"].startswith("packed: ")
    assert remove(cli, "unused") == []
    assert Path(there["folder"]).is_dir()
    assert remove(cli, there["name"]) == [there["name"]]
    assert not Path(there["folder"]).exists()
    told = cli.run("doctor", "packed", "--json", "--skills-dir", str(cli.skills)).value
    assert told["environment"] is None
    assert packed.is_dir()
