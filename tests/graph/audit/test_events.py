"""An event is a record and one line for a person, whatever stands in the record."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_agent.graph.audit.events import EVENTS, CallEnded, CallJudged, line_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


SECONDS = st.just(msgspec.UNSET) | st.floats(0, 9)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "args": st.dictionaries(st.text(), JSON, max_size=2),
    "written": st.just(msgspec.UNSET) | st.just([{"path": "a.txt", "size": 3}]),
    "seconds": SECONDS,
    "run_seconds": SECONDS,
    "running_seconds": st.integers(0, 10**6),
    "wait": SECONDS,
}


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS.keys())
@settings(max_examples=15)
@given(data=st.data())
def test_every_event_is_one_line_that_its_record_gives_again(kind: Any, data: st.DataObject) -> None:
    fields = {name: strategy for name, strategy in FIELDS.items() if name in kind.__struct_fields__}
    event = data.draw(st.builds(kind, **fields))
    assert len(line_of(event).splitlines()) == 1
    assert line_of(msgspec.json.decode(msgspec.json.encode(event.as_record()))) == line_of(event)


@given(st.sampled_from([*EVENTS, "no_event"]), st.dictionaries(st.text(), JSON, max_size=3))
def test_a_record_of_any_content_has_a_line(kind: str, fields: dict[str, Any]) -> None:
    assert line_of({**fields, "type": kind})


def test_a_changed_record_shows_what_is_in_it() -> None:
    assert line_of({"type": "call_dropped", "tool": 5}) == 'call_dropped: {"type": "call_dropped", "tool": 5}'
    assert line_of({"type": ["x"]}) == '[\'x\']: {"type": ["x"]}'


def test_a_call_is_shown_with_its_arguments_up_to_a_length() -> None:
    fields: Any = {"call_id": "c", "decision": "ask", "by": "policy", "reason": "it runs"}
    call = CallJudged(tool="run_script", args={"path": "a.py", "args": ["3"]}, **fields)
    assert line_of(call) == 'ask (policy): run_script(path=a.py, args=["3"]): it runs'
    assert len(line_of(CallJudged(tool="grep", args={"pattern": "x" * 5_000}, **fields))) < 400
    assert line_of(CallJudged(tool="grep", args="nonsense", **fields)).startswith("ask (policy): grep(")


def test_what_does_not_apply_to_a_call_is_not_in_its_record() -> None:
    read = CallEnded(call_id="c", tool="read_file", skill="", status="ok", bytes=5, error="")
    assert set(read.as_record()) == {"type", "call_id", "tool", "skill", "status", "bytes", "error"}
    assert line_of(read) == "read_file: ok, 5 bytes"
