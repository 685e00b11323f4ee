"""skills-agent skills needs, show and doctor: what a skill needs, and what of it is here."""

from pathlib import Path

import pytest

from tests.agents import write_skill
from tests.graph.cli.command_line import CommandLine


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
    done = cli.run("skills", "needs", "draw", "--skills-dir", str(cli.skills))
    assert [line.split() for line in done.out.splitlines()] == [
        ["python>=3.8", "program", "here", "compatibility"],
        ["DRAW_KEY", "variable", "not", "here", "compatibility"],
        ["msgspec", "Python", "package", "here", "scripts/run.py:1"],
        ["nobody_has_this", "Python", "package", "not", "here", "scripts/run.py:1"],
        [],
        ["What", "would", "help"],
        ["skills-agent", "skills", "needs", "draw", "--install"],
        [*["set", "DRAW_KEY,", "and", "the", "setting", "script_secrets:", "draw"], "=", '["DRAW_KEY"]'],
    ]


def test_needs_for_a_machine(cli: CommandLine, draw: Path) -> None:
    del draw
    told = cli.run("skills", "needs", "draw", "--json", "--skills-dir", str(cli.skills)).value
    missing = {need["name"]: need["is_missing"] for need in told["needs"]}
    assert missing == {"python": False, "DRAW_KEY": True, "msgspec": False, "nobody_has_this": True}


def test_a_skill_that_needs_nothing_says_so(cli: CommandLine) -> None:
    write_skill(cli.skills, "plain", "Plain.")
    out = cli.run("skills", "needs", "plain", "--skills-dir", str(cli.skills)).out
    assert out == "plain says nothing of what it needs, and its files show nothing.\n"


def test_show_and_doctor_name_what_is_missing(cli: CommandLine, draw: Path) -> None:
    del draw
    shown = cli.run("skills", "show", "draw", "--skills-dir", str(cli.skills)).out
    missing = "DRAW_KEY (variable), nobody_has_this (Python package)"
    assert f"not here       {missing}. See: skills-agent skills needs draw\n" in shown
    told = cli.run("skills", "doctor", "--json", "--skills-dir", str(cli.skills)).value
    assert told["missing"]["draw"].startswith(
        f"{missing}. What would help: skills-agent skills needs draw --"
    )
    doctor = cli.run("skills", "doctor", "--skills-dir", str(cli.skills)).out
    assert f"Skills that need what is not here\n  draw: {missing}." in doctor
