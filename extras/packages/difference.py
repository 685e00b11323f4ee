"""What an update changes in the files of a skill, line by line where they are text."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from skills_agent.skills.confined import read_beneath
from skills_agent.skills.sources.walk import SKILL_FILE

Kind = Literal["added", "removed", "changed", "mode"]

MAX_BYTES: Final = 512_000
MAX_LINES: Final = 4_000
"""Of a text on one side, beyond what both have at start and end: comparing takes the square of it."""
_CONTEXT: Final = 3
_SHOWN: Final = 12
"""Digits of a digest that people compare."""


class FileDifference(msgspec.Struct, frozen=True):
    """What becomes of one file."""

    path: str
    kind: Kind
    lines: tuple[str, ...] = ()
    """A unified difference as it is written, without its two first lines; empty where it is `said`."""
    said: str = ""
    """In place of lines: sizes and digests."""


def differences(
    old: Path, old_files: Mapping[str, str], new: Path, new_files: Mapping[str, str]
) -> tuple[FileDifference, ...]:
    """Return what differs between two folders, SKILL.md first, given their files as the lock has them."""
    changed = [path for path in {*old_files, *new_files} if old_files.get(path) != new_files.get(path)]
    changed.sort(key=lambda path: (path != SKILL_FILE, path))
    return tuple(each for path in changed for each in _file(path, old, old_files, new, new_files))


def _file(
    path: str, old: Path, old_files: Mapping[str, str], new: Path, new_files: Mapping[str, str]
) -> Iterator[FileDifference]:
    was, now = old_files.get(path, ""), new_files.get(path, "")
    kind: Kind = "added" if not was else "removed" if not now else "changed"
    (digest_was, kind_was), (digest_now, kind_now) = _parts(was), _parts(now)
    if was and now and kind_was != kind_now:
        yield FileDifference(path, "mode", said=f"{_NOUNS[kind_was]} becomes {_NOUNS[kind_now]}")
        if digest_was == digest_now:
            return
    elif kind_now == "exec" and not was:
        yield FileDifference(path, "mode", said="it may be run")
    raw_was = _read(old, path) if was and kind_was != "link" else b""
    raw_now = _read(new, path) if now and kind_now != "link" else b""
    lines = None if "link" in {kind_was, kind_now} else _lines(raw_was, raw_now)
    if lines is not None:
        yield FileDifference(path, kind, tuple(lines), "" if lines else "empty")
        return
    if kind_now == "link":
        yield FileDifference(path, kind, said=f"a link to {(new / path).readlink()}")
        return
    sides = [
        f"{_size(raw)}sha256 {digest[:_SHOWN]}"
        for raw, digest in ((raw_was, digest_was), (raw_now, digest_now))
        if digest
    ]
    yield FileDifference(path, kind, said=" -> ".join(sides))


_NOUNS: Final = {"": "a file", "exec": "a file that may be run", "link": "a link"}


def _parts(written: str) -> tuple[str, str]:
    digest, _, kind = written.partition(" ")
    return digest, kind


def _size(raw: bytes | None) -> str:
    return f"over {MAX_BYTES:,} bytes, " if raw is None else f"{len(raw):,} bytes, "


def _read(folder: Path, path: str) -> bytes | None:
    """Return the bytes of a file; None where they are too many, or cannot be read."""
    try:
        raw = read_beneath(folder, path, MAX_BYTES + 1, follow=False)
    except OSError:
        return None
    return raw if len(raw) <= MAX_BYTES else None


def _lines(was: bytes | None, now: bytes | None) -> list[str] | None:
    """Return a unified difference of two texts; None for what is no text, or takes too long to compare."""
    if was is None or now is None or b"\0" in was or b"\0" in now:
        return None
    try:
        # Not splitlines(): a line separator of Unicode within a line is shown as what it is.
        left, right = was.decode().split("\n"), now.decode().split("\n")
    except UnicodeDecodeError:
        return None
    left, right = map(_ended, (left, right))
    start = _common(left, right)
    end = _common(left[start:][::-1], right[start:][::-1])
    if max(len(left), len(right)) - start - end > MAX_LINES:
        return None
    from_start = max(start - _CONTEXT, 0)
    to_end = max(end - _CONTEXT, 0)
    matcher = difflib.unified_diff(
        left[from_start : len(left) - to_end],
        right[from_start : len(right) - to_end],
        lineterm="",
        n=_CONTEXT,
    )
    return [_moved(line, from_start) for line in list(matcher)[2:]]


def _ended(lines: list[str]) -> list[str]:
    return lines[:-1] if lines[-1] == "" else [*lines, "\\ No newline at end of file"]


def _common(left: list[str], right: list[str]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )


def _moved(line: str, by: int) -> str:
    """Return a line of a difference; the numbers in its heads count from the start of the file."""
    if not by or not line.startswith("@@ "):
        return line
    _, left, right, _ = line.split(" ", 3)

    def later(side: str) -> str:
        first, comma, count = side[1:].partition(",")
        return f"{side[0]}{int(first) + by}{comma}{count}"

    return f"@@ {later(left)} {later(right)} @@"
