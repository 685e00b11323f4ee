"""The field `hooks`: what is read of it, and that nothing in it raises."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.format.hooks import EVENTS, MAX_HANDLERS, read_hooks
from skills_agent.skills.format.values import FieldValue
from skills_agent.skills.skill import Hook

TEXTS = st.one_of(
    st.text(max_size=8), st.sampled_from([*EVENTS, "command", "prompt", "nan", "1e999", "-1", "*", "Bash("])
)
KEYS = st.one_of(
    st.sampled_from(["type", "command", "prompt", "timeout", "once", "args", "if", "matcher", "hooks"]), TEXTS
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
HANDLERS = st.lists(st.dictionaries(KEYS, VALUES, max_size=5) | VALUES, max_size=3)
HOOKS = st.dictionaries(
    st.sampled_from(EVENTS) | TEXTS, st.lists(st.fixed_dictionaries({"hooks": HANDLERS}), max_size=3)
)


def read(value: Any) -> tuple[tuple[Hook, ...], FieldValue]:
    field = FieldValue("hooks", value, None, [])
    return read_hooks(field), field


@given(HOOKS | VALUES)
def test_whatever_stands_there_is_read_or_reported(value: Any) -> None:
    hooks, field = read(value)
    assert len(hooks) <= MAX_HANDLERS
    assert all(hook.event in EVENTS and (hook.command or hook.prompt).strip() for hook in hooks)
    assert len(field.without_effect) <= len(field.findings)
    assert (
        hooks
        or field.without_effect
        or not value
        or value == {}
        or all(each == [] for each in dict(value).values())
    )


def test_a_handler_is_read_as_it_is_written() -> None:
    handler = {
        "type": "command",
        "command": "./check.sh",
        "args": ["a"],
        "timeout": "20",
        "once": "true",
        "if": "Bash(git *)",
    }
    hooks, field = read({"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]})
    assert hooks == (
        Hook("PreToolUse", "command", "Bash", "Bash(git *)", "./check.sh", ("a",), timeout=20, once=True),
    )
    assert not field.findings


def test_what_is_over_a_bound_has_no_effect_and_is_named() -> None:
    many = [{"command": "x"}] * (MAX_HANDLERS + 1)
    hooks, field = read({"Stop": [{"hooks": many}], "PreToolUse": [{"hooks": [{"command": "x" * 4_001}]}]})
    assert len(hooks) == MAX_HANDLERS
    assert field.without_effect == ["hooks: Stop of type command", "hooks: PreToolUse of type command"]
