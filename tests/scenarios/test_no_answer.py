"""Replies that came whole and answer nothing: they are asked again once, and then the turn fails."""

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.nodes.model_errors import ModelCallError
from tests.agents import FREE, Agent, write_skill
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion, OpenAIServer

NOTES = {"name": "read_file", "arguments": {"path": "notes.txt"}}
WRITTEN = json.dumps(NOTES)


MakeReader = Callable[..., Agent]


@pytest.fixture
def reader(make_agent: MakeAgent, server: OpenAIServer, workspace: Path, skills_dir: Path) -> MakeReader:
    """Return what makes an agent behind replies that a server gives."""
    (workspace / "notes.txt").write_text("buy milk\n")
    write_skill(skills_dir, "brand-colors", "The colors of the brand.")

    def made(*replies: Completion, **settings: Any) -> Agent:
        server.answers += replies
        return make_agent("openai:some-model", **settings)

    return made


def ask(agent: Agent, text: str = "What is in notes.txt?", *, streamed: bool = False) -> Any:
    if not streamed:
        return agent.say(text)
    list(agent.graph.stream({"messages": [HumanMessage(text)]}, agent.config, stream_mode="messages"))
    return agent.values


def sent(server: OpenAIServer, at: int = -1) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.requests[at].body["messages"]
    return messages


READ = Call("read_file", {"path": "notes.txt"}, "c1")
USELESS = [
    "  \n",
    '<skill name="brand-colors" source="project">\nDo it.\n</skill>',
    "<available_skills>\n- brand-colors: The colors of the brand.\n</available_skills>",
    "<tool_response>\nbrand-colors is a skill, not a tool.\n</tool_response>",
    "[This message has no text.]",
    "[This answer was empty.]",
    WRITTEN,
    f"```json\n{WRITTEN}\n```",
    f"<tool_call>\n{WRITTEN}\n</tool_call>",
    f"[TOOL_CALLS][{WRITTEN}]",
    f"<|python_tag|>{json.dumps({'name': 'read_file', 'parameters': {'path': 'notes.txt'}})}",
    json.dumps({"type": "function", "function": NOTES}),
    '<function=read_file>{"path": "notes.txt"}</function>',
    json.dumps({"name": "brand-colors", "arguments": {}}),
    '<tools>\n</tools>\n{{"name": "brand-colors", "arguments": {{"color": "header"}}}}',
    f"<tools>{json.dumps({'type': 'function', 'function': NOTES})}</tools>\n{WRITTEN}",
]


@pytest.mark.parametrize("streamed", [False, True])
def test_what_answers_nothing_is_asked_again(
    reader: MakeReader, server: OpenAIServer, streamed: bool
) -> None:
    for useless in USELESS:
        values = ask(reader(Completion(useless), Completion("Milk.")), streamed=streamed)
        assert values["answer"] == "Milk."
        assert [each.type for each in values["messages"]] == ["human", "ai"]
        assert values["messages"][0].text == "What is in notes.txt?"
        first, second = sent(server, -2), sent(server, -1)
        assert [each["role"] for each in first] == [each["role"] for each in second]
        assert second[:-1] == first[:-1]
        assert second[-1]["content"].startswith(f"{first[-1]['content']}\n\nYour last reply ")
        counts = values["usage"]["this_turn"]
        assert (counts["model_calls"], counts["input_tokens"], counts["output_tokens"]) == (2, 22, 14)
    assert len(server.requests) == 2 * len(USELESS)


def test_behind_a_result_the_hint_is_a_part_of_it(reader: MakeReader, server: OpenAIServer) -> None:
    """Mistral's template refuses a user's message behind the result of a tool."""
    agent = reader(Completion(calls=[READ]), Completion(""), Completion("Milk."))
    assert ask(agent)["answer"] == "Milk."
    first, second = sent(server, 1), sent(server, 2)
    assert [each["role"] for each in second] == [each["role"] for each in first]
    assert second[-1]["role"] == "tool"
    assert second[-1]["content"].startswith(f"{first[-1]['content']}\n\nYour last reply was empty.")


def test_what_is_said_again_is_asked_once_more_and_taken(reader: MakeReader, server: OpenAIServer) -> None:
    """A small model announces a call, and behind its result announces it again."""
    again = Completion("I will read it.")
    announced = again._replace(calls=[READ])
    agent = reader(announced, again, Completion("Milk."), announced, again, again)
    assert ask(agent)["answer"] == "Milk."
    assert sent(server)[-1]["content"].startswith(f"{sent(server, 1)[-1]['content']}\n\nYour last reply ")
    assert ask(agent, "And now?")["answer"] == "I will read it."
    assert len(server.requests) == 6


def test_a_reply_that_is_empty_twice_is_an_error_and_the_thread_goes_on(
    reader: MakeReader, server: OpenAIServer
) -> None:
    agent = reader(Completion(""), Completion(""), Completion("Here I am."))
    with pytest.raises(ModelCallError, match="gave no answer: its reply was empty"):
        ask(agent)
    values = ask(agent, "And now?")
    assert values["answer"] == "Here I am."
    assert [each.type for each in values["messages"]] == ["human", "human", "ai"]
    with pytest.raises(ModelCallError, match="gave no answer"):
        ask(reader(Completion(""), max_model_calls=1))
    assert len(server.requests) == 3 + 1  # not asked again over the budget


def test_calls_that_stay_text_are_not_run(reader: MakeReader, workspace: Path) -> None:
    text = json.dumps({"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}})
    with pytest.raises(ModelCallError, match=r"--jinja.*--tool-call-parser"):
        ask(reader(Completion(text), Completion(text), **FREE))
    assert not (workspace / "new.txt").exists()


ANSWERS = [
    f"Call it so:\n```json\n{WRITTEN}\n```",
    f"```json\n{WRITTEN}\n```\nThat is the call.",
    '{"name": "Ada", "arguments": {"born": 1815}}',
    '{"name": "read_file", "arguments": "none"}',
    '{"name": "read_file"}',
    '{"milk": 1}',
    "[1, 2]",
    "```python\nprint({'name': 'read_file'})\n```",
    "<status>open</status>",
    "<summary>Milk.</summary>",
    "The note says [This message has no text.]",
    "{not json]",
    "[" * 5_000 + "]" * 5_000,
]


def test_json_and_markup_that_was_asked_for_is_an_answer(reader: MakeReader, server: OpenAIServer) -> None:
    for answer in ANSWERS:
        assert ask(reader(Completion(answer)))["answer"] == answer
    assert len(server.requests) == len(ANSWERS)


# What people read in the transcript, and the model does not


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        (Completion("Norway,", finish="length"), "Norway,"),
        (Completion(refusal="I do not."), "I do not."),
        (Completion("", finish="content_filter"), None),
    ],
)
def test_a_note_for_people_is_no_message_of_the_assistant(
    reader: MakeReader, server: OpenAIServer, before: Completion, shown: str | None
) -> None:
    agent = reader(before, Completion("Fine."))
    answer = ask(agent)["answer"]
    assert "[This answer was " in answer
    assert ask(agent, "And?")["messages"][1].text == answer
    replies = [each["content"] for each in sent(server) if each["role"] == "assistant"]
    assert [each.strip() for each in replies] == ([shown] if shown else [])


COUNTED = AIMessage("", usage_metadata={"input_tokens": 100, "output_tokens": 10, "total_tokens": 110})


@pytest.mark.parametrize(("durability", "is_async"), [("sync", False), ("async", True), ("exit", True)])
async def test_tokens_of_a_turn_that_fails_count_in_its_thread(
    make_agent: MakeAgent, tmp_path: Path, durability: Any, is_async: bool
) -> None:
    model = ScriptedChatModel([COUNTED.model_copy(update={"content": text}) for text in ("one", "", "")])
    async with AsyncExitStack() as stack:
        file = str(tmp_path / "threads.sqlite")
        if is_async:
            saver: Any = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(file))
        else:
            saver = stack.enter_context(SqliteSaver.from_conn_string(file))
        agent = make_agent(model, checkpointer=saver)
        graph, config = agent.graph, agent.config

        async def say(text: str) -> Any:
            said: Any = {"messages": [HumanMessage(text)]}
            if is_async:
                return await graph.ainvoke(said, config, durability=durability)
            return graph.invoke(said, config, durability=durability)

        async def tokens() -> int:
            state = await graph.aget_state(config) if is_async else graph.get_state(config)
            return int(state.values["usage"]["thread"]["input_tokens"])

        await say("a")
        for failed in (1, 2):
            with pytest.raises(ModelCallError, match="gave no answer"):
                await say("b")
            assert await tokens() == 100 + failed * 200
        model.script = ["one", *[COUNTED.model_copy(update={"content": "three"})] * 5]
        usage = (await say("c"))["usage"]
        assert usage["thread"]["input_tokens"] == 600 == await tokens()
        assert usage["this_turn"]["input_tokens"] == 100
