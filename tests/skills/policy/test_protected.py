"""Protected paths: every spelling of them counts, and nothing else does."""

from pathlib import Path

import pytest

from skills_agent.skills.policy.protected import (
    PROTECTED,
    protected_by,
    protected_in,
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
        (".envrc", ".envrc"), ("sub/.vscode/tasks.json", ".vscode"), ("x.code-workspace", "*.code-workspace"),
        (".GitHub/workflows/ci.yml", ".github"), (".agent/skills/x/SKILL.md", ".agent"),
        (".pre-commit-config.yaml", ".pre-commit-config.y*ml"), ("claude.md", "CLAUDE.md"),
        (".bashrc", ".bashrc"), ("sub/.env", ".env"), ("langgraph.json", "langgraph*.json"),
        ("langgraph.server.json", "langgraph*.json"), (".langgraph_api/store.pckl", ".langgraph_api"),
        ("src/a.py", None), (".gitignore", None), ("git/x", None), ("README.md", None), ("...", None),
        (".env.x", None), (".agent/work/t/out.csv", None), ("", None), ("a.git", None),
    ],
)  # fmt: skip
def test_what_other_programs_obey_is_protected_and_nothing_else(path: str, entry: str | None) -> None:
    assert protected_by(path) == entry


def test_every_entry_protects_itself_and_more_may_be_folders_and_patterns() -> None:
    assert all(protected_by(entry.replace("*", "x")) for entry in PROTECTED)
    assert protected_by("a/Deploy/Keys/x", ("deploy/keys",)) == "deploy/keys"
    assert protected_by("a/deploy/x", ("deploy/keys",)) is None
    assert protected_by("a/b.service", ("*.service",)) == "*.service"


def test_a_link_that_leads_there_counts_and_folders_above_the_workspace_do_not(tmp_path: Path) -> None:
    workspace = tmp_path / ".config" / "project"
    (workspace / ".git").mkdir(parents=True)
    (workspace / "docs").symlink_to(".git")
    (workspace / "out").symlink_to(workspace / ".git/config")
    for path in ("docs/config", "out", str(workspace / "docs/config")):
        found = protected_path(path, workspace)
        assert found
        assert (found.entry, found.place) == (".git", None)
    assert protected_path(str(workspace / "x.txt"), workspace) is None
    assert protected_path("../.bashrc", workspace)


@pytest.mark.parametrize(
    "word", [".husky/x", "--out=.husky/x", "-o.husky/x", "x:.husky/x", "open('.husky/x', 'w')"]
)
def test_a_path_inside_of_an_argument_is_found(tmp_path: Path, word: str) -> None:
    (found, *_) = protected_in(["first", word], tmp_path)
    assert found.place in {tmp_path / ".husky/x", None}
    assert tmp_path / ".husky/x" in {each.place for each in protected_in([word], tmp_path)}
