"""What an update changes in the files of a skill, line by line where they are text."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from skills_agent.skills.confined import read_at_most
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text_diff import diff, text_of

MAX_BYTES: Final = 512_000
"""Of a text on one side."""
SHOWN: Final = 12
"""Digits of a digest that people compare."""
_NOUNS: Final = {"": "a file", "exec": "a file that may be run", "link": "a link"}


class FileDifference(msgspec.Struct, frozen=True):
    """What becomes of one file."""

    path: str
    kind: Literal["added", "removed", "changed", "mode"]
    lines: tuple[str, ...] = ()
    """A unified difference as it is written, without its two first lines; empty where it is `said`."""
    said: str = ""
    """In place of lines: what it is, and digests."""


def differences(
    old: Path, old_files: Mapping[str, str], new: Path, new_files: Mapping[str, str]
) -> tuple[FileDifference, ...]:
    """Return what differs between two folders, SKILL.md first, given their files as the lock has them."""
    changed = [path for path in {*old_files, *new_files} if old_files.get(path) != new_files.get(path)]
    changed.sort(key=lambda path: (path != SKILL_FILE, path))
    return tuple(
        each
        for path in changed
        for each in _file(path, old / path, old_files.get(path, ""), new / path, new_files.get(path, ""))
    )


def _file(path: str, old: Path, was: str, new: Path, now: str) -> Iterator[FileDifference]:
    (digest_was, _, kind_was), (digest_now, _, kind_now) = was.partition(" "), now.partition(" ")
    if was and now and kind_was != kind_now:
        yield FileDifference(path, "mode", said=f"{_NOUNS[kind_was]} becomes {_NOUNS[kind_now]}")
    elif not was and kind_now == "exec":
        yield FileDifference(path, "mode", said="it may be run")
    if digest_was == digest_now:
        return
    kind: Literal["added", "removed", "changed"] = "added" if not was else "removed" if not now else "changed"
    is_text = "link" not in {kind_was, kind_now}
    left = _text(old) if was and is_text else ""
    right = _text(new) if now and is_text else ""
    if is_text and left is not None and right is not None:
        # Not splitlines(): a line separator of Unicode within a line is shown as what it is.
        lines = tuple(diff(left, right).split("\n")[:-1])
        yield FileDifference(path, kind, lines, "" if lines else "empty")
    elif kind_now == "link":
        yield FileDifference(path, kind, said=f"a link to {new.readlink()}")
    else:
        digests = [f"sha256 {digest[:SHOWN]}" for digest in (digest_was, digest_now) if digest]
        size = f" ({new.stat().st_size:,} bytes)" if now else ""
        yield FileDifference(path, kind, said=" -> ".join(digests) + size)


def _text(file: Path) -> str | None:
    """Return a text; None for what is none, cannot be read, or takes too long to compare."""
    try:
        return text_of(read_at_most(file.parent, file.name, MAX_BYTES, follow=False))
    except OSError:
        return None
