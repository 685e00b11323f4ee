"""skills-agent skills triggers: which requests a skill is chosen for, and a better description of it."""

import json
from pathlib import Path

import pytest

from extras.evals.tests.test_lab import BODY, FOR_IT, NOT_FOR_IT
from skills_agent.evals.cases.choosing import Labelled
from skills_agent.evals.cases.improving import split
from tests.graph.cli.command_line import CommandLine

BAD = "---\nname: table-helper\n# keep me\ndescription: Helps with files.\nlicense: MIT\n---\n"


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Have a skill that nothing triggers, with requests beside it."""
    folder = cli.workspace / ".agent" / "skills" / "table-helper"
    (folder / "evals").mkdir(parents=True)
    (folder / "SKILL.md").write_text(BAD + BODY)
    rows = [{"query": text, "should_trigger": True} for text in FOR_IT]
    rows += [{"query": text, "should_trigger": False} for text in NOT_FOR_IT]
    (folder / "evals" / "triggers.json").write_text(json.dumps(rows))
    return cli


def skill_file(cli: CommandLine) -> Path:
    return cli.workspace / ".agent" / "skills" / "table-helper" / "SKILL.md"


def test_requests_that_go_wrong_are_shown_with_who_got_them_and_why(cli: CommandLine) -> None:
    shown = cli.run("skills", "triggers", "table-helper").out
    assert shown.startswith("Chosen by words, without a model: table-helper among ")
    assert "16 requests: 16 of triggers.json" in shown
    assert "WRONG" in shown
    assert "recall     0 of 8 (0% to 32%)" in shown
    assert "lost to" in shown
    value = cli.run("skills", "triggers", "table-helper", "--json").value
    assert [each["query"] for each in value["requests"]] == [*FOR_IT, *NOT_FOR_IT]
    assert not any(each["right"] for each in value["requests"] if each["should_trigger"])


def test_a_better_description_is_measured_shown_and_written_with_a_yes(cli: CommandLine) -> None:
    before = skill_file(cli).read_text()
    asked = cli.run("skills", "triggers", "table-helper", "--improve")
    assert asked.code == 1
    assert "nobody is here to say yes" in asked.err
    assert skill_file(cli).read_text() == before
    assert "held out" in asked.out
    assert "- Helps with files." in asked.out
    done = cli.run("skills", "triggers", "table-helper", "--improve", "--yes")
    assert done.code == 0
    after = skill_file(cli).read_text()
    assert after != before
    assert after.replace(after.split("description: ")[1].split("\n")[0], "Helps with files.") == before
    value = cli.run("skills", "triggers", "table-helper", "--json").value
    right = sum(each["right"] for each in value["requests"])
    assert right >= 13
    assert not list(skill_file(cli).parent.glob(".SKILL-*"))


def test_what_is_not_better_on_the_held_out_half_is_not_written(cli: CommandLine) -> None:
    places = [Labelled(str(number), True, "") for number in range(8)]
    trained = {each.text for each in split(places, 42).train}
    texts = [f"zebra stripes {each.text}" if each.text in trained else each.text * 9 for each in places]
    rows = [{"query": text, "should_trigger": True} for text in texts]
    rows += [{"query": text, "should_trigger": False} for text in NOT_FOR_IT]
    (skill_file(cli).parent / "evals" / "triggers.json").write_text(json.dumps(rows))
    before = skill_file(cli).read_text()
    done = cli.run("skills", "triggers", "table-helper", "--improve", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "+ " in done.out
    assert "by heart. The description stays." in done.out
    assert skill_file(cli).read_text() == before
    assert cli.run("skills", "triggers", "table-helper", "--improve", "--yes", "--json").code == 0
    assert skill_file(cli).read_text() == before


def test_without_requests_they_are_drafted_and_can_be_kept(cli: CommandLine, tmp_path: Path) -> None:
    (skill_file(cli).parent / "evals" / "triggers.json").unlink()
    kept = tmp_path / "requests.json"
    shown = cli.run("skills", "triggers", "table-helper", "--save", str(kept)).out
    assert "drafted from table-helper" in shown
    rows = json.loads(kept.read_text())
    assert "what is the total per region" in {each["query"] for each in rows if each["should_trigger"]}
    again = cli.run("skills", "triggers", "table-helper", "--save", str(kept))
    assert again.code == 1
    assert "exists already" in again.err


def test_too_few_requests_cannot_be_split(cli: CommandLine) -> None:
    rows = [{"query": text, "should_trigger": True} for text in FOR_IT]
    (skill_file(cli).parent / "evals" / "triggers.json").write_text(json.dumps(rows))
    done = cli.run("skills", "triggers", "table-helper", "--improve")
    assert done.code == 1
    assert "needs 3 requests that are not for it, and there are 0" in done.err


def test_what_is_not_here_to_be_changed_is_not(cli: CommandLine) -> None:
    lock = skill_file(cli).parent.parent / "skills.lock"
    cli.run("skills", "install", str(cli.skills), "--yes")
    assert lock.exists()
    rows = [{"query": f"umbrella or drizzle {n}", "should_trigger": True} for n in range(4)]
    rows += [{"query": text, "should_trigger": False} for text in NOT_FOR_IT]
    (cli.workspace / "rain.json").write_text(json.dumps(rows))
    done = cli.run(
        "skills",
        "triggers",
        "rain-gauge",
        "--requests",
        str(cli.workspace / "rain.json"),
        "--improve",
        "--yes",
    )
    assert done.code == 1
    assert "installed from elsewhere" in done.err


def test_a_skill_that_only_a_person_loads_is_triggered_by_nothing(cli: CommandLine) -> None:
    skill_file(cli).write_text(BAD.replace("license: MIT", "disable-model-invocation: true") + BODY)
    done = cli.run("skills", "triggers", "table-helper")
    assert done.code == 2
    assert "only a person loads table-helper" in done.err
