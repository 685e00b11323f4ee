"""Protected paths: every spelling of them counts, and nothing else does."""

from pathlib import Path

import pytest

from skills_agent.skills.policy.protected import (
    PROTECTED,
    protected_by,
    protected_in,
    protected_in_command,
    protected_path,
)


@pytest.mark.parametrize(
    "path",
    [
        ".git", ".git/config", "./.git//hooks/x", "a/../.git", "deep/down/.git/x", ".GIT/config", ".git.",
        ".git. ./x", ".git::$INDEX_ALLOCATION", "git~1/config", ".g\u200cit/config", ".\uff47it", "a/.git",
        "../.git", "/elsewhere/.git/x", ".agent/work/thread/.git",
    ],
)  # fmt: skip
def test_every_spelling_of_git_is_protected(path: str) -> None:
    assert protected_by(path) == ".git"


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        (".envrc", ".envrc"),
        ("sub/.vscode/tasks.json", ".vscode"),
        ("x.code-workspace", "*.code-workspace"),
        (".GitHub/workflows/ci.yml", ".github"),
        (".agent/skills/x/SKILL.md", ".agent"),
        (".pre-commit-config.yaml", ".pre-commit-config.y*ml"),
        ("claude.md", "CLAUDE.md"),
        (".bashrc", ".bashrc"),
        ("sub/.env", ".env"),
        ("langgraph.json", "langgraph*.json"),
        ("langgraph.server.json", "langgraph*.json"),
        (".langgraph_api/store.pckl", ".langgraph_api"),
    ],
)
def test_what_other_programs_obey_is_protected(path: str, entry: str) -> None:
    assert protected_by(path) == entry


@pytest.mark.parametrize(
    "path",
    ["src/a.py", ".gitignore", "git/x", "README.md", "...", ".env.x", ".agent/work/t/out.csv", "", "a.git"],
)
def test_nothing_else_is(path: str) -> None:
    assert protected_by(path) is None


def test_every_entry_of_the_list_protects_itself() -> None:
    for entry in PROTECTED:
        assert protected_by(entry.replace("*", "x")) is not None


def test_more_entries_may_be_folders_and_patterns() -> None:
    assert protected_by("a/Deploy/Keys/x", ("deploy/keys",)) == "deploy/keys"
    assert protected_by("a/deploy/x", ("deploy/keys",)) is None
    assert protected_by("a/b.service", ("*.service",)) == "*.service"


def test_a_link_that_leads_there_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "docs").symlink_to(".git")
    (tmp_path / "out").symlink_to(tmp_path / ".git/config")
    for path in ("docs/config", "out", str(tmp_path / "docs/config")):
        found = protected_path(path, tmp_path)
        assert found
        assert (found.entry, found.place) == (".git", None)


def test_folders_above_the_workspace_do_not_count(tmp_path: Path) -> None:
    workspace = tmp_path / ".config" / "project"
    workspace.mkdir(parents=True)
    assert protected_path(str(workspace / "x.txt"), workspace) is None
    assert protected_path("../.bashrc", workspace)


@pytest.mark.parametrize(
    "word", [".husky/x", "--out=.husky/x", "-o.husky/x", "x:.husky/x", "open('.husky/x', 'w')"]
)
def test_a_path_inside_of_an_argument_is_found(tmp_path: Path, word: str) -> None:
    (found, *_) = protected_in(["first", word], tmp_path)
    assert found.place in {tmp_path / ".husky/x", None}
    assert tmp_path / ".husky/x" in {each.place for each in protected_in([word], tmp_path)}


@pytest.mark.parametrize(
    "command",
    [
        "rm .git/config", "rm .g''it/config", 'rm ".git"/config', "rm .g\\it/config", "rm $'.\\x67it/config'",
        "echo x > .git/config", "echo x >> .envrc", "echo x >.envrc", "2>.envrc ls", "X=.git; rm $X/config",
        "cd .git && rm config", "cd .git; ls | tee config", "cd sub && rm ../.git/config",
        "rm $X/.git/config",
        "rm .g*t/config", "rm .g?t/config", "rm .gi[t]/config", "rm .{git,x}/config",
        "rm .g$X/config", "rm */config",
        "rm g*/config", "rm A*.md", "tee $(echo .git/x)", "bash -c 'rm .git/config'",
        "find . -exec tee .envrc {} +",
        "sh <<'E'\nrm .git/config\nE", "python3 <<E\nopen('.git/config', 'w')\nE",
        "rm .g\"i\"t/config \"unclosed",
        "eval rm .g*t", "dd of=.git/config", "tar -C.git -xf x", "ls; cat .envrc > x",
    ],
)  # fmt: skip
def test_a_command_line_that_may_change_a_protected_path_is_found(tmp_path: Path, command: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("")
    (tmp_path / "AGENTS.md").write_text("")
    (tmp_path / "g-link").symlink_to(".git")
    assert list(protected_in_command(command, tmp_path))


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "rm *.txt", "rm -r build/*", "cat .git/config", "ls -a .git | head", "rm $X",
        "rm $X/$Y", "rm '.g*t'",
        "echo git > x", "grep -r x .git", "cp a b; for x in *.txt; do mv $x $x.bak; done", "rm '*/config'",
        "echo $((a + 1))",
        'for f in a b; do echo "== $f =="; touch x; done', 'echo "Done: $f."; touch x',
        'echo "## $n/$m"; touch x',
    ],
)  # fmt: skip
def test_a_command_line_that_changes_none_is_not(tmp_path: Path, command: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("")
    (tmp_path / "a.txt").write_text("")
    assert not list(protected_in_command(command, tmp_path))


def test_paths_count_from_where_the_line_begins(tmp_path: Path) -> None:
    (tmp_path / ".husky").mkdir()
    assert list(protected_in_command("rm x", tmp_path, cwd=".husky"))
    found = {each.place for each in protected_in_command("rm x", tmp_path, (), tmp_path / ".husky")}
    assert tmp_path / ".husky/x" in found


def test_a_wildcard_over_many_folders_is_judged_by_its_names_alone(tmp_path: Path) -> None:
    assert list(protected_in_command("rm /*/*/*/A*.md", tmp_path))
    assert not list(protected_in_command("rm /*/*/*/*/*/x", tmp_path))
