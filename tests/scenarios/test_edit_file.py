"""edit_file: a person approves a diff, and just that is done."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skills_agent.graph.tools.edit import Replacement
from skills_agent.graph.tools.files import FileTools
from skills_agent.graph.tools.workspace import Workspace
from tests.agents import FREE, call, calls
from tests.kit import MakeAgent

EDIT = calls(call("edit_file", path="notes.md", edits=[{"old_string": "two", "new_string": "2"}]))


@pytest.mark.parametrize(
    ("meanwhile", "left", "told"),
    [
        ("one\ntwo\n", "one\n2\n", "Edited notes.md: 1 replacement, +1 -1 lines."),
        ("zero\ntwo\n", "zero\ntwo\n", "changed after a person was asked"),
    ],
)
def test_an_edit_is_shown_as_a_diff_and_holds_for_the_file_that_was_shown(
    make_agent: MakeAgent, workspace: Path, meanwhile: str, left: str, told: str
) -> None:
    (workspace / "notes.md").write_text("one\ntwo\n")
    agent = make_agent([EDIT, "done"])
    agent.say("go")
    assert "`notes.md` (1 replacement, +1 -1 lines):" in agent.question
    assert "-two\n+2" in agent.question
    (workspace / "notes.md").write_text(meanwhile)
    agent.answer({"type": "approve"})
    assert (workspace / "notes.md").read_text() == left
    assert told in agent.tool_messages("edit_file")[0].text


def test_nobody_is_asked_about_an_edit_that_does_not_fit(make_agent: MakeAgent, workspace: Path) -> None:
    (workspace / "notes.md").write_text("one\n")
    agent = make_agent([EDIT, "done"])
    agent.say("go")
    assert not agent.state.interrupts
    assert "does not fit" in agent.tool_messages("edit_file")[0].text


@pytest.mark.parametrize("entry", ["write_file", "Write", "Edit", "edit_file"])
def test_who_may_not_write_may_not_edit(make_agent: MakeAgent, workspace: Path, entry: str) -> None:
    """An operator who excluded write_file before there was edit_file excludes both."""
    (workspace / "notes.md").write_text("two\n")
    make_agent([EDIT, "done"], exclude_tools=(entry,), **FREE).say("go")
    assert (workspace / "notes.md").read_text() == "two\n"


def test_two_edits_of_one_file_at_once_are_both_made(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"<{number}>\n" for number in range(40)))
    files = FileTools(Workspace(tmp_path))

    def edit(number: int) -> str:
        return files.edit_file("a", [Replacement(old_string=f"<{number}>", new_string=f"[{number}]")])

    with ThreadPoolExecutor(8) as pool:
        assert all(told.startswith("Edited") for told in pool.map(edit, range(40)))
    assert (tmp_path / "a").read_text() == "".join(f"[{number}]\n" for number in range(40))
