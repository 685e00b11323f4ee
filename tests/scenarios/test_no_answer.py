"""Replies that came whole and answer nothing: they are asked again once, and then the turn fails."""

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.nodes.model_errors import ModelCallError
from tests.agents import write_skill
from tests.openai_server import Call, Completion, OpenAIServer

CONFIG: Any = {"configurable": {"thread_id": "1"}}
NOTES = {"name": "read_file", "arguments": {"path": "notes.txt"}}
WRITTEN = json.dumps(NOTES)


@pytest.fixture
def graph_of(workspace: Path) -> Callable[..., Any]:
    (workspace / "notes.txt").write_text("buy milk\n")
    write_skill(workspace / "skills", "brand-colors", "The colors of the brand.")

    def made(**settings: Any) -> Any:
        chosen = {"model": "openai:some-model", "skills_dirs": (workspace / "skills",), **settings}
        settings_ = Settings(workspace=workspace, home=workspace, bundled_skills=False, **chosen)
        return build_graph(settings_).compile(checkpointer=InMemorySaver())

    return made


def ask(graph: Any, text: str = "What is in notes.txt?", *, streamed: bool = False) -> Any:
    said = {"messages": [HumanMessage(text)]}
    if streamed:
        list(graph.stream(said, CONFIG, stream_mode="messages"))
        return graph.get_state(CONFIG).values
    return graph.invoke(said, CONFIG)


def sent(server: OpenAIServer, at: int = -1) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.requests[at].body["messages"]
    return messages


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
def test_what_answers_nothing_is_asked_again_once_with_what_is_missing(
    graph_of: Callable[..., Any], server: OpenAIServer, streamed: bool
) -> None:
    for useless in USELESS:
        server.answers += [Completion(useless), Completion("Milk.")]
        values = ask(graph_of(), streamed=streamed)
        assert values["answer"] == "Milk."
        assert [each.type for each in values["messages"]] == ["human", "ai"]
        assert values["messages"][0].text == "What is in notes.txt?"
        first, second = sent(server, -2), sent(server, -1)
        assert [each["role"] for each in first] == [each["role"] for each in second]
        assert second[:-1] == first[:-1]
        assert second[-1]["content"].startswith(f"{first[-1]['content']}\n\nYour last reply ")
    assert len(server.requests) == 2 * len(USELESS)


def test_the_tokens_of_a_reply_that_is_asked_again_count(
    graph_of: Callable[..., Any], server: OpenAIServer
) -> None:
    server.answers += [Completion(""), Completion("Milk.")]
    counts = ask(graph_of())["usage"]["this_turn"]
    assert (counts["model_calls"], counts["input_tokens"], counts["output_tokens"]) == (2, 22, 14)


def test_behind_a_result_the_hint_is_a_part_of_it_and_no_message(
    graph_of: Callable[..., Any], server: OpenAIServer
) -> None:
    """Mistral's template refuses a user's message behind the result of a tool."""
    call = Call("read_file", {"path": "notes.txt"}, "c1")
    server.answers += [Completion(calls=[call]), Completion(""), Completion("Milk.")]
    values = ask(graph_of())
    assert values["answer"] == "Milk."
    first, second = sent(server, 1), sent(server, 2)
    assert [each["role"] for each in second] == [each["role"] for each in first]
    assert second[-1]["role"] == "tool"
    assert second[-1]["content"].startswith(f"{first[-1]['content']}\n\nYour last reply was empty.")


def test_what_is_said_again_behind_a_result_is_asked_again_and_taken_if_it_is_said_once_more(
    graph_of: Callable[..., Any], server: OpenAIServer
) -> None:
    """A small model announces a call, and behind its result announces it again."""
    announced = Completion("I will read it.", calls=[Call("read_file", {"path": "notes.txt"}, "c1")])
    again = Completion("I will read it.")
    server.answers += [announced, again, Completion("Milk."), announced, again, again]
    graph = graph_of()
    assert ask(graph)["answer"] == "Milk."
    assert sent(server)[-1]["content"].startswith(f"{sent(server, 1)[-1]['content']}\n\nYour last reply ")
    assert ask(graph, "And now?")["answer"] == "I will read it."
    assert len(server.requests) == 6


def test_a_reply_that_is_empty_twice_is_an_error_and_the_thread_goes_on(
    graph_of: Callable[..., Any], server: OpenAIServer
) -> None:
    server.answers += [Completion(""), Completion(""), Completion("Here I am.")]
    graph = graph_of()
    with pytest.raises(ModelCallError, match="gave no answer: its reply was empty"):
        ask(graph)
    values = ask(graph, "And now?")
    assert values["answer"] == "Here I am."
    assert [each.type for each in values["messages"]] == ["human", "human", "ai"]


def test_an_empty_reply_is_not_asked_for_again_over_the_budget(
    graph_of: Callable[..., Any], server: OpenAIServer
) -> None:
    server.answers.append(Completion(""))
    with pytest.raises(ModelCallError, match="gave no answer"):
        ask(graph_of(max_model_calls=1))
    assert len(server.requests) == 1


def test_calls_that_stay_text_are_not_run_and_the_person_reads_what_the_server_needs(
    graph_of: Callable[..., Any], server: OpenAIServer, workspace: Path
) -> None:
    text = json.dumps({"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}})
    server.answers += [Completion(text), Completion(text)]
    with pytest.raises(ModelCallError, match=r"--jinja.*--tool-call-parser"):
        ask(graph_of(require_approval_for=()))
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


def test_json_and_markup_that_a_person_asked_for_are_answers(
    graph_of: Callable[..., Any], server: OpenAIServer
) -> None:
    for answer in ANSWERS:
        server.answers.append(Completion(answer))
        assert ask(graph_of())["answer"] == answer
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
    graph_of: Callable[..., Any], server: OpenAIServer, before: Completion, shown: str | None
) -> None:
    server.answers += [before, Completion("Fine.")]
    graph = graph_of()
    answer = ask(graph)["answer"]
    assert "[This answer was " in answer
    assert ask(graph, "And?")["messages"][1].text == answer
    replies = [each["content"] for each in sent(server) if each["role"] == "assistant"]
    assert [each.strip() for each in replies] == ([shown] if shown else [])


def test_what_the_agent_says_of_a_prompt_that_is_too_large_is_not_shown_to_the_model(
    graph_of: Callable[..., Any], server: OpenAIServer, workspace: Path
) -> None:
    server.answers.append(Completion("Fine."))
    graph = graph_of(context_window=20_000)
    said = ask(graph, "word " * 100_000)["answer"]
    assert (said.startswith("I could not ask the model"), server.requests) == (True, [])
    wider = graph_of(context_window=1_000_000)
    wider.checkpointer = graph.checkpointer
    assert ask(wider, "And now?")["answer"] == "Fine."
    assert [each["role"] for each in sent(server)[1:]] == ["user"]


COUNTED = AIMessage("", usage_metadata={"input_tokens": 100, "output_tokens": 10, "total_tokens": 110})


@pytest.mark.parametrize(("durability", "is_async"), [("sync", False), ("async", True), ("exit", True)])
async def test_tokens_of_a_turn_that_fails_count_in_its_thread(
    tmp_path: Path, workspace: Path, durability: Any, is_async: bool
) -> None:
    model = ScriptedChatModel([COUNTED.model_copy(update={"content": text}) for text in ("one", "", "")])
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    async with AsyncExitStack() as stack:
        file = str(tmp_path / "threads.sqlite")
        saver: Any = (
            await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(file))
            if is_async
            else stack.enter_context(SqliteSaver.from_conn_string(file))
        )
        graph = build_graph(settings, model=model).compile(checkpointer=saver)

        async def say(text: str) -> Any:
            said: Any = {"messages": [HumanMessage(text)]}
            if is_async:
                return await graph.ainvoke(said, CONFIG, durability=durability)
            return graph.invoke(said, CONFIG, durability=durability)

        async def tokens() -> int:
            state = await graph.aget_state(CONFIG) if is_async else graph.get_state(CONFIG)
            return int(state.values["usage"]["thread"]["input_tokens"])

        await say("a")
        for failed in (1, 2):
            with pytest.raises(ModelCallError, match="gave no answer"):
                await say("b")
            assert await tokens() == 100 + failed * 200
        model.script = ["one", *[COUNTED.model_copy(update={"content": "three"})] * 5]
        result = await say("c")
        assert result["usage"]["thread"]["input_tokens"] == 600 == await tokens()
        assert result["usage"]["this_turn"]["input_tokens"] == 100
