"""An event is a record and one line for a person, whatever stands in the record."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from skills_agent.graph.audit.events import EVENTS, event, kinds, line_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("seconds", "run_seconds", "wait"), st.floats(0, 9)),
    **dict.fromkeys(("args", "usage"), st.dictionaries(st.text(), JSON, max_size=2)),
    **dict.fromkeys(("written", "kept", "lost"), st.just([{"path": "a.txt", "size": 3}])),
    **dict.fromkeys(("skills", "calls", "yes", "channels", "grants"), st.lists(st.text(), max_size=2)),
    **dict.fromkeys(("known", "sources", "problems"), st.integers(0, 9)),
}


@pytest.mark.parametrize("kind", kinds())
@settings(max_examples=5)
@given(data=st.data())
def test_every_event_is_one_line_that_its_record_gives_again(kind: str, data: st.DataObject) -> None:
    names = kinds()[kind].fields.split()
    record = event(
        kind, data.draw(st.fixed_dictionaries({name: FIELDS.get(name, st.text()) for name in names}))
    )
    assert len(line_of(record).splitlines()) == 1
    assert not line_of(record).startswith(f"{kind}: {{")
    assert line_of(json.loads(json.dumps(record))) == line_of(record)


@settings(max_examples=60)
@given(st.sampled_from([*EVENTS, "no_event"]), st.dictionaries(st.text(), JSON, max_size=3))
def test_a_record_of_any_content_has_a_line(kind: str, fields: dict[str, Any]) -> None:
    assert line_of({**fields, "type": kind})


def test_a_changed_record_shows_what_is_in_it() -> None:
    assert line_of({"type": "call_dropped", "tool": 5}) == 'call_dropped: {"type": "call_dropped", "tool": 5}'
    assert line_of({"type": "skill_loaded", "digest": 5}).startswith("skill_loaded: {")
    assert line_of({"type": ["x"]}) == '[\'x\']: {"type": ["x"]}'


def test_a_call_is_shown_with_its_arguments_up_to_a_length_and_what_applies_to_it() -> None:
    fields: Any = {"call_id": "c", "decision": "ask", "by": "policy", "reason": "it runs"}
    call = event("call_judged", tool="run_script", args={"path": "a.py", "args": ["3"]}, **fields)
    assert line_of(call) == 'ask (policy): run_script(path=a.py, args=["3"]): it runs'
    assert len(line_of(event("call_judged", tool="grep", args={"pattern": "x" * 5_000}, **fields))) < 400
    odd = event("call_judged", tool="grep", args="nonsense", **fields)
    assert line_of(odd).startswith("ask (policy): grep(")
    read = event("call_ended", call_id="c", tool="read_file", status="ok", bytes=5, reused=UNSET)
    assert set(read) == {"type", "call_id", "tool", "status", "bytes"}
    assert line_of(read) == "read_file: ok, 5 bytes"
    with pytest.raises(TypeError, match="call_dropped has no skil"):
        event("call_dropped", skil="x")
