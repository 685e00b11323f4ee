"""An approved git command, where scripts had been before: tried for real, as root and as nobody.

What was planted leaves a canary where it is executed, by that command or by the person's next one.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("skills_agent.sandbox", reason="git writes in a sandbox alone")
from extras.sandbox.tests.test_hostile_scripts import Host, agents, approved, host, user
from extras.sandbox.tests.test_protected_files import git, is_safe
from skills_agent.skills.errors import ScriptError

__all__ = ["agents", "host", "user"]

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(host: Host) -> Host:
    """Return a machine with a repository, and with a program in it that nothing names yet."""
    host.level = "bwrap" if host.user == 0 else "landlock"  # where bubblewrap starts root as nobody, too
    shutil.rmtree(host.work)
    (host.work / "src").mkdir(parents=True)
    (host.work / "evil").write_text(f"#!/bin/sh\ntouch {host.work}/canary\ncat\n")
    (host.work / "evil").chmod(0o755)
    (host.work / "a.txt").write_text("one\n")
    host.own()
    git(host, "init", "-q", "-b", "main")
    git(host, "commit", "-q", "--allow-empty", "-m", "first")
    configure(host, "[user]\n\tname = a\n\temail = a@b")
    return host


def configure(host: Host, text: str, folder: str = ".") -> None:
    with (host.work / folder / ".git/config").open("a") as file:
        file.write(f"{text}\n")


def is_untouched(host: Host) -> bool:
    """Return whether nothing that was planted ran, also when the person goes on with git."""
    git(host, "add", "-A")
    git(host, "commit", "-qam", "the person's")
    return is_safe(host)


def test_commands_of_git_do_what_they_say(repository: Host) -> None:
    for line in (
        "git add -A", "git commit -qm made", "git checkout -q -b new", "git config core.eol lf", "git tag v1",
        "git -C src commit -q --allow-empty -m more", "git stash", "git remote add o url",
        "git mv a.txt b.txt", "git reset -q --hard HEAD", "git merge -q main", "git rebase -q main",
        "git revert --no-edit HEAD~1", "git cherry-pick --allow-empty HEAD~1", "git branch -q -D main",
        "git rm -q --ignore-unmatch evil", "git commit -q --amend --allow-empty --no-edit",
        "git notes add -m x", "git gc -q",
    ):  # fmt: skip
        result = repository.run("", git=line)
        assert result["exit_code"] == 0, (line, result)
        assert not result["notices"], line
    assert git(repository, "log", "--format=%s", "-n1", "v1") == "made\n"
    assert git(repository, "config", "core.eol") == "lf\n"
    assert git(repository, "remote") == "o\n"


def test_what_git_keeps_of_the_agents_folder_is_not_taken_for_removed(repository: Host) -> None:
    for path in (".agent/skills/x/SKILL.md", ".agent/config.json"):
        (repository.work / path).parent.mkdir(parents=True, exist_ok=True)
        (repository.work / path).write_text("kept\n")
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", "kept")
    (repository.work / "a.txt").write_text("two\n")
    if repository.level == "landlock":
        assert "git would lose .agent" in repository.run("", git="git add -A")["refused"]
        return
    for line in ("git add -A", "git commit -q -m made"):
        assert repository.run("", git=line)["exit_code"] == 0, line
    assert git(repository, "show", "--format=", "--name-only") == "a.txt\n"
    read = repository.run("ls -A .agent; cat .agent/skills/x/SKILL.md; echo x > .agent/skills/new")
    assert (read["stdout"], read["exit_code"]) == ("skills\nkept\n", 1)


AS = "-c user.name=a -c user.email=a@b"
PLACES = (".", "sub", "tree", "src/m", "src/m/sub", "src/m/tree", "of-m")
"""The repository, a nested one, submodules and linked worktrees of both; `of-m` lies beside `src/m`."""


@pytest.mark.parametrize("level", ["bwrap", "landlock"])
@pytest.mark.parametrize("way", ["", "link"])
def test_submodules_nested_repositories_and_linked_worktrees_are_written(
    repository: Host, level: str, way: str
) -> None:
    """What git wrote is where the person's git reads it, also where a run sees a copy of the work tree."""
    git(repository, "init", "-q", "-b", "main", "src/m")
    git(repository, "-C", "src/m", "commit", "-q", "--allow-empty", "-m", "first")
    git(repository, "clone", "-q", "src/m", "../lib")
    for folder, tree in ((".", "tree"), ("src/m", "tree"), ("src/m", "../../of-m")):
        git(repository, "-C", folder, "submodule", "--quiet", "add", f"{repository.place}/lib", "sub")
        git(repository, "-C", folder, "worktree", "add", "-q", tree)
    (repository.place / "link").symlink_to(".")
    repository.level, repository.place = level, repository.place / way
    for place in PLACES:
        (repository.work / place / "new").write_text("new\n")
        for line in (f"git -C {place} add new", f"git -C {place} {AS} commit -qm {place}"):
            result = repository.run("", git=line)
            assert (result["exit_code"], result["notices"]) == (0, []), (line, result)
        assert git(repository, "log", "--format=%s", "-n1", folder=place) == f"{place}\n"
        assert git(repository, "status", "--short", "new", folder=place) == ""
    for folder in (".", "src/m"):
        repository.run("", git=f"git -C {folder} add sub")
        assert git(repository, "rev-parse", ":sub", folder=folder) == git(
            repository, "rev-parse", "HEAD", folder=f"{folder}/sub"
        )


def test_a_repository_is_made_and_stays(repository: Host) -> None:
    shutil.rmtree(repository.work / ".git")
    for line, place in (("git init -q", ".git"), ("git init -q deep/new", "deep/new/.git")):
        result = repository.run("", git=line)
        assert (result["exit_code"], result["notices"]) == (0, [])
        made = {each.name for each in (repository.work / place).iterdir()}
        assert made == {"HEAD", "config", "objects", "refs"}


PROGRAMS = """
[core]
    fsmonitor = ./evil
    hooksPath = src
    editor = ./evil
    pager = ./evil
    sshCommand = ./evil
    askPass = ./evil
    attributesFile = src/attributes
[sequence]
    editor = ./evil
[commit]
    gpgSign = true
[gpg]
    format = ssh
[init]
    templateDir = src
[alias]
    commit = !./evil
    add = !./evil"""
CONFIGURED = (PROGRAMS, "[core]\n\tworktree = /", "[core]\n\tbare = true")


@pytest.mark.parametrize("level", ["bwrap", "controlled"])
@pytest.mark.parametrize("config", CONFIGURED)
def test_what_the_configuration_names_and_hooks_do_not_run_and_the_command_does(
    repository: Host, config: str, level: str
) -> None:
    """They are the person's own, or came with somebody's folder."""
    repository.level = level
    (repository.place / "home/.gitconfig").write_text("[core]\n\tfsmonitor = ./evil\n")
    (repository.work / ".git/hooks").mkdir(exist_ok=True)
    for name in (
        *("pre-commit", "commit-msg", "post-commit"),
        *("post-checkout", "post-index-change", "pre-auto-gc"),
    ):
        (repository.work / "src" / name).symlink_to("../evil")
        (repository.work / ".git/hooks" / name).symlink_to("../../evil")
    configure(repository, config)
    for line in (
        "git add -A", "git commit -qm x", "git commit -q --amend", "git rebase -q -i HEAD~1",
        "git checkout -q -b y", "git gc -q", "git merge -q main",
    ):  # fmt: skip
        repository.run("", git=line)
    assert not (repository.work / "canary").exists()
    (repository.work / ".git/config").write_text("[user]\n\tname = a\n\temail = a@b\n")
    shutil.rmtree(repository.work / ".git/hooks")
    (repository.place / "home/.gitconfig").unlink()
    assert "x\n" in git(repository, "log", "--format=%s", "--all")


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a program without an interpreter")
def test_a_program_of_a_repository_in_the_repository_runs_neither(repository: Host) -> None:
    """git looks whether it changed, by the filters of that one's configuration, and may write beside it."""
    code = '#include <fcntl.h>\nint main() { return open("canary", O_CREAT | O_WRONLY, 0600); }'
    target = repository.work / "evil"
    subprocess.run(["cc", "-static", "-xc", "-", "-o", target], input=code, text=True, check=True)
    repository.own()
    git(repository, "init", "-q", "src")
    git(repository, "-C", "src", "commit", "-q", "--allow-empty", "-m", "x")
    (repository.work / "src/f").touch()
    git(repository, "-C", "src", "add", "f")
    git(repository, "add", "src")
    (repository.work / "src/.gitattributes").write_text("* filter=x")
    os.utime(repository.work / "src/f", (1, 1))
    asked = repository.asked("", git="git add -A")
    agent = repository.agents.of(repository.user, undumpable=True, level=repository.level)
    configure(repository, f'[filter "x"]\n\tclean = {target}', "src")
    with pytest.raises(ScriptError, match=r"clean in src/\.git/config"):
        approved("git add -A", repository.work)
    agent.ask(asked)
    result = agent.answer()
    assert f"cannot exec '{target}': Permission denied" in result["stderr"]
    assert not list(repository.work.rglob("canary"))


FSMONITOR = "printf '[core]\\n\\tfsmonitor = ./evil\\n' >> "
PLANTS = {
    "in-it": "cp evil .git/hooks/pre-commit; mkdir -p .git/rebase-merge .git/objects/info; git config "
    f"core.fsmonitor ./evil; {FSMONITOR} .git/config; echo exec ./evil > .git/rebase-merge/git-rebase-todo; "
    "echo /elsewhere > .git/objects/info/alternates; echo '* filter=x' > .git/info/attributes; cd .git; "
    "for each in COMMIT_EDITMSG SQUASH_MSG MERGE_MSG; do ln -sf ../../home/.bashrc $each; done",
    "in-the-place-of-git": f"mv .git g; cp -r g .git; {FSMONITOR} .git/config",
    "a-bare-repository": f"git init -q --bare src; {FSMONITOR} src/config",
    "a-nested-one": f"git init -q src; {FSMONITOR} src/.git/config; cp evil src",
    "a-file-for-git": f"cp -r .git store; {FSMONITOR} store/config; echo gitdir: ../store > src/.git",
    "a-link-for-git": f"cp -r .git store; {FSMONITOR} store/config; ln -s ../store src/.git; cp evil src",
    "attributes": "echo '* filter=x diff=x merge=x' > .gitattributes",
    "a-worktree": "git worktree add -q ../w; git worktree add -q src/w",
    "the-parent": "cd ..; mv work w; mv work/.git g",
    "a-program-for-git": "mkdir bin; for each in git git-commit bin/git git-merge-x; do cp evil $each; done",
    "its-home": f"{FSMONITOR} ~/.gitconfig; git config --global core.pager ./evil",
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_what_a_script_planted_before_runs_neither_then_nor_later(repository: Host, plant: str) -> None:
    (repository.place / "home/.bashrc").write_text("mine")
    config = (repository.work / ".git/config").read_text()
    repository.run(plant)
    for line in (
        "git add -A", "git commit -qm x", "git -C src commit -q --allow-empty -m y", "git merge -q -s x main",
        "git rebase --continue",
    ):  # fmt: skip
        repository.run("", git=line)
    assert not (repository.work / "canary").exists()
    assert is_untouched(repository)
    assert (repository.work / ".git/config").read_text() == config
    assert (repository.place / "home/.bashrc").read_text() == "mine"
    assert "x\n" in git(repository, "log", "--format=%s")


@pytest.mark.parametrize(
    "line",
    [
        "git difftool -y", "git submodule foreach ./evil", "git bisect start; git bisect run ./evil",
        "echo x > .git/config; echo x > .git/hooks/x",
    ],
)  # fmt: skip
def test_everything_else_finds_a_repository_that_is_read_only(repository: Host, line: str) -> None:
    configure(repository, '[difftool "x"]\n\tcmd = ./evil\n[diff]\n\ttool = x')
    before = {path: path.lstat().st_mtime_ns for path in Path(repository.work, ".git").rglob("*")}
    repository.run(line, writable=[".git", ".git/hooks/x"])
    assert {path: path.lstat().st_mtime_ns for path in Path(repository.work, ".git").rglob("*")} == before


def test_a_repository_that_a_file_names_is_read_only_too(repository: Host) -> None:
    git(repository, "init", "-q", "--separate-git-dir=store")
    before = (repository.work / "store/config").read_text()
    result = repository.run("git status >log; echo x >> store/config; mkdir store/x; mv store s")
    assert (repository.work / "store/config").read_text() == before
    assert not (repository.work / "store/x").exists()
    if repository.level == "bwrap":  # the other one keeps nothing from being written, and leaves it out
        assert not result["notices"]
        assert "On branch main" in (repository.work / "log").read_text()


def test_a_push_runs_no_hook_of_a_repository_in_the_workspace(repository: Host) -> None:
    repository.level = "controlled"
    git(repository, "init", "-q", "--bare", "other.git")
    (repository.work / "other.git/hooks").mkdir(exist_ok=True)
    (repository.work / "other.git/hooks/post-receive").symlink_to("../../evil")
    for line in ("git push -q other.git main", "git fetch -q ./other.git", "git push -q 'ext::./evil' main"):
        assert "not allowed" in repository.run("", git=line)["stderr"]
    assert not (repository.work / "canary").exists()
