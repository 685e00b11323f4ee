"""The process behind grep: reads a query on stdin, prints the lines that match.

Standard library only, and imported by nothing that it searches: it is run as a script in the
workspace's root. Every folder and file is opened relative to the one before it, without links.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import IO, NamedTuple

REFUSED = 2
"""Exit code for a query that cannot be answered; stderr says why. (1 is a bug, as always in Python.)"""
MAX_HITS = 100
MAX_SHOWN = 240
"""Characters of a line that are shown."""
MAX_LINE = 4_000
"""Bytes of a line that are matched at once; a longer line is matched in pieces."""
MAX_DEPTH = 40
SKIPPED = frozenset({"node_modules", "__pycache__"})
LINKED_BY_TOOLS = frozenset({".git", ".venv", "node_modules", "site-packages"})
"""Folders whose files have second names in good faith: package installers and `git clone` link them."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Candidate(NamedTuple):
    """A file that may hold matches."""

    path: str
    name: str
    folder: int
    """Descriptor of the folder that it is in, open until the next one is asked for."""


def main() -> int:
    """Answer one query."""
    query = json.load(sys.stdin)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # typeshed: TextIO
    try:
        pattern = re.compile(query["pattern"], re.IGNORECASE if query["ignore_case"] else 0)
        for hit, line in enumerate(matches(candidates(query["path"], query["glob"]), pattern)):
            if hit == MAX_HITS:
                sys.stdout.write(f"[there are more; these are the first {MAX_HITS}]\n")
                break
            sys.stdout.write(f"{line}\n")
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"This is no regular expression that Python knows: {error}.")
        return REFUSED
    except OSError as error:
        sys.stderr.write(f"Cannot search {query['path']}: {error.strerror}.")
        return REFUSED
    return 0


def candidates(path: str, glob: str | None) -> Iterator[Candidate]:
    """Yield the file at `path`, or the files beneath the folder there, in path order."""
    *folders, last = [part for part in path.split("/") if part not in {"", "."}] or ["."]
    folder = os.open(".", _FOLDER)
    for part in folders:
        folder = os.open(part, _FOLDER, dir_fd=folder)
    if not stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
        yield Candidate(path, last, folder)
        return
    prefix = "" if path == "." else f"{path}/"
    for here, inner, names, descriptor in os.fwalk(last, dir_fd=folder):
        inside = here.removeprefix(last).lstrip("/")
        inner[:] = sorted(name for name in inner if not _is_skipped(name) and inside.count("/") < MAX_DEPTH)
        for name in sorted(names):
            candidate = f"{prefix}{inside}/{name}" if inside else f"{prefix}{name}"
            if not name.startswith(".") and _is_selected(candidate, name, glob):
                yield Candidate(candidate, name, descriptor)


def matches(files: Iterator[Candidate], pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield `path:line: text` for every line that matches."""
    for candidate in files:
        try:
            descriptor = os.open(candidate.name, _FILE, dir_fd=candidate.folder)
        except OSError:  # a link, or not ours to read
            continue
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            alone = status.st_nlink == 1 or not LINKED_BY_TOOLS.isdisjoint(candidate.path.split("/"))
            if stat.S_ISREG(status.st_mode) and alone:
                for number, text in matching_lines(file, pattern):
                    yield f"{candidate.path}:{number}: {text}"


def matching_lines(file: IO[bytes], pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines of a text file that match; nothing for a binary one."""
    number = 1
    seen = 0
    while piece := file.readline(MAX_LINE):
        if b"\0" in piece:
            return
        text = piece.decode("utf-8", errors="replace").rstrip("\r\n")
        match = pattern.search(text)
        if match and seen != number:
            seen = number
            yield number, _shown(text, match.start())
        number += piece.endswith(b"\n")


def _shown(text: str, at: int) -> str:
    if len(text) <= MAX_SHOWN:
        return text
    start = max(0, min(at - MAX_SHOWN // 4, len(text) - MAX_SHOWN))
    before, after = "…" if start else "", "…" if start + MAX_SHOWN < len(text) else ""
    return f"{before}{text[start : start + MAX_SHOWN]}{after}"


def _is_skipped(folder: str) -> bool:
    return folder.startswith(".") or folder in SKIPPED


def _is_selected(path: str, name: str, glob: str | None) -> bool:
    if glob is None:
        return True
    if "/" not in glob:
        return fnmatchcase(name, glob)
    # `**/` also stands for no folder at all.
    return fnmatchcase(path, glob) or fnmatchcase(path, glob.replace("**/", ""))


if __name__ == "__main__":
    sys.exit(main())
