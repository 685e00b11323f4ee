"""skills install, update and remove, as a person and as CI call them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from skills_agent.packages.manifest import MANIFEST_FILE
from tests.agents import write_skill
from tests.git_server import Repository, serving_git
from tests.graph.cli.command_line import CommandLine

LOCKED = ("skills", "install", "--locked", "--yes")
VERIFY = ("skills", "install", "--locked", "--check")
CHECK = ("skills", "update", "--check")


@pytest.fixture
def installed(cli: CommandLine) -> Path:
    """Install rain-gauge from a folder of the workspace, and return where it is."""
    shutil.copytree(cli.write_skill(), cli.workspace / "shared")
    assert cli.run("skills", "install", "./shared", "--yes").code == 0
    return cli.workspace / ".agent" / "skills" / "rain-gauge"


def publish(cli: CommandLine, text: str) -> None:
    """Change the skill where it comes from."""
    file = cli.workspace / "shared" / "rain-gauge" / "SKILL.md"
    file.write_text(file.read_text() + text)


def test_a_check_names_each_file_that_is_not_as_it_was_installed(cli: CommandLine, installed: Path) -> None:
    def check(code: int, *lines: str) -> None:
        done = cli.run(*VERIFY)
        assert (done.code, [line for line in lines if line not in done.out]) == (code, []), done.out

    check(0, "rain-gauge  same")
    script = installed / "scripts" / "add_up.py"
    for mode in (0o755, 0o666, 0o4644):
        script.chmod(mode)
        check(1, "mode     scripts/add_up.py")
    script.chmod(0o644)
    (installed / "SKILL.md").write_text("changed")
    script.rename(script.with_name("other.py"))
    (installed / "leak").symlink_to("/etc/passwd")
    check(1, "changed  SKILL.md", "removed  scripts/add_up.py", "added    scripts/other.py", "added    leak")
    [skill] = cli.run(*VERIFY, "--skill", "rain-gauge", "--json").value["skills"]
    assert skill["state"] == "changed"
    assert {each["kind"] for each in skill["differences"]} == {"changed", "added", "removed"}
    installed.rename(cli.workspace / "elsewhere")
    installed.symlink_to(cli.workspace / "elsewhere")
    check(1, "it is a link to")


@pytest.mark.slow
def test_a_person_sees_what_is_fetched_and_is_asked(cli: CommandLine) -> None:
    words = ("skills", "install", str(cli.write_skill()))
    seen = cli.on_terminal(*words, answers=[(f"Fetching {cli.skills}", ""), ("Install 1 skill?", "n\n")])
    assert (seen.code, any(cli.workspace.rglob("SKILL.md"))) == (1, False)


def test_the_lock_is_installed_and_what_was_there_is_kept(cli: CommandLine, installed: Path) -> None:
    (installed / "SKILL.md").write_text("my words")
    lock = (installed.parent / "skills.lock").read_text()
    assert cli.run(*LOCKED[:-1]).code == 1  # nobody is here to say yes
    assert cli.run(*LOCKED).code == 0
    assert cli.run(*VERIFY).code == 0
    assert (installed.parent / "skills.lock").read_text() == lock
    assert "Nothing to do" in cli.run(*LOCKED).out
    assert cli.run("skills", "update", "--rollback", "rain-gauge", "--yes").code == 0
    assert (installed / "SKILL.md").read_text() == "my words"


def test_a_lock_works_in_another_place_and_refuses_what_the_source_has_instead(
    cli: CommandLine, installed: Path
) -> None:
    elsewhere = cli.workspace.with_name("clone")
    shutil.copytree(cli.workspace, elsewhere)
    shutil.rmtree(elsewhere / ".agent" / "skills" / "rain-gauge")
    publish(cli, "More.\n")
    assert cli.run(*LOCKED, "--workspace", str(elsewhere)).code == 0
    assert (elsewhere / ".agent" / "skills" / "rain-gauge" / "SKILL.md").exists()
    shutil.rmtree(installed)
    done = cli.run(*LOCKED)
    assert (done.code, "rain-gauge: ../../shared has other files now" in done.err) == (1, True)
    assert not installed.exists()


def test_update_checks_and_takes_what_the_source_has(cli: CommandLine, installed: Path) -> None:
    assert cli.run(*CHECK).code == 0
    publish(cli, "More.\n")
    before = sorted(cli.workspace.rglob("*"))
    done = cli.run(*CHECK)
    assert (done.code, "+More." in done.out) == (1, True)
    [skill] = cli.run(*CHECK, "--json").value["skills"]
    assert skill["change"] == "update"
    assert sorted(cli.workspace.rglob("*")) == before
    assert cli.run("skills", "update", "--yes").code == 0
    assert (installed / "SKILL.md").read_text().endswith("More.\n")
    assert cli.run(*CHECK).code == 0


def test_a_source_that_is_gone_is_said_and_keeps_out_no_other(cli: CommandLine, installed: Path) -> None:
    snow = write_skill(cli.workspace / "other", "snow", "Snow. Use for snow.") / "SKILL.md"
    assert cli.run("skills", "install", "./other", "--yes").code == 0
    shutil.rmtree(cli.workspace / "shared")
    done = cli.run(*CHECK)
    assert (done.code, "rain-gauge" in done.err) == (1, True)
    snow.write_text(f"{snow.read_text()}More snow\n")
    done = cli.run("skills", "update", "--yes")
    assert (done.code, "rain-gauge" in done.err) == (0, True)
    assert "Installed 1 skill" in done.out
    assert cli.run("skills", "update", "rain-gauge", "--yes").code == 1


def test_update_leaves_a_local_change(cli: CommandLine, installed: Path) -> None:
    publish(cli, "More.\n")
    (installed / "notes.md").write_text("mine")
    done = cli.run("skills", "update", "--yes")
    assert "rain-gauge is left as it is: it was changed since it was installed" in done.err
    assert (installed / "notes.md").exists()
    assert cli.run("skills", "install", "./shared", "--yes").code == 1
    assert cli.run("skills", "install", "./shared", "--yes", "--force").code == 0
    assert not (installed / "notes.md").exists()


def test_a_lock_of_a_repository_does_not_steer_the_terminal(cli: CommandLine, installed: Path) -> None:
    lock = installed.parent / "skills.lock"
    text = lock.read_text().replace('"../../shared"', json.dumps("\x1b[2J./shared"))
    lock.write_text(text.replace("SKILL.md", "\\u202e"))
    for command in (VERIFY, CHECK, LOCKED):
        done = cli.run(*command)
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err


def test_a_lock_that_is_gone_is_an_error_where_skills_are(cli: CommandLine, installed: Path) -> None:
    (installed.parent / "skills.lock").unlink()
    for command in (VERIFY, (*VERIFY, "--skill", "rain-gauge"), LOCKED):
        done = cli.run(*command)
        assert (done.code, done.out) == (1, ""), command
        assert "skills.lock: it is missing" in done.err
    shutil.rmtree(installed.parent)
    for command in (VERIFY, LOCKED):
        done = cli.run(*command)
        assert (done.code, "1 skill" in done.out) == (0, False), command


def test_a_lock_that_says_nothing_of_manifests_is_taken(cli: CommandLine) -> None:
    cli.run("publish", "pack", str(cli.write_skill() / "rain-gauge"))
    assert cli.run("skills", "install", "./rain-gauge.skill", "--yes").code == 0
    lock = cli.workspace / ".agent/skills/skills.lock"
    lock.write_text(re.sub(r"manifest = .*\n", "", lock.read_text()))
    assert cli.run(*VERIFY).code == 0
    manifest = lock.parent / "rain-gauge" / MANIFEST_FILE
    manifest.write_text(manifest.read_text()[:100])
    assert cli.run(*VERIFY).code == 1


def test_a_moved_tag_fails_in_ci_and_is_taken_by_update(cli: CommandLine, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repositories" / "acme.git")
    old = repository.skill()
    repository.git("tag", "v1")
    with serving_git(repository.folder.parent) as site:
        assert cli.run("skills", "install", f"git+{site.url}/acme.git@v1", "--yes").code == 0
        new = repository.skill(text="Newer.")
        assert cli.run(*CHECK).code == 0  # the tag is where it was
        repository.git("tag", "--force", "v1", new)
        done = cli.run(*CHECK)
        assert done.code == 1
        assert f"at {new[:12]}, was {old[:12]}" in " ".join(done.out.split())
        assert cli.run("skills", "update", "--yes").code == 0
        assert cli.run(*CHECK).code == 0
