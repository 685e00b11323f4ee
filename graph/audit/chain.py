"""Lines that are chained: each holds its number, the hash of the line before, and its own hash."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

START: Final = "0" * 64
"""What the first line names as the hash of the line before."""


class Fault(NamedTuple):
    """One finding about a chain."""

    line: int
    """From 1; 0 for the file as a whole."""
    text: str


class Head(NamedTuple):
    """Where a chain ends."""

    lines: int
    hash: str
    """Of the last one."""


EMPTY: Final = Head(0, START)


def canonical(record: Mapping[str, Any]) -> bytes:
    """Return the one form in which a record is written: sorted keys, no blanks, ASCII."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def seal(record: Mapping[str, Any], after: Head) -> dict[str, Any]:
    """Return the record as the line that follows `after`."""
    sealed = {**record, "seq": after.lines + 1, "previous": after.hash}
    return {**sealed, "hash": _hash(sealed)}


def check(lines: Iterable[bytes]) -> tuple[list[Fault], Head | None]:
    """Return what is wrong with a chain of whole lines, and where it ends (None: its last line is bad).

    A line counts as changed where one byte of it differs: it must be the canonical form of what it says.
    """
    faults: list[Fault] = []
    head: Head | None = EMPTY
    for number, line in enumerate(lines, start=1):
        record = read(line)
        if record is None:
            faults.append(Fault(number, "was changed: it is no record any more"))
            head = None
            continue
        if not _is_whole(record, line):
            faults.append(Fault(number, "was changed: its hash is not that of what it says"))
            head = None
            continue
        if fault := _gap(record, head, number):
            faults.append(Fault(number, fault))
        head = Head(record["seq"], record["hash"])
    return faults, head


def read(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line; None where it holds none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("seq"), int):
        return None
    return record if isinstance(record.get("hash"), str) else None


def _is_whole(record: Mapping[str, Any], line: bytes) -> bool:
    try:
        return canonical(record) == line and _hash(record) == record["hash"]
    except ValueError:  # a number that JSON does not have
        return False


def _gap(record: Mapping[str, Any], before: Head | None, number: int) -> str | None:
    """Say why a record does not follow the line before, unless that one (None) is known as bad."""
    if before is None:
        return None
    expected, seq = before.lines + 1, record["seq"]
    if seq > expected:
        return f"comes after a gap: {seq - expected} before it are missing (numbers {expected} to {seq - 1})"
    if seq < expected:
        return f"is a copy or out of order: it has number {seq} where {expected} belongs"
    if record["previous"] != before.hash:
        return f"does not follow line {number - 1}: one of the two was replaced"
    return None


def _hash(record: Mapping[str, Any]) -> str:
    without = {key: value for key, value in record.items() if key != "hash"}
    return hashlib.sha256(canonical(without)).hexdigest()
