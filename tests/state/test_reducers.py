"""Reducers give the same value for any order and repetition of parallel branches."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from skills_agent.state.reducers import (
    add_usage,
    merge_messages,
    merge_records,
    newest,
    newest_catalog,
    spent,
)

Reducer = Callable[[Any, Any], Any]
Updates = st.SearchStrategy[Any]

NAMES = st.sampled_from(["a", "b", "c"])

LOADED = {"name": NAMES, "order": st.integers(0, 3), "unloaded": st.booleans(), "lines": st.integers(0, 2)}
NEWER = {"a_field_of_another_version": st.integers()}
LEDGERS = st.dictionaries(NAMES, st.fixed_dictionaries(LOADED, optional=NEWER), max_size=3)
RESOURCE = {"order": st.integers(0, 3), "files": st.lists(NAMES, max_size=2), "omitted": st.integers(0, 1)}
RESOURCES = st.dictionaries(NAMES, st.fixed_dictionaries(RESOURCE), max_size=3)
GRANT = {"id": NAMES, "revoked": st.booleans(), "tool": NAMES}
GRANTS = st.dictionaries(NAMES, st.fixed_dictionaries(GRANT), max_size=3)
PLANS = st.none() | st.fixed_dictionaries({"goal": st.text(max_size=2), "revision": st.integers(0, 3)})
SUMMARIES = st.none() | st.fixed_dictionaries({"text": st.text(max_size=2), "turn": st.integers(0, 3)})
USAGES = st.builds(
    lambda turn, model, calls, tokens: spent(turn, model, model_calls=calls, input_tokens=tokens),
    st.integers(0, 3),
    NAMES | st.just(""),
    st.integers(0, 5),
    st.integers(0, 9),
)


IDEMPOTENT = [
    pytest.param(merge_records, LEDGERS, id="skills_loaded"),
    pytest.param(merge_records, RESOURCES, id="skill_resources"),
    pytest.param(merge_records, GRANTS, id="grants"),
    pytest.param(newest, PLANS, id="plan"),
    pytest.param(newest, SUMMARIES, id="summary"),
]


def fold(reducer: Reducer, updates: list[Any]) -> Any:
    value = None
    for update in updates:
        value = reducer(value, update)
    return value


@pytest.mark.parametrize(("reducer", "updates"), IDEMPOTENT)
def test_every_order_and_repetition_of_updates_gives_one_value(reducer: Reducer, updates: Updates) -> None:
    @given(st.lists(updates, min_size=1, max_size=3), st.randoms())
    def check(branches: list[Any], random: Any) -> None:
        expected = fold(reducer, branches)
        for order in itertools.permutations(branches):
            assert fold(reducer, list(order)) == expected
        repeated = [*branches, *branches]
        random.shuffle(repeated)
        assert fold(reducer, repeated) == expected

    check()


@pytest.mark.parametrize(("reducer", "updates"), [*IDEMPOTENT, pytest.param(add_usage, USAGES, id="usage")])
def test_grouping_of_updates_does_not_matter(reducer: Reducer, updates: Updates) -> None:
    @given(updates, updates, updates)
    def check(a: Any, b: Any, c: Any) -> None:
        assert fold(reducer, [a, b, c]) == reducer(fold(reducer, [a]), fold(reducer, [b, c]))

    check()


@given(st.lists(USAGES, min_size=1, max_size=4))
def test_usage_sums_in_any_order(updates: list[Any]) -> None:
    values = [fold(add_usage, list(order)) for order in itertools.permutations(updates)]
    assert all(value == values[0] for value in values)
    newest = max(update["turn"] for update in updates)
    assert values[0]["thread"]["model_calls"] == sum(u["this_turn"]["model_calls"] for u in updates)
    assert values[0]["this_turn"]["model_calls"] == sum(
        u["this_turn"]["model_calls"] for u in updates if u["turn"] == newest
    )
    by_model = values[0].get("by_model", {})
    for name in "input_tokens", "model_calls":
        named = sum(u["this_turn"][name] for u in updates if "by_model" in u)
        assert sum(counts.get(name, 0) for counts in by_model.values()) == named


def test_a_value_of_nothing_or_of_another_version_is_taken() -> None:
    older = {"a": {"of": "another version"}}
    assert merge_records(older, None) == merge_records(None, older) == merge_records(older, older) == older
    assert newest(older, None) == newest(None, older) == newest(older, older) == older
    partial: Any = {"turn": 2, "thread": {"model_calls": 1}, "this_turn": {}}
    assert add_usage(partial, None)["turn"] == 2
    assert add_usage(partial, spent(3, "a", model_calls=1))["by_model"] == {"a": {"model_calls": 1}}
    assert (merge_records(None, None), newest(None, None), add_usage(None, None)["turn"]) == ({}, None, 0)
    first: Any = {"digest": "a"}
    second: Any = {"digest": "b"}
    assert newest_catalog(first, second) == newest_catalog(second, None) == second


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        *(({name: 9}, {name: 10}) for name in ("order", "revision", "turn")),
        ({"order": 1, "revision": 2}, {"order": 2, "revision": 1}),
        ({"message": "z", "revoked": False}, {"message": "a", "revoked": True}),
    ],
)
def test_the_newer_record_wins_in_either_order(older: Any, newer: Any) -> None:
    assert newest(older, newer) == newest(newer, older) == newer
    assert merge_records({"a": older}, {"a": newer}) == {"a": newer}


MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda i, t: HumanMessage(t, id=i), st.sampled_from(["1", "2", "3"]), st.text(max_size=2)),
        st.builds(AIMessage, st.text(max_size=2)),
        st.builds(lambda i: RemoveMessage(id=i), st.sampled_from(["1", "2", REMOVE_ALL_MESSAGES])),
        st.tuples(st.just("user"), st.text(max_size=2)),
    ),
    max_size=4,
)


@given(st.lists(MESSAGES, max_size=4), st.lists(MESSAGES, max_size=4))
def test_a_replay_in_larger_batches_gives_the_same_transcript(first: list[Any], second: list[Any]) -> None:
    apart = merge_messages(merge_messages(None, first), second)
    assert apart == merge_messages(None, [*first, *second])
    ids = [message.id for message in apart]
    assert all(ids)
    assert len(set(ids)) == len(ids)


def test_a_message_with_a_known_id_replaces_and_a_removed_one_is_gone() -> None:
    first = merge_messages(None, [[HumanMessage("a", id="1"), AIMessage("b", id="2")]])
    second = merge_messages(first, [[HumanMessage("c", id="1"), RemoveMessage(id="2")]])
    assert [message.content for message in second] == ["c"]
    only = HumanMessage("d", id="9")
    assert merge_messages(second, [[RemoveMessage(id=REMOVE_ALL_MESSAGES), only]]) == [only]
