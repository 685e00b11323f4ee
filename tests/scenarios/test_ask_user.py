"""ask_user: the agent asks, the thread waits, and the model reads what the person said."""

from typing import Any

import pytest
from langgraph.types import Command

from tests.agents import Agent, assert_asked_again, call, calls
from tests.kit import MakeAgent

ASK = call("ask_user", question="Which **file**?", choices=["orders.csv", "other.csv"])


def respond(message: str) -> dict[str, Any]:
    return {"type": "respond", "message": message}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def asked(make_agent: MakeAgent, wanted: dict[str, Any] = ASK, **settings: Any) -> Agent:
    agent = make_agent([calls(wanted), "done"], **settings)
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
    ("answer", "words"),
    [
        ({"decisions": [respond("both")]}, "The person answered: both"),
        ({"decisions": [respond("2")]}, "The person answered: other.csv"),
        ({"decisions": [respond("3")]}, "The person answered: 3"),
        ({"decisions": [edit("ask_user", **ASK["args"], answer="1")]}, "The person answered: orders.csv"),
        ({"decisions": [{"type": "reject"}]}, "The person did not answer. Go on without it, or"),
        ({"decisions": [{"type": "reject", "message": "no"}]},
         'The person did not answer, and said: "no". Go on without'),
        ([{"type": "response", "args": "both"}], "The person answered: both"),  # Agent Inbox
        (" both", "The person answered: both"),  # as a person types in Studio
    ],
)  # fmt: skip
def test_the_model_reads_what_the_person_said(make_agent: MakeAgent, answer: Any, words: str) -> None:
    agent = asked(make_agent)
    assert agent.run(Command(resume=answer))["answer"] == "done"
    assert told(agent).startswith(words)


@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": [{"type": "approve"}]},
        {"decisions": [respond(" ")]},
        {"decisions": [edit("ask_user", **ASK["args"])]},
        {"decisions": [edit("write_file", answer="x")]},
        [{"type": "accept", "args": None}],  # Agent Inbox
    ],
)
def test_what_is_no_answer_leaves_the_question_open(make_agent: MakeAgent, answer: Any) -> None:
    agent = asked(make_agent)
    agent.run(Command(resume=answer))
    assert_asked_again(agent)
    agent.answer(respond("both"))
    assert told(agent) == "The person answered: both"


def test_the_model_cannot_answer_itself(make_agent: MakeAgent) -> None:
    agent = asked(make_agent, call("ask_user", question="May I?", choices=[], answer="yes"))
    assert agent.asked[0]["args"] == {"question": "May I?", "choices": [], "answer": ""}


@pytest.mark.parametrize("approval", ["deny", "fail"])
def test_where_nobody_is_asked_there_is_no_such_tool(make_agent: MakeAgent, approval: str) -> None:
    assert told(asked(make_agent, approval=approval)).startswith("There is no tool 'ask_user'.")


@pytest.mark.parametrize(
    "args", [{"question": " "}, {"question": "x" * 5_000}, {"question": "a", "choices": [""]}]
)
def test_a_question_that_says_nothing_or_too_much_is_not_asked(make_agent: MakeAgent, args: Any) -> None:
    agent = asked(make_agent, call("ask_user", **args))
    assert not agent.state.interrupts
    assert "not valid" in told(agent)
