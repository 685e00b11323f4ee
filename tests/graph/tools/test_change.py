"""What a person reads of a file that would be written, held against what is then written."""

import os
from pathlib import Path

import pytest

from skills_agent.graph.tools.change import MAX_COMPARED, change_of
from skills_agent.graph.tools.workspace import Workspace


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0\n" * 214, "replaces 214 lines with 1 line"),
        (b"one\n", "changes nothing"),
        (b"a\0b", "a file of 3 bytes, which is no text"),
        (b"caf\xe9", "a file of 4 bytes, which is no text"),
        (b"x" * (MAX_COMPARED + 1), "2,000,001 bytes, too large to compare"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_there_is_compared_or_said(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a").write_bytes(content)
    change = change_of(Workspace(tmp_path), "a", "one\n")
    assert words in change.summary
    assert change.is_diff == words.endswith("1 line")
    assert change.text == "one\n" or change.is_diff or words == "changes nothing"


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
    assert (change.path, change.text) == (".envrc", "@@ -1 +1 @@\n-old\n+new\n")
