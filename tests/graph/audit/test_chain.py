"""Any single change of any line of a chain is found."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.audit.log import EMPTY, check, head_of, seal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
# Of the chain, and of what tells events apart: those are never lists or objects.
OURS = {"seq", "previous", "hash", "type", "time", "thread", "run", "node", "task", "call_id"}
RECORDS = st.lists(
    st.dictionaries(st.text().filter(lambda key: key not in OURS), JSON, max_size=4),
    min_size=1,
    max_size=6,
)


def chained(records: list[dict[str, Any]]) -> list[bytes]:
    lines = []
    head = EMPTY
    for record in records:
        sealed, line = seal(record, head)
        head = head_of(sealed)
        lines.append(line)
    return lines


@given(RECORDS)
def test_what_was_chained_is_whole(records: list[dict[str, Any]]) -> None:
    faults, head = check(chained(records))
    assert faults == []
    assert head is not None
    assert head.lines == len(records)


@given(RECORDS, st.data())
def test_a_change_of_any_byte_is_found_and_says_in_which_line(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[number]) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda each: each != lines[number][place]))
    lines[number] = lines[number][:place] + bytes([byte]) + lines[number][place + 1 :]
    faults, _ = check(lines)
    assert faults[0].line == number + 1


@given(RECORDS, st.data())
def test_a_byte_more_or_less_is_found(records: list[dict[str, Any]], data: st.DataObject) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[number]) - 1))
    more = data.draw(st.sampled_from([b"", b" ", b"0", b"x"]))
    lines[number] = lines[number][:place] + more + lines[number][place + (not more) :]
    assert check(lines)[0][0].line == number + 1


@given(RECORDS.filter(lambda records: len(records) > 1), st.data())
def test_a_line_that_is_removed_copied_or_moved_is_found(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 2))
    other = data.draw(st.integers(0, len(lines) - 1).filter(lambda each: each != number))
    removed = lines[:number] + lines[number + 1 :]
    assert check(removed)[0][0].line == number + 1
    copied = [*lines[:other], lines[number], *lines[other:]]
    assert check(copied)[0]
    moved = list(lines)
    moved[number], moved[other] = moved[other], moved[number]
    assert check(moved)[0][0].line == min(number, other) + 1


@given(RECORDS.filter(lambda records: len(records) > 1), st.data())
def test_a_line_that_is_written_anew_with_its_own_hash_does_not_fit_the_next(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 2))
    heads = [EMPTY, *(check(lines[: each + 1])[1] for each in range(len(lines)))]
    before = heads[number]
    assert before is not None
    lines[number] = seal({"forged": True}, before)[1]
    faults, _ = check(lines)
    assert [fault.line for fault in faults] == [number + 2]


def test_the_findings_say_what_happened() -> None:
    lines = chained([{"a": each} for each in range(5)])
    assert "has number 4 where 2 belongs" in check([lines[0], *lines[3:]])[0][0].text
    assert "has number 1 where 2 belongs" in check([lines[0], lines[0]])[0][0].text
    assert "no record" in check([b"{}"])[0][0].text
    assert check([*lines[:4], b"nonsense"])[1] is None


def test_another_way_to_write_the_same_record_is_a_change() -> None:
    (line,) = chained([{"a": "x", "b": 1}])
    assert b'{"a":"x","b":1,' in line
    for other in (
        line.replace(b'{"a"', b'{ "a"'),
        line.replace(b'"x"', b'"\\u0078"'),
        line.replace(b'"a":"x","b":1', b'"b":1,"a":"x"'),
        line.replace(b'"a":"x"', b'"a":"y","a":"x"'),
        line.replace(b'"b":1', b'"b":1.0'),
        line + b" ",
    ):
        assert other != line
        assert [fault.line for fault in check([other])[0]] == [1]
