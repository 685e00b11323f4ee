"""skills-agent skills and doctor: honest about what is not shown."""

from pathlib import Path

import pytest

from tests.graph.cli.command_line import CommandLine

MINE = "---\nname: rain-gauge\ndescription: Mine.\n---\n\nMine.\n"
BROKEN = "---\nname: broken\n---\n"


def test_what_is_not_used_or_not_as_written_is_told_by_the_doctor(cli: CommandLine) -> None:
    cli.write_skill(BROKEN, "broken")
    cli.write_skill("---\nname: mended\ndescription: a: b\n---\n", "mended")
    cli.write(".agent/skills/rain-gauge/SKILL.md", MINE)
    elsewhere = cli.write("elsewhere/SKILL.md", MINE)
    (cli.skills / "linked").mkdir()
    (cli.skills / "linked" / "SKILL.md").symlink_to(elsewhere)
    listed = cli.run("skills", "list", *cli.folder)
    assert ("broken" in listed.out, "skills-agent doctor" in listed.err) == (False, True)
    told = cli.run("doctor", "--json", *cli.folder).value
    found = {
        kind: [(Path(each["path"]).parent.name, each["diagnostics"][0]["code"]) for each in told[kind]]
        for kind in ("skipped", "repaired")
    }
    assert sorted(found["skipped"]) == [("broken", "description-missing"), ("linked", "link-outside")]
    assert found["repaired"] == [("mended", "yaml-repaired")]
    assert [(each["name"], each["source"]) for each in told["shadowed"]] == [("rain-gauge", "project")]
    states = {(each["label"], each["folder"]): each for each in told["sources"]}
    assert states["configured", str(cli.skills)]["skipped"] == 2
    assert states["project", str(cli.workspace / ".agent" / "skills")]["trusted"] is False
    shown = cli.run("doctor", *cli.folder).out
    order = ["Wrong, ", "broken (skipped)", "(yaml-repaired)", "Sources of skills", "rain-gauge (shadowed)"]
    assert sorted(order, key=shown.index) == order


def test_case_13_a_person_without_skills_is_told_where_to_put_some(cli: CommandLine) -> None:
    listed = cli.run("skills", "list", SKILLS_AGENT_BUNDLED_SKILLS="false")
    assert (listed.code, str(cli.workspace / ".agent" / "skills") in listed.out) == (0, True)
    asked = cli.run("ask", "Hello?", "--model", cli.script("Hello."), SKILLS_AGENT_BUNDLED_SKILLS="false")
    assert "put folders with a SKILL.md under .agent/skills" in asked.out


def test_a_skill_is_found_and_shown_with_its_files_and_instructions(cli: CommandLine) -> None:
    (best, *_) = cli.run("skills", "search", "rain of stations", "--json", *cli.folder).value
    assert (best["name"], best["score"] > 1) == ("rain-gauge", True)
    assert cli.run("skills", "search", "xyzzy").code == 0
    told = cli.run("skills", "show", "rain-gauge", "--json", *cli.folder).value
    assert [each["path"] for each in told["resources"]] == ["scripts/add_up.py"]
    assert told["instructions"].startswith("# Rain gauge")
    shown = cli.run("skills", "show", "rain-gauge", *cli.folder).out
    assert all(text in shown for text in ("add_up.py", told["digest"], "# Rain gauge"))


def test_a_new_skill_is_used_when_its_description_is_filled_in(cli: CommandLine) -> None:
    made = cli.run("skills", "new", "tide-table")
    folder = cli.workspace / ".agent" / "skills" / "tide-table"
    assert (made.code, f"skills-agent skills lint {folder}\n" in made.out) == (0, True)
    assert sorted(path.name for path in folder.iterdir()) == ["SKILL.md", "assets", "references", "scripts"]
    assert "tide-table" not in cli.run("skills", "list", "--json").out
    (skipped,) = cli.run("doctor", "--json").value["skipped"]
    assert [each["code"] for each in skipped["diagnostics"]] == ["description-placeholder"]
    assert cli.run("skills", "lint", str(folder)).code == 1
    assert cli.run("skills", "lint", "tide-table").out == cli.run("skills", "lint", str(folder)).out
    asked = cli.run("ask", "/tide-table of today")
    assert (asked.code, "cannot be used" in asked.err) == (2, True)
    lines = (folder / "SKILL.md").read_text().splitlines()
    filled = "\n".join("description: For tides." if "TODO: what" in each else each for each in lines)
    (folder / "SKILL.md").write_text(filled)
    assert '"tide-table"' in cli.run("skills", "list", "--json").out
    assert "is left to be written" in cli.run("skills", "lint", str(folder)).out
    (folder / "SKILL.md").write_text(filled.partition("TODO: say")[0] + "Look them up.\n")
    assert cli.run("skills", "lint", str(folder)).out == "1 skill, 0 errors, 0 warnings\n"


def test_a_new_skill_never_replaces_one(cli: CommandLine) -> None:
    kept = cli.write("mine/tide-table/SKILL.md", "my work")
    assert cli.run("skills", "new", "mine/tide-table").code == 1
    assert kept.read_text() == "my work"


@pytest.mark.parametrize("link", [".agent", ".agent/skills"])
def test_a_new_skill_is_not_made_through_a_link_of_the_workspace(cli: CommandLine, link: str) -> None:
    """Attack: a repository brings a link to the folder of the user's own skills."""
    theirs = cli.home / ".agent" / "skills"
    theirs.mkdir(parents=True)
    (cli.workspace / link).parent.mkdir(exist_ok=True)
    (cli.workspace / link).symlink_to(theirs)
    assert cli.run("skills", "new", "tide-table").code == 1
    assert list(theirs.iterdir()) == []
    assert cli.run("skills", "new", f"{theirs}/tide-table").code == 0


def test_lint_exits_with_1_for_errors_alone(cli: CommandLine) -> None:
    cases = (
        ("good", "For good.", 0, [0, 0]),
        ("warned", "For <good>.", 0, [0, 1]),
        ("broken", "", 1, [1, 2]),
    )
    for name, text, code, counts in cases:
        cli.write_skill(f"---\nname: {name}\ndescription: {text}\n---\n\nDo it.\n", name)
        done = cli.run("skills", "lint", str(cli.skills), "--json")
        assert (done.code, [done.value["errors"], done.value["warnings"]]) == (code, counts)
    assert "(description-made)" in cli.run("skills", "lint", str(cli.skills)).out


def test_lint_tells_a_machine_code_file_line_and_advice(cli: CommandLine) -> None:
    cli.write_skill("---\nname: rain-gauge\ndescription: For d.\nshell: x\n---\n\nDo it.\n")
    told = cli.run("skills", "lint", str(cli.skills / "rain-gauge"), "--json").value
    path = str(cli.skills / "rain-gauge" / "SKILL.md")
    found = told["findings"][0]
    assert told["skills"] == [path]
    assert found.keys() == {"code", "severity", "message", "path", "line", "advice"}
    assert (found["code"], found["path"], found["line"]) == ("field-not-in-spec", path, 4)
    assert cli.run("skills", "lint", "rain-gauge", "--json", *cli.folder).value == told


def test_a_skill_that_runs_by_itself_asks_with_its_name_and_is_shown_below_its_call(cli: CommandLine) -> None:
    file = cli.skills / "rain-gauge" / "SKILL.md"
    file.write_text(file.read_text().replace("---\n", "---\ncontext: fork\n", 1))
    asked = cli.run("ask", "/rain-gauge rainfall.csv", "--thread", "rain", *cli.folder)
    assert asked.code == 3
    assert "Asked by the skill rain-gauge." in asked.out + asked.err
    assert "| task: Use the skill rain-gauge: rainfall.csv" in cli.run("threads", "show", "rain").out
    done = cli.run("resume", "rain", "--approve")
    assert "act       skill rain-gauge: run_script: exit code 0" in done.err + done.out
    assert "all stations: 544 mm" in done.out
    shown = cli.run("threads", "show", "rain").out
    assert "    |   run_script(skill=rain-gauge, path=scripts/add_up.py" in shown
    assert "rain/fork:" in cli.run("threads", "record", "rain").out
