"""edit_file: a person approves a diff, and just that is done."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skills_agent.graph.tools.edit import Replacement
from skills_agent.graph.tools.files import FileTools
from skills_agent.graph.tools.workspace import Workspace
from tests.agents import Agent, call, calls
from tests.kit import MakeAgent

APPROVED = {"type": "approve"}
EDIT = {"old_string": "two", "new_string": "2"}


def told(agent: Agent) -> str:
    (message,) = agent.tool_messages("edit_file")
    return message.text


def test_an_edit_is_shown_as_a_diff_and_done_after_the_approval(
    make_agent: MakeAgent, workspace: Path
) -> None:
    (workspace / "notes.md").write_text("one\ntwo\n")
    agent = make_agent([calls(call("edit_file", path="notes.md", edits=[EDIT])), "done"])
    agent.say("go")
    (request,) = agent.asked
    assert "`notes.md` (1 replacement, +1 -1 lines):" in request["description"]
    assert "-two\n+2" in request["description"]

    agent.answer(APPROVED)
    assert (workspace / "notes.md").read_text() == "one\n2\n"
    assert told(agent) == "Edited notes.md: 1 replacement, +1 -1 lines."


def test_nobody_is_asked_about_an_edit_that_does_not_fit(make_agent: MakeAgent, workspace: Path) -> None:
    (workspace / "notes.md").write_text("one\n")
    agent = make_agent([calls(call("edit_file", path="notes.md", edits=[EDIT])), "done"])
    agent.say("go")
    assert not agent.state.interrupts
    assert "does not fit" in told(agent)


def test_an_edit_holds_for_the_file_that_was_shown(make_agent: MakeAgent, workspace: Path) -> None:
    (workspace / "notes.md").write_text("one\ntwo\n")
    agent = make_agent([calls(call("edit_file", path="notes.md", edits=[EDIT])), "done"])
    agent.say("go")
    (workspace / "notes.md").write_text("zero\ntwo\n")
    agent.answer(APPROVED)
    assert (workspace / "notes.md").read_text() == "zero\ntwo\n"
    assert "changed after a person was asked" in told(agent)


@pytest.mark.parametrize("entry", ["write_file", "Write", "Edit", "edit_file"])
def test_who_may_not_write_may_not_edit(make_agent: MakeAgent, workspace: Path, entry: str) -> None:
    """An operator who excluded write_file before there was edit_file excludes both."""
    (workspace / "notes.md").write_text("two\n")
    edit = call("edit_file", path="notes.md", edits=[EDIT])
    agent = make_agent([calls(edit), "done"], exclude_tools=(entry,), require_approval_for=())
    agent.say("go")
    assert (workspace / "notes.md").read_text() == "two\n"


def test_two_edits_of_one_file_at_once_are_both_made(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"<{number}>\n" for number in range(40)))
    files = FileTools(Workspace(tmp_path))

    def edit(number: int) -> str:
        change = Replacement(old_string=f"<{number}>", new_string=f"[{number}]")
        return files.edit_file("a", [change])

    with ThreadPoolExecutor(8) as pool:
        assert all(told.startswith("Edited") for told in pool.map(edit, range(40)))
    assert (tmp_path / "a").read_text() == "".join(f"[{number}]\n" for number in range(40))
