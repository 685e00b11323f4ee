"""Any single change of any line of a chain is found."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from skills_agent.graph.audit.log import EMPTY, check, head_of, seal

VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
FIELDS = st.dictionaries(st.sampled_from("abc"), VALUES | st.lists(VALUES, max_size=2), max_size=2)
RECORDS = st.lists(FIELDS, min_size=2, max_size=4)


def chained(records: list[dict[str, Any]]) -> list[bytes]:
    lines = []
    head = EMPTY
    for record in records:
        sealed, line = seal(record, head)
        head = head_of(sealed)
        lines.append(line)
    faults, end = check(lines)
    assert (faults, end) == ([], head)
    return lines


@settings(max_examples=60)
@given(RECORDS, st.data())
def test_a_change_of_any_byte_is_found_and_says_in_which_line(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    place = data.draw(st.integers(0, len(line) - 1))
    put = data.draw(st.binary(max_size=1) | st.sampled_from([b" ", b"0"]))
    taken = data.draw(st.integers(0 if put else 1, 1))
    lines[number] = line[:place] + put + line[place + taken :]
    if lines[number] != line:
        assert check(lines)[0][0].startswith(f"line {number + 1} ")


@settings(max_examples=40)
@given(RECORDS, st.data())
def test_a_line_that_is_removed_copied_moved_or_replaced_is_found(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 2))
    other = data.draw(st.integers(0, len(lines) - 1).filter(lambda each: each != number))
    removed = lines[:number] + lines[number + 1 :]
    assert check(removed)[0][0].startswith(f"line {number + 1} ")
    assert check([*lines[:other], lines[number], *lines[other:]])[0]
    moved = list(lines)
    moved[number], moved[other] = moved[other], moved[number]
    assert check(moved)[0][0].startswith(f"line {min(number, other) + 1} ")
    before = check(lines[:number])[1]
    assert before is not None
    forged = seal({"forged": True}, before)[1]  # With a hash of its own: the next line does not follow it.
    faults, _ = check([*lines[:number], forged, *lines[number + 1 :]])
    assert [int(fault.split()[1]) for fault in faults] == [number + 2]
