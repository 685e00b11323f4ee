"""A skill that was written for another client: the receipt says what its tools are here."""

from pathlib import Path

from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent


def receipt(make_agent: MakeAgent, exclude: tuple[str, ...] = ()) -> str:
    agent = make_agent([calls(call("load_skill", name="alpha")), "done"], exclude_tools=exclude)
    agent.say("go")
    return agent.tool_messages("load_skill")[0].text


def test_the_receipt_says_what_the_tools_are_here(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Alpha.", "Use the Edit tool. Ask with AskUserQuestion; then WebSearch.")
    expected = "Tools of other clients, here: Edit: write_file or edit_file; AskUserQuestion: ask_user; "
    assert f"{expected}WebSearch: not here." in receipt(make_agent)
    assert "Edit: not here" in receipt(make_agent, exclude=("write_file",))
