"""Names of other clients' tools: found where they are names, and said once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.policy.other_clients import names_here, names_used
from skills_agent.skills.policy.tool_spec import TOOL_SPECS

OFFERED = {"run_command", "run_script", "read_file", "edit_file", "write_file", "ask_user", "update_plan"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Use the Read tool, then `Edit` and Bash(git log).", ["Read", "Edit", "Bash"]),
        ("Read the file. Write tests. Task 1: edit it.", []),
        ("Keep a TodoWrite list; ask with AskUserQuestion.", ["TodoWrite", "AskUserQuestion"]),
        ("Call mcp__sentry__find and mcp__sentry__get.", ["mcp__sentry__find", "mcp__sentry__get"]),
        ("`Bash(git diff:*)` and `Bash`", ["Bash"]),
    ],
)
def test_names_are_found_where_they_are_no_plain_words(text: str, names: list[str]) -> None:
    assert names_used(text) == names


def test_each_is_said_once_and_what_is_offered_is_not_said() -> None:
    names = ["Bash", "WebSearch", "mcp__a__x", "mcp__a__y", "read_file", "Task", "BashOutput"]
    assert names_here(names, TOOL_SPECS.values(), OFFERED) == (
        "Bash: run_script or run_command; WebSearch: not here; mcp__a__*: not here; "
        "Task: do that part yourself; BashOutput: not here"
    )


def test_a_tool_that_is_left_out_is_not_named() -> None:
    assert names_here(["Bash"], TOOL_SPECS.values(), {"read_file"}) == "Bash: not here"


@given(st.text() | st.text("`(ReadBash mcp_x)"))
def test_any_text_can_be_looked_through(text: str) -> None:
    assert all(name in text for name in names_used(text))
