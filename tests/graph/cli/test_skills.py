"""skills-agent skills: quick, and honest about what is not shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.graph.cli.doctor import repository_elsewhere
from tests.graph.cli.command_line import CommandLine

SLOW_TO_IMPORT = ("langgraph", "langchain_core", "langchain_openai", "openai", "pydantic", "rich")
ONLY_FOR_A_LOAD = ("skills_agent.skills.library.snapshots", "skills_agent.sources.store")

MINE = "---\nname: rain-gauge\ndescription: Mine.\n---\n\nMine.\n"
BROKEN = "---\nname: broken\n---\n"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ["skills", "list"],
        ["skills", "search", "totals of a table"],
        ["skills", "lint", "."],
        ["skills", "doctor"],
        ["trust", "list"],
        ["-h"],
    ],
    ids=" ".join,
)
@pytest.mark.variants
def test_nothing_that_is_slow_is_imported(cli: CommandLine, command: list[str]) -> None:
    """Nor what only the load of a skill needs: the list cost a quarter more CPU when it was."""
    assert imported(cli, command, SLOW_TO_IMPORT + ONLY_FOR_A_LOAD) == []


def test_skills_are_listed_without_what_only_a_search_needs(cli: CommandLine) -> None:
    assert imported(cli, ["skills", "list"], ("skills_agent.skills.search.words", "sqlite3")) == []


def test_the_help_is_printed_without_what_reads_settings_and_skills(cli: CommandLine) -> None:
    assert imported(cli, ["-h"], ("msgspec", "skills_agent.skills.policy.tool_spec")) == []


def test_a_skill_is_shown_without_a_look_at_the_machine_where_it_needs_nothing(cli: CommandLine) -> None:
    looks = ("skills_agent.graph.needs", "skills_agent.needs.environments")
    cli.write_skill(MINE, "rain-gauge")
    command = ["skills", "show", "rain-gauge", "--skills-dir", str(cli.skills)]
    assert imported(cli, command, looks) == []
    cli.write_skill(MINE.replace("Mine.\n---", "Mine.\ncompatibility: Needs jq\n---"), "rain-gauge")
    assert imported(cli, command, looks) == sorted(looks)


def test_doctor_says_where_a_repository_is_that_scripts_do_not_see(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "clone" / ".git" / "worktrees" / "work").mkdir(parents=True)
    (inner := tmp_path / "clone" / "inner").mkdir()
    assert repository_elsewhere(tmp_path / "clone") == ""
    assert repository_elsewhere(inner) == str(tmp_path / "clone" / ".git")

    named = tmp_path / "clone" / ".git" / "worktrees" / "work"
    (cli.workspace / ".git").write_text(f"gitdir: {named}\n")
    assert repository_elsewhere(cli.workspace) == str(named)
    told = cli.run("skills", "doctor").out
    is_seen = "run in a sandbox" in told
    assert (f"They see no git repository: {named} is outside of the workspace" in told) == is_seen

    (cli.workspace / "modules").mkdir()
    (cli.workspace / ".git").write_text("gitdir: modules\n")
    assert repository_elsewhere(cli.workspace) == ""


def imported(cli: CommandLine, command: list[str], names: tuple[str, ...]) -> list[str]:
    """Return which modules of these names a process has imported that ran a command."""
    program = (
        "import sys\n"
        "from skills_agent.graph.cli.main import cli\n"
        f"cli.main({command}, standalone_mode=False)\n"
        f"print('IMPORTED', *sorted(set({names}) & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cli.workspace, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) > 1
    mark, *found = done.stdout.splitlines()[-1].split()
    assert mark == "IMPORTED"
    return found


def test_a_list_for_a_machine_says_where_each_skill_is(cli: CommandLine) -> None:
    cli.write_skill()
    told = cli.run("skills", "list", "--json", "--skills-dir", str(cli.skills)).value
    (skill,) = [skill for skill in told if skill["name"] == "rain-gauge"]
    assert skill["path"] == str(cli.skills / "rain-gauge" / "SKILL.md")
    assert (skill["source"], skill["status"], skill["diagnostics"]) == ("configured", "shown", [])


def test_what_is_skipped_or_shadowed_is_listed_with_the_reason(cli: CommandLine) -> None:
    cli.write_skill()
    cli.write_skill(BROKEN, "broken")
    cli.write(
        ".agent/skills/rain-gauge/SKILL.md", "---\nname: rain-gauge\ndescription: Mine.\n---\n\nMine.\n"
    )
    short = cli.run("skills", "list", "--skills-dir", str(cli.skills))
    assert "broken" not in short.out
    assert "1 skill was skipped" in short.err
    whole = cli.run("skills", "list", "--all", "--skills-dir", str(cli.skills))
    assert "broken (skipped)" in whole.out
    assert "description" in whole.out.partition("broken (skipped)")[2]
    assert "rain-gauge (shadowed)" in whole.out
    told = cli.run("skills", "list", "--all", "--json", "--skills-dir", str(cli.skills)).value
    assert {each["status"] for each in told} == {"shown", "shadowed", "skipped"}


def test_case_13_a_person_without_skills_is_told_where_to_put_some(cli: CommandLine) -> None:
    listed = cli.run("skills", "list", SKILLS_AGENT_BUNDLED_SKILLS="false")
    assert listed.code == 0
    assert str(cli.workspace / ".agent" / "skills") in listed.out
    asked = cli.run("ask", "Hello?", "--model", cli.script("Hello."), SKILLS_AGENT_BUNDLED_SKILLS="false")
    assert "no skills yet: put folders with a SKILL.md under .agent/skills" in asked.out


def test_an_unknown_skill_is_an_error_that_names_the_known_ones(cli: CommandLine) -> None:
    done = cli.run("skills", "show", "nothing")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: There is no skill named 'nothing'. Known skills: ")


def test_a_new_skill_is_used_when_its_description_is_filled_in(cli: CommandLine) -> None:
    made = cli.run("skills", "new", "tide-table")
    folder = cli.workspace / ".agent" / "skills" / "tide-table"
    assert made.code == 0
    assert str(folder) in made.out
    assert f"skills-agent skills lint {folder}\n" in made.out
    assert sorted(path.name for path in folder.iterdir()) == ["SKILL.md", "assets", "references", "scripts"]
    assert "tide-table" not in cli.run("skills", "list", "--json").out
    (skipped,) = [
        each for each in cli.run("skills", "list", "--all", "--json").value if each["status"] == "skipped"
    ]
    assert [each["code"] for each in skipped["diagnostics"]] == ["description-placeholder"]
    assert cli.run("skills", "lint", str(folder)).code == 1
    asked = cli.run("ask", "/tide-table of today")
    assert (asked.code, "is there, and cannot be used: The description is not" in asked.err) == (2, True)
    lines = (folder / "SKILL.md").read_text().splitlines()
    filled = "\n".join(
        "description: Tides. Use for tides." if "TODO: what" in each else each for each in lines
    )
    (folder / "SKILL.md").write_text(filled)
    told = cli.run("skills", "list", "--json").value
    (skill,) = [skill for skill in told if skill["name"] == "tide-table"]
    assert (skill["source"], skill["diagnostics"]) == ("project", [])
    assert "is left to be written" in cli.run("skills", "lint", str(folder)).out
    (folder / "SKILL.md").write_text(filled.partition("TODO: say")[0] + "Look them up.\n")
    assert cli.run("skills", "lint", str(folder)).out == "1 skill, 0 errors, 0 warnings\n"


def test_a_new_skill_never_replaces_one(cli: CommandLine) -> None:
    cli.run("skills", "new", "tide-table", "--dir", "mine")
    kept = cli.write("mine/tide-table/SKILL.md", "my work")
    done = cli.run("skills", "new", "tide-table", "--dir", "mine")
    assert done.code == 1
    assert "exists already" in done.err
    assert kept.read_text() == "my work"


@pytest.mark.parametrize("link", [".agent", ".agent/skills"])
def test_a_new_skill_is_not_made_through_a_link_of_the_workspace(cli: CommandLine, link: str) -> None:
    """Attack: a repository brings a link to the folder of the user's own skills."""
    theirs = cli.home / ".agent" / "skills"
    theirs.mkdir(parents=True)
    (cli.workspace / link).parent.mkdir(exist_ok=True)
    (cli.workspace / link).symlink_to(theirs)
    done = cli.run("skills", "new", "tide-table")
    assert done.code == 1
    assert "leads out of the workspace" in done.err
    assert list(theirs.iterdir()) == []
    assert cli.run("skills", "new", "tide-table", "--dir", str(theirs)).code == 0


def test_every_file_found_is_listed_for_a_machine_with_its_status_and_why(cli: CommandLine) -> None:
    cli.write_skill()
    cli.write_skill(BROKEN, "broken")
    cli.write_skill("---\nname: mended\ndescription: a: b\n---\n", "mended")
    cli.write(".agent/skills/rain-gauge/SKILL.md", MINE)
    elsewhere = cli.write("elsewhere/SKILL.md", MINE)
    (cli.skills / "linked").mkdir()
    (cli.skills / "linked" / "SKILL.md").symlink_to(elsewhere)
    (cli.skills / "lower").mkdir()
    (cli.skills / "lower" / "skill.md").write_text(MINE.replace("rain-gauge", "lower"))
    told = cli.run("skills", "list", "--all", "--json", "--skills-dir", str(cli.skills)).value
    mine = {
        Path(each["path"]).parent.name: (
            each["status"],
            bool(each["reason"]),
            [found["code"] for found in each["diagnostics"]],
        )
        for each in told
        if each["source"] == "configured"
    }
    assert mine == {
        "rain-gauge": ("shown", False, []),
        "broken": ("skipped", True, ["description-missing"]),
        "mended": ("shown", False, ["yaml-repaired"]),
        "linked": ("skipped", True, ["link-outside"]),
        "lower": ("shown", False, ["file-name-case"]),
    }
    assert [each["status"] for each in told if each["source"] == "project"] == ["shadowed"]


def test_lint_exits_with_1_for_errors_alone(cli: CommandLine) -> None:
    folder = cli.write_skill()
    good = cli.run("skills", "lint", str(folder))
    assert (good.code, good.out) == (0, "1 skill, 0 errors, 0 warnings\n")
    cli.write_skill("---\nname: warned\ndescription: Use for less <than> good.\n---\n", "warned")
    warned = cli.run("skills", "lint", str(folder))
    assert (warned.code, warned.out.splitlines()[-1]) == (0, "2 skills, 0 errors, 1 warning")
    cli.write_skill(BROKEN, "broken")
    bad = cli.run("skills", "lint", str(folder))
    assert (bad.code, bad.err) == (1, "")
    assert f"error: {folder / 'broken' / 'SKILL.md'}: The skill has no description." in bad.out
    assert "(description-missing)" in bad.out


def test_lint_tells_a_machine_code_file_line_and_advice(cli: CommandLine) -> None:
    folder = cli.write_skill("---\nname: rain-gauge\ndescription: For d.\ncontext: fork\n---\n")
    done = cli.run("skills", "lint", str(folder / "rain-gauge"), "--json")
    told = done.value
    path = str(folder / "rain-gauge" / "SKILL.md")
    assert (done.code, told["skills"], told["errors"], told["warnings"]) == (1, [path], 1, 1)
    found = told["findings"][0]
    assert set(found) == {"code", "severity", "message", "path", "line", "advice"}
    assert (found["code"], found["path"], found["line"]) == ("field-not-in-spec", path, 4)


def test_lint_of_a_place_that_is_not_there_is_wrong_usage(cli: CommandLine) -> None:
    assert cli.run("skills", "lint", "nowhere").code == 2


def test_the_doctor_tells_a_machine_the_same(cli: CommandLine) -> None:
    cli.write_skill(BROKEN, "broken")
    cli.write(".agent/skills/mended/SKILL.md", "---\nname: mended\ndescription: a: b\n---\n")
    told = cli.run("skills", "doctor", "--json", "--skills-dir", str(cli.skills)).value
    states = {(each["label"], each["folder"]): each for each in told["sources"]}
    assert states["configured", str(cli.skills)]["skipped"] == 1
    assert states["project", str(cli.workspace / ".agent" / "skills")]["trusted"] is False
    assert [each["name"] for each in told["skipped"]] == ["broken"]
    assert [each["diagnostics"][0]["code"] for each in told["repaired"]] == ["yaml-repaired"]
    assert [each["name"] for each in told["programs"]] == ["python", "bash", "node", "git"]
