"""Where git's commands write, and which only read."""

from pathlib import Path

import pytest

from skills_agent.skills.policy.protected import protected_in_command


def opened(workspace: Path, command: str) -> set[str]:
    """Return what a command may write beneath the workspace, once it is approved."""
    found = protected_in_command(command, workspace)
    return {str(each.place.relative_to(workspace)) for each in found if each.place}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in (".git", "sub", "inner/.git"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m x", "git add -A && git commit -m x", "cd sub && git add x", "git -C sub stash",
        "git --no-pager -c user.name=a commit -m x", "git checkout -b new", "git branch new", "git tag v1",
        "git stash", "git branch -d old", "git branch $NAME", "git log && git reset --hard",
        "/usr/bin/git add x", "echo x | git commit -F -", "if true; then git commit -m x; fi",
    ],
)  # fmt: skip
def test_a_commit_and_its_like_write_what_git_runs_nothing_of(repository: Path, command: str) -> None:
    places = opened(repository, command)
    assert {".git/index", ".git/objects", ".git/refs", ".git/HEAD"} <= places
    assert not places & {".git", ".git/config", ".git/hooks", ".git/info", ".git/modules", ".git/commondir"}


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline", "git status", "git diff", "git show HEAD", "git branch",
        "git branch --show-current", "git branch --list 'x*'", "git stash list", "git tag", "git tag -l",
        "git remote -v",
        "git worktree list", "git config user.name", "git config --get user.name", "git rev-parse HEAD",
        "git", "git --version",
        "echo git commit", "git nonsense",
    ],
)  # fmt: skip
def test_what_only_reads_opens_nothing(repository: Path, command: str) -> None:
    assert not list(protected_in_command(command, repository))


def test_the_repository_is_the_nearest_one_of_the_workspace(repository: Path) -> None:
    assert "inner/.git/index" in opened(repository, "cd inner && git commit -m x")
    (repository / "other/deep").mkdir(parents=True)
    assert not opened(repository / "other", "cd deep && git commit -m x")


@pytest.mark.parametrize(
    "command", ["git config user.name a", "git remote add o url", "git config --unset x"]
)
def test_configuration_is_opened_where_a_command_is_about_it(repository: Path, command: str) -> None:
    assert ".git/config" in opened(repository, command)
    assert ".git/hooks" not in opened(repository, command)


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("git init", ".git"), ("git init -q -b main .", ".git"), ("git init new", "new/.git"),
        ("git worktree add trees/x -b x", "trees/x/.git"), ("git worktree add trees/x", ".git/worktrees"),
    ],
)  # fmt: skip
def test_a_repository_is_made_where_a_command_says(repository: Path, command: str, place: str) -> None:
    assert place in opened(repository, command)


def test_a_link_is_asked_about_and_opens_nothing(repository: Path) -> None:
    (repository / "linked").mkdir()
    (repository / "linked/.git").symlink_to("../.git")
    found = list(protected_in_command("cd linked && git commit -m x", repository))
    assert any(each.place is None for each in found)
    assert not any(str(each.place).startswith(str(repository / "linked")) for each in found)


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("git config user.name a", ".git/config"), ("git remote add o url", ".git/config"),
        ("git rebase main", ".git/rebase-merge"), ("git revert HEAD", ".git/sequencer"),
        ("git worktree add trees/x", ".git/worktrees"), ("git worktree add trees/x", "trees/x/.git"),
        ("git init new", "new/.git"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "beside", ["{}; sh build.sh", "./x | {}", "cd . && {} && make", "{} $(./x)", "$X; {}"]
)
def test_what_git_obeys_is_not_opened_beside_another_program(
    repository: Path, command: str, place: str, beside: str
) -> None:
    assert place in opened(repository, f"cd . && {command} && echo done")
    assert place not in opened(repository, beside.format(command))
    assert list(protected_in_command(beside.format(command), repository))
