"""Whatever a thread holds, OpenAI, Anthropic and Gemini take the prompt: up to the HTTP request."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver

from skills_agent.graph import Settings, build_graph
from tests.agents import write_skill
from tests.examples import trying
from tests.openai_server import Call, Completion
from tests.strict_providers import PROVIDERS, StrictServer, strict_server

pytestmark = pytest.mark.slow  # they need the packages of the providers

LONG = "Mind the weather, the soil, the birds and the price of ladders this year. " * 40
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


class Provided(NamedTuple):
    """An agent whose model asks a strict server."""

    server: StrictServer
    graph: Any


@pytest.fixture(scope="module", params=sorted(PROVIDERS))
def provided(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provided]:
    place = tmp_path_factory.mktemp(request.param)
    write_skill(place / ".agent" / "skills", "alpha", "Counts apples.", "APRICOT $ARGUMENTS\n")
    write_skill(place / ".agent" / "skills", "beta", "Counts pears.", "BLUEBERRY\n")
    settings = Settings(
        workspace=place, home=place, bundled_skills=False, context_window=16_000, max_model_calls=3
    )
    with strict_server(request.param) as server:
        yield Provided(server, build_graph(settings, model=server.model()).compile(InMemorySaver()))


_threads = itertools.count()


def fresh_thread(provided: Provided) -> Any:
    for kept in (provided.server.replies, provided.server.requests, provided.server.faults):
        kept.clear()
    return {"configurable": {"thread_id": f"t{next(_threads)}"}}


texts = st.sampled_from(["Hello.", "", " \n", "Count them.", "/alpha red ones", "$beta now", LONG])
blocks = st.one_of(st.builds(lambda text: {"type": "text", "text": text}, texts), st.just(IMAGE))
contents = st.one_of(texts, st.lists(blocks, max_size=3))
names = st.sampled_from([None, "Ada", "Ada Lovelace", "other-agent"])
plain = texts.filter(lambda text: not text.startswith(("/", "$")))
_ids = itertools.count()


@st.composite
def called(draw: st.DrawFn) -> list[AnyMessage]:
    """Make a caller's word of calls and of their results, perhaps with something between them."""
    made = [f"brought {next(_ids)}" for _ in range(draw(st.integers(1, 3)))]
    tool_calls: Any = [
        {"name": "look", "args": {"at": "x"}, "id": each, "type": "tool_call"} for each in made
    ]
    results: list[AnyMessage] = [
        ToolMessage(draw(plain), tool_call_id=each, name="look") for each in draw(st.permutations(made))
    ]
    if draw(st.booleans()):
        results.insert(draw(st.integers(0, len(results))), SystemMessage(draw(texts)))
    if draw(st.booleans()):
        results.pop()
    return [AIMessage(draw(plain), tool_calls=tool_calls), *results]


one: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(SystemMessage, texts),
    st.builds(HumanMessage, contents, name=names),
    st.builds(AIMessage, plain, name=names),
    st.builds(ChatMessage, plain, role=st.sampled_from(["system", "developer", "user", "assistant"])),
)
brought = st.lists(st.one_of(st.lists(one, min_size=1, max_size=3), called()), max_size=3).map(
    lambda groups: [*itertools.chain(*groups)]
)
ASKED_FOR: list[tuple[str, dict[str, Any]]] = [
    ("load_skill", {"name": "alpha", "arguments": "green"}),
    ("load_skill", {"name": "beta"}),
    ("load_skill", {"name": "nope"}),
    ("unload_skill", {"name": "alpha"}),
    ("list_dir", {}),
    ("no_such_tool", {"x": 1}),
]


@st.composite
def replies(draw: st.DrawFn) -> Completion:
    made = draw(st.lists(st.sampled_from(ASKED_FOR), max_size=3))
    repeated = draw(st.booleans())
    ids = ["same" if repeated else f"call_{next(_ids)}" for _ in made]
    calls = [Call(name, args, each) for (name, args), each in zip(made, ids, strict=True)]
    return Completion(
        draw(st.sampled_from(["Well.", LONG])) if not made or draw(st.booleans()) else "", calls
    )


turns = st.lists(
    st.tuples(brought, contents, st.lists(replies(), max_size=4), st.booleans()), min_size=1, max_size=6
)


@trying(15, with_fixtures=True)
@given(turns=turns)
def test_every_prompt_of_a_random_thread_is_taken(provided: Provided, turns: Any) -> None:
    config = fresh_thread(provided)
    for messages, request, queued, is_told in turns:
        provided.server.replies.extend(queued)
        provided.graph.invoke({"messages": [*messages, HumanMessage(request)]}, config)
        provided.server.replies.clear()
        if is_told:
            told = [SystemMessage("Be brief."), AIMessage("I was told so.")]
            provided.graph.update_state(config, {"messages": told})
    assert provided.server.faults == []


def test_a_callers_system_message_beside_a_loaded_skill_and_a_summary_is_taken(provided: Provided) -> None:
    config = fresh_thread(provided)
    provided.server.replies.append(Completion(calls=[Call("load_skill", {"name": "beta"}, "c1")]))
    first = [SystemMessage("You serve a FARM."), HumanMessage("Begin.")]
    provided.graph.invoke({"messages": first}, config)
    for _ in range(8):
        told = [SystemMessage("The PRICE rose."), HumanMessage(LONG * 3)]
        result = provided.graph.invoke({"messages": told}, config)
    assert result["loaded"] == ["beta"]
    assert provided.graph.get_state(config).values["summary"]["turns"] > 0
    sent = str(provided.server.requests[-1])
    assert sent.count("FARM") == 1
    assert "A note from the operator of this conversation, not from the user:\\nThe PRICE rose." in sent
    assert provided.server.faults == []


def test_a_note_that_came_while_a_call_waited_stands_after_its_result(provided: Provided) -> None:
    config = fresh_thread(provided)
    write = Call("write_file", {"path": "a.txt", "content": "x"}, "c1")
    provided.server.replies.append(Completion(calls=[write]))
    (asked,) = provided.graph.invoke({"messages": [HumanMessage("Write.")]}, config)["__interrupt__"]
    assert asked.value["action_requests"]
    provided.graph.update_state(config, {"messages": [SystemMessage("Be brief.")]})
    result = provided.graph.invoke({"messages": [HumanMessage("Never mind.")]}, config)
    assert result["answer"] == "Well."
    assert provided.server.faults == []


def test_cached_tokens_are_counted(provided: Provided) -> None:
    config = fresh_thread(provided)
    usage = provided.graph.invoke({"messages": [HumanMessage("Hello.")]}, config)["usage"]["thread"]
    assert (usage["input_tokens"], usage["cache_read_tokens"]) == (100, 80)
    is_anthropic = provided.server.model()._llm_type == "anthropic-chat"
    assert usage["cache_creation_tokens"] == (10 if is_anthropic else 0)
