"""skills-agent skills: quick, and honest about what is not shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.graph.cli_desk import Desk

SLOW_TO_IMPORT = ("langgraph", "langchain_core", "langchain_openai", "openai", "pydantic", "rich")

MINE = "---\nname: rain-gauge\ndescription: Mine.\n---\n\nMine.\n"
BROKEN = "---\nname: broken\n---\n\nNo description.\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_list_imports_nothing_that_is_slow(desk: Desk) -> None:
    program = (
        "import sys\n"
        "from skills_agent.graph.cli.main import cli\n"
        "cli.main(['skills', 'list'], standalone_mode=False)\n"
        f"print('IMPORTED', *sorted(set({SLOW_TO_IMPORT}) & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=desk.workspace, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "IMPORTED"
    assert "csv-report" in done.stdout


def test_a_list_says_name_source_and_purpose(desk: Desk) -> None:
    desk.write_skill()
    rows = desk.run("skills", "list", "--skills-dir", str(desk.skills)).out.splitlines()
    (row,) = [row for row in rows if row.startswith("rain-gauge")]
    assert row.split(maxsplit=2) == ["rain-gauge", "configured", "Add up rainfall from a table of stations."]
    assert any(row.split()[:2] == ["csv-report", "bundled"] for row in rows)


def test_a_list_for_a_machine_says_where_each_skill_is(desk: Desk) -> None:
    desk.write_skill()
    told = desk.run("skills", "list", "--json", "--skills-dir", str(desk.skills)).value
    (skill,) = [skill for skill in told if skill["name"] == "rain-gauge"]
    assert skill["path"] == str(desk.skills / "rain-gauge" / "SKILL.md")
    assert (skill["source"], skill["status"], skill["diagnostics"]) == ("configured", "shown", [])


def test_what_is_skipped_or_shadowed_is_listed_with_the_reason(desk: Desk) -> None:
    desk.write_skill()
    desk.write_skill(BROKEN, "broken")
    desk.write(
        ".agent/skills/rain-gauge/SKILL.md", "---\nname: rain-gauge\ndescription: Mine.\n---\n\nMine.\n"
    )
    short = desk.run("skills", "list", "--skills-dir", str(desk.skills))
    assert "broken" not in short.out
    assert "1 skill was skipped" in short.err
    whole = desk.run("skills", "list", "--all", "--skills-dir", str(desk.skills))
    assert "broken (skipped)" in whole.out
    assert "description" in whole.out.partition("broken (skipped)")[2]
    assert "rain-gauge (shadowed)" in whole.out
    told = desk.run("skills", "list", "--all", "--json", "--skills-dir", str(desk.skills)).value
    assert {each["status"] for each in told} == {"shown", "shadowed", "skipped"}


def test_case_13_a_person_without_skills_is_told_where_to_put_some(desk: Desk) -> None:
    listed = desk.run("skills", "list", SKILLS_AGENT_BUNDLED_SKILLS="false")
    assert listed.code == 0
    assert str(desk.workspace / ".agent" / "skills") in listed.out
    asked = desk.run("ask", "Hello?", "--model", desk.script("Hello."), SKILLS_AGENT_BUNDLED_SKILLS="false")
    assert "no skills yet: put folders with a SKILL.md under .agent/skills" in asked.out


def test_a_skill_is_shown_with_its_files_and_instructions(desk: Desk) -> None:
    desk.write_skill()
    folder = str(desk.skills)
    shown = desk.run("skills", "show", "rain-gauge", "--skills-dir", folder).out
    assert "scripts/add_up.py" in shown
    assert "Run `scripts/add_up.py FILE` and answer with its figures." in shown
    told = desk.run("skills", "show", "rain-gauge@configured", "--json", "--skills-dir", folder).value
    assert [each["type"] for each in told["resources"]] == ["script"]
    assert told["instructions"].startswith("# Rain gauge")


def test_an_unknown_skill_is_an_error_that_names_the_known_ones(desk: Desk) -> None:
    done = desk.run("skills", "show", "nothing")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: There is no skill named 'nothing'. Known skills: ")


def test_a_new_skill_is_valid_and_found_at_once(desk: Desk) -> None:
    made = desk.run("skills", "new", "tide-table")
    folder = desk.workspace / ".agent" / "skills" / "tide-table"
    assert made.code == 0
    assert str(folder) in made.out
    assert sorted(path.name for path in folder.iterdir()) == ["SKILL.md", "assets", "references", "scripts"]
    told = desk.run("skills", "list", "--json").value
    (skill,) = [skill for skill in told if skill["name"] == "tide-table"]
    assert (skill["source"], skill["diagnostics"]) == ("project", [])


def test_a_new_skill_never_replaces_one(desk: Desk) -> None:
    desk.run("skills", "new", "tide-table", "--dir", "mine")
    kept = desk.write("mine/tide-table/SKILL.md", "my work")
    done = desk.run("skills", "new", "tide-table", "--dir", "mine")
    assert done.code == 1
    assert "exists already" in done.err
    assert kept.read_text() == "my work"
