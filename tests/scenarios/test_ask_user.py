"""ask_user: the agent asks, the thread waits, and the model reads what the person said."""

from typing import Any

import pytest
from langgraph.types import Command

from tests.agents import Agent, assert_asked_again, call, calls
from tests.kit import MakeAgent

ASK = call("ask_user", question="Which **file**?", choices=["orders.csv", "other.csv"])


def asked(make_agent: MakeAgent, **settings: Any) -> Agent:
    agent = make_agent([calls(ASK), "done"], **settings)
    agent.say("go")
    return agent


def told(agent: Agent) -> str:
    (message,) = agent.tool_messages("ask_user")
    return message.text


def test_the_question_has_its_choices_and_takes_words(make_agent: MakeAgent) -> None:
    (interrupt,) = asked(make_agent).state.interrupts
    (request,) = interrupt.value["action_requests"]
    assert request["description"] == "Which \\*\\*file\\*\\*?\n\n1. orders.csv\n2. other.csv"
    assert request["args"]["answer"] == ""
    assert interrupt.value["review_configs"] == [
        {"action_name": "ask_user", "allowed_decisions": ["respond", "edit", "reject"]}
    ]


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ({"type": "respond", "message": "both"}, "The person answered: both"),
        ({"type": "respond", "message": "2"}, "The person answered: other.csv"),
        ({"type": "respond", "message": "3"}, "The person answered: 3"),
        (
            {"type": "edit", "edited_action": {"name": "ask_user", "args": {**ASK["args"], "answer": "1"}}},
            "The person answered: orders.csv",
        ),
        ({"type": "reject"}, "The person did not answer. Go on without it, or end your turn."),
        ({"type": "reject", "message": "no"}, 'The person did not answer, and said: "no". Go on without'),
    ],
)
def test_the_model_reads_what_the_person_said(
    make_agent: MakeAgent, decision: dict[str, Any], words: str
) -> None:
    agent = asked(make_agent)
    assert agent.answer(decision)["answer"] == "done"
    assert told(agent).startswith(words)


@pytest.mark.parametrize(
    "decision",
    [
        {"type": "approve"},
        {"type": "respond", "message": " "},
        {"type": "edit", "edited_action": {"name": "ask_user", "args": ASK["args"]}},
        {"type": "edit", "edited_action": {"name": "write_file", "args": {"answer": "x"}}},
    ],
)
def test_what_is_no_answer_leaves_the_question_open(make_agent: MakeAgent, decision: dict[str, Any]) -> None:
    agent = asked(make_agent)
    agent.answer(decision)
    assert_asked_again(agent)
    agent.answer({"type": "respond", "message": "both"})
    assert told(agent) == "The person answered: both"


def test_agent_inbox_answers(make_agent: MakeAgent) -> None:
    agent = asked(make_agent)
    agent.run(Command(resume=[{"type": "accept", "args": None}]))
    assert_asked_again(agent)
    agent.run(Command(resume=[{"type": "response", "args": "both"}]))
    assert told(agent) == "The person answered: both"
    in_words = asked(make_agent)
    in_words.run(Command(resume=" both"))  # as a person types in Studio
    assert told(in_words) == "The person answered: both"


def test_the_model_cannot_answer_itself(make_agent: MakeAgent) -> None:
    """An argument that the model makes up is no word of a person."""
    agent = make_agent([calls(call("ask_user", question="May I?", choices=[], answer="yes")), "done"])
    agent.say("go")
    assert agent.asked[0]["args"] == {
        "question": "May I?",
        "choices": [],
        "answer": "",
    }


@pytest.mark.parametrize("approval", ["deny", "fail"])
def test_where_nobody_is_asked_there_is_no_such_tool(make_agent: MakeAgent, approval: str) -> None:
    agent = asked(make_agent, approval=approval)
    assert told(agent).startswith("There is no tool 'ask_user'.")


@pytest.mark.parametrize(
    "args", [{"question": " "}, {"question": "x" * 5_000}, {"question": "a", "choices": [""]}]
)
def test_a_question_that_says_nothing_or_too_much_is_not_asked(
    make_agent: MakeAgent, args: dict[str, Any]
) -> None:
    agent = make_agent([calls(call("ask_user", **args)), "done"])
    agent.say("go")
    assert not agent.state.interrupts
    assert "not valid" in told(agent)
