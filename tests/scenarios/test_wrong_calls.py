"""Calls that small models get wrong: each is answered with the call that is right."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from skills_agent.graph.models.compatible import compatible_model
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.state.context import Context
from tests.agents import FREE, call, calls, write_skill
from tests.kit import MakeAgent
from tests.openai_server import OpenAIServer, Raw

COLORS = (
    "brand-colors is a skill, not a tool. Nothing was done yet. "
    "Call the tool load_skill with name brand-colors."
)
RUN_IT = "scripts/show.py is a file of the skill brand-colors: call run_script with this skill and this path."
LOAD = call("load_skill", name="brand-colors")


@pytest.fixture(autouse=True)
def _skills(skills_dir: Path) -> None:
    write_skill(skills_dir, "brand-colors", "The colors.", scripts__show_py="print(1)", palette_md="# Red")
    write_skill(skills_dir, "for-people", "Secret.\ndisable-model-invocation: true")


def answered(agent: Any, *wanted: Any, **context: Any) -> list[str]:
    agent.say("go", context=Context(**context) if context else None)
    return [str(each.text) for each in agent.transcript if isinstance(each, ToolMessage)][-len(wanted) :]


BLOCK = {"type": "tool_use", "id": "c1", "name": "brand-colors", "input": {}}
UNREADABLE = {"name": "brand-colors", "args": "{", "id": "c1", "error": None, "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    "reply",
    [
        calls(call("brand-colors")),
        calls({"name": "brand_colors", "args": {"name": "header"}}),
        calls({"name": "Brand Colors", "args": {"anything": [1]}}),
        AIMessage("", invalid_tool_calls=[UNREADABLE]),
    ],
)
def test_a_skill_that_is_called_as_a_tool_is_loaded(make_agent: MakeAgent, reply: Any) -> None:
    """What the model reads afterwards is the call that it should have made."""
    agent = make_agent([reply, "done"])
    agent.say("go")
    made = next(each for each in agent.transcript if isinstance(each, AIMessage))
    assert [(each["name"], each["args"]) for each in made.tool_calls] == [(LOAD["name"], LOAD["args"])]
    assert not made.invalid_tool_calls
    assert [*agent.values["skills_loaded"]] == ["brand-colors"]


def test_a_reply_in_blocks_is_answered_with_the_call_that_loads(make_agent: MakeAgent) -> None:
    wanted = {**call("brand-colors"), "id": "c1"}
    (text,) = answered(make_agent([AIMessage([BLOCK], tool_calls=[wanted]), "done"]), wanted)
    assert text == COLORS


def test_a_loaded_skill_and_its_files_name_what_to_call(make_agent: MakeAgent) -> None:
    wanted = [call("brand-colors"), call("show.py"), call("show"), call("palette.md")]
    agent = make_agent([calls(LOAD), calls(*wanted), "done"])
    loaded, script, stem, resource = answered(agent, *wanted)
    assert "is loaded, and its instructions are above. Follow them yourself" in loaded
    assert loaded.endswith("\nThe user asked: go")
    assert script == stem == RUN_IT
    assert "call read_resource" in resource


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("read_files", ". Did you mean read_file?"),
        ("grep_search", ". Call grep."),
        ("TodoWrite", ". Call update_plan."),
        ("Skill", ". Call load_skill."),
        ("xyzzy", ". Tools: "),
    ],
)
def test_a_name_near_to_that_of_a_tool_names_it(make_agent: MakeAgent, name: str, right: str) -> None:
    (text,) = answered(make_agent([calls(call(name)), "done"]), name)
    assert text.startswith(f"There is no tool '{name}'{right}")


@pytest.mark.parametrize("name", ["for-people", "brand-colors"])
def test_a_skill_that_the_model_may_not_load_is_not_named(make_agent: MakeAgent, name: str) -> None:
    agent = make_agent([calls(call(name)), "done"])
    (text,) = answered(agent, name, exclude_tools=["Skill(brand-colors)"])
    assert text.startswith(f"There is no tool '{name}'.")


@pytest.mark.parametrize(
    "args",
    [
        {"name": "brand-colors@bundled"},
        {"name": "brand-colors", "source": "default"},
        {"name": "brand-colors", "source": ""},
        {"name": "brand-colors@project", "source": "bundled"},
    ],
)
def test_a_source_that_a_model_made_up_is_no_hindrance(make_agent: MakeAgent, args: dict[str, Any]) -> None:
    agent = make_agent([calls({**call("load_skill"), "args": args}), "done", "done"])
    agent.say("go", skills=["brand-colors@bundled"])  # a caller gets no other
    refused, loaded = agent.tool_messages("load_skill")
    assert refused.text.startswith("There is no brand-colors@")
    assert loaded.text.startswith("Loaded brand-colors")
    assert "brand-colors" in agent.values["skills_loaded"]


@pytest.mark.parametrize("tool", ["run_script", "read_resource"])
def test_load_skill_is_named_only_for_a_skill_that_there_is(make_agent: MakeAgent, tool: str) -> None:
    wanted = [call(tool, skill=name, path="x.py") for name in ("brand-colors", "notes.txt", "for-people")]
    there, nowhere, shut = answered(make_agent([calls(*wanted), "done"]), *wanted)
    assert there == "Skill brand-colors is not loaded. Call load_skill with name brand-colors first."
    assert nowhere == "There is no skill named 'notes.txt'. Known skills: brand-colors."
    assert shut == "Skill for-people is not loaded."


def reply(message: dict[str, Any], finish: str, *, streamed: bool) -> Raw:
    """Return an answer of a server that does as it likes."""
    said = {"role": "assistant", "content": "", **message}
    choice = {"index": 0, "delta" if streamed else "message": said, "finish_reason": finish}
    body = json.dumps(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    if not streamed:
        return Raw(200, body.encode())
    return Raw(200, f"data: {body}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")


NOTES = {"path": "notes.txt"}


@pytest.mark.parametrize(
    ("arguments", "call_id", "streamed"),
    [(NOTES, 7, False), (NOTES, None, True), (json.dumps(NOTES), 7, True)],
)
def test_arguments_as_an_object_and_an_id_as_a_number_are_read(
    make_agent: MakeAgent, workspace: Path, server: OpenAIServer, arguments: Any, call_id: Any, streamed: bool
) -> None:
    (workspace / "notes.txt").write_text("buy milk\n")
    function = {"name": "read_file", "arguments": arguments}
    made = {"index": 0, "id": call_id, "type": "function", "function": function}
    server.answers += [
        reply({"tool_calls": [made]}, "tool_calls", streamed=streamed),
        reply({"content": "Milk."}, "stop", streamed=streamed),
    ]
    agent = make_agent(compatible_model(model="some-model", streaming=streamed, max_retries=0))
    assert agent.say("What is there?")["answer"] == "Milk."
    (result,) = agent.tool_messages("read_file")
    assert "buy milk" in str(result.text)
    *_, asked, told = server.requests[-1].body["messages"]
    (sent,) = asked["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == NOTES
    assert isinstance(sent["id"], str)
    assert sent["id"] == told["tool_call_id"]


PLAN = call("update_plan", goal="Read", steps=[{"id": "1", "title": "Read", "status": "completed"}])
LOOK, WRITE = call("read_file", path="a.txt"), call("write_file", path="b.txt", content="x")


@pytest.mark.parametrize(
    ("replies", "tool", "ran"),
    [
        ([PLAN] * 5, "update_plan", [True, True, False, False, False]),
        ([LOOK, PLAN] * 3, "read_file", [True, True, False]),  # nothing is changed in between
        ([LOOK, LOOK, WRITE, LOOK], "read_file", [True] * 3),  # tests that pass are run again after an edit
        ([PLAN, PLAN, None, PLAN], "update_plan", [True] * 3),  # None: a new turn
        ([LOAD] * 4, "load_skill", [True, False, False, False]),
    ],
)
def test_a_third_call_with_the_same_result_is_not_run(
    make_agent: MakeAgent, workspace: Path, replies: list[Any], tool: str, ran: list[bool]
) -> None:
    (workspace / "a.txt").write_text("one\n")
    script = [calls(each) if each else "done" for each in replies]
    agent = make_agent([*script, "done"], max_model_calls=20, **FREE)
    for _ in range(1 + replies.count(None)):
        assert agent.say("go")["answer"] == "done"
    assert [each.status == "success" for each in agent.tool_messages(tool)] == ran


def test_what_differs_may_be_looked_at_again(make_agent: MakeAgent, workspace: Path) -> None:
    @tool
    def job() -> str:
        """Tell of a job."""
        return "pending"

    @tool
    def facts() -> str:
        """Tell what is so."""
        return "so"

    job.metadata = {"spec": ToolSpec(name="job", risk="read", polls=True)}
    facts.metadata = {"risk": "read"}

    def look(_: Any) -> Any:
        with (workspace / "a.txt").open("a") as file:
            file.write("more\n")
        return calls(call("read_file", path="a.txt"))

    for step in (look, calls(call("job"), call("facts"))):
        agent = make_agent([*[step] * 5, "done"], tools=[job, facts], max_model_calls=20)
        agent.say("go")
        results = [each.status for each in agent.transcript if each.type == "tool"]
        assert results == ["success"] * (5 if step is look else 10)
