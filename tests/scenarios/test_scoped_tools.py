"""A host's tools for skills: offered while a skill is loaded that names them, called by `call_tool`."""

import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import BaseModel

from skills_agent.nodes.scoped_tools import ScopedTools
from skills_agent.state.context import Context
from tests.agents import Agent, Recorder, call, calls, write_skill
from tests.forked import run_forked
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion, OpenAIServer
from tests.strict_providers import PROVIDERS, strict_server

LOAD, UNLOAD = call("load_skill", name="inventory"), call("unload_skill", name="inventory")
TAKE = call("call_tool", name="take_stock", arguments={"sku": "A1", "count": 2})
DIRECT = call("take_stock", sku="A1", count=2)
APPROVE = {"type": "approve"}


@tool
def take_stock(sku: str, count: int = 1) -> str:
    """Take things of one kind out of the store."""
    return f"took {count} of {sku}"


@tool
def weather(town: str) -> str:
    """Tell the weather."""
    return f"rain in {town}"


take_stock.metadata = {"risk": "write"}
weather.metadata = {"risk": "read"}
TOOLS = (take_stock, weather)


@pytest.fixture(autouse=True)
def skills(skills_dir: Path) -> None:
    write_skill(skills_dir, "inventory", "Counts things.\nmetadata:\n  include_tools: take_stock")
    write_skill(skills_dir, "sky", "Clouds.\nmetadata:\n  adk_additional_tools:\n    - weather")
    write_skill(skills_dir, "plain", "Nothing.")


def test_a_person_is_asked_about_the_tool_and_the_model_reads_call_tool(make_agent: MakeAgent) -> None:
    recorder = Recorder([calls(LOAD), calls(TAKE), "done"])
    agent = make_agent(recorder.entries, skill_tools=TOOLS)
    agent.say("go")
    (request,) = agent.asked
    assert (request["name"], request["args"]) == ("take_stock", TAKE["args"]["arguments"])
    agent.answer(APPROVE)
    assert [each.text for each in agent.tool_messages("take_stock")] == ["took 2 of A1"]
    asked, result = recorder.prompts[-1][-2:]
    assert isinstance(asked, AIMessage)
    assert [(each["name"], each["args"]) for each in asked.tool_calls] == [("call_tool", TAKE["args"])]
    assert result.name == "call_tool"
    assert '{"name": "take_stock", "description": "Take things of one kind out of' in recorder.texts[1]
    assert '"weather"' not in recorder.texts[1]


def test_a_tool_of_a_skill_leaves_requests_as_they_are(make_agent: MakeAgent, server: OpenAIServer) -> None:
    for number, each in enumerate((call("load_skill", name="plain"), LOAD, TAKE)):
        server.answers.append(Completion(calls=[Call(each["name"], each["args"], f"c{number}")]))
    server.answers.append(Completion("done"))
    agent = make_agent("openai:gpt-4o", skill_tools=TOOLS)
    agent.say("go")
    agent.answer(APPROVE)
    bodies = [request.body for request in server.requests]
    names = {each["function"]["name"] for each in bodies[0]["tools"]}
    assert names & {"call_tool", "take_stock", "weather"} == {"call_tool"}
    assert len({json.dumps(body["tools"]) for body in bodies[1:]}) == 1
    for before, after in itertools.pairwise(bodies):
        assert json.dumps(after["messages"]).startswith(json.dumps(before["messages"])[:-1])


WITHOUT = Context(exclude_tools=("Skill(inventory)",))
ABSENT = "There is no tool 'take_stock'. "


@pytest.mark.parametrize(
    ("steps", "context", "says"),
    [
        ([TAKE], None, ABSENT),
        ([DIRECT], None, ABSENT),
        ([LOAD, UNLOAD, TAKE], None, ABSENT),
        ([LOAD, TAKE], WITHOUT, ABSENT),
        ([LOAD, TAKE], Context(enable_skills=False), ABSENT),
        ([LOAD, TAKE], Context(exclude_tools=("call_tool",)), "take_stock is turned off here together with"),
        ([LOAD, TAKE], Context(exclude_tools=("take_stock",)), "Not run: the caller of this run left out"),
        ([LOAD, TAKE], Context(only_tools=("read_file",)), "Not run: the caller of this run left out"),
    ],
)
def test_a_tool_is_refused_that_no_active_skill_brings_or_that_somebody_left_out(
    make_agent: MakeAgent, steps: list[dict[str, Any]], context: Context | None, says: str
) -> None:
    *before, last = map(calls, steps)
    agent = make_agent([*before, "one", last, "two"], skill_tools=TOOLS)
    agent.say("go")
    agent.say("go on", context=context)
    (told,) = agent.tool_messages("take_stock")
    assert told.text.startswith(says)


def test_arguments_are_checked_and_a_tool_may_be_called_directly(make_agent: MakeAgent) -> None:
    given = ({"city": "Oslo"}, '{"town": "Oslo"}', "Oslo")
    made = [
        *(call("call_tool", name="weather", arguments=each) for each in given),
        call("weather", town="Rome"),
    ]
    agent = make_agent([calls(call("load_skill", name="sky")), calls(*made), "done"], skill_tools=TOOLS)
    agent.say("go")
    wrong = "The arguments of weather are not valid: town: Field required"
    told = [each.text for each in agent.tool_messages("weather")]
    assert told == [wrong, "rain in Oslo", "rain in Rome"]
    assert "call_tool are not valid: arguments" in agent.tool_messages("call_tool")[0].text


def test_an_edit_and_a_grant_speak_of_the_tool(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(LOAD), calls(TAKE), calls(TAKE), "done"], skill_tools=TOOLS)
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "pattern", "pattern": "take_stock"}})
    assert len(agent.tool_messages("take_stock")) == 2
    for name, said in (("take_stock", "took 3 of C"), ("call_tool", "call take_stock by its own name")):
        args = {"sku": "C", "count": "3"}
        edited = args if name == "take_stock" else {"name": "take_stock", "arguments": args}
        agent = make_agent([calls(LOAD), calls(TAKE), "done"], skill_tools=TOOLS, thread=name)
        agent.say("go")
        agent.answer({"type": "edit", "edited_action": {"name": name, "args": edited}})
        assert said in agent.transcript[-2].text


def test_the_receipt_lint_and_doctor_name_a_tool_that_nobody_registered(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path
) -> None:
    agent = make_agent([calls(LOAD), "done"], skill_tools=[weather])
    agent.say("go")
    said = "No program here registered tools that inventory asks for: take_stock."
    assert said in agent.tool_messages("load_skill")[0].text
    cli = CommandLine(tmp_path / "cli")
    asks = "It asks for tools that a program registers: `take_stock`"
    assert asks in cli.run("skills", "lint", str(skills_dir / "inventory")).out
    told = cli.run("doctor", "--skills-dir", str(skills_dir)).out
    assert asks in told
    assert "`weather`" in told  # that skill has other notes for its author


def test_a_tool_that_is_killed_is_asked_about_by_its_name(make_agent: MakeAgent, tmp_path: Path) -> None:
    log = tmp_path / "log"

    @tool("take_stock")
    def kill(sku: str, count: int = 1) -> None:
        """Take, and be killed."""
        with log.open("a") as file:
            file.write(f"{sku}{count} ")
        os.kill(os.getpid(), signal.SIGKILL)

    kill.metadata = {"risk": "write"}

    def run(act: Callable[[Agent], Any]) -> Any:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            return act(make_agent([calls(LOAD), calls(TAKE), "done"], skill_tools=[kill], checkpointer=saver))

    def asked(agent: Agent) -> list[Any]:
        return [(each["name"], each["args"]) for each in agent.asked]

    question = [("take_stock", TAKE["args"]["arguments"])]
    assert run(lambda agent: (agent.say("go"), asked(agent)))[1] == question
    assert run_forked(run, lambda agent: agent.answer(APPROVE)) == -signal.SIGKILL
    assert run(lambda agent: (agent.run(None), asked(agent)))[1] == question
    assert run(lambda agent: agent.answer({"type": "reject"}))["answer"] == "done"
    assert log.read_text() == "A12 "


@given(st.text(), st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.none())))
def test_a_call_by_call_tool_and_one_of_the_tool_itself_say_the_same(name: str, args: dict[str, Any]) -> None:
    message = AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1"}])
    scoped = ScopedTools({name: weather})
    (shown,) = scoped.as_called([message])
    assert isinstance(shown, AIMessage)
    assert shown.tool_calls[0]["name"] == "call_tool"
    assert scoped.as_meant(shown).tool_calls == message.tool_calls


class Price(BaseModel):
    """A price."""

    cents: int


@pytest.mark.slow
@pytest.mark.parametrize("in_a_form", [False, True])
@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_provider_takes_the_calls(make_agent: MakeAgent, provider: str, *, in_a_form: bool) -> None:
    """Also where the provider is given the form: `load_skill` is not strict."""
    from langchain.agents.structured_output import ProviderStrategy  # noqa: PLC0415 - seconds

    town: Any = {"town": "Oslo"}
    args = {"name": "weather", "arguments": json.dumps(town) if in_a_form else town}
    given = {"name": "sky", "source": None, "arguments": None, "reason": None}
    with strict_server(provider) as server:
        parts = {"response_format": ProviderStrategy(Price)} if in_a_form else {}
        agent = make_agent(server.model(), skill_tools=TOOLS, parts=parts)
        made = [Call("load_skill", given, "c1"), Call("call_tool", args, "c2")]
        server.replies += [*(Completion(calls=[each]) for each in made), Completion('{"cents": 5}')]
        result = agent.say("go")
        assert [each.text for each in agent.tool_messages("weather")] == ["rain in Oslo"]
        assert result.get("structured_response") == (Price(cents=5) if in_a_form else None)
        assert server.faults == []
        assert ("A JSON object." in json.dumps(server.requests[0])) == in_a_form
