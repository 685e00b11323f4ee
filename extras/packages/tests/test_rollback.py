"""`skills update --rollback`, and what the other commands say of skills that the agent proposed."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from skills_agent.packages.backups import backups_of
from skills_agent.packages.errors import PackageError
from skills_agent.packages.installation import install, plan_rollback
from skills_agent.packages.lock import Proposed, read_lock
from skills_agent.packages.proposal import ProposeSkillArguments, draft, install_proposed
from skills_agent.packages.target import Target
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


ROLLBACK = ("skills", "update", "--rollback", "rain-report", "--yes")


def target_of(cli: CommandLine) -> Target:
    return Target(cli.workspace / ".agent" / "skills", cli.state.parent)


def propose(cli: CommandLine, text: str, thread: str = "learn") -> None:
    """Install a version as a proposal that was accepted."""
    target = target_of(cli)
    wish = ProposeSkillArguments(
        name="rain-report", reason=f"It is {text}", files={"SKILL.md": SKILL.format(text=text)}
    )
    with target.draft() as into:
        change = draft(wish, target, into, {}, lambda *_: "")
        proposed = Proposed(thread=thread, model="scripted", reason=wish.reason, call=thread)
        install_proposed(target, into, change, proposed, datetime.now(UTC))


def publish(cli: CommandLine, *texts: str) -> None:
    """Install a version from a folder, and update it to others."""
    source = cli.workspace / "shared" / "rain-report"
    source.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        (source / "SKILL.md").write_text(SKILL.format(text=text))
        command = ["update"] if number else ["install", "shared"]
        assert cli.run("skills", *command, "--yes").code == 0


def text_of(folder: Path) -> str:
    file = folder / "rain-report" / "SKILL.md"
    return file.read_text().split()[-1] if file.exists() else ""


def rollback(cli: CommandLine, *more: str) -> str:
    done = cli.run(*ROLLBACK, *more)
    assert done.code == 0, done.err
    return done.out


def test_the_last_version_comes_back_and_the_next_time_the_one_before(cli: CommandLine, folder: Path) -> None:
    propose(cli, "zero", "z")
    propose(cli, "one", "a")
    propose(cli, "two", "b")
    for _ in range(4):  # what is put back again and again pushes no version out
        assert "proposed in thread b by scripted" in rollback(cli)
        assert text_of(folder) == "one"
        rollback(cli)
        assert text_of(folder) == "two"
    proposed = read_lock(folder)["rain-report"].proposed
    assert proposed
    assert proposed.thread == "b"
    oldest = backups_of(target_of(cli).backups, "rain-report")[-1].digest[:12]
    assert oldest in rollback(cli, "--version", oldest)
    assert text_of(folder) == "zero"


def test_what_was_installed_and_removed_comes_back_with_what_the_lock_had(
    cli: CommandLine, folder: Path
) -> None:
    publish(cli, "one", "two")
    before = (folder / "skills.lock").read_text()
    cli.run("skills", "remove", "rain-report", "--yes")
    rollback(cli)
    assert text_of(folder) == "two"
    assert (folder / "skills.lock").read_text() == before
    assert cli.run("skills", "install", "--locked", "--check").code == 0


def test_what_is_no_kept_version_is_not_put_back(cli: CommandLine, folder: Path) -> None:
    publish(cli, "one", "two")
    for name in ("../shared", "..", "", "/etc", "greet"):
        done = cli.run("skills", "update", "--rollback", name, "--yes")
        assert done.code == 1
        assert "is no name of a skill" in done.err or "no other version of it is kept" in done.err
    for version in ("ffff", "../.."):
        done = cli.run(*ROLLBACK, "--version", version)
        assert (done.code, "of it is kept in backups" in done.err) == (1, True)
    [backup] = backups_of(target_of(cli).backups, "rain-report")
    (backup.folder / "SKILL.md").write_text("evil")
    done = cli.run(*ROLLBACK)
    assert (done.code, "was changed since; look at" in done.err) == (1, True)
    assert text_of(folder) == "two"


def test_what_changes_while_it_is_shown_stays(cli: CommandLine, folder: Path) -> None:
    publish(cli, "one", "two")
    target = target_of(cli)
    with target.draft() as into:
        change = plan_rollback(target, "rain-report", "", into)
        (folder / "rain-report" / "SKILL.md").write_text(SKILL.format(text="mine"))
        with pytest.raises(PackageError, match="was changed while this was shown"):
            install(target, into, [change], datetime.now(UTC), force=True)
    assert text_of(folder) == "mine"


def test_the_commands_for_installed_skills_know_that_a_proposal_has_no_source(
    cli: CommandLine, folder: Path
) -> None:
    source = cli.write("shared/greet/SKILL.md", "---\nname: greet\ndescription: Greets. Use it.\n---\nHi.\n")
    assert cli.run("skills", "install", "shared", "--yes").code == 0
    propose(cli, "one")
    assert cli.run("skills", "install", "--locked", "--check").code == 0
    checked = cli.run("skills", "update", "--check")
    assert (checked.code, "proposed in thread learn, nothing to fetch" in checked.out) == (0, True)
    assert cli.run("skills", "install", "--locked").code == 0
    (folder / "rain-report" / "SKILL.md").write_text(SKILL.format(text="mine"))
    (folder / "greet" / "SKILL.md").write_text("mine")
    done = cli.run("skills", "install", "--locked", "--yes")  # the others are restored
    assert (done.code, "there is nothing to fetch" in done.err) == (1, True)
    assert (folder / "greet" / "SKILL.md").read_text() == source.read_text()
    assert text_of(folder) == "mine"
