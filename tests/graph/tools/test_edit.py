"""What would change in a file, as a person reads it, and exact replacements: nothing is done by halves."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import ToolException

from skills_agent.graph.tools.change import MAX_COMPARED, change_of, changes_in, edit_of
from skills_agent.graph.tools.edit import EditArguments, Edited, Replacement
from skills_agent.graph.tools.workspace import Workspace


def edit(old: str, new: str, *, everywhere: bool = False) -> Replacement:
    return Replacement(old_string=old, new_string=new, replace_all=everywhere)


@pytest.mark.parametrize(
    ("raw", "edits", "text"),
    [
        pytest.param(b"a\nb\n", [edit("a", "b\nc"), edit("c\nb", "d")], "b\nd\n", id="in what is left"),
        pytest.param(b"a b a", [edit("a", "aa", everywhere=True)], "aa b aa", id="everywhere"),
        pytest.param(b"\xef\xbb\xbfa\r\nb\r\n", [edit("a\nb", "c\nd")], "\ufeffc\r\nd\r\n", id="CRLF"),
        pytest.param(b"a\r\nb\nc", [edit("b\nc", "d\ne")], "a\r\nd\ne", id="both line ends"),
    ],
)
def test_edits_are_made_in_order_with_the_line_ends_of_the_file(
    raw: bytes, edits: list[Replacement], text: str
) -> None:
    assert Edited.of(raw, edits, "x").text == text


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ([edit("", "x")], "old_string is empty. write_file makes a file"),
        ([edit("a", "a")], "are the same"),
        ([edit("A", "b")], '"A" is not in the file. Read it: blanks and line breaks count.'),
        ([edit("a", "b")], '"a" is in it 2 times. Give more of the text around it, or set replace_all.'),
        ([edit("a b", "c"), edit("a b", "d")], "Edit 2 of 2 of notes.md does not fit"),
    ],
)
def test_an_edit_that_does_not_fit_says_why_and_changes_nothing(edits: list[Replacement], words: str) -> None:
    with pytest.raises(ToolException) as told:
        Edited.of(b"a b\na\n", edits, "notes.md")
    assert words in str(told.value)
    assert str(told.value).endswith("Nothing was changed.")
    with pytest.raises(ToolException, match="not UTF-8"):
        Edited.of(b"caf\xe9", edits, "notes.md")


@given(st.text(min_size=1), st.text(), st.text())
def test_what_is_replaced_is_the_text_and_no_other(old: str, before: str, after: str) -> None:
    text = f"{before}{old}{after}"
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return
    if text.count(old) == 1 and "\r" not in text:
        assert Edited.of(raw, [edit(old, f"{old}!")], "x").text == f"{before}{old}!{after}"


def test_of_a_large_file_a_person_sees_the_edits(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * MAX_COMPARED + "yz")
    change = edit_of(Workspace(tmp_path), "a", [edit("yz", "one\ntwo")])
    assert (change.text, change.is_diff) == ("-yz\n+one\n+two", True)
    assert change.summary == "1 replacement, +2 -1 lines"


def test_edits_are_read_in_the_forms_that_models_send_and_no_others(tmp_path: Path) -> None:
    one = {"old_string": "a", "new_string": "b"}
    for sent in ([one], one, json.dumps([one])):
        assert EditArguments.model_validate({"path": "x", "edits": sent}).edits == [edit("a", "b")]
    for args in ({}, {"path": "x"}, {"path": "x", "edits": "no"}, {"path": "x", "edits": []}):
        assert changes_in(Workspace(tmp_path))["edit_file"](args) is None


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
