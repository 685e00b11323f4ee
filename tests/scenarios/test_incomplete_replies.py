"""Replies that are not whole: a connection that ends, a limit, a filter. Nothing of them runs."""

import itertools
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.nodes.model_errors import ModelCallError
from tests.agents import FREE, Recorder
from tests.kit import MakeAgent
from tests.machine import needs_shell
from tests.openai_server import KEY, Call, Completion, Cut, OpenAIServer, Raw

CONFIG: Any = {"configurable": {"thread_id": "1"}}
INPUT: Any = {"messages": [HumanMessage("Do it.")]}
OLD = "".join(f"line {number}\n" for number in range(300))
WRITE = Call(
    "write_file", {"path": "notes.md", "content": OLD.replace("line", "row"), "overwrite": True}, "c1"
)
REMOVE = Call("run_command", {"command": "rm -rf data/old"}, "c2")
PART = '{"path": "notes.md", "overwrite": true, "content": "row 0\\nrow 1\\nr'
NOT_RUN = "cut off at the model's limit; nothing of it ran"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelCallError, "wait", 0.01)


@pytest.fixture(autouse=True)
def files(workspace: Path) -> Path:
    """Return the workspace, with what a call that was cut would damage."""
    (workspace / "data" / "new").mkdir(parents=True)
    (workspace / "data" / "new" / "keep.txt").write_text("keep")
    (workspace / "notes.md").write_text(OLD)
    return workspace


@pytest.fixture
def graph_of(make_agent: MakeAgent) -> Any:
    """Return what makes an agent that asks nobody, of a model of OpenAI's or of a host."""

    def make(model: BaseChatModel | None = None, **settings: Any) -> Any:
        chosen = {"model_parameters": {"max_retries": 0}, "enable_run_command": "on", **FREE, **settings}
        return make_agent(model, model="openai:some-model", **chosen).graph

    return make


def assert_nothing_ran(workspace: Path) -> None:
    assert (workspace / "notes.md").read_text() == OLD
    assert (workspace / "data" / "new" / "keep.txt").read_text() == "keep"


async def run(graph: Any, way: str) -> dict[str, Any]:
    """Run a turn in one of the ways there are, and return the thread's state."""
    if way == "invoke":
        graph.invoke(INPUT, CONFIG)
    elif way == "ainvoke":
        await graph.ainvoke(INPUT, CONFIG)
    elif way == "stream":
        list(graph.stream(INPUT, CONFIG, stream_mode=["messages", "updates"]))
    elif way == "astream":
        _ = [part async for part in graph.astream(INPUT, CONFIG, stream_mode="messages")]
    else:
        events = graph.astream_events(INPUT, CONFIG, version=way)
        _ = [part async for part in (await events if way == "v3" else events)]
    values: dict[str, Any] = graph.get_state(CONFIG).values
    return values


SLOW = pytest.mark.slow
WAYS = pytest.mark.parametrize(
    "way", ["invoke", "astream", *(pytest.param(each, marks=SLOW) for each in ("ainvoke", "stream"))]
)


def ask_again(graph: Any, mode: str) -> dict[str, Any]:
    """Ask in a thread of its own, streamed or not, and return the thread's state."""
    config: Any = {"configurable": {"thread_id": str(uuid4())}}
    list(graph.stream(INPUT, config, stream_mode=mode))
    values: dict[str, Any] = graph.get_state(config).values
    return values


def answers_to_calls(values: dict[str, Any]) -> list[ToolMessage]:
    return [each for each in values["messages"] if isinstance(each, ToolMessage)]


def openai_of(server: OpenAIServer, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(model="any", base_url=server.base_url, api_key=SecretStr(KEY), **fields)


STREAMED = pytest.mark.parametrize("mode", ["messages", "values"])

# Connections that end


@pytest.mark.parametrize(
    ("way", "framing", "call"),
    [
        ("invoke", "close", WRITE),
        ("astream", "close", REMOVE),
        pytest.param("ainvoke", "length", REMOVE, marks=SLOW),
        pytest.param("stream", "chunked", WRITE, marks=SLOW),
        pytest.param("v2", "reset", WRITE, marks=SLOW),
        pytest.param("v3", "close", WRITE, marks=SLOW),
    ],
)
@pytest.mark.filterwarnings("ignore:The v3 streaming")
async def test_a_call_in_a_reply_that_breaks_off_is_not_run_and_the_model_is_asked_again(
    files: Path, graph_of: Any, server: OpenAIServer, way: str, framing: Any, call: Call
) -> None:
    # The last piece of the arguments is lost, and all that comes after it.
    size = len(json.dumps(call.arguments)) // 4 + 60
    server.answers += [Cut(Completion("I do it.", [call]), -size - 500, framing), Completion("Done.")]
    values = await run(graph_of(), way)
    assert_nothing_ran(files)
    assert (values["answer"], len(server.requests)) == ("Done.", 2)
    assert values["usage"]["this_turn"]["model_calls"] == 2
    assert [each.type for each in values["messages"]] == ["human", "ai"]


@STREAMED
def test_wherever_a_reply_breaks_off_nothing_of_it_is_used(
    files: Path, graph_of: Any, server: OpenAIServer, mode: str
) -> None:
    """Or its provider gives up on it."""
    whole = Completion("Ünderstood: I remove it.", [REMOVE])
    # The body of a reply that is not streamed is shorter.
    cuts: list[Any] = [Cut(whole, end) for end in range(0, 700 if mode == "messages" else 460, 74)]
    given_up = ("error", "abort", "insufficient_system_resource")
    graph = graph_of()
    for broken in (*cuts, *(whole._replace(finish=word) for word in given_up)):
        server.answers += [broken, Completion("Done.")]
        assert ask_again(graph, mode)["answer"] == "Done."
        assert_nothing_ran(files)


def test_what_was_shown_of_a_reply_that_broke_off_is_withdrawn(graph_of: Any, server: OpenAIServer) -> None:
    server.answers += [Completion("All is well, you can go home.", finish=None), Completion("Wait.")]
    parts = list(graph_of().stream(INPUT, CONFIG, stream_mode=["messages", "custom"]))
    shown = [content[0] for mode, content in parts if mode == "messages"]
    (event,) = [each for mode, each in parts if mode == "custom" and "withdrawn" in each["type"]]
    assert (event["type"], event["wait"] > 0) == ("skills_agent.reply_withdrawn", True)
    assert "".join(each.text for each in shown if each.id != event["message_id"]) == "Wait."
    assert "All is well" in "".join(each.text for each in shown)


def test_a_model_that_breaks_off_spends_the_budget(files: Path, graph_of: Any, server: OpenAIServer) -> None:
    server.respond = lambda _: Completion("I remove it.", [REMOVE], finish=None)
    graph = graph_of(max_model_calls=2)
    with pytest.raises(ModelCallError, match="without a finish reason") as failed:
        list(graph.stream(INPUT, CONFIG, stream_mode="messages"))
    assert (failed.value.code, len(server.requests)) == ("model-reply-incomplete", 2)
    assert_nothing_ran(files)
    server.respond = lambda _: Completion("Here again.")
    assert graph.invoke(None, CONFIG)["answer"] == "Here again."


def test_a_cut_reply_of_a_cache_is_not_believed(files: Path, graph_of: Any, server: OpenAIServer) -> None:
    server.respond = lambda _: Completion("I remove it.", [REMOVE], finish=None)
    model = openai_of(server, cache=InMemoryCache(), max_retries=0)
    with pytest.raises(ModelCallError, match="reply broke off"):
        list(graph_of(model).stream(INPUT, CONFIG, stream_mode="messages"))
    assert len(server.requests) == 1
    assert_nothing_ran(files)


def test_a_body_without_a_choice_is_told(graph_of: Any, server: OpenAIServer) -> None:
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
    server.answers.append(Raw(200, json.dumps(body).encode(), "application/json"))
    with pytest.raises(ModelCallError, match="there is no choice in it"):
        graph_of(openai_of(server, disable_streaming=True)).invoke(INPUT, CONFIG)


# The model's limit


@WAYS
async def test_no_call_of_a_reply_that_was_cut_at_the_limit_is_run(
    files: Path, graph_of: Any, server: OpenAIServer, way: str
) -> None:
    """The arguments are cut, or the reply is cut after them: nobody knows what else was to come."""
    half = Call(WRITE.name, WRITE.arguments[: len(WRITE.arguments) // 2], "c3")
    server.answers += [
        Completion("I do it.", [WRITE, REMOVE, half], finish="length"),
        Completion("Too long."),
    ]
    values = await run(graph_of(), way)
    assert_nothing_ran(files)
    answers = answers_to_calls(values)
    assert [each.tool_call_id for each in answers] == ["c1", "c2", "c3"]
    assert all(NOT_RUN in each.text for each in answers)
    assert values["answer"] == "Too long."


def test_a_server_can_read_the_calls_that_it_is_sent_back(graph_of: Any, server: OpenAIServer) -> None:
    """Servers with chat templates parse the arguments of earlier calls, and refuse what is no JSON."""
    server.answers += [
        Completion(calls=[Call("write_file", PART, "c1")], finish="length"),
        Completion(calls=[Call("write_file", "{broken", "c2")]),
        Completion("Sorry."),
    ]
    assert graph_of().invoke(INPUT, CONFIG)["answer"] == "Sorry."
    sent = server.requests[-1].body["messages"]
    calls = [call for message in sent for call in message.get("tool_calls") or []]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{}, {}]
    answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert answered == [call["id"] for call in calls]
    assert len({*answered}) == 2


def test_a_model_that_is_cut_stops_at_its_budget(files: Path, graph_of: Any, server: OpenAIServer) -> None:
    ids = itertools.count()
    server.respond = lambda _: Completion("I write.", [Call("write_file", PART, f"c{next(ids)}")], "length")
    answer = ask_again(graph_of(max_model_calls=3), "messages")["answer"]
    assert len(server.requests) == 4  # The last one is for an answer.
    assert_nothing_ran(files)
    assert "cut off at the model's limit" in answer


@STREAMED
def test_an_answer_that_is_not_whole_says_so(graph_of: Any, server: OpenAIServer, mode: str) -> None:
    cut = "Norway,\n\n[This answer was cut off at the model's limit.]"
    filtered = "[This answer was stopped by the provider's filter.]"
    graph = graph_of()
    for reply, said in (
        *((Completion("Norway,", finish=each), cut) for each in ("length", "max_tokens", "lengthlength")),
        (Completion("", finish="content_filter"), filtered),
        (Completion("I cannot", finish="content_filter"), f"I cannot\n\n{filtered}"),
        (Completion(refusal="I do not."), "I do not.\n\n[This answer was refused by the model.]"),
    ):
        server.answers.append(reply)
        values = ask_again(graph, mode)
        assert values["answer"].replace(" \n", "\n") == said
        assert values["answer"] == values["messages"][-1].text
    block = {"type": "text", "text": "Norway,", "index": 0}
    end = AIMessageChunk(content=[], response_metadata={"stop_reason": "max_tokens"})
    in_blocks = graph_of(Pieces(replies=[[AIMessageChunk(content=[block]), end]]))
    assert ask_again(in_blocks, "messages")["answer"] == cut


def test_the_end_of_the_run_is_recorded_with_what_is_missing(graph_of: Any, server: OpenAIServer) -> None:
    server.answers.append(Completion("The three largest are", finish="length"))
    events = list(graph_of().stream(INPUT, CONFIG, stream_mode="custom"))
    (called,) = [each for each in events if each["type"].endswith("model_called")]
    (ended,) = [each for each in events if each["type"].endswith("run_ended")]
    assert called["fault"] == ended["reason"] == "cut off at the model's limit"
    assert ended["outcome"] == "incomplete"


# Arguments


BROKEN = [
    '{"command": "rm -rf data/old',
    '{"command": "rm -rf data"',
    '{"command": "rm -rf data"}}',
    '{"command": "true", "command": "rm -rf data"}',
    '{"command": "rm -rf data", "timeout": NaN}',
    '{"command": "rm -rf data",}',
    '{"command": "rm -rf data\n"}',
    "{'command': 'rm -rf data'}",
    '["rm -rf data"]',
    '"rm -rf data"',
    "null",
    "[" * 100_000,
]


@needs_shell
@STREAMED
def test_arguments_are_taken_as_they_are_written_or_not_at_all(
    files: Path, graph_of: Any, server: OpenAIServer, mode: str
) -> None:
    """The provider says that the reply is complete: that is no reason to believe its arguments."""
    graph = graph_of()
    for arguments in BROKEN:
        server.answers += [Completion(calls=[Call("run_command", arguments, "c1")]), Completion("Sorry.")]
        values = ask_again(graph, mode)
        assert_nothing_ran(files)
        (answer,) = answers_to_calls(values)
        assert (answer.status, values["answer"]) == ("error", "Sorry."), arguments
        assert len(answer.text) < 400
    for arguments, listed in (("", "notes.md"), ("{}", "notes.md"), (' {"path": "data"} ', "new")):
        server.answers += [Completion(calls=[Call("list_dir", arguments, "c1")]), Completion("Three.")]
        (answer,) = answers_to_calls(ask_again(graph, mode))
        assert (answer.status, listed in answer.text) == ("success", True)


# Models of a host


class Pieces(ScriptedChatModel):
    """A chat model that streams the chunks it is given, as an integration of a provider does."""

    replies: list[list[AIMessageChunk]]
    provider: str = ""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        named = {"ls_provider": self.provider} if self.provider else {}
        return {**super()._get_ls_params(stop, **kwargs), **named}

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        first, *rest = self.replies.pop(0)
        whole: Any = first + rest
        fields = {"tool_calls": whole.tool_calls, "response_metadata": whole.response_metadata}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(whole.content, **fields))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        yield from (ChatGenerationChunk(message=chunk) for chunk in self.replies.pop(0))


def chunks(arguments: str, **metadata: Any) -> list[AIMessageChunk]:
    """Return a call of write_file in pieces, and a last chunk with that metadata."""
    named = tool_call_chunk(name="write_file", args=arguments[:9], id="c1", index=0)
    rest = tool_call_chunk(args=arguments[9:], index=0)
    return [
        AIMessageChunk(content="I write."),
        AIMessageChunk(content="", tool_call_chunks=[named]),
        AIMessageChunk(content="", tool_call_chunks=[rest]),
        AIMessageChunk(content="", response_metadata=metadata),
    ]


DONE = [AIMessageChunk(content="Done.", response_metadata={"finish_reason": "STOP"})]


LIMITS: list[dict[str, Any]] = [
    {"stop_reason": "max_tokens", "model_provider": "anthropic"},
    {"finish_reason": "MAX_TOKENS", "model_provider": "google_genai"},
    {"done_reason": "length", "model_provider": "ollama"},
    {"stopReason": "max_tokens", "model_provider": "bedrock_converse"},
    {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
]


@STREAMED
def test_each_providers_limit_is_known(files: Path, graph_of: Any, mode: str) -> None:
    for metadata in LIMITS:
        values = ask_again(graph_of(Pieces(replies=[chunks(PART, **metadata), DONE])), mode)
        assert_nothing_ran(files)
        (answer,) = answers_to_calls(values)
        assert (NOT_RUN in answer.text, values["answer"]) == (True, "Done.")


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_no_stream_is_complete_without_an_end(files: Path, graph_of: Any, way: str) -> None:
    """Also where what came is valid, of a provider that says how it ends: more may have been to come."""
    whole = json.dumps(WRITE.args)
    for arguments, provider in ((whole, "anthropic"), (whole, "google_genai"), (whole, "ollama"), (PART, "")):
        values = await run(graph_of(Pieces(replies=[chunks(arguments), DONE], provider=provider)), way)
        assert_nothing_ran(files)
        assert values["answer"] == "Done."


def test_what_came_whole_is_believed(files: Path, graph_of: Any, server: OpenAIServer) -> None:
    server.answers.append(Completion("Here.", finish=None))
    assert ask_again(graph_of(), "values")["answer"] == "Here."
    never_says = Pieces(replies=[chunks(json.dumps(WRITE.args)), [AIMessageChunk(content="Done.")]])
    assert ask_again(graph_of(never_says), "messages")["answer"] == "Done."
    assert (files / "notes.md").read_text() != OLD


# Replies that come in parts


def search(query: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": f"s-{query}", "name": "web_search", "input": {"query": query}}


def part(content: Any, ending: str) -> AIMessage:
    metadata = {"stop_reason": ending, "model_provider": "anthropic"}
    usage: Any = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    return AIMessage(content, response_metadata=metadata, usage_metadata=usage)


@WAYS
async def test_the_rest_of_a_reply_that_the_provider_paused_is_asked_for(graph_of: Any, way: str) -> None:
    a, b = [search("a")], [search("b")]
    recorder = Recorder([part(a, "pause_turn"), part(b, "pause_turn"), part("It rains.", "end_turn")])
    values = await run(graph_of(ScriptedChatModel(recorder.entries)), way)
    assert [each.content for each in recorder.prompts[2][-2:]] == [a, b]
    assert values["messages"][-1].content == [*a, *b, {"type": "text", "text": "It rains."}]
    assert values["answer"] == "It rains."
    counts = values["usage"]["this_turn"]
    assert (counts["model_calls"], counts["output_tokens"]) == (3, 3)


def test_a_reply_that_stays_paused_at_the_end_of_the_budget_says_so(graph_of: Any) -> None:
    model = ScriptedChatModel([part("I look it up.", "pause_turn")])
    values = graph_of(model, max_model_calls=1).invoke(INPUT, CONFIG)
    assert values["answer"] == "I look it up.\n\n[This answer was paused by the provider before its end.]"
