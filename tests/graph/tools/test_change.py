"""What a person reads of a file that would be written, held against what is then written."""

import os
from pathlib import Path

import pytest

from skills_agent.graph.tools.change import MAX_COMPARED, change_of
from skills_agent.graph.tools.workspace import Workspace


def test_a_file_that_is_there_is_compared(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("".join(f"{number}\n" for number in range(214)))
    change = change_of(Workspace(tmp_path), "a.md", "one\n")
    assert change.summary == "replaces 214 lines with 1 line"
    assert change.is_diff
    assert change_of(Workspace(tmp_path), "a.md", (tmp_path / "a.md").read_text()).summary.startswith(
        "changes nothing"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a\0b", "a file of 3 bytes, which is no text"),
        (b"caf\xe9", "a file of 4 bytes, which is no text"),
        (b"x" * (MAX_COMPARED + 1), "2,000,001 bytes, too large to compare"),
    ],
)
def test_what_cannot_be_compared_is_said(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a").write_bytes(content)
    change = change_of(Workspace(tmp_path), "a", "one\n")
    assert words in change.summary
    assert not change.is_diff
    assert change.text == "one\n"


def test_nothing_outside_of_the_workspace_is_shown(tmp_path: Path) -> None:
    """A link out, a second name of a file outside, and the agent's own folder stay closed to a diff, too."""
    outside, inside = tmp_path / "secret", tmp_path / "workspace"
    outside.write_text("PRIVATE\n")
    (inside / ".agent").mkdir(parents=True)
    (inside / ".agent" / "config.json").write_text("PRIVATE\n")
    (inside / "link").symlink_to(outside)
    os.link(outside, inside / "hard")
    for path in ("link", "hard", "../secret", str(outside), ".agent/config.json", "\ud800"):
        change = change_of(Workspace(inside), path, "one\n")
        assert "cannot be compared" in change.summary
        assert "PRIVATE" not in change.text


def test_a_link_inside_is_named_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / ".envrc").write_text("old\n")
    (tmp_path / "notes").symlink_to(".envrc")
    change = change_of(Workspace(tmp_path), "notes", "new\n")
    assert change.path == ".envrc"
    assert change.text == "@@ -1 +1 @@\n-old\n+new\n"
