"""git-release-notes: real repositories, made by real git in a temporary folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.git_server import NOBODY

SCRIPT = (
    Path(__file__).parents[3] / "skills" / "bundled" / "git-release-notes" / "scripts" / "release_notes.py"
)


class Repository:
    """A repository, without the configuration of the machine."""

    def __init__(self, folder: Path) -> None:
        """Make an empty one."""
        folder.mkdir()
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        """Run git, and return what it prints."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | NOBODY,
        )
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        """Change a file, commit, and return the full id."""
        with (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write("more\n")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project")


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the agent does."""
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", **environment},
        timeout=60,
    )


def notes(repository: Repository, *arguments: str) -> dict[str, Any]:
    """Return the notes as JSON."""
    done = run(repository.folder, "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def texts(found: dict[str, Any], section: str) -> list[str]:
    """Return the entries of a section."""
    return [entry["text"] for entry in found["sections"][section]]


def test_commits_since_the_last_tag_are_grouped_by_type(repository: Repository) -> None:
    repository.commit("feat: old")
    repository.git("tag", "v1.0.0")
    expected = {
        "features": ("feat(cli): ", "add --json"),
        "fixes": ("fix: ", "no crash on empty files (#12)"),
        "performance": ("perf: ", "faster scan"),
        "documentation": ("docs: ", "explain scan"),
        "maintenance": ("chore: ", "tidy"),
    }
    for kind, message in expected.values():
        repository.commit(kind + message)
    found = notes(repository)
    assert (found["from"], found["to"], found["commits"]) == ("v1.0.0", "HEAD", 5)
    assert {name: texts(found, name) for name in expected} == {
        name: [message] for name, (_, message) in expected.items()
    }
    assert found["sections"]["features"][0]["scope"] == "cli"
    assert found["size"] == {"files": 1, "insertions": 5, "deletions": 0}


def test_breaking_changes_come_first_and_say_what_breaks(repository: Repository) -> None:
    repository.commit("feat: harmless")
    repository.commit("feat(api)!: drop v1")
    repository.commit("fix: load\n\nBREAKING CHANGE: load() needs an\nencoding now\n\nRefs: #7")
    found = notes(repository)
    assert texts(found, "breaking") == ["load", "drop v1"]
    assert found["sections"]["breaking"][0]["breaking"] == "load() needs an encoding now"
    assert texts(found, "features") == ["harmless"]
    markdown = run(repository.folder).stdout
    assert markdown.index("## Breaking changes") < markdown.index("## Features")
    assert "- **api:** drop v1 (" in markdown


def test_a_shallow_clone_is_said_to_be_one(repository: Repository, tmp_path: Path) -> None:
    for number in range(3):
        repository.commit(f"feat: {number}")
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.folder}", str(tmp_path / "clone"))
    done = run(tmp_path, "--repo", "clone")
    assert done.returncode == 0
    assert "A shallow clone: older commits are missing" in done.stdout


def test_messages_cannot_bring_html_or_control_characters(repository: Repository) -> None:
    repository.commit("feat: <script>alert(1)</script> and `Vec<u8>` \x1b[31m\u202e")
    markdown = run(repository.folder).stdout
    assert "<script>" not in markdown
    assert "`Vec<u8>`" in markdown
    assert "\x1b" not in markdown
    assert "\u202e" not in markdown


def test_without_a_repository_or_git_it_says_so(repository: Repository, tmp_path: Path) -> None:
    done = run(tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert done.returncode == 2
    assert "not a git repository" in done.stderr
    assert run(tmp_path, "--repo", "nowhere").returncode == 2
    done = run(repository.folder, PATH=str(tmp_path))
    assert done.returncode == 1
    assert "git is not installed" in done.stderr


@pytest.mark.parametrize("ref", ["--output=x", "nope", "", "main..x", "HEAD:log.txt", "a b", "HEAD\n"])
@pytest.mark.variants
def test_what_is_no_revision_is_refused(repository: Repository, ref: str) -> None:
    repository.commit("feat: one")
    done = run(repository.folder, f"--from={ref}")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not (repository.folder / "x").exists()


@pytest.fixture
def trap(repository: Repository, tmp_path: Path) -> Path:
    """Return a program that leaves a trace, beside a repository with two commits and a tag between them."""
    repository.commit("feat: one")
    repository.git("tag", "v1")
    repository.commit("feat: two")
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path / 'sprung'}\n", encoding="utf-8")
    trap.chmod(0o755)
    return trap


def test_a_repository_cannot_name_a_program_as_the_protocol_of_missing_objects(
    repository: Repository, trap: Path, tmp_path: Path
) -> None:
    """A git before 2.45 does not know GIT_NO_LAZY_FETCH, unless a distribution has put it in."""
    older = tmp_path / "bin" / "git"
    older.parent.mkdir()
    older.write_text(
        f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which("git")} "$@"\n', encoding="utf-8"
    )
    older.chmod(0o755)
    blob = repository.git("rev-parse", "HEAD:log.txt")
    (repository.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("remote.origin.url", f"ext::{trap} %S"),
        ("remote.origin.promisor", "true"),
        ("protocol.ext.allow", "always"),
        ("extensions.partialClone", "origin"),
    ):
        repository.git("config", name, value)
    done = run(repository.folder, PATH=f"{older.parent}{os.pathsep}{os.environ['PATH']}")
    assert "- two (" in done.stdout
    assert not (tmp_path / "sprung").exists()


def test_a_repository_cannot_make_us_run_its_programs(
    repository: Repository, trap: Path, tmp_path: Path
) -> None:
    head, _, message = repository.git("cat-file", "commit", "HEAD").partition("\n\n")
    (tmp_path / "signed").write_text(
        f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{message}\n",
        encoding="utf-8",
    )
    signed = repository.git("hash-object", "-t", "commit", "-w", str(tmp_path / "signed"))
    repository.git("reset", "--quiet", "--hard", signed)
    (repository.folder / ".git" / "info" / "attributes").write_text("* diff=trap\n", encoding="utf-8")
    pagers = ("pager.log", "core.pager")
    for name in (*pagers, "core.fsmonitor", "diff.external", "diff.trap.command", "gpg.program"):
        repository.git("config", name, str(trap))
    repository.git("config", "log.showSignature", "true")
    done = run(repository.folder)
    assert "- two (" in done.stdout
    assert not (tmp_path / "sprung").exists()
