"""The protected paths that command lines name."""

from pathlib import Path

import pytest

from skills_agent.shell.protected import protected_in_command


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    for name in (".git/config", "a.txt"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "rm .git/config", "rm .g''it/config", 'rm ".git"/config', "rm .g\\it/config", "rm $'.\\x67it/config'",
        "echo x > .git/config", "echo x >> .envrc", "echo x >.envrc", "2>.envrc ls", "X=.git; rm $X/config",
        "cd .git && rm config", "cd .git; ls | tee config", "cd sub && rm ../.git/config",
        "rm $X/.git/config", "rm .g*t/config", "rm .g?t/config", "rm .gi[t]/config", "rm .{git,x}/config",
        "rm .g$X/config", "rm */config", "rm g*/config", "rm A*.md", "tee $(echo .git/x)",
        "bash -c 'rm .git/config'", "find . -exec tee .envrc {} +", "sh <<'E'\nrm .git/config\nE",
        "python3 <<E\nopen('.git/config', 'w')\nE", "rm .g\"i\"t/config \"unclosed", "eval rm .g*t",
        "dd of=.git/config", "tar -C.git -xf x", "ls; cat .envrc > x", "rm /*/*/*/A*.md",
    ],
)  # fmt: skip
def test_a_command_line_that_may_change_a_protected_path_is_found(work: Path, command: str) -> None:
    (work / "AGENTS.md").touch()
    (work / "g-link").symlink_to(".git")
    assert list(protected_in_command(command, work))


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "rm *.txt", "rm -r build/*", "cat .git/config", "ls -a .git | head", "rm $X", "rm $X/$Y",
        "rm '.g*t'", "echo git > x", "grep -r x .git", "cp a b; for x in *.txt; do mv $x $x.bak; done",
        "rm '*/config'", "echo $((a + 1))", "rm /*/*/*/*/*/x",
        'for f in a b; do echo "== $f =="; touch x; done', 'echo "Done: $f."; touch x',
        'echo "## $n/$m"; touch x',
    ],
)  # fmt: skip
def test_a_command_line_that_changes_none_is_not(work: Path, command: str) -> None:
    assert not list(protected_in_command(command, work))


def test_paths_count_from_where_the_line_begins(tmp_path: Path) -> None:
    (tmp_path / ".husky").mkdir()
    assert list(protected_in_command("rm x", tmp_path, cwd=".husky"))
    found = {each.place for each in protected_in_command("rm x", tmp_path, (), tmp_path / ".husky")}
    assert tmp_path / ".husky/x" in found
