"""The search of the tool grep: its time grows with the text alone, whatever the pattern, and has a limit."""

import re
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any, Final

from langchain_core.tools import ToolException

from skills_agent.graph.tools.content import MAX_CHARS
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.skills.text import clean_text, one_line, readable

MAX_PATTERN: Final = 500
MAX_HITS: Final = 100
MAX_SHOWN: Final = 240
"""Characters of a line that are shown."""
BLOCK: Final = 8_192
"""Bytes of a file that are searched at once, and of a line beyond them: the clock is read in between."""
MAX_MEMORY: Final = 1 << 20
"""Bytes of a compiled pattern: with it, the worst ones take less than a second for a block."""

_NOT_BY_LINES: Final = re.compile(r"\\[Az]|\(\?\w*-")
"""What has another meaning in a block than in each of its lines."""


def search(
    workspace: Workspace, path: str, pattern: str, *, ignore_case: bool, glob: str | None, seconds: float
) -> str:
    """Return the lines that match as `path:line: text`, and a note where there are more, or may be.

    Raises ToolException for a pattern that RE2 does not understand, and for a path that cannot be searched.
    """
    if not 0 < len(pattern) <= MAX_PATTERN:
        raise ToolException(f"The pattern has to have 1 to {MAX_PATTERN} characters.")
    of_line = _compile(pattern, ignore_case=ignore_case)
    # Most blocks have no match: a call for each of their lines takes ten times as long.
    of_block = None if _NOT_BY_LINES.search(pattern) else _compile(f"(?m){pattern}", ignore_case=ignore_case)
    end, hits = time.monotonic() + seconds, dict[str, str]()

    def goes_on(_: object) -> bool:
        return len(hits) <= MAX_HITS and time.monotonic() < end

    names = (name for name in takewhile(goes_on, workspace.files(path)) if _is_selected(name, glob))
    for name in names:
        for start, block in takewhile(goes_on, _blocks(workspace, name)):
            if of_block is None or of_block.search(block):
                for number, line in enumerate(block.split("\n"), start):
                    if match := of_line.search(line):
                        place = f"{one_line(readable(name))}:{number}"
                        hits.setdefault(place, _shown(line, match.start()))
    lines = [f"{place}: {line}" for place, line in hits.items()]
    text = "\n".join(lines[:MAX_HITS])[:MAX_CHARS]
    if len(lines) > MAX_HITS:
        text += f"\n[there are more; these are the first {MAX_HITS}]"
    elif time.monotonic() >= end:
        text += f"\n[stopped after {seconds:g} s; narrow the pattern, the path or the glob]"
    return clean_text(text.encode(errors="replace").decode()).text.lstrip("\n") or "No line matches."


def _compile(pattern: str, *, ignore_case: bool) -> Any:
    """Compile with RE2: Python's own matcher needs time without end for `(a+)+$` and forty letters."""
    import re2  # noqa: PLC0415 - start-up does not need it

    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern.encode(errors="backslashreplace"), options)
    except re2.error as error:
        raise ToolException(
            f"RE2 does not understand this pattern: {error.args[0].decode(errors='replace')}. "
            "It has no lookaround and no backreferences: write the pattern without them."
        ) from error


def _blocks(workspace: Workspace, name: str) -> Iterator[tuple[int, str]]:
    """Yield a file in pieces with the number of their first line: whole lines, or parts of a long one.

    A binary file ends at its first NUL.
    """
    try:
        file = workspace.open(name)
    except OSError:  # a link, a second name, or not ours to read
        return
    with file:
        number = 1
        while (raw := file.read(BLOCK) + file.readline(BLOCK)) and b"\0" not in raw:
            yield number, raw.decode(errors="replace").replace("\r\n", "\n").removesuffix("\n")
            number += raw.count(b"\n")


def _is_selected(path: str, glob: str | None) -> bool:
    if glob is None:
        return True
    if "/" not in glob:
        return fnmatchcase(path.rpartition("/")[2], glob)
    # `**/` also stands for no folder at all.
    return fnmatchcase(path, glob) or fnmatchcase(path, glob.replace("**/", ""))


def _shown(text: str, at: int) -> str:
    if len(text) <= MAX_SHOWN:
        return text
    start = max(0, min(at - MAX_SHOWN // 4, len(text) - MAX_SHOWN))
    before, after = "…" if start else "", "…" if start + MAX_SHOWN < len(text) else ""
    return f"{before}{text[start : start + MAX_SHOWN]}{after}"
