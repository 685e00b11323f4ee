"""What a person reads about a call is what runs: attacks on the text of a question."""

import re
from functools import partial
from pathlib import Path

import pytest

from skills_agent.nodes.interrupts import Approve, Reject, answers
from skills_agent.skills.policy.approval_text import MAX_SHOWN
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_shell


def test_a_question_writes_nothing_out_of_what_other_threads_change() -> None:
    """Pydantic writes a `partial` out for an error that nobody reads; the state changed meanwhile."""

    class NotWritten:
        def __repr__(self) -> str:
            raise RuntimeError("dictionary changed size during iteration")

    check = partial(lambda _, decisions: decisions, NotWritten())
    assert answers(Approve | Reject, 1, check)(decisions=[{"type": "reject"}]).decisions[0].message == ""


def asked(agent: Agent) -> str:
    agent.say("go")
    return agent.question


def test_the_warning_stands_first_and_the_diff_follows(make_agent: MakeAgent, workspace: Path) -> None:
    """The description was "write_file changes files. Risk: write.", without a path."""
    (workspace / "notes.md").write_text("one\ntwo\nthree\n")
    write = call("write_file", path="nоtes/../notes.md", content="one\n2\nthree\n")
    question = asked(make_agent([calls(write), "done"]))
    assert question.startswith("- **Warning:** Mixed scripts: ")
    assert "`nоtes/../notes.md` (replaces 3 lines with 3 lines):" in question
    assert "```diff\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n```" in question
    assert question.endswith("write_file changes files. Risk: write.")


def test_a_script_is_shown_with_its_words_quoted(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Alpha.", scripts__run_py="print(1)\n")
    run = call(
        "run_script", skill="alpha", path="scripts/run.py", args=["a b", "$(id)", "x`y"], stdin="1\n2\n"
    )
    agent = make_agent([calls(call("load_skill", name="alpha")), calls(run), "done"], sandbox="off")
    question = asked(agent)
    assert "A script of the skill `alpha`:\n\n```sh\nscripts/run.py 'a b' '$(id)' 'x`y'\n```" in question
    assert "`stdin`:\n\n```\n1\n2\n```" in question
    assert "There is no sandbox" in question
    (verdict,) = agent.values["verdicts"].values()
    assert (verdict["facts"]["isolation"], verdict["facts"]["risk"]) == ("controlled", "run")
    assert verdict["facts"]["to_trust"][0].startswith("skills-agent trust ")


@pytest.mark.parametrize("text", ["```\n![x](http://evil)\n", "`" * 900, "<img src=x>", "[a](javascript:b)"])
def test_a_host_tools_words_and_arguments_stay_in_their_place(make_agent: MakeAgent, text: str) -> None:
    question = asked(make_agent([calls(call("write_file", path=text, content=text)), "done"]))
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?\n\1$", "", question)
    outside = re.sub(r"(?s)(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert not re.search(r"!\[|<img|\]\(|http", outside)


def test_what_was_not_shown_whole_is_not_approved(make_agent: MakeAgent, workspace: Path) -> None:
    long = "x" * (MAX_SHOWN + 10_000)
    writes = [call("write_file", path="long.txt", content=long)]
    agent = make_agent([calls(*writes), "done"])
    (question,) = agent.say("go")["__interrupt__"]
    assert question.value["review_configs"][0]["allowed_decisions"] == ["edit", "reject"]
    assert "it cannot be approved" in question.value["action_requests"][0]["description"]
    for answer in ({"type": "approve"}, {"type": "approve", "grant": {"scope": "thread"}}):
        (again,) = agent.answer(answer)["__interrupt__"]
        assert "was not shown whole" in again.value["answer_refused"]
    assert not (workspace / "long.txt").exists()
    agent.answer({"type": "reject"})
    assert agent.values["answer"] == "done"


LARGE = "x" * 2_500_000


@pytest.mark.parametrize(
    ("before", "says", "after"),
    [
        ("one\n", "-one\n+two", "precious\n"),
        (LARGE, "too large to compare", LARGE[:-1] + "y"),  # behind what is compared
        (None, "new file, 1 line", "precious\n"),
    ],
)
def test_a_file_that_changed_after_the_question_is_not_overwritten(
    make_agent: MakeAgent, workspace: Path, before: str | None, says: str, after: str
) -> None:
    """The person saw a diff against another file than that which the approval would replace."""
    notes = workspace / "notes.md"
    if before is not None:
        notes.write_text(before)
    agent = make_agent([calls(call("write_file", path="notes.md", content="two\n")), "done"])
    assert says in asked(agent)
    notes.write_text(after)
    agent.answer({"type": "approve"})
    assert notes.read_text() == after
    (verdict,) = agent.values["verdicts"].values()
    assert verdict["facts"] == {"file_changed": "notes.md"}


@needs_shell
def test_nobody_is_asked_about_a_skill_not_loaded(make_agent: MakeAgent, skills_dir: Path) -> None:
    """A person was asked to approve a script of a skill that there was not, and approving it ran nothing."""
    write_skill(skills_dir, "beta", "Counts pears.", scripts__x_py="print(1)")
    wanted = [
        call("run_script", skill="beta", path="scripts/x.py"),
        call("run_command", command="ls", skill="beta"),
    ]
    agent = make_agent([calls(*wanted), "done"], enable_run_command="on")
    agent.say("go")
    assert not agent.state.interrupts
    told = [each.text for each in agent.transcript if each.type == "tool"]
    assert told == ["Skill beta is not loaded. Call load_skill with name beta first."] * 2
