"""skills install, verify, sync, outdated, update and uninstall, as a person and as CI call them."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from skills_agent.packages.manifest import MANIFEST_FILE
from tests.graph.cli.command_line import CommandLine


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


def test_verify_names_each_file_that_is_not_as_it_was_installed(cli: CommandLine, installed: Path) -> None:
    done = cli.run("skills", "verify")
    assert done.code == 0
    assert "rain-gauge  same" in done.out
    (installed / "SKILL.md").write_text("changed")
    (installed / "scripts" / "add_up.py").rename(installed / "scripts" / "other.py")
    (installed / "leak").symlink_to("/etc/passwd")
    done = cli.run("skills", "verify")
    assert done.code == 1
    for line in (
        "changed  SKILL.md",
        "removed  scripts/add_up.py",
        "added    scripts/other.py",
        "added    leak",
    ):
        assert line in done.out
    value = cli.run("skills", "verify", "rain-gauge", "--json").value
    [skill] = value["skills"]
    assert skill["state"] == "changed"
    assert {each["kind"] for each in skill["differences"]} == {"changed", "added", "removed"}


@pytest.mark.parametrize("mode", [0o755, 0o666, 0o4644])
def test_verify_names_a_changed_mode(cli: CommandLine, installed: Path, mode: int) -> None:
    (installed / "scripts" / "add_up.py").chmod(mode)
    done = cli.run("skills", "verify")
    assert done.code == 1
    assert "mode     scripts/add_up.py" in done.out


def test_verify_says_what_is_gone_and_what_the_lock_does_not_have(cli: CommandLine, installed: Path) -> None:
    shutil.copytree(installed, installed.with_name("mine"))
    installed.rename(installed.with_name("elsewhere"))
    done = cli.run("skills", "verify")
    assert done.code == 1
    assert "rain-gauge  missing" in done.out
    assert "Not in skills.lock: elsewhere, mine." in done.out
    assert cli.run("skills", "verify", "mine").code == 1


def test_verify_names_the_threads_on_another_version(cli: CommandLine, installed: Path) -> None:
    model = cli.script({"tool_calls": [{"name": "load_skill", "args": {"name": "rain-gauge"}}]}, "Done.")
    assert cli.run("ask", "rain?", "--thread", "monday", "--model", model).code == 0
    assert "Thread" not in cli.run("skills", "verify").out
    publish(cli, "More.\n")
    assert cli.run("skills", "update", "--yes").code == 0
    assert "Thread monday goes on with" in cli.run("skills", "verify").out


def test_verify_leaves_out_threads_of_another_workspace_with_a_skill_of_that_name(
    cli: CommandLine, installed: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    theirs = shutil.copytree(installed, other / ".agent" / "skills" / "rain-gauge")
    (theirs / "SKILL.md").write_text((installed / "SKILL.md").read_text() + "Theirs.\n")
    model = cli.script({"tool_calls": [{"name": "load_skill", "args": {"name": "rain-gauge"}}]}, "Done.")
    asked = ["ask", "rain?", "--thread", "theirs", "--model", model, "--workspace", str(other)]
    assert cli.run(*asked).code == 0
    assert "Thread" not in cli.run("skills", "verify").out


def test_frozen_fails_on_a_difference_of_folder_or_source(cli: CommandLine, installed: Path) -> None:
    assert cli.run("skills", "sync", "--frozen").code == 0
    publish(cli, "More.\n")
    done = cli.run("skills", "sync", "--frozen")
    assert done.code == 1
    assert "has other files now" in done.out
    (installed / "SKILL.md").write_text("changed")
    before = sorted(cli.workspace.rglob("*"))
    done = cli.run("skills", "sync", "--frozen", "--json")
    assert done.code == 1
    assert len(done.value["differences"]) == 2
    assert sorted(cli.workspace.rglob("*")) == before
    assert (installed / "SKILL.md").read_text() == "changed"


def test_sync_restores_what_the_lock_says_and_keeps_what_was_there(cli: CommandLine, installed: Path) -> None:
    (installed / "SKILL.md").write_text("my words")
    assert cli.run("skills", "sync").code == 1  # nobody is here to say yes
    assert cli.run("skills", "sync", "--yes").code == 0
    assert cli.run("skills", "verify").code == 0
    [backup] = cli.run("skills", "rollback", "rain-gauge", "--list", "--json").value["versions"]
    assert (Path(backup["path"]) / "SKILL.md").read_text() == "my words"
    assert "Nothing to do" in cli.run("skills", "sync").out


def test_sync_sees_what_changes_after_it_has_seen_nothing(
    cli: CommandLine, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the two seconds had gone by in which the clock of a file system may stand still.
    monkeypatch.setattr("skills_agent.packages.stamp._TICK", -60_000_000_000)
    assert "Nothing to do" in cli.run("skills", "sync").out
    script = installed / "scripts" / "add_up.py"
    text, times = script.read_text(), script.stat()
    script.write_text(text[::-1])
    os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "replaces" in cli.run("skills", "sync").out
    script.write_text(text)
    assert "Nothing to do" in cli.run("skills", "sync").out
    (installed / "more").touch()
    assert "replaces" in cli.run("skills", "sync").out


def test_sync_refuses_what_the_source_has_instead(cli: CommandLine, installed: Path) -> None:
    publish(cli, "More.\n")
    shutil.rmtree(installed)
    done = cli.run("skills", "sync", "--yes")
    assert done.code == 1
    assert "rain-gauge" in done.err
    assert "has other files now" in done.err
    assert not installed.exists()


def test_a_lock_works_in_another_place(cli: CommandLine, installed: Path) -> None:
    elsewhere = cli.workspace.with_name("clone")
    shutil.copytree(cli.workspace, elsewhere)
    shutil.rmtree(elsewhere / ".agent" / "skills" / "rain-gauge")
    shutil.rmtree(cli.workspace / "shared")
    assert cli.run("skills", "sync", "--yes", "--workspace", str(elsewhere)).code == 0
    assert (elsewhere / ".agent" / "skills" / "rain-gauge" / "SKILL.md").exists()


def test_outdated_and_update(cli: CommandLine, installed: Path) -> None:
    assert "0 of 1 skill outdated." in cli.run("skills", "outdated").out
    publish(cli, "More.\n")
    [skill] = cli.run("skills", "outdated", "--json").value["skills"]
    assert skill["state"] == "outdated"
    assert cli.run("skills", "update", "--yes").code == 0
    assert (installed / "SKILL.md").read_text().endswith("More.\n")
    assert cli.run("skills", "sync", "--frozen").code == 0


def test_a_source_that_is_gone_is_said_and_is_not_fatal(cli: CommandLine, installed: Path) -> None:
    other = cli.workspace / "other" / "snow"
    other.mkdir(parents=True)
    (other / "SKILL.md").write_text("---\nname: snow\ndescription: Snow. Use for snow.\n---\nSnow\n")
    assert cli.run("skills", "install", "./other", "--yes").code == 0
    shutil.rmtree(cli.workspace / "shared")
    (other / "SKILL.md").write_text("---\nname: snow\ndescription: Snow. Use for snow.\n---\nMore snow\n")
    done = cli.run("skills", "outdated")
    assert done.code == 0
    assert "rain-gauge" in done.err
    assert "1 of 2 skills outdated" in done.out
    done = cli.run("skills", "update", "--yes")
    assert done.code == 0
    assert "rain-gauge" in done.err
    assert cli.run("skills", "update", "rain-gauge", "--yes").code == 1


def test_update_leaves_a_local_change_without_force(cli: CommandLine, installed: Path) -> None:
    publish(cli, "More.\n")
    (installed / "notes.md").write_text("mine")
    done = cli.run("skills", "update", "--yes")
    assert done.code == 1
    assert "was changed since it was installed" in done.err
    assert cli.run("skills", "update", "--yes", "--force").code == 0
    assert not (installed / "notes.md").exists()


def test_uninstall_keeps_a_backup_that_install_takes(cli: CommandLine, installed: Path) -> None:
    done = cli.run("skills", "uninstall", "rain-gauge", "--yes")
    assert done.code == 0
    assert not installed.exists()
    assert cli.run("skills", "install", done.out.rsplit(" ", 1)[-1].strip(), "--yes").code == 0
    assert installed.exists()
    assert cli.run("skills", "uninstall", "rain-gauge", "--yes", "--purge").code == 0
    assert "no backup" in cli.run("skills", "rollback", "rain-gauge", "--list").out


def test_a_lock_of_a_repository_does_not_steer_the_terminal(cli: CommandLine, installed: Path) -> None:
    lock = installed.parent / "skills.lock"
    text = (
        lock.read_text()
        .replace('"../../shared"', json.dumps("\x1b[2J./shared"))
        .replace("SKILL.md", "\\u202e")
    )
    lock.write_text(text)
    for command in ("verify", "outdated", "sync"):
        done = cli.run("skills", command)
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err


def test_a_lock_that_is_gone_is_an_error_where_skills_are(cli: CommandLine, installed: Path) -> None:
    (installed.parent / "skills.lock").unlink()
    for command in (["verify"], ["verify", "rain-gauge"], ["sync"], ["sync", "--frozen"]):
        done = cli.run("skills", *command)
        assert (done.code, done.out) == (1, ""), command
        assert "skills.lock: it is missing" in done.err
    shutil.rmtree(installed.parent)
    assert cli.run("skills", "sync", "--frozen").code == 1
    for command in (["verify"], ["sync"]):
        done = cli.run("skills", *command)
        assert (done.code, "skills.lock says" in done.out) == (0, False), command


def test_verify_takes_a_lock_that_says_nothing_of_manifests(cli: CommandLine, tmp_path: Path) -> None:
    cli.run("skills", "pack", str(cli.write_skill() / "rain-gauge"))
    assert cli.run("skills", "install", "./rain-gauge.skill", "--yes").code == 0
    lock = cli.workspace / ".agent/skills/skills.lock"
    lock.write_text(re.sub(r"manifest = .*\n", "", lock.read_text()))
    assert cli.run("skills", "verify").code == 0
    manifest = lock.parent / "rain-gauge" / MANIFEST_FILE
    manifest.write_text(manifest.read_text()[:100])
    assert cli.run("skills", "verify").code == 1
    assert cli.run("skills", "sync", "--frozen").code == 1


def test_a_packed_skill_is_installed_from_its_archive(cli: CommandLine) -> None:
    folder = str(cli.write_skill() / "rain-gauge")
    done = cli.run("skills", "pack", folder)
    assert done.code == 0, done.errors
    digest, archive = (line.split()[index] for line, index in zip(done.out.splitlines(), (1, 0), strict=True))
    value = cli.run("skills", "pack", folder, "--force", "--json").value
    assert value["file"] == "rain-gauge.skill"
    assert value["sha256"] == archive
    [skill] = value["skills"]
    assert (skill["name"], skill["digest"], skill["files"]) == ("rain-gauge", digest, 2)
    assert cli.run("skills", "install", "./rain-gauge.skill", "--to", "elsewhere", "--yes").code == 0
    lock = (cli.workspace / "elsewhere" / "skills.lock").read_text()
    assert f'digest = "{digest}"' in lock
    assert f'archive = "{archive}"' in lock
    assert cli.run("skills", "verify", "--to", "elsewhere").code == 0


def test_packing_says_what_is_in_its_way(cli: CommandLine) -> None:
    folder = str(cli.write_skill() / "rain-gauge")
    assert cli.run("skills", "pack", folder).code == 0
    done = cli.run("skills", "pack", folder)
    assert done.code == 1
    assert "rain-gauge.skill is not packed: it is there already; --force replaces it." in done.errors
    assert cli.run("skills", "pack", folder, folder).code == 2
    done = cli.run("skills", "pack", folder, "-o", "missing/x.zip")
    assert done.code == 1
    assert "No such file or directory" in done.errors
    cli.write_skill("---\nname: rain-gauge\ndescription: Adds up rainfall.\n---\nTODO: write this.\n")
    done = cli.run("skills", "pack", folder, "-o", "x.zip")
    assert done.code == 1
    assert "description-without-when" in done.out
    assert "rain-gauge is not packed: skills lint finds" in done.errors
    value = cli.run("skills", "pack", folder, "-o", "x.zip", "--json").value
    assert {each["severity"] for each in value["findings"]} == {"warning"}
    assert not (cli.workspace / "x.zip").exists()
    assert cli.run("skills", "pack", folder, "-o", "x.zip", "--allow-warnings").code == 0
