"""The lines of a file that somebody else may have written: none that is too long comes into memory whole."""

from typing import BinaryIO, Final, NamedTuple

CHUNK: Final = 16_384
MAX_FRAGMENT: Final = 500

MAX_LINE: Final = 4 * 1024 * 1024
"""Bytes of one line. None that is written is longer, and of a longer one only the beginning is read."""
_CUT: Final = b" ..."
"""At the end of what is read of a line that is too long: no JSON ends so."""


class Fragment(NamedTuple):
    """What stands behind the last line's end: the writer was killed, or somebody else wrote it."""

    size: int
    """In bytes; 0 where there is none."""
    start: bytes
    """At most `MAX_FRAGMENT` of them."""


def read_lines(file: BinaryIO) -> tuple[list[bytes], Fragment]:
    """Return the lines of a file, of those that are too long the beginning, and what follows the last one."""
    lines = list[bytes]()
    while line := file.readline(MAX_LINE + 1):
        size, part = len(line), line
        while not part.endswith(b"\n") and (part := file.readline(MAX_LINE)):
            size += len(part)
        if not part:
            return lines, Fragment(size, line[:MAX_FRAGMENT])
        lines.append(line[:-1] if size == len(line) else line[:MAX_FRAGMENT] + _CUT)
    return lines, Fragment(0, b"")
