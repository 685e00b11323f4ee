"""A call's id is one call in a thread, in every form in which a provider writes it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from skills_agent.state.call_ids import known_ids, with_own_ids
from skills_agent.state.transcript import ANSWER_LOST, open_calls, repair

ASKED = AIMessage("", id="1", tool_calls=[tool_call(name="t", args={}, id="a")])
BEFORE: list[AnyMessage] = [HumanMessage("go"), ASKED, ToolMessage("x", tool_call_id="a")]


def ids(message: AIMessage) -> list[Any]:
    return [each["id"] for each in (*message.tool_calls, *message.invalid_tool_calls)]


@given(
    st.lists(st.sampled_from(["a", "b", "c", "", None]), max_size=4),
    st.lists(st.sampled_from(["a", "b", "", None]), max_size=2),
)
def test_every_call_of_a_reply_gets_an_id_of_its_own_and_good_ids_stay(valid: Any, invalid: Any) -> None:
    reply = AIMessage(
        "",
        id="2",
        tool_calls=[tool_call(name="t", args={"n": n}, id=each) for n, each in enumerate(valid)],
        invalid_tool_calls=[invalid_tool_call(name="t", args="{", id=each, error="") for each in invalid],
    )
    own = with_own_ids(reply, BEFORE)
    assert all(ids(own))
    assert len(set(ids(own))) == len(valid) + len(invalid)
    assert known_ids(BEFORE).isdisjoint(ids(own))
    good = [each for at, each in enumerate([*valid, *invalid]) if each not in {"a", "", None}]
    kept = [new for new, old in zip(ids(own), ids(reply), strict=True) if new == old]
    assert set(kept) == set(good)
    assert [each["args"] for each in own.tool_calls] == [{"n": n} for n in range(len(valid))]
    assert with_own_ids(own, BEFORE) is own
    assert ids(with_own_ids(reply, BEFORE)) == ids(own)


@pytest.mark.parametrize(
    ("block", "key"),
    [
        ({"type": "tool_use", "id": "ID", "input": "ARGS"}, "id"),
        ({"type": "function_call", "call_id": "ID", "id": "fc_1", "arguments": "TEXT"}, "call_id"),
        ({"type": "custom_tool_call", "call_id": "ID", "id": "ct_1", "input": "TEXT"}, "call_id"),
        ({"type": "tool_call", "id": "ID", "args": "ARGS", "extras": {"item_id": "fc_1"}}, "id"),
    ],
)
def test_blocks_of_content_keep_to_their_calls(block: dict[str, Any], key: str) -> None:
    """Two calls with one id, which the thread knows, written in another order than they are listed."""

    def written(number: int) -> dict[str, Any]:
        values: dict[str, Any] = {"ID": "a", "ARGS": {"n": number}, "TEXT": f'{{"n": {number}}}'}
        return {name: values.get(str(value), value) for name, value in block.items()}

    reply = AIMessage(
        [{"type": "text", "text": "so"}, written(1), written(0)],
        tool_calls=[tool_call(name="t", args={"n": n}, id="a") for n in (0, 1)],
    )
    own = with_own_ids(reply, BEFORE)
    assert isinstance(own.content, list)
    _, second, first = own.content
    new = ids(own)
    assert "a" not in new
    assert [first, second] == [{**written(number), key: new[number]} for number in (0, 1)]
    assert reply.content[1] == written(1)


def test_what_a_provider_keeps_beside_the_calls_is_found_under_the_new_ids() -> None:
    sent = (("a", '{"n": 0}'), ("", "{"), ("c", "{}"))
    raw = [
        {"id": each, "type": "function", "function": {"name": "t", "arguments": args}} for each, args in sent
    ]
    extras = {"tool_calls": raw, "signatures": {"a": "s", "c": "u"}, "refusal": None}
    good = [tool_call(name="t", args=args, id=each) for each, args in (("a", {"n": 0}), ("c", {}))]
    broken = [invalid_tool_call(name="t", args="{", id="", error="")]
    reply = AIMessage("", additional_kwargs=extras, tool_calls=good, invalid_tool_calls=broken)
    own = with_own_ids(reply, BEFORE)
    first, third, second = ids(own)
    assert third == "c"
    assert [each["id"] for each in own.additional_kwargs["tool_calls"]] == [first, second, "c"]
    assert own.additional_kwargs["signatures"] == {first: "s", "c": "u"}
    assert own.additional_kwargs["refusal"] is None


def test_what_is_known_elsewhere_is_not_taken_for_an_id() -> None:
    assert with_own_ids(AIMessage("again", id="1"), BEFORE).id is None
    assert with_own_ids(AIMessage("again", id="2"), BEFORE).id == "2"
    reply = AIMessage("", tool_calls=[tool_call(name="t", args={}, id="z")])
    assert ids(with_own_ids(reply, [], lambda call_id: call_id == "z")) != ["z"]


def test_an_older_transcript_with_repeated_ids_is_mended_and_every_call_answered() -> None:
    again = AIMessage("", id="2", tool_calls=[tool_call(name="t", args={"n": 1}, id="a")])
    assert [each["args"] for each in open_calls([*BEFORE, again])] == [{"n": 1}]
    assert open_calls([*BEFORE, again, ToolMessage("y", tool_call_id="a")]) == []
    twice = [tool_call(name="t", args={"n": n}, id="b") for n in (1, 2)]
    messages: list[AnyMessage] = [
        *BEFORE,
        again,
        AIMessage("done", id="3"),
        HumanMessage("more", id="4"),
        AIMessage("", id="5", tool_calls=[*twice, tool_call(name="t", args={}, id=None)]),
        ToolMessage("one", tool_call_id="b", id="6"),
        AIMessage("", id="7", tool_calls=[tool_call(name="t", args={}, id="a")]),
        ToolMessage("mine", tool_call_id="a", id="8"),
    ]
    mended = repair(messages, "Not run.")
    assert mended is not None
    waiting: list[str] = []
    seen: set[str] = set()
    for message in mended:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
            continue
        assert waiting == []
        if isinstance(message, AIMessage):
            waiting = ids(message)
            assert seen.isdisjoint(waiting)
            seen.update(waiting)
    assert waiting == []
    texts = [each.text for each in mended if isinstance(each, ToolMessage)]
    assert texts == ["x", "Not run.", "one", ANSWER_LOST, "Not run.", "mine"]
    assert [each.id for each in mended if not isinstance(each, ToolMessage)][1:] == [*"123457"]
    assert repair(mended, "Not run.") is None
