"""`build_graph(response_format=...)`: the answer of a turn in a form of the host."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import SettingsError
from skills_agent.nodes.model_errors import ModelError
from tests.agents import call, calls, write_skill
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
REPORT = Report(total=3, regions=[Region(name="north")])


def agent_of(workspace: Path, replies: list[Any], response_format: Any = Report, **options: Any) -> Any:
    saver = options.pop("checkpointer", None) or InMemorySaver()
    tools, model = options.pop("tools", ()), options.pop("model", None) or ScriptedChatModel(replies)
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False, **options)
    return build_graph(settings, model=model, tools=tools, response_format=response_format).compile(saver)


def asked(text: str = "What was sold?", **message: Any) -> Any:
    return {"messages": [{"role": "user", "content": text, **message}]}


def config(thread: str = "1") -> Any:
    return {"configurable": {"thread_id": thread}}


def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


def told(result: Any) -> list[str]:
    return [str(each.text) for each in result["messages"] if isinstance(each, ToolMessage)]


def test_the_answer_is_an_object_of_the_hosts_class(workspace: Path) -> None:
    result = agent_of(workspace, [GIVEN]).invoke(asked(), config())
    assert result["structured_response"] == REPORT
    assert Report.model_validate_json(result["answer"]) == REPORT
    assert result["usage"]["this_turn"]["model_calls"] == 1


async def test_it_is_there_on_every_path(workspace: Path) -> None:
    agent = agent_of(workspace, [GIVEN])
    assert (await agent.ainvoke(asked(), config("a")))["structured_response"] == REPORT
    updates = [*agent.stream(asked(), config("b"), stream_mode="updates")]
    assert updates[-1]["answer"]["structured_response"] == REPORT.model_dump()
    parts = [part async for part in agent.astream(asked(), config("c"), stream_mode="values")]
    assert parts[-1]["structured_response"] == REPORT


@pytest.mark.parametrize(
    ("response_format", "name", "args", "expected"),
    [
        (Price, "Price", {"cents": 5}, Price(5)),
        (Place, "Place", {"city": "Ulm"}, {"city": "Ulm"}),
        (CITY, "Town", {"city": "Ulm"}, {"city": "Ulm"}),
        (Price | Place, "Place", {"city": "Ulm"}, {"city": "Ulm"}),
        (Price | Place, "Price", {"cents": 5}, Price(5)),
    ],
)
def test_a_form_may_be_of_many_kinds(
    workspace: Path, response_format: Any, name: str, args: Any, expected: Any
) -> None:
    agent = agent_of(workspace, [calls(call(name, **args))], response_format)
    assert agent.invoke(asked(), config())["structured_response"] == expected


@pytest.mark.parametrize("text", ['{"cents": 5}', '```json\n{"cents": 5}\n```'])
def test_json_as_the_text_of_an_answer_is_taken(workspace: Path, text: str) -> None:
    result = agent_of(workspace, [text], Price).invoke(asked(), config())
    assert (result["structured_response"], result["answer"]) == (Price(5), text)


@pytest.mark.parametrize(
    ("response_format", "wrong", "says"),
    [
        (Report, {"total": -1}, "total: Input should be greater than or equal to 0"),
        (Report, {"total": 1, "regions": [{"name": 7}]}, "regions.0.name: Input should be a valid string"),
        (CITY, {"city": 7}, "city: 7 is not of type 'string'"),
    ],
)
def test_an_answer_that_does_not_fit_is_sent_back_with_the_reason(
    workspace: Path, response_format: Any, wrong: Any, says: str
) -> None:
    name = "Town" if response_format is CITY else "Report"
    right = calls(call(name, city="Ulm")) if response_format is CITY else GIVEN
    result = agent_of(workspace, [calls(call(name, **wrong)), right], response_format).invoke(
        asked(), config()
    )
    assert result["structured_response"] in ({"city": "Ulm"}, REPORT)
    assert told(result)[0] == f"Not taken as the answer: {says}"
    assert result["usage"]["this_turn"]["model_calls"] == 2


def test_after_three_answers_that_do_not_fit_it_is_said(workspace: Path) -> None:
    replies = ["Seven.", '{"total": "many"}', calls(call("Report", total=-1)), "never asked"]
    result = agent_of(workspace, replies).invoke(asked(), config())
    assert result["structured_response"] is None
    assert result["answer"].startswith(
        "The model answered 3 times, and not in the form Report. The last time: "
    )
    assert "greater than or equal to 0" in result["answer"]
    assert result["usage"]["this_turn"]["model_calls"] == 3


@pytest.mark.parametrize("last", [GIVEN, '{"total": 3, "regions": [{"name": "north"}]}'])
def test_the_last_word_after_a_spent_budget_may_be_in_the_form(workspace: Path, last: Any) -> None:
    replies = [calls(call("send", to="a")), last]
    agent = agent_of(workspace, replies, tools=[send], max_model_calls=1)
    result = agent.invoke(asked(), config())
    assert result["structured_response"] == REPORT
    assert told(result)[0] == "Not run: the budget of 1 model calls for this turn is spent."


def test_a_turn_does_not_show_the_answer_of_an_earlier_one(workspace: Path) -> None:
    broken = AIMessage("I cannot", response_metadata={"finish_reason": "content_filter"})
    agent = agent_of(workspace, [GIVEN, broken, GIVEN])
    assert agent.invoke(asked("1"), config())["structured_response"] == REPORT
    result = agent.invoke(asked("2"), config())
    assert result["structured_response"] is None
    assert "stopped by the provider's filter" in result["answer"]
    parts = [*agent.stream(asked("3"), config(), stream_mode="values")]
    assert [part["structured_response"] for part in parts][-1] == REPORT
    assert all(part["structured_response"] is None for part in parts[:-1])


@pytest.mark.parametrize("other", [call("send", to="a"), call("Report", total=2)])
def test_an_answer_beside_other_calls_is_none_yet(workspace: Path, other: dict[str, Any]) -> None:
    replies = [calls(call("Report", total=1), other), GIVEN]
    agent = agent_of(workspace, replies, tools=[send], require_approval_for=frozenset())
    result = agent.invoke(asked(), config())
    assert result["structured_response"] == REPORT
    assert any(text.startswith("Not taken as the answer: ") for text in told(result))
    assert ("sent to a" in told(result)) == (other["name"] == "send")


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_it_comes_after_an_approval(workspace: Path, decision: str) -> None:
    agent = agent_of(workspace, [calls(call("send", to="a")), GIVEN], tools=[send])
    waiting = agent.invoke(asked(), config())
    assert waiting["structured_response"] is None
    (interrupt,) = waiting["__interrupt__"]
    answer: Command[Any] = Command(resume={interrupt.id: {"decisions": [{"type": decision}]}})
    assert agent.invoke(answer, config())["structured_response"] == REPORT


def test_what_is_kept_is_plain_and_any_process_reads_it(workspace: Path, tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        agent = agent_of(workspace, [GIVEN], checkpointer=saver)
        agent.invoke(asked(), config())
        assert agent.get_state(config()).values["structured_response"] == REPORT
        of_another_program = agent_of(workspace, [], None, checkpointer=saver)
        plain = of_another_program.get_state(config()).values["structured_response"]
        assert plain == {"total": 3, "regions": [{"name": "north"}]}
        of_a_later_release = agent_of(workspace, [], Price, checkpointer=saver)
        assert of_a_later_release.get_state(config()).values["structured_response"] == plain


def test_the_same_request_again_has_the_same_answer(workspace: Path) -> None:
    agent = agent_of(workspace, [GIVEN, GIVEN])
    agent.invoke(asked(id="order-1"), config())
    again = agent.invoke(asked(id="order-1"), config())
    assert again["structured_response"] == REPORT
    assert Report.model_validate_json(again["answer"]) == REPORT
    agent.invoke(asked("And now?"), config())
    assert agent.invoke(asked(id="order-1"), config())["structured_response"] is None


def test_without_a_form_there_is_no_such_output(workspace: Path) -> None:
    agent = agent_of(workspace, ["done"], None)
    assert set(agent.invoke(asked(), config())) == {
        "messages",
        "answer",
        "changes",
        "held",
        "loaded",
        "usage",
    }
    assert "structured_response" not in agent.get_output_jsonschema()["properties"]
    described = agent_of(workspace, [], Report).get_output_jsonschema()
    assert "Report" in str(described["properties"]["structured_response"])


@pytest.mark.slow  # LangChain's agents take seconds to import
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (int, "`response_format` takes a pydantic model"),
        (list[Report], "`response_format` takes a pydantic model"),
        ({"type": "array"}, "that of an object"),
        ({"type": "objekt", "properties": {}}, "is no JSON schema"),
    ],
)
def test_what_is_no_form_is_refused(workspace: Path, wrong: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        agent_of(workspace, [], wrong)


def test_a_form_has_no_name_of_a_tool(workspace: Path) -> None:
    for taken in ("send", "load_skill"):
        with pytest.raises(SettingsError, match=f"A tool is named {taken}"):
            agent_of(workspace, [], {**CITY, "title": taken}, tools=[send])


def test_the_offline_model_says_that_it_cannot(workspace: Path) -> None:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False, model="offline")
    with pytest.raises(ModelError, match="choose another one"):
        build_graph(settings, response_format=Report).compile().invoke(asked())


@pytest.mark.slow  # they need the packages of the providers
@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_provider_is_asked_in_its_own_way(workspace: Path, provider: str) -> None:
    with strict_server(provider) as server:
        agent = agent_of(workspace, [], model=server.model(), tools=[send], require_approval_for=frozenset())
        wrong, right = Call("Report", {"total": -1}, "c2"), Call("Report", {"total": 3}, "c3")
        server.replies += [
            Completion(calls=[Call("send", {"to": "a"}, "c1")]),
            Completion(calls=[wrong]),
            Completion("Three."),
            Completion(calls=[right]),
        ]
        result = agent.invoke(asked(), config())
        assert server.faults == []
        assert result["structured_response"] == Report(total=3)
        server.replies.append(Completion(calls=[Call("Report", {"total": 4}, "c3")]))
        assert agent.invoke(asked("And then?"), config())["structured_response"] == Report(total=4)
        assert server.faults == []


@pytest.mark.slow
@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_provider_that_is_given_the_form_may_load_skills(
    workspace: Path, skills_dir: Path, provider: str
) -> None:
    """`load_skill` is not strict. Only `strict` function tools can be auto-parsed."""
    from langchain.agents.structured_output import ProviderStrategy  # noqa: PLC0415 - seconds

    write_skill(skills_dir, "alpha", "Prices.", "ALPHA\n")
    with strict_server(provider) as server:
        agent = agent_of(workspace, [], ProviderStrategy(Price), model=server.model(), tools=[send])
        given = {"name": "alpha", "source": None, "arguments": None, "reason": None}
        server.replies += [Completion(calls=[Call("load_skill", given, "c1")]), Completion('{"cents": 5}')]
        result = agent.invoke(asked(), config())
        assert (result["structured_response"], result["loaded"]) == (Price(5), ["alpha"])
        assert server.faults == []
