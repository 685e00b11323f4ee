"""`skills rollback`, and what the other commands say of skills that the agent proposed."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from skills_agent.packages.errors import InstalledError
from skills_agent.packages.installation import Origin
from skills_agent.packages.lock import Proposed, read_lock
from skills_agent.packages.proposal import Proposals, Surroundings, Wish
from skills_agent.packages.rollback import plan_rollback, roll_back
from skills_agent.packages.target import Target
from tests.agents import call, calls
from tests.graph.cli.command_line import CommandLine

SKILL = """\
---
name: rain-report
description: Add up rainfall by station. Use for questions about rain and stations.
---

# Rain report

{text}
"""


@pytest.fixture
def folder(cli: CommandLine) -> Path:
    return cli.workspace / ".agent" / "skills"


def propose(cli: CommandLine, text: str, thread: str = "learn") -> None:
    """Install a version as a proposal that was accepted."""
    state = cli.state.parent
    proposals = Proposals(Target(cli.workspace / ".agent" / "skills", state), state)
    wish = Wish("rain-report", {"SKILL.md": SKILL.format(text=text)})
    proposal = proposals.draft(wish, Surroundings({}, lambda *_: ""))
    proposed = Proposed(thread=thread, model="scripted", reason=f"It is {text}", call=thread)
    proposals.install(proposal, proposed, Origin("skills-agent", datetime.now(UTC)))


def text_of(folder: Path) -> str:
    file = folder / "rain-report" / "SKILL.md"
    return file.read_text().split()[-1] if file.exists() else ""


def test_what_a_person_accepted_is_undone(cli: CommandLine, folder: Path) -> None:
    files = {"SKILL.md": SKILL.format(text="one")}
    wish = calls(call("propose_skill", name="rain-report", reason="It is short.", files=files))
    cli.write_users_settings("enable_propose_skill = true\n")
    model = cli.script(wish, "Done.")
    assert cli.run("ask", "Learn it.", "--model", model, "--thread", "learn", "--yes", "write").code == 3
    assert not folder.exists()
    assert cli.run("resume", "learn", "--model", model, "--approve").code == 0
    assert text_of(folder) == "one"
    assert "proposed in thread learn" in cli.run("skills", "rollback", "rain-report", "--yes").out
    assert text_of(folder) == ""


def test_a_rollback_can_be_undone(cli: CommandLine, folder: Path) -> None:
    propose(cli, "zero", "z")
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    done = cli.run("skills", "rollback", "rain-report", "--yes")
    command = done.out.partition("To undo this: skills-agent ")[2].split()
    assert cli.run(*command, "--yes").code == 0
    assert text_of(folder) == "two"
    proposed = read_lock(folder).skills["rain-report"].proposed
    assert proposed
    assert proposed.thread == "b"
    for _ in range(8):  # what is put back again and again pushes no version out
        assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
        assert cli.run(*command, "--yes").code == 0
    assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
    assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
    assert text_of(folder) == "zero"


def test_what_was_installed_from_elsewhere_goes_back_version_by_version_and_forward_by_name(
    cli: CommandLine, folder: Path
) -> None:
    source = cli.workspace / "shared" / "rain-report"
    source.mkdir(parents=True)
    for text, command in (("one", ["install", "shared"]), ("two", ["update"]), ("three", ["update"])):
        (source / "SKILL.md").write_text(SKILL.format(text=text))
        assert cli.run("skills", *command, "--yes").code == 0

    second = cli.run("skills", "rollback", "rain-report", "--yes")
    assert text_of(folder) == "two"
    first = cli.run("skills", "rollback", "rain-report", "--yes")
    assert text_of(folder) == "one"
    refused = cli.run("skills", "rollback", "rain-report", "--yes").err
    assert "no earlier version of it is kept; --list shows later ones" in refused

    for done, text in ((first, "two"), (second, "three")):
        command = done.out.partition("To undo this: skills-agent ")[2].split()
        assert cli.run(*command, "--yes").code == 0
        assert text_of(folder) == text
    for text in ("two", "one"):
        assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
        assert text_of(folder) == text
    assert cli.run("skills", "verify").code == 0


def test_after_a_jump_back_what_lies_between_is_no_earlier_version(cli: CommandLine, folder: Path) -> None:
    source = cli.workspace / "shared" / "rain-report"
    source.mkdir(parents=True)
    for text, command in (("one", ["install", "shared"]), ("two", ["update"]), ("three", ["update"])):
        (source / "SKILL.md").write_text(SKILL.format(text=text))
        assert cli.run("skills", *command, "--yes").code == 0
    listed = cli.run("skills", "rollback", "rain-report", "--list", "--json").value
    oldest = listed["versions"][-1]["digest"][:12]
    assert cli.run("skills", "rollback", "rain-report", "--version", oldest, "--yes").code == 0
    assert text_of(folder) == "one"
    assert "no earlier version" in cli.run("skills", "rollback", "rain-report", "--yes").err
    (source / "SKILL.md").write_text(SKILL.format(text="four"))
    assert cli.run("skills", "update", "--yes").code == 0
    assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
    assert text_of(folder) == "one"


def test_without_a_yes_nothing_is_changed(cli: CommandLine, folder: Path) -> None:
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    asked = cli.run("skills", "rollback", "rain-report")
    assert asked.code == 1
    assert "nobody is here to say yes" in asked.err
    assert "  +one" in asked.out
    assert text_of(folder) == "two"


def test_a_local_change_is_kept_as_a_backup_and_undone_first(cli: CommandLine, folder: Path) -> None:
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    file = folder / "rain-report" / "SKILL.md"
    file.write_text(SKILL.format(text="mine"))
    assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
    assert text_of(folder) == "one"
    listed = cli.run("skills", "rollback", "rain-report", "--list", "--json").value
    mine = listed["versions"][0]["digest"]
    assert cli.run("skills", "rollback", "rain-report", "--version", mine[:12], "--yes").code == 0
    assert text_of(folder) == "mine"


def test_a_skill_of_the_project_that_was_edited_comes_back_as_it_was(cli: CommandLine, folder: Path) -> None:
    mine = folder / "rain-report"
    mine.mkdir(parents=True)
    (mine / "SKILL.md").write_text(SKILL.format(text="mine"))
    (mine / "run.sh").write_text("true\n")
    (mine / "run.sh").chmod(0o755)
    propose(cli, "two")
    assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
    assert text_of(folder) == "mine"
    assert (mine / "run.sh").stat().st_mode & 0o111
    assert "rain-report" not in read_lock(folder).skills


def test_a_backup_that_somebody_changed_is_not_put_back(cli: CommandLine, folder: Path) -> None:
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    (kept,) = Target(folder, cli.state.parent).backups.of("rain-report")
    (kept.folder / "SKILL.md").write_text(SKILL.format(text="evil"))
    refused = cli.run("skills", "rollback", "rain-report", "--yes")
    assert refused.code == 1
    assert "its backup was changed since" in refused.err
    assert text_of(folder) == "two"


@pytest.mark.parametrize("version", ["zzzz", "0000", ""])
def test_a_version_has_to_be_one_that_is_kept(cli: CommandLine, folder: Path, version: str) -> None:
    propose(cli, "one", "a")
    one = read_lock(folder).skills["rain-report"].digest
    propose(cli, "two", "b")
    version = version or one[:3]
    refused = cli.run("skills", "rollback", "rain-report", "--version", version, "--yes")
    assert "is not the beginning of one digest that is kept" in refused.err
    assert text_of(folder) == "two"


def test_there_is_nothing_to_go_back_to(cli: CommandLine, folder: Path) -> None:
    assert "there is no such skill" in cli.run("skills", "rollback", "rain-report", "--yes").err
    assert cli.run("skills", "install", str(cli.skills), "--all", "--yes").code == 0
    assert "no earlier version of it is kept" in cli.run("skills", "rollback", "rain-gauge", "--yes").err
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    Target(folder, cli.state.parent).backups.remove("rain-report")
    refused = cli.run("skills", "rollback", "rain-report", "--yes").err
    assert "the backup of what it replaced" in refused
    assert text_of(folder) == "two"


@pytest.mark.parametrize("name", ["../rain-report", "a/b", "Rain", "."])
def test_a_name_leads_nowhere_else(cli: CommandLine, folder: Path, name: str) -> None:
    propose(cli, "one")
    assert "that is no name of a skill" in cli.run("skills", "rollback", name, "--yes").err
    assert text_of(folder) == "one"


def test_the_version_that_is_there_is_not_put_back(cli: CommandLine, folder: Path) -> None:
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
    (one,) = (each for each in read_lock(folder).skills.values())
    assert cli.run("skills", "rollback", "rain-report", "--yes").code == 0
    command = ("skills", "rollback", "rain-report", "--version", one.digest[:12], "--yes")
    assert cli.run(*command).code == 0
    assert "it is that version already" in cli.run(*command).err


def test_what_changes_while_it_is_shown_stays(cli: CommandLine, folder: Path) -> None:
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    target = Target(folder, cli.state.parent)
    planned = plan_rollback(target, "rain-report")
    (folder / "rain-report" / "SKILL.md").write_text(SKILL.format(text="mine"))
    with pytest.raises(InstalledError, match="it was changed while this was shown"):
        roll_back(target, planned, datetime.now(UTC))
    assert text_of(folder) == "mine"


def test_what_sync_replaced_comes_back_and_the_lock_stays(cli: CommandLine, folder: Path) -> None:
    assert cli.run("skills", "install", str(cli.skills), "--all", "--yes").code == 0
    (folder / "rain-gauge" / "more.md").write_text("x")
    lock = (folder / "skills.lock").read_bytes()
    assert cli.run("skills", "sync", "--yes").code == 0
    assert cli.run("skills", "rollback", "rain-gauge", "--yes").code == 0
    assert (folder / "rain-gauge" / "more.md").exists()
    assert (folder / "skills.lock").read_bytes() == lock


def test_the_commands_for_installed_skills_know_that_a_proposal_has_no_source(
    cli: CommandLine, folder: Path
) -> None:
    propose(cli, "one")
    said = "rain-report  proposed in thread learn, nothing to fetch"
    assert said in cli.run("skills", "outdated").out
    assert cli.run("skills", "outdated", "--json").value["skills"][0]["state"] == "proposed"
    for command in (("update",), ("update", "rain-report"), ("update", "--yes")):
        updated = cli.run("skills", *command)
        assert updated.code == 0, updated.err
        assert said in updated.out
    for command in (("sync",), ("sync", "--frozen"), ("verify",)):
        assert cli.run("skills", *command).code == 0
    (folder / "rain-report" / "more.md").write_text("x")
    synced = cli.run("skills", "sync", "--yes")
    assert synced.code == 1
    assert (
        "rain-report was changed since, and was proposed in thread learn: there is nothing to fetch"
        in synced.err
    )
    assert "Nothing to do" not in synced.out
    assert cli.run("skills", "sync", "--frozen").code == 1
    assert cli.run("skills", "uninstall", "rain-report", "--yes").code == 0


def test_sync_restores_the_others_beside_a_proposal(cli: CommandLine, folder: Path) -> None:
    assert cli.run("skills", "install", str(cli.skills), "--all", "--yes").code == 0
    propose(cli, "one")
    for each in ("rain-gauge", "rain-report"):
        (folder / each / "more.md").write_text("x")
    synced = cli.run("skills", "sync", "--yes")
    assert synced.code == 1
    assert not (folder / "rain-gauge" / "more.md").exists()
    assert (folder / "rain-report" / "more.md").exists()
