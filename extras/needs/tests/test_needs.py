"""skills-agent doctor SKILL, show and doctor: what a skill needs, and what of it is here."""

from pathlib import Path
from typing import Any

import pytest

from extras.needs.tests.wheels import make_wheel
from tests.agents import write_skill
from tests.graph.cli.command_line import CommandLine
from tests.machine import needs_installer


def test_needs_says_what_is_here_what_is_not_and_where_it_is_said(cli: CommandLine) -> None:
    description = "Draw.\ncompatibility: Requires Python 3.8+ (DRAW_KEY)"
    write_skill(cli.skills, "draw", description, scripts__run_py="import msgspec, nobody_has_this\n")
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
    files = {"requirements_txt": "outer\n", "scripts__run_py": "import outer, nobody_names_it\n"}
    return write_skill(cli.skills, "packed", "Packed.", **files)


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
def test_an_approved_list_is_installed_and_used_until_it_is_removed(cli: CommandLine, packed: Path) -> None:
    def told() -> Any:
        return cli.run("doctor", "packed", "--json", "--skills-dir", str(cli.skills)).value

    def removed(name: str) -> Any:
        return cli.run("doctor", "--remove", name, "--yes", "--json").value["removed"]

    done = cli.run("doctor", "packed", "--install", "--yes", "--skills-dir", str(cli.skills))
    assert done.code == 0
    assert "import nobody_names_it" in done.out
    assert "outer  1.0  sha256:" in done.out
    assert [need["name"] for need in told()["needs"] if need["is_missing"]] == ["nobody_names_it"]
    shown = cli.run("doctor", "--json").value["kept"]
    (kept,) = (each for each in shown if each["name"].startswith("packages/"))
    assert (kept["used"], kept["bytes"] > 0, kept["note"][:8]) == (True, True, "packed: ")
    assert removed("unused") == []
    assert Path(told()["environment"]).is_dir()
    (packed / "requirements.txt").write_text("outer>=1\n")
    assert told()["environment"] is None
    (packed / "requirements.txt").write_text("outer\n")
    assert removed(kept["name"]) == [kept["name"]]
    assert not Path(kept["folder"]).exists()
    assert told()["environment"] is None


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
