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


class Sealed(NamedTuple):
    """A record of a chain, and the line that it is written as, without the line's end."""

    record: dict[str, Any]
    line: bytes


_canonical: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""The one form in which a record is written: sorted keys, no blanks, ASCII. Its hash follows at the end."""


def seal(record: Mapping[str, Any], after: Head) -> Sealed:
    """Return the record as the one that follows `after`."""
    sealed = {**record, "seq": after.lines + 1, "previous": after.hash}
    content = _canonical(sealed).encode()
    found = hashlib.sha256(content).hexdigest()
    return Sealed({**sealed, "hash": found}, content[:-1] + f',"hash":"{found}"}}'.encode())


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
    """Tell whether a line is, byte for byte, the one form of what it says."""
    content = {key: value for key, value in record.items() if key not in {"seq", "previous", "hash"}}
    try:
        return seal(content, Head(record["seq"] - 1, record["previous"])).line == line
    except (KeyError, ValueError):  # no record of a chain; a number that JSON does not have
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
