"""`build_graph(response_format=...)`: the answer of a turn in a form of the host."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from skills_agent.nodes.model_errors import ModelError
from tests.agents import FREE, Agent, call, calls
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion
from tests.strict_providers import PROVIDERS, strict_server


class Region(BaseModel):
    """A part of the market."""

    name: str


class Report(BaseModel):
    """What was sold."""

    total: int = Field(ge=0)
    regions: list[Region] = []


@dataclass
class Price:
    """What something costs."""

    cents: int


class Place(TypedDict):
    """Where something is."""

    city: str


CITY = {"title": "Town", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GIVEN = calls(call("Report", total=3, regions=[{"name": "north"}]))
PLAIN = {"total": 3, "regions": [{"name": "north"}]}
REPORT = Report.model_validate(PLAIN)


@pytest.fixture
def make(make_agent: MakeAgent) -> Callable[..., Agent]:
    """Return what makes an agent whose answer has a form."""
    return lambda replies, form=Report, **more: make_agent(replies, parts={"response_format": form}, **more)


def asked(text: str = "What was sold?", **message: Any) -> Any:
    return {"messages": [{"role": "user", "content": text, **message}]}


def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


def told(result: Any) -> list[str]:
    return [str(each.text) for each in result["messages"] if isinstance(each, ToolMessage)]


async def test_the_answer_is_an_object_of_the_hosts_class_on_every_path(make: Any) -> None:
    agent = make([GIVEN])
    result = agent.run(asked())
    assert result["structured_response"] == REPORT == Report.model_validate_json(result["answer"])
    assert result["usage"]["this_turn"]["model_calls"] == 1
    assert (await make([GIVEN]).graph.ainvoke(asked(), agent.config))["structured_response"] == REPORT
    updates = [*make([GIVEN]).graph.stream(asked(), agent.config, stream_mode="updates")]
    assert updates[-1]["answer"]["structured_response"] == PLAIN
    parts = [part async for part in make([GIVEN]).graph.astream(asked(), agent.config, stream_mode="values")]
    assert parts[-1]["structured_response"] == REPORT


@pytest.mark.parametrize(
    ("form", "reply", "expected"),
    [
        (Price, calls(call("Price", cents=5)), Price(5)),
        (Place, calls(call("Place", city="Ulm")), {"city": "Ulm"}),
        (CITY, calls(call("Town", city="Ulm")), {"city": "Ulm"}),
        (Price | Place, calls(call("Place", city="Ulm")), {"city": "Ulm"}),
        (Price | Place, calls(call("Price", cents=5)), Price(5)),
        (Price, '{"cents": 5}', Price(5)),
        (Price, '```json\n{"cents": 5}\n```', Price(5)),
    ],
)
def test_a_form_may_be_of_many_kinds(make: Any, form: Any, reply: Any, expected: Any) -> None:
    result = make([reply], form).run(asked())
    assert result["structured_response"] == expected
    assert not isinstance(reply, str) or result["answer"] == reply


@pytest.mark.parametrize(
    ("form", "wrong", "says"),
    [
        (Report, {"total": -1}, "total: Input should be greater than or equal to 0"),
        (Report, {"total": 1, "regions": [{"name": 7}]}, "regions.0.name: Input should be a valid string"),
        (CITY, {"city": 7}, "city: 7 is not of type 'string'"),
    ],
)
def test_an_answer_that_does_not_fit_is_sent_back(make: Any, form: Any, wrong: Any, says: str) -> None:
    name, right = ("Town", {"city": "Ulm"}) if form is CITY else ("Report", PLAIN)
    result = make([calls(call(name, **wrong)), calls(call(name, **right))], form).run(asked())
    assert result["structured_response"] in ({"city": "Ulm"}, REPORT)
    assert told(result)[0] == f"Not taken as the answer: {says}"
    assert result["usage"]["this_turn"]["model_calls"] == 2


def test_after_three_answers_that_do_not_fit_it_is_said(make: Any) -> None:
    result = make(["Seven.", '{"total": "many"}', calls(call("Report", total=-1)), "never asked"]).run(
        asked()
    )
    assert result["structured_response"] is None
    assert result["answer"].startswith(
        "The model answered 3 times, and not in the form Report. The last time: "
    )
    assert "greater than or equal to 0" in result["answer"]
    assert result["usage"]["this_turn"]["model_calls"] == 3


@pytest.mark.parametrize("last", [GIVEN, json.dumps(PLAIN)])
def test_the_last_word_after_a_spent_budget_may_be_in_the_form(make: Any, last: Any) -> None:
    result = make([calls(call("send", to="a")), last], tools=[send], max_model_calls=1).run(asked())
    assert result["structured_response"] == REPORT
    assert told(result)[0] == "Not run: the budget of 1 model calls for this turn is spent."


def test_a_turn_does_not_show_the_answer_of_an_earlier_one(make: Any) -> None:
    broken = AIMessage("I cannot", response_metadata={"finish_reason": "content_filter"})
    agent = make([GIVEN, broken, GIVEN])
    assert agent.run(asked("1"))["structured_response"] == REPORT
    result = agent.run(asked("2"))
    assert result["structured_response"] is None
    assert "stopped by the provider's filter" in result["answer"]
    *before, last = agent.graph.stream(asked("3"), agent.config, stream_mode="values")
    assert last["structured_response"] == REPORT
    assert all(part["structured_response"] is None for part in before)


@pytest.mark.parametrize("other", [call("send", to="a"), call("Report", total=2)])
def test_an_answer_beside_other_calls_is_none_yet(make: Any, other: dict[str, Any]) -> None:
    result = make([calls(call("Report", total=1), other), GIVEN], tools=[send], **FREE).run(asked())
    assert result["structured_response"] == REPORT
    assert any(text.startswith("Not taken as the answer: ") for text in told(result))
    assert ("sent to a" in told(result)) == (other["name"] == "send")


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_it_comes_after_an_approval(make: Any, decision: str) -> None:
    agent = make([calls(call("send", to="a")), GIVEN], tools=[send])
    assert agent.run(asked())["structured_response"] is None
    assert agent.answer({"type": decision})["structured_response"] == REPORT


def test_what_is_kept_is_plain_and_any_process_reads_it(make: Any, tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        for form, shown in ((Report, REPORT), (None, PLAIN), (Price, PLAIN)):
            agent = make([GIVEN], form, checkpointer=saver)
            if form is Report:
                agent.run(asked())
            assert agent.values["structured_response"] == shown


def test_the_same_request_again_has_the_same_answer(make: Any) -> None:
    agent = make([GIVEN, GIVEN])
    agent.run(asked(id="order-1"))
    again = agent.run(asked(id="order-1"))
    assert again["structured_response"] == REPORT == Report.model_validate_json(again["answer"])
    agent.run(asked("And now?"))
    assert agent.run(asked(id="order-1"))["structured_response"] is None


def test_without_a_form_there_is_no_such_output_and_the_offline_model_takes_none(make: Any) -> None:
    agent = make(["done"], None)
    assert {*agent.run(asked())} == {"messages", "answer", "changes", "held", "loaded", "usage"}
    assert "structured_response" not in agent.graph.get_output_jsonschema()["properties"]
    described = make([]).graph.get_output_jsonschema()
    assert "Report" in str(described["properties"]["structured_response"])
    with pytest.raises(ModelError, match="choose another one"):
        make(None, model="offline").run(asked())


@pytest.mark.slow  # they need the packages of the providers
@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_provider_is_asked_in_its_own_way(make: Any, provider: str) -> None:
    with strict_server(provider) as server:
        agent = make(server.model(), tools=[send], **FREE)
        server.replies += [
            Completion(calls=[Call("send", {"to": "a"}, "c1")]),
            Completion(calls=[Call("Report", {"total": -1}, "c2")]),
            Completion("Three."),
            Completion(calls=[Call("Report", {"total": 3}, "c3")]),
        ]
        assert agent.run(asked())["structured_response"] == Report(total=3)
        assert server.faults == []
        server.replies.append(Completion(calls=[Call("Report", {"total": 4}, "c3")]))
        assert agent.run(asked("And then?"))["structured_response"] == Report(total=4)
        assert server.faults == []
