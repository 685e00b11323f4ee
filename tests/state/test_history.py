"""What of a transcript fits: turns, cuts, and the prompt of a turn that outgrows the window."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from skills_agent.state.history import (
    HIGH,
    LOW,
    fit,
    history_of,
    room_for_history,
    shortened,
    summary_tokens,
    tokens_of,
    turns_of,
    turns_to_cover,
)
from skills_agent.state.records import SummaryRecord

TEXTS = st.builds(
    lambda word, times: word * times,
    st.sampled_from(["apples ", "groß ", "リンゴ ", "🍎 ", "1.5,2.5;"]),
    st.sampled_from([0, 1, 20, 400, 3000]),
)


@st.composite
def steps(draw: st.DrawFn) -> list[AnyMessage]:
    """One message of a model with the answers to its calls, in any order."""
    texts = draw(st.dictionaries(st.uuids().map("c{}".format), TEXTS, max_size=3))
    calls = [tool_call(name="read_file", args={"text": text}, id=each) for each, text in texts.items()]
    order = draw(st.permutations([*texts]))
    answers = [ToolMessage(draw(TEXTS), tool_call_id=each, name="read_file") for each in order]
    return [AIMessage(draw(TEXTS), tool_calls=calls), *answers]


@st.composite
def transcripts(draw: st.DrawFn) -> list[AnyMessage]:
    """Whole turns, the last with a request of moderate size."""
    messages: list[AnyMessage] = []
    for request in [*draw(st.lists(TEXTS, max_size=4)), "newest request"]:
        messages.append(HumanMessage(request))
        for step in draw(st.lists(steps(), max_size=5)):
            messages += step
    return [message.model_copy(update={"id": f"m{at}"}) for at, message in enumerate(messages)]


ANY_MESSAGES = st.lists(
    st.one_of(
        st.builds(HumanMessage, TEXTS),
        st.builds(SystemMessage, st.just("Be kind. " * 200)),
        st.builds(
            lambda text, ids: AIMessage(text, tool_calls=[{"name": "f", "args": {}, "id": i} for i in ids]),
            TEXTS,
            st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        ),
        st.builds(lambda text, i: ToolMessage(text, tool_call_id=i, name="f"), TEXTS, st.sampled_from("abc")),
    ),
    max_size=9,
)
"""In any order: calls without answers, answers without calls, the same id twice."""


def assert_no_call_is_split(messages: Sequence[AnyMessage]) -> None:
    waiting: set[str | None] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting
        if isinstance(message, AIMessage):
            waiting = {call["id"] for call in message.tool_calls}
    assert not waiting


@given(transcripts(), st.integers(1_000, 60_000))
def test_any_transcript_fits_into_any_room_with_every_call_beside_its_answer(
    messages: list[AnyMessage], room: int
) -> None:
    shown = fit(messages, room)
    assert_no_call_is_split(shown)
    ids = iter([each.id for each in messages])
    assert all(each.id in ids for each in shown if each.id)
    assert [each.id for each in shown if each.text == "newest request"] == [
        each.id for each in messages if each.text == "newest request"
    ]
    assert shown[-1].id == messages[-1].id
    # Every message at its shortest: so many tokens for a text, and for each call.
    texts = sum(1 + len(getattr(each, "tool_calls", ())) for each in shown)
    assert tokens_of(shown) <= max(room, 85 * texts + 700 * 4)
    if tokens_of(messages) <= room:
        assert shown == messages


@given(ANY_MESSAGES, st.integers(-10, 5_000))
def test_what_is_no_proper_transcript_is_taken_too(messages: list[AnyMessage], room: int) -> None:
    shown = fit(messages, room)
    kept = [each for each in shown if isinstance(each, SystemMessage)]
    assert kept == [each for each in messages if isinstance(each, SystemMessage)]
    joined = [message for turn in turns_of(messages) for message in turn]
    assert joined == messages


def test_a_message_between_a_call_and_its_answer_begins_no_turn() -> None:
    """A provider would refuse what follows without the call."""
    messages: list[AnyMessage] = [
        SystemMessage("Be kind."),
        HumanMessage("one"),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "a"}]),
        HumanMessage("meanwhile"),
        ToolMessage("1", tool_call_id="a"),
        HumanMessage("two"),
    ]
    assert [len(turn) for turn in turns_of(messages)] == [5, 1]


def conversation(turns: int, words: int = 200) -> list[AnyMessage]:
    return [
        message
        for number in range(turns)
        for message in (
            HumanMessage(f"request {number} " + "please " * words, id=f"h{number}"),
            AIMessage(f"answer {number}. " + "indeed " * words, id=f"a{number}"),
        )
    ]


def test_turns_are_covered_only_above_the_high_mark_and_then_down_to_the_low_one() -> None:
    window = 16_000
    room = room_for_history({}, window, 0)
    covered_at = []
    for turns in range(1, 30):
        messages = conversation(turns)
        covered = turns_to_cover({"messages": messages}, window, 0)
        assert bool(covered) == (tokens_of(messages) > HIGH * room)
        if covered:
            covered_at.append(turns)
            rest = messages[2 * len(covered) :]
            assert tokens_of(rest) + summary_tokens(window) <= LOW * room
            one_more = messages[2 * len(covered) - 2 :]
            assert tokens_of(one_more) + summary_tokens(window) > LOW * room
    assert covered_at


@given(st.integers(0, 25), st.integers(500, 40_000), st.integers(0, 30))
def test_the_newest_turn_is_never_covered_and_no_turn_twice(turns: int, window: int, told: int) -> None:
    messages = conversation(turns)
    covering = SummaryRecord(text="SUMMARY", last=f"a{told}", turns=1, turn=1, by="m", failure="")
    summary = covering if told < turns else None
    covered = turns_to_cover({"messages": messages, "summary": summary}, window, 0)
    ids = [message.id for turn in covered for message in turn]
    rest = history_of(messages, summary).messages
    assert ids == [message.id for message in rest[: len(ids)]]
    assert len(rest) - len(ids) >= min(2, len(rest))


def test_what_is_loaded_planned_and_offered_takes_from_the_room() -> None:
    skill = {"name": "a", "instructions": "x" * 8_000, "unloaded": False}
    files = {"a": {"order": 1, "files": [{"path": "scripts/" + "x" * 392}], "omitted": 0}}
    empty = room_for_history({}, 32_000, 0)

    def taken(state: Any) -> int:
        return empty - room_for_history(state, 32_000, 0)

    assert taken({"skills_loaded": {"a": skill}}) == 2_000
    assert taken({"skills_loaded": {"a": skill}, "skill_resources": files}) == pytest.approx(2_100, abs=10)
    gone = {**skill, "unloaded": True}
    assert taken({"skills_loaded": {"a": gone}, "skill_resources": files}) == 0
    assert taken({"catalog": {"size": 4_000}}) == 1_000
    assert taken({"plan": {"goal": "g" * 4_000}}) > 1_000
    assert empty - room_for_history({}, 32_000, 700) == 700
    assert room_for_history({"catalog": {}}, 100, 0) == 0


def growing_turn(number: int) -> list[AnyMessage]:
    """A request, and so many steps of one call each."""
    messages: list[AnyMessage] = [*conversation(3, 50), HumanMessage("go", id="go")]
    for step in range(number):
        asked = AIMessage("", id=f"s{step}", tool_calls=[{"name": "grep", "args": {}, "id": f"c{step}"}])
        answer = ToolMessage("x" * 4_000, tool_call_id=f"c{step}", name="grep", id=f"t{step}")
        messages += [asked, answer]
    return messages


def test_a_growing_turn_leaves_the_beginning_as_it_was_in_most_steps() -> None:
    """Of very many steps each call stays, beside the beginning of its answer."""
    room, steps = 10_000, 30
    shown = [fit(growing_turn(number), room) for number in range(steps)]
    first = next(number for number in range(steps) if tokens_of(growing_turn(number)) > room)
    same = [after[: len(before)] == before for before, after in itertools.pairwise(shown[first - 1 :])]
    assert same.count(True) > len(same) / 2
    assert same.count(False) > 1
    assert all(tokens_of(each) <= room for each in shown)
    assert all(each[-1] == growing_turn(number)[-1] for number, each in enumerate(shown))
    many = fit(growing_turn(100), 8_000)
    assert tokens_of(many) <= 8_000
    assert [each.id for each in many] == [each.id for each in growing_turn(100)]
    assert all(len(each.text) < 300 for each in many[8:60])


def test_a_shortened_call_keeps_its_id_and_the_shape_of_its_arguments() -> None:
    args = {"path": "a.txt", "more": [{"deep": "begin " + "リンゴ" * 9_000 + " end"}, 3]}
    broken = invalid_tool_call(name="f", args="{" + "z" * 9_000, id="b")
    message = AIMessage(
        [{"type": "text", "text": "t" * 9_000}, {"type": "reasoning", "id": "r"}],
        tool_calls=[tool_call(name="write_file", args=args, id="a")],
        invalid_tool_calls=[broken],
    )
    short = shortened(message, 600)
    assert isinstance(short, AIMessage)
    (call,) = short.tool_calls
    assert (call["id"], call["name"], call["args"]["path"]) == ("a", "write_file", "a.txt")
    text, three = call["args"]["more"][0]["deep"], call["args"]["more"][1]
    assert (text[:6], text[-4:], three) == ("begin ", " end", 3)
    assert "of 27010 characters are left out here" in text
    assert short.content[1] == {"type": "reasoning", "id": "r"}
    assert tokens_of([short]) < 1_000
    assert shortened(HumanMessage("x" * 700), 600).content == "x" * 700


def test_a_long_request_is_kept_whole_and_its_large_result_gets_what_is_left() -> None:
    step: list[AnyMessage] = [
        AIMessage("", tool_calls=[{"name": "grep", "args": {}, "id": "a"}]),
        ToolMessage("y" * 60_000, tool_call_id="a", name="grep"),
    ]
    shown = fit([HumanMessage("please " * 4_000), *step], 10_000)
    assert shown[0].text == "please " * 4_000
    assert 2_500 <= tokens_of(shown[2:]) <= 3_000
    assert tokens_of(shown) <= 10_000
